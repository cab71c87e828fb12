/* SPDX-License-Identifier: MIT */
#ifndef WIRE_ENVELOPE_TEXT_H
#define WIRE_ENVELOPE_TEXT_H

#include "base/buf.h"
#include "lessor/arena.h"
#include "lessor/error.h"
#include "lessor/relay_types.h"

/* An envelope as one JSON text, which is how the relay keeps it, and how large it counts
 * (relay-protocol 6.7). */

/*
 * The size of an envelope in UTF-16 units of its JSON text. Reads the ciphertext once and copies nothing. All
 * texts must be valid UTF-8.
 */
size_t envelope_units(const struct lessor_sealed_envelope *envelope);

/*
 * The envelope's JSON text, its five fields in the order ciphertext, recipientKeyId, senderKeyId, direction,
 * deadlineAt, in the arena. The ciphertext is copied exactly once.
 *
 * Returns 0; LESSOR_E_TOO_LARGE (more than LIMIT_ENVELOPE_UNITS; nothing was copied, and `ret_units` is
 * written); LESSOR_E_NOMEM.
 *
 * ret_units  the size in UTF-16 units; may be NULL
 */
int envelope_text(const struct lessor_sealed_envelope *envelope, struct lessor_arena *arena,
                  struct lessor_envelope *ret_envelope, size_t *ret_units);

/* "6.1 MB": a size in tenths of 1048576 units, rounded up. Returns 0 or LESSOR_E_NOMEM. */
int envelope_size_append(size_t units, struct buf *out);

#endif
