/* SPDX-License-Identifier: MIT */
#ifndef PLANE_EVENT_FEED_H
#define PLANE_EVENT_FEED_H

#include "base/limits.h"
#include "lessor/lease_store.h"

/*
 * What happened lately, for whoever reads along: the last LIMIT_EVENTS events in a ring, numbered from 1.
 * Readers keep their own place, so a slow one holds up nobody; one that is overtaken is told how much it has
 * missed.
 *
 * Events of leases that say nothing new to a person (extended, forgotten, uploads discarded) are left out.
 * Thread-safe.
 */
struct event_feed;

enum event_type {
        EVENT_SERVER_STARTED, /* the first of every feed: what happened before is not in it */
        EVENT_LEASE_CLAIMABLE,
        EVENT_LEASE_CLAIMED,
        EVENT_LEASE_COMPLETED,
        EVENT_LEASE_LOST,
        EVENT_LEASE_CANCELLED,
        EVENT_LEASE_SUPERSEDED,
        EVENT_LEASE_POISONED,
        EVENT_LEASE_EXPIRED,
        EVENT_ATTEMPT_ENDED,
        EVENT_RACK_CHANGED,
        EVENT_RACK_REMOVED,
        EVENT_POLICY_CHANGED,
        N_EVENT_TYPES,
};

/* "lease.completed". */
const char *event_type_name(enum event_type type);
/* Returns -1 when there is no such type. */
int event_type_number(struct lessor_slice name);

/* Which events are wanted; absent members: any. */
struct event_filter {
        struct lessor_slice repo;
        struct lessor_slice lease;
        struct lessor_slice run;
        struct lessor_slice rack;
        uint32_t types; /* bits (1 << enum event_type); 0: all */
};

/* Returns NULL when memory is short. */
struct event_feed *event_feed_new(void);
/* Nobody may be reading or telling. Takes NULL, returns NULL. */
struct event_feed *event_feed_free(struct event_feed *feed);

/* A rack_event_listener, with the feed as its context. Takes no memory once the ring is full. */
void event_feed_happened(void *context, const struct lessor_lease_event *event);

/* Has `news(context)` called after every event. Must be quick; from any thread. At most EVENT_FEED_LISTENERS,
 * before anything happens. */
#define EVENT_FEED_LISTENERS 2
void event_feed_listen(struct event_feed *feed, void (*news)(void *context), void *context);

/* Places. */
#define EVENT_ID_LEN 40
void event_feed_id(const struct event_feed *feed, uint64_t seq, char ret_id[EVENT_ID_LEN + 1]);
/* The number of an event's id; 0 for "oldest". False when it is of another feed: of a server that ran before.
 */
bool event_feed_find(const struct event_feed *feed, struct lessor_slice id, uint64_t *ret_seq);
/* The newest event's. */
uint64_t event_feed_head(struct event_feed *feed);

/*
 * Takes an event: its id, its type and itself as a JSON object. In the type "gap", which has no id, the
 * object is
 * {"missed":N}: so many were overtaken. Called with the feed's lock held, so it only copies.
 */
typedef void event_take(void *context, struct lessor_slice id, const char *type, struct lessor_slice json);

/*
 * Tells what came after `*at` and is wanted, at most `most` of it, and moves `*at`. Returns whether there may
 * be more already.
 */
bool event_feed_read(struct event_feed *feed, const struct event_filter *filter, uint64_t *at, size_t most,
                     event_take *take, void *context);

#endif
