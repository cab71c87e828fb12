/* SPDX-License-Identifier: MIT */
#ifndef WIRE_DEFLATE_FIXED_H
#define WIRE_DEFLATE_FIXED_H

#include <stdbool.h>

#include "base/buf.h"
#include "lessor/error.h"

/* No more than so many bytes at once. */
#define DEFLATE_FIXED_MOST 0x7fffffff

/*
 * Appends the one raw DEFLATE stream that BEAST2 has for these bytes (beast2, 8): one block of fixed codes,
 * the greedy matches of a 32 KiB window. Library deflaters differ from one another, hence our own.
 *
 * Gives up as soon as the stream is not going to be shorter than the bytes, which nobody writes.
 *
 * ret_is_shorter  whether the stream was appended; if not, `out` is as it was
 *
 * Returns 0; LESSOR_E_NOMEM; LESSOR_E_TOO_LARGE past DEFLATE_FIXED_MOST. In both cases `out` holds what it
 * held.
 */
int deflate_fixed(struct lessor_slice bytes, struct buf *out, bool *ret_is_shorter);

#endif
