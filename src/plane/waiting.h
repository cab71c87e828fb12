/* SPDX-License-Identifier: MIT */
#ifndef PLANE_WAITING_H
#define PLANE_WAITING_H

#include "http/http.h"

/*
 * Requests that each wait for several things at once, some of which one of them will do: a lease of a tier is
 * for one rack, a removed rack is for all of its polls. (http/parking.h is for one thing that all look at.)
 *
 * What happens is an event at a place, and a waiter stands at several places. waiting_wake_all() wakes all
 * who sleep at one; waiting_wake_one() wakes the one that has stood there longest and gives it the turn,
 * which it has to spend or pass on: to the next who sleeps there, so that nothing is woken twice for one
 * event and no event is lost on somebody who had no use for it.
 *
 * No event is lost between looking and sleeping either:
 *
 *     waiter_look(w); look; answer and leave, or
 *     waiter_sleep(w, ...);
 *
 * An event at one of its places since waiter_look() has the continuation run at once.
 *
 * Waking costs as much as there are to be woken, not as there are waiting. Everything is thread-safe, but a
 * waiter belongs to its request's run.
 */
struct waiting;
struct waiter;

enum place_kind {
        PLACE_TIER,  /* a tier's work */
        PLACE_RACK,  /* a rack's registration */
        PLACE_LEASE, /* repo and lease id */
        PLACE_RACKS, /* what concerns every rack */
};

/* A place by its name; `b` is empty where one text says all. */
struct place {
        enum place_kind kind;
        struct lessor_slice a, b;
};

struct waiting *waiting_new(void); /* NULL when memory is short */

/* No request may be waiting any more. Takes NULL, returns NULL. */
struct waiting *waiting_free(struct waiting *waiting);

/*
 * Has a request stand at these places; a place that is named twice counts once. The waiter lives in the
 * request's arena and leaves with it, at the latest; a turn that it then has is passed on.
 *
 * Returns 0 or LESSOR_E_NOMEM.
 */
int waiting_enter(struct waiting *waiting, struct http_request *request, const struct place *places,
                  size_t n_places, struct waiter **ret_waiter);

/* What happens from here on will not be slept through. */
void waiter_look(struct waiter *waiter);

/*
 * Suspends the request, as http_suspend() does, until something happens at one of its places. A turn that it
 * still has is passed on.
 */
void waiter_sleep(struct waiter *waiter, int64_t wait_ms, http_handler *resumed, void *context);

/* Spends its turn, if it has one at this place, and passes any other on. */
void waiter_spend(struct waiter *waiter, const struct place *place);

/* Drops its turn: there is nothing to be done there. */
void waiter_drop(struct waiter *waiter);

/* Whether turns at places of this kind pass it by; it stands at the end of the row afterwards. */
void waiter_pass_by(struct waiter *waiter, enum place_kind kind, bool pass_by);

/* Ends it before the request ends; it passes its turn on. */
void waiter_leave(struct waiter *waiter);

/* Each returns how many were woken. */
size_t waiting_wake_all(struct waiting *waiting, const struct place *place);
size_t waiting_wake_one(struct waiting *waiting, const struct place *place);

/* How many there are. */
size_t waiting_count(struct waiting *waiting);

#endif
