/* SPDX-License-Identifier: MIT */
#ifndef BASE_ENCODE_H
#define BASE_ENCODE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "lessor/arena.h"

/*
 * Bytes as text and back. Writers write the one canonical form. All are pure but for the memory they take.
 */

/* Appends lower-case hex. Returns 0 or LESSOR_E_NOMEM. */
int hex_append(struct buf *out, const void *bytes, size_t n);

/* Reads exactly 2*n hex digits of either case into `ret_bytes` (n bytes). False if it is anything else. */
bool hex_read(struct lessor_slice text, void *ret_bytes, size_t n);

/* Appends base64url without padding (relay-protocol 2). Returns 0 or LESSOR_E_NOMEM. */
int base64url_append(struct buf *out, const void *bytes, size_t n);

/* Appends base64 with padding (RFC 4648 section 4). Returns 0 or LESSOR_E_NOMEM. */
int base64_append(struct buf *out, const void *bytes, size_t n);

/*
 * Reads base64url the way the reference does for keys, signatures and ciphertext: `+` and `/` count as `-`
 * and `_`, characters outside the alphabet are skipped, `=` ends it, unused bits are ignored (relay-protocol
 * 2). The bytes are put into the arena. Returns 0 or LESSOR_E_NOMEM: every text decodes to something.
 */
int base64url_read_lenient(struct lessor_slice text, struct lessor_arena *arena,
                           struct lessor_slice *ret_bytes);

/*
 * As base64url_read_lenient, for a value of a known size: at most `cap` bytes are written to `ret_bytes`, and
 * the number that the whole text stands for is returned, which may be larger than `cap`.
 */
size_t base64url_read_fixed(struct lessor_slice text, void *ret_bytes, size_t cap);

/*
 * Reads strict base64url: only the alphabet, no padding, length mod 4 not 1; trailing bits are free
 * (relay-protocol 6.7, the `body` inside an envelope). Returns 0, LESSOR_E_MALFORMED or LESSOR_E_NOMEM.
 */
int base64url_read_strict(struct lessor_slice text, struct lessor_arena *arena,
                          struct lessor_slice *ret_bytes);

/* Reads strict padded base64 (RFC 4648 section 4). Returns 0, LESSOR_E_MALFORMED or LESSOR_E_NOMEM. */
int base64_read_strict(struct lessor_slice text, struct lessor_arena *arena, struct lessor_slice *ret_bytes);

#endif
