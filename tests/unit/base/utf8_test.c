/* SPDX-License-Identifier: MIT */
#include "check.h"

#include <stdlib.h>

#include "base/utf8.h"

#define CASE(text, ...)                               \
        {                                             \
                {text, sizeof(text) - 1}, __VA_ARGS__ \
        }

static void only_rfc_3629_is_valid(void **state)
{
        static const struct {
                struct lessor_slice text;
                bool valid;
        } cases[] = {
                CASE("", true),
                CASE("plain text that is longer than a word", true),
                CASE("\0", true),
                CASE("\x7f", true),
                CASE("\xc2\x80", true),
                CASE("\xdf\xbf", true),
                CASE("\xe0\xa0\x80", true),
                CASE("\xed\x9f\xbf", true),
                CASE("\xee\x80\x80", true),
                CASE("\xef\xbf\xbf", true),
                CASE("\xf0\x90\x80\x80", true),
                CASE("\xf4\x8f\xbf\xbf", true),
                CASE("12345678\xc3\xa9"
                     "12345678",
                     true),
                CASE("\x80", false),
                CASE("\xbf", false),
                CASE("\xc0\x80", false),
                CASE("\xc1\xbf", false),
                CASE("\xe0\x9f\xbf", false),
                CASE("\xed\xa0\x80", false),
                CASE("\xed\xbf\xbf", false),
                CASE("\xf0\x8f\xbf\xbf", false),
                CASE("\xf4\x90\x80\x80", false),
                CASE("\xf5\x80\x80\x80", false),
                CASE("\xff", false),
                CASE("\xc3", false),
                CASE("\xe2\x98", false),
                CASE("\xf0\x9f\x98", false),
                CASE("\xc3"
                     "a",
                     false),
                CASE("\xe2\x98"
                     "a",
                     false),
                CASE("\xf0\x9f\x98"
                     "a",
                     false),
                CASE("12345678\x80", false),
                CASE("1234567\xff", false),
        };

        (void)state;
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
                check_int(cases[i].text.p, utf8_valid(cases[i].text), cases[i].valid);
}

static void the_valid_beginning_is_measured(void **state)
{
        (void)state;
        assert_int_equal(utf8_valid_prefix(LESSOR_SLICE("")), 0);
        assert_int_equal(utf8_valid_prefix(LESSOR_SLICE("all of it is valid")), 18);
        assert_int_equal(utf8_valid_prefix(LESSOR_SLICE("\xff")), 0);
        assert_int_equal(utf8_valid_prefix(LESSOR_SLICE("more than a word\xc3\xa9\xed\xa0\x80 a")), 18);
        assert_int_equal(utf8_valid_prefix(LESSOR_SLICE("cut\xe2\x82")), 3);
}

static void points_and_units_are_counted(void **state)
{
        static const struct {
                struct lessor_slice text;
                size_t points, units;
        } cases[] = {
                CASE("", 0, 0),
                CASE("abc", 3, 3),
                CASE("\0", 1, 1),
                CASE("\xc3\xa9", 1, 1),
                CASE("\xe2\x98\x83!", 2, 2),
                CASE("\xf0\x9f\x98\x80", 1, 2),
                CASE("a\xf0\x9d\x84\x9e\xef\xbf\xbf", 3, 4),
        };

        (void)state;
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                check_int(cases[i].text.p, (long long)utf8_code_points(cases[i].text),
                          (long long)cases[i].points);
                check_int(cases[i].text.p, (long long)utf8_utf16_units(cases[i].text),
                          (long long)cases[i].units);
        }
}

/* relay-protocol 2: sorting of site ids. Each stands before the next. */
static void texts_sort_by_code_unit(void **state)
{
        static const char *const sorted[] = {
                "",
                "A",
                "a",
                "aa",
                "b",
                "\xc3\xa9",
                "\xed\x9f\xbf",     /* U+D7FF */
                "\xf0\x90\x80\x80", /* U+10000, D800 DC00 */
                "\xf0\x9f\x98\x80", /* U+1F600, D83D DE00 */
                "\xf0\x9f\x98\x80z",
                "\xf4\x8f\xbf\xbf", /* U+10FFFF, DBFF DFFF */
                "\xee\x80\x80",     /* U+E000 */
                "\xef\xbf\xbf",     /* U+FFFF */
        };

        (void)state;
        for (size_t i = 0; i < sizeof(sorted) / sizeof(sorted[0]); i++) {
                for (size_t k = 0; k < sizeof(sorted) / sizeof(sorted[0]); k++) {
                        int order = utf8_utf16_cmp(lessor_slice_of(sorted[i]), lessor_slice_of(sorted[k]));

                        check_int(sorted[i], (order > 0) - (order < 0), (i > k) - (i < k));
                }
        }
}

#define BAD "\xef\xbf\xbd"

static void what_is_no_utf8_is_mended_part_by_part(void **state)
{
        static const struct {
                const char *bytes, *mended;
        } cases[] = {
                {"", ""},
                {"plain \xc3\xa9 \xf0\x9f\x98\x80", "plain \xc3\xa9 \xf0\x9f\x98\x80"},
                {"\xff", BAD},
                {"a\x80\x80z", "a" BAD BAD "z"},
                {"\xe2\x82", BAD},
                {"\xf0\x9f\x98z", BAD "z"},
                {"\xf0\x80\x80\x80", BAD BAD BAD BAD},
                {"\xed\xa0\x80", BAD BAD BAD},
                {"\xc0\xb2", BAD BAD},
                {"\xf4\x90", BAD BAD},
                {"\xe2\x82\xe2\x82\xac", BAD "\xe2\x82\xac"},
                {"long enough for words \xe2 and more of it", "long enough for words " BAD " and more of it"},
        };

        (void)state;
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                struct lessor_slice bytes = lessor_slice_of(cases[i].bytes);
                char *out = malloc(UTF8_MENDED_MAX(bytes.n) + 1);
                size_t n;

                assert_non_null(out);
                n = utf8_mend(bytes, out);
                assert_true(
                        lessor_slice_equal((struct lessor_slice){out, n}, lessor_slice_of(cases[i].mended)));
                free(out);
        }
}

static void latin1_becomes_utf8(void **state)
{
        char out[8];

        (void)state;
        assert_int_equal(utf8_of_latin1(lessor_slice_of("a\x80\xe9\xff"), out), 7);
        assert_memory_equal(out, "a\xc2\x80\xc3\xa9\xc3\xbf", 7);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(only_rfc_3629_is_valid),
                cmocka_unit_test(the_valid_beginning_is_measured),
                cmocka_unit_test(points_and_units_are_counted),
                cmocka_unit_test(texts_sort_by_code_unit),
                cmocka_unit_test(what_is_no_utf8_is_mended_part_by_part),
                cmocka_unit_test(latin1_becomes_utf8),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
