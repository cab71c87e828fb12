/* SPDX-License-Identifier: MIT */
#ifndef TESTS_LEASING_HISTORY_H
#define TESTS_LEASING_HISTORY_H

#include "leasing/engine.h"

/*
 * Random histories of an engine: a step is rolled once and can then be carried out on any engine, which says
 * what came of it as text. Equal engines say equal texts.
 */
struct history {
        uint64_t dice;
        int64_t now_ms;
        unsigned n_steps;
        unsigned n_names;
        /* What earlier steps made and later ones name. */
        char leases[64][200];
        unsigned claims[64];
        char attempts[64][64];
        unsigned n_leases;
        unsigned granted[8]; /* the leases last granted */
        unsigned n_granted;
        char racks[4][64];
        char tokens[4][64]; /* of each rack, the newest */
        char urls[8][65];
        unsigned n_urls;
};

struct step {
        unsigned what;
        uint64_t rolls[8];
        int64_t now_ms;
        unsigned number; /* of the step, for fresh names */
};

void history_init(struct history *h, uint64_t seed);
uint64_t history_roll(struct history *h, uint64_t n);

/* Rolls the next step; time moves on with it. */
struct step history_next(struct history *h);

/*
 * Carries a step out. What it made is noted in the history, if that is wanted: by the first engine of
 * several.
 *
 * ret_code  what the engine said
 * text      gets what came of it
 */
void history_do(struct history *h, const struct step *step, struct lease_engine *e,
                struct lessor_arena *arena, bool note, int *ret_code, char *text, size_t cap);

extern const struct lessor_lease_options history_options;

#endif
