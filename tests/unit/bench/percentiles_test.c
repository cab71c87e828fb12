/* SPDX-License-Identifier: MIT */
#include "percentiles.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#define WORST_ERROR 0.016

static struct percentiles some, others;

static void empty(void)
{
        memset(&some, 0, sizeof(some));
        memset(&others, 0, sizeof(others));
}

static void assert_near(uint64_t got, uint64_t wanted)
{
        double error = ((double)got - (double)wanted) / (double)wanted;

        if (error > WORST_ERROR || error < -WORST_ERROR)
                fail_msg("%llu is not near %llu", (unsigned long long)got, (unsigned long long)wanted);
}

static void an_empty_one_tells_zero(void **state)
{
        (void)state;
        empty();
        assert_int_equal(percentiles_at(&some, 0.5), 0);
}

static void a_single_value_is_every_percentile(void **state)
{
        static const uint64_t values[] = {0, 1, 127, 128, 129, 12345, 987654321, UINT64_C(1) << 39};

        (void)state;
        for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
                empty();
                percentiles_add(&some, values[i]);
                assert_int_equal(some.max_ns, values[i]);
                if (values[i] < 128) {
                        assert_int_equal(percentiles_at(&some, 0.0), values[i]);
                        continue;
                }
                assert_near(percentiles_at(&some, 0.0), values[i]);
                assert_near(percentiles_at(&some, 1.0), values[i]);
        }
}

static void percentiles_of_a_ramp_lie_where_they_should(void **state)
{
        (void)state;
        empty();
        for (uint64_t i = 1; i <= 100000; i++)
                percentiles_add(&some, i * 1000);
        assert_near(percentiles_at(&some, 0.5), 50000000);
        assert_near(percentiles_at(&some, 0.9), 90000000);
        assert_near(percentiles_at(&some, 0.99), 99000000);
        assert_int_equal(some.max_ns, 100000000);
}

static void what_is_too_long_counts_as_longest(void **state)
{
        (void)state;
        empty();
        percentiles_add(&some, UINT64_MAX);
        assert_int_equal(some.n, 1);
        assert_true(percentiles_at(&some, 0.5) > UINT64_C(1) << 39);
}

static void merging_counts_both(void **state)
{
        (void)state;
        empty();
        for (uint64_t i = 0; i < 300; i++)
                percentiles_add(&some, 1000);
        for (uint64_t i = 0; i < 100; i++)
                percentiles_add(&others, 50000);
        percentiles_merge(&some, &others);
        assert_int_equal(some.n, 400);
        assert_int_equal(some.max_ns, 50000);
        assert_near(percentiles_at(&some, 0.7), 1000);
        assert_near(percentiles_at(&some, 0.8), 50000);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(an_empty_one_tells_zero),
                cmocka_unit_test(a_single_value_is_every_percentile),
                cmocka_unit_test(percentiles_of_a_ramp_lie_where_they_should),
                cmocka_unit_test(what_is_too_long_counts_as_longest),
                cmocka_unit_test(merging_counts_both),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
