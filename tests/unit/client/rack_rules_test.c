/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <signal.h>

#include "base/json_read.h"
#include "check.h"
#include "client/rack_rules.h"
#include "wire/lease_result.h"

/* --- What answers mean --- */

static void an_answer_means_what_the_protocol_says(void **state)
{
        static const struct {
                long status;
                const char *error;
                int verdict;
        } cases[] = {
                {200, NULL, 0},
                {204, NULL, 0},
                {401, "unauthorized", LESSOR_E_PERMISSION},
                {401, NULL, LESSOR_E_LATER}, /* a proxy's */
                {401, "login", LESSOR_E_LATER},
                {403, "permission_denied", LESSOR_E_NOT_HELD},
                {403, NULL, LESSOR_E_LATER}, /* the allowlist's plain text */
                {400, "bad_request", LESSOR_E_REFUSED},
                {404, "not_found", LESSOR_E_NOT_FOUND},
                {408, "timeout", LESSOR_E_LATER},
                {409, "conflict", LESSOR_E_REFUSED},
                {413, "too_large", LESSOR_E_TOO_LARGE},
                {426, "agent_too_old", LESSOR_E_AGENT_TOO_OLD},
                {429, "rate_limited", LESSOR_E_LATER},
                {500, NULL, LESSOR_E_LATER},
                {501, NULL, LESSOR_E_REFUSED},
                {503, "unavailable", LESSOR_E_LATER},
                {302, NULL, LESSOR_E_REFUSED},
        };

        (void)state;
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
                assert_int_equal(rack_verdict(cases[i].status, lessor_slice_of(cases[i].error)),
                                 cases[i].verdict);
}

static void backing_off_doubles_to_a_bound_and_spreads(void **state)
{
        int64_t least = INT64_MAX, most = 0;

        (void)state;
        assert_int_equal(rack_backoff_ms(0, 0, 0), 500);
        assert_int_equal(rack_backoff_ms(1, 0, 0), 1000);
        assert_int_equal(rack_backoff_ms(6, 0, 0), 30000);
        assert_int_equal(rack_backoff_ms(1000000, 0, 0), 30000);
        assert_in_range(rack_backoff_ms(0, 90000, 0), 90000, 90000);
        for (uint32_t random = 0; random < 20000; random += 7) {
                int64_t ms = rack_backoff_ms(3, 0, random);

                least = ms < least ? ms : least;
                most = ms > most ? ms : most;
        }
        assert_int_equal(least, 4000);
        assert_in_range(most, 4900, 5000);
        assert_in_range(rack_backoff_ms(3, 0, UINT32_MAX), 4000, 5000);
}

/* --- What to do next --- */

#define NOW 1000000

static struct rack_situation idle(void)
{
        return (struct rack_situation){.now_ms = NOW,
                                       .slots = 2,
                                       .beat_done = true,
                                       .beat_at_ms = NOW + 15000,
                                       .extend_at_ms = INT64_MAX};
}

static void nothing_comes_before_the_first_heartbeat(void **state)
{
        struct rack_situation s = idle();
        struct rack_steps steps;

        (void)state;
        s.beat_done = false;
        s.beat_at_ms = NOW;
        steps = rack_next_steps(&s);
        assert_true(steps.beat);
        assert_false(steps.poll);
        s.beating = true;
        steps = rack_next_steps(&s);
        assert_false(steps.beat);
        assert_false(steps.poll);
}

static void a_free_slot_polls_once(void **state)
{
        struct rack_situation s = idle();

        (void)state;
        assert_true(rack_next_steps(&s).poll);
        s.n_active = 1;
        assert_true(rack_next_steps(&s).poll);
        s.n_active = 2;
        assert_false(rack_next_steps(&s).poll);
        s.n_active = 3; /* an outbox may hold more than there are slots */
        assert_false(rack_next_steps(&s).poll);
        s.n_active = 0;
        s.polling = true;
        assert_false(rack_next_steps(&s).poll);
        assert_false(rack_next_steps(&s).stop_polling);
}

static void a_poll_that_failed_waits_for_its_time(void **state)
{
        struct rack_situation s = idle();
        struct rack_steps steps;

        (void)state;
        s.poll_at_ms = NOW + 700;
        steps = rack_next_steps(&s);
        assert_false(steps.poll);
        assert_int_equal(steps.wait_ms, 700);
}

static void draining_ends_the_poll_and_begins_none(void **state)
{
        struct rack_situation s = idle();
        struct rack_steps steps;

        (void)state;
        s.draining = true;
        s.polling = true;
        steps = rack_next_steps(&s);
        assert_true(steps.stop_polling);
        assert_false(steps.poll);
        s.polling = false;
        assert_false(rack_next_steps(&s).poll);
}

static void what_runs_is_watched_and_nothing_else(void **state)
{
        struct rack_situation s = idle();
        struct rack_steps steps;

        (void)state;
        assert_false(rack_next_steps(&s).watch);
        s.n_active = 1;
        assert_true(rack_next_steps(&s).watch);
        s.watching = true;
        assert_false(rack_next_steps(&s).watch);
        s.watch_stale = true;
        steps = rack_next_steps(&s);
        assert_true(steps.stop_watching && steps.watch);
        s.n_active = 0;
        steps = rack_next_steps(&s);
        assert_true(steps.stop_watching);
        assert_false(steps.watch);
        s.n_active = 1;
        s.watching = false;
        s.watch_missing = true; /* a server without it: heartbeats are enough */
        assert_false(rack_next_steps(&s).watch);
}

static void leases_are_extended_when_they_are_due(void **state)
{
        struct rack_situation s = idle();
        struct rack_steps steps;

        (void)state;
        s.n_active = 1;
        s.watching = true;
        s.polling = true;
        s.extend_at_ms = NOW + 3000;
        steps = rack_next_steps(&s);
        assert_false(steps.extend);
        assert_int_equal(steps.wait_ms, 3000);
        s.now_ms = NOW + 3000;
        assert_true(rack_next_steps(&s).extend);
}

static void an_empty_poll_that_held_no_window_is_not_repeated_at_once(void **state)
{
        (void)state;
        assert_int_equal(rack_poll_pause_ms(0, true, 1, 0, 0, 0), 0);
        assert_int_equal(rack_poll_pause_ms(0, false, 20000, 0, 0, 0), 0);
        assert_int_equal(rack_poll_pause_ms(0, false, 200, 0, 0, 0), 800);
        assert_int_equal(rack_poll_pause_ms(LESSOR_E_LATER, false, 5, 0, 7000, 0), 7000);
}

static void the_smaller_limit_counts(void **state)
{
        (void)state;
        assert_int_equal(rack_limit(0, 0), 0);
        assert_int_equal(rack_limit(5, 0), 5);
        assert_int_equal(rack_limit(0, 5), 5);
        assert_int_equal(rack_limit(7, 5), 5);
        assert_int_equal(rack_limit(5, 7), 5);
}

/* --- Results --- */

struct ending {
        struct task_end end;
        enum rack_result_state state;
        int exit_code; /* INT32_MIN: none */
        const char *error;
};

static void every_end_has_its_result(void **state)
{
        static const struct ending endings[] = {
                {{.how = TASK_END_EXIT, .peak_bytes = 4096}, RACK_RESULT_SUCCESS, 0, NULL},
                {{.how = TASK_END_EXIT, .number = 3}, RACK_RESULT_FAILED, 3, "status 3"},
                {{.how = TASK_END_SIGNAL, .number = SIGSEGV}, RACK_RESULT_FAILED, -1, "signal 11 (SIGSEGV)"},
                {{.how = TASK_END_SIGNAL, .number = 34}, RACK_RESULT_FAILED, -1, "signal 34"},
                {{.how = TASK_END_SIGNAL, .number = SIGKILL, .out_of_memory = true},
                 RACK_RESULT_FAILED,
                 -1,
                 "ran out of its 1048576 bytes of memory"},
                {{.how = TASK_END_EXIT, .number = 1, .out_of_processes = true},
                 RACK_RESULT_FAILED,
                 1,
                 "more than its 7 processes"},
                {{.how = TASK_END_NO_COMMAND, .number = ENOENT}, RACK_RESULT_FAILED, 127, "No such file"},
                {{.how = TASK_END_NO_DIRECTORY, .number = ENOTDIR}, RACK_RESULT_FAILED, 127, "directory"},
                {{.how = TASK_END_TIMEOUT}, RACK_RESULT_FAILED, -1, "timed out after 1500 ms"},
                {{.how = TASK_END_DISK}, RACK_RESULT_FAILED, -1, "2097152 bytes of disk"},
                {{.how = TASK_END_BROKEN, .problem = "no bwrap"}, RACK_RESULT_ERROR, INT32_MIN, "no bwrap"},
        };
        const struct task_limits limits = {
                .time_ms = 1500, .memory_bytes = 1048576, .disk_bytes = 2097152, .processes = 7};

        (void)state;
        for (size_t i = 0; i < sizeof(endings) / sizeof(endings[0]); i++) {
                struct buf error = {0}, text = {0};
                struct lessor_verdict verdict;
                struct rack_result result;
                bool wanted = rack_judge_end(&endings[i].end, &limits, &error, &result);

                assert_int_equal(wanted, endings[i].state == RACK_RESULT_SUCCESS);
                assert_int_equal(result.state, endings[i].state);
                assert_int_equal(result.has_exit_code, endings[i].exit_code != INT32_MIN);
                if (result.has_exit_code)
                        assert_int_equal(result.exit_code, endings[i].exit_code);
                if (endings[i].error != NULL)
                        assert_non_null(strstr(result.error, endings[i].error));
                else
                        assert_null(result.error);
                /* What is written is a result to the server too. */
                result.task_name = LESSOR_SLICE("t");
                assert_int_equal(rack_result_write(&result, &text), 0);
                {
                        struct lessor_arena *arena = lessor_arena_new();

                        assert_int_equal(lease_result_read(buf_view(&text), arena, &verdict, NULL), 0);
                        lessor_arena_free(arena);
                }
                buf_done(&text);
                buf_done(&error);
        }
}

/* R082: a member without a value is left out, never null. */
static void a_result_leaves_out_what_it_has_not(void **state)
{
        struct rack_result result = {.task_name = LESSOR_SLICE("a \"b\""),
                                     .state = RACK_RESULT_SUCCESS,
                                     .has_exit_code = true,
                                     .output_hash = LESSOR_SLICE("00"),
                                     .duration_ms = 12};
        struct buf text = {0};

        (void)state;
        assert_int_equal(rack_result_write(&result, &text), 0);
        assert_text_equal(buf_view(&text),
                          "{\"taskName\":\"a \\\"b\\\"\",\"status\":\"success\",\"state\":\"success\","
                          "\"outputHash\":\"00\",\"exitCode\":0,\"duration\":12}");
        buf_clear(&text);
        result = (struct rack_result){.task_name = LESSOR_SLICE("t"),
                                      .state = RACK_RESULT_ERROR,
                                      .error = "why",
                                      .duration_ms = -1};
        assert_int_equal(rack_result_write(&result, &text), 0);
        assert_text_equal(buf_view(&text),
                          "{\"taskName\":\"t\",\"status\":\"failed\",\"state\":\"error\",\"error\":\"why\","
                          "\"duration\":0}");
        buf_done(&text);
}

static void what_is_not_ours_is_refused(void **state)
{
        (void)state;
        assert_null(rack_refusal(LESSOR_LEASE_TASK, (struct lessor_slice){0}));
        assert_null(rack_refusal(LESSOR_LEASE_TASK, LESSOR_SLICE("{\"format\":\"lessor.task/1\",\"argv\"")));
        assert_non_null(rack_refusal(LESSOR_LEASE_TASK, LESSOR_SLICE("\x89"
                                                                     "Est")));
        assert_non_null(rack_refusal(LESSOR_LEASE_TASK, LESSOR_SLICE("")));
        assert_non_null(rack_refusal(LESSOR_LEASE_UNIT, (struct lessor_slice){0}));
        assert_non_null(rack_refusal(LESSOR_LEASE_FUNCTION, (struct lessor_slice){0}));
}

/* --- Logs --- */

static void a_log_is_cut_between_characters(void **state)
{
        static const struct {
                const char *bytes;
                size_t n, most;
                bool ended;
                size_t cut;
        } cases[] = {
                {"", 0, 8, false, 0},
                {"abc", 3, 8, false, 3},
                {"abcdefgh", 8, 4, false, 4},
                {"ab\xc3\xa4", 4, 8, false, 4},
                {"ab\xc3", 3, 8, false, 2},
                {"ab\xc3", 3, 8, true, 3},
                {"ab\xe2\x82", 4, 8, false, 2},
                {"ab\xe2\x82\xac", 5, 8, false, 5},
                {"ab\xe2\x82\xac", 5, 4, false, 2},
                {"ab\xe2\x82\xac", 5, 4, true, 2}, /* there is more, so it has not ended here */
                {"ab\xf0\x9f\x98", 5, 8, false, 2},
                {"\xf0\x9f\x98\x80", 4, 8, false, 4},
                {"ab\x80\x80\x80\x80", 6, 8, false, 6}, /* belong to no character */
                {"ab\xff", 3, 8, false, 3},
                {"ab\xed\xa0", 4, 8, false, 4}, /* cannot become one: half of a surrogate */
                {"ab\xe0\x80", 4, 8, false, 4}, /* the same: too long a form */
                {"\xc3", 1, 8, false, 0},
        };

        (void)state;
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
                assert_int_equal(rack_log_cut(cases[i].bytes, cases[i].n, cases[i].most, cases[i].ended),
                                 cases[i].cut);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(an_answer_means_what_the_protocol_says),
                cmocka_unit_test(backing_off_doubles_to_a_bound_and_spreads),
                cmocka_unit_test(nothing_comes_before_the_first_heartbeat),
                cmocka_unit_test(a_free_slot_polls_once),
                cmocka_unit_test(a_poll_that_failed_waits_for_its_time),
                cmocka_unit_test(draining_ends_the_poll_and_begins_none),
                cmocka_unit_test(what_runs_is_watched_and_nothing_else),
                cmocka_unit_test(leases_are_extended_when_they_are_due),
                cmocka_unit_test(an_empty_poll_that_held_no_window_is_not_repeated_at_once),
                cmocka_unit_test(the_smaller_limit_counts),
                cmocka_unit_test(every_end_has_its_result),
                cmocka_unit_test(a_result_leaves_out_what_it_has_not),
                cmocka_unit_test(what_is_not_ours_is_refused),
                cmocka_unit_test(a_log_is_cut_between_characters),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
