/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
/* cmocka wants those before it */
#include <cmocka.h>

#include "lessor/lease_store.h"

static int sign(int n)
{
        return (n > 0) - (n < 0);
}

/* R044, section 20 */
static void versions_compare_by_number(void **state)
{
        static const struct {
                const char *a, *b;
                int order;
        } cases[] = {
                {"0.5.0+e3.1.0.85", "0.5.0", 0},
                {"0.10.0", "0.5.0", 1},
                {"0.4.9", "0.5.0", -1},
                {"0.5", "0.5.0", 0},
                {"0.5.0-rc.1", "0.5.0", 0},
                {"5abc.1", "0.1", 0},
                {"", "0.0.0", 0},
                {"1", "0.99999999999999999999999", 1},
                {"0.18446744073709551617", "0.18446744073709551616", 1},
                {"0.05.0", "0.5.0", 0},
                {"0.5.0.1", "0.5.0", 1},
                {"x", "0.0.1", -1},
        };

        (void)state;
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                struct lessor_slice a = lessor_slice_of(cases[i].a), b = lessor_slice_of(cases[i].b);

                assert_int_equal(sign(lessor_agent_version_cmp(a, b)), cases[i].order);
                assert_int_equal(sign(lessor_agent_version_cmp(b, a)), -cases[i].order);
        }
}

/* Section 9 */
static void the_bundle_is_read_from_a_full_match(void **state)
{
        static const struct {
                const char *version, *bundled;
        } cases[] = {
                {"0.5.0+e3.1.0.85", "1.0.85"},
                {"0.5.0-rc.1+e3.1.0.85-beta.2", "1.0.85-beta.2"},
                {"0.5.0", NULL},
                {"0.5.0+e3.1.0", NULL},
                {"0.5+e3.1.0.85", NULL},
                {"0.5.0+e3.1.0.85+x", NULL},
                {"0.5.0+e3.1.0.85.1", NULL},
                {"0.5.0-+e3.1.0.85", NULL},
                {" 0.5.0+e3.1.0.85", NULL},
                {"", NULL},
        };

        (void)state;
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                struct lessor_slice bundled = lessor_agent_bundled_e3(lessor_slice_of(cases[i].version));

                assert_int_equal(bundled.p == NULL, cases[i].bundled == NULL);
                assert_true(lessor_slice_equal(bundled, lessor_slice_of(cases[i].bundled)));
        }
}

/* Section 8; checked against sha256sum */
static void inputs_are_joined_by_nul(void **state)
{
        const struct lessor_slice inputs[] = {LESSOR_SLICE("a"), LESSOR_SLICE("b")};
        char hex[65];

        (void)state;
        lessor_lease_inputs_hash(NULL, 0, hex);
        assert_string_equal(hex, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
        lessor_lease_inputs_hash(inputs, 2, hex);
        assert_string_equal(hex, "59b271ae1bbcb1d31d41929817f4b16fb439eb4f31520b5ad1d5ce98920a7138");
        lessor_lease_inputs_hash(inputs, 1, hex);
        assert_string_equal(hex, "ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb");
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(versions_compare_by_number),
                cmocka_unit_test(the_bundle_is_read_from_a_full_match),
                cmocka_unit_test(inputs_are_joined_by_nul),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
