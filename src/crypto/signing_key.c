/* SPDX-License-Identifier: MIT */
#include "crypto/signing_key.h"

#include <sodium.h>
#include <stdlib.h>

#include "base/encode.h"
#include "crypto/key_document.h"
#include "crypto/public_identity.h"
#include "lessor/error.h"

struct signing_key {
        struct lessor_public_identity identity; /* texts as spelled, in `texts` */
        struct identity_key public;
        struct key_id id;
        struct lessor_arena *texts;
        uint8_t *secret; /* guarded memory of crypto_sign_SECRETKEYBYTES */
};

struct signing_key *signing_key_free(struct signing_key *key)
{
        if (key == NULL)
                return NULL;
        sodium_free(key->secret); /* wipes; takes NULL */
        lessor_arena_free(key->texts);
        free(key);
        return NULL;
}

static int copy_identity(struct signing_key *key, const struct lessor_public_identity *from)
{
        key->texts = lessor_arena_new();
        if (key->texts == NULL ||
            lessor_arena_copy(key->texts, from->identity, &key->identity.identity) < 0 ||
            lessor_arena_copy(key->texts, from->encryption, &key->identity.encryption) < 0 ||
            lessor_arena_copy(key->texts, from->encryption_sig, &key->identity.encryption_sig) < 0)
                return LESSOR_E_NOMEM;
        return 0;
}

int signing_key_new(const uint8_t seed[SIGNING_SEED_BYTES], const struct lessor_public_identity *identity,
                    struct signing_key **ret_key)
{
        _cleanup_(signing_key_freep) struct signing_key *key = NULL;
        uint8_t public[IDENTITY_KEY_BYTES];
        int r;

        if (sodium_init() < 0)
                return LESSOR_E_IO;
        key = calloc(1, sizeof(*key));
        if (key == NULL)
                return LESSOR_E_NOMEM;
        r = copy_identity(key, identity);
        if (r < 0)
                return r;
        r = public_identity_check(&key->identity, &key->public);
        if (r < 0)
                return r == LESSOR_E_NOMEM ? r : LESSOR_E_INVALID;
        key->secret = sodium_malloc(crypto_sign_SECRETKEYBYTES);
        if (key->secret == NULL)
                return LESSOR_E_NOMEM;
        crypto_sign_seed_keypair(public, key->secret, seed);
        if (memcmp(public, key->public.bytes, sizeof(public)) != 0)
                return LESSOR_E_INVALID;
        sodium_mprotect_readonly(key->secret);
        key_id_of(&key->public, &key->id);
        *ret_key = TAKE(key);
        return 0;
}

int signing_key_read(struct lessor_slice text, struct lessor_arena *arena, struct signing_key **ret_key,
                     const char **ret_problem)
{
        _cleanup_(key_document_done) struct key_document document;
        int r;

        r = key_document_read(text, arena, &document, ret_problem);
        return r < 0 ? r : key_document_signing(&document, arena, ret_key, ret_problem);
}

int signing_key_load(const char *path, struct lessor_arena *arena, struct signing_key **ret_key,
                     const char **ret_problem)
{
        _cleanup_(buf_wipe) struct buf text;
        const char *problem = "";
        int r;

        buf_init(&text);
        r = key_document_load(path, &text, arena, ret_problem);
        if (r < 0)
                return r;
        r = signing_key_read(buf_view(&text), arena, ret_key, &problem);
        if (r < 0)
                return key_problem(arena, ret_problem, r, "the keys in %s cannot be used: %s", path, problem);
        return 0;
}

void signing_key_sign(const struct signing_key *key, struct lessor_slice message,
                      uint8_t ret_signature[SIGNATURE_BYTES])
{
        crypto_sign_detached(ret_signature, NULL, (const unsigned char *)message.p, message.n, key->secret);
}

int signing_key_sign_text(const struct signing_key *key, struct lessor_slice message, struct buf *out)
{
        uint8_t signature[SIGNATURE_BYTES];

        signing_key_sign(key, message, signature);
        return base64url_append(out, signature, sizeof(signature));
}

const struct lessor_public_identity *signing_key_identity(const struct signing_key *key)
{
        return &key->identity;
}

const struct identity_key *signing_key_public(const struct signing_key *key)
{
        return &key->public;
}

struct lessor_slice signing_key_id(const struct signing_key *key)
{
        return key_id_text(&key->id);
}
