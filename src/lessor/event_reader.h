/* SPDX-License-Identifier: MIT */
#ifndef LESSOR_EVENT_READER_H
#define LESSOR_EVENT_READER_H

#include "base/buf.h"

/* Reads `text/event-stream` as it comes. */
struct event_reader {
        /*
         * Takes an event that is whole: its data, and in the reader its name and id. Returns 0, or a code
         * that ends the reading with that. An event whose data is empty is none.
         */
        int (*take)(void *context, const struct event_reader *reader, struct lessor_slice data);
        void *context;
        char event[32]; /* "": it has no name */
        char id[48];    /* of the last event that had one; "": none */
        struct buf line;
        struct buf data;
};

/* The next bytes. Returns 0, what `take` says, LESSOR_E_PROTOCOL (a line without end) or LESSOR_E_NOMEM. */
int event_reader_take(struct event_reader *reader, struct lessor_slice bytes);

/* Forgets what is not whole, and the id. */
void event_reader_clear(struct event_reader *reader);
void event_reader_done(struct event_reader *reader);

#endif
