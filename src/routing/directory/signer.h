/* SPDX-License-Identifier: MIT */
#ifndef DIRECTORY_SIGNER_H
#define DIRECTORY_SIGNER_H

#include <stdint.h>

#include "base/macro.h"
#include "lessor/arena.h"

/*
 * Who signs grants: a key in a file, or another process that holds the key and is asked over a Unix socket
 * (docs/signer.md has that protocol). Thread-safe.
 */
struct signer;

/*
 * Signs with the identity key of a StoredKeys file; signing_key_load has the errors, and says what
 * `ret_problem` is.
 */
int signer_open_file(const char *path, struct lessor_arena *arena, struct signer **ret_signer,
                     const char **ret_problem);

/*
 * Signs by asking the process that listens on a Unix socket. Connects now and asks for the public key, so
 * that a server whose signer is missing does not start.
 *
 * timeout_ms   for one answer, connecting included
 *
 * Returns 0; LESSOR_E_UNAVAILABLE (nobody listens, or not in time); LESSOR_E_PROTOCOL; LESSOR_E_INVALID (the
 * path is too long for a socket); LESSOR_E_NOMEM.
 */
int signer_open_socket(const char *path, int64_t timeout_ms, struct signer **ret_signer);

/* Takes NULL, returns NULL. Nobody may be using it. */
struct signer *signer_free(struct signer *s);
DEFINE_CLEANUP(struct signer, signer_free)

/* The identity key that verifies what it signs: controlPlanePublic on the wire, base64url. Borrowed. */
struct lessor_slice signer_public(const struct signer *s);

/*
 * Signs a statement. The signature, 64 bytes in base64url, is in the arena. What another process answers is
 * verified against signer_public() before it is believed; a connection that was lost is made once more.
 *
 * Returns 0; LESSOR_E_UNAVAILABLE (not reached, or not in time); LESSOR_E_REFUSED (it answered with an
 * error); LESSOR_E_PROTOCOL (it answered something else, or a signature that does not verify);
 * LESSOR_E_NOMEM.
 */
int signer_sign(struct signer *s, struct lessor_slice statement, struct lessor_arena *arena,
                struct lessor_slice *ret_signature);

#endif
