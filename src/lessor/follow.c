/* SPDX-License-Identifier: MIT */
#include <string.h>

#include "base/clock.h"
#include "base/macro.h"
#include "lessor/commands.h"
#include "lessor/control_client.h"
#include "lessor/input.h"
#include "lessor/lease_name.h"
#include "lessor/lease_show.h"
#include "lessor/run_show.h"

/*
 * Follows a lease or a run until it ends: a line for each change. What changes while nobody asks is seen with
 * the next answer, which tells how it is by then.
 */

DEFINE_CLEANUP(struct lessor_arena, lessor_arena_free)

/* What is said after a change; a lease that was extended has changed, and there is nothing to say. */
static void describe(struct buf *out, const struct json *lease)
{
        lease_append_state(out, lease);
        if (strcmp(control_text(lease, "view"), "claimed") == 0)
                buf_printf(out, " by rack %s, attempt %lld", control_text(lease, "claimedBy"),
                           (long long)control_int(lease, "claimNumber"));
        if (control_text(lease, "cause")[0] != '\0' &&
            strcmp(control_text(lease, "cause"), control_text(lease, "view")) != 0)
                buf_printf(out, " (%s)", control_text(lease, "cause"));
        if (control_text(json_member_named(lease, "verdict"), "error")[0] != '\0')
                buf_printf(out, ": %s", control_text(json_member_named(lease, "verdict"), "error"));
}

/* Whether nothing more will come. */
static bool lease_is_over(const struct json *lease)
{
        const char *status = control_text(lease, "status");

        return strcmp(status, "pending") != 0 && strcmp(status, "claimed") != 0;
}

/* One kind of thing to follow. */
struct followed {
        const char *member; /* of the answer */
        void (*describe)(struct buf *out, const struct json *thing);
        bool (*is_over)(const struct json *thing);
        int (*exit_code)(const struct json *thing);
};

/* The next answer, when it is another than `after`; "" the first time. */
static int next(struct cli *cli, const struct buf *path, const char *after, struct control_answer *ret_answer)
{
        _cleanup_(buf_done) struct buf whole = {0};

        buf_slice(&whole, buf_view(path));
        control_query(&whole, "after", after[0] == '\0' ? NULL : after);
        if (buf_failed(&whole) < 0)
                return cli_fail_nomem(cli);
        return control_get(cli, whole.p, ret_answer);
}

/* Says how it is now, unless that is what was said before. `said` keeps it. */
static int say(struct cli *cli, const struct followed *kind, const struct control_answer *answer,
               struct buf *said)
{
        _cleanup_(buf_done) struct buf now = {0};
        struct buf line = {0};

        if (cli->json)
                return control_print(cli, answer);
        kind->describe(&now, json_member_named(answer->root, kind->member));
        if (lessor_slice_equal(buf_view(&now), buf_view(said)))
                return CLI_EXIT_OK;
        buf_clear(said);
        buf_slice(said, buf_view(&now));
        output_safe(&line, buf_view(&now));
        buf_char(&line, '\n');
        return output_print(cli, &line);
}

static int follow(struct cli *cli, const struct followed *kind, const struct buf *path)
{
        _cleanup_(buf_done) struct buf said = {0}, version = {0};
        struct lessor_arena *of_run = cli->arena;
        int code;

        for (;;) {
                _cleanup_(lessor_arena_freep) struct lessor_arena *arena = lessor_arena_new();
                struct control_answer answer;
                const struct json *thing;
                bool is_over = false;

                if (arena == NULL)
                        return cli_fail_nomem(cli);
                cli->arena = arena; /* of one answer: there may be many */
                code = next(cli, path, version.p == NULL ? "" : version.p, &answer);
                if (code == CLI_EXIT_OK && (version.n == 0 || control_true(answer.root, "changed")))
                        code = say(cli, kind, &answer, &said);
                if (code == CLI_EXIT_OK) {
                        thing = json_member_named(answer.root, kind->member);
                        buf_clear(&version);
                        buf_text(&version, control_text(thing, "version"));
                        is_over = kind->is_over(thing);
                        if (is_over)
                                code = kind->exit_code(thing);
                }
                cli->arena = of_run;
                if (code != CLI_EXIT_OK || is_over)
                        return code;
                if (buf_failed(&version) < 0)
                        return cli_fail_nomem(cli);
        }
}

int run_lease_watch(struct cli *cli)
{
        static const struct followed lease = {"lease", describe, lease_is_over, lease_exit_code};
        _cleanup_(buf_done) struct buf path = {0};
        int code;

        buf_text(&path, "/leases/watch");
        code = lease_name_query(cli, &path);
        return code == CLI_EXIT_OK ? follow(cli, &lease, &path) : code;
}

int run_runs_watch(struct cli *cli)
{
        static const struct followed run = {"run", run_describe, run_is_over, run_exit_code};
        _cleanup_(buf_done) struct buf path = {0};

        buf_text(&path, "/runs/watch");
        control_query(&path, "run", cli->args[0]);
        return buf_failed(&path) < 0 ? cli_fail_nomem(cli) : follow(cli, &run, &path);
}
