/* SPDX-License-Identifier: MIT */
#include "check.h"

#include "base/clock.h"

#define SECOND INT64_C(1000000000)
#define START  (INT64_C(1700000000) * SECOND)

static void steady_starts_at_the_wall_clock_and_follows_the_monotonic_one(void **state)
{
        struct steady_time s = {0};

        (void)state;
        assert_int_equal(clock_steady_advance(&s, START, 5), START);
        assert_int_equal(clock_steady_advance(&s, START + SECOND, 5 + SECOND), START + SECOND);
        assert_int_equal(clock_steady_advance(&s, START + SECOND, 5 + SECOND), START + SECOND);
}

/* One second on the monotonic clock after the wall clock was `step` away from where steady is. */
static void a_step_of_the_wall_clock_is_followed_by_a_tenth_at_most(void **state)
{
        static const struct {
                const char *name;
                int64_t step, moved;
        } cases[] = {
                {"none", 0, SECOND},
                {"a little forward", SECOND / 100, SECOND + SECOND / 100},
                {"a little back", -SECOND / 100, SECOND - SECOND / 100},
                {"an hour forward", 3600 * SECOND, SECOND + SECOND / 10},
                {"an hour back", -3600 * SECOND, SECOND - SECOND / 10},
                {"to 1970", -START, SECOND - SECOND / 10},
        };

        (void)state;
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                struct steady_time s = {0};

                clock_steady_advance(&s, START, 0);
                check_int(cases[i].name,
                          clock_steady_advance(&s, START + SECOND + cases[i].step, SECOND) - START,
                          cases[i].moved);
        }
}

static void steady_never_goes_back_and_reaches_the_wall_clock(void **state)
{
        struct steady_time s = {0};
        int64_t last = clock_steady_advance(&s, START, 0);
        int64_t mono = 0, offset = -60 * SECOND;

        (void)state;
        /* asked every 7 ns, every ms, every second; the monotonic clock is even read late once */
        for (int i = 0; i < 3000; i++) {
                int64_t now;

                mono += i % 3 == 0 ? 7 : i % 3 == 1 ? SECOND / 1000 : SECOND;
                now = clock_steady_advance(&s, START + mono + offset, i == 500 ? mono - SECOND * 2 : mono);
                assert_true(now >= last);
                last = now;
        }
        assert_int_equal(last, START + mono + offset);
}

static void frequent_questions_draw_it_as_well_as_rare_ones(void **state)
{
        struct steady_time s = {0};
        int64_t now = clock_steady_advance(&s, START, 0);

        (void)state;
        for (int64_t mono = 1000; mono <= SECOND; mono += 1000)
                now = clock_steady_advance(&s, START + mono + 3600 * SECOND, mono);
        assert_int_equal(now, START + SECOND + SECOND / 10);
}

static void a_manual_clock_moves_only_when_told(void **state)
{
        struct clock_manual m;

        (void)state;
        clock_manual_init(&m, 1000);
        assert_int_equal(clock_now_ms(&m.clock), 1000);
        assert_int_equal(clock_now_ms(&m.clock), 1000);
        clock_manual_advance(&m, 500);
        assert_int_equal(clock_now_ms(&m.clock), 1500);
        clock_manual_advance(&m, -1500);
        assert_int_equal(clock_now_ms(&m.clock), 0);
}

static void the_real_clocks_agree_roughly(void **state)
{
        int64_t wall = clock_now_ms(clock_wall());
        int64_t mono = clock_monotonic_ms();
        int64_t us = clock_monotonic_us();

        (void)state;
        assert_true(wall > INT64_C(1600000000000));
        assert_in_range(clock_now_ms(clock_steady()) - wall + 60000, 0, 120000);
        assert_in_range(us / 1000 - mono, 0, 60000);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(steady_starts_at_the_wall_clock_and_follows_the_monotonic_one),
                cmocka_unit_test(a_step_of_the_wall_clock_is_followed_by_a_tenth_at_most),
                cmocka_unit_test(steady_never_goes_back_and_reaches_the_wall_clock),
                cmocka_unit_test(frequent_questions_draw_it_as_well_as_rare_ones),
                cmocka_unit_test(a_manual_clock_moves_only_when_told),
                cmocka_unit_test(the_real_clocks_agree_roughly),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
