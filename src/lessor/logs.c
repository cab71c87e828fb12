/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/macro.h"
#include "lessor/commands.h"
#include "lessor/control_client.h"
#include "lessor/control_link.h"
#include "lessor/lease_name.h"
#include "lessor/lease_show.h"
#include "lessor/log_events.h"
#include "lessor/output.h"

/*
 * What an attempt wrote: its stdout on ours and its stderr on ours, as it comes. With --follow until it has
 * ended, and then the next attempt of the lease, if there is one.
 */

#define WAIT_MS     60000
#define STALL_MS    0     /* a task may be silent for as long as it likes */
#define PATIENCE_MS 60000 /* for a server that cannot be reached any more */
#define RETRY_MS    500

DEFINE_CLEANUP(struct lessor_arena, lessor_arena_free)

/* One stream of an attempt on its way. */
struct stream {
        const char *name;
        FILE *to;
        int64_t offset; /* that was shown */
        struct http_transfer *transfer;
        bool done;
        bool failed_to_write;
};

struct logs {
        struct cli *cli;
        struct control_link *link;
        bool follow;
        char attempt[80];  /* execution id */
        int64_t number;    /* of the attempt; 0: none yet */
        char version[128]; /* of the lease, as it was last seen */
        bool ended;        /* the lease has */
        struct stream streams[2];
        size_t n_streams;
        struct log_events events; /* with --json */
};

/* --- The lease --- */

/* The attempt that is meant: the one that was named, or the newest. NULL: there is none. */
static const struct json *choose_attempt(const struct logs *l, const struct json *attempts)
{
        const char *word = cli_option(l->cli, "attempt");
        const struct json *chosen = NULL;

        json_each (attempt, attempts) {
                const char *id = control_text(attempt, "executionId");
                char number[24];

                snprintf(number, sizeof(number), "%lld", (long long)control_int(attempt, "number"));
                if (id[0] != '\0' && (word == NULL || strcmp(word, id) == 0 || strcmp(word, number) == 0))
                        chosen = attempt;
        }
        return chosen;
}

static int read_lease(struct logs *l, const struct json *root)
{
        const struct json *lease = json_member_named(root, "lease");
        const struct json *attempt = choose_attempt(l, json_member_named(root, "attempts"));

        if (lease == NULL)
                return cli_fail(l->cli, CLI_EXIT_FAILED, "the server's answer makes no sense");
        l->ended = lease_is_over(lease);
        snprintf(l->version, sizeof(l->version), "%s", control_text(lease, "version"));
        if (strcmp(control_text(lease, "mode"), "function") == 0)
                return cli_fail(l->cli, CLI_EXIT_NOT_FOUND,
                                "a function keeps no log: `lessor lease show` has its "
                                "result");
        if (attempt == NULL && cli_option(l->cli, "attempt") != NULL)
                return cli_fail(l->cli, CLI_EXIT_NOT_FOUND, "%s has no attempt %s", lease_name_text(l->cli),
                                cli_option(l->cli, "attempt"));
        if (attempt != NULL) {
                snprintf(l->attempt, sizeof(l->attempt), "%s", control_text(attempt, "executionId"));
                l->number = control_int(attempt, "number");
        }
        return CLI_EXIT_OK;
}

static void rest(void)
{
        const struct timespec while_it_starts = {.tv_nsec = RETRY_MS * 1000000L};

        nanosleep(&while_it_starts, NULL);
}

/* Asks how the lease is; with `wait`, once it has changed. A server that is gone for a moment is waited for.
 */
static int look(struct logs *l, bool wait)
{
        _cleanup_(lessor_arena_freep) struct lessor_arena *arena = lessor_arena_new();
        _cleanup_(buf_done) struct buf path = {0};
        struct http_request request = {.method = "GET", .timeout_ms = WAIT_MS};
        int64_t until_ms = clock_monotonic_ms() + PATIENCE_MS;
        int code;

        buf_text(&path, wait ? "/leases/watch" : "/leases");
        code = lease_name_query(l->cli, &path);
        if (code != CLI_EXIT_OK)
                return code;
        if (wait)
                control_query(&path, "after", l->version);
        if (arena == NULL || buf_failed(&path) < 0)
                return cli_fail_nomem(l->cli);
        request.url = path.p;
        for (;;) {
                _cleanup_(http_transfer_freep) struct http_transfer *transfer = NULL;
                int e = control_link_call(l->link, &request, NULL, &transfer);

                if (e == 0 && http_transfer_status(transfer) == 200)
                        return read_lease(l, control_link_json(transfer, arena));
                if (!l->follow || l->version[0] == '\0' ||
                    (e != LESSOR_E_LATER && (e < 0 || http_transfer_status(transfer) != 503)) ||
                    clock_monotonic_ms() > until_ms)
                        return control_link_fail(l->link, e, transfer);
                rest();
        }
}

/* --- One attempt --- */

static int take(void *context, long status, struct lessor_slice bytes)
{
        struct stream *s = context;

        (void)status;
        if (fwrite(bytes.p, 1, bytes.n, s->to) != bytes.n || fflush(s->to) != 0) {
                s->failed_to_write = true;
                return LESSOR_E_IO;
        }
        s->offset += (int64_t)bytes.n;
        return 0;
}

static int take_events(void *context, long status, struct lessor_slice bytes)
{
        struct logs *l = context;

        (void)status;
        return log_events_take(&l->events, bytes);
}

static int start(struct logs *l, struct stream *s)
{
        _cleanup_(buf_done) struct buf path = {0};
        char offset[24], last_id[96];
        const char *headers[] = {"Accept: text/event-stream", last_id};
        struct http_request request = {
                .method = "GET", .stall_ms = STALL_MS, .headers = headers, .context = s};
        int code;

        buf_text(&path, "/logs");
        code = lease_name_query(l->cli, &path);
        if (code != CLI_EXIT_OK)
                return LESSOR_E_INVALID;
        snprintf(offset, sizeof(offset), "%lld", (long long)s->offset);
        control_query(&path, "attempt", l->attempt);
        control_query(&path, "stream", s->name);
        control_query(&path, "follow", l->follow ? "1" : "0");
        if (l->cli->json) {
                snprintf(last_id, sizeof(last_id), "Last-Event-ID: %s", l->events.last_id);
                request.n_headers = l->events.last_id[0] == '\0' ? 1 : 2;
                request.context = l;
                request.take = take_events;
        } else {
                control_query(&path, "offset", offset);
                request.take = take;
        }
        if (buf_failed(&path) < 0)
                return LESSOR_E_NOMEM;
        request.url = path.p;
        return control_link_start(l->link, &request, &s->transfer);
}

/* A stream that broke off goes on where it was, as long as the server comes back soon. */
static int finish(struct logs *l, struct stream *s, const int64_t *until_ms)
{
        _cleanup_(http_transfer_freep) struct http_transfer *transfer = TAKE(s->transfer);
        int e = http_transfer_error(transfer);

        if (e == 0 && http_transfer_status(transfer) == 200) {
                s->done = true;
                return CLI_EXIT_OK;
        }
        if (s->failed_to_write || l->events.failed_to_write)
                return cli_fail(l->cli, CLI_EXIT_FAILED, "cannot write to %s",
                                s->to == stderr ? "stderr" : "stdout");
        if (!l->follow || (e != LESSOR_E_LATER && (e < 0 || http_transfer_status(transfer) != 503)) ||
            clock_monotonic_ms() > *until_ms)
                return control_link_fail(l->link, e, transfer);
        rest();
        return CLI_EXIT_OK;
}

static bool all_done(const struct logs *l)
{
        for (size_t i = 0; i < l->n_streams; i++)
                if (!l->streams[i].done)
                        return false;
        return true;
}

/* Shows the attempt's streams, both at a time, as they come. */
static int show_attempt(struct logs *l)
{
        int64_t until_ms = clock_monotonic_ms() + PATIENCE_MS;
        int code = CLI_EXIT_OK;

        while (code == CLI_EXIT_OK && !all_done(l)) {
                int e = 0;

                for (size_t i = 0; e == 0 && i < l->n_streams; i++)
                        if (!l->streams[i].done && l->streams[i].transfer == NULL)
                                e = start(l, &l->streams[i]);
                if (e == 0)
                        e = http_client_wait(control_link_http(l->link), NULL, WAIT_MS);
                if (e == LESSOR_E_TIMEOUT)
                        e = 0;
                if (e < 0)
                        return control_link_fail(l->link, e, NULL);
                for (size_t i = 0; code == CLI_EXIT_OK && i < l->n_streams; i++) {
                        struct stream *s = &l->streams[i];

                        if (s->transfer == NULL)
                                continue;
                        if (!http_transfer_done(s->transfer))
                                until_ms = clock_monotonic_ms() + PATIENCE_MS;
                        else
                                code = finish(l, s, &until_ms);
                }
        }
        return code;
}

static void forget_attempt(struct logs *l)
{
        for (size_t i = 0; i < l->n_streams; i++) {
                struct stream *s = &l->streams[i];

                s->transfer = http_transfer_free(s->transfer);
                s->offset = 0;
                s->done = false;
        }
        log_events_clear(&l->events);
}

/* --- One after the other --- */

static void say(const struct logs *l, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void say(const struct logs *l, const char *format, ...)
{
        va_list args;

        if (l->cli->json)
                return;
        fflush(stdout);
        fputs("lessor: ", stderr);
        va_start(args, format);
        vfprintf(stderr, format, args);
        va_end(args);
        fputc('\n', stderr);
}

/* Waits until there is a later attempt than number `before`, or will be none. */
static int await_attempt(struct logs *l, int64_t before)
{
        int code = CLI_EXIT_OK;

        while (code == CLI_EXIT_OK && l->number <= before && !l->ended)
                code = look(l, true);
        return code;
}

static int follow(struct logs *l)
{
        int64_t shown = 0;
        int code = CLI_EXIT_OK;

        if (l->number == 0 && !l->ended)
                say(l, "no rack has taken %s yet", lease_name_text(l->cli));
        for (;;) {
                code = await_attempt(l, shown);
                if (code != CLI_EXIT_OK || l->number <= shown)
                        return code;
                if (shown > 0)
                        say(l, "attempt %lld was given up; this is attempt %lld", (long long)shown,
                            (long long)l->number);
                shown = l->number;
                code = show_attempt(l);
                forget_attempt(l);
                if (code != CLI_EXIT_OK || cli_option(l->cli, "attempt") != NULL)
                        return code;
                code = look(l, false);
                if (code != CLI_EXIT_OK)
                        return code;
                if (l->number == shown && !l->ended)
                        say(l, "attempt %lld has ended, and %s has not: waiting for the next",
                            (long long)shown, lease_name_text(l->cli));
        }
}

static void choose_streams(struct logs *l)
{
        const char *stream = cli_option(l->cli, "stream");

        if (stream != NULL || l->cli->json) {
                l->streams[l->n_streams++] = (struct stream){.name = stream, .to = stdout};
                return;
        }
        l->streams[l->n_streams++] = (struct stream){.name = "stdout", .to = stdout};
        l->streams[l->n_streams++] = (struct stream){.name = "stderr", .to = stderr};
}

int run_logs(struct cli *cli)
{
        _cleanup_(control_link_freep) struct control_link *link = NULL;
        struct logs l = {.cli = cli, .follow = cli_switch(cli, "follow")};
        int code = control_link_open(cli, &link);

        if (code != CLI_EXIT_OK)
                return code;
        l.link = link;
        choose_streams(&l);
        code = look(&l, false);
        if (code == CLI_EXIT_OK && l.number == 0 && !l.follow)
                code = cli_fail(cli, CLI_EXIT_NOT_FOUND, "no rack has taken %s%s", lease_name_text(cli),
                                l.ended ? ", and none will" : " yet; --follow waits for it");
        else if (code == CLI_EXIT_OK)
                code = l.follow ? follow(&l) : show_attempt(&l);
        forget_attempt(&l);
        log_events_done(&l.events);
        return code;
}
