/* SPDX-License-Identifier: MIT */
#ifndef CRYPTO_KEY_DOCUMENT_H
#define CRYPTO_KEY_DOCUMENT_H

#include <stdint.h>

#include "base/buf.h"
#include "base/json_read.h"
#include "crypto/signing_key.h"
#include "lessor/arena.h"
#include "lessor/relay_types.h"

/*
 * StoredKeys JSON (relay-protocol 3) as a document that was found to follow its schema. Inside the room only.
 *
 * It has no field for a private key: whoever may hold one asks for it by the member's name, and the server
 * only ever asks for the one that signs.
 */
struct key_document {
        struct json *object; /* in `values` */
        struct lessor_arena *values;
        struct lessor_public_identity identity; /* borrowed from `object` */
        int64_t created_ms;                     /* epoch ms, positive */
};

#define PKCS8_PREFIX_BYTES 16
#define PKCS8_KEY_BYTES    32

/*
 * Reads the file into `out`, which the caller gives back with buf_wipe. The file must be one that group and
 * others can neither read nor write.
 *
 * Returns 0 or an error of signing_key_load; `ret_problem`, in the arena, says it with the file's name.
 */
int key_document_load(const char *path, struct buf *out, struct lessor_arena *arena,
                      const char **ret_problem);

/*
 * Checks the schema.
 *
 * text      borrowed for the call
 * document  written also on failure: key_document_done in any case
 *
 * Returns 0, LESSOR_E_MALFORMED, LESSOR_E_TOO_LARGE, LESSOR_E_INVALID or LESSOR_E_NOMEM; `ret_problem`, in
 * the arena, names the member and never its value.
 */
int key_document_read(struct lessor_slice text, struct lessor_arena *arena, struct key_document *document,
                      const char **ret_problem);

/*
 * Overwrites the texts and frees. What the JSON parser copied on its way cannot be reached and is not
 * overwritten.
 */
void key_document_done(struct key_document *document);

/*
 * Reads one private key: PKCS#8 DER of exactly 48 bytes in standard base64.
 *
 * prefix   what comes before the key: says which algorithm it is for
 * ret_key  the caller wipes it
 *
 * Returns 0 or LESSOR_E_INVALID.
 */
int key_document_private(const struct key_document *document, const char *member,
                         const uint8_t prefix[PKCS8_PREFIX_BYTES], uint8_t ret_key[PKCS8_KEY_BYTES]);

/*
 * The identity that signs, checked against the public texts. Errors as signing_key_read.
 */
int key_document_signing(const struct key_document *document, struct lessor_arena *arena,
                         struct signing_key **ret_key, const char **ret_problem);

/* Makes a sentence in the arena; without memory, a shorter one. Returns `code`. */
int key_problem(struct lessor_arena *arena, const char **ret_problem, int code, const char *format, ...)
        __attribute__((format(printf, 4, 5)));

/* What stands before an Ed25519 seed: what signs. */
extern const uint8_t pkcs8_ed25519[PKCS8_PREFIX_BYTES];

#endif
