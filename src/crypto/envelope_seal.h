/* SPDX-License-Identifier: MIT */
#ifndef CRYPTO_ENVELOPE_SEAL_H
#define CRYPTO_ENVELOPE_SEAL_H

#include "base/buf.h"
#include "crypto/signing_key.h"
#include "lessor/arena.h"
#include "lessor/relay_types.h"

/* What is bound into an envelope besides its text. In library `crypto_open`, which the server never links. */
struct envelope_terms {
        struct lessor_slice job_id;
        enum lessor_direction direction;
        int64_t deadline_ms; /* epoch ms, positive */
};

/*
 * Signs a text as the sender and seals it to one recipient (relay-protocol 6.7).
 *
 * recipient     checked for consistency first, so that nothing is sealed to a key that nobody vouches for
 * plaintext     valid UTF-8; may be empty
 * arena         owns the ciphertext and the key ids
 *
 * Returns 0; LESSOR_E_INVALID (the recipient is inconsistent or its encryption key cannot be used);
 * LESSOR_E_TOO_LARGE (the envelope would pass LIMIT_ENVELOPE_UNITS); LESSOR_E_NOMEM. Thread-safe.
 */
int envelope_seal(const struct signing_key *sender, const struct lessor_public_identity *recipient,
                  const struct envelope_terms *terms, struct lessor_slice plaintext,
                  struct lessor_arena *arena, struct lessor_sealed_envelope *ret_envelope);

/*
 * The two texts on the way, for whoever wants to see them: what is signed, and what is sealed. Both append,
 * both return 0 or LESSOR_E_NOMEM, and both results are as secret as the plaintext: buf_wipe.
 */
int envelope_signed_body(const struct envelope_terms *terms, struct lessor_slice sender_key_id,
                         struct lessor_slice recipient_key_id, struct lessor_slice plaintext,
                         struct buf *out);
int envelope_inner_text(const struct signing_key *sender, struct lessor_slice signed_body, struct buf *out);

#endif
