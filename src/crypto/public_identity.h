/* SPDX-License-Identifier: MIT */
#ifndef CRYPTO_PUBLIC_IDENTITY_H
#define CRYPTO_PUBLIC_IDENTITY_H

#include "base/buf.h"
#include "crypto/identity_key.h"
#include "lessor/relay_types.h"

/*
 * Whether the identity vouches for the encryption key: encryptionSig is its signature over
 * `byollm/v1/encryption-key:` and `encryption` as spelled (relay-protocol 3). Whether the encryption key is a
 * usable one is not looked at.
 *
 * ret_key  the decoded identity key, on success; may be NULL
 *
 * Returns 0; LESSOR_E_BAD_SIGNATURE when it is not consistent, decoding failures included; LESSOR_E_NOMEM.
 * Pure, thread-safe.
 */
int public_identity_check(const struct lessor_public_identity *identity, struct identity_key *ret_key);

/* Appends the text that encryptionSig signs. Returns 0 or LESSOR_E_NOMEM. */
int public_identity_statement(struct lessor_slice encryption, struct buf *out);

#endif
