/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "crypto/machine_token.h"

static void a_fresh_token_has_its_form(void **state)
{
        struct machine_token enrolment, rack;

        (void)state;
        machine_token_mint(MACHINE_TOKEN_ENROLMENT, &enrolment);
        machine_token_mint(MACHINE_TOKEN_RACK, &rack);
        assert_int_equal(enrolment.n, 76);
        assert_int_equal(rack.n, 69);
        assert_true(machine_token_is(machine_token_text(&enrolment), MACHINE_TOKEN_ENROLMENT));
        assert_true(machine_token_is(machine_token_text(&rack), MACHINE_TOKEN_RACK)); /* R001 */
        assert_false(machine_token_is(machine_token_text(&enrolment), MACHINE_TOKEN_RACK));
        assert_false(machine_token_is(machine_token_text(&rack), MACHINE_TOKEN_ENROLMENT));
}

static void no_two_are_alike(void **state)
{
        struct machine_token a, b;

        (void)state;
        machine_token_mint(MACHINE_TOKEN_RACK, &a);
        machine_token_mint(MACHINE_TOKEN_RACK, &b);
        assert_string_not_equal(a.text, b.text);
}

static void the_hash_is_that_of_the_whole_text(void **state)
{
        char hash[SHA256_HEX_LEN + 1];

        (void)state;
        machine_token_hash(
                LESSOR_SLICE("e3rk_0000000000000000000000000000000000000000000000000000000000000000"), hash);
        assert_string_equal(hash, "4d9a5d81451e5c020505d01cd3885594d24d0878cec9abb9578244acdc10df57");
}

static void a_wiped_token_is_gone(void **state)
{
        static const struct machine_token nothing;
        struct machine_token token;

        (void)state;
        machine_token_mint(MACHINE_TOKEN_ENROLMENT, &token);
        machine_token_wipe(&token);
        assert_memory_equal(&token, &nothing, sizeof(token));
}

static void a_header_is_read_to_the_letter(void **state)
{
        static const struct {
                const char *header, *token; /* NULL: none */
        } cases[] = {
                {"Bearer e3rk_x", "e3rk_x"},
                {"Bearer e3rk_", "e3rk_"},
                {"Bearer e3rk_enroll_ab", "e3rk_enroll_ab"}, /* R010: known by nobody */
                {"Bearer  e3rk_x", NULL},
                {"bearer e3rk_x", NULL},
                {"Bearer E3RK_x", NULL},
                {"Bearer\te3rk_x", NULL},
                {"Bearer secret", NULL}, /* R008 */
                {"Bearer ", NULL},
                {"Bearer", NULL},
                {"e3rk_x", NULL},
                {"", NULL},
        };

        (void)state;
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                struct lessor_slice token;
                bool found = machine_token_of_header(lessor_slice_of(cases[i].header), &token);

                assert_int_equal(found, cases[i].token != NULL);
                if (found)
                        assert_true(lessor_slice_equal(token, lessor_slice_of(cases[i].token)));
        }
        assert_false(machine_token_of_header((struct lessor_slice){0}, &(struct lessor_slice){0})); /* R007 */
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(a_fresh_token_has_its_form),         cmocka_unit_test(no_two_are_alike),
                cmocka_unit_test(the_hash_is_that_of_the_whole_text), cmocka_unit_test(a_wiped_token_is_gone),
                cmocka_unit_test(a_header_is_read_to_the_letter),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
