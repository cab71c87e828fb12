/* SPDX-License-Identifier: MIT */
#ifndef TESTS_UNIT_OBJECTS_STORE_SUPPORT_H
#define TESTS_UNIT_OBJECTS_STORE_SUPPORT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/clock.h"
#include "crypto/sha256.h"
#include "lessor/object_store.h"
#include "objects/fs.h"

/* What tests of the object store share: a store in a directory of its own, on a clock that stands. */
struct world {
        char *dir;
        struct clock_manual clock;
        struct lessor_object_store *store;
        struct lessor_arena *arena;
};

#define WORLD_START_MS INT64_C(1700000000000)

int world_setup(void **state);
int world_teardown(void **state);

/* Closes the store and opens it again. */
void world_reopen(struct world *w, const struct object_io *io);
int world_try_open(struct world *w, const struct object_io *io);

/* The hash of a text, as 64 digits in the arena. */
struct lessor_slice world_hash(struct world *w, struct lessor_slice bytes);

/* Puts a text; all in one piece. */
int world_put(struct world *w, const char *repo, struct lessor_slice bytes);
int world_stage(struct world *w, const struct lessor_object_stage *stage, struct lessor_slice bytes,
                struct lessor_object_version *ret_version);

bool world_has(struct world *w, const char *repo, struct lessor_slice hash);

/* How many files are below a directory of the world's. */
size_t world_count(const struct world *w, const char *below);

/* Runs a shell command in the world's directory; must succeed. */
void world_shell(const struct world *w, const char *command);

/*
 * Calls that change the disk, of which the one of number `fail_at` fails (from 1; 0: none), or ends the
 * process.
 */
extern struct faults {
        unsigned n_calls;
        unsigned fail_at;
        int error;
        bool kill;
} faults;
extern const struct object_io faulty_io;

#endif
