/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/limits.h"
#include "base/macro.h"
#include "client/dir_tree.h"
#include "client/tree_place.h"
#include "crypto/sha256.h"
#include "lessor/bar.h"
#include "lessor/commands.h"
#include "lessor/control_client.h"
#include "lessor/input.h"
#include "lessor/object_ahead.h"
#include "lessor/output.h"
#include "lessor/repo.h"
#include "lessor/signals.h"

/*
 * Fetching objects. A file appears under its name when all of it is there and verified; until then it is
 * DIR/.lessor-HASH.part, which the next attempt goes on with. A tree appears likewise, from a directory that
 * goes away if it is not finished.
 */

#define READ_STEP 262144

DEFINE_CLEANUP(struct lessor_stop, lessor_stop_free)

struct get {
        struct cli *cli;
        struct object_download download;
        struct bar bar;
        const char *hash;
        const char *to; /* NULL: stdout */
        int64_t size;
        int64_t before; /* bytes that an earlier attempt has left */
        bool to_tree;
        bool force;
        bool raw;
        struct lessor_slice dir; /* that `to` is in; "." or with its final slash */
        struct sha256 sum;
        int out; /* where bytes go */
};

/* Where the new thing is while it is not whole. */
static int path_beside(const struct get *g, const char *end, struct buf *ret_path)
{
        if (g->dir.n > 0)
                buf_slice(ret_path, g->dir);
        buf_printf(ret_path, ".lessor-%.16s%s", g->hash, end);
        return buf_failed(ret_path);
}

static int fail_to(const struct get *g, int error, const char *problem)
{
        _cleanup_(buf_done) struct buf shown = {0};

        output_safe(&shown, lessor_slice_of(g->to == NULL ? "stdout" : g->to));
        return cli_fail_error(g->cli, error, shown.p == NULL ? "" : shown.p, problem);
}

/* What a download failed with; what the server said was said. */
static int fail_get(const struct get *g, int error, const char *problem)
{
        if (error == LESSOR_E_REFUSED)
                return fail_to(g, error, g->download.problem);
        if (error == LESSOR_E_LATER)
                return cli_fail(g->cli, CLI_EXIT_UNREACHABLE, "the server was away for too long");
        if (error == LESSOR_E_CLOSED)
                return cli_fail(g->cli, CLI_EXIT_INTERRUPTED, "interrupted");
        if (problem != NULL && problem[0] != '\0')
                return cli_fail_error(g->cli, error, problem, NULL);
        return fail_to(g, error, NULL);
}

static bool write_all(int fd, struct lessor_slice bytes)
{
        while (bytes.n > 0) {
                ssize_t n = write(fd, bytes.p, bytes.n);

                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0)
                        return false;
                bytes.p += n;
                bytes.n -= (size_t)n;
        }
        return true;
}

static int take(void *context, struct lessor_slice bytes)
{
        struct get *g = context;

        sha256_add(&g->sum, bytes);
        return write_all(g->out, bytes) ? 0 : tree_place_error(errno);
}

static int bring(struct get *g, int64_t offset, int (*take_bytes)(void *context, struct lessor_slice bytes),
                 void *context)
{
        return object_download_bytes(&g->download, lessor_slice_of(g->hash), offset, take_bytes, context);
}

static void on_moved(void *context, const struct object_figures *figures)
{
        struct get *g = context;

        bar_move(&g->bar, g->before + figures->n_bytes, g->to_tree ? figures->n_objects : 0);
}

static bool sum_is_right(struct get *g)
{
        char hex[SHA256_HEX_LEN + 1];

        sha256_end_hex(&g->sum, hex);
        return strcmp(hex, g->hash) == 0;
}

/* --- A file --- */

/* Opens what an earlier attempt left, or a new file, and hashes what is in it. */
static int open_part(struct get *g, const char *path, int64_t *ret_there)
{
        char *step;
        struct stat st;
        int64_t at = 0;
        ssize_t n = 0;

        g->out = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
        if (g->out < 0 || fstat(g->out, &st) < 0)
                return fail_to(g, tree_place_error(errno), strerror(errno));
        if (flock(g->out, LOCK_EX | LOCK_NB) < 0)
                return cli_fail(g->cli, CLI_EXIT_REFUSED, "%s: somebody else is fetching it", g->to);
        if (!S_ISREG(st.st_mode) || st.st_size > g->size)
                st.st_size = 0;
        step = malloc(READ_STEP);
        if (step == NULL)
                return cli_fail_nomem(g->cli);
        while (at < st.st_size && (n = pread(g->out, step, READ_STEP, at)) > 0) {
                sha256_add(&g->sum, (struct lessor_slice){step, (size_t)n});
                at += n;
        }
        free(step);
        if (n < 0 || ftruncate(g->out, at) < 0 || lseek(g->out, at, SEEK_SET) < 0)
                return fail_to(g, tree_place_error(errno), strerror(errno));
        *ret_there = at;
        return CLI_EXIT_OK;
}

/* Gives it its name and the permissions of a new file. */
static int name_part(const struct get *g, const char *part)
{
        mode_t mask = umask(0);

        umask(mask);
        if (fchmod(g->out, 0666 & ~mask) < 0)
                return fail_to(g, tree_place_error(errno), strerror(errno));
        if (renameat2(AT_FDCWD, part, AT_FDCWD, g->to, g->force ? 0 : RENAME_NOREPLACE) == 0)
                return CLI_EXIT_OK;
        if (errno == EEXIST)
                return cli_fail(g->cli, CLI_EXIT_REFUSED, "%s: there is something of that name already",
                                g->to);
        return fail_to(g, tree_place_error(errno), strerror(errno));
}

static int get_file(struct get *g)
{
        _cleanup_(buf_done) struct buf part = {0};
        int64_t there = 0;
        int code, e;

        if (path_beside(g, ".part", &part) < 0)
                return cli_fail_nomem(g->cli);
        code = open_part(g, part.p, &there);
        if (code != CLI_EXIT_OK)
                return code;
        bar_begin(&g->bar, "fetching", g->size, cli_switch(g->cli, "quiet"));
        g->download.figures = (struct object_figures){0};
        g->before = there;
        e = there < g->size ? bring(g, there, take, g) : 0;
        bar_end(&g->bar);
        if (e < 0)
                return fail_get(g, e, NULL);
        if (!sum_is_right(g)) {
                unlink(part.p);
                return cli_fail(g->cli, CLI_EXIT_FAILED, "%s: other bytes came than the hash says; try again",
                                g->to);
        }
        return name_part(g, part.p);
}

/* --- A tree --- */

/* Whether the place is free, before anything is fetched: nothing is there, or an empty directory. */
static int check_place(const struct get *g, bool is_tree)
{
        struct stat st;

        if (lstat(g->to, &st) < 0)
                return errno == ENOENT ? CLI_EXIT_OK : fail_to(g, tree_place_error(errno), strerror(errno));
        if (is_tree && S_ISDIR(st.st_mode) && st.st_nlink <= 2)
                return CLI_EXIT_OK; /* rename(2) says if it is not empty */
        if (!is_tree && g->force && !S_ISDIR(st.st_mode))
                return CLI_EXIT_OK;
        return cli_fail(g->cli, CLI_EXIT_REFUSED, "%s: there is something of that name already", g->to);
}

static int unpack_into(struct get *g, int dir, struct tree_unpacked *ret_unpacked)
{
        _cleanup_(object_ahead_freep) struct object_ahead *ahead = NULL;
        _cleanup_(buf_done) struct buf problem = {0}, shown = {0};
        struct tree_source source;
        int e = object_ahead_new(&g->download, &ahead);

        if (e < 0)
                return cli_fail_nomem(g->cli);
        source = object_ahead_source(ahead);
        g->to_tree = true;
        bar_begin(&g->bar, "fetching", 0, cli_switch(g->cli, "quiet"));
        e = tree_unpack(lessor_slice_of(g->hash), g->size, dir, &source, ret_unpacked, &problem);
        bar_end(&g->bar);
        output_safe(&shown, buf_view(&problem));
        return e < 0 ? fail_get(g, e, shown.p) : CLI_EXIT_OK;
}

static int place_tree(const struct get *g, const char *made, int dir)
{
        mode_t mask = umask(0);

        umask(mask);
        if (fchmod(dir, 0777 & ~mask) == 0 && rename(made, g->to) == 0)
                return CLI_EXIT_OK;
        if (errno == ENOTEMPTY || errno == EEXIST || errno == ENOTDIR)
                return cli_fail(g->cli, CLI_EXIT_REFUSED, "%s: there is something of that name already",
                                g->to);
        return fail_to(g, tree_place_error(errno), strerror(errno));
}

static int report_tree(const struct get *g, const struct tree_unpacked *unpacked)
{
        struct buf out = {0};
        struct json_writer w;

        if (!g->cli->json)
                return CLI_EXIT_OK;
        json_writer_init(&w, &out);
        json_open_object(&w);
        json_member_cstr(&w, "path", g->to);
        json_member_cstr(&w, "hash", g->hash);
        json_member_cstr(&w, "kind", "tree");
        json_member_int(&w, "files", unpacked->n_files);
        json_member_int(&w, "fileBytes", unpacked->n_bytes);
        json_close_object(&w);
        buf_char(&out, '\n');
        return output_print(g->cli, &out);
}

static int get_tree(struct get *g)
{
        _cleanup_(buf_done) struct buf made = {0};
        _cleanup_(tree_place_close) int dir = -1;
        struct tree_unpacked unpacked = {0};
        int code = check_place(g, true);

        if (code != CLI_EXIT_OK)
                return code;
        if (path_beside(g, "-XXXXXX", &made) < 0)
                return cli_fail_nomem(g->cli);
        if (mkdtemp(made.p) == NULL)
                return fail_to(g, tree_place_error(errno), strerror(errno));
        dir = open(made.p, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        code = dir < 0 ? fail_to(g, tree_place_error(errno), strerror(errno))
                       : unpack_into(g, dir, &unpacked);
        if (code == CLI_EXIT_OK)
                code = place_tree(g, made.p, dir);
        if (code != CLI_EXIT_OK) {
                dir_tree_remove(made.p);
                return code;
        }
        return report_tree(g, &unpacked);
}

/* --- All of it --- */

static int get_to_stdout(struct get *g)
{
        int e;

        g->out = STDOUT_FILENO;
        /* A terminal that shows the bytes has no place for a bar. */
        bar_begin(&g->bar, "fetching", g->size, cli_switch(g->cli, "quiet") || isatty(STDOUT_FILENO) == 1);
        e = bring(g, 0, take, g);
        bar_end(&g->bar);
        if (e < 0)
                return fail_get(g, e, NULL);
        if (!sum_is_right(g))
                return cli_fail(g->cli, CLI_EXIT_FAILED, "other bytes came than the hash says");
        return CLI_EXIT_OK;
}

static int report_file(const struct get *g)
{
        struct buf out = {0};
        struct json_writer w;

        if (!g->cli->json)
                return CLI_EXIT_OK;
        json_writer_init(&w, &out);
        json_open_object(&w);
        json_member_cstr(&w, "path", g->to);
        json_member_cstr(&w, "hash", g->hash);
        json_member_cstr(&w, "kind", "file");
        json_member_int(&w, "size", g->size);
        json_close_object(&w);
        buf_char(&out, '\n');
        return output_print(g->cli, &out);
}

static int first_bytes(void *context, struct lessor_slice bytes)
{
        struct buf *first = context;

        buf_slice(first, bytes);
        if (buf_failed(first) < 0)
                return LESSOR_E_NOMEM;
        return first->n >= tree_prefix.n ? LESSOR_E_TOO_LARGE : 0; /* enough */
}

/* Looks at the beginning of the object, whether it is a tree. */
static int is_tree(struct get *g, bool *ret_tree)
{
        _cleanup_(buf_done) struct buf first = {0};
        int e;

        *ret_tree = false;
        if (g->raw || g->size > LIMIT_TREE_BYTES || g->size < (int64_t)tree_prefix.n)
                return CLI_EXIT_OK;
        e = bring(g, 0, first_bytes, &first);
        if (e < 0 && e != LESSOR_E_TOO_LARGE)
                return fail_get(g, e, NULL);
        *ret_tree = first.n >= tree_prefix.n && memcmp(first.p, tree_prefix.p, tree_prefix.n) == 0;
        return CLI_EXIT_OK;
}

static int get(struct get *g)
{
        bool tree;
        int code = object_size(g->cli, repo_of(g->cli), lessor_slice_of(g->hash), &g->size);

        if (code != CLI_EXIT_OK)
                return code;
        if (g->size < 0)
                return cli_fail(g->cli, CLI_EXIT_NOT_FOUND, "there is no object %s in repository %s", g->hash,
                                repo_of(g->cli));
        if (g->to == NULL)
                return get_to_stdout(g);
        code = is_tree(g, &tree);
        if (code != CLI_EXIT_OK)
                return code;
        if (tree)
                return get_tree(g);
        code = check_place(g, false);
        if (code == CLI_EXIT_OK)
                code = get_file(g);
        if (g->out >= 0)
                close(g->out);
        return code == CLI_EXIT_OK ? report_file(g) : code;
}

static void raise_stop(void *context)
{
        lessor_stop_raise(context);
}

static bool is_hash(const char *text)
{
        return strlen(text) == SHA256_HEX_LEN && strspn(text, "0123456789abcdef") == SHA256_HEX_LEN;
}

int run_object_get(struct cli *cli)
{
        _cleanup_(lessor_stop_freep) struct lessor_stop *stop = NULL;
        _cleanup_(control_link_freep) struct control_link *link = NULL;
        struct get g = {.cli = cli, .hash = cli->args[0], .out = -1};
        const char *slash;
        int code;

        if (!is_hash(g.hash))
                return cli_misuse(cli, "\"%s\" is no hash: 64 lower-case hex digits", g.hash);
        if (cli->n_args > 1 && strcmp(cli->args[1], "-") != 0)
                g.to = cli->args[1];
        if (g.to != NULL && (slash = strrchr(g.to, '/')) != NULL)
                g.dir = (struct lessor_slice){g.to, (size_t)(slash - g.to) + 1};
        if (g.to != NULL && (g.to[0] == '\0' || g.to[strlen(g.to) - 1] == '/'))
                return cli_misuse(cli, "name what it shall be called, not where it shall be put");
        g.force = cli_switch(cli, "force");
        g.raw = cli_switch(cli, "raw");
        code = control_link_open(cli, &link);
        if (code != CLI_EXIT_OK)
                return code;
        if (lessor_stop_new(&stop) < 0)
                return cli_fail_nomem(cli);
        g.download.options = (struct object_link_options){
                .link = link, .repo = repo_of(cli), .stop = stop, .moved = on_moved, .context = &g};
        sha256_start(&g.sum);
        signals_watch(raise_stop, stop);
        code = get(&g);
        signals_watch(NULL, NULL);
        free(g.download.problem);
        return code;
}
