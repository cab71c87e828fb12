/* SPDX-License-Identifier: MIT */
#ifndef PLANE_COLLECTION_H
#define PLANE_COLLECTION_H

#include "lessor/lease_store.h"
#include "lessor/object_store.h"

/*
 * Which objects the rack plane needs, for a collection of the others (rack-protocol 18, "Objects").
 *
 * What stays, besides the young: of each lease that is open or can be replayed, the closure and every hash
 * ever issued for writing; of each that was completed and is still in the store, its output; the layers of
 * published environments. Who wants an output for longer than the store keeps its lease fetches it, or
 * references it again.
 */

/* The repository that holds the layers of environments, by the digits of their digests. No leases go there.
 */
#define RACK_LAYER_REPO "env-layers"

/* Age below which everything stays, unless somebody says otherwise. */
#define COLLECTION_GRACE_MS 86400000

/*
 * Collects, in all repositories. Blocks for as long as that takes; only one at a time makes sense, and more
 * do no harm.
 *
 * dry  only counts
 *
 * Returns 0; what the stores say: then nothing was removed, or not all of it.
 */
int collection_run(struct lessor_object_store *objects, struct lessor_lease_store *leases, int64_t grace_ms,
                   bool dry, struct lessor_object_collected *ret_collected);

#endif
