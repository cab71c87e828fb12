/* SPDX-License-Identifier: MIT */
#include "check.h"

#include <stdlib.h>

#include "base/macro.h"
#include "base/timer_heap.h"

static void timers_fall_due_by_time_then_by_seq(void **state)
{
        static const struct {
                int64_t at_ms;
                uint64_t seq;
        } order[] = {{-5, 9}, {0, 1}, {0, 2}, {7, 3}, {7, 4}, {8, 0}};
        struct timer timers[ARRAY_SIZE(order)] = {0};
        struct timer_heap h = {0};

        (void)state;
        assert_int_equal(timer_heap_reserve(&h, ARRAY_SIZE(order)), 0);
        for (size_t i = ARRAY_SIZE(order); i-- > 0;) {
                timers[i].seq = order[i].seq;
                timer_set(&h, &timers[i], order[i].at_ms);
        }
        for (size_t i = 0; i < ARRAY_SIZE(order); i++) {
                assert_null(timer_due(&h, order[i].at_ms - 1));
                assert_ptr_equal(timer_due(&h, order[i].at_ms), &timers[i]);
                timer_unset(&h, &timers[i]);
                assert_false(timer_is_set(&timers[i]));
        }
        assert_null(timer_first(&h));
        timer_unset(&h, &timers[0]); /* not set: nothing happens */
        timer_heap_done(&h);
}

/* Sets, moves and unsets at random, and takes the earliest out at the end of each round, against a walk. */
static void any_timer_can_be_moved_or_taken_out(void **state)
{
        static struct timer timers[300];
        struct timer_heap h = {0};
        uint64_t dice = 1;

        (void)state;
        assert_int_equal(timer_heap_reserve(&h, ARRAY_SIZE(timers)), 0);
        for (size_t i = 0; i < ARRAY_SIZE(timers); i++)
                timers[i].seq = i;
        for (int round = 0; round < 20000; round++) {
                struct timer *t, *first = NULL;

                dice = dice * UINT64_C(6364136223846793005) + 1442695040888963407;
                t = &timers[(dice >> 33) % ARRAY_SIZE(timers)];
                if ((dice >> 20) % 4 == 0)
                        timer_unset(&h, t);
                else
                        timer_set(&h, t, (int64_t)((dice >> 40) % 100));
                if (round % 50 != 0)
                        continue;
                for (size_t i = 0; i < ARRAY_SIZE(timers); i++)
                        if (timer_is_set(&timers[i]) && (first == NULL || timers[i].at_ms < first->at_ms))
                                first = &timers[i];
                assert_ptr_equal(timer_first(&h), first);
        }
        timer_heap_done(&h);
}

static void a_timer_that_moved_in_memory_stays_set(void **state)
{
        struct timer here = {.seq = 1}, there;
        struct timer_heap h = {0};

        (void)state;
        assert_int_equal(timer_heap_reserve(&h, 1), 0);
        timer_set(&h, &here, 5);
        there = here;
        timer_moved(&h, &there);
        assert_ptr_equal(timer_first(&h), &there);
        timer_heap_done(&h);
}

static void room_for_too_many_is_refused(void **state)
{
        struct timer_heap h = {0};

        (void)state;
        assert_true(timer_heap_reserve(&h, SIZE_MAX) < 0);
        assert_true(timer_heap_reserve(&h, SIZE_MAX / 4) < 0);
        assert_int_equal(h.cap, 0);
        timer_heap_done(&h);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(timers_fall_due_by_time_then_by_seq),
                cmocka_unit_test(any_timer_can_be_moved_or_taken_out),
                cmocka_unit_test(a_timer_that_moved_in_memory_stays_set),
                cmocka_unit_test(room_for_too_many_is_refused),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
