/* SPDX-License-Identifier: MIT */
#include "check.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/buf.h"
#include "base/limits.h"
#include "base/utf8.h"
#include "json_values.h"
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

/* Where the reader may look, and not a byte further: what it reads too much a sanitizer sees. */
static int read_exactly(const char *text, size_t n, struct json **ret_value)
{
        char *copy = malloc(n == 0 ? 1 : n);
        int r;

        assert_non_null(copy);
        memcpy(copy, text, n);
        r = json_read((struct lessor_slice){copy, n}, arena, ret_value);
        /* the same verdict, and a value that outlives the text */
        assert_int_equal(json_read_copy((struct lessor_slice){copy, n}, arena, ret_value), r);
        free(copy);
        return r;
}

static void texts_of_the_grammar_are_read(void **state)
{
        /* and how each is written again; NULL: as it is */
        static const struct {
                const char *text, *written;
        } cases[] = {
                {"{}", NULL},
                {"[]", NULL},
                {" \t\r\n[ ] ", "[]"},
                {"\n{\t}\r", "{}"},
                {"null", NULL},
                {"true", NULL},
                {"false", NULL},
                {"\"\"", NULL},
                {"\"a\"", NULL},
                {"[[[[[[]]]],{}]]", NULL},
                {"[null,true,false,0,\"\",[],{}]", NULL},
                {"{\"\":{\"\":[]}}", NULL},
                {" { \"a\" : [ 1 , 2 ] , \"b\" : null } ", "{\"a\":[1,2],\"b\":null}"},
                {"{\"__proto__\":1,\"constructor\":2}", NULL},
                /* numbers: every branch of the grammar */
                {"0", NULL},
                {"-0", "0"},
                {"-0.0", "0"},
                {"-0e9", "0"},
                {"10", NULL},
                {"-1", NULL},
                {"1.0", "1"},
                {"0.5", NULL},
                {"-0.5e-3", "-0.00050000000000000001"},
                {"1e3", "1000"},
                {"1E3", "1000"},
                {"1E+3", "1000"},
                {"1e-3", "0.001"},
                {"0e0", "0"},
                {"0E-0", "0"},
                {"1e03", "1000"},
                {"123456789012345", NULL},
                {"-12345678901234", NULL},
                {"-99999999999999", NULL},
                {"999999999999999", NULL},
                {"9007199254740991", NULL},
                {"9007199254740993", "9007199254740992"},
                {"1e400", "1e999"},
                {"-1e400", "-1e999"},
                {"1e-400", "0"},
                {"[1e400,-1e400,1e-400]", "[1e999,-1e999,0]"},
                {"[1,2]", NULL},
                {"[1 ,2]", "[1,2]"},
                /* strings */
                {"\"/\"", NULL},
                {"\"\\/\\\\\\\"\"", "\"/\\\\\\\"\""},
                {"\"\\b\\f\\n\\r\\t\"", NULL},
                {"\"\\u0041\\u00e9\\u20AC\"", "\"A\xc3\xa9\xe2\x82\xac\""},
                {"\"\\u0000\"", NULL},
                {"\"\\uD83D\\uDE00\"", "\"\xf0\x9f\x98\x80\""},
                {"\"\\ud800\\udc00\\udbff\\udfff\"", "\"\xf0\x90\x80\x80\xf4\x8f\xbf\xbf\""},
                {"\"\\ud7ff\\ue000\\uffff\"", "\"\xed\x9f\xbf\xee\x80\x80\xef\xbf\xbf\""},
                {"\"\xf0\x9f\x98\x80\xc3\xa9\x7f\"", NULL},
                {"\"\xef\xbb\xbf\"", NULL},
                {"\"\\u2028\"", "\"\xe2\x80\xa8\""},
                {"\"a long text with no escape in it, longer than a few words\"", NULL},
                {"\"a long text \\u0077ith one escape in it, longer than a few words\"",
                 "\"a long text with one escape in it, longer than a few words\""},
                {"{\"\\u0061\":1}", "{\"a\":1}"},
                {"{\"a\\u0000b\":1,\"a\\u0000c\":2}", NULL},
                {"[\"]\",\"}\",\"\\\"\",\",\",\":\"]", NULL},
        };

        (void)state;
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                const char *text = cases[i].text;
                struct json *value = NULL;

                check_int(text, read_exactly(text, strlen(text), &value), 0);
                check_text(text, json_spelled(value, arena),
                           lessor_slice_of(cases[i].written == NULL ? text : cases[i].written));
        }
}

static void other_texts_are_malformed(void **state)
{
        static const char *const cases[] = {
                /* nothing, or not to the end */
                "",
                " ",
                "\n",
                "[",
                "]",
                "{",
                "}",
                "[1",
                "[1,",
                "[[]",
                "{\"a\"",
                "{\"a\":",
                "{\"a\":1",
                "{\"a\":1,",
                "\"",
                "\"a",
                "\"\\",
                "\"\\\"",
                "\"\\u",
                "\"\\u004",
                "\"\\ud83d\\u",
                "\"\\ud83d\\ude0",
                "t",
                "tru",
                "nul",
                "fals",
                "-",
                /* more than one value, or something beside it */
                "1 2",
                "[] []",
                "{}{}",
                "{}]",
                "[1] 2",
                "\"a\"\"b\"",
                "nullnull",
                "truex",
                "true1",
                "// a\n1",
                "/**/1",
                "1 // a",
                "# 1",
                /* punctuation */
                "[,]",
                "[,1]",
                "[1,]",
                "[1,,2]",
                "[1 2]",
                "[1:2]",
                "[1;2]",
                "[1}",
                "{1}",
                "{,}",
                "{\"a\":1,}",
                "{,\"a\":1}",
                "{\"a\":1,,\"b\":2}",
                "{\"a\",1}",
                "{\"a\" 1}",
                "{\"a\"::1}",
                "{\"a\":}",
                "{\"a\":1]",
                "{\"a\":1 \"b\":2}",
                "{:1}",
                "{a:1}",
                "{1:1}",
                "{null:1}",
                "{[]:1}",
                "{'a':1}",
                "'a'",
                "(1)",
                /* words that JavaScript has and JSON has not */
                "NaN",
                "-NaN",
                "Infinity",
                "-Infinity",
                "inf",
                "nan",
                "undefined",
                "True",
                "NULL",
                "[nul l]",
                /* numbers */
                "01",
                "-01",
                "00",
                "-00",
                "0123456789012345678",
                "+1",
                "++1",
                "--1",
                "- 1",
                "-a",
                ".5",
                "-.5",
                "5.",
                "-5.",
                "1.e1",
                "1.5.2",
                "1e",
                "1E+",
                "1e-",
                "1e+-1",
                "1e1.5",
                "1ee1",
                "1e 1",
                "0x10",
                "0b1",
                "1_000",
                "1,000",
                "1f",
                "1n",
                "\xd9\xa1",
                /* what stands beside a number too large for a double is still looked at */
                "[1e400,01e400]",
                "[1e400,1e400e5]",
                "[1e400,1.e400]",
                "[1e400,-e400]",
                "[1e400,1e400-]",
                "[1e400",
                "1e400\"",
                /* strings */
                "\"a\nb\"",
                "\"a\tb\"",
                "\"\x01\"",
                "\"\x1f\"",
                "\"seven b\n\"",
                "\"\\x\"",
                "\"\\a\"",
                "\"\\'\"",
                "\"\\0\"",
                "\"\\U0041\"",
                "\"\\\n\"",
                "\"\\u\"",
                "\"\\u12\"",
                "\"\\u123\"4\"",
                "\"\\u123g\"",
                "\"\\u 123\"",
                "\"\\u+123\"",
                "\"\\ud800\"",
                "\"\\udbffa\"",
                "\"\\udc00\"",
                "\"\\udc00\\ud800\"",
                "\"\\ud800\\n\"",
                "\"\\ud800\\ud800\"",
                "\"\\ud800\\ue000\"",
                "\"\\ud800\\udbff\"",
                "\"\\ud800 \\udc00\"",
                "\"\\ud800\\u12\"",
                "{\"\\ud800\":1}",
                "{\"a\nb\":1}",
                /* what is no UTF-8, wherever it stands */
                "\"\xff\"",
                "\"\x80\"",
                "\"\xc3\"",
                "\"\xe2\x82\"",
                "\"\xed\xa0\x80\"",
                "\"\xc0\x80\"",
                "\"\xe0\x80\xaf\"",
                "\"\xf4\x90\x80\x80\"",
                "\"\xf8\x88\x80\x80\x80\"",
                "\xff",
                "[1]\xff",
                "{\"\xff\":1}",
                /* blanks that are none to JSON */
                "\xef\xbb\xbf{}",
                "[1,\x0b"
                "2]",
                "[1,\x0c"
                "2]",
                "[\xc2\xa0]",
                "[\xe2\x80\xa8]",
        };

        (void)state;
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                const char *problem = NULL;
                struct json *value = NULL;

                check_int(cases[i], read_exactly(cases[i], strlen(cases[i]), &value), LESSOR_E_MALFORMED);
                assert_null(value);
                check_int(cases[i], json_read_file_text(lessor_slice_of(cases[i]), arena, &value, &problem),
                          LESSOR_E_MALFORMED);
                assert_null(value);
                assert_int_equal(strncmp(problem, "line ", 5), 0);
        }
}

/* Cut anywhere, a text is either malformed or, for a number or trailing blanks, another text. */
static void no_beginning_of_a_text_is_read_past_its_end(void **state)
{
        static const char text[] =
                "{\"a\":[1,-2.5e+3,true,false,null,\"x\\u00e9\\ud83d\\ude00\\n\"],\"b\\t\":{\"c\":[[],{}]}}";
        struct json *value;

        (void)state;
        for (size_t n = 0; n < sizeof(text) - 1; n++)
                assert_int_equal(read_exactly(text, n, &value), LESSOR_E_MALFORMED);
        assert_int_equal(read_exactly(text, sizeof(text) - 1, &value), 0);
}

/* The scan goes by words, so what ends plain text is tried at each place of one. */
static void the_end_of_plain_text_is_found_at_every_place(void **state)
{
        static const char *const ends[] = {"\"", "\\n\"", "\n\"", "\x1f\"", "\\u00e9\""};
        static const int verdicts[] = {0, 0, LESSOR_E_MALFORMED, LESSOR_E_MALFORMED, 0};
        /* DEL, '!', '#', '[' and ']' are the neighbours of what is looked for */
        static const char plain[] = "\x7f !#[]^\xc3\xa9~ \x7f!#[]^ \xc3\xa9~~~~~~~";
        char text[64];

        (void)state;
        for (size_t e = 0; e < sizeof(ends) / sizeof(ends[0]); e++) {
                for (size_t n = 0; n < 24; n++) {
                        struct json *value;
                        int length;

                        length = snprintf(text, sizeof(text), "\"%.*s%s", (int)n, &plain[n % 2], ends[e]);
                        if (!utf8_valid((struct lessor_slice){text, (size_t)length}))
                                continue;
                        check_int(text, read_exactly(text, (size_t)length, &value), verdicts[e]);
                        if (verdicts[e] == 0)
                                assert_true(json_text(value).n >= n);
                }
        }
}

static void texts_of_a_copy_end_with_nul(void **state)
{
        char text[] = "{\"key\":\"plain\",\"\\u006bey2\":\"e\\u0073caped\",\"empty\":\"\"}";
        struct json *value;

        (void)state;
        assert_int_equal(json_read_copy(lessor_slice_of(text), arena, &value), 0);
        memset(text, 'x', sizeof(text) - 1); /* the value no longer needs it */
        assert_string_equal(json_first(value)->key.p, "key");
        assert_string_equal(json_cstr(json_member_named(value, "key")), "plain");
        assert_string_equal(json_item(value, 1)->key.p, "key2");
        assert_string_equal(json_cstr(json_member_named(value, "key2")), "escaped");
        assert_string_equal(json_cstr(json_member_named(value, "empty")), "");
}

static void plain_text_is_borrowed(void **state)
{
        static const char text[] = "[\"plain\",\"esc\\n\"]";
        struct json *value;

        (void)state;
        assert_int_equal(json_read(lessor_slice_of(text), arena, &value), 0);
        assert_ptr_equal(json_text(json_item(value, 0)).p, text + 2);
        assert_string_equal(text, "[\"plain\",\"esc\\n\"]");
}

static void an_absent_text_is_malformed(void **state)
{
        const char *problem = NULL;
        struct json *value;

        (void)state;
        assert_int_equal(json_read((struct lessor_slice){NULL, 0}, arena, &value), LESSOR_E_MALFORMED);
        assert_int_equal(json_read_copy((struct lessor_slice){NULL, 0}, arena, &value), LESSOR_E_MALFORMED);
        assert_int_equal(json_read_file_text((struct lessor_slice){NULL, 0}, arena, &value, &problem),
                         LESSOR_E_MALFORMED);
        assert_non_null(problem);
}

static void looking_at_what_is_not_there_is_harmless(void **state)
{
        struct json *value;

        (void)state;
        assert_null(json_member_named(NULL, "a"));
        assert_int_equal(json_count(NULL), 0);
        assert_null(json_first(NULL));
        assert_null(json_text(NULL).p);
        assert_false(json_is(NULL, JSON_NULL));
        assert_false(json_is_bool(NULL));
        assert_int_equal(json_read(LESSOR_SLICE("[1]"), arena, &value), 0);
        assert_null(json_member_named(value, "a"));
        assert_null(json_text(value).p);
        assert_int_equal(json_count(json_first(value)), 0);
        json_each (item, json_first(value))
                fail_msg("a number has items");
}

static void nul_outside_a_string_is_malformed(void **state)
{
        struct json *value;

        (void)state;
        assert_int_equal(json_read(LESSOR_SLICE("1\0"), arena, &value), LESSOR_E_MALFORMED);
        assert_int_equal(json_read(LESSOR_SLICE("{}\0{}"), arena, &value), LESSOR_E_MALFORMED);
        assert_int_equal(json_read(LESSOR_SLICE("\"a\0b\""), arena, &value), LESSOR_E_MALFORMED);
        assert_int_equal(json_read((struct lessor_slice){"", 0}, arena, &value), LESSOR_E_MALFORMED);
}

static void the_text_need_not_end_with_nul(void **state)
{
        struct json *value;

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
                struct json *value;

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
        struct json *value, *list;
        int64_t number;

        (void)state;
        assert_int_equal(json_read(text, arena, &value), 0);
        check_text("string", json_text(json_member_named(value, "1e400")), LESSOR_SLICE("\"-1e999"));
        list = json_member_named(value, "a");
        assert_false(json_int(json_item(list, 0), &number));
        assert_true(json_int(json_item(list, 1), &number));
        assert_false(json_int(json_item(list, 2), &number));
        assert_false(json_int(json_item(list, 3), &number));
        assert_true(json_is(json_item(list, 3), JSON_NUMBER));
        assert_true(json_int(json_member_named(value, "b"), &number));
        assert_int_equal(number, 12);
}

static void a_very_long_number_is_a_number(void **state)
{
        struct buf b;
        struct json *value;
        int64_t number;

        (void)state;
        buf_init(&b);
        for (int i = 0; i < 5000; i++)
                buf_char(&b, '7');
        assert_int_equal(json_read(buf_view(&b), arena, &value), 0);
        assert_true(json_is(value, JSON_NUMBER));
        assert_false(json_int(value, &number));
        buf_done(&b);
}

static void of_duplicate_keys_the_last_counts_at_every_level(void **state)
{
        struct json *value;
        int64_t number;

        (void)state;
        assert_int_equal(json_read(LESSOR_SLICE("{\"a\":1,\"b\":{\"c\":1,\"c\":5},\"a\":3}"), arena, &value),
                         0);
        assert_int_equal(json_count(value), 2);
        assert_true(json_int(json_member_named(value, "a"), &number));
        assert_int_equal(number, 3);
        assert_true(json_int(json_member_named(json_member_named(value, "b"), "c"), &number));
        assert_int_equal(number, 5);
}

/* Few members are compared pair by pair, many are sorted; it must not show. */
static void duplicates_are_found_among_any_number_of_members(void **state)
{
        static const size_t counts[] = {2, 3, 15, 16, 17, 18, 100, 1000};
        struct buf b;

        (void)state;
        buf_init(&b);
        for (size_t c = 0; c < sizeof(counts) / sizeof(counts[0]); c++) {
                size_t n = counts[c];

                /* every key once, but "k0" also in the middle and last, and "k1" also escaped */
                for (int with = 0; with < 2; with++) {
                        const char *problem = "";
                        struct json *value;

                        buf_clear(&b);
                        buf_char(&b, '{');
                        for (size_t i = 0; i < n; i++)
                                buf_printf(&b, "%s\"k%zu\":%zu", i > 0 ? "," : "", i, i);
                        if (with)
                                buf_text(&b, ",\"k0\":7,\"\\u006b1\":8,\"k0\":9");
                        buf_char(&b, '}');
                        assert_int_equal(json_read(buf_view(&b), arena, &value), 0);
                        assert_int_equal(json_count(value), n);
                        for (size_t i = 2; i < n; i++) {
                                char key[24];

                                snprintf(key, sizeof(key), "k%zu", i);
                                assert_int_equal(json_number(json_member_named(value, key)), (int64_t)i);
                        }
                        assert_int_equal(json_number(json_member_named(value, "k0")), with ? 9 : 0);
                        assert_int_equal(json_number(json_member_named(value, "k1")), with ? 8 : 1);
                        assert_int_equal(json_read_file_text(buf_view(&b), arena, &value, &problem),
                                         with ? LESSOR_E_MALFORMED : 0);
                        assert_int_equal(json_read_unique(buf_view(&b), arena, &value, &problem),
                                         with ? LESSOR_E_MALFORMED : 0);
                        if (with)
                                assert_non_null(strstr(problem, "an object has a key twice"));
                }
        }
        buf_done(&b);
}

static void keys_are_told_apart_by_every_byte(void **state)
{
        struct json *value;

        (void)state;
        assert_int_equal(json_read(LESSOR_SLICE("{\"a\\u0000\":1,\"a\":2,\"a\\u0000b\":3,\"\":4,\"A\":5}"),
                                   arena, &value),
                         0);
        assert_int_equal(json_count(value), 5);
        assert_int_equal(json_number(json_member(value, LESSOR_SLICE("a\0"))), 1);
        assert_int_equal(json_number(json_member(value, LESSOR_SLICE("a\0b"))), 3);
        assert_int_equal(json_number(json_member_named(value, "a")), 2);
        assert_int_equal(json_number(json_member_named(value, "")), 4);
}

static void text_may_hold_nul(void **state)
{
        struct json *value;

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
        struct json *value;
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
        struct json *value;

        (void)state;
        buf_init(&b);
        buf_text(&b, "[0");
        for (int i = 0; i < LIMIT_JSON_VALUES; i++)
                buf_text(&b, ",0");
        buf_char(&b, ']');
        assert_int_equal(json_read(buf_view(&b), own, &value), LESSOR_E_TOO_LARGE);
        assert_int_equal(json_read_file_text(buf_view(&b), own, &value, NULL), 0);
        assert_int_equal(json_count(value), LIMIT_JSON_VALUES + 1);
        buf_done(&b);
        lessor_arena_free(own);
}

static void a_file_says_where_it_is_wrong_and_quotes_nothing(void **state)
{
        static const struct {
                const char *text, *problem;
        } cases[] = {
                {"{\"a\": 1,\n \"a\": 2}", "line 2, column 2: an object has a key twice"},
                {"{\n\"key\": s3cret}", "line 2, column 8: a value is expected"},
                {"", "line 1, column 1: it is empty"},
                {" \n ", "line 2, column 2: it is empty"},
                {"{\"a\":1,\"\\u0061\":2}", "line 1, column 19: an object has a key twice"},
                {"{\"a\":\n \"\xc3\xa9\xff\"}", "line 2, column 4: it is not valid UTF-8"},
                {"[1\n2]", "line 2, column 1: a comma or ] is expected"},
                {"{\"s3cret\":1 2}", "line 1, column 13: a comma or } is expected"},
                {"{\"a\":1,s3cret}", "line 1, column 8: a key is expected"},
                {"{\"a\" s3cret}", "line 1, column 6: a colon is expected"},
                {"\"s3cret", "line 1, column 8: a string does not end"},
                {"1 s3cret", "line 1, column 3: there is something after the value"},
        };
        const char *problem;
        struct json *value;

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
                cmocka_unit_test(texts_of_the_grammar_are_read),
                cmocka_unit_test(other_texts_are_malformed),
                cmocka_unit_test(no_beginning_of_a_text_is_read_past_its_end),
                cmocka_unit_test(the_end_of_plain_text_is_found_at_every_place),
                cmocka_unit_test(texts_of_a_copy_end_with_nul),
                cmocka_unit_test(plain_text_is_borrowed),
                cmocka_unit_test(an_absent_text_is_malformed),
                cmocka_unit_test(looking_at_what_is_not_there_is_harmless),
                cmocka_unit_test(nul_outside_a_string_is_malformed),
                cmocka_unit_test(the_text_need_not_end_with_nul),
                cmocka_unit_test(ints_are_doubles_that_are_whole_and_safe),
                cmocka_unit_test(an_infinity_spoils_nothing_around_it),
                cmocka_unit_test(a_very_long_number_is_a_number),
                cmocka_unit_test(of_duplicate_keys_the_last_counts_at_every_level),
                cmocka_unit_test(duplicates_are_found_among_any_number_of_members),
                cmocka_unit_test(keys_are_told_apart_by_every_byte),
                cmocka_unit_test(text_may_hold_nul),
                cmocka_unit_test(nesting_is_bounded),
                cmocka_unit_test(the_number_of_values_is_bounded_but_in_files),
                cmocka_unit_test(a_file_says_where_it_is_wrong_and_quotes_nothing),
        };

        return cmocka_run_group_tests(tests, setup, teardown);
}
