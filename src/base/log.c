/* SPDX-License-Identifier: MIT */
#include "base/log.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/json_write.h"
#include "base/utf8.h"

#define DELAYED_BYTES 65536u
#define USUAL_LINE    448u

static _Atomic int lowest = LOG_LEVEL_INFO;

static const char *const level_names[] = {
        [LOG_LEVEL_DEBUG] = "debug",
        [LOG_LEVEL_INFO] = "info",
        [LOG_LEVEL_WARNING] = "warning",
        [LOG_LEVEL_ERROR] = "error",
};

void log_set_level(enum log_level level)
{
        atomic_store(&lowest, (int)level);
}

bool log_enabled(enum log_level level)
{
        return (int)level >= atomic_load_explicit(&lowest, memory_order_relaxed);
}

/* Most lines of a busy server fall into the second of the line before. */
static void put_at(struct json_writer *w, int64_t now_ms)
{
        static _Thread_local char text[64];
        static _Thread_local time_t last;
        static _Thread_local size_t n; /* up to the second */
        time_t seconds = (time_t)(now_ms / 1000);
        int ms = (int)(now_ms % 1000);

        if (n == 0 || seconds != last) {
                struct tm t = {0};

                gmtime_r(&seconds, &t);
                n = (size_t)snprintf(text, sizeof(text), "%04d-%02d-%02dT%02d:%02d:%02d", t.tm_year + 1900,
                                     t.tm_mon + 1, t.tm_mday, t.tm_hour, t.tm_min, t.tm_sec);
                last = seconds;
        }
        text[n] = '.';
        text[n + 1] = (char)('0' + ms / 100);
        text[n + 2] = (char)('0' + ms / 10 % 10);
        text[n + 3] = (char)('0' + ms % 10);
        text[n + 4] = 'Z';
        json_member_text(w, "at", (struct lessor_slice){text, n + 5});
}

/* What a caller read from outside may be no UTF-8, and the line has to be JSON all the same. */
static void put_text(struct json_writer *w, struct lessor_slice text)
{
        struct buf safe;

        if (utf8_valid(text)) {
                json_put_text(w, text);
                return;
        }
        buf_init(&safe);
        for (size_t i = 0; i < text.n; i++) {
                if ((unsigned char)text.p[i] < 0x80)
                        buf_char(&safe, text.p[i]);
                else
                        buf_text(&safe, "\xef\xbf\xbd");
        }
        json_put_text(w, buf_view(&safe));
        buf_done(&safe);
}

static void put_field(struct json_writer *w, const struct log_field *field)
{
        if (field->type == LOG_FIELD_TEXT && field->text.p == NULL)
                return;
        json_key(w, field->key);
        switch (field->type) {
        case LOG_FIELD_TEXT:
                put_text(w, field->text);
                break;
        case LOG_FIELD_INT:
                json_put_int(w, field->number);
                break;
        case LOG_FIELD_BOOL:
                json_put_bool(w, field->number != 0);
                break;
        }
}

/* A log that cannot be written has nowhere to say so. */
static void write_all(struct lessor_slice text)
{
        while (text.n > 0) {
                ssize_t n = write(STDERR_FILENO, text.p, text.n);

                if (n < 0 && errno == EINTR)
                        continue;
                if (n <= 0)
                        return;
                text.p += n;
                text.n -= (size_t)n;
        }
}

/*
 * The lines that wait to be written.
 *
 * 1. `writing` is held from taking the gathered lines until they are written, so lines keep their order; it
 * is taken before `lock`.
 * 2. `gathered` and `spare` change places when the lines are taken, so that others go on gathering meanwhile.
 * 3. Nothing is gathered unless `on`.
 */
static struct {
        _Atomic bool on;
        pthread_mutex_t writing;
        pthread_mutex_t lock;
        pthread_cond_t come; /* the first line was gathered, or the end has */
        pthread_t thread;
        bool ending;
        char *gathered;
        char *spare;
        size_t n;
} delay = {.writing = PTHREAD_MUTEX_INITIALIZER,
           .lock = PTHREAD_MUTEX_INITIALIZER,
           .come = PTHREAD_COND_INITIALIZER};

static void write_gathered(void)
{
        struct lessor_slice text;

        pthread_mutex_lock(&delay.writing);
        pthread_mutex_lock(&delay.lock);
        text = (struct lessor_slice){delay.gathered, delay.n};
        delay.gathered = delay.spare;
        delay.spare = (char *)text.p;
        delay.n = 0;
        pthread_mutex_unlock(&delay.lock);
        write_all(text);
        pthread_mutex_unlock(&delay.writing);
}

/* False when there is no room for it. */
static bool gather(struct lessor_slice line)
{
        bool fits, first;

        pthread_mutex_lock(&delay.lock);
        fits = line.n <= DELAYED_BYTES - delay.n;
        first = fits && delay.n == 0;
        if (fits) {
                memcpy(delay.gathered + delay.n, line.p, line.n);
                delay.n += line.n;
        }
        pthread_mutex_unlock(&delay.lock);
        if (first)
                pthread_cond_signal(&delay.come);
        return fits;
}

static void *delay_main(void *context)
{
        static const struct timespec nap = {.tv_nsec = LOG_DELAY_MS / 2 * 1000000L};
        bool ending = false;

        (void)context;
        while (!ending) {
                pthread_mutex_lock(&delay.lock);
                while (delay.n == 0 && !delay.ending)
                        pthread_cond_wait(&delay.come, &delay.lock);
                ending = delay.ending;
                pthread_mutex_unlock(&delay.lock);
                if (!ending)
                        nanosleep(&nap, NULL);
                write_gathered();
        }
        return NULL;
}

/* Signals are for the program's threads. */
static int start_thread(void)
{
        sigset_t all, before;
        int error;

        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &before);
        error = pthread_create(&delay.thread, NULL, delay_main, NULL);
        pthread_sigmask(SIG_SETMASK, &before, NULL);
        if (error != 0)
                return LESSOR_E_NOMEM;
        pthread_setname_np(delay.thread, "log");
        return 0;
}

int log_delay_start(void)
{
        delay.gathered = malloc(DELAYED_BYTES);
        delay.spare = malloc(DELAYED_BYTES);
        delay.ending = false;
        if (delay.gathered != NULL && delay.spare != NULL && start_thread() == 0) {
                atomic_store(&delay.on, true);
                return 0;
        }
        free(delay.gathered);
        free(delay.spare);
        return LESSOR_E_NOMEM;
}

void log_delay_stop(void)
{
        if (!atomic_load(&delay.on))
                return;
        pthread_mutex_lock(&delay.lock);
        delay.ending = true;
        pthread_mutex_unlock(&delay.lock);
        pthread_cond_signal(&delay.come);
        pthread_join(delay.thread, NULL);
        atomic_store(&delay.on, false);
        free(delay.gathered);
        free(delay.spare);
}

static void write_line(enum log_level level, struct lessor_slice line)
{
        if (atomic_load_explicit(&delay.on, memory_order_relaxed)) {
                bool kept = gather(line);

                if (!kept) {
                        write_gathered();
                        kept = gather(line);
                }
                if (level >= LOG_LEVEL_WARNING)
                        write_gathered();
                if (kept)
                        return;
        }
        write_all(line);
}

void log_fields(enum log_level level, const char *event, const struct log_field *fields, size_t n)
{
        int saved_errno = errno;
        struct json_writer w;
        struct buf line;

        if (!log_enabled(level))
                return;
        buf_init(&line);
        buf_reserve(&line, USUAL_LINE);
        json_writer_init(&w, &line);
        json_open_object(&w);
        put_at(&w, clock_now_ms(clock_wall()));
        json_member_cstr(&w, "level", level_names[level]);
        json_member_cstr(&w, "event", event);
        for (size_t i = 0; i < n; i++)
                put_field(&w, &fields[i]);
        json_close_object(&w);
        buf_char(&line, '\n');
        if (buf_failed(&line) == 0)
                write_line(level, buf_view(&line));
        else
                write_line(
                        LOG_LEVEL_ERROR,
                        LESSOR_SLICE("{\"level\":\"error\",\"event\":\"log line lost: out of memory\"}\n"));
        buf_done(&line);
        errno = saved_errno;
}
