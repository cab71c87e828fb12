/* SPDX-License-Identifier: MIT */
#include "lessor/log_events.h"

#include <stdio.h>
#include <string.h>

#include "lessor/error.h"

#define LINE_MOST (16u << 20)

static void copy(char *to, size_t cap, struct lessor_slice from)
{
        size_t n = from.n < cap - 1 ? from.n : cap - 1;

        memcpy(to, from.p, n);
        to[n] = '\0';
}

/* The data is a JSON object: its members follow the event's name. */
static int print_event(struct log_events *e)
{
        struct lessor_slice data = buf_view(&e->data);
        bool ok;

        if (data.n < 2 || data.p[0] != '{')
                return data.n == 0 ? 0 : LESSOR_E_PROTOCOL;
        ok = printf("{\"event\":\"%s\",", e->event) > 0 &&
             fwrite(data.p + 1, 1, data.n - 1, stdout) == data.n - 1 && putchar('\n') != EOF &&
             fflush(stdout) == 0;
        if (!ok) {
                e->failed_to_write = true;
                return LESSOR_E_IO;
        }
        memcpy(e->last_id, e->id, sizeof(e->last_id));
        return 0;
}

static int end_event(struct log_events *e)
{
        int r = print_event(e);

        buf_clear(&e->data);
        e->event[0] = '\0';
        return r;
}

/* "name: value"; a line without a name is a comment. */
static int take_line(struct log_events *e, struct lessor_slice line)
{
        const char *colon = memchr(line.p, ':', line.n);
        struct lessor_slice name = {line.p, colon == NULL ? line.n : (size_t)(colon - line.p)},
                            value = {"", 0};

        if (line.n == 0)
                return end_event(e);
        if (colon != NULL) {
                value = (struct lessor_slice){colon + 1, line.n - name.n - 1};
                if (value.n > 0 && value.p[0] == ' ')
                        value = (struct lessor_slice){value.p + 1, value.n - 1};
        }
        if (lessor_slice_equal(name, LESSOR_SLICE("event")))
                copy(e->event, sizeof(e->event), value);
        if (lessor_slice_equal(name, LESSOR_SLICE("id")))
                copy(e->id, sizeof(e->id), value);
        if (lessor_slice_equal(name, LESSOR_SLICE("data")))
                return buf_slice(&e->data, value);
        return 0;
}

int log_events_take(struct log_events *e, struct lessor_slice bytes)
{
        while (bytes.n > 0) {
                const char *end = memchr(bytes.p, '\n', bytes.n);
                size_t n = end == NULL ? bytes.n : (size_t)(end - bytes.p);
                int r = buf_append(&e->line, bytes.p, n);

                if (r == 0 && e->line.n > LINE_MOST)
                        r = LESSOR_E_PROTOCOL;
                if (r == 0 && end != NULL) {
                        r = take_line(e, buf_view(&e->line));
                        buf_clear(&e->line);
                }
                if (r < 0)
                        return r;
                n += end != NULL;
                bytes.p += n;
                bytes.n -= n;
        }
        return 0;
}

void log_events_clear(struct log_events *e)
{
        buf_clear(&e->line);
        buf_clear(&e->data);
        e->event[0] = e->id[0] = e->last_id[0] = '\0';
}

void log_events_done(struct log_events *e)
{
        buf_done(&e->line);
        buf_done(&e->data);
}
