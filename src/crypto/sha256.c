/* SPDX-License-Identifier: MIT */
#include "crypto/sha256.h"

void sha256_start(struct sha256 *h)
{
        sha256_init(&h->context);
}

void sha256_add(struct sha256 *h, struct lessor_slice bytes)
{
        if (bytes.n > 0)
                sha256_update(&h->context, bytes.n, (const uint8_t *)bytes.p);
}

void sha256_end(struct sha256 *h, uint8_t ret_hash[SHA256_BYTES])
{
        sha256_digest(&h->context, SHA256_BYTES, ret_hash);
}

void sha256_end_hex(struct sha256 *h, char ret_hex[SHA256_HEX_LEN + 1])
{
        static const char digits[] = "0123456789abcdef";
        uint8_t hash[SHA256_BYTES];

        sha256_end(h, hash);
        for (size_t i = 0; i < SHA256_BYTES; i++) {
                ret_hex[2 * i] = digits[hash[i] >> 4];
                ret_hex[2 * i + 1] = digits[hash[i] & 15];
        }
        ret_hex[SHA256_HEX_LEN] = '\0';
}

void sha256_of(struct lessor_slice bytes, uint8_t ret_hash[SHA256_BYTES])
{
        struct sha256 h;

        sha256_start(&h);
        sha256_add(&h, bytes);
        sha256_end(&h, ret_hash);
}

void sha256_hex_of(struct lessor_slice bytes, char ret_hex[SHA256_HEX_LEN + 1])
{
        struct sha256 h;

        sha256_start(&h);
        sha256_add(&h, bytes);
        sha256_end_hex(&h, ret_hex);
}
