/* SPDX-License-Identifier: MIT */
#ifndef CRYPTO_IDENTITY_KEY_H
#define CRYPTO_IDENTITY_KEY_H

#include <stdint.h>

#include "lessor/slice.h"

#define IDENTITY_KEY_BYTES 32
#define SIGNATURE_BYTES    64

/*
 * The public half of an Ed25519 identity, decoded once so that it can be kept beside whatever it belongs to
 * and checked against without allocating. Plain data: copy it freely. Everything here is pure and
 * thread-safe.
 */
struct identity_key {
        uint8_t bytes[IDENTITY_KEY_BYTES];
};

/*
 * Decodes an `identity` text, leniently as relay-protocol section 2 has it.
 *
 * Returns 0, or LESSOR_E_MALFORMED when it does not stand for exactly 32 bytes. Whether the bytes are a point
 * of the curve shows when a signature is checked.
 */
int identity_key_read(struct lessor_slice text, struct identity_key *ret_key);

/*
 * Checks a signature, given as lenient base64url, over `message`.
 *
 * 64 bytes only, S below L, cofactorless (relay-protocol 3). Unlike the reference, which is OpenSSL,
 * libsodium also refuses keys of small order; no honest key is one.
 *
 * Returns 0 or LESSOR_E_BAD_SIGNATURE. Allocates nothing.
 */
int identity_key_verify(const struct identity_key *key, struct lessor_slice message,
                        struct lessor_slice signature);

#endif
