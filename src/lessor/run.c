/* SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/json_write.h"
#include "base/macro.h"
#include "lessor/bar.h"
#include "lessor/commands.h"
#include "lessor/control_client.h"
#include "lessor/input.h"
#include "lessor/object_link.h"
#include "lessor/output.h"
#include "lessor/run_follow.h"
#include "lessor/run_outputs.h"
#include "lessor/run_spec.h"
#include "lessor/signals.h"

/* One command on a rack: its files go there, its output streams back, its result files come back checked. */

#define CALL_MS       30000
#define STATUS_SIGNAL 128 /* a signal or a limit ended the command */

DEFINE_CLEANUP(struct lessor_stop, lessor_stop_free)

struct running {
        struct cli *cli;
        struct run_spec spec;
        struct control_link *link;
        struct lessor_stop *stop;
        struct bar bar;
        bool quiet;
        int64_t number; /* of the lease */
};

/* What is ours of the exit statuses, told apart from the command's. */
static int our_status(int code)
{
        return code == CLI_EXIT_OK || code == CLI_EXIT_INTERRUPTED ? code : CLI_EXIT_RUN_FAILED;
}

/* --- There --- */

static void on_moved(void *context, const struct object_figures *figures)
{
        struct running *r = context;

        bar_move(&r->bar, figures->n_bytes, figures->n_objects);
}

/* The inputs as a task's entries, and what they name, in the repository. */
static int send_inputs(struct running *r, struct object_upload *upload)
{
        struct tree_sink sink = {.context = upload, .object = object_upload_add};
        _cleanup_(buf_done) struct buf problem = {0};
        struct tree_packed packed;
        struct tree tree = {0};
        int e = 0;

        if (r->spec.n_roots > 0)
                e = tree_pack_entries(r->spec.roots, r->spec.n_roots, &sink, r->cli->arena, &tree, &packed,
                                      &problem);
        if (e < 0 && problem.n > 0)
                return cli_fail_error(r->cli, e, "cannot send the inputs", problem.p);
        if (e < 0)
                return object_upload_fail(upload, e);
        r->spec.task.inputs = tree.entries;
        r->spec.task.n_inputs = tree.n_entries;
        return CLI_EXIT_OK;
}

static int send_task(struct running *r, struct object_upload *upload, char ret_hash[SHA256_HEX_LEN + 1])
{
        _cleanup_(buf_done) struct buf text = {0};
        const char *problem = NULL;
        int e = task_write(&r->spec.task, &text, &problem);

        if (e < 0)
                return cli_fail_error(r->cli, e, "this is no task", problem);
        sha256_hex_of(buf_view(&text), ret_hash);
        e = object_upload_add(upload, &(struct tree_object){.hash = lessor_slice_of(ret_hash),
                                                            .size = (int64_t)text.n,
                                                            .bytes = buf_view(&text),
                                                            .fd = -1,
                                                            .path = LESSOR_SLICE("the task")});
        if (e == 0)
                e = object_upload_finish(upload);
        return e < 0 ? object_upload_fail(upload, e) : CLI_EXIT_OK;
}

static int send(struct running *r, char ret_hash[SHA256_HEX_LEN + 1])
{
        _cleanup_(object_upload_freep) struct object_upload *upload = NULL;
        const struct object_link_options options = {
                .link = r->link, .repo = r->spec.repo, .stop = r->stop, .moved = on_moved, .context = r};
        int code;

        if (object_upload_new(&options, &upload) < 0)
                return cli_fail_nomem(r->cli);
        bar_begin(&r->bar, "sending", 0, r->quiet);
        code = send_inputs(r, upload);
        if (code == CLI_EXIT_OK)
                code = send_task(r, upload, ret_hash);
        bar_end(&r->bar);
        return code;
}

/* --- The lease --- */

static int create(struct running *r, const char *task, struct control_answer *ret_answer)
{
        _cleanup_(buf_done) struct buf body = {0};
        const struct run_spec *spec = &r->spec;
        struct json_writer w;

        json_writer_init(&w, &body);
        json_open_object(&w);
        json_member_cstr(&w, "repo", spec->repo);
        json_member_cstr(&w, "tier", spec->tier);
        json_member_cstr(&w, "task", task);
        json_member_cstr(&w, "taskName", spec->task_name);
        json_member_cstr(&w, "owner", cli_option(r->cli, "owner"));
        json_member_cstr(&w, "run", cli_option(r->cli, "run"));
        json_member_cstr(&w, "key", cli_option(r->cli, "key"));
        json_member_int(&w, "attemptLimit", spec->attempt_limit);
        if (spec->ttl_ms > 0)
                json_member_int(&w, "ttlMs", spec->ttl_ms);
        json_close_object(&w);
        return control_post(r->cli, "/leases/create", &body, ret_answer);
}

static int cancel(struct running *r)
{
        _cleanup_(buf_done) struct buf body = {0};
        struct control_answer answer;
        struct json_writer w;

        json_writer_init(&w, &body);
        json_open_object(&w);
        json_member_int(&w, "number", r->number);
        json_member_cstr(&w, "reason", "stopped by whoever ran it");
        json_close_object(&w);
        if (control_post(r->cli, "/leases/cancel", &body, &answer) != CLI_EXIT_OK)
                return cli_fail(r->cli, CLI_EXIT_INTERRUPTED, "stopped: lease %lld could not be cancelled",
                                (long long)r->number);
        return cli_fail(r->cli, CLI_EXIT_INTERRUPTED, "stopped: lease %lld is cancelled",
                        (long long)r->number);
}

/* --- And back --- */

static int bring(struct running *r, const struct json *verdict)
{
        const struct object_link_options options = {
                .link = r->link, .repo = r->spec.repo, .stop = r->stop, .moved = on_moved, .context = r};
        struct lessor_slice hash = control_slice(verdict, "outputHash");
        struct tree_unpacked unpacked;
        _cleanup_(buf_done) struct buf bytes = {0};
        int code;

        bar_begin(&r->bar, "fetching", 0, r->quiet);
        code = run_outputs_fetch(r->cli, &r->spec, &options, hash, cli_switch(r->cli, "force"), &unpacked);
        bar_end(&r->bar);
        if (code != CLI_EXIT_OK || r->quiet || unpacked.n_files == 0)
                return code;
        output_bytes(&bytes, unpacked.n_bytes);
        fprintf(stderr, "lessor: %lld file%s, %s, in %s\n", (long long)unpacked.n_files,
                unpacked.n_files == 1 ? "" : "s", bytes.p == NULL ? "" : bytes.p, r->spec.dest);
        return code;
}

/* The command ran and did not succeed: its own status, where it has one. */
static int say_failure(struct running *r, const struct json *verdict)
{
        _cleanup_(buf_done) struct buf shown = {0};
        int64_t status = control_int(verdict, "exitCode");

        output_safe(&shown, lessor_slice_of(control_text(verdict, "error")));
        if (shown.n == 0)
                buf_printf(&shown, "it ended with status %lld", (long long)status);
        return cli_fail(r->cli, status > 0 && status < 256 ? (int)status : STATUS_SIGNAL, "%s",
                        shown.p == NULL ? "" : shown.p);
}

/* The lease ended without a verdict of the command's. */
static int say_end(struct running *r, const struct json *lease)
{
        const char *status = control_text(lease, "status"), *cause = control_text(lease, "cause");

        if (strcmp(status, "poisoned") == 0)
                return cli_fail(
                        r->cli, CLI_EXIT_RUN_FAILED,
                        "lease %lld has lost %lld racks, and is given to no more: `lessor lease show %lld` "
                        "tells of them, `lessor lease replay %lld` tries again",
                        (long long)r->number, (long long)control_int(lease, "attemptsSpent"),
                        (long long)r->number, (long long)r->number);
        if (strcmp(status, "expired") == 0)
                return cli_fail(r->cli, CLI_EXIT_RUN_FAILED, "no rack took lease %lld in time",
                                (long long)r->number);
        return cli_fail(r->cli, CLI_EXIT_RUN_FAILED, "lease %lld was %s%s%s", (long long)r->number, status,
                        cause[0] == '\0' || strcmp(cause, status) == 0 ? "" : ": ",
                        cause[0] == '\0' || strcmp(cause, status) == 0 ? "" : cause);
}

static int print_json(struct running *r)
{
        _cleanup_(buf_done) struct buf path = {0};
        struct control_answer answer;
        int code;

        buf_printf(&path, "/leases?number=%lld", (long long)r->number);
        if (buf_failed(&path) < 0)
                return cli_fail_nomem(r->cli);
        code = control_get(r->cli, path.p, &answer);
        return code == CLI_EXIT_OK ? control_print(r->cli, &answer) : code;
}

static int finish(struct running *r, const struct json *root)
{
        const struct json *lease = json_member_named(root, "lease");
        const struct json *verdict = json_member_named(lease, "verdict");
        const char *state = control_text(verdict, "state");
        int code = CLI_EXIT_OK;

        if (r->cli->json)
                code = print_json(r);
        if (code != CLI_EXIT_OK)
                return our_status(code);
        if (strcmp(control_text(lease, "status"), "completed") != 0)
                return say_end(r, lease);
        if (strcmp(state, "success") == 0)
                return our_status(bring(r, verdict));
        if (strcmp(state, "failed") == 0)
                return say_failure(r, verdict);
        return cli_fail(r->cli, CLI_EXIT_RUN_FAILED, "rack %s could not run it: %s",
                        control_text(lease, "claimedBy"), control_text(verdict, "error"));
}

/* --- The whole --- */

static int follow(struct running *r)
{
        const struct run_follow what = {.link = r->link,
                                        .stop = r->stop,
                                        .number = r->number,
                                        .show_logs = !r->cli->json,
                                        .quiet = r->quiet};
        const struct json *root;
        int code = run_follow(&what, r->cli->arena, &root);

        if (code == CLI_EXIT_INTERRUPTED)
                return cancel(r);
        return code == CLI_EXIT_OK ? finish(r, root) : our_status(code);
}

static int run(struct running *r)
{
        char task[SHA256_HEX_LEN + 1];
        struct control_answer answer;
        struct buf line = {0};
        int code = send(r, task);

        if (code == CLI_EXIT_OK)
                code = create(r, task, &answer);
        if (code != CLI_EXIT_OK)
                return our_status(code);
        r->number = control_int(json_member_named(answer.root, "lease"), "number");
        if (!cli_switch(r->cli, "detach"))
                return follow(r);
        if (r->cli->json)
                return control_print(r->cli, &answer);
        buf_printf(&line, "%lld\n", (long long)r->number);
        return output_print(r->cli, &line);
}

static void raise_stop(void *stop)
{
        lessor_stop_raise(stop);
}

int run_run(struct cli *cli)
{
        struct running r = {.cli = cli, .quiet = cli_switch(cli, "quiet")};
        _cleanup_(lessor_stop_freep) struct lessor_stop *stop = NULL;
        _cleanup_(control_link_freep) struct control_link *link = NULL;
        int code = run_spec_read(cli, &r.spec);

        if (code == CLI_EXIT_OK && !cli_switch(cli, "detach"))
                code = run_outputs_check(cli, &r.spec, cli_switch(cli, "force"));
        if (code == CLI_EXIT_OK)
                code = control_link_open(cli, &link);
        if (code == CLI_EXIT_OK && lessor_stop_new(&stop) < 0)
                code = cli_fail_nomem(cli);
        if (code != CLI_EXIT_OK)
                return our_status(code);
        r.link = link;
        r.stop = stop;
        signals_watch(raise_stop, stop);
        code = run(&r);
        signals_watch(NULL, NULL);
        return code;
}
