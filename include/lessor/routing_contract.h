/* SPDX-License-Identifier: MIT */
#ifndef LESSOR_ROUTING_CONTRACT_H
#define LESSOR_ROUTING_CONTRACT_H

#include "lessor/routing_store.h"

/*
 * The contract of a routing store: every rule of relay-protocol section 10 as a case that any implementation
 * of lessor/routing_store.h can be held to. It is plain C and knows no test runner: walk the list, run each
 * case in whatever frame you test in, and report what it says.
 *
 *         size_t n;
 *         const struct lessor_contract_case *cases = lessor_routing_contract(&n);
 *         for (size_t i = 0; i < n; i++) {
 *                 char text[512];
 *                 int verdict = lessor_routing_contract_run(&cases[i], &options, text, sizeof(text));
 *                 …
 *         }
 *
 * What it cannot prove, and whoever writes a store has to see to by other means:
 *
 *  - Atomicity between processes. Threads of one process claim against each other here. A store that several
 *    processes share has to show with several processes that no job is granted twice.
 *  - Durability. With `reopen` it proves that what was answered is there after an orderly end. Whether it
 * survives a crash is shown only by crashing: kill the process, cut the power, fail the write.
 *  - Anything about time that `advance` cannot move, such as how a store stands a step of the machine's
 * clock.
 *  - That answers take the same time whether or not another site has a job, and how much anything costs.
 *  - The absence of other operations' side effects in general: each case looks where it was thought wise to
 * look. The project's simulation compares whole states over random histories; it can be pointed at any store
 * too.
 *  - What happens when memory or disk run out.
 */
struct lessor_contract_options {
        void *context; /* handed to each function below */

        /* A new, empty store that tells this listener. Returns 0 or a LESSOR_E_ code. */
        int (*make)(void *context, const struct lessor_routing_listener *listener,
                    struct lessor_routing_store **ret_store);

        /* Ends a store that `make` made, and whatever it left behind. NULL: lessor_routing_store_free. */
        void (*done)(void *context, struct lessor_routing_store *store);

        /* Moves the store's clock on. NULL: the cases that need time are skipped, and say so. */
        void (*advance)(void *context, struct lessor_routing_store *store, int64_t by_ms);

        /* Ends the store in good order and opens what it kept. NULL: the store keeps nothing. */
        int (*reopen)(void *context, const struct lessor_routing_listener *listener,
                      struct lessor_routing_store **store);

        /*
         * Replaces a job's stored stub by a text, behind the store's back; it may end and reopen the store
         * for that. NULL: the store does not serialise.
         */
        int (*write_raw_stub)(void *context, struct lessor_routing_store **store, struct lessor_slice site_id,
                              struct lessor_slice job_id, struct lessor_slice raw);
};

/* What a case needs of the options, beyond `make`. */
enum lessor_contract_need {
        LESSOR_CONTRACT_NEEDS_ADVANCE = 1,
        LESSOR_CONTRACT_NEEDS_REOPEN = 2,
        LESSOR_CONTRACT_NEEDS_RAW_STUB = 4,
};

struct lessor_contract_probe;

struct lessor_contract_case {
        const char *name; /* the behaviour: "a_refused_job_is_not_offered_again" */
        const char *rule; /* where it is laid down: "claim, REFUSAL_NOT_REOFFERED" */
        unsigned needs;   /* lessor_contract_need bits */
        int (*run)(struct lessor_contract_probe *probe);
};

enum lessor_contract_verdict { LESSOR_CONTRACT_PASSED, LESSOR_CONTRACT_SKIPPED, LESSOR_CONTRACT_FAILED };

/* All cases, in an order in which a new store best comes to pass them. Static. */
const struct lessor_contract_case *lessor_routing_contract(size_t *ret_n);

/*
 * Runs one case on a store of its own.
 *
 * text, cap  unless it passed, gets why, NUL-terminated and cut to fit
 */
enum lessor_contract_verdict lessor_routing_contract_run(const struct lessor_contract_case *contract_case,
                                                         const struct lessor_contract_options *options,
                                                         char *text, size_t cap);

#endif
