/* SPDX-License-Identifier: MIT */
#include "check.h"

#include "base/buf.h"
#include "base/json_read.h"
#include "base/limits.h"
#include "lessor/error.h"

static struct lessor_arena *arena;

static int setup(void **state)
{
        (void)state;
        arena = lessor_arena_new();
        return arena == NULL;
}

static int teardown(void **state)
{
        (void)state;
        arena = lessor_arena_free(arena);
        return 0;
}

static void only_strict_json_is_read(void **state)
{
        static const struct {
                const char *text;
                int r;
        } cases[] = {
                {"{}", 0},
                {" \t\r\n[1, \"a\", null, true, {\"b\": -0.5e-3}]\n", 0},
                {"1", 0},
                {"\"\"", 0},
                {"null", 0},
                {"\"\\u0000\\ud83d\\ude00\\/\"", 0},
                {"{\"__proto__\":1,\"constructor\":2}", 0},
                {"[1e400,-1e400,1e-400]", 0},
                {"", LESSOR_E_MALFORMED},
                {"  ", LESSOR_E_MALFORMED},
                {"{", LESSOR_E_MALFORMED},
                {"[1,]", LESSOR_E_MALFORMED},
                {"{\"a\":1,}", LESSOR_E_MALFORMED},
                {"{a:1}", LESSOR_E_MALFORMED},
                {"'a'", LESSOR_E_MALFORMED},
                {"[1] 2", LESSOR_E_MALFORMED},
                {"01", LESSOR_E_MALFORMED},
                {"+1", LESSOR_E_MALFORMED},
                {".5", LESSOR_E_MALFORMED},
                {"5.", LESSOR_E_MALFORMED},
                {"0x10", LESSOR_E_MALFORMED},
                {"NaN", LESSOR_E_MALFORMED},
                {"Infinity", LESSOR_E_MALFORMED},
                {"\"a\nb\"", LESSOR_E_MALFORMED},
                {"\"\\x\"", LESSOR_E_MALFORMED},
                {"\"\\ud800\"", LESSOR_E_MALFORMED},
                {"\"\\udc00\"", LESSOR_E_MALFORMED},
                {"\"\xff\"", LESSOR_E_MALFORMED},
                {"\"\xed\xa0\x80\"", LESSOR_E_MALFORMED},
                {"\"\xc0\x80\"", LESSOR_E_MALFORMED},
                {"\xef\xbb\xbf{}", LESSOR_E_MALFORMED},
                {"// a\n1", LESSOR_E_MALFORMED},
                /* what stands beside a number too large for a double is still looked at */
                {"[1e400,01e400]", LESSOR_E_MALFORMED},
                {"[1e400,1e400e5]", LESSOR_E_MALFORMED},
                {"[1e400,1.e400]", LESSOR_E_MALFORMED},
                {"[1e400,-e400]", LESSOR_E_MALFORMED},
                {"[1e400,1e400-]", LESSOR_E_MALFORMED},
                {"[1e400", LESSOR_E_MALFORMED},
                {"1e400\"", LESSOR_E_MALFORMED},
        };

        (void)state;
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                json_t *value = NULL;

                check_int(cases[i].text, json_read(lessor_slice_of(cases[i].text), arena, &value),
                          cases[i].r);
                assert_int_equal(value != NULL, cases[i].r == 0);
        }
}

static void nul_outside_a_string_is_malformed(void **state)
{
        json_t *value;

        (void)state;
        assert_int_equal(json_read(LESSOR_SLICE("1\0"), arena, &value), LESSOR_E_MALFORMED);
        assert_int_equal(json_read(LESSOR_SLICE("{}\0{}"), arena, &value), LESSOR_E_MALFORMED);
        assert_int_equal(json_read(LESSOR_SLICE("\"a\0b\""), arena, &value), LESSOR_E_MALFORMED);
        assert_int_equal(json_read((struct lessor_slice){"", 0}, arena, &value), LESSOR_E_MALFORMED);
}

static void the_text_need_not_end_with_nul(void **state)
{
        json_t *value;

        (void)state;
        assert_int_equal(json_read((struct lessor_slice){"[12]34", 4}, arena, &value), 0);
        assert_int_equal(json_read((struct lessor_slice){"1e4009", 5}, arena, &value), 0);
        assert_int_equal(json_read((struct lessor_slice){"\"a\\\"", 3}, arena, &value), LESSOR_E_MALFORMED);
}

/* relay-protocol 2: int */
static void ints_are_doubles_that_are_whole_and_safe(void **state)
{
        static const struct {
                const char *text;
                bool is_int;
                int64_t number;
        } cases[] = {
                {"0", true, 0},
                {"-0", true, 0},
                {"-0.0", true, 0},
                {"1.0", true, 1},
                {"1e3", true, 1000},
                {"4.1024448e12", true, 4102444800000},
                {"1.00000000000000000001", true, 1},
                {"9007199254740991", true, 9007199254740991},
                {"-9007199254740991", true, -9007199254740991},
                {"1e-400", true, 0},
                {"9007199254740992", false, 0},
                {"-9007199254740992", false, 0},
                {"123456789012345678901234567890", false, 0},
                {"1.5", false, 0},
                {"1e400", false, 0},
                {"-1e400", false, 0},
                {"1E+400", false, 0},
                {"9e308", false, 0},
                {"\"1\"", false, 0},
                {"null", false, 0},
                {"true", false, 0},
                {"[1]", false, 0},
        };

        (void)state;
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                int64_t number = -7;
                json_t *value;

                check_int(cases[i].text, json_read(lessor_slice_of(cases[i].text), arena, &value), 0);
                check_int(cases[i].text, json_int(value, &number), cases[i].is_int);
                check_int(cases[i].text, number, cases[i].is_int ? cases[i].number : -7);
        }
        assert_false(json_int(NULL, NULL));
}

static void an_infinity_spoils_nothing_around_it(void **state)
{
        struct lessor_slice text =
                LESSOR_SLICE("{\"1e400\":\"\\\"-1e999\",\"a\":[1e400,2,-1e999,1e309],\"b\":12}");
        json_t *value, *list;
        int64_t number;

        (void)state;
        assert_int_equal(json_read(text, arena, &value), 0);
        check_text("string", json_text(json_object_get(value, "1e400")), LESSOR_SLICE("\"-1e999"));
        list = json_object_get(value, "a");
        assert_false(json_int(json_array_get(list, 0), &number));
        assert_true(json_int(json_array_get(list, 1), &number));
        assert_false(json_int(json_array_get(list, 2), &number));
        assert_false(json_int(json_array_get(list, 3), &number));
        assert_true(json_is_number(json_array_get(list, 3)));
        assert_true(json_int(json_object_get(value, "b"), &number));
        assert_int_equal(number, 12);
}

static void a_very_long_number_is_a_number(void **state)
{
        struct buf b;
        json_t *value;
        int64_t number;

        (void)state;
        buf_init(&b);
        for (int i = 0; i < 5000; i++)
                buf_char(&b, '7');
        assert_int_equal(json_read(buf_view(&b), arena, &value), 0);
        assert_true(json_is_number(value));
        assert_false(json_int(value, &number));
        buf_done(&b);
}

static void of_duplicate_keys_the_last_counts_at_every_level(void **state)
{
        json_t *value;
        int64_t number;

        (void)state;
        assert_int_equal(json_read(LESSOR_SLICE("{\"a\":1,\"b\":{\"c\":1,\"c\":5},\"a\":3}"), arena, &value),
                         0);
        assert_int_equal(json_object_size(value), 2);
        assert_true(json_int(json_object_get(value, "a"), &number));
        assert_int_equal(number, 3);
        assert_true(json_int(json_object_get(json_object_get(value, "b"), "c"), &number));
        assert_int_equal(number, 5);
}

static void text_may_hold_nul(void **state)
{
        json_t *value;

        (void)state;
        assert_int_equal(json_read(LESSOR_SLICE("\"a\\u0000b\""), arena, &value), 0);
        check_text("nul", json_text(value), LESSOR_SLICE("a\0b"));
}

static void nest(struct buf *b, size_t depth)
{
        buf_clear(b);
        buf_text(b, "{\"]\\\"[[[\":");
        for (size_t i = 1; i < depth; i++)
                buf_char(b, '[');
        for (size_t i = 1; i < depth; i++)
                buf_char(b, ']');
        buf_char(b, '}');
}

static void nesting_is_bounded(void **state)
{
        struct buf b;
        json_t *value;
        const char *problem = NULL;

        (void)state;
        buf_init(&b);
        nest(&b, LIMIT_JSON_DEPTH);
        assert_int_equal(json_read(buf_view(&b), arena, &value), 0);
        nest(&b, LIMIT_JSON_DEPTH + 1);
        assert_int_equal(json_read(buf_view(&b), arena, &value), LESSOR_E_TOO_LARGE);
        assert_int_equal(json_read_file_text(buf_view(&b), arena, &value, &problem), LESSOR_E_TOO_LARGE);
        assert_non_null(problem);
        nest(&b, 1000000);
        assert_int_equal(json_read(buf_view(&b), arena, &value), LESSOR_E_TOO_LARGE);

        /* side by side is not nested, and what stands in a string is no brace */
        buf_clear(&b);
        buf_text(&b, "[\"\\\\\",\"[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[\"");
        for (int i = 0; i < 1000; i++)
                buf_text(&b, ",[{}]");
        buf_char(&b, ']');
        assert_int_equal(json_read(buf_view(&b), arena, &value), 0);
        buf_done(&b);
}

static void the_number_of_values_is_bounded_but_in_files(void **state)
{
        struct lessor_arena *own = lessor_arena_new();
        struct buf b;
        json_t *value;

        (void)state;
        buf_init(&b);
        buf_text(&b, "[0");
        for (int i = 0; i < LIMIT_JSON_VALUES; i++)
                buf_text(&b, ",0");
        buf_char(&b, ']');
        assert_int_equal(json_read(buf_view(&b), own, &value), LESSOR_E_TOO_LARGE);
        assert_int_equal(json_read_file_text(buf_view(&b), own, &value, NULL), 0);
        assert_int_equal(json_array_size(value), LIMIT_JSON_VALUES + 1);
        buf_done(&b);
        lessor_arena_free(own);
}

static void a_file_says_where_it_is_wrong_and_quotes_nothing(void **state)
{
        static const struct {
                const char *text, *problem;
        } cases[] = {
                {"{\"a\": 1,\n \"a\": 2}", "line 2, column 4: duplicate object key"},
                {"{\n\"key\": s3cret}", "line 2, column 8: invalid token"},
                {"", "it is empty"},
        };
        const char *problem;
        json_t *value;

        (void)state;
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                problem = NULL;
                check_int(cases[i].text,
                          json_read_file_text(lessor_slice_of(cases[i].text), arena, &value, &problem),
                          LESSOR_E_MALFORMED);
                check_text(cases[i].text, lessor_slice_of(problem), lessor_slice_of(cases[i].problem));
                assert_int_equal(json_read_file_text(lessor_slice_of(cases[i].text), arena, &value, NULL),
                                 LESSOR_E_MALFORMED);
        }
        assert_int_equal(json_read_file_text(LESSOR_SLICE("{\"a\":1e400}\n"), arena, &value, &problem), 0);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(only_strict_json_is_read),
                cmocka_unit_test(nul_outside_a_string_is_malformed),
                cmocka_unit_test(the_text_need_not_end_with_nul),
                cmocka_unit_test(ints_are_doubles_that_are_whole_and_safe),
                cmocka_unit_test(an_infinity_spoils_nothing_around_it),
                cmocka_unit_test(a_very_long_number_is_a_number),
                cmocka_unit_test(of_duplicate_keys_the_last_counts_at_every_level),
                cmocka_unit_test(text_may_hold_nul),
                cmocka_unit_test(nesting_is_bounded),
                cmocka_unit_test(the_number_of_values_is_bounded_but_in_files),
                cmocka_unit_test(a_file_says_where_it_is_wrong_and_quotes_nothing),
        };

        return cmocka_run_group_tests(tests, setup, teardown);
}
