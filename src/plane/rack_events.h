/* SPDX-License-Identifier: MIT */
#ifndef PLANE_RACK_EVENTS_H
#define PLANE_RACK_EVENTS_H

#include "lessor/lease_store.h"

/*
 * Tells everybody in the server what happens in the lease store, which has one listener only: this. Made
 * before the store, freed after it.
 */
struct rack_events;

typedef void rack_event_listener(void *context, const struct lessor_lease_event *event);

/* Returns NULL when memory is short. */
struct rack_events *rack_events_new(void);
struct rack_events *rack_events_free(struct rack_events *events); /* takes NULL, returns NULL */

/*
 * Adds a listener for good, which hears of all that happens from now on, as lessor_lease_listener says: from
 * any thread, several at once; it must be quick, must not call the store, and must not block. Listeners are
 * told in the order of their coming. Returns 0, or LESSOR_E_FULL: there are RACK_LISTENERS already.
 * Thread-safe.
 */
#define RACK_LISTENERS 16
int rack_events_add(struct rack_events *events, rack_event_listener *listener, void *context);

/* The store's listener, with the events as its context. */
void rack_events_tell(void *events, const struct lessor_lease_event *event);

#endif
