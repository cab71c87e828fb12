/* SPDX-License-Identifier: MIT */
/* An engine that is rebuilt from its rows again and again answers like one that never was. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
/* cmocka wants those before it */
#include <cmocka.h>
#include <stdio.h>

#include "history.h"
#include "mirror.h"

static const unsigned char key[LEASE_ENGINE_HASH_KEY_BYTES] = "a key for tests";

static struct lease_engine *engine(void)
{
        struct lease_engine *e;

        assert_int_equal(lease_engine_new(&history_options, key, NULL, &e), 0);
        return e;
}

static void drain_events(struct lease_engine *e)
{
        struct lease_engine_event event;

        while (lease_engine_event_take(e, &event))
                lease_engine_event_done(e, &event);
}

#define CAP 262144

static void run(uint64_t seed, unsigned n_steps, unsigned *ret_codes)
{
        struct lease_engine *steady = engine(), *restarted = engine();
        struct lessor_arena *arena = lessor_arena_new();
        char *a = malloc(CAP), *b = malloc(CAP);
        struct history h;
        struct mirror m;

        assert_true(arena != NULL && a != NULL && b != NULL);
        history_init(&h, seed);
        mirror_init(&m);
        for (unsigned i = 0; i < n_steps; i++) {
                struct step step = history_next(&h);
                int x, y;

                history_do(&h, &step, steady, arena, false, &x, a, CAP);
                history_do(&h, &step, restarted, arena, true, &y, b, CAP);
                if (x != y || strcmp(a, b) != 0)
                        fail_msg("seed %llu:\n%s\n%s", (unsigned long long)seed, a, b);
                ret_codes[-x < 128 ? -x : 0]++;
                lease_engine_check(steady);
                while (lease_engine_change_drop(steady))
                        ;
                drain_events(steady);
                mirror_take(&m, restarted);
                drain_events(restarted);
                if (step.number % 23 == 0) {
                        lease_engine_free(restarted);
                        restarted = engine();
                        mirror_restore(&m, restarted);
                        lease_engine_check(restarted);
                }
                lessor_arena_clear(arena);
        }
        mirror_done(&m);
        lease_engine_free(steady);
        lease_engine_free(restarted);
        lessor_arena_free(arena);
        free(a);
        free(b);
}

static void a_rebuilt_engine_answers_like_one_that_never_was(void **state)
{
        unsigned codes[128] = {0};

        (void)state;
        for (uint64_t seed = 1; seed <= 12; seed++)
                run(seed, 1200, codes);
        /* The histories get somewhere: most kinds of answer occur. */
        assert_true(codes[0] > 5000);
        assert_true(codes[-LESSOR_E_NOT_HELD] > 100 && codes[-LESSOR_E_NOT_FOUND] > 100);
        assert_true(codes[-LESSOR_E_TERMINAL] > 10 && codes[-LESSOR_E_PERMISSION] > 10);
        assert_true(codes[-LESSOR_E_SIZE_CHANGED] > 0 && codes[-LESSOR_E_AGENT_TOO_OLD] > 0);
        assert_true(codes[-LESSOR_E_EXISTS] > 0 && codes[-LESSOR_E_LOW_SPACE] > 0);
}

static struct lessor_attempt attempt_one(void)
{
        return (struct lessor_attempt){.number = 1,
                                       .execution_id = LESSOR_SLICE("x"),
                                       .rack_id = LESSOR_SLICE("r"),
                                       .boot_id = LESSOR_SLICE("b"),
                                       .counts = true,
                                       .started_ms = 1};
}

static void rows_that_contradict_themselves_are_refused(void **state)
{
        struct lease_engine *e = engine();
        struct lease_attempt_row attempt = {.attempt = attempt_one()};
        struct lease_row good = {.lease = {.seq = 1,
                                           .name = {LESSOR_SLICE("r"), LESSOR_SLICE("t#i#u")},
                                           .workspace = LESSOR_SLICE("w"),
                                           .task_name = LESSOR_SLICE("n"),
                                           .task_hash = LESSOR_SLICE("t"),
                                           .inputs_hash = LESSOR_SLICE("i"),
                                           .tier = LESSOR_SLICE("c"),
                                           .owner = LESSOR_SLICE(""),
                                           .event_version = 2,
                                           .status = LESSOR_LEASE_CLAIMED,
                                           .claim_number = 1,
                                           .attempts_spent = 1,
                                           .deadline_ms = 5},
                                 .attempts = &attempt,
                                 .n_attempts = 1};
        struct lease_row bad[8];

        (void)state;
        for (size_t i = 0; i < 8; i++)
                bad[i] = good;
        bad[0].lease.seq = 0;
        bad[1].lease.name.lease_id = LESSOR_SLICE("t#j#u");
        bad[2].lease.claim_number = 2;
        bad[3].lease.status = LESSOR_LEASE_PENDING;
        bad[4].lease.ended_ms = 7;
        bad[5].lease.status = LESSOR_LEASE_COMPLETED;
        bad[6].lease.mode = LESSOR_LEASE_FUNCTION;
        bad[7].lease.name.lease_id = LESSOR_SLICE("t");
        for (size_t i = 0; i < 8; i++)
                assert_int_equal(lease_engine_restore_lease(e, &bad[i]), LESSOR_E_INVALID);
        assert_int_equal(lease_engine_restore_lease(e, &good), 0);
        lease_engine_check(e);
        lease_engine_free(e);
}

static void options_out_of_range_are_refused(void **state)
{
        struct lessor_lease_options options = history_options;
        struct lease_engine *e;

        (void)state;
        options.visibility_ms = 0;
        assert_int_equal(lease_engine_new(&options, key, NULL, &e), LESSOR_E_INVALID);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(a_rebuilt_engine_answers_like_one_that_never_was),
                cmocka_unit_test(rows_that_contradict_themselves_are_refused),
                cmocka_unit_test(options_out_of_range_are_refused),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
