/* SPDX-License-Identifier: MIT */
#ifndef WIRE_BEAST2_WRITE_H
#define WIRE_BEAST2_WRITE_H

#include "wire/beast2_type.h"

/*
 * Appends a message: the one encoding that its value has (beast2, 1 to 8).
 *
 * value  type->size bytes, laid out as beast2_type.h says. Dicts may be in any order
 *
 * Returns 0; LESSOR_E_INVALID (a text is not UTF-8, a time is out of range, a case number is none, a Dict has
 * a key twice); LESSOR_E_TOO_LARGE (more than any reader takes); LESSOR_E_NOMEM. On failure `out` holds what
 * it held. Thread-safe.
 */
int beast2_write(const struct beast2_type *type, const void *value, struct buf *out);

/*
 * As beast2_write, for a Variant of which only the payload is at hand: case `number` of `type` with that
 * payload (NULL for Null). What an answer's envelope wants: no copy of the answer into it.
 */
int beast2_write_case(const struct beast2_type *type, size_t number, const void *payload, struct buf *out);

#endif
