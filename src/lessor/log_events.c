/* SPDX-License-Identifier: MIT */
#include "lessor/log_events.h"

#include <stdio.h>
#include <string.h>

#include "lessor/error.h"

/* The data is a JSON object: its members follow the event's name. */
static int print_event(void *context, const struct event_reader *reader, struct lessor_slice data)
{
        struct log_events *e = context;
        bool ok;

        if (data.n < 2 || data.p[0] != '{')
                return LESSOR_E_PROTOCOL;
        ok = printf("{\"event\":\"%s\",", reader->event) > 0 &&
             fwrite(data.p + 1, 1, data.n - 1, stdout) == data.n - 1 && putchar('\n') != EOF &&
             fflush(stdout) == 0;
        if (!ok) {
                e->failed_to_write = true;
                return LESSOR_E_IO;
        }
        memcpy(e->last_id, reader->id, sizeof(e->last_id));
        return 0;
}

int log_events_take(struct log_events *e, struct lessor_slice bytes)
{
        e->reader.take = print_event;
        e->reader.context = e;
        return event_reader_take(&e->reader, bytes);
}

void log_events_clear(struct log_events *e)
{
        event_reader_clear(&e->reader);
        e->last_id[0] = '\0';
}

void log_events_done(struct log_events *e)
{
        event_reader_done(&e->reader);
}
