/* SPDX-License-Identifier: MIT */
#include "crypto/key_id.h"

#include <sodium.h>
#include <stdlib.h>

#include "base/encode.h"
#include "lessor/error.h"

#define KEY_ID_SYMBOLS 24 /* of five bits: 15 bytes of the hash */

static void key_id_of_bytes(const uint8_t *bytes, size_t n, struct key_id *ret_id)
{
        static const char alphabet[] = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";
        uint8_t hash[crypto_hash_sha256_BYTES];
        char *to = ret_id->text;
        unsigned bits = 0, n_bits = 0;
        size_t at = 0;

        crypto_hash_sha256(hash, bytes, n);
        memcpy(to, "BYOLLM", 6);
        to += 6;
        for (unsigned symbol = 0; symbol < KEY_ID_SYMBOLS; symbol++) {
                if (n_bits < 5) {
                        bits = bits << 8 | hash[at++];
                        n_bits += 8;
                }
                n_bits -= 5;
                if (symbol % 4 == 0)
                        *to++ = '-';
                *to++ = alphabet[bits >> n_bits & 31];
        }
        *to = '\0';
}

void key_id_of(const struct identity_key *key, struct key_id *ret_id)
{
        key_id_of_bytes(key->bytes, sizeof(key->bytes), ret_id);
}

int key_id_of_text(struct lessor_slice identity, struct key_id *ret_id)
{
        uint8_t key[IDENTITY_KEY_BYTES];
        size_t n = base64url_read_fixed(identity, key, sizeof(key));
        uint8_t *bytes;

        if (n <= sizeof(key)) {
                key_id_of_bytes(key, n, ret_id);
                return 0;
        }
        bytes = malloc(n);
        if (bytes == NULL)
                return LESSOR_E_NOMEM;
        base64url_read_fixed(identity, bytes, n);
        key_id_of_bytes(bytes, n, ret_id);
        free(bytes);
        return 0;
}
