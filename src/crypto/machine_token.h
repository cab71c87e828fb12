/* SPDX-License-Identifier: MIT */
#ifndef CRYPTO_MACHINE_TOKEN_H
#define CRYPTO_MACHINE_TOKEN_H

#include <stdbool.h>

#include "crypto/sha256.h"

/*
 * The bearer secrets of the rack plane (rack-protocol 2): 32 random bytes as text, shown once, kept as the
 * SHA-256 of that text. Enrolment tokens make a machine a rack; rack tokens are what it then calls with.
 */
enum machine_token_kind {
        MACHINE_TOKEN_ENROLMENT, /* e3rk_enroll_ and 64 lower-case hex digits */
        MACHINE_TOKEN_RACK,      /* e3rk_ and 64 lower-case hex digits */
};

#define MACHINE_TOKEN_ENROLMENT_PREFIX "e3rk_enroll_"
#define MACHINE_TOKEN_RACK_PREFIX      "e3rk_"
#define MACHINE_TOKEN_MAX              76 /* bytes of the longer kind */

/* A fresh token. Secret: to be wiped as soon as it was told. */
struct machine_token {
        char text[MACHINE_TOKEN_MAX + 1];
        size_t n;
};

void machine_token_mint(enum machine_token_kind kind, struct machine_token *ret_token);

/* Overwrites it; its type is that of lessor_arena_own(). */
void machine_token_wipe(void *token);

static inline struct lessor_slice machine_token_text(const struct machine_token *token)
{
        return (struct lessor_slice){token->text, token->n};
}

/* What is kept of a token: the hash of the whole text, as lower-case hex and a NUL. Any text has one. */
void machine_token_hash(struct lessor_slice text, char ret_hex[SHA256_HEX_LEN + 1]);

/* Whether a text has exactly the form of this kind. */
bool machine_token_is(struct lessor_slice text, enum machine_token_kind kind);

/*
 * The token that an Authorization header carries (rack-protocol 2, step 1 of authentication): `Bearer `, in
 * that case and with one blank, and then what begins as a rack token does. An enrolment token does so too,
 * and is known by nobody later. False when there is none.
 */
bool machine_token_of_header(struct lessor_slice authorization, struct lessor_slice *ret_token);

#endif
