/* SPDX-License-Identifier: MIT */
#include "lessor/event_reader.h"

#include <string.h>

#include "lessor/error.h"

#define LINE_MOST (16u << 20)

static void copy(char *to, size_t cap, struct lessor_slice from)
{
        size_t n = from.n < cap - 1 ? from.n : cap - 1;

        memcpy(to, from.p, n);
        to[n] = '\0';
}

static int end_event(struct event_reader *reader)
{
        int r = reader->data.n == 0 ? 0 : reader->take(reader->context, reader, buf_view(&reader->data));

        buf_clear(&reader->data);
        reader->event[0] = '\0';
        return r;
}

/* "name: value"; a line without a name is a comment. */
static int take_line(struct event_reader *reader, struct lessor_slice line)
{
        const char *colon = memchr(line.p, ':', line.n);
        struct lessor_slice name = {line.p, colon == NULL ? line.n : (size_t)(colon - line.p)},
                            value = {"", 0};

        if (line.n == 0)
                return end_event(reader);
        if (colon != NULL) {
                value = (struct lessor_slice){colon + 1, line.n - name.n - 1};
                if (value.n > 0 && value.p[0] == ' ')
                        value = (struct lessor_slice){value.p + 1, value.n - 1};
        }
        if (lessor_slice_equal(name, LESSOR_SLICE("event")))
                copy(reader->event, sizeof(reader->event), value);
        if (lessor_slice_equal(name, LESSOR_SLICE("id")))
                copy(reader->id, sizeof(reader->id), value);
        if (lessor_slice_equal(name, LESSOR_SLICE("data")))
                return buf_slice(&reader->data, value);
        return 0;
}

int event_reader_take(struct event_reader *reader, struct lessor_slice bytes)
{
        while (bytes.n > 0) {
                const char *end = memchr(bytes.p, '\n', bytes.n);
                size_t n = end == NULL ? bytes.n : (size_t)(end - bytes.p);
                int r = buf_append(&reader->line, bytes.p, n);

                if (r == 0 && reader->line.n > LINE_MOST)
                        r = LESSOR_E_PROTOCOL;
                if (r == 0 && end != NULL) {
                        r = take_line(reader, buf_view(&reader->line));
                        buf_clear(&reader->line);
                }
                if (r < 0)
                        return r;
                n += end != NULL;
                bytes.p += n;
                bytes.n -= n;
        }
        return 0;
}

void event_reader_clear(struct event_reader *reader)
{
        buf_clear(&reader->line);
        buf_clear(&reader->data);
        reader->event[0] = reader->id[0] = '\0';
}

void event_reader_done(struct event_reader *reader)
{
        buf_done(&reader->line);
        buf_done(&reader->data);
}
