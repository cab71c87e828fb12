/* SPDX-License-Identifier: MIT */
#include "lessor/run_follow.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "lessor/control_client.h"
#include "lessor/lease_show.h"
#include "lessor/output.h"

#define N_STREAMS    2
#define WATCH_MS     60000 /* of a watch that is held for 25 s */
#define CALL_MS      30000
#define RETRY_MS     500
#define AWAY_MS      600000 /* how long a server may be away */
#define UNPLACED_MS  3000   /* how long a lease may wait before we ask why */
#define LOG_DRAIN_MS 10000  /* for the rest of the logs once the attempt has ended */

DEFINE_CLEANUP(struct lessor_arena, lessor_arena_free)

static const char *const stream_names[N_STREAMS] = {"stdout", "stderr"};

/* One stream of the attempt that is followed. */
struct stream {
        struct following *f;
        FILE *to;
        int64_t offset; /* shown so far */
        bool has_ended;
        int64_t retry_at_ms; /* monotonic */
        struct http_transfer *transfer;
};

struct following {
        const struct run_follow *what;
        struct cli *cli;
        struct stream streams[N_STREAMS];
        struct buf attempt; /* execution id of the one that is followed; empty: none yet */
        int64_t attempt_number;

        struct lessor_arena *arena; /* owns `root` */
        const struct json *root;    /* the last answer; NULL: none yet */
        struct buf version;
        struct http_transfer *watch;
        int64_t watch_at_ms; /* when to ask again */
        int64_t away_since_ms;
        int64_t unplaced_at_ms; /* when to ask why nobody has it; INT64_MAX: no more */
        struct buf said;        /* the last thing that was said of its state */
        bool stdout_failed;
};

static void following_done(struct following *f)
{
        for (size_t i = 0; i < N_STREAMS; i++)
                http_transfer_free(f->streams[i].transfer);
        http_transfer_free(f->watch);
        buf_done(&f->attempt);
        buf_done(&f->version);
        buf_done(&f->said);
        lessor_arena_free(f->arena);
}

/* A line on stderr; the same line twice in a row is said once. */
static void __attribute__((format(printf, 2, 3))) say(struct following *f, const char *format, ...)
{
        _cleanup_(buf_done) struct buf line = {0}, shown = {0};
        va_list args;

        if (f->what->quiet)
                return;
        va_start(args, format);
        buf_vprintf(&line, format, args);
        va_end(args);
        if (lessor_slice_equal(buf_view(&line), buf_view(&f->said)))
                return;
        buf_clear(&f->said);
        buf_slice(&f->said, buf_view(&line));
        output_safe(&shown, buf_view(&line));
        fflush(stdout);
        if (shown.p != NULL)
                fprintf(stderr, "lessor: %s\n", shown.p);
}

/* --- Logs --- */

static int on_log(void *context, long status, struct lessor_slice bytes)
{
        struct stream *s = context;

        (void)status;
        s->offset += (int64_t)bytes.n;
        s->f->away_since_ms = 0;
        if (fwrite(bytes.p, 1, bytes.n, s->to) != bytes.n || fflush(s->to) != 0) {
                s->f->stdout_failed = true;
                return LESSOR_E_IO;
        }
        return 0;
}

static int start_stream(struct following *f, struct stream *s)
{
        _cleanup_(buf_done) struct buf path = {0};
        char number[24];
        struct http_request request = {.method = "GET", .take = on_log, .context = s};

        buf_text(&path, "/logs");
        snprintf(number, sizeof(number), "%lld", (long long)f->what->number);
        control_query(&path, "number", number);
        control_query(&path, "attempt", f->attempt.p);
        control_query(&path, "stream", stream_names[s - f->streams]);
        snprintf(number, sizeof(number), "%lld", (long long)s->offset);
        control_query(&path, "offset", number);
        control_query(&path, "follow", "1");
        if (buf_failed(&path) < 0)
                return LESSOR_E_NOMEM;
        request.url = path.p;
        return control_link_start(f->what->link, &request, &s->transfer);
}

static int start_streams(struct following *f)
{
        int64_t now_ms = clock_monotonic_ms();
        int r = 0;

        if (f->attempt.n == 0)
                return 0;
        for (size_t i = 0; i < N_STREAMS && r == 0; i++) {
                struct stream *s = &f->streams[i];

                if (!s->has_ended && s->transfer == NULL && s->retry_at_ms <= now_ms)
                        r = start_stream(f, s);
        }
        return r;
}

/* A stream whose attempt is over ends whole; one that is cut off goes on where it stopped. */
static int collect_streams(struct following *f)
{
        for (size_t i = 0; i < N_STREAMS; i++) {
                struct stream *s = &f->streams[i];
                int r;

                if (s->transfer == NULL || !http_transfer_done(s->transfer))
                        continue;
                r = http_transfer_error(s->transfer);
                if (r == LESSOR_E_LATER || (r == 0 && http_transfer_status(s->transfer) == 503))
                        s->retry_at_ms = clock_monotonic_ms() + RETRY_MS;
                else
                        s->has_ended = true;
                s->transfer = http_transfer_free(s->transfer);
                if (r < 0 && r != LESSOR_E_LATER)
                        return r;
        }
        return 0;
}

static bool streams_have_ended(const struct following *f)
{
        for (size_t i = 0; i < N_STREAMS; i++)
                if (f->attempt.n > 0 && !f->streams[i].has_ended)
                        return false;
        return true;
}

static int follow_attempt(struct following *f, const struct json *lease)
{
        const char *attempt = control_text(lease, "attempt");

        if (!f->what->show_logs || attempt[0] == '\0' ||
            lessor_slice_equal(lessor_slice_of(attempt), buf_view(&f->attempt)))
                return 0;
        for (size_t i = 0; i < N_STREAMS; i++) {
                struct stream *s = &f->streams[i];

                http_transfer_free(s->transfer);
                *s = (struct stream){.f = f, .to = i == 0 ? stdout : stderr};
        }
        buf_clear(&f->attempt);
        buf_text(&f->attempt, attempt);
        return buf_failed(&f->attempt);
}

/* --- The lease --- */

static const struct json *find_attempt(const struct following *f, int64_t number)
{
        json_each (attempt, json_member_named(f->root, "attempts"))
                if (control_int(attempt, "number") == number)
                        return attempt;
        return NULL;
}

static void say_lost(struct following *f, int64_t number)
{
        const struct json *attempt = find_attempt(f, number);
        const char *cause = control_text(attempt, "cause");

        say(f, "attempt %lld on rack %s was interrupted%s%s; what it wrote above does not count",
            (long long)number, control_text(attempt, "rackId"), cause[0] == '\0' ? "" : ": ", cause);
}

/* What a person would want to know of an answer, beside the logs. */
static void say_state(struct following *f, const struct json *lease)
{
        const char *view = control_text(lease, "view");
        int64_t number = control_int(lease, "claimNumber");

        if (strcmp(view, "claimed") == 0) {
                if (f->attempt_number != 0 && number != f->attempt_number)
                        say_lost(f, f->attempt_number);
                f->attempt_number = number;
                f->unplaced_at_ms = INT64_MAX;
                say(f, "lease %lld runs on rack %s, attempt %lld", (long long)f->what->number,
                    control_text(lease, "claimedBy"), (long long)number);
        } else if (strcmp(view, "pending") == 0 || strcmp(view, "lost") == 0) {
                if (f->attempt_number != 0)
                        say(f, "rack %s has fallen silent; waiting for it, or another",
                            control_text(lease, "claimedBy"));
                if (f->unplaced_at_ms == INT64_MAX)
                        f->unplaced_at_ms = clock_monotonic_ms() + UNPLACED_MS;
        }
}

static bool is_over(const struct json *root)
{
        return root != NULL && lease_is_over(json_member_named(root, "lease"));
}

static int take_answer(struct following *f, const struct http_transfer *t)
{
        struct lessor_arena *arena = lessor_arena_new();
        const struct json *root = arena == NULL ? NULL : control_link_json(t, arena), *lease;

        if (root == NULL || !json_is(json_member_named(root, "lease"), JSON_OBJECT)) {
                lessor_arena_free(arena);
                return arena == NULL ? LESSOR_E_NOMEM : LESSOR_E_PROTOCOL;
        }
        lessor_arena_free(f->arena);
        f->arena = arena;
        f->root = root;
        lease = json_member_named(root, "lease");
        buf_clear(&f->version);
        buf_text(&f->version, control_text(lease, "version"));
        say_state(f, lease);
        return buf_failed(&f->version) < 0 ? LESSOR_E_NOMEM : follow_attempt(f, lease);
}

static int start_watch(struct following *f)
{
        _cleanup_(buf_done) struct buf path = {0};
        char number[24];

        if (f->watch != NULL || f->watch_at_ms > clock_monotonic_ms() || is_over(f->root))
                return 0;
        buf_text(&path, "/leases/watch");
        snprintf(number, sizeof(number), "%lld", (long long)f->what->number);
        control_query(&path, "number", number);
        control_query(&path, "after", f->version.n == 0 ? NULL : f->version.p);
        if (buf_failed(&path) < 0)
                return LESSOR_E_NOMEM;
        return control_link_start(
                f->what->link, &(struct http_request){.method = "GET", .url = path.p, .timeout_ms = WATCH_MS},
                &f->watch);
}

static int server_is_away(struct following *f)
{
        int64_t now_ms = clock_monotonic_ms();

        if (f->away_since_ms == 0)
                f->away_since_ms = now_ms;
        if (now_ms - f->away_since_ms > AWAY_MS)
                return LESSOR_E_LATER;
        if (now_ms - f->away_since_ms > RETRY_MS)
                say(f, "the server is away; the work goes on, and we wait for it");
        f->watch_at_ms = now_ms + RETRY_MS;
        return 0;
}

/* Returns an enum cli_exit: what it says is said. */
static int collect_watch(struct following *f)
{
        _cleanup_(http_transfer_freep) struct http_transfer *t = NULL;
        int r;

        if (f->watch == NULL || !http_transfer_done(f->watch))
                return CLI_EXIT_OK;
        t = TAKE(f->watch);
        r = http_transfer_error(t);
        if (r == LESSOR_E_LATER || (r == 0 && http_transfer_status(t) == 503))
                r = server_is_away(f);
        else if (r == 0 && http_transfer_status(t) != 200)
                return control_link_fail(f->what->link, 0, t);
        else if (r == 0) {
                f->away_since_ms = 0;
                r = take_answer(f, t);
        }
        return r < 0 ? control_link_fail(f->what->link, r, t) : CLI_EXIT_OK;
}

/* Says why no rack has it, as the server sees it. That this cannot be known is no reason to fail. */
static void explain(struct following *f)
{
        _cleanup_(lessor_arena_freep) struct lessor_arena *arena = lessor_arena_new();
        _cleanup_(http_transfer_freep) struct http_transfer *t = NULL;
        _cleanup_(buf_done) struct buf path = {0};
        const char *summary;

        f->unplaced_at_ms = INT64_MAX - 1; /* once a wait */
        buf_printf(&path, "/leases/explain?number=%lld", (long long)f->what->number);
        if (arena == NULL || buf_failed(&path) < 0 ||
            control_link_call(f->what->link,
                              &(struct http_request){.method = "GET", .url = path.p, .timeout_ms = CALL_MS},
                              f->what->stop, &t) < 0 ||
            http_transfer_status(t) != 200)
                return;
        summary = control_text(control_link_json(t, arena), "summary");
        if (summary[0] != '\0')
                say(f, "lease %lld waits: %s", (long long)f->what->number, summary);
}

/* --- The whole --- */

static int64_t wait_ms(const struct following *f)
{
        int64_t now_ms = clock_monotonic_ms(), until_ms = f->unplaced_at_ms;

        if (f->watch == NULL && f->watch_at_ms < until_ms)
                until_ms = f->watch_at_ms;
        for (size_t i = 0; i < N_STREAMS; i++)
                if (f->attempt.n > 0 && !f->streams[i].has_ended && f->streams[i].transfer == NULL &&
                    f->streams[i].retry_at_ms < until_ms)
                        until_ms = f->streams[i].retry_at_ms;
        if (until_ms - now_ms > (is_over(f->root) ? RETRY_MS : WATCH_MS))
                return is_over(f->root) ? RETRY_MS : WATCH_MS;
        return until_ms <= now_ms ? 0 : until_ms - now_ms;
}

/* One round. Returns an enum cli_exit. */
static int step(struct following *f)
{
        int code, r = start_watch(f);

        if (r == 0)
                r = start_streams(f);
        if (r == 0)
                r = http_client_wait(control_link_http(f->what->link), f->what->stop, wait_ms(f));
        if (r == LESSOR_E_CLOSED)
                return CLI_EXIT_INTERRUPTED;
        if (r == 0 || r == LESSOR_E_TIMEOUT)
                r = collect_streams(f);
        if (f->stdout_failed)
                return cli_fail(f->cli, CLI_EXIT_FAILED, "cannot write what the command writes");
        if (r < 0)
                return control_link_fail(f->what->link, r, NULL);
        code = collect_watch(f);
        if (code == CLI_EXIT_OK && f->unplaced_at_ms <= clock_monotonic_ms() && !is_over(f->root))
                explain(f);
        return code;
}

static void free_arena(void *arena)
{
        lessor_arena_free(arena);
}

int run_follow(const struct run_follow *follow, struct lessor_arena *arena, const struct json **ret_root)
{
        _cleanup_(following_done) struct following f = {
                .what = follow, .cli = control_link_cli(follow->link), .unplaced_at_ms = INT64_MAX};
        int64_t ended_at_ms = INT64_MAX;
        int code, e;

        for (;;) {
                if (is_over(f.root)) {
                        if (ended_at_ms == INT64_MAX)
                                ended_at_ms = clock_monotonic_ms();
                        if (streams_have_ended(&f) || clock_monotonic_ms() - ended_at_ms > LOG_DRAIN_MS)
                                break;
                }
                code = step(&f);
                if (code != CLI_EXIT_OK)
                        return code;
        }
        e = lessor_arena_own(arena, f.arena, free_arena);
        if (e < 0)
                return cli_fail_nomem(f.cli);
        f.arena = NULL;
        *ret_root = f.root;
        return CLI_EXIT_OK;
}
