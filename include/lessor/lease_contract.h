/* SPDX-License-Identifier: MIT */
#ifndef LESSOR_LEASE_CONTRACT_H
#define LESSOR_LEASE_CONTRACT_H

#include "lessor/lease_store.h"
#include "lessor/lease_transfer.h"
#include "lessor/rack_registry.h"

/*
 * The contract of a lease store: every rule of rack-protocol sections 2, 3 and 6 to 10 that is a store's, as
 * a case that any implementation of lessor/lease_store_ops.h can be held to. It is plain C and knows no test
 * runner: walk the list, run each case in whatever frame you test in, and report what it says.
 *
 * What it cannot prove is what lessor/routing_contract.h says of its own: atomicity between processes,
 * durability over a crash, steps of the machine's clock, cost, and what happens when memory or disk run out.
 */
struct lessor_lease_contract_options {
        void *context; /* handed to each function below */

        /* A new, empty store with these options that tells this listener. Returns 0 or a LESSOR_E_ code. */
        int (*make)(void *context, const struct lessor_lease_options *options,
                    const struct lessor_lease_listener *listener, struct lessor_lease_store **ret_store);

        /* Ends a store that `make` made, and whatever it left behind. NULL: lessor_lease_store_free. */
        void (*done)(void *context, struct lessor_lease_store *store);

        /* Moves the store's clock on. NULL: the cases that need time are skipped, and say so. */
        void (*advance)(void *context, struct lessor_lease_store *store, int64_t by_ms);

        /* Ends the store in good order and opens what it kept, with the options of `make`. NULL: it keeps
         * nothing. */
        int (*reopen)(void *context, const struct lessor_lease_listener *listener,
                      struct lessor_lease_store **store);
};

/* What a case needs of the options, beyond `make`. */
enum lessor_lease_contract_need {
        LESSOR_LEASE_CONTRACT_NEEDS_ADVANCE = 1,
        LESSOR_LEASE_CONTRACT_NEEDS_REOPEN = 2,
};

struct lessor_lease_contract_probe;

struct lessor_lease_contract_case {
        const char *name; /* the behaviour: "a_lease_is_granted_again_only_after_its_deadline" */
        const char *rule; /* where it is laid down: "R053" */
        unsigned needs;   /* lessor_lease_contract_need bits */
        int (*run)(struct lessor_lease_contract_probe *probe);
};

enum lessor_lease_contract_verdict {
        LESSOR_LEASE_CONTRACT_PASSED,
        LESSOR_LEASE_CONTRACT_SKIPPED,
        LESSOR_LEASE_CONTRACT_FAILED,
};

/* The i-th case, in an order in which a new store best comes to pass them; NULL behind the last. Static. */
const struct lessor_lease_contract_case *lessor_lease_contract(size_t i);

/*
 * Runs one case on a store of its own.
 *
 * text, cap  unless it passed, gets why, NUL-terminated and cut to fit
 */
enum lessor_lease_contract_verdict
lessor_lease_contract_run(const struct lessor_lease_contract_case *contract_case,
                          const struct lessor_lease_contract_options *options, char *text, size_t cap);

#endif
