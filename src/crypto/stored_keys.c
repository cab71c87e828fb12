/* SPDX-License-Identifier: MIT */
#include "crypto/stored_keys.h"

#include <sodium.h>
#include <stdlib.h>

#include "base/encode.h"
#include "base/file.h"
#include "base/json_write.h"
#include "crypto/key_document.h"
#include "crypto/public_identity.h"
#include "lessor/error.h"

_Static_assert(STORED_KEYS_SEAL_BYTES == crypto_box_SEALBYTES, "what libsodium adds to a sealed text");

/* What stands before an X25519 scalar: what opens. */
static const uint8_t pkcs8_x25519[PKCS8_PREFIX_BYTES] = {0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06,
                                                         0x03, 0x2b, 0x65, 0x6e, 0x04, 0x22, 0x04, 0x20};

/* Both private keys, in guarded memory. */
struct secrets {
        uint8_t identity_seed[SIGNING_SEED_BYTES];
        uint8_t encryption[crypto_box_SECRETKEYBYTES]; /* as it was stored, clamped or not */
};

struct stored_keys {
        struct signing_key *signing;
        struct secrets *secrets;
        uint8_t encryption_public[crypto_box_PUBLICKEYBYTES];
        int64_t created_ms;
};

struct stored_keys *stored_keys_free(struct stored_keys *keys)
{
        if (keys == NULL)
                return NULL;
        signing_key_free(keys->signing);
        sodium_free(keys->secrets); /* wipes; takes NULL */
        free(keys);
        return NULL;
}

static int keys_new(int64_t created_ms, struct stored_keys **ret_keys)
{
        _cleanup_(stored_keys_freep) struct stored_keys *keys = NULL;

        if (sodium_init() < 0)
                return LESSOR_E_IO;
        keys = calloc(1, sizeof(*keys));
        if (keys == NULL)
                return LESSOR_E_NOMEM;
        keys->created_ms = created_ms;
        keys->secrets = sodium_malloc(sizeof(*keys->secrets));
        if (keys->secrets == NULL)
                return LESSOR_E_NOMEM;
        *ret_keys = TAKE(keys);
        return 0;
}

/* Spells the public keys and lets the identity vouch for the encryption key. */
static int new_identity(struct stored_keys *keys)
{
        _cleanup_(buf_done) struct buf identity;
        _cleanup_(buf_done) struct buf encryption;
        _cleanup_(buf_done) struct buf statement;
        _cleanup_(buf_done) struct buf signature;
        uint8_t public[IDENTITY_KEY_BYTES], secret[crypto_sign_SECRETKEYBYTES], bytes[SIGNATURE_BYTES];
        struct lessor_public_identity spelled;

        buf_init(&identity);
        buf_init(&encryption);
        buf_init(&statement);
        buf_init(&signature);
        crypto_sign_seed_keypair(public, secret, keys->secrets->identity_seed);
        if (base64url_append(&identity, public, sizeof(public)) < 0 ||
            base64url_append(&encryption, keys->encryption_public, sizeof(keys->encryption_public)) < 0 ||
            public_identity_statement(buf_view(&encryption), &statement) < 0) {
                sodium_memzero(secret, sizeof(secret));
                return LESSOR_E_NOMEM;
        }
        crypto_sign_detached(bytes, NULL, (const unsigned char *)statement.p, statement.n, secret);
        sodium_memzero(secret, sizeof(secret));
        if (base64url_append(&signature, bytes, sizeof(bytes)) < 0)
                return LESSOR_E_NOMEM;
        spelled = (struct lessor_public_identity){buf_view(&identity), buf_view(&encryption),
                                                  buf_view(&signature)};
        return signing_key_new(keys->secrets->identity_seed, &spelled, &keys->signing);
}

int stored_keys_generate(int64_t created_ms, struct stored_keys **ret_keys)
{
        _cleanup_(stored_keys_freep) struct stored_keys *keys = NULL;
        int r;

        r = keys_new(created_ms, &keys);
        if (r < 0)
                return r;
        randombytes_buf(keys->secrets->identity_seed, sizeof(keys->secrets->identity_seed));
        crypto_box_keypair(keys->encryption_public, keys->secrets->encryption);
        r = new_identity(keys);
        if (r < 0)
                return r;
        sodium_mprotect_readonly(keys->secrets);
        *ret_keys = TAKE(keys);
        return 0;
}

static int read_encryption(struct stored_keys *keys, const struct key_document *document,
                           struct lessor_arena *arena, const char **ret_problem)
{
        uint8_t spelled[crypto_box_PUBLICKEYBYTES];
        int r;

        r = key_document_private(document, "encryptionPrivate", pkcs8_x25519, keys->secrets->encryption);
        if (r < 0)
                return key_problem(arena, ret_problem, r,
                                   "encryptionPrivate is no X25519 key in PKCS#8 form");
        crypto_scalarmult_base(keys->encryption_public, keys->secrets->encryption);
        if (base64url_read_fixed(document->identity.encryption, spelled, sizeof(spelled)) !=
                    sizeof(spelled) ||
            memcmp(spelled, keys->encryption_public, sizeof(spelled)) != 0)
                return key_problem(arena, ret_problem, LESSOR_E_INVALID,
                                   "encryptionPublic does not belong to encryptionPrivate");
        return 0;
}

int stored_keys_read(struct lessor_slice text, struct lessor_arena *arena, struct stored_keys **ret_keys,
                     const char **ret_problem)
{
        _cleanup_(stored_keys_freep) struct stored_keys *keys = NULL;
        _cleanup_(key_document_done) struct key_document document;
        int r;

        r = key_document_read(text, arena, &document, ret_problem);
        if (r < 0)
                return r;
        r = keys_new(document.created_ms, &keys);
        if (r < 0)
                return key_problem(arena, ret_problem, r, "%s", lessor_error_text(r));
        r = key_document_signing(&document, arena, &keys->signing, ret_problem);
        if (r < 0)
                return r;
        r = key_document_private(&document, "identityPrivate", pkcs8_ed25519, keys->secrets->identity_seed);
        if (r < 0)
                return r;
        r = read_encryption(keys, &document, arena, ret_problem);
        if (r < 0)
                return r;
        sodium_mprotect_readonly(keys->secrets);
        *ret_keys = TAKE(keys);
        return 0;
}

int stored_keys_load(const char *path, struct lessor_arena *arena, struct stored_keys **ret_keys,
                     const char **ret_problem)
{
        _cleanup_(buf_wipe) struct buf text;
        const char *problem = "";
        int r;

        buf_init(&text);
        r = key_document_load(path, &text, arena, ret_problem);
        if (r < 0)
                return r;
        r = stored_keys_read(buf_view(&text), arena, ret_keys, &problem);
        if (r < 0)
                return key_problem(arena, ret_problem, r, "the keys in %s cannot be used: %s", path, problem);
        return 0;
}

static void put_private(struct json_writer *w, const char *member, const uint8_t prefix[PKCS8_PREFIX_BYTES],
                        const uint8_t key[PKCS8_KEY_BYTES])
{
        uint8_t der[PKCS8_PREFIX_BYTES + PKCS8_KEY_BYTES];
        char text[sodium_base64_ENCODED_LEN(sizeof(der), sodium_base64_VARIANT_ORIGINAL)];

        memcpy(der, prefix, PKCS8_PREFIX_BYTES);
        memcpy(der + PKCS8_PREFIX_BYTES, key, PKCS8_KEY_BYTES);
        sodium_bin2base64(text, sizeof(text), der, sizeof(der), sodium_base64_VARIANT_ORIGINAL);
        json_member_cstr(w, member, text);
        sodium_memzero(der, sizeof(der));
        sodium_memzero(text, sizeof(text));
}

int stored_keys_write(const struct stored_keys *keys, struct buf *out)
{
        const struct lessor_public_identity *identity = signing_key_identity(keys->signing);
        struct json_writer w;
        /* Room for all of it at once, so that growing leaves no copies of a secret behind. The spellings are
         * ours or come from a key file, whose size is bounded. */
        size_t room = 512 + 2 * (identity->identity.n + identity->encryption.n + identity->encryption_sig.n);
        int r = buf_reserve(out, room);

        if (r < 0)
                return r;
        json_writer_init(&w, out);
        json_open_object(&w);
        json_member_int(&w, "version", 1);
        json_member_text(&w, "identityPublic", identity->identity);
        put_private(&w, "identityPrivate", pkcs8_ed25519, keys->secrets->identity_seed);
        json_member_text(&w, "encryptionPublic", identity->encryption);
        put_private(&w, "encryptionPrivate", pkcs8_x25519, keys->secrets->encryption);
        json_member_text(&w, "encryptionSig", identity->encryption_sig);
        json_member_int(&w, "createdAt", keys->created_ms);
        json_close_object(&w);
        return buf_failed(out);
}

int stored_keys_create(const struct stored_keys *keys, const char *path)
{
        _cleanup_(buf_wipe) struct buf text;
        int r;

        buf_init(&text);
        r = stored_keys_write(keys, &text);
        if (r < 0)
                return r;
        r = buf_char(&text, '\n');
        return r < 0 ? r : file_create(path, buf_view(&text), 0600);
}

const struct signing_key *stored_keys_signing(const struct stored_keys *keys)
{
        return keys->signing;
}

int64_t stored_keys_created_ms(const struct stored_keys *keys)
{
        return keys->created_ms;
}

int stored_keys_unseal(const struct stored_keys *keys, struct lessor_slice sealed, void *ret_text)
{
        if (sealed.n < crypto_box_SEALBYTES ||
            crypto_box_seal_open(ret_text, (const unsigned char *)sealed.p, sealed.n, keys->encryption_public,
                                 keys->secrets->encryption) != 0)
                return LESSOR_E_UNOPENABLE;
        return 0;
}
