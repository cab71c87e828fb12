/* SPDX-License-Identifier: MIT */
#include "vectors.h"

#include <stdlib.h>

#include "base/limits.h"
#include "crypto/request_signature.h"
#include "lessor/error.h"

static struct signed_request request_of(const struct json *vector)
{
        struct signed_request request = {
                .plane = lessor_slice_equal(vector_text(vector, "plane"), LESSOR_SLICE("site"))
                                 ? REQUEST_PLANE_SITE
                                 : REQUEST_PLANE_DEVICE,
                .endpoint = vector_text(vector, "endpoint"),
                .caller = vector_text(vector, "caller"),
                .issued_ms = vector_int(vector, "issuedAt"),
        };

        request_body_hash(vector_long_text(vector, "body"), request.body_hash);
        return request;
}

static void check_verdict(const struct json *vector)
{
        struct signed_request request = request_of(vector);
        const struct identity_key *key = vector_public(vector_text(vector, "verifyWith").p);

        check_code(vector_note(vector),
                   request_verify(&request, vector_int(vector, "now"), key, vector_text(vector, "signature")),
                   vector_verdict(json_member_named(vector, "verdict")));
}

static void valid_requests_verify_and_are_signed_alike(void **state)
{

        (void)state;
        json_each (vector, vectors_list("signedRequests/valid")) {
                struct signed_request request = request_of(vector);
                struct buf text, signature;

                buf_init(&text);
                buf_init(&signature);
                check_verdict(vector);
                assert_int_equal(request_canonical(&request, &text), 0);
                check_text(vector_note(vector), buf_view(&text), vector_text(vector, "canonical"));
                /* Ed25519 leaves no choice, so the very same signature comes out, in canonical spelling. */
                assert_int_equal(request_sign(&request, vector_signing(vector_text(vector, "verifyWith").p),
                                              &signature),
                                 0);
                if (!json_is(json_member_named(vector, "edge"), JSON_TRUE))
                        check_text(vector_note(vector), buf_view(&signature),
                                   vector_text(vector, "signature"));
                buf_done(&text);
                buf_done(&signature);
        }
}

static void invalid_requests_are_refused(void **state)
{

        (void)state;
        json_each (vector, vectors_list("signedRequests/invalid"))
                check_verdict(vector);
}

static void issued_at_is_plain_decimal(void **state)
{
        static const struct {
                struct lessor_slice text;
                int64_t want; /* 0: refused */
        } cases[] = {
                {LESSOR_SLICE("1767225600000"), 1767225600000},
                {LESSOR_SLICE("1"), 1},
                {LESSOR_SLICE("007"), 7},
                {LESSOR_SLICE("9007199254740991"), 9007199254740991},
                {LESSOR_SLICE("9007199254740992"), 0},
                {LESSOR_SLICE("99999999999999999999999999999999999999"), 0},
                {LESSOR_SLICE(""), 0},
                {LESSOR_SLICE("0"), 0},
                {LESSOR_SLICE("000"), 0},
                {LESSOR_SLICE("abc"), 0},
                {LESSOR_SLICE("1.5"), 0},
                {LESSOR_SLICE("-5"), 0},
                {LESSOR_SLICE("5\0"), 0},
                /* [edge]: these are numbers to the reference */
                {LESSOR_SLICE("+5"), 0},
                {LESSOR_SLICE("5.0"), 0},
                {LESSOR_SLICE("5e0"), 0},
                {LESSOR_SLICE("0x5"), 0},
                {LESSOR_SLICE(" 5"), 0},
        };

        (void)state;
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                int64_t got = 0;

                check_code(cases[i].text.p, request_issued_read(cases[i].text, &got),
                           cases[i].want == 0 ? LESSOR_E_MALFORMED : 0);
                assert_int_equal(got, cases[i].want);
        }
}

static void freshness_ends_after_two_minutes_either_way(void **state)
{
        (void)state;
        assert_true(request_is_fresh(1000000, 1000000 + LIMIT_CLOCK_SKEW_MS));
        assert_true(request_is_fresh(1000000, 1000000 - LIMIT_CLOCK_SKEW_MS));
        assert_false(request_is_fresh(1000000, 1000001 + LIMIT_CLOCK_SKEW_MS));
        assert_false(request_is_fresh(1000000, 999999 - LIMIT_CLOCK_SKEW_MS));
        assert_false(request_is_fresh(1, INT64_MIN));
}

/* Past what the stack holds, a caller id goes through the heap; the verdict is the same. */
static void caller_ids_of_any_length_verify(void **state)
{
        static const size_t lengths[] = {0, 1, 200, 397, 398, 399, 400, 512, 5000, 70000};
        char *id = malloc(70001);

        (void)state;
        assert_non_null(id);
        memset(id, 'r', 70001);
        for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
                struct signed_request request = {.plane = REQUEST_PLANE_SITE,
                                                 .endpoint = LESSOR_SLICE("pending"),
                                                 .caller = {id, lengths[i]},
                                                 .issued_ms = 9007199254740991};
                struct buf signature;

                buf_init(&signature);
                assert_int_equal(request_sign(&request, vector_signing("siteA"), &signature), 0);
                assert_int_equal(request_verify(&request, 9007199254740991, vector_public("siteA"),
                                                buf_view(&signature)),
                                 0);
                request.caller.n ^= 1;
                assert_int_equal(request_verify(&request, 9007199254740991, vector_public("siteA"),
                                                buf_view(&signature)),
                                 LESSOR_E_BAD_SIGNATURE);
                buf_done(&signature);
        }
        free(id);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(valid_requests_verify_and_are_signed_alike),
                cmocka_unit_test(invalid_requests_are_refused),
                cmocka_unit_test(issued_at_is_plain_decimal),
                cmocka_unit_test(freshness_ends_after_two_minutes_either_way),
                cmocka_unit_test(caller_ids_of_any_length_verify),
        };

        return cmocka_run_group_tests_name("request_signature", tests, NULL, NULL);
}
