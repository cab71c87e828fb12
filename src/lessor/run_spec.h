/* SPDX-License-Identifier: MIT */
#ifndef LESSOR_RUN_SPEC_H
#define LESSOR_RUN_SPEC_H

#include "client/tree_pack.h"
#include "lessor/command.h"
#include "wire/task_objects.h"

/* What `lessor run` was asked for, as read from its command line. */

/* Where outputs are looked for when none are named. */
#define RUN_OUTPUT_DEFAULT "out"

struct run_spec {
        struct task task;        /* all but its inputs */
        struct tree_root *roots; /* what the inputs are packed from */
        size_t n_roots;
        bool has_outputs; /* some were named */
        const char *tier;
        const char *repo;
        const char *dest; /* where outputs are put */
        int64_t ttl_ms;   /* 0: none */
        int64_t attempt_limit;
        const char *task_name;
};

/*
 * Reads it. Everything is in the arena of the run, or is the command line's. Says on stderr what is wrong.
 * Returns an enum cli_exit.
 */
int run_spec_read(struct cli *cli, struct run_spec *ret_spec);

/*
 * Where a path of this machine is placed for the task: at the same path if it lies below the current
 * directory, else under its last name alone. "." and what is the same gives the empty slice: everything.
 *
 * Returns 0; LESSOR_E_INVALID (no name is left, as in "/" or ".."); LESSOR_E_NOMEM.
 */
int run_spec_place(const char *path, struct lessor_arena *arena, struct lessor_slice *ret_place);

#endif
