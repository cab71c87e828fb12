/* SPDX-License-Identifier: MIT */
#ifndef PLANE_CONTROL_H
#define PLANE_CONTROL_H

#include "base/buf.h"
#include "base/macro.h"
#include "http/server.h"
#include "lessor/routing_store.h"
#include "plane/rack.h"
#include "routing/directory/directory.h"
#include "routing/directory/pairing.h"
#include "routing/directory/policy.h"
#include "routing/directory/projection.h"
#include "routing/directory/source.h"

/*
 * The control API, /api/control/v1: how people and programs drive the server. JSON in, JSON out.
 *
 * What reads is GET, with its filters in the query; what changes something is POST with a JSON object, and
 * replacing a document whole is PUT. Ids are never part of a path, since they may hold any character. Errors
 * are {"error":code,"message":sentence} with the status that HTTP has for them.
 *
 * A Unix socket answers whoever the HTTP server lets through, which is its owner and root. Over TCP every
 * request needs `Authorization: Bearer TOKEN`.
 */
struct control;

/* What the plane works with. All borrowed, texts included; all outlive it. */
struct control_parts {
        struct lessor_routing_store *store;
        const char *store_kind;      /* "sqlite" or "memory" */
        const char *data;            /* the data directory */
        struct directory *directory; /* NULL: projection and policy both come from files */
        struct pairing_table *pairings;
        struct projection_cell *projections;
        struct policy_cell *policies;

        /* Where the projection and the policy come from; NULL: the built-in tables. */
        const char *projection_file;
        struct source *projection_source;
        const char *policy_file;

        /*
         * The server and its addresses as people read them, for figures. Each may be filled in after
         * control_new and before the server starts; NULL and 0 until then.
         */
        struct http_server *const *http;
        const char *const *const *listeners;
        const size_t *n_listeners;

        struct rack_plane *rack; /* NULL: this server leases no tasks to racks */

        const char *token_file; /* of the bearer token; NULL: control_token_routes() serves nothing */
};

/*
 * Makes the plane and reads the token. The token's file must not be readable by group and others; blanks and
 * line ends around the token do not count; it must have 16 characters at least.
 *
 * ret_problem  a sentence for people, on failure
 *
 * Returns 0; LESSOR_E_INVALID or what file_read returns for the token; LESSOR_E_FULL (no place among the
 * listeners of the rack plane); LESSOR_E_NOMEM.
 */
int control_new(const struct control_parts *parts, struct buf *ret_problem, struct control **ret_control);

/* Whether control_new would take this file of a token; returns as it does. */
int control_token_check(const char *path, struct buf *ret_problem);

/*
 * No request may be under way, and the lease store has told its last event. Waits for a backup that is under
 * way. Takes NULL, returns NULL.
 */
struct control *control_free(struct control *control);
DEFINE_CLEANUP(struct control, control_free)

/*
 * The routes, for an http_listen whose context is the control: for the Unix socket, and for TCP, where a
 * bearer token is needed. Both live as long as the control. The second is NULL without a token.
 */
const struct http_route *control_routes(const struct control *control);
const struct http_route *control_token_routes(const struct control *control);

#endif
