/* SPDX-License-Identifier: MIT */
#ifndef LESSOR_LOG_EVENTS_H
#define LESSOR_LOG_EVENTS_H

#include <stdbool.h>

#include "lessor/event_reader.h"

/*
 * A log as events (text/event-stream, docs/control-api.md), printed as lines of JSON: the data of each, with
 * the event's name as a member `event` in front.
 */
struct log_events {
        struct event_reader reader;
        char last_id[48]; /* of the last event that was printed; "": none */
        bool failed_to_write;
};

/* The next bytes. Returns 0, LESSOR_E_IO (stdout takes no more), LESSOR_E_PROTOCOL or LESSOR_E_NOMEM. */
int log_events_take(struct log_events *events, struct lessor_slice bytes);

/* Forgets what is not whole, and how far it was. */
void log_events_clear(struct log_events *events);
void log_events_done(struct log_events *events);

#endif
