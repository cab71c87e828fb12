/* SPDX-License-Identifier: MIT */
#ifndef CRYPTO_REQUEST_SIGNATURE_H
#define CRYPTO_REQUEST_SIGNATURE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "crypto/identity_key.h"
#include "crypto/signing_key.h"
#include "lessor/slice.h"

/* Signed requests of both planes (relay-protocol 4). Everything here is pure and thread-safe. */

enum request_plane {
        REQUEST_PLANE_DEVICE, /* endpoints are signed as they are: claim */
        REQUEST_PLANE_SITE,   /* endpoints are signed with a prefix: site/enqueue */
};

#define REQUEST_BODY_HASH_BYTES 32

/* What a request's signature covers. Slices are borrowed for the call. */
struct signed_request {
        enum request_plane plane;
        struct lessor_slice endpoint; /* last segment of the path, without `site/` */
        struct lessor_slice caller;   /* the header's text: runner id or site id */
        int64_t issued_ms;            /* epoch ms, positive */
        uint8_t body_hash[REQUEST_BODY_HASH_BYTES];
};

/*
 * SHA-256 of a body. For any method but POST the body is the empty text, whatever was sent.
 *
 * The bytes are hashed as they came. The reference hashes decoded text encoded again, which differs for a
 * leading byte order mark and for invalid UTF-8 [edge]; such a request fails its signature here.
 */
void request_body_hash(struct lessor_slice body, uint8_t ret_hash[REQUEST_BODY_HASH_BYTES]);

/*
 * Reads the issued-at header: plain decimal digits that make a posint. The other spellings that JavaScript's
 * Number() takes (`+5`, `5.0`, `0x5`, spaces) are [edge] and refused; leading zeros are taken.
 *
 * Returns 0 or LESSOR_E_MALFORMED, which the planes answer with "not signed".
 */
int request_issued_read(struct lessor_slice header, int64_t *ret_issued_ms);

/* Whether a request is fresh: the two clocks differ by at most LIMIT_CLOCK_SKEW_MS. */
bool request_is_fresh(int64_t issued_ms, int64_t now_ms);

/* Appends the signed text: five lines, no line feed after the last. Returns 0 or LESSOR_E_NOMEM. */
int request_canonical(const struct signed_request *request, struct buf *out);

/* Signs, and appends the signature as base64url. Returns 0 or LESSOR_E_NOMEM. */
int request_sign(const struct signed_request *request, const struct signing_key *key, struct buf *out);

/*
 * Checks freshness, then the signature, in that order.
 *
 * now_ms     the local wall clock, on purpose (relay-protocol 4)
 * key        the identity that the caller is known by; with several candidates, call once for each
 * signature  the header's text, lenient base64url
 *
 * Returns 0; LESSOR_E_STALE, decided before the signature is looked at; LESSOR_E_BAD_SIGNATURE. Allocates
 * only when caller and endpoint together pass a few hundred bytes, and may then return LESSOR_E_NOMEM.
 */
int request_verify(const struct signed_request *request, int64_t now_ms, const struct identity_key *key,
                   struct lessor_slice signature);

#endif
