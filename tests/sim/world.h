/* SPDX-License-Identifier: MIT */
#ifndef TESTS_SIM_WORLD_H
#define TESTS_SIM_WORLD_H

#include "../contract/store_kinds.h"
#include "base/clock.h"
#include "model.h"

/*
 * One history: the model, the stores that live through it side by side, and the dice. Everything that happens
 * comes from the seed.
 */
#define WORLD_STORES 4
#define WORLD_IDS    20 /* job ids: few, so that sites share them and calls come again for the same job */

struct world_store {
        const struct store_kind *kind;
        struct lessor_routing_store *store;
        char *directory;
        char **leases; /* the store's text of lease number i + 1 */
        size_t n_leases;
        struct lessor_arena *arenas[2];
        struct lessor_job_list now, before; /* every job, after this step and after the last one */
        bool restarted;
        unsigned n_churns; /* reports that the listener has heard */
        unsigned churn_expiries;
};

/* Who may have been touched by a step; the jobs of all others must be as they were. */
struct world_step {
        const char *op;
        int site;   /* -1: not a site's call */
        int runner; /* -1: not a holder's call */
        bool sweeps;
        bool acks;
};

struct world {
        struct model model;
        struct clock_manual clock;
        struct world_store stores[WORLD_STORES];
        size_t n_stores;
        uint64_t dice;
        uint64_t seed;
        uint64_t step;
        uint64_t next_envelope;
        unsigned n_churns;
        unsigned churn_expiries;
        struct lessor_arena *arena; /* of the step under way */
        struct world_step at;
        bool failed;
};

/* A number from 0 to n - 1. */
uint64_t world_roll(struct world *w, uint64_t n);

/* Says what went wrong, once, with how to see it again. */
void world_fail(struct world *w, const struct world_store *s, const char *format, ...)
        __attribute__((format(printf, 3, 4)));

/* "site-3", in the step's arena. */
struct lessor_slice world_name(struct world *w, const char *what, uint64_t number);

/* The store's text of a lease number, a text that never was one for 0. */
struct lessor_slice world_lease(struct world *w, const struct world_store *s, uint64_t lease);

/* Notes the text that a store gave a new lease. */
void world_note_lease(struct world *w, struct world_store *s, struct lessor_slice text);

int64_t world_now(struct world *w);
int world_owner_of(int runner);

/* Fails unless a store's job is what the model says. */
void world_check_job(struct world *w, const struct world_store *s, const struct lessor_job *job,
                     const struct model_job *want);

/* Holds everything that every store says against the model and against what it said before. */
void world_check(struct world *w);

/* Does one random thing. */
void world_step(struct world *w);

#endif
