/* SPDX-License-Identifier: MIT */
#include "crypto/key_document.h"

#include <sodium.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/json_read.h"
#include "base/limits.h"
#include "base/macro.h"
#include "lessor/error.h"

#define PKCS8_BYTES        (PKCS8_PREFIX_BYTES + PKCS8_KEY_BYTES)
#define PKCS8_BASE64_CHARS 64

const uint8_t pkcs8_ed25519[PKCS8_PREFIX_BYTES] = {0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06,
                                                   0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20};

static const char *const text_members[] = {"identityPublic", "identityPrivate", "encryptionPublic",
                                           "encryptionPrivate", "encryptionSig"};
#define N_OTHER_MEMBERS 2 /* version, createdAt */

int key_problem(struct lessor_arena *arena, const char **ret_problem, int code, const char *format, ...)
{
        _cleanup_(buf_done) struct buf sentence;
        struct lessor_slice copy;
        va_list args;
        int r;

        buf_init(&sentence);
        if (ret_problem == NULL)
                return code;
        va_start(args, format);
        r = buf_vprintf(&sentence, format, args);
        va_end(args);
        if (r == 0)
                r = lessor_arena_copy(arena, buf_view(&sentence), &copy);
        *ret_problem = r == 0 ? copy.p : lessor_error_text(code);
        return code;
}

int key_document_load(const char *path, struct buf *out, struct lessor_arena *arena, const char **ret_problem)
{
        mode_t mode;
        int r = file_read_private(path, LIMIT_KEY_FILE_BYTES, out, &mode);

        if (r < 0)
                return key_problem(arena, ret_problem, r, "cannot read the keys in %s: %s", path,
                                   lessor_error_text(r));
        if ((mode & (S_IRGRP | S_IWGRP | S_IROTH | S_IWOTH)) != 0)
                return key_problem(arena, ret_problem, LESSOR_E_PERMISSION,
                                   "the keys in %s can be read or written by other users (mode %04o): make "
                                   "them yours alone with: chmod 600 %s",
                                   path, (unsigned)mode, path);
        return 0;
}

static int check_members(const struct key_document *document, struct lessor_arena *arena,
                         const char **ret_problem)
{
        const struct json *object = document->object;
        int64_t version;

        for (size_t i = 0; i < ARRAY_SIZE(text_members); i++) {
                const struct json *value = json_member_named(object, text_members[i]);

                if (value == NULL)
                        return key_problem(arena, ret_problem, LESSOR_E_INVALID, "%s is missing",
                                           text_members[i]);
                if (!json_is(value, JSON_STRING) || json_text(value).n == 0)
                        return key_problem(arena, ret_problem, LESSOR_E_INVALID, "%s must be a text",
                                           text_members[i]);
        }
        if (!json_int(json_member_named(object, "version"), &version) || version != 1)
                return key_problem(arena, ret_problem, LESSOR_E_INVALID, "version must be 1");
        if (document->created_ms <= 0)
                return key_problem(arena, ret_problem, LESSOR_E_INVALID,
                                   "createdAt must be a positive whole number of milliseconds");
        if (json_count(object) != ARRAY_SIZE(text_members) + N_OTHER_MEMBERS)
                return key_problem(arena, ret_problem, LESSOR_E_INVALID,
                                   "there is a member that does not belong there");
        return 0;
}

int key_document_read(struct lessor_slice text, struct lessor_arena *arena, struct key_document *document,
                      const char **ret_problem)
{
        const char *problem = "";
        int r;

        *document = (struct key_document){.object = NULL};
        document->values = lessor_arena_new();
        if (document->values == NULL)
                return key_problem(arena, ret_problem, LESSOR_E_NOMEM, "out of memory");
        r = json_read_file_text(text, document->values, &document->object, &problem);
        if (r < 0)
                return key_problem(arena, ret_problem, r, "the keys are no well-formed JSON: %s", problem);
        if (!json_is(document->object, JSON_OBJECT))
                return key_problem(arena, ret_problem, LESSOR_E_INVALID, "the keys must be a JSON object");
        if (!json_int(json_member_named(document->object, "createdAt"), &document->created_ms))
                document->created_ms = 0;
        r = check_members(document, arena, ret_problem);
        if (r < 0)
                return r;
        document->identity = (struct lessor_public_identity){
                .identity = json_text(json_member_named(document->object, "identityPublic")),
                .encryption = json_text(json_member_named(document->object, "encryptionPublic")),
                .encryption_sig = json_text(json_member_named(document->object, "encryptionSig")),
        };
        return 0;
}

void key_document_done(struct key_document *document)
{
        /* All of it: a document that does not follow the schema may hold secrets anywhere. */
        lessor_arena_wipe(document->values);
        *document = (struct key_document){.object = NULL};
}

int key_document_private(const struct key_document *document, const char *member,
                         const uint8_t prefix[PKCS8_PREFIX_BYTES], uint8_t ret_key[PKCS8_KEY_BYTES])
{
        struct lessor_slice text = json_text(json_member_named(document->object, member));
        uint8_t der[PKCS8_BYTES];
        size_t n = 0;
        int r = LESSOR_E_INVALID;

        if (text.n == PKCS8_BASE64_CHARS &&
            sodium_base642bin(der, sizeof(der), text.p, text.n, NULL, &n, NULL,
                              sodium_base64_VARIANT_ORIGINAL) == 0 &&
            n == sizeof(der) && memcmp(der, prefix, PKCS8_PREFIX_BYTES) == 0) {
                memcpy(ret_key, der + PKCS8_PREFIX_BYTES, PKCS8_KEY_BYTES);
                r = 0;
        }
        sodium_memzero(der, sizeof(der));
        return r;
}

int key_document_signing(const struct key_document *document, struct lessor_arena *arena,
                         struct signing_key **ret_key, const char **ret_problem)
{
        uint8_t seed[SIGNING_SEED_BYTES];
        int r;

        r = key_document_private(document, "identityPrivate", pkcs8_ed25519, seed);
        if (r < 0)
                return key_problem(arena, ret_problem, r, "identityPrivate is no Ed25519 key in PKCS#8 form");
        r = signing_key_new(seed, &document->identity, ret_key);
        sodium_memzero(seed, sizeof(seed));
        if (r == LESSOR_E_INVALID)
                return key_problem(arena, ret_problem, r,
                                   "identityPublic, identityPrivate, encryptionPublic and encryptionSig do "
                                   "not belong together");
        if (r < 0)
                return key_problem(arena, ret_problem, r, "%s", lessor_error_text(r));
        return 0;
}
