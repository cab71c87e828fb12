/* SPDX-License-Identifier: MIT */
#include "crypto/machine_token.h"

#include <sodium.h>

#define SECRET_BYTES 32

static struct lessor_slice prefix_of(enum machine_token_kind kind)
{
        return kind == MACHINE_TOKEN_ENROLMENT ? LESSOR_SLICE(MACHINE_TOKEN_ENROLMENT_PREFIX)
                                               : LESSOR_SLICE(MACHINE_TOKEN_RACK_PREFIX);
}

void machine_token_mint(enum machine_token_kind kind, struct machine_token *ret_token)
{
        struct lessor_slice prefix = prefix_of(kind);
        unsigned char secret[SECRET_BYTES];

        randombytes_buf(secret, sizeof(secret));
        memcpy(ret_token->text, prefix.p, prefix.n);
        sodium_bin2hex(ret_token->text + prefix.n, sizeof(ret_token->text) - prefix.n, secret,
                       sizeof(secret));
        ret_token->n = prefix.n + 2 * sizeof(secret);
        sodium_memzero(secret, sizeof(secret));
}

void machine_token_wipe(void *token)
{
        sodium_memzero(token, sizeof(struct machine_token));
}

void machine_token_hash(struct lessor_slice text, char ret_hex[SHA256_HEX_LEN + 1])
{
        sha256_hex_of(text, ret_hex);
}

static bool begins_with(struct lessor_slice text, struct lessor_slice prefix)
{
        return text.n >= prefix.n && memcmp(text.p, prefix.p, prefix.n) == 0;
}

bool machine_token_is(struct lessor_slice text, enum machine_token_kind kind)
{
        struct lessor_slice prefix = prefix_of(kind);

        if (text.n != prefix.n + 2 * SECRET_BYTES || !begins_with(text, prefix))
                return false;
        for (size_t i = prefix.n; i < text.n; i++)
                if ((text.p[i] < '0' || text.p[i] > '9') && (text.p[i] < 'a' || text.p[i] > 'f'))
                        return false;
        return true;
}

bool machine_token_of_header(struct lessor_slice authorization, struct lessor_slice *ret_token)
{
        static const struct lessor_slice scheme = {"Bearer ", 7};
        struct lessor_slice token;

        if (!begins_with(authorization, scheme)) /* R007 */
                return false;
        token = (struct lessor_slice){authorization.p + scheme.n, authorization.n - scheme.n};
        if (!begins_with(token, prefix_of(MACHINE_TOKEN_RACK))) /* R008 */
                return false;
        *ret_token = token;
        return true;
}
