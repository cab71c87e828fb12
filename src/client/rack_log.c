/* SPDX-License-Identifier: MIT */
#include "client/rack_log.h"

#include <pthread.h>
#include <signal.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/utf8.h"
#include "client/device_link.h"
#include "client/rack_rules.h"
#include "wire/rack_types.h"

#define BATCH_BYTES  32768u  /* rack-protocol 15 */
#define BATCH_MS     1000    /* the same */
#define BATCH_MOST   262144u /* when behind; written wholly in \u escapes it is within the body limit */
#define BACKLOG_MOST 1048576u

extern const struct beast2_type beast2_boolean;

struct stream {
        struct buf bytes; /* not sent yet */
        int64_t first_ms; /* when the first of them came, monotonic */
        int64_t total;    /* bytes that were taken */
        bool cut;
};

struct rack_log {
        struct rack_log_options options;
        struct rack_caller caller;
        struct http_client *http;
        pthread_t thread;
        bool started;
        pthread_mutex_t mutex; /* guards the rest */
        pthread_cond_t changed;
        struct stream streams[N_TASK_STREAMS];
        bool ended; /* nothing will follow */
        bool over;  /* the thread is through */
        int code;   /* what it ended with */
};

static bool is_due(const struct rack_log *log, const struct stream *s, int64_t now_ms)
{
        return s->bytes.n > 0 &&
               (log->ended || s->bytes.n >= BATCH_BYTES || now_ms >= s->first_ms + BATCH_MS);
}

/* With the mutex: until a stream is due. False: everything is sent, or the sending is to stop. */
static bool wait_for_due(struct rack_log *log, enum task_stream *ret_stream)
{
        while (!lessor_stop_raised(log->options.stop)) {
                int64_t now_ms = clock_monotonic_ms(), next_ms = now_ms + BATCH_MS;
                struct timespec until;

                for (int i = 0; i < N_TASK_STREAMS; i++) {
                        const struct stream *s = &log->streams[i];

                        if (is_due(log, s, now_ms)) {
                                *ret_stream = (enum task_stream)i;
                                return true;
                        }
                        if (s->bytes.n > 0 && s->first_ms + BATCH_MS < next_ms)
                                next_ms = s->first_ms + BATCH_MS;
                }
                if (log->ended)
                        return false;
                clock_gettime(CLOCK_MONOTONIC, &until);
                until.tv_nsec += (next_ms - now_ms) % 1000 * 1000000;
                until.tv_sec += (next_ms - now_ms) / 1000 + until.tv_nsec / 1000000000;
                until.tv_nsec %= 1000000000;
                pthread_cond_timedwait(&log->changed, &log->mutex, &until);
        }
        return false;
}

/* With the mutex: the next batch, as the text that is sent. Returns its bytes in the stream, or a code. */
static ssize_t take_batch(const struct rack_log *log, enum task_stream stream, struct buf *text)
{
        const struct stream *s = &log->streams[stream];
        size_t n = rack_log_cut(s->bytes.p, s->bytes.n, BATCH_MOST, log->ended);

        buf_clear(text);
        if (buf_reserve(text, UTF8_MENDED_MAX(n)) < 0)
                return LESSOR_E_NOMEM;
        text->n = utf8_mend((struct lessor_slice){s->bytes.p, n}, text->p);
        return (ssize_t)n;
}

/* Sends until the server has it. Returns 0 or what the sending ends with. */
static int send_batch(struct rack_log *log, enum task_stream stream, struct lessor_slice text)
{
        struct rack_log_chunk chunk = {
                .stream = stream == TASK_STDOUT ? RACK_STREAM_STDOUT : RACK_STREAM_STDERR, .data = text};
        struct rack_logs_request request = {.repo = log->options.repo,
                                            .lease_id = log->options.lease_id,
                                            .chunks = &chunk,
                                            .n_chunks = 1,
                                            .attempt = log->options.attempt};
        struct rack_failure failure;
        int r;

        rack_failure_init(&failure);
        for (unsigned attempt = 0;; attempt++) {
                struct lessor_arena *arena = lessor_arena_new();
                bool taken;

                r = arena == NULL ? LESSOR_E_NOMEM
                                  : rack_call(&log->caller, "logs", &rack_logs_request_type, &request,
                                              RACK_CALL_MS, &beast2_boolean, arena, &taken, &failure);
                lessor_arena_free(arena);
                if (r != LESSOR_E_LATER && r != LESSOR_E_PROTOCOL && r != LESSOR_E_NOMEM)
                        break;
                if (device_pause(rack_backoff_ms(attempt, failure.retry_after_ms, randombytes_random()),
                                 log->options.stop, NULL)) {
                        r = LESSOR_E_CLOSED;
                        break;
                }
        }
        rack_failure_done(&failure);
        return r;
}

/* With the mutex: those bytes are through. */
static void drop_sent(struct stream *s, size_t n)
{
        memmove(s->bytes.p, s->bytes.p + n, s->bytes.n - n);
        s->bytes.n -= n;
        s->first_ms = clock_monotonic_ms();
}

static int send_all(struct rack_log *log)
{
        _cleanup_(buf_done) struct buf text = {0};
        enum task_stream stream;
        int r = 0;

        pthread_mutex_lock(&log->mutex);
        while (r == 0 && wait_for_due(log, &stream)) {
                ssize_t n = take_batch(log, stream, &text);

                if (n == 0) { /* a character that is not whole yet; another second for it */
                        log->streams[stream].first_ms = clock_monotonic_ms();
                        continue;
                }
                if (n < 0) {
                        r = (int)n;
                        break;
                }
                pthread_mutex_unlock(&log->mutex);
                r = send_batch(log, stream, buf_view(&text));
                pthread_mutex_lock(&log->mutex);
                if (r == 0)
                        drop_sent(&log->streams[stream], (size_t)n);
                pthread_cond_broadcast(&log->changed);
        }
        if (r == 0 && lessor_stop_raised(log->options.stop))
                r = LESSOR_E_CLOSED;
        pthread_mutex_unlock(&log->mutex);
        return r;
}

static void *run(void *context)
{
        struct rack_log *log = context;
        int r = send_all(log);

        if (r == LESSOR_E_NOT_HELD || r == LESSOR_E_PERMISSION) {
                log->options.lost(log->options.context, r);
                r = LESSOR_E_CLOSED;
        } else if (r < 0 && r != LESSOR_E_CLOSED) {
                r = LESSOR_E_REFUSED;
        }
        pthread_mutex_lock(&log->mutex);
        log->over = true;
        log->code = r;
        pthread_cond_broadcast(&log->changed);
        pthread_mutex_unlock(&log->mutex);
        return NULL;
}

static int start(struct rack_log *log)
{
        pthread_condattr_t monotonic;
        sigset_t all, before;
        int e;

        pthread_condattr_init(&monotonic);
        pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
        pthread_cond_init(&log->changed, &monotonic);
        pthread_condattr_destroy(&monotonic);
        pthread_mutex_init(&log->mutex, NULL);
        /* Signals are for the thread that the program began with. */
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &before);
        e = pthread_create(&log->thread, NULL, run, log);
        pthread_sigmask(SIG_SETMASK, &before, NULL);
        log->started = e == 0;
        return e == 0 ? 0 : LESSOR_E_NOMEM;
}

int rack_log_new(const struct rack_log_options *options, struct rack_log **ret_log)
{
        _cleanup_(rack_log_freep) struct rack_log *log = calloc(1, sizeof(*log));
        int r;

        if (log == NULL)
                return LESSOR_E_NOMEM;
        log->options = *options;
        log->caller = *options->caller;
        r = http_client_new(&options->http, &log->http);
        if (r < 0)
                return r;
        log->caller.http = log->http;
        log->caller.stop = options->stop;
        r = start(log);
        if (r < 0)
                return r;
        *ret_log = TAKE(log);
        return 0;
}

bool rack_log_room(void *context, enum task_stream stream)
{
        struct rack_log *log = context;
        bool room;

        pthread_mutex_lock(&log->mutex);
        room = log->over || log->streams[stream].bytes.n < BACKLOG_MOST;
        pthread_mutex_unlock(&log->mutex);
        return room;
}

static void note_cut(struct rack_log *log, struct stream *s)
{
        if (s->cut)
                return;
        s->cut = true;
        if (s->bytes.n > 0 && s->bytes.p[s->bytes.n - 1] != '\n')
                buf_char(&s->bytes, '\n');
        buf_printf(&s->bytes, "[lessor: cut here: the rack sends %lld bytes of a stream at most]\n",
                   (long long)log->options.limit_bytes);
}

void rack_log_add(void *context, enum task_stream stream, struct lessor_slice bytes)
{
        struct rack_log *log = context;
        struct stream *s = &log->streams[stream];
        int64_t left;

        pthread_mutex_lock(&log->mutex);
        left = log->options.limit_bytes - s->total;
        if (!log->over && bytes.n > 0) {
                size_t n = (int64_t)bytes.n <= left ? bytes.n : (size_t)(left < 0 ? 0 : left);

                if (s->bytes.n == 0)
                        s->first_ms = clock_monotonic_ms();
                /* Without memory for it the text is lost, and the task goes on. */
                buf_append(&s->bytes, bytes.p, n);
                s->total += (int64_t)n;
                if (n < bytes.n)
                        note_cut(log, s);
                pthread_cond_broadcast(&log->changed);
        }
        pthread_mutex_unlock(&log->mutex);
}

int rack_log_finish(struct rack_log *log)
{
        int r;

        pthread_mutex_lock(&log->mutex);
        log->ended = true;
        pthread_cond_broadcast(&log->changed);
        while (!log->over)
                pthread_cond_wait(&log->changed, &log->mutex);
        r = log->code;
        pthread_mutex_unlock(&log->mutex);
        return r;
}

struct rack_log *rack_log_free(struct rack_log *log)
{
        if (log == NULL)
                return NULL;
        if (log->started) {
                /* Whoever frees a log that was not finished has raised its stop. */
                rack_log_finish(log);
                pthread_join(log->thread, NULL);
                pthread_cond_destroy(&log->changed);
                pthread_mutex_destroy(&log->mutex);
        }
        for (int i = 0; i < N_TASK_STREAMS; i++)
                buf_done(&log->streams[i].bytes);
        http_client_free(log->http);
        free(log);
        return NULL;
}
