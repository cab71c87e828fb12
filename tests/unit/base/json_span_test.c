/* SPDX-License-Identifier: MIT */
#include "check.h"

#include "base/json_span.h"

static void the_text_of_a_member_is_found_as_it_stands(void **state)
{
        static const struct {
                const char *text, *want; /* NULL: there is none */
        } rows[] = {
                {"{\"event\":1}", "1"},
                {" { \"a\" : [ 1 , { } ] ,\n\"event\" :\t-1.0e3 } ", "-1.0e3"},
                {"{\"event\":{\"event\":[2]},\"event2\":3}", "{\"event\":[2]}"},
                {"{\"x\":{\"event\":1}}", NULL},
                {"{\"x\":\"\\\"event\\\":1\",\"event\":\"}\\\\\"}", "\"}\\\\\""},
                {"{\"x\":\"event\",\"event\":[\"]\",{\"}\":[]}] }", "[\"]\",{\"}\":[]}]"},
                {"{\"event\":null ,\"b\":true}", "null"},
                {"{\"b\":false,\"event\":true}", "true"},
                {"{\"\\u0065vent\":1}", NULL}, /* another spelling */
                {"{}", NULL},
                {"{ }", NULL},
        };

        (void)state;
        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
                struct lessor_slice got =
                        json_span_member(lessor_slice_of(rows[i].text), LESSOR_SLICE("\"event\""));

                if (rows[i].want == NULL)
                        assert_null(got.p);
                else
                        check_text(rows[i].text, got, lessor_slice_of(rows[i].want));
        }
}

/* The contract is for texts that were read before; whatever else it is given, it stays within it. */
static void no_bytes_lead_out_of_the_text(void **state)
{
        static const char text[] = "{\"a\\\"\":[{\"\\\\\":\"]\"},1], \"event\" : {\"b\":[\"\\\"\"]} }\\";
        static const char odd[] = "\"\\{}[],: e";

        (void)state;
        for (size_t n = 0; n < sizeof(text); n++)
                for (size_t at = 0; at < n; at++)
                        for (size_t k = 0; k < sizeof(odd) - 1; k++) {
                                char *copy = test_malloc(n); /* its end is watched */
                                struct lessor_slice got;

                                memcpy(copy, text, n);
                                copy[at] = odd[k];
                                got = json_span_member((struct lessor_slice){copy, n},
                                                       LESSOR_SLICE("\"event\""));
                                if (got.p != NULL)
                                        assert_true(got.p >= copy && got.n <= n &&
                                                    (size_t)(got.p - copy) <= n - got.n);
                                test_free(copy);
                        }
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(the_text_of_a_member_is_found_as_it_stands),
                cmocka_unit_test(no_bytes_lead_out_of_the_text),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
