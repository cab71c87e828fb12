/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "plane/rack_state.h"

#define NOW_MS INT64_C(1760000000000)

/* A rack without fault that has polled and beaten just now. */
static struct lessor_rack sound(void)
{
        return (struct lessor_rack){.agent_version = LESSOR_SLICE("1.0.0"),
                                    .capacity = 2,
                                    .healthy = true,
                                    .fit = true,
                                    .enrolled_ms = NOW_MS - 3600000,
                                    .last_seen_ms = NOW_MS,
                                    .last_poll_ms = NOW_MS,
                                    .last_beat_ms = NOW_MS};
}

static void check(const struct lessor_rack *rack, const char *want)
{
        assert_string_equal(rack_state_name(rack, NOW_MS), want);
}

static void one_thing_is_said_and_the_gravest(void **state)
{
        struct lessor_rack rack = sound();

        (void)state;
        check(&rack, "ready");
        rack.draining = true;
        rack.fit = false;
        check(&rack, "draining");
        rack.healthy = false;
        check(&rack, "unhealthy");
        rack.agent_version = LESSOR_SLICE("0.4.9");
        check(&rack, "too-old");
        rack.pending = true;
        check(&rack, "awaiting-approval");
        rack.last_seen_ms = rack.last_poll_ms = rack.last_beat_ms = NOW_MS - 45001;
        check(&rack, "unseen");
        rack.last_poll_ms = rack.last_beat_ms = 0;
        check(&rack, "new");
}

/* Issue 3: last poll and last beat told apart. */
static void a_rack_that_only_beats_is_not_ready(void **state)
{
        struct lessor_rack rack = sound();

        (void)state;
        rack.last_poll_ms = NOW_MS - 45000;
        check(&rack, "ready");
        rack.last_poll_ms--;
        check(&rack, "not-polling");
        rack.last_poll_ms = 0;
        check(&rack, "not-polling");
        rack.n_leases = 1;
        check(&rack, "not-polling");
        rack.n_leases = 2; /* no room, so it does not ask */
        check(&rack, "busy");
        rack.capacity = 0; /* it does not say how much room it has */
        check(&rack, "not-polling");
}

/* The store's healthy window may be another than ours. */
static void the_stores_window_counts(void **state)
{
        struct lessor_rack rack = sound();

        (void)state;
        rack.last_seen_ms = rack.last_beat_ms = NOW_MS - 1000;
        rack.fit = false;
        check(&rack, "unseen");
        rack.last_seen_ms = rack.last_beat_ms = NOW_MS - 100000;
        rack.fit = true;
        check(&rack, "ready");
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(one_thing_is_said_and_the_gravest),
                cmocka_unit_test(a_rack_that_only_beats_is_not_ready),
                cmocka_unit_test(the_stores_window_counts),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
