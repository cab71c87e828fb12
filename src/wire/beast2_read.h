/* SPDX-License-Identifier: MIT */
#ifndef WIRE_BEAST2_READ_H
#define WIRE_BEAST2_READ_H

#include "lessor/arena.h"
#include "wire/beast2_type.h"

/* What a reader will spend on one message. */
struct beast2_limits {
        size_t logical; /* bytes that the frames may stand for: the L of beast2, 10; at most
                           LIMIT_BEAST2_LOGICAL_MOST */
        size_t memory;  /* bytes of lists, options and bookkeeping beside them */
};

/*
 * Reads one message of the expected type: the whole of it, or nothing.
 *
 * bytes        borrowed; texts and blobs of the value point into it where it was not compressed
 * limits       NULL for LIMIT_BEAST2_LOGICAL and LIMIT_BEAST2_MEMORY. Checked before memory is taken
 * arena        owns everything else in the value. Lists that the message aliases share their items
 * ret_value    type->size bytes; all zero on failure
 * ret_problem  may be NULL; on failure a clause for people. Static
 *
 * Refuses all that beast2, 10 lists. Returns 0; LESSOR_E_MALFORMED; LESSOR_E_TOO_LARGE (a limit);
 * LESSOR_E_NOMEM. Thread-safe.
 */
int beast2_read(const struct beast2_type *type, struct lessor_slice bytes, const struct beast2_limits *limits,
                struct lessor_arena *arena, void *ret_value, const char **ret_problem);

#endif
