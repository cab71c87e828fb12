/* SPDX-License-Identifier: MIT */
#ifndef CRYPTO_STORED_KEYS_H
#define CRYPTO_STORED_KEYS_H

#include <stdint.h>

#include "base/buf.h"
#include "base/macro.h"
#include "crypto/signing_key.h"
#include "lessor/arena.h"

/*
 * Both key pairs of a site or a device: it signs, and it opens what is sealed to it. In library
 * `crypto_open`, which the server never links.
 *
 * Immutable once made, so any number of threads may use one. Secrets are in guarded memory and wiped when
 * freed.
 */
struct stored_keys;

/*
 * New keys from the system's random source.
 *
 * created_ms  epoch ms, positive
 *
 * Returns 0 or LESSOR_E_NOMEM.
 */
int stored_keys_generate(int64_t created_ms, struct stored_keys **ret_keys);

/* Reads StoredKeys JSON: arguments, checks and errors as signing_key_read. */
int stored_keys_read(struct lessor_slice text, struct lessor_arena *arena, struct stored_keys **ret_keys,
                     const char **ret_problem);

/* Reads a StoredKeys file: arguments, checks and errors as signing_key_load. */
int stored_keys_load(const char *path, struct lessor_arena *arena, struct stored_keys **ret_keys,
                     const char **ret_problem);

/* Appends StoredKeys JSON, private keys included: give the buffer back with buf_wipe. 0 or LESSOR_E_NOMEM. */
int stored_keys_write(const struct stored_keys *keys, struct buf *out);

/*
 * Makes the file in one step, with mode 0600 from its beginning. Never replaces one.
 * Returns 0, LESSOR_E_EXISTS, LESSOR_E_PERMISSION, LESSOR_E_IO or LESSOR_E_NOMEM.
 */
int stored_keys_create(const struct stored_keys *keys, const char *path);

/* Wipes and frees. Takes NULL, returns NULL. */
struct stored_keys *stored_keys_free(struct stored_keys *keys);
DEFINE_CLEANUP(struct stored_keys, stored_keys_free)

/* The half that signs; through it the public identity and the key id. Borrowed. */
const struct signing_key *stored_keys_signing(const struct stored_keys *keys);

int64_t stored_keys_created_ms(const struct stored_keys *keys);

/*
 * Opens a sealed box (crypto_box_seal) that was sealed to these keys.
 *
 * ret_text  room for sealed.n - STORED_KEYS_SEAL_BYTES; the caller wipes it
 *
 * Returns 0 or LESSOR_E_UNOPENABLE, also for a box too short to be one.
 */
#define STORED_KEYS_SEAL_BYTES 48
int stored_keys_unseal(const struct stored_keys *keys, struct lessor_slice sealed, void *ret_text);

#endif
