/* SPDX-License-Identifier: MIT */
#include "plane/rack_events.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

/* Slots below `n` are constant, so that whoever tells needs no lock. */
struct rack_events {
        pthread_mutex_t adding;
        _Atomic size_t n;
        struct {
                rack_event_listener *listener;
                void *context;
        } slots[RACK_LISTENERS];
};

struct rack_events *rack_events_new(void)
{
        struct rack_events *events = calloc(1, sizeof(*events));

        if (events != NULL)
                pthread_mutex_init(&events->adding, NULL);
        return events;
}

struct rack_events *rack_events_free(struct rack_events *events)
{
        if (events == NULL)
                return NULL;
        pthread_mutex_destroy(&events->adding);
        free(events);
        return NULL;
}

int rack_events_add(struct rack_events *events, rack_event_listener *listener, void *context)
{
        size_t n;
        int r = LESSOR_E_FULL;

        pthread_mutex_lock(&events->adding);
        n = atomic_load(&events->n);
        if (n < RACK_LISTENERS) {
                events->slots[n].listener = listener;
                events->slots[n].context = context;
                atomic_store(&events->n, n + 1);
                r = 0;
        }
        pthread_mutex_unlock(&events->adding);
        return r;
}

void rack_events_tell(void *context, const struct lessor_lease_event *event)
{
        struct rack_events *events = context;
        size_t n = atomic_load(&events->n);

        for (size_t i = 0; i < n; i++)
                events->slots[i].listener(events->slots[i].context, event);
}
