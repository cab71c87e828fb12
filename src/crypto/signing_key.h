/* SPDX-License-Identifier: MIT */
#ifndef CRYPTO_SIGNING_KEY_H
#define CRYPTO_SIGNING_KEY_H

#include "base/buf.h"
#include "base/macro.h"
#include "crypto/identity_key.h"
#include "crypto/key_id.h"
#include "lessor/arena.h"
#include "lessor/relay_types.h"

#define SIGNING_SEED_BYTES 32

/*
 * An Ed25519 identity that can sign and can open nothing: what the server holds for --grant-key, and the half
 * of a client's keys that signs. Reading one from a StoredKeys file checks the whole document and keeps only
 * this. The secret is in guarded memory and wiped when freed.
 *
 * Immutable once made, so any number of threads may use one.
 */
struct signing_key;

/*
 * Reads StoredKeys JSON (relay-protocol 3): strict schema, PKCS#8 of exactly 48 bytes, the public halves
 * belong to the private ones and the identity is consistent.
 *
 * text         the caller wipes it
 * arena        owns `ret_problem` and nothing of the key
 * ret_problem  written on failure: a sentence that names the member at fault and never its value; may be NULL
 *
 * Returns 0; LESSOR_E_MALFORMED (not JSON, duplicate members included); LESSOR_E_TOO_LARGE (nested too
 * deeply); LESSOR_E_INVALID; LESSOR_E_NOMEM.
 */
int signing_key_read(struct lessor_slice text, struct lessor_arena *arena, struct signing_key **ret_key,
                     const char **ret_problem);

/*
 * As signing_key_read, from a file, which group and others may neither read nor write.
 *
 * Returns also LESSOR_E_PERMISSION, LESSOR_E_NOT_FOUND, LESSOR_E_IO, LESSOR_E_TOO_LARGE; the problem then
 * names the file and, for its mode, the way out.
 */
int signing_key_load(const char *path, struct lessor_arena *arena, struct signing_key **ret_key,
                     const char **ret_problem);

/*
 * A key from its 32-byte seed, with the public identity as it is spelled. Copies both.
 *
 * Returns 0; LESSOR_E_INVALID when the identity is another key's or is not consistent; LESSOR_E_NOMEM.
 */
int signing_key_new(const uint8_t seed[SIGNING_SEED_BYTES], const struct lessor_public_identity *identity,
                    struct signing_key **ret_key);

/* Wipes and frees. Takes NULL, returns NULL. */
struct signing_key *signing_key_free(struct signing_key *key);
DEFINE_CLEANUP(struct signing_key, signing_key_free)

/* The 64 bytes of the signature over `message`. Cannot fail. */
void signing_key_sign(const struct signing_key *key, struct lessor_slice message,
                      uint8_t ret_signature[SIGNATURE_BYTES]);

/* Signs, and appends the signature as base64url. Returns 0 or LESSOR_E_NOMEM. */
int signing_key_sign_text(const struct signing_key *key, struct lessor_slice message, struct buf *out);

/* All borrowed from the key. */
const struct lessor_public_identity *signing_key_identity(const struct signing_key *key);
const struct identity_key *signing_key_public(const struct signing_key *key);
struct lessor_slice signing_key_id(const struct signing_key *key);

#endif
