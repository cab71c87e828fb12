/* SPDX-License-Identifier: MIT */
#include "base/log.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/json_write.h"
#include "base/utf8.h"

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

static void put_at(struct json_writer *w, int64_t now_ms)
{
        time_t seconds = (time_t)(now_ms / 1000);
        struct tm t = {0};
        char text[64];

        gmtime_r(&seconds, &t);
        snprintf(text, sizeof(text), "%04d-%02d-%02dT%02d:%02d:%02d.%03dZ", t.tm_year + 1900, t.tm_mon + 1,
                 t.tm_mday, t.tm_hour, t.tm_min, t.tm_sec, (int)(now_ms % 1000));
        json_member_cstr(w, "at", text);
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
static void write_line(struct lessor_slice line)
{
        while (line.n > 0) {
                ssize_t n = write(STDERR_FILENO, line.p, line.n);

                if (n < 0 && errno == EINTR)
                        continue;
                if (n <= 0)
                        return;
                line.p += n;
                line.n -= (size_t)n;
        }
}

void log_fields(enum log_level level, const char *event, const struct log_field *fields, size_t n)
{
        int saved_errno = errno;
        struct json_writer w;
        struct buf line;

        if (!log_enabled(level))
                return;
        buf_init(&line);
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
                write_line(buf_view(&line));
        else
                write_line(
                        LESSOR_SLICE("{\"level\":\"error\",\"event\":\"log line lost: out of memory\"}\n"));
        buf_done(&line);
        errno = saved_errno;
}
