/* SPDX-License-Identifier: MIT */
#include "crypto/request_signature.h"

#include <nettle/sha2.h>
#include <stdlib.h>

#include "base/limits.h"
#include "base/macro.h"
#include "base/size.h"
#include "lessor/error.h"

#define MAX_SAFE_INTEGER   INT64_C(9007199254740991) /* posint, relay-protocol 2 */
#define CANONICAL_ON_STACK 512

/* The canonical text but for endpoint and caller: at most 16 digits of time, 64 of the hash. */
static const struct lessor_slice first_line = LESSOR_SLICE("byollm/v1/request\n");
static const struct lessor_slice site_prefix = LESSOR_SLICE("site/");
#define CANONICAL_FRAME (18 + 5 + 1 + 1 + 20 + 1 + 2 * REQUEST_BODY_HASH_BYTES)

void request_body_hash(struct lessor_slice body, uint8_t ret_hash[REQUEST_BODY_HASH_BYTES])
{
        struct sha256_ctx context;

        /* Every request's body passes here, and libsodium leaves the processor's SHA instructions unused. */
        sha256_init(&context);
        if (body.n > 0)
                sha256_update(&context, body.n, (const uint8_t *)body.p);
        sha256_digest(&context, REQUEST_BODY_HASH_BYTES, ret_hash);
}

int request_issued_read(struct lessor_slice header, int64_t *ret_issued_ms)
{
        int64_t issued_ms = 0;

        for (size_t i = 0; i < header.n; i++) {
                if (header.p[i] < '0' || header.p[i] > '9')
                        return LESSOR_E_MALFORMED;
                issued_ms = issued_ms * 10 + (header.p[i] - '0');
                if (issued_ms > MAX_SAFE_INTEGER)
                        return LESSOR_E_MALFORMED;
        }
        if (issued_ms == 0)
                return LESSOR_E_MALFORMED;
        *ret_issued_ms = issued_ms;
        return 0;
}

bool request_is_fresh(int64_t issued_ms, int64_t now_ms)
{
        int64_t apart_ms;

        if (__builtin_sub_overflow(now_ms, issued_ms, &apart_ms))
                return false;
        return apart_ms <= LIMIT_CLOCK_SKEW_MS && apart_ms >= -LIMIT_CLOCK_SKEW_MS;
}

static bool canonical_bound(const struct signed_request *request, size_t *ret_bound)
{
        return size_add(request->endpoint.n, request->caller.n, ret_bound) &&
               size_add(*ret_bound, CANONICAL_FRAME, ret_bound);
}

static char *put(char *to, struct lessor_slice text)
{
        if (text.n > 0)
                memcpy(to, text.p, text.n);
        return to + text.n;
}

static char *put_number(char *to, int64_t value)
{
        char digits[20];
        size_t at = sizeof(digits);
        uint64_t rest = value < 0 ? 0 : (uint64_t)value;

        do {
                digits[--at] = (char)('0' + rest % 10);
                rest /= 10;
        } while (rest > 0);
        return put(to, (struct lessor_slice){digits + at, sizeof(digits) - at});
}

/* Writes the canonical text, at most canonical_bound() bytes, and returns its length. */
static size_t canonical_write(const struct signed_request *request, char *to)
{
        static const char hex[] = "0123456789abcdef";
        char *start = to;

        to = put(to, first_line);
        if (request->plane == REQUEST_PLANE_SITE)
                to = put(to, site_prefix);
        to = put(to, request->endpoint);
        *to++ = '\n';
        to = put(to, request->caller);
        *to++ = '\n';
        to = put_number(to, request->issued_ms);
        *to++ = '\n';
        for (size_t i = 0; i < sizeof(request->body_hash); i++) {
                *to++ = hex[request->body_hash[i] >> 4];
                *to++ = hex[request->body_hash[i] & 15];
        }
        return (size_t)(to - start);
}

int request_canonical(const struct signed_request *request, struct buf *out)
{
        size_t bound;
        int r;

        if (!canonical_bound(request, &bound))
                return LESSOR_E_NOMEM;
        r = buf_reserve(out, bound + 1);
        if (r < 0)
                return r;
        out->n += canonical_write(request, out->p + out->n);
        out->p[out->n] = '\0';
        return 0;
}

int request_sign(const struct signed_request *request, const struct signing_key *key, struct buf *out)
{
        _cleanup_(buf_done) struct buf text;
        int r;

        buf_init(&text);
        r = request_canonical(request, &text);
        return r < 0 ? r : signing_key_sign_text(key, buf_view(&text), out);
}

int request_verify(const struct signed_request *request, int64_t now_ms, const struct identity_key *key,
                   struct lessor_slice signature)
{
        char on_stack[CANONICAL_ON_STACK];
        char *on_heap = NULL, *text = on_stack;
        size_t bound;
        int r;

        if (!request_is_fresh(request->issued_ms, now_ms))
                return LESSOR_E_STALE;
        if (!canonical_bound(request, &bound))
                return LESSOR_E_NOMEM;
        if (bound > sizeof(on_stack)) {
                text = on_heap = malloc(bound);
                if (on_heap == NULL)
                        return LESSOR_E_NOMEM;
        }
        r = identity_key_verify(key, (struct lessor_slice){text, canonical_write(request, text)}, signature);
        free(on_heap);
        return r;
}
