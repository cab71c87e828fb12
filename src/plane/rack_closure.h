/* SPDX-License-Identifier: MIT */
#ifndef PLANE_RACK_CLOSURE_H
#define PLANE_RACK_CLOSURE_H

#include "base/macro.h"
#include "lessor/lease_types.h"
#include "lessor/object_store.h"
#include "wire/lease_event.h"

/*
 * What the guest of a lease may read (rack-protocol 11): the hashes of its closure, and where they stand in
 * an object of their own, that object too. A closure never changes, so those that were read are remembered:
 * the 64 leases asked about last, and no more than 64 MiB of them. Failures are not remembered. Thread-safe.
 */
struct closure_cache;

#define CLOSURE_CACHE_LEASES 64
#define CLOSURE_CACHE_BYTES  67108864

/* NULL when memory is short. */
struct closure_cache *closure_cache_new(struct lessor_object_store *objects);
/* Takes NULL, returns NULL. */
struct closure_cache *closure_cache_free(struct closure_cache *cache);
DEFINE_CLEANUP(struct closure_cache, closure_cache_free)

/*
 * Whether a lease's guest may read all of `need`; a text that is no hash is in no closure. Reads the closure
 * if it is not remembered, and then references all of its objects again: it is unreadable when one is
 * missing. Blocks on the disk, where `closure_cache_knows` does not say that it will not.
 *
 * lease        with its event
 * arena        for the work
 * ret_problem  may be NULL; on failure a clause for people, static or in the arena
 *
 * Returns 0; LESSOR_E_MALFORMED, LESSOR_E_INVALID, LESSOR_E_NOT_FOUND, LESSOR_E_TOO_LARGE (the closure cannot
 * be read whole); what the object store says; LESSOR_E_NOMEM.
 */
int closure_cache_admits(struct closure_cache *cache, const struct lessor_lease *lease,
                         const struct lessor_slice *need, size_t n_need, struct lessor_arena *arena,
                         bool *ret_admitted, const char **ret_problem);

/* Whether the closure of a lease is remembered just now. */
bool closure_cache_knows(struct closure_cache *cache, const struct lessor_lease_name *name);

/*
 * The hashes that a closure lists, from its object if that is where they are. That object itself is not among
 * them. Nothing is referenced. Blocks on the disk in that case.
 *
 * Returns 0; LESSOR_E_MALFORMED, LESSOR_E_INVALID, LESSOR_E_NOT_FOUND, LESSOR_E_TOO_LARGE (it cannot be read
 * whole); what the object store says; LESSOR_E_NOMEM.
 */
int closure_list(struct lessor_object_store *objects, struct lessor_slice repo,
                 const struct lease_closure *closure, struct lessor_arena *arena,
                 struct lessor_slice **ret_hashes, size_t *ret_n);

/*
 * References again what an event's closure names, as far as it is there: for whoever creates a lease, so that
 * a collection that began before does not take away what the lease may read. Blocks on the disk. Returns 0;
 * what the object store says; LESSOR_E_NOMEM.
 */
int closure_reference(struct lessor_object_store *objects, struct lessor_slice repo,
                      struct lessor_slice event, struct lessor_arena *arena);

#endif
