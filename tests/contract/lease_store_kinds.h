/* SPDX-License-Identifier: MIT */
#ifndef TESTS_CONTRACT_LEASE_STORE_KINDS_H
#define TESTS_CONTRACT_LEASE_STORE_KINDS_H

#include "base/clock.h"
#include "lessor/lease_store.h"

/* The lease stores that the contract and the simulation run on: one row each. */
struct lease_store_kind {
        const char *name;
        bool durable; /* a store made again in the same directory has what the last one had */
        /* `directory` exists and is the store's own; one that keeps nothing does not look at it. */
        int (*make)(const struct lessor_lease_options *options, struct clock *clock,
                    const struct lessor_lease_listener *listener, const char *directory,
                    struct lessor_lease_store **ret_store);
        /*
         * Opens what a crash right now would leave, and ends the store of before. It is the same directory
         * then. NULL if it keeps nothing.
         */
        int (*crash)(const struct lessor_lease_options *options, struct clock *clock, const char *directory,
                     struct lessor_lease_store **store);
};

extern const struct lease_store_kind lease_store_kinds[];
extern const size_t n_lease_store_kinds;

/* The row of that name, or NULL. */
const struct lease_store_kind *lease_store_kind_named(const char *name);

#endif
