/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/macro.h"
#include "wire/lease_result.h"

#define HASH "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"

struct world {
        struct lessor_arena *arena;
        struct lessor_verdict verdict;
        const char *problem;
};

static int setup(void **state)
{
        static struct world w;

        w = (struct world){.arena = lessor_arena_new()};
        assert_non_null(w.arena);
        *state = &w;
        return 0;
}

static int teardown(void **state)
{
        struct world *w = *state;

        lessor_arena_free(w->arena);
        return 0;
}

static int read_text(struct world *w, struct lessor_slice text)
{
        w->problem = NULL;
        memset(&w->verdict, 0, sizeof(w->verdict));
        return lease_result_read(text, w->arena, &w->verdict, &w->problem);
}

/* A result with these members beside the required two. */
static int read_with(struct world *w, const char *members)
{
        struct buf text;
        struct lessor_slice copy;

        buf_init(&text);
        assert_int_equal(buf_printf(&text, "{\"taskName\":\"t\",\"status\":\"failed\"%s%s}",
                                    members[0] == '\0' ? "" : ",", members),
                         0);
        assert_int_equal(lessor_arena_copy(w->arena, buf_view(&text), &copy), 0);
        buf_done(&text);
        return read_text(w, copy);
}

static void refused(struct world *w, const char *members, const char *problem)
{
        if (read_with(w, members) != LESSOR_E_INVALID)
                fail_msg("%s was taken", members);
        assert_string_equal(w->problem, problem);
}

static void taken(struct world *w, const char *members)
{
        if (read_with(w, members) != 0)
                fail_msg("%s: %s", members, w->problem);
}

static void R073_anything_but_an_object_is_no_result(void **state)
{
        static const struct lessor_slice texts[] = {
                LESSOR_SLICE(""),
                LESSOR_SLICE("null"),
                LESSOR_SLICE("[]"),
                LESSOR_SLICE("\"x\""),
                LESSOR_SLICE("7"),
                LESSOR_SLICE("{"),
                LESSOR_SLICE("{}x"),
                LESSOR_SLICE("{\"a\":1,}"),
                LESSOR_SLICE("{'a':1}"),
                LESSOR_SLICE("\xef\xbb\xbf{\"taskName\":\"t\",\"status\":\"failed\"}"),
                LESSOR_SLICE("{\"taskName\":\"t\",\"status\":\"failed\",\"x\":\"\t\"}"),
                LESSOR_SLICE("{\"taskName\":\"t\",\"status\":\"failed\",\"x\":\"\\u12\"}"),
                LESSOR_SLICE("{\"taskName\":\"t\",\"status\":\"failed\",\"x\":01}"),
        };
        struct world *w = *state;

        for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
                assert_int_equal(read_text(w, texts[i]), LESSOR_E_INVALID);
                assert_non_null(w->problem);
        }
}

static void R074_taskName_is_a_text(void **state)
{
        struct world *w = *state;

        assert_int_equal(read_text(w, LESSOR_SLICE("{\"status\":\"failed\"}")), LESSOR_E_INVALID);
        refused(w, "\"taskName\":7", "taskName: must be a text");
        refused(w, "\"taskName\":null", "taskName: must be a text");
        taken(w, "\"taskName\":\"\"");
}

static void R075_status_is_success_or_failed(void **state)
{
        struct world *w = *state;

        assert_int_equal(read_text(w, LESSOR_SLICE("{\"taskName\":\"t\"}")), LESSOR_E_INVALID);
        refused(w, "\"status\":\"Success\"", "status: must be success or failed");
        refused(w, "\"status\":\"error\"", "status: must be success or failed");
        refused(w, "\"status\":true", "status: must be success or failed");
        taken(w, "\"status\":\"success\"");
        assert_true(w->verdict.success);
        taken(w, "");
        assert_false(w->verdict.success);
}

static void R076_state_is_one_of_three(void **state)
{
        struct world *w = *state;

        refused(w, "\"state\":\"cancelled\"", "state: must be success, failed or error");
        refused(w, "\"state\":0", "state: must be success, failed or error");
        taken(w, "\"state\":\"error\"");
        assert_true(w->verdict.error);
        taken(w, "\"state\":\"failed\"");
        assert_false(w->verdict.error);
}

static void R077_state_agrees_with_status(void **state)
{
        struct world *w = *state;

        refused(w, "\"state\":\"success\"", "state: must agree with status");
        refused(w, "\"status\":\"success\",\"state\":\"failed\"", "state: must agree with status");
        refused(w, "\"status\":\"success\",\"state\":\"error\"", "state: must agree with status");
        taken(w, "\"state\":\"success\",\"status\":\"success\"");
}

static void R078_exitCode_is_an_integer(void **state)
{
        struct world *w = *state;

        refused(w, "\"exitCode\":1.5", "exitCode: must be an integer");
        refused(w, "\"exitCode\":\"1\"", "exitCode: must be an integer");
        refused(w, "\"exitCode\":9007199254740992", "exitCode: must be an integer");
        refused(w, "\"exitCode\":-1e400", "exitCode: must be an integer");
        taken(w, "\"exitCode\":-9007199254740991");
        assert_true(w->verdict.has_exit_code);
        assert_true(w->verdict.exit_code == -INT64_C(9007199254740991));
        taken(w, "\"exitCode\":-0");
        assert_true(w->verdict.has_exit_code && w->verdict.exit_code == 0);
        taken(w, "");
        assert_false(w->verdict.has_exit_code);
}

static void R079_peakBytes_and_duration_are_not_negative(void **state)
{
        struct world *w = *state;

        refused(w, "\"peakBytes\":-1", "peakBytes: must be an integer of at least 0");
        refused(w, "\"peakBytes\":0.5", "peakBytes: must be an integer of at least 0");
        refused(w, "\"duration\":-0.1", "duration: must be a finite number of at least 0");
        refused(w, "\"duration\":1e400", "duration: must be a finite number of at least 0");
        refused(w, "\"duration\":\"1\"", "duration: must be a finite number of at least 0");
        taken(w, "\"duration\":0.25,\"peakBytes\":1e3");
        assert_true(w->verdict.has_peak_bytes && w->verdict.peak_bytes == 1000);
        taken(w, "\"duration\":-0,\"peakBytes\":4.0");
        assert_true(w->verdict.peak_bytes == 4);
}

static void R080_outputHash_is_a_hash(void **state)
{
        struct world *w = *state;

        refused(w, "\"outputHash\":\"\"", "outputHash: must be a SHA-256 in lower-case hex");
        refused(w, "\"outputHash\":\"" HASH "0\"", "outputHash: must be a SHA-256 in lower-case hex");
        refused(w, "\"outputHash\":\"9F86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08\"",
                "outputHash: must be a SHA-256 in lower-case hex");
        refused(w, "\"outputHash\":7", "outputHash: must be a SHA-256 in lower-case hex");
        taken(w, "\"outputHash\":\"" HASH "\"");
        assert_true(lessor_slice_equal(w->verdict.output_hash, LESSOR_SLICE(HASH)));
        taken(w, "");
        assert_null(w->verdict.output_hash.p);
}

static void R081_cancelled_is_a_boolean_and_error_a_text(void **state)
{
        struct world *w = *state;

        refused(w, "\"cancelled\":1", "cancelled: must be true or false");
        refused(w, "\"error\":false", "error: must be a text");
        taken(w, "\"cancelled\":true,\"error\":\"told to\"");
        assert_true(w->verdict.cancelled);
        assert_true(lessor_slice_equal(w->verdict.message, LESSOR_SLICE("told to")));
}

static void R082_null_is_no_value(void **state)
{
        static const char *const members[] = {"\"state\":null",   "\"outputHash\":null", "\"exitCode\":null",
                                              "\"error\":null",   "\"peakBytes\":null",  "\"cancelled\":null",
                                              "\"duration\":null"};
        struct world *w = *state;

        for (size_t i = 0; i < ARRAY_SIZE(members); i++)
                if (read_with(w, members[i]) != LESSOR_E_INVALID)
                        fail_msg("%s was taken", members[i]);
        taken(w, "\"detached\":null,\"somethingElse\":null");
}

static void the_last_of_a_member_counts(void **state)
{
        struct world *w = *state;

        taken(w, "\"exitCode\":\"no\",\"exitCode\":3,\"\\u0065rror\":\"x\",\"error\":\"y\"");
        assert_true(w->verdict.exit_code == 3);
        assert_true(lessor_slice_equal(w->verdict.message, LESSOR_SLICE("y")));
        refused(w, "\"exitCode\":3,\"exitCode\":null", "exitCode: must be an integer");
}

static void what_is_not_checked_may_be_anything(void **state)
{
        struct world *w = *state;

        taken(w, "\"detached\":{\"kind\":7,\"kind\":[{},[1e999,\"\\ud800\"]]},\"\":{}");
        /* JavaScript programs cut texts in the midst of a pair. */
        taken(w, "\"error\":\"half of \\ud83d\"");
        assert_true(lessor_slice_equal(w->verdict.message, LESSOR_SLICE("half of \xef\xbf\xbd")));
        taken(w, "\"error\":\"\\ud83d\\ud83d\\ude00\\u0000\"");
        assert_true(lessor_slice_equal(w->verdict.message, LESSOR_SLICE("\xef\xbf\xbd\xf0\x9f\x98\x80\0")));
}

static void nesting_ends_at_64(void **state)
{
        struct world *w = *state;

        for (size_t depth = 63; depth <= 64; depth++) { /* below the object itself */
                struct buf text;

                buf_init(&text);
                buf_text(&text, "{\"taskName\":\"t\",\"status\":\"failed\",\"x\":");
                for (size_t i = 0; i < depth; i++)
                        buf_char(&text, '[');
                for (size_t i = 0; i < depth; i++)
                        buf_char(&text, ']');
                buf_char(&text, '}');
                assert_int_equal(buf_failed(&text), 0);
                assert_int_equal(read_text(w, buf_view(&text)), depth == 63 ? 0 : LESSOR_E_INVALID);
                buf_done(&text);
        }
}

/* As large as a body may be, and made of as many values as fit. */
static void a_large_result_is_read(void **state)
{
        struct world *w = *state;
        struct buf text;

        buf_init(&text);
        buf_text(&text, "{\"taskName\":\"t\",\"status\":\"failed\",\"detached\":[0");
        while (text.n < 2097152 - 100)
                buf_text(&text, ",0");
        buf_text(&text, "],\"exitCode\":9}");
        assert_int_equal(buf_failed(&text), 0);
        assert_int_equal(read_text(w, buf_view(&text)), 0);
        assert_true(w->verdict.exit_code == 9);
        buf_done(&text);
}

/* R083 */
static void the_output_hash_is_replaced(void **state)
{
        static const struct {
                const char *text, *expected;
        } cases[] = {
                {"{ }", "{ \"outputHash\":\"" HASH "\"}"},
                {" {\"a\":{\"outputHash\":1}}\n",
                 " {\"a\":{\"outputHash\":1},\"outputHash\":\"" HASH "\"}\n"},
                {"{\"a\":1,\"outputHash\" : \"x\" ,\"b\":[]}",
                 "{\"a\":1,\"outputHash\" : \"" HASH "\" ,\"b\":[]}"},
                {"{\"outputHash\":1,\"output\\u0048ash\":2}",
                 "{\"outputHash\":\"" HASH "\",\"output\\u0048ash\":\"" HASH "\"}"},
        };
        struct world *w = *state;
        struct lessor_slice text;

        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                assert_int_equal(lease_result_with_output(lessor_slice_of(cases[i].text), LESSOR_SLICE(HASH),
                                                          w->arena, &text),
                                 0);
                assert_string_equal(text.p, cases[i].expected);
        }
        assert_int_equal(lease_result_with_output(LESSOR_SLICE("[]"), LESSOR_SLICE(HASH), w->arena, &text),
                         LESSOR_E_INVALID);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
        const struct CMUnitTest tests[] = {
                TEST(R073_anything_but_an_object_is_no_result),
                TEST(R074_taskName_is_a_text),
                TEST(R075_status_is_success_or_failed),
                TEST(R076_state_is_one_of_three),
                TEST(R077_state_agrees_with_status),
                TEST(R078_exitCode_is_an_integer),
                TEST(R079_peakBytes_and_duration_are_not_negative),
                TEST(R080_outputHash_is_a_hash),
                TEST(R081_cancelled_is_a_boolean_and_error_a_text),
                TEST(R082_null_is_no_value),
                TEST(the_last_of_a_member_counts),
                TEST(what_is_not_checked_may_be_anything),
                TEST(nesting_ends_at_64),
                TEST(a_large_result_is_read),
                TEST(the_output_hash_is_replaced),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
