/* SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/macro.h"
#include "lessor/commands.h"
#include "lessor/control_client.h"
#include "lessor/control_link.h"
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

/* One kind of thing to follow. */
struct followed {
        const char *member; /* of the answer */
        void (*describe)(struct buf *out, const struct json *thing);
        bool (*is_over)(const struct json *thing);
        int (*exit_code)(const struct json *thing);
};

/* --- Asking --- */

#define WATCH_MS 60000 /* of a watch that is held for 25 s */
/* Until when a server that was there is asked again, and how often: it may be starting. */
#define AWAY_MS  600000
#define RETRY_MS 500

struct follower {
        struct cli *cli;
        const struct followed *kind;
        struct control_link *link;
        const char *path;
        struct buf version; /* the one seen last; empty: none yet */
        struct buf said;
        int64_t away_since_ms; /* monotonic; 0: the server is there */
};

static void follower_done(struct follower *f)
{
        buf_done(&f->version);
        buf_done(&f->said);
        control_link_free(f->link);
}

/* Whether to ask again, after a moment, a server that answered before. */
static bool waits_for_server(struct follower *f)
{
        static const struct timespec moment = {.tv_nsec = RETRY_MS * 1000000L};
        int64_t now_ms = clock_monotonic_ms();

        if (f->version.n == 0)
                return false;
        if (f->away_since_ms == 0) {
                fputs("the server is away; waiting for it\n", stderr);
                f->away_since_ms = now_ms;
        }
        if (now_ms - f->away_since_ms > AWAY_MS)
                return false;
        nanosleep(&moment, NULL);
        return true;
}

/* The next answer: at once the first time, then when it is another than the last or nothing has changed for a
 * while. Its text is the transfer's, its JSON in the arena. Returns an enum cli_exit. */
static int next(struct follower *f, struct lessor_arena *arena, struct http_transfer **ret_transfer,
                const struct json **ret_root)
{
        _cleanup_(buf_done) struct buf path = {0};
        struct http_request request = {.method = "GET", .timeout_ms = WATCH_MS};

        buf_text(&path, f->path);
        control_query(&path, "after", f->version.n == 0 ? NULL : f->version.p);
        if (buf_failed(&path) < 0)
                return cli_fail_nomem(f->cli);
        request.url = path.p;
        for (;;) {
                _cleanup_(http_transfer_freep) struct http_transfer *transfer = NULL;
                int e = control_link_call(f->link, &request, NULL, &transfer);
                long status = e == 0 ? http_transfer_status(transfer) : 0;

                if ((e == LESSOR_E_LATER || status == 503) && waits_for_server(f))
                        continue;
                if (e < 0 || status != 200)
                        return control_link_fail(f->link, e, transfer);
                f->away_since_ms = 0;
                *ret_root = control_link_json(transfer, arena);
                if (*ret_root == NULL)
                        return cli_fail(f->cli, CLI_EXIT_FAILED, "the server's answer is no JSON object");
                *ret_transfer = TAKE(transfer);
                return CLI_EXIT_OK;
        }
}

/* Says how it is now, unless that is what was said before. */
static int say(struct follower *f, const struct http_transfer *transfer, const struct json *thing)
{
        _cleanup_(buf_done) struct buf now = {0};
        struct buf line = {0};

        if (f->cli->json) {
                buf_slice(&line, http_transfer_body(transfer));
                return output_print(f->cli, &line);
        }
        f->kind->describe(&now, thing);
        if (lessor_slice_equal(buf_view(&now), buf_view(&f->said)))
                return CLI_EXIT_OK;
        buf_clear(&f->said);
        buf_slice(&f->said, buf_view(&now));
        output_safe(&line, buf_view(&now));
        buf_char(&line, '\n');
        return output_print(f->cli, &line);
}

/* One answer: says it, and remembers what it was. */
static int step(struct follower *f, bool *ret_over)
{
        _cleanup_(lessor_arena_freep) struct lessor_arena *arena = lessor_arena_new();
        _cleanup_(http_transfer_freep) struct http_transfer *transfer = NULL;
        const struct json *root = NULL, *thing;
        int code;

        if (arena == NULL)
                return cli_fail_nomem(f->cli);
        code = next(f, arena, &transfer, &root);
        if (code != CLI_EXIT_OK)
                return code;
        thing = json_member_named(root, f->kind->member);
        if (f->version.n == 0 || control_true(root, "changed"))
                code = say(f, transfer, thing);
        buf_clear(&f->version);
        buf_text(&f->version, control_text(thing, "version"));
        if (buf_failed(&f->version) < 0 || buf_failed(&f->said) < 0)
                return cli_fail_nomem(f->cli);
        *ret_over = f->kind->is_over(thing);
        return code == CLI_EXIT_OK && *ret_over ? f->kind->exit_code(thing) : code;
}

static int follow(struct cli *cli, const struct followed *kind, const struct buf *path)
{
        _cleanup_(follower_done) struct follower f = {.cli = cli, .kind = kind, .path = path->p};
        bool is_over = false;
        int code = control_link_open(cli, &f.link);

        while (code == CLI_EXIT_OK && !is_over)
                code = step(&f, &is_over);
        return code;
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
