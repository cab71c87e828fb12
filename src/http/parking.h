/* SPDX-License-Identifier: MIT */
#ifndef HTTP_PARKING_H
#define HTTP_PARKING_H

#include "http/http.h"

/*
 * A lot where requests wait for something that has a name: "there is a result for site S". Thread-safe.
 *
 * No event is lost between looking and waiting:
 *
 *     generation = parking_generation(lot, key);
 *     look; answer if there is something; else
 *     parking_wait(lot, request, key, generation, ...);
 *
 * and whoever makes the thing true calls parking_wake() afterwards. If that came after parking_generation(),
 * the continuation runs at once. Generations are kept for groups of keys, so a continuation may run although
 * nothing happened: it looks again, as it must in any case, and waits for what is left of its time.
 */
struct parking_lot;

/* Returns NULL when memory is short. */
struct parking_lot *parking_lot_new(void);

/* No request may be waiting any more: drain the server first. Takes NULL, returns NULL. */
struct parking_lot *parking_lot_free(struct parking_lot *lot);

uint64_t parking_generation(struct parking_lot *lot, struct lessor_slice key);

/*
 * Suspends the request until parking_wake(), the end of `wait_ms` (negative: none), the peer's leaving or the
 * server's drain; then `resumed` runs on a worker, once. The key is copied into the request's arena.
 * Counts as the run's http_suspend(). Without memory `resumed` runs soon, with http_wait_over().
 */
void parking_wait(struct parking_lot *lot, struct http_request *request, struct lessor_slice key,
                  uint64_t generation, int64_t wait_ms, http_handler *resumed, void *context);

/* Wakes all who wait for this key, in the order of their coming. Costs as much as there are such. Returns how
 * many. */
size_t parking_wake(struct parking_lot *lot, struct lessor_slice key);

/*
 * As parking_wake, but at most `max`, longest waiting first. A continuation that finds its peer gone
 * (http_peer_gone) should pass on what it was woken for, by waking another.
 */
size_t parking_wake_some(struct parking_lot *lot, struct lessor_slice key, size_t max);

/*
 * For an answer that is streamed (http/stream.h): from now on every parking_wake() of this key wakes it,
 * until the request ends. Does not suspend. Returns 0 or LESSOR_E_NOMEM.
 */
int parking_follow(struct parking_lot *lot, struct http_request *request, struct lessor_slice key);

/* How many wait. */
size_t parking_count(struct parking_lot *lot);

#endif
