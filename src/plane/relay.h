/* SPDX-License-Identifier: MIT */
#ifndef PLANE_RELAY_H
#define PLANE_RELAY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "http/parking.h"
#include "lessor/routing_store.h"
#include "routing/directory/grant_author.h"
#include "routing/directory/pairing.h"
#include "routing/directory/projection.h"

/*
 * The relay plane: the HTTP surface of relay-protocol, for devices and for sites. It only translates: each
 * request is authenticated, read through a message table, put to one store, and the outcome is written.
 */
struct relay;

struct relay_options {
        const char *base_path; /* of the device plane, begins with `/`, no slash at its end; "" is the root */
        int64_t lease_ms;      /* length of a lease */
        struct lessor_slice verification_url; /* absent: no pairing by code */
        struct lessor_slice update_offer;     /* absent: none is made */
        struct lessor_slice daemon_floor;     /* absent: nobody is refused */
        bool grants;                          /* put each claimed job to the grant author */
        bool satisfiable;                     /* ask the policy at enqueue */
        bool debug;                           /* serve the debug page */
};

/* What the plane works with. All borrowed; all outlive it. */
struct relay_parts {
        struct lessor_routing_store *store;
        struct projection_cell *projections;
        const struct grant_author *author;
        struct pairing_table *pairings;
        struct parking_lot *lot; /* sites that wait for pending jobs and results */
        struct clock *wall;      /* judges the freshness of signatures (relay-protocol 4) */

        /* What /health/ready asks besides the store; returns 0 or an error. NULL: nothing. */
        int (*also_ready)(void *context);
        void *also_ready_context;
};

/*
 * Makes the plane. Options are copied, their texts borrowed.
 *
 * Returns 0; LESSOR_E_INVALID when grants are asked for without a signer: devices would reject everything
 * (relay-protocol 11); LESSOR_E_NOMEM.
 */
int relay_new(const struct relay_options *options, const struct relay_parts *parts, struct relay **ret_relay);

/* No request may be under way. Takes NULL, returns NULL. */
struct relay *relay_free(struct relay *relay);

/* The routes, for http_listen; their handlers want the relay as context. Lives as long as the relay. */
const struct http_route *relay_routes(const struct relay *relay);

/*
 * Tells the plane's waiting sites that something of theirs changed: the store's listener, with the relay's
 * parking lot as its context.
 */
void relay_on_awaiting(void *lot, struct lessor_slice site_id);
void relay_on_finished(void *lot, struct lessor_slice site_id);

#endif
