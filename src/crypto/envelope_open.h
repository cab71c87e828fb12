/* SPDX-License-Identifier: MIT */
#ifndef CRYPTO_ENVELOPE_OPEN_H
#define CRYPTO_ENVELOPE_OPEN_H

#include "crypto/identity_key.h"
#include "crypto/stored_keys.h"
#include "lessor/arena.h"
#include "lessor/relay_types.h"

/* What the opener knows beforehand. In library `crypto_open`, which the server never links. */
struct envelope_expected {
        struct lessor_slice job_id;
        struct lessor_slice sender_key_id;
        struct lessor_slice recipient_key_id;
        enum lessor_direction direction;
        const struct identity_key *sender; /* as pinned, never as named by the envelope */
};

/*
 * Opens an envelope and checks who sealed it and for what (relay-protocol 6.7). The deadline is not compared
 * with any clock.
 *
 * arena          owns the plaintext, which is wiped when the arena is cleared or freed
 * ret_plaintext  valid UTF-8; may be empty, may contain NUL
 *
 * The first failure wins: LESSOR_E_NOT_FOR_US (outer fields), LESSOR_E_UNOPENABLE (the box),
 * LESSOR_E_MALFORMED (inner text), LESSOR_E_BAD_SIGNATURE, LESSOR_E_MALFORMED (body is no JSON),
 * LESSOR_E_CONTEXT_MISMATCH (inner fields), LESSOR_E_MALFORMED (plaintext is no string). Also LESSOR_E_NOMEM.
 * Thread-safe.
 */
int envelope_open(const struct stored_keys *recipient, const struct envelope_expected *expected,
                  const struct lessor_sealed_envelope *envelope, struct lessor_arena *arena,
                  struct lessor_slice *ret_plaintext);

#endif
