/* SPDX-License-Identifier: MIT */
#ifndef TESTS_CONTRACT_STORE_KINDS_H
#define TESTS_CONTRACT_STORE_KINDS_H

#include "base/clock.h"
#include "lessor/routing_store.h"

/* The stores that the contract, the simulation and the driver run on: one row each. */
struct store_kind {
        const char *name;
        bool durable; /* a store made again in the same directory has what the last one had */
        /* `directory` exists and is the store's own; one that keeps nothing does not look at it. */
        int (*make)(struct clock *clock, const struct lessor_routing_listener *listener,
                    const char *directory, struct lessor_routing_store **ret_store);
        /*
         * Replaces a stored stub by this text, behind the store's back, for stores that keep stubs as text;
         * NULL for the others. The store must behave as if it found the text when it next looks.
         */
        int (*write_raw_stub)(struct lessor_routing_store **store, struct clock *clock, const char *directory,
                              struct lessor_slice site_id, struct lessor_slice job_id,
                              struct lessor_slice raw);
};

extern const struct store_kind store_kinds[];
extern const size_t n_store_kinds;

/* The row of that name, or NULL. */
const struct store_kind *store_kind_named(const char *name);

#endif
