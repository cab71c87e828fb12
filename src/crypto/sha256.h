/* SPDX-License-Identifier: MIT */
#ifndef CRYPTO_SHA256_H
#define CRYPTO_SHA256_H

#include <nettle/sha2.h>
#include <stdint.h>

#include "lessor/slice.h"

/*
 * SHA-256 of what passes by in bulk: bodies and objects. Nettle's, which uses the processor's SHA
 * instructions where it has them; libsodium's never does, and is about seven times slower there.
 */
#define SHA256_BYTES   32
#define SHA256_HEX_LEN 64

struct sha256 {
        struct sha256_ctx context;
};

void sha256_start(struct sha256 *h);
void sha256_add(struct sha256 *h, struct lessor_slice bytes);

/* Gives the hash of all that was added; to go on, start again. */
void sha256_end(struct sha256 *h, uint8_t ret_hash[SHA256_BYTES]);

/* As sha256_end, as lower-case hex and a NUL. */
void sha256_end_hex(struct sha256 *h, char ret_hex[SHA256_HEX_LEN + 1]);

/* All in one. */
void sha256_of(struct lessor_slice bytes, uint8_t ret_hash[SHA256_BYTES]);
void sha256_hex_of(struct lessor_slice bytes, char ret_hex[SHA256_HEX_LEN + 1]);

#endif
