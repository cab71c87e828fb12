/* SPDX-License-Identifier: MIT */
#include <inttypes.h>
#include <string.h>

#include "base/clock.h"
#include "base/macro.h"
#include "base/utf8.h"
#include "http/stream.h"
#include "plane/control_lease_json.h"
#include "plane/control_logs.h"

/*
 * Logs as they grow. A reader is woken by what is appended in this process (log_watch.h), and looks again now
 * and then for what other servers append. It ends when the attempt has ended and everything is told.
 */

#define STEP_BYTES    65536
#define LOOK_AGAIN_MS 1000
#define ALIVE_MS      15000 /* so often a stream of events says something, if only that it is there */
/*
 * An attempt that was ended from outside gets a last line that says why, after its end is recorded: so long
 * it is waited for.
 */
#define LAST_LINE_MS 1000

DEFINE_CLEANUP(struct lessor_arena, lessor_arena_free)

struct follower {
        struct log_request *log;
        struct log_watcher watcher;
        bool watching;
        bool begun;       /* the first event is out */
        int64_t ended_ms; /* monotonic: when it was seen that the attempt had ended; 0: not yet */
        int64_t said_ms;  /* monotonic: when something was last said */
};

static void wake(struct log_watcher *watcher)
{
        struct follower *f = container_of(watcher, struct follower, watcher);

        http_resume(f->log->call->http);
}

static void end(void *context)
{
        struct follower *f = context;

        if (f->watching)
                log_watch_remove(f->log->watch, &f->watcher);
}

/* --- The end --- */

/* Looks how the attempt is now. One that is forgotten has ended. */
static int look_at_attempt(struct follower *f)
{
        _cleanup_(lessor_arena_freep) struct lessor_arena *arena = lessor_arena_new();
        struct lessor_attempt_list attempts;
        struct lessor_ticket ticket;
        int e = arena == NULL
                        ? LESSOR_E_NOMEM
                        : lessor_lease_attempts(f->log->leases, &f->log->lease, arena, &attempts, &ticket);

        if (e == LESSOR_E_NOT_FOUND) {
                if (f->log->attempt.state == LESSOR_ATTEMPT_RUNNING)
                        f->log->attempt.state = LESSOR_ATTEMPT_INTERRUPTED;
                return 0;
        }
        for (size_t i = 0; e == 0 && i < attempts.n; i++)
                if (attempts.items[i].number == f->log->attempt.number) {
                        f->log->attempt.state = attempts.items[i].state;
                        f->log->attempt.cause = attempts.items[i].cause;
                }
        return e;
}

/* Whether there will be nothing more, or that is enough: then what was not read before is read once again. */
static int has_ended(struct follower *f, bool *ret_ended)
{
        enum lessor_attempt_state state;
        int64_t now_ms = clock_monotonic_ms();
        int e = f->ended_ms == 0 ? look_at_attempt(f) : 0;

        state = f->log->attempt.state;
        *ret_ended = !f->log->follow;
        if (!f->log->follow)
                return e;
        if (e == 0 && f->ended_ms == 0 && state != LESSOR_ATTEMPT_RUNNING)
                f->ended_ms = now_ms;
        *ret_ended = f->ended_ms != 0 &&
                     ((state != LESSOR_ATTEMPT_INTERRUPTED && state != LESSOR_ATTEMPT_CANCELLED) ||
                      now_ms - f->ended_ms >= LAST_LINE_MS);
        return e;
}

/* --- Bytes --- */

/* Appends what comes next of a stream. */
static int read_on(struct follower *f, enum log_stream stream, bool ended, struct buf *out)
{
        struct log_window window;
        size_t before = out->n;
        int e = log_files_read(f->log->logs, &f->log->key, stream, f->log->offset[stream], STEP_BYTES, ended,
                               out, &window);

        if (e == 0)
                f->log->offset[stream] += (int64_t)(out->n - before);
        return e;
}

static int produce_bytes(struct http_request *http, void *context, struct buf *out)
{
        struct follower *f = context;
        bool ended = false;
        int e = read_on(f, f->log->stream, false, out);

        if (e == 0 && out->n == 0)
                e = has_ended(f, &ended);
        if (e == 0 && ended)
                e = read_on(f, f->log->stream, true, out);
        if (e < 0)
                return e;
        if (out->n > 0)
                return HTTP_MORE;
        return ended || http_draining(http) ? HTTP_FINISH : HTTP_WAIT;
}

/* --- Events --- */

static void put_id(struct follower *f, struct buf *out)
{
        buf_printf(out, "%" PRId64 "-%" PRId64, f->log->offset[LOG_STDOUT], f->log->offset[LOG_STDERR]);
}

static void put_event(struct follower *f, const char *event, const struct buf *data, struct buf *out)
{
        struct buf id = {0};

        put_id(f, &id);
        http_event(out, buf_view(&id), event, buf_view(data));
        buf_done(&id);
        f->said_ms = clock_monotonic_ms();
}

static void put_attempt(struct json_writer *w, const struct lessor_attempt *attempt)
{
        json_member_text(w, "executionId", attempt->execution_id);
        json_member_int(w, "number", attempt->number);
}

static void say_attempt(struct follower *f, struct buf *out)
{
        const struct lessor_attempt *attempt = &f->log->attempt;
        struct buf data = {0};
        struct json_writer w;

        json_writer_init(&w, &data);
        json_open_object(&w);
        put_attempt(&w, attempt);
        json_member_text(&w, "rackId", attempt->rack_id);
        json_member_int(&w, "startedAt", attempt->started_ms);
        json_close_object(&w);
        put_event(f, "attempt", &data, out);
        buf_done(&data);
}

static void say_end(struct follower *f, struct buf *out)
{
        const struct lessor_attempt *attempt = &f->log->attempt;
        struct buf data = {0};
        struct json_writer w;

        json_writer_init(&w, &data);
        json_open_object(&w);
        put_attempt(&w, attempt);
        json_member_cstr(&w, "state", message_word(&attempt_state_words, (int)attempt->state));
        if (attempt->cause != LESSOR_CAUSE_NONE)
                json_member_cstr(&w, "cause", message_word(&lease_cause_words, (int)attempt->cause));
        json_close_object(&w);
        put_event(f, "end", &data, out);
        buf_done(&data);
}

static int say_text(struct follower *f, enum log_stream stream, const struct buf *text, struct buf *out)
{
        _cleanup_(buf_done) struct buf mended = {0}, data = {0};
        struct json_writer w;
        int e = buf_reserve(&mended, UTF8_MENDED_MAX(text->n));

        if (e < 0)
                return e;
        mended.n = utf8_mend(buf_view(text), mended.p);
        json_writer_init(&w, &data);
        json_open_object(&w);
        json_member_cstr(&w, "stream", log_stream_name(stream));
        json_member_int(&w, "offset", f->log->offset[stream] - (int64_t)text->n);
        json_member_int(&w, "next", f->log->offset[stream]);
        json_member_text(&w, "text", buf_view(&mended));
        json_close_object(&w);
        put_event(f, "log", &data, out);
        return buf_failed(&data);
}

/* Each stream's next piece, if there is one. */
static int say_streams(struct follower *f, bool ended, struct buf *out)
{
        int e = 0;

        for (int i = 0; e == 0 && i < N_LOG_STREAMS; i++) {
                _cleanup_(buf_done) struct buf text = {0};

                if (f->log->one_stream && f->log->stream != (enum log_stream)i)
                        continue;
                e = read_on(f, (enum log_stream)i, ended, &text);
                if (e == 0 && text.n > 0)
                        e = say_text(f, (enum log_stream)i, &text, out);
        }
        return e;
}

static int produce_events(struct http_request *http, void *context, struct buf *out)
{
        struct follower *f = context;
        bool ended = false;
        int e;

        if (!f->begun)
                say_attempt(f, out);
        f->begun = true;
        e = say_streams(f, false, out);
        if (e == 0 && out->n == 0)
                e = has_ended(f, &ended);
        if (e == 0 && ended)
                e = say_streams(f, f->log->attempt.state != LESSOR_ATTEMPT_RUNNING, out);
        if (e == 0 && out->n > 0)
                return HTTP_MORE;
        if (e == 0 && ended && f->log->attempt.state != LESSOR_ATTEMPT_RUNNING)
                say_end(f, out);
        else if (e == 0 && clock_monotonic_ms() - f->said_ms >= ALIVE_MS) {
                http_event_comment(out);
                f->said_ms = clock_monotonic_ms();
        }
        if (e < 0)
                return e;
        return ended || http_draining(http) ? HTTP_FINISH : HTTP_WAIT;
}

/* --- Beginning --- */

static void begin(struct log_request *log, bool events)
{
        struct follower *f = lessor_arena_alloc(log->call->arena, sizeof(*f));
        const struct http_source source = {
                .produce = events ? produce_events : produce_bytes, .context = f, .wait_ms = LOOK_AGAIN_MS};

        if (f == NULL || lessor_arena_own(log->call->arena, f, end) < 0) {
                control_refuse_error(log->call, LESSOR_E_NOMEM, NULL, (struct lessor_slice){0});
                return;
        }
        f->log = log;
        f->said_ms = clock_monotonic_ms();
        f->watcher.grew = wake;
        f->watcher.execution_id = log->key.execution_id;
        if (log->watch != NULL) {
                log_watch_add(log->watch, &f->watcher);
                f->watching = true;
        }
        http_answer_stream(log->call->http, 200, events ? "text/event-stream" : "text/plain; charset=utf-8",
                           &source);
}

void control_log_follow(struct log_request *log)
{
        begin(log, false);
}

/* The digits in front, at most 16. Moves behind them. */
static bool read_digits(struct lessor_slice *text, int64_t *ret_number)
{
        int64_t number = 0;
        size_t n = 0;

        while (n < text->n && n < 16 && text->p[n] >= '0' && text->p[n] <= '9')
                number = number * 10 + (text->p[n++] - '0');
        text->p += n;
        text->n -= n;
        *ret_number = number;
        return n > 0;
}

/* "12-34": what was told of stdout and of stderr. */
static bool read_id(struct lessor_slice id, int64_t ret_offset[N_LOG_STREAMS])
{
        if (id.n == 0 || !read_digits(&id, &ret_offset[LOG_STDOUT]) || id.n == 0 || id.p[0] != '-')
                return false;
        id.p++;
        id.n--;
        return read_digits(&id, &ret_offset[LOG_STDERR]) && id.n == 0;
}

void control_log_events(struct log_request *log)
{
        int64_t offset[N_LOG_STREAMS] = {0};

        if (read_id(http_header(log->call->http, "last-event-id"), offset))
                memcpy(log->offset, offset, sizeof(offset));
        begin(log, true);
}
