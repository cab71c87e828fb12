/* SPDX-License-Identifier: MIT */
#ifndef BENCH_LEASE_WORLD_H
#define BENCH_LEASE_WORLD_H

#include "base/buf.h"
#include "base/macro.h"
#include "lessor/lease_store.h"

/* Leases and racks as the measurements of the lease store make them: texts of the usual lengths. */

#define LEASE_WORLD_BOOT LESSOR_SLICE("0199c82c-c000-7dae-9868-41c76dd491a6")
#define LEASE_WORLD_HASH LESSOR_SLICE("9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08")

struct lease_world;

/* Returns 0 or LESSOR_E_NOMEM. */
int lease_world_new(size_t event_bytes, size_t result_bytes, struct lease_world **ret_world);
struct lease_world *lease_world_free(struct lease_world *world);
DEFINE_CLEANUP(struct lease_world, lease_world_free)

/* A lease of repo "work", tier "cpu"; its texts are the world's. */
struct lessor_lease_submission lease_world_submission(const struct lease_world *world);
struct lessor_slice lease_world_result(const struct lease_world *world);

/* Enrolls the rack of that number and lets it beat once. Its id is the world's. */
int lease_world_rack(const struct lease_world *world, struct lessor_lease_store *store, unsigned number,
                     struct lessor_slice *ret_rack_id);

#endif
