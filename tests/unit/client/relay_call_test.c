/* SPDX-License-Identifier: MIT */
#include "client/relay_call.h"

#include "check.h"

struct verdict_case {
        enum request_plane plane;
        long status;
        const char *error;
        int expected;
};

/* relay-protocol 5, last paragraph, for devices; 8, last paragraph, for sites. */
static void refusals_mean_what_the_protocol_says(void **state)
{
        static const struct verdict_case cases[] = {
                {REQUEST_PLANE_DEVICE, 403, "revoked", LESSOR_E_PERMISSION},
                {REQUEST_PLANE_DEVICE, 409, "too-late", LESSOR_E_TOO_LATE},
                {REQUEST_PLANE_DEVICE, 409, "not-ready", LESSOR_E_NOT_READY},
                {REQUEST_PLANE_DEVICE, 409, "something-new", LESSOR_E_NOT_READY},
                {REQUEST_PLANE_DEVICE, 426, "daemon-below-floor", LESSOR_E_NEWER},
                {REQUEST_PLANE_DEVICE, 400, "unsupported-protocol-version", LESSOR_E_NEWER},
                {REQUEST_PLANE_DEVICE, 401, "clock-skew", LESSOR_E_STALE},
                {REQUEST_PLANE_DEVICE, 401, "unauthorized", LESSOR_E_REFUSED},
                {REQUEST_PLANE_DEVICE, 403, "forbidden", LESSOR_E_REFUSED},
                {REQUEST_PLANE_DEVICE, 404, "not-found", LESSOR_E_NOT_FOUND},
                {REQUEST_PLANE_DEVICE, 429, "rate-limited", LESSOR_E_LATER},
                {REQUEST_PLANE_DEVICE, 500, "", LESSOR_E_LATER},
                {REQUEST_PLANE_DEVICE, 502, "", LESSOR_E_LATER},
                {REQUEST_PLANE_DEVICE, 501, "bad-request", LESSOR_E_REFUSED},
                {REQUEST_PLANE_DEVICE, 302, "", LESSOR_E_REFUSED},
                {REQUEST_PLANE_SITE, 503, "server-error", LESSOR_E_LATER},
                {REQUEST_PLANE_SITE, 409, "not-ready", LESSOR_E_LATER},
                {REQUEST_PLANE_SITE, 409, "slot-unsatisfiable", LESSOR_E_REFUSED},
                {REQUEST_PLANE_SITE, 409, "slot-waiting", LESSOR_E_REFUSED},
                {REQUEST_PLANE_SITE, 409, "too-late", LESSOR_E_TOO_LATE},
                {REQUEST_PLANE_SITE, 400, "bad-request", LESSOR_E_REFUSED},
        };

        (void)state;
        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                const struct verdict_case *c = &cases[i];
                int got = relay_verdict(c->plane, c->status, lessor_slice_of(c->error));

                if (got != c->expected)
                        fail_msg("%d %ld %s: %s", c->plane, c->status, c->error, lessor_error_name(got));
        }
}

static void ids_that_do_not_fit_a_header_are_known(void **state)
{
        (void)state;
        assert_true(relay_id_is_sendable(LESSOR_SLICE("runner_1")));
        assert_false(relay_id_is_sendable(LESSOR_SLICE("")));
        assert_false(relay_id_is_sendable(LESSOR_SLICE("a b")));
        assert_false(relay_id_is_sendable(LESSOR_SLICE("a\r\nx: y")));
        assert_false(relay_id_is_sendable(LESSOR_SLICE("a\0b")));
        assert_false(relay_id_is_sendable(LESSOR_SLICE("\xc3\xa9")));
}

static void base_urls_are_trimmed_or_refused(void **state)
{
        static const char *const bad[] = {"",
                                          "relay.example",
                                          "ftp://relay.example",
                                          "http://u@relay.example",
                                          "http://u:p@relay.example",
                                          "http://:p@relay.example",
                                          "http://relay.example/?a=b",
                                          "http://relay.example/#f",
                                          "file:///etc/passwd"};
        bool has_path = true;
        char *url = NULL;

        (void)state;
        assert_int_equal(http_base_url("https://relay.example//", &url, &has_path), 0);
        assert_string_equal(url, "https://relay.example");
        assert_false(has_path);
        free(url);
        assert_int_equal(http_base_url("http://127.0.0.1:11434/v1/", &url, &has_path), 0);
        assert_string_equal(url, "http://127.0.0.1:11434/v1");
        assert_true(has_path);
        free(url);
        for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
                if (http_base_url(bad[i], &url, NULL) != LESSOR_E_INVALID)
                        fail_msg("%s is taken", bad[i]);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(refusals_mean_what_the_protocol_says),
                cmocka_unit_test(ids_that_do_not_fit_a_header_are_known),
                cmocka_unit_test(base_urls_are_trimmed_or_refused),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
