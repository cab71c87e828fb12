/* SPDX-License-Identifier: MIT */
#include "check.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/buf.h"
#include "lessor/error.h"

static void appended_pieces_stand_in_a_row_and_end_with_nul(void **state)
{
        struct buf b;

        (void)state;
        buf_init(&b);
        check_text("empty", buf_view(&b), LESSOR_SLICE(""));
        assert_int_equal(buf_text(&b, "ab"), 0);
        assert_int_equal(buf_char(&b, '\0'), 0);
        assert_int_equal(buf_slice(&b, LESSOR_SLICE("cd")), 0);
        assert_int_equal(buf_slice(&b, lessor_slice_of(NULL)), 0);
        assert_int_equal(buf_printf(&b, "%d-%s", 7, "x"), 0);
        check_text("pieces", buf_view(&b), LESSOR_SLICE("ab\0cd7-x"));
        assert_int_equal(b.p[b.n], 0);
        buf_clear(&b);
        check_text("cleared", buf_view(&b), LESSOR_SLICE(""));
        buf_done(&b);
        assert_null(b.p);
}

static void it_grows_to_any_size(void **state)
{
        struct buf b;

        (void)state;
        buf_init(&b);
        for (int i = 0; i < 100000; i++)
                assert_int_equal(buf_char(&b, (char)('a' + i % 26)), 0);
        assert_int_equal(b.n, 100000);
        for (int i = 0; i < 100000; i++)
                assert_int_equal(b.p[i], 'a' + i % 26);
        buf_wipe(&b);
        assert_null(b.p);
        assert_int_equal(b.n, 0);
}

static void printf_of_any_length_fits(void **state)
{
        (void)state;
        for (int width = 0; width < 600; width += 7) {
                struct buf b;

                buf_init(&b);
                buf_text(&b, ">");
                assert_int_equal(buf_printf(&b, "%*d", width, 5), 0);
                assert_int_equal(b.n, 1 + (width < 1 ? 1 : width));
                assert_int_equal(b.p[b.n - 1], '5');
                assert_int_equal(strlen(b.p), b.n);
                buf_done(&b);
        }
}

static void ints_are_written_as_printf_writes_them(void **state)
{
        static const long long cases[] = {0, 1, -1, 9, 10, -10, 123456789, LLONG_MAX, LLONG_MIN};

        (void)state;
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                char want[32];
                struct buf b;

                snprintf(want, sizeof(want), "%lld", cases[i]);
                buf_init(&b);
                assert_int_equal(buf_int(&b, cases[i]), 0);
                check_text(want, buf_view(&b), lessor_slice_of(want));
                buf_done(&b);
        }
}

static void a_failed_append_leaves_the_bytes_and_a_mark(void **state)
{
        struct buf b;

        (void)state;
        buf_init(&b);
        buf_text(&b, "kept");
        assert_int_equal(buf_reserve(&b, SIZE_MAX), LESSOR_E_NOMEM);
        assert_int_equal(buf_failed(&b), LESSOR_E_NOMEM);
        check_text("kept", buf_view(&b), LESSOR_SLICE("kept"));
        assert_int_equal(buf_text(&b, "later"), LESSOR_E_NOMEM);
        check_text("kept", buf_view(&b), LESSOR_SLICE("kept"));
        buf_clear(&b);
        assert_int_equal(buf_failed(&b), 0);
        assert_int_equal(buf_text(&b, "new"), 0);
        check_text("new", buf_view(&b), LESSOR_SLICE("new"));
        buf_done(&b);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(appended_pieces_stand_in_a_row_and_end_with_nul),
                cmocka_unit_test(it_grows_to_any_size),
                cmocka_unit_test(printf_of_any_length_fits),
                cmocka_unit_test(ints_are_written_as_printf_writes_them),
                cmocka_unit_test(a_failed_append_leaves_the_bytes_and_a_mark),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
