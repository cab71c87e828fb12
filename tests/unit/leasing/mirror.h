/* SPDX-License-Identifier: MIT */
#ifndef TESTS_LEASING_MIRROR_H
#define TESTS_LEASING_MIRROR_H

#include "leasing/engine.h"

/* The rows that a store would have, from an engine's changes alone. */
struct mirror {
        struct mirrored *rows;
        struct lessor_arena *arena; /* of all texts that ever were */
        uint64_t last_seq;          /* the highest ever: a store keeps it beside its rows */
        bool require_start_approval;
        struct lessor_slice turn; /* absent: none yet */
};

void mirror_init(struct mirror *m);
void mirror_done(struct mirror *m);

/* Takes and drops every change. */
void mirror_take(struct mirror *m, struct lease_engine *e);

/* Puts every row into a new engine. */
void mirror_restore(struct mirror *m, struct lease_engine *e);

#endif
