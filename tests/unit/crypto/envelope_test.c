/* SPDX-License-Identifier: MIT */
#include "vectors.h"

#include <sodium.h>
#include <stdlib.h>

#include "base/encode.h"
#include "base/json_write.h"
#include "base/limits.h"
#include "crypto/envelope_open.h"
#include "crypto/envelope_seal.h"
#include "lessor/error.h"

static enum lessor_direction direction_of(struct lessor_slice text)
{
        return lessor_slice_equal(text, LESSOR_SLICE("payload")) ? LESSOR_DIRECTION_PAYLOAD
                                                                 : LESSOR_DIRECTION_RESULT;
}

static struct lessor_sealed_envelope envelope_of(const struct json *value)
{
        return (struct lessor_sealed_envelope){
                .ciphertext = vector_text(value, "ciphertext"),
                .recipient_key_id = vector_text(value, "recipientKeyId"),
                .sender_key_id = vector_text(value, "senderKeyId"),
                .direction = direction_of(vector_text(value, "direction")),
                .deadline_ms = vector_int(value, "deadlineAt"),
        };
}

static struct envelope_expected expected_of(const struct json *vector)
{
        const struct json *value = json_member_named(vector, "expected");

        return (struct envelope_expected){
                .job_id = vector_text(value, "jobId"),
                .sender_key_id = vector_text(value, "senderKeyId"),
                .recipient_key_id = vector_text(value, "recipientKeyId"),
                .direction = direction_of(vector_text(value, "direction")),
                .sender = vector_public(vector_text(vector, "sender").p),
        };
}

static int open_vector(const struct json *vector, struct lessor_arena *arena,
                       struct lessor_slice *ret_plaintext)
{
        struct lessor_sealed_envelope envelope = envelope_of(json_member_named(vector, "envelope"));
        struct envelope_expected expected = expected_of(vector);

        return envelope_open(vector_keys(vector_text(vector, "recipient").p), &expected, &envelope, arena,
                             ret_plaintext);
}

static void envelopes_of_the_reference_open(void **state)
{
        struct lessor_arena *arena = lessor_arena_new();

        (void)state;
        assert_non_null(arena);
        json_each (vector, vectors_list("envelopes/open")) {
                struct lessor_slice plaintext;

                check_code(vector_note(vector), open_vector(vector, arena, &plaintext), 0);
                check_text(vector_note(vector), plaintext, vector_long_text(vector, "plaintext"));
        }
        lessor_arena_free(arena);
}

static void refused_envelopes_say_why(void **state)
{
        struct lessor_arena *arena = lessor_arena_new();

        (void)state;
        assert_non_null(arena);
        json_each (vector, vectors_list("envelopes/refused")) {
                const struct json *reason = json_member_named(json_member_named(vector, "result"), "reason");
                struct lessor_slice plaintext = {NULL, 0};
                /* where the reference throws, what it was given is malformed */
                int want = strcmp(json_cstr(reason), "throws") == 0 ? LESSOR_E_MALFORMED
                                                                    : vector_verdict(reason);

                check_code(vector_note(vector), open_vector(vector, arena, &plaintext), want);
                assert_null(plaintext.p);
        }
        lessor_arena_free(arena);
}

static void odd_envelopes_open_all_the_same(void **state)
{
        struct lessor_arena *arena = lessor_arena_new();

        (void)state;
        assert_non_null(arena);
        json_each (vector, vectors_list("envelopes/tolerated")) {
                const struct json *result = json_member_named(vector, "result");
                struct lessor_slice plaintext;

                check_code(vector_note(vector), open_vector(vector, arena, &plaintext), 0);
                check_text(vector_note(vector), plaintext, vector_text(result, "plaintext"));
        }
        lessor_arena_free(arena);
}

static void check_inner_text(const struct json *vector, struct lessor_slice body)
{
        const struct signing_key *sender = vector_signing(vector_text(vector, "sender").p);
        struct buf inner, want;

        buf_init(&inner);
        buf_init(&want);
        assert_int_equal(envelope_inner_text(sender, body, &inner), 0);
        buf_text(&want, "{\"body\":\"");
        base64url_append(&want, body.p, body.n);
        buf_text(&want, "\",\"signature\":\"");
        buf_slice(&want, vector_text(vector, "signature"));
        buf_text(&want, "\"}");
        check_text(vector_note(vector), buf_view(&inner), buf_view(&want));
        buf_done(&inner);
        buf_done(&want);
}

/* Sealing has a random key in it, so its steps are compared, and the whole by its size and by opening it. */
static void check_sealing(const struct json *vector, struct lessor_arena *arena)
{
        struct lessor_sealed_envelope theirs = envelope_of(json_member_named(vector, "envelope")), ours;
        const struct signing_key *sender = vector_signing(vector_text(vector, "sender").p);
        const struct stored_keys *recipient = vector_keys(vector_text(vector, "recipient").p);
        struct envelope_expected expected = expected_of(vector);
        struct envelope_terms terms = {expected.job_id, expected.direction, vector_int(vector, "deadlineAt")};
        struct lessor_slice plaintext = vector_long_text(vector, "plaintext"), opened;
        uint8_t hash[crypto_hash_sha256_BYTES], want[crypto_hash_sha256_BYTES];
        struct buf body;

        buf_init(&body);
        assert_int_equal(envelope_signed_body(&terms, expected.sender_key_id, expected.recipient_key_id,
                                              plaintext, &body),
                         0);
        if (json_member_named(vector, "signedBody") != NULL)
                check_text(vector_note(vector), buf_view(&body), vector_text(vector, "signedBody"));
        crypto_hash_sha256(hash, (const unsigned char *)body.p, body.n);
        assert_true(hex_read(vector_text(vector, "signedBodySha256"), want, sizeof(want)));
        assert_memory_equal(hash, want, sizeof(want));
        check_inner_text(vector, buf_view(&body));
        buf_done(&body);

        assert_int_equal(envelope_seal(sender, signing_key_identity(stored_keys_signing(recipient)), &terms,
                                       plaintext, arena, &ours),
                         0);
        assert_int_equal(ours.ciphertext.n, theirs.ciphertext.n);
        check_text(vector_note(vector), ours.recipient_key_id, theirs.recipient_key_id);
        check_text(vector_note(vector), ours.sender_key_id, theirs.sender_key_id);
        assert_int_equal(ours.direction, theirs.direction);
        assert_int_equal(ours.deadline_ms, theirs.deadline_ms);
        check_code(vector_note(vector), envelope_open(recipient, &expected, &ours, arena, &opened), 0);
        check_text(vector_note(vector), opened, plaintext);
}

static void sealing_does_what_the_reference_does(void **state)
{
        struct lessor_arena *arena = lessor_arena_new();

        (void)state;
        assert_non_null(arena);
        json_each (vector, vectors_list("envelopes/open"))
                check_sealing(vector, arena);
        lessor_arena_free(arena);
}

static void nothing_is_sealed_to_an_identity_that_is_not_consistent(void **state)
{
        struct lessor_arena *arena = lessor_arena_new();
        struct envelope_terms terms = {LESSOR_SLICE("j1"), LESSOR_DIRECTION_PAYLOAD, 1};
        struct lessor_sealed_envelope envelope;

        (void)state;
        assert_non_null(arena);
        json_each (vector, vectors_list("publicIdentities")) {
                struct lessor_public_identity recipient = vector_identity(json_member_named(vector, "value"));

                check_code(vector_note(vector),
                           envelope_seal(vector_signing("siteA"), &recipient, &terms, LESSOR_SLICE("x"),
                                         arena, &envelope),
                           json_is(json_member_named(vector, "valid"), JSON_TRUE) ? 0 : LESSOR_E_INVALID);
        }
        lessor_arena_free(arena);
}

/* A consistent identity may vouch for an encryption key that no secret can be shared with. */
static void nothing_is_sealed_to_an_unusable_encryption_key(void **state)
{
        static const char *const keys[] = {"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA", "AAAA", "!"};
        struct envelope_terms terms = {LESSOR_SLICE("j1"), LESSOR_DIRECTION_PAYLOAD, 1};
        const struct signing_key *owner = vector_signing("devAlice");
        struct lessor_sealed_envelope envelope;

        (void)state;
        for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
                struct lessor_public_identity recipient = {
                        signing_key_identity(owner)->identity, lessor_slice_of(keys[i]), {NULL, 0}};
                struct buf statement, signature;

                buf_init(&statement);
                buf_init(&signature);
                buf_text(&statement, "byollm/v1/encryption-key:");
                buf_text(&statement, keys[i]);
                assert_int_equal(signing_key_sign_text(owner, buf_view(&statement), &signature), 0);
                recipient.encryption_sig = buf_view(&signature);
                check_code(keys[i],
                           envelope_seal(vector_signing("siteA"), &recipient, &terms, LESSOR_SLICE("x"),
                                         vectors_arena(), &envelope),
                           LESSOR_E_INVALID);
                buf_done(&statement);
                buf_done(&signature);
        }
}

/* Seals n bytes of text; the ciphertext grows with it by about 16/9. */
static int seal_sized(size_t n, struct lessor_arena *arena, struct lessor_sealed_envelope *ret_envelope)
{
        struct envelope_terms terms = {LESSOR_SLICE("j1"), LESSOR_DIRECTION_PAYLOAD, 4102444800000};
        char *text = malloc(n);
        int r;

        assert_non_null(text);
        memset(text, 'x', n);
        r = envelope_seal(vector_signing("siteA"), signing_key_identity(vector_signing("devAlice")), &terms,
                          (struct lessor_slice){text, n}, arena, ret_envelope);
        free(text);
        return r;
}

static size_t units(const struct lessor_sealed_envelope *envelope)
{
        struct json_writer w;
        struct buf text;
        size_t n;

        buf_init(&text);
        json_writer_init(&w, &text);
        json_open_object(&w);
        json_member_text(&w, "ciphertext", envelope->ciphertext);
        json_member_text(&w, "recipientKeyId", envelope->recipient_key_id);
        json_member_text(&w, "senderKeyId", envelope->sender_key_id);
        json_member_cstr(&w, "direction", "payload");
        json_member_int(&w, "deadlineAt", envelope->deadline_ms);
        json_close_object(&w);
        assert_int_equal(buf_failed(&text), 0);
        n = text.n;
        buf_done(&text);
        return n;
}

static void an_envelope_larger_than_the_ceiling_is_not_made(void **state)
{
        struct lessor_arena *arena = lessor_arena_new();
        struct lessor_sealed_envelope envelope;
        /* two layers of base64 leave nine sixteenths for the text, less what stands around it */
        size_t too_large = (size_t)LIMIT_ENVELOPE_UNITS / 16 * 9, fits = too_large - 1024;

        (void)state;
        assert_non_null(arena);
        assert_int_equal(seal_sized(LIMIT_ENVELOPE_UNITS + 1, arena, &envelope), LESSOR_E_TOO_LARGE);
        while (too_large - fits > 1) {
                size_t middle = fits + (too_large - fits) / 2;

                lessor_arena_clear(arena);
                if (seal_sized(middle, arena, &envelope) == 0)
                        fits = middle;
                else
                        too_large = middle;
        }
        assert_int_equal(seal_sized(fits, arena, &envelope), 0);
        /* one more byte of text is at most four units more */
        assert_in_range(units(&envelope), LIMIT_ENVELOPE_UNITS - 4, LIMIT_ENVELOPE_UNITS);
        assert_int_equal(seal_sized(too_large, arena, &envelope), LESSOR_E_TOO_LARGE);
        lessor_arena_free(arena);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(envelopes_of_the_reference_open),
                cmocka_unit_test(refused_envelopes_say_why),
                cmocka_unit_test(odd_envelopes_open_all_the_same),
                cmocka_unit_test(sealing_does_what_the_reference_does),
                cmocka_unit_test(nothing_is_sealed_to_an_identity_that_is_not_consistent),
                cmocka_unit_test(nothing_is_sealed_to_an_unusable_encryption_key),
                cmocka_unit_test(an_envelope_larger_than_the_ceiling_is_not_made),
        };

        return cmocka_run_group_tests_name("envelope", tests, NULL, NULL);
}
