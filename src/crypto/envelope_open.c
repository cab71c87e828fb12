/* SPDX-License-Identifier: MIT */
#include "crypto/envelope_open.h"

#include <sodium.h>
#include <stdlib.h>

#include "base/encode.h"
#include "base/json_read.h"
#include "base/macro.h"
#include "base/size.h"
#include "crypto/envelope_words.h"
#include "lessor/error.h"

DEFINE_CLEANUP(struct lessor_arena, lessor_arena_wipe)

/* Bytes that are wiped before they are freed. */
struct secret_text {
        size_t n;
        char bytes[];
};

static void secret_text_free(void *object)
{
        struct secret_text *text = object;

        sodium_memzero(text->bytes, text->n);
        free(text);
}
DEFINE_CLEANUP(struct secret_text, secret_text_free)

/* The bytes are zero. NULL when memory is short or the size does not fit. */
static struct secret_text *secret_text_new(size_t n)
{
        struct secret_text *text;
        size_t size;

        if (!size_add(sizeof(*text), n, &size))
                return NULL;
        text = calloc(1, size);
        if (text != NULL)
                text->n = n;
        return text;
}

static struct lessor_slice secret_view(const struct secret_text *text)
{
        return (struct lessor_slice){text->bytes, text->n};
}

static bool is_text(const struct json *value, struct lessor_slice expected)
{
        return json_is(value, JSON_STRING) && lessor_slice_equal(json_text(value), expected);
}

static int unseal(const struct stored_keys *recipient, struct lessor_slice ciphertext,
                  struct lessor_arena *scratch, struct secret_text **ret_inner)
{
        _cleanup_(secret_text_freep) struct secret_text *inner = NULL;
        struct lessor_slice box;
        int r;

        r = base64url_read_lenient(ciphertext, scratch, &box);
        if (r < 0)
                return r;
        if (box.n < STORED_KEYS_SEAL_BYTES)
                return LESSOR_E_UNOPENABLE;
        inner = secret_text_new(box.n - STORED_KEYS_SEAL_BYTES);
        if (inner == NULL)
                return LESSOR_E_NOMEM;
        r = stored_keys_unseal(recipient, box, inner->bytes);
        if (r < 0)
                return r;
        *ret_inner = TAKE(inner);
        return 0;
}

static int read_json(struct lessor_slice text, struct lessor_arena *scratch, struct json **ret_value)
{
        int r = json_read(text, scratch, ret_value);

        return r < 0 && r != LESSOR_E_NOMEM ? LESSOR_E_MALFORMED : r;
}

/*
 * Takes the inner text apart and checks the signature over its body.
 *
 * ret_body  in the scratch arena
 */
static int check_inner(struct lessor_slice inner, const struct identity_key *sender,
                       struct lessor_arena *scratch, struct lessor_slice *ret_body)
{
        const struct json *body, *signature;
        struct lessor_slice bytes;
        struct json *value;
        int r;

        r = read_json(inner, scratch, &value);
        if (r < 0)
                return r;
        body = json_member_named(value, "body"); /* NULL for whatever is no object */
        signature = json_member_named(value, "signature");
        if (!json_is(body, JSON_STRING) || !json_is(signature, JSON_STRING))
                return LESSOR_E_MALFORMED;
        r = base64url_read_strict(json_text(body), scratch, &bytes);
        if (r == 0)
                r = identity_key_verify(sender, bytes, json_text(signature));
        if (r == 0)
                *ret_body = bytes;
        return r;
}

/* The reference decodes the body as text, which drops one byte order mark. */
static struct lessor_slice without_mark(struct lessor_slice text)
{
        if (text.n >= 3 && memcmp(text.p, "\xef\xbb\xbf", 3) == 0)
                return (struct lessor_slice){text.p + 3, text.n - 3};
        return text;
}

static bool context_matches(const struct json *body, const struct envelope_expected *expected,
                            int64_t deadline_ms)
{
        int64_t deadline;

        return is_text(json_member_named(body, "jobId"), expected->job_id) &&
               is_text(json_member_named(body, "senderKeyId"), expected->sender_key_id) &&
               is_text(json_member_named(body, "recipientKeyId"), expected->recipient_key_id) &&
               is_text(json_member_named(body, "direction"), direction_text(expected->direction)) &&
               json_int(json_member_named(body, "deadlineAt"), &deadline) && deadline == deadline_ms;
}

static int keep_text(struct lessor_slice text, struct lessor_arena *arena, struct lessor_slice *ret_text)
{
        struct secret_text *kept = secret_text_new(text.n);
        int r;

        if (kept == NULL)
                return LESSOR_E_NOMEM;
        memcpy(kept->bytes, text.p, text.n);
        r = lessor_arena_own(arena, kept, secret_text_free);
        if (r < 0) {
                secret_text_free(kept);
                return r;
        }
        *ret_text = secret_view(kept);
        return 0;
}

static int read_body(struct lessor_slice body, const struct envelope_expected *expected, int64_t deadline_ms,
                     struct lessor_arena *scratch, struct lessor_arena *arena,
                     struct lessor_slice *ret_plaintext)
{
        const struct json *plaintext;
        struct json *value;
        int r;

        r = read_json(without_mark(body), scratch, &value);
        if (r < 0)
                return r;
        if (json_is(value, JSON_NULL))
                return LESSOR_E_MALFORMED;
        plaintext = json_member_named(value, "plaintext");
        if (!context_matches(value, expected, deadline_ms))
                return LESSOR_E_CONTEXT_MISMATCH;
        if (!json_is(plaintext, JSON_STRING))
                return LESSOR_E_MALFORMED;
        return keep_text(json_text(plaintext), arena, ret_plaintext);
}

int envelope_open(const struct stored_keys *recipient, const struct envelope_expected *expected,
                  const struct lessor_sealed_envelope *envelope, struct lessor_arena *arena,
                  struct lessor_slice *ret_plaintext)
{
        /* Values in the one borrow from the other, and in both is the plaintext: whatever happens, they are
         * wiped. */
        _cleanup_(lessor_arena_wipep) struct lessor_arena *scratch = NULL;
        _cleanup_(secret_text_freep) struct secret_text *inner = NULL;
        struct lessor_slice body = {NULL, 0};
        int r;

        if (!lessor_slice_equal(envelope->recipient_key_id, expected->recipient_key_id) ||
            !lessor_slice_equal(envelope->sender_key_id, expected->sender_key_id) ||
            envelope->direction != expected->direction)
                return LESSOR_E_NOT_FOR_US;
        scratch = lessor_arena_new();
        if (scratch == NULL)
                return LESSOR_E_NOMEM;
        r = unseal(recipient, envelope->ciphertext, scratch, &inner);
        if (r < 0)
                return r;
        r = check_inner(secret_view(inner), expected->sender, scratch, &body);
        if (r < 0)
                return r;
        return read_body(body, expected, envelope->deadline_ms, scratch, arena, ret_plaintext);
}
