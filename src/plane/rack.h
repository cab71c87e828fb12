/* SPDX-License-Identifier: MIT */
#ifndef PLANE_RACK_H
#define PLANE_RACK_H

#include <stdbool.h>
#include <stdint.h>

#include "http/http.h"
#include "lessor/lease_store.h"
#include "lessor/object_store.h"
#include "lessor/rack_registry.h"
#include "objects/log_file.h"
#include "plane/log_watch.h"
#include "plane/rack_closure.h"
#include "plane/rack_events.h"
#include "plane/transfers.h"
#include "plane/waiting.h"

/*
 * The rack plane: the machine API under /api/rack (rack-protocol), in BEAST2 and in JSON. It only translates:
 * a request is authenticated, read through a table of wire/, put to one store, and the outcome is written.
 *
 * Whoever hangs something on the plane: an endpoint is a row of rack_endpoints (rack_routes.c) and a function
 * (rack_call.h); what has to follow an event of the lease store is a listener of `events`; the control API
 * gets the plane by pointer and uses `parts`.
 */

/* Windows and intervals in ms. What is stored runs on the store's clock, these on real time (section 20). */
struct rack_options {
        int64_t window_ms;   /* of a lease poll: 204 when it is over */
        int64_t poll_ms;     /* from an empty look of a poll to the next, unless an event comes before */
        int64_t poll_max_ms; /* to which that doubles; below poll_ms: no back-off */
        int64_t policy_recheck_ms; /* the same while the boot is quarantined; 0: poll_ms */
        int64_t watch_window_ms;   /* of a watch */
        int64_t watch_poll_ms;     /* from a look of a watch to the next, unless an event comes before */
        struct lessor_lease_filter filter; /* what this server grants at all: its compatibility gate */
        struct lessor_slice origin;        /* of capability URLs: "https://host"; absent: the request's own */
        struct lessor_slice e3_version;    /* whose builds of environments are answered; may be empty */
};

#define RACK_WINDOW_MOST_MS       29000 /* the shortest cap of a known front end */
#define RACK_WATCH_WINDOW_MOST_MS 20000 /* section 15 */

#define RACK_OPTIONS                                                                                  \
        {                                                                                             \
                .window_ms = 20000, .poll_ms = 10000, .poll_max_ms = 20000, .watch_window_ms = 20000, \
                .watch_poll_ms = 10000                                                                \
        }

/* What the plane works with. All borrowed; all outlive it. */
struct rack_parts {
        struct lessor_lease_store *store;
        const char *store_kind; /* "sqlite" or "memory" */
        struct lessor_object_store *objects;
        struct log_files *logs;
        struct log_watch *log_watch; /* told of what is appended to them; NULL: nobody reads along */
        struct rack_events *events;  /* the store tells them; the plane listens */
};

struct rack_plane {
        struct rack_options options;
        struct rack_parts parts;
        struct http_route *routes;
        struct waiting *waiting; /* polls and watches */
        struct closure_cache *closures;
        struct transfers *transfers; /* of objects, by capability URLs */
};

/*
 * Makes the plane. Options are copied, their texts and lists borrowed.
 *
 * Returns 0; LESSOR_E_INVALID (an option is out of its range); LESSOR_E_FULL (no place among the listeners);
 * LESSOR_E_NOMEM.
 */
int rack_plane_new(const struct rack_options *options, const struct rack_parts *parts,
                   struct rack_plane **ret_plane);

/* No request may be under way, and the store told its last event. Takes NULL, returns NULL. */
struct rack_plane *rack_plane_free(struct rack_plane *plane);

/*
 * The routes, for http_listen: each has the plane as its own context, so that they can stand in one table
 * with others. They end with a row that takes the rest of /api/rack/. Live as long as the plane.
 */
const struct http_route *rack_routes(const struct rack_plane *plane);

/* How many objects are on their way right now, in or out. */
size_t rack_plane_n_transfers(const struct rack_plane *plane);

/* How many racks wait for a lease right now, or for a cancellation. */
size_t rack_plane_n_waiting(const struct rack_plane *plane);

#endif
