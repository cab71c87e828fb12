/* SPDX-License-Identifier: MIT */
#include "unit/base/check.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/macro.h"
#include "lessor/output.h"

static void columns_are_aligned_by_what_is_seen(void **state)
{
        static const char *const titles[] = {"NAME", ">N", "LAST"};
        struct output_table *t = output_table_new(titles, 3);
        struct buf out = {0};

        (void)state;
        assert_non_null(t);
        output_cell_text(t, "caf\u00e9");
        output_cell_text(t, "7");
        output_cell_text(t, "x");
        output_cell_text(t, "e\u0301t\u00e9 long");
        output_cell_text(t, "1234");
        output_cell_text(t, NULL);
        assert_int_equal(output_table_write(t, false, &out), 0);
        check_text("table", buf_view(&out),
                   LESSOR_SLICE("NAME         N  LAST\n"
                                "caf\u00e9         7  x\n"
                                "e\u0301t\u00e9 long  1234  \n"));
        buf_done(&out);
        output_table_free(t);
}

static void an_empty_table_is_nothing(void **state)
{
        static const char *const titles[] = {"A", "B"};
        struct output_table *t = output_table_new(titles, 2);
        struct buf out = {0};

        (void)state;
        assert_int_equal(output_table_write(t, true, &out), 0);
        assert_int_equal(out.n, 0);
        output_table_free(t);
}

static void many_rows_fit(void **state)
{
        static const char *const titles[] = {"A"};
        struct output_table *t = output_table_new(titles, 1);
        struct buf out = {0};

        (void)state;
        for (int i = 0; i < 1000; i++)
                output_cell_text(t, "row");
        assert_int_equal(output_table_write(t, false, &out), 0);
        assert_int_equal(out.n, 2 + 4 * 1000);
        buf_done(&out);
        output_table_free(t);
}

static void colour_does_not_move_columns(void **state)
{
        static const char *const titles[] = {"A", "B"};
        struct output_table *t = output_table_new(titles, 2);
        struct buf out = {0};

        (void)state;
        output_cell(t, LESSOR_SLICE("red"), COLOUR_RED);
        output_cell_text(t, "x");
        assert_int_equal(output_table_write(t, true, &out), 0);
        check_text("colour", buf_view(&out),
                   LESSOR_SLICE("\033[1mA\033[0m    \033[1mB\033[0m\n\033[31mred\033[0m  x\n"));
        buf_done(&out);
        output_table_free(t);
}

/* Texts come from other people: none may move the cursor, end a line or turn the reading direction. */
static void control_characters_are_shown_as_marks(void **state)
{
        static const struct {
                struct lessor_slice in, want;
        } rows[] = {
                {LESSOR_SLICE("a\033[31mb"), LESSOR_SLICE("a?[31mb")},
                {LESSOR_SLICE("a\nb\r\tc\x7f"), LESSOR_SLICE("a?b??c?")},
                {LESSOR_SLICE("a\0b"), LESSOR_SLICE("a?b")},
                {LESSOR_SLICE("\xc2\x9b"
                              "31m"),
                 LESSOR_SLICE("?31m")},
                {LESSOR_SLICE("\u202eevil\u2066"), LESSOR_SLICE("?evil?")},
                {LESSOR_SLICE("\u2028"), LESSOR_SLICE("?")},
                {LESSOR_SLICE("\u00e9\u2603\U0001f600"), LESSOR_SLICE("\u00e9\u2603\U0001f600")},
        };

        (void)state;
        for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
                struct buf out = {0};

                assert_int_equal(output_safe(&out, rows[i].in), 0);
                check_text("safe", buf_view(&out), rows[i].want);
                buf_done(&out);
        }
}

static void a_text_that_is_cut_does_not_read_on(void **state)
{
        char *cut = malloc(2);

        (void)state;
        memcpy(cut, "\xf0\x9f", 2);
        assert_int_equal(output_width((struct lessor_slice){cut, 2}), 2);
        free(cut);
}

static void spans_have_two_units(void **state)
{
        static const struct {
                int64_t ms;
                const char *text;
        } rows[] = {
                {-5, "0s"},         {0, "0s"},          {999, "0s"},          {59999, "59s"},
                {60000, "1m"},      {310000, "5m 10s"}, {3600000, "1h"},      {3659999, "1h"},
                {3660000, "1h 1m"}, {86400000, "1d"},   {273600000, "3d 4h"},
        };

        (void)state;
        for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
                struct buf out = {0};

                output_span(&out, rows[i].ms);
                check_text(rows[i].text, buf_view(&out), lessor_slice_of(rows[i].text));
                buf_done(&out);
        }
}

static void instants_are_seen_from_now(void **state)
{
        static const struct {
                int64_t at_ms;
                const char *text;
        } rows[] = {
                {1000000, "now"}, {999001, "now"}, {999000, "1s ago"}, {1000999, "now"}, {1012000, "in 12s"}};

        (void)state;
        for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
                struct buf out = {0};

                output_when(&out, rows[i].at_ms, 1000000);
                check_text(rows[i].text, buf_view(&out), lessor_slice_of(rows[i].text));
                buf_done(&out);
        }
}

static void sizes_have_units(void **state)
{
        static const struct {
                int64_t bytes;
                const char *text;
        } rows[] = {{0, "0 B"},        {1023, "1023 B"},       {1024, "1.0 KiB"},
                    {1536, "1.5 KiB"}, {12897485, "12.3 MiB"}, {INT64_C(5) << 40, "5.0 TiB"}};

        (void)state;
        for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
                struct buf out = {0};

                output_bytes(&out, rows[i].bytes);
                check_text(rows[i].text, buf_view(&out), lessor_slice_of(rows[i].text));
                buf_done(&out);
        }
}

static void a_file_has_no_colour(void **state)
{
        FILE *f = tmpfile();

        (void)state;
        assert_non_null(f);
        setenv("TERM", "xterm", 1);
        unsetenv("NO_COLOR");
        assert_false(output_has_colour(f));
        fclose(f);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(columns_are_aligned_by_what_is_seen),
                cmocka_unit_test(an_empty_table_is_nothing),
                cmocka_unit_test(many_rows_fit),
                cmocka_unit_test(colour_does_not_move_columns),
                cmocka_unit_test(control_characters_are_shown_as_marks),
                cmocka_unit_test(a_text_that_is_cut_does_not_read_on),
                cmocka_unit_test(spans_have_two_units),
                cmocka_unit_test(instants_are_seen_from_now),
                cmocka_unit_test(sizes_have_units),
                cmocka_unit_test(a_file_has_no_colour),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
