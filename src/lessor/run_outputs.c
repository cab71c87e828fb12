/* SPDX-License-Identifier: MIT */
#include "lessor/run_outputs.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/dir_tree.h"
#include "lessor/object_ahead.h"

static int output_path(const char *dir, struct lessor_slice name, struct buf *ret_path)
{
        buf_clear(ret_path);
        buf_printf(ret_path, "%s/%.*s", dir, (int)name.n, name.p);
        return buf_failed(ret_path);
}

int run_outputs_check(struct cli *cli, const struct run_spec *spec, bool replace)
{
        _cleanup_(buf_done) struct buf path = {0};
        struct stat st;

        if (stat(spec->dest, &st) < 0 || !S_ISDIR(st.st_mode))
                return cli_fail(cli, CLI_EXIT_NOT_FOUND, "--dest: %s is no directory", spec->dest);
        for (size_t i = 0; i < spec->task.n_outputs && !replace; i++) {
                if (output_path(spec->dest, spec->task.outputs[i].path, &path) < 0)
                        return cli_fail_nomem(cli);
                if (lstat(path.p, &st) == 0)
                        return cli_fail(
                                cli, CLI_EXIT_REFUSED,
                                "%s is there already: --force replaces it, --dest DIR puts it elsewhere",
                                path.p);
        }
        return CLI_EXIT_OK;
}

/* Makes the directories on the way to a path, below one that is there. */
static int make_parents(char *path, size_t n_dest)
{
        for (char *slash = strchr(path + n_dest + 1, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
                int r;

                *slash = '\0';
                r = mkdir(path, 0777);
                *slash = '/';
                if (r < 0 && errno != EEXIST)
                        return LESSOR_E_IO;
        }
        return 0;
}

/* Gives one output its name; what is in the way goes into the hidden directory, and with it. */
static int place(struct cli *cli, const struct run_spec *spec, const char *hidden, struct lessor_slice name,
                 bool replace)
{
        _cleanup_(buf_done) struct buf from = {0}, to = {0}, aside = {0};
        struct stat st;

        if (output_path(hidden, name, &from) < 0 || output_path(spec->dest, name, &to) < 0)
                return cli_fail_nomem(cli);
        if (lstat(from.p, &st) < 0)
                return CLI_EXIT_OK; /* it was optional */
        if (make_parents(to.p, strlen(spec->dest)) < 0)
                return cli_fail(cli, CLI_EXIT_FAILED, "cannot make the directory of %s: %s", to.p,
                                strerror(errno));
        if (lstat(to.p, &st) == 0) {
                buf_printf(&aside, "%s/.replaced", hidden);
                if (buf_failed(&aside) < 0)
                        return cli_fail_nomem(cli);
                if (!replace)
                        return cli_fail(cli, CLI_EXIT_REFUSED, "%s has come into being meanwhile", to.p);
                dir_tree_remove(aside.p);
                if (rename(to.p, aside.p) < 0)
                        return cli_fail(cli, CLI_EXIT_FAILED, "cannot replace %s: %s", to.p, strerror(errno));
        }
        if (rename(from.p, to.p) < 0)
                return cli_fail(cli, CLI_EXIT_FAILED, "cannot make %s: %s", to.p, strerror(errno));
        return CLI_EXIT_OK;
}

static int fetch(struct cli *cli, const struct object_link_options *options, struct lessor_slice hash,
                 const char *hidden, struct tree_unpacked *ret_unpacked)
{
        struct object_download download = {.options = *options};
        _cleanup_(object_ahead_freep) struct object_ahead *ahead = NULL;
        struct tree_source source;
        _cleanup_(buf_done) struct buf problem = {0};
        int64_t size;
        int dir, e = object_size(cli, options->repo, hash, &size); /* which the verdict does not tell */

        if (e != CLI_EXIT_OK)
                return e;
        if (size < 0)
                return cli_fail(cli, CLI_EXIT_NOT_FOUND, "the outputs, object %.*s, are not there any more",
                                (int)hash.n, hash.p);
        if (object_ahead_new(&download, &ahead) < 0)
                return cli_fail_nomem(cli);
        source = object_ahead_source(ahead);
        dir = open(hidden, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (dir < 0)
                return cli_fail(cli, CLI_EXIT_FAILED, "cannot open %s: %s", hidden, strerror(errno));
        e = tree_unpack(hash, size, dir, &source, ret_unpacked, &problem);
        close(dir);
        if (e < 0)
                e = cli_fail_error(cli, e, "cannot bring the outputs",
                                   download.problem != NULL ? download.problem : problem.p);
        free(download.problem);
        return e;
}

int run_outputs_fetch(struct cli *cli, const struct run_spec *spec, const struct object_link_options *options,
                      struct lessor_slice hash, bool replace, struct tree_unpacked *ret_unpacked)
{
        _cleanup_(buf_done) struct buf hidden = {0};
        int code;

        *ret_unpacked = (struct tree_unpacked){0};
        buf_printf(&hidden, "%s/.lessor-run-XXXXXX", spec->dest);
        if (buf_failed(&hidden) < 0)
                return cli_fail_nomem(cli);
        if (mkdtemp(hidden.p) == NULL)
                return cli_fail(cli, CLI_EXIT_FAILED, "cannot write to %s: %s", spec->dest, strerror(errno));
        code = fetch(cli, options, hash, hidden.p, ret_unpacked);
        for (size_t i = 0; i < spec->task.n_outputs && code == CLI_EXIT_OK; i++)
                code = place(cli, spec, hidden.p, spec->task.outputs[i].path, replace);
        if (dir_tree_remove(hidden.p) < 0 && code == CLI_EXIT_OK)
                code = cli_fail(cli, CLI_EXIT_FAILED, "cannot remove %s", hidden.p);
        return code;
}
