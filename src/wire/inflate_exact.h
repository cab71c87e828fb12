/* SPDX-License-Identifier: MIT */
#ifndef WIRE_INFLATE_EXACT_H
#define WIRE_INFLATE_EXACT_H

#include "lessor/arena.h"
#include "lessor/error.h"

/*
 * Whether a raw DEFLATE stream of `payload_len` bytes could give `len` bytes at all: no stream says more than
 * 258 bytes with two bits. To be asked before memory is taken on the word of a stranger.
 */
bool inflate_is_plausible(size_t payload_len, size_t len);

/*
 * Undoes raw DEFLATE (RFC 1951) into exactly `len` bytes in the arena (beast2, 9). Takes any valid stream.
 *
 * Returns 0; LESSOR_E_MALFORMED (invalid, or it ends early, or gives more or fewer bytes, or is followed by
 * others); LESSOR_E_NOMEM.
 */
int inflate_exact(struct lessor_slice payload, size_t len, struct lessor_arena *arena,
                  struct lessor_slice *ret_bytes);

#endif
