/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/limits.h"
#include "base/macro.h"
#include "client/tree_place.h"
#include "lessor/args.h"
#include "lessor/bar.h"
#include "lessor/commands.h"
#include "lessor/control_client.h"
#include "lessor/input.h"
#include "lessor/list.h"
#include "lessor/object_link.h"
#include "lessor/progress.h"
#include "lessor/repo.h"

/* Objects: bytes by their hash. Fetching them: object_get.c. */

#define CHORE_TIMEOUT_MS 86400000

DEFINE_CLEANUP(struct progress, progress_free)

/* --- Putting --- */

/* What one argument became. */
struct put {
        char hash[SHA256_HEX_LEN + 1];
        int64_t size; /* of the object */
        bool is_tree;
        int64_t n_files; /* of a tree */
        int64_t n_bytes;
};

static int fail_path(struct cli *cli, int error, const char *path, const char *problem)
{
        _cleanup_(buf_done) struct buf shown = {0};

        output_safe(&shown, lessor_slice_of(path));
        return cli_fail_error(cli, error, shown.p == NULL ? path : shown.p, problem);
}

/* The length of a pipe is not known before it has ended: it goes through a file that has no name. */
static int spool_stdin(struct cli *cli, int *ret_fd)
{
        const char *dir = getenv("TMPDIR");
        int fd = open(dir == NULL || dir[0] == '\0' ? "/tmp" : dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
        char block[65536];
        int64_t total = 0;
        ssize_t n = 0;

        if (fd < 0)
                return cli_fail(cli, CLI_EXIT_FAILED, "cannot keep stdin: %s", strerror(errno));
        while ((n = read(STDIN_FILENO, block, sizeof(block))) != 0) {
                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0 || write(fd, block, (size_t)n) != n)
                        break;
                total += n;
                if (total > LIMIT_OBJECT_BYTES)
                        break;
        }
        if (n == 0) {
                *ret_fd = fd;
                return CLI_EXIT_OK;
        }
        close(fd);
        if (total > LIMIT_OBJECT_BYTES)
                return cli_fail(cli, CLI_EXIT_FAILED, "stdin: more than 5 GiB, which no object can have");
        return cli_fail(cli, CLI_EXIT_FAILED, "cannot keep stdin: %s", strerror(errno));
}

/* All that is put by one command. */
struct putting {
        struct cli *cli;
        struct object_upload *upload;
        struct bar bar;
        int upload_error; /* what sending failed with; 0: it did not */
};

static int fail_put(struct putting *p, int error, const char *path, const char *problem)
{
        bar_end(&p->bar);
        return p->upload_error < 0 ? object_upload_fail(p->upload, p->upload_error)
                                   : fail_path(p->cli, error, path, problem);
}

static void on_moved(void *context, const struct object_figures *figures)
{
        struct putting *p = context;

        bar_move(&p->bar, figures->n_bytes, p->bar.n_files);
}

static int on_progress(void *context, int64_t n_files, int64_t n_bytes)
{
        struct putting *p = context;

        (void)n_bytes; /* what counts is what was sent */
        bar_move(&p->bar, p->bar.done, n_files);
        return 0;
}

static int add(void *context, const struct tree_object *object)
{
        struct putting *p = context;

        p->upload_error = object_upload_add(p->upload, object);
        return p->upload_error;
}

static int put_file(struct putting *p, int fd, const char *path, struct put *ret_put)
{
        struct tree_object object = {.fd = fd, .path = lessor_slice_of(path)};
        int e = tree_hash_file(fd, ret_put->hash, &ret_put->size);

        if (e == 0) {
                object.hash = (struct lessor_slice){ret_put->hash, SHA256_HEX_LEN};
                object.size = ret_put->size;
                e = add(p, &object);
        }
        return e < 0 ? fail_put(p, e, path, NULL) : CLI_EXIT_OK;
}

static int put_directory(struct putting *p, const char *path, struct put *ret_put)
{
        _cleanup_(buf_done) struct buf problem = {0};
        const struct tree_root root = {.dir = AT_FDCWD, .from = path};
        const struct tree_sink sink = {.context = p, .object = add, .progress = on_progress};
        struct tree_packed packed;
        int e = tree_pack(&root, 1, &sink, &packed, &problem);

        if (e < 0)
                return fail_put(p, e, path, problem.p);
        memcpy(ret_put->hash, packed.hash, sizeof(ret_put->hash));
        ret_put->size = packed.size;
        ret_put->is_tree = true;
        ret_put->n_files = packed.n_files;
        ret_put->n_bytes = packed.n_bytes;
        return CLI_EXIT_OK;
}

static int put_path(struct putting *p, const char *path, struct put *ret_put)
{
        struct cli *cli = p->cli;
        int fd = -1, code;
        struct stat st = {0};

        if (strcmp(path, "-") == 0) {
                code = spool_stdin(cli, &fd);
                if (code != CLI_EXIT_OK)
                        return code;
        } else {
                /* Not waiting for the other end of a pipe, which is refused anyway. */
                fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
                if (fd < 0)
                        return fail_path(cli, tree_place_error(errno), path, strerror(errno));
        }
        if (fstat(fd, &st) == 0 && S_ISDIR(st.st_mode))
                code = put_directory(p, path, ret_put);
        else if (S_ISREG(st.st_mode))
                code = put_file(p, fd, path, ret_put);
        else
                code = cli_fail(cli, CLI_EXIT_FAILED, "%s: neither a file nor a directory", path);
        close(fd);
        return code;
}

static int64_t size_of_paths(const struct cli *cli)
{
        int64_t total = 0;
        struct stat st;

        for (size_t i = 0; i < cli->n_args; i++) {
                /* How much is in a directory is only known when all of it was seen. */
                if (stat(cli->args[i], &st) < 0 || !S_ISREG(st.st_mode))
                        return 0;
                total += st.st_size;
        }
        return total;
}

static int report_json(struct cli *cli, const struct put *puts)
{
        struct buf out = {0};
        struct json_writer w;

        json_writer_init(&w, &out);
        json_open_object(&w);
        json_member_cstr(&w, "repo", repo_of(cli));
        json_key(&w, "objects");
        json_open_array(&w);
        for (size_t i = 0; i < cli->n_args; i++) {
                json_open_object(&w);
                json_member_cstr(&w, "path", cli->args[i]);
                json_member_cstr(&w, "hash", puts[i].hash);
                json_member_int(&w, "size", puts[i].size);
                json_member_cstr(&w, "kind", puts[i].is_tree ? "tree" : "file");
                if (puts[i].is_tree) {
                        json_member_int(&w, "files", puts[i].n_files);
                        json_member_int(&w, "fileBytes", puts[i].n_bytes);
                }
                json_close_object(&w);
        }
        json_close_array(&w);
        json_close_object(&w);
        buf_char(&out, '\n');
        return output_print(cli, &out);
}

/* As sha256sum has it. */
static int report(struct cli *cli, const struct put *puts)
{
        struct buf out = {0};

        if (cli->json)
                return report_json(cli, puts);
        for (size_t i = 0; i < cli->n_args; i++) {
                buf_printf(&out, "%s  ", puts[i].hash);
                output_safe(&out, lessor_slice_of(cli->args[i]));
                buf_char(&out, '\n');
        }
        return output_print(cli, &out);
}

/*
 * Asks for nothing, so that a server that is not there is said to be that at once; one that leaves while
 * objects are sent is waited for.
 */
static int meet_server(struct cli *cli)
{
        _cleanup_(buf_done) struct buf body = {0};
        struct control_answer answer = {0};
        struct json_writer w;

        json_writer_init(&w, &body);
        json_open_object(&w);
        json_member_cstr(&w, "repo", repo_of(cli));
        json_key(&w, "hashes");
        json_open_array(&w);
        json_close_array(&w);
        json_close_object(&w);
        return control_post(cli, "/objects/touch", &body, &answer);
}

int run_object_put(struct cli *cli)
{
        _cleanup_(control_link_freep) struct control_link *link = NULL;
        _cleanup_(object_upload_freep) struct object_upload *upload = NULL;
        struct put *puts = lessor_arena_array(cli->arena, cli->n_args, sizeof(*puts));
        struct putting p = {.cli = cli};
        struct object_link_options options = {.repo = repo_of(cli), .moved = on_moved, .context = &p};
        int code;

        if (puts == NULL)
                return cli_fail_nomem(cli);
        code = meet_server(cli);
        if (code == CLI_EXIT_OK)
                code = control_link_open(cli, &link);
        if (code != CLI_EXIT_OK)
                return code;
        options.link = link;
        if (object_upload_new(&options, &upload) < 0)
                return cli_fail_nomem(cli);
        p.upload = upload;
        bar_begin(&p.bar, "sending", size_of_paths(cli), cli_switch(cli, "quiet"));
        for (size_t i = 0; code == CLI_EXIT_OK && i < cli->n_args; i++)
                code = put_path(&p, cli->args[i], &puts[i]);
        if (code == CLI_EXIT_OK) {
                p.upload_error = object_upload_finish(upload);
                if (p.upload_error < 0)
                        code = fail_put(&p, p.upload_error, "", NULL);
        }
        bar_end(&p.bar);
        return code == CLI_EXIT_OK ? report(cli, puts) : code;
}

/* --- Looking --- */

static void put_row(struct output_table *t, const struct json *object, int64_t now_ms)
{
        struct buf cell = {0};

        output_cell(t, control_slice(object, "hash"), COLOUR_NONE);
        output_bytes(&cell, control_int(object, "size"));
        output_cell(t, buf_view(&cell), COLOUR_NONE);
        buf_done(&cell);
        list_when(t, control_int(object, "touchedAt"), now_ms, COLOUR_DIM);
}

int run_object_ls(struct cli *cli)
{
        static const char *const titles[] = {"HASH", ">SIZE", "USED"};
        _cleanup_(buf_done) struct buf path = {0};
        struct list list = {.member = "objects",
                            .titles = titles,
                            .n_titles = 3,
                            .none = "no objects in that repository; `lessor object put` adds some, and "
                                    "`lessor object repos` lists the repositories",
                            .more = "there are more; --after HASH goes on behind one, and --limit shows more",
                            .row = put_row};
        const char *limit = cli_option(cli, "limit");

        if (limit != NULL && args_number(limit, 1, 10000, &(int64_t){0}) < 0)
                return cli_misuse(cli, "--limit: \"%s\" is no number from 1 to 10000", limit);
        buf_text(&path, "/objects/list");
        control_query(&path, "repo", repo_of(cli));
        control_query(&path, "after", cli_option(cli, "after"));
        control_query(&path, "limit", limit == NULL ? "100" : limit);
        if (buf_failed(&path) < 0)
                return cli_fail_nomem(cli);
        list.path = path.p;
        return list_show(cli, &list);
}

static void put_repo(struct output_table *t, const struct json *repo, int64_t now_ms)
{
        (void)now_ms;
        output_cell(t, control_slice(repo, "repo"), COLOUR_NONE);
}

int run_object_repos(struct cli *cli)
{
        static const char *const titles[] = {"REPO"};
        const struct list list = {.path = "/objects/repos",
                                  .member = "repos",
                                  .titles = titles,
                                  .n_titles = 1,
                                  .none = "no repositories yet; `lessor object put` makes one",
                                  .row = put_repo};

        return list_show(cli, &list);
}

/* --- Keeping house --- */

/* Asks for something that takes its time; `step` stands on stderr meanwhile, on a terminal. */
static int post_slowly(struct cli *cli, const char *path, const struct buf *body, const char *step,
                       struct control_answer *ret_answer)
{
        _cleanup_(control_link_freep) struct control_link *link = NULL;
        _cleanup_(http_transfer_freep) struct http_transfer *transfer = NULL;
        _cleanup_(progress_freep) struct progress *progress = NULL;
        const struct http_request request = {
                .method = "POST", .url = path, .body = buf_view(body), .timeout_ms = CHORE_TIMEOUT_MS};
        int code = control_link_open(cli, &link), e;

        if (code != CLI_EXIT_OK)
                return code;
        if (buf_failed(body) < 0 || progress_new(stderr, isatty(STDERR_FILENO) != 1, &progress) < 0)
                return cli_fail_nomem(cli);
        progress_step(progress, step, NULL);
        e = control_link_call(link, &request, NULL, &transfer);
        progress_end(progress);
        if (e < 0 || http_transfer_status(transfer) != 200)
                return control_link_fail(link, e, transfer);
        if (lessor_arena_copy(cli->arena, http_transfer_body(transfer), &ret_answer->text) < 0)
                return cli_fail_nomem(cli);
        ret_answer->root = control_link_json(transfer, cli->arena);
        if (ret_answer->root == NULL)
                return cli_fail(cli, CLI_EXIT_FAILED, "the server's answer is no JSON object");
        return CLI_EXIT_OK;
}

static void put_amount(struct buf *out, const char *what, int64_t n, int64_t bytes)
{
        buf_printf(out, "%s %" PRId64 " object%s, ", what, n, n == 1 ? "" : "s");
        output_bytes(out, bytes);
}

int run_object_gc(struct cli *cli)
{
        const char *grace = cli_option(cli, "grace");
        _cleanup_(buf_done) struct buf body = {0}, text = {0};
        struct control_answer answer = {0};
        struct json_writer w;
        int64_t grace_ms = 0, missing;
        int code;

        if (grace != NULL && args_duration(grace, &grace_ms) < 0)
                return cli_misuse(cli, "--grace: \"%s\" is no time like 90s, 10m, 1h or 7d", grace);
        json_writer_init(&w, &body);
        json_open_object(&w);
        if (grace != NULL)
                json_member_int(&w, "graceMs", grace_ms);
        if (cli_switch(cli, "dry-run"))
                json_member_bool(&w, "dryRun", true);
        json_close_object(&w);
        code = post_slowly(cli, "/objects/gc", &body, "collecting", &answer);
        if (code != CLI_EXIT_OK)
                return code;
        put_amount(&text, cli_switch(cli, "dry-run") ? "would remove" : "removed",
                   control_int(answer.root, "removed"), control_int(answer.root, "removedBytes"));
        put_amount(&text, "; kept", control_int(answer.root, "kept"), control_int(answer.root, "keptBytes"));
        missing = control_int(answer.root, "missing");
        if (missing > 0)
                buf_printf(&text, "; %" PRId64 " that something names are missing", missing);
        return control_report(cli, &answer, "%s", text.p == NULL ? "" : text.p);
}

int run_object_verify(struct cli *cli)
{
        const char *repo = cli_option(cli, "repo");
        _cleanup_(buf_done) struct buf body = {0}, text = {0};
        const struct json *damaged;
        struct control_answer answer = {0};
        struct json_writer w;
        int code;

        json_writer_init(&w, &body);
        json_open_object(&w);
        json_member_cstr(&w, "repo", repo);
        if (cli_switch(cli, "set-aside"))
                json_member_bool(&w, "setAside", true);
        json_close_object(&w);
        code = post_slowly(cli, "/objects/verify", &body, "verifying", &answer);
        if (code != CLI_EXIT_OK)
                return code;
        damaged = json_member_named(answer.root, "damaged");
        json_each (one, damaged)
                buf_printf(&text, "damaged: %s %s\n", control_text(one, "repo"), control_text(one, "hash"));
        if (!cli->json && text.n > 0)
                fwrite(text.p, 1, text.n, stdout);
        buf_clear(&text);
        put_amount(&text, "sound:", control_int(answer.root, "sound"),
                   control_int(answer.root, "soundBytes"));
        code = control_report(cli, &answer, "%s", text.p == NULL ? "" : text.p);
        if (code != CLI_EXIT_OK || json_count(damaged) == 0)
                return code;
        return cli_fail(cli, CLI_EXIT_FAILED, "%zu damaged object%s%s", json_count(damaged),
                        json_count(damaged) == 1 ? "" : "s",
                        cli_switch(cli, "set-aside") ? "; set aside, they can be put again"
                                                     : "; --set-aside lets them be put again");
}
