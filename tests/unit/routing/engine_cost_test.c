/* SPDX-License-Identifier: MIT */
/* What a million jobs cost: memory each, and nothing to a claim that they are not for. Prints its figures. */
#include "fixture.h"

#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/macro.h"

#define MANY     1000000
#define FEW      1000
#define N_ROUNDS 2001

static int64_t now_ns(void)
{
        struct timespec t;

        clock_gettime(CLOCK_MONOTONIC, &t);
        return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static int by_size(const void *a, const void *b)
{
        int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

        return (x > y) - (x < y);
}

/* Enqueues jobs with ids as clients make them: 36 characters. */
static void fill(struct fixture *f, const char *site, const char *owner, uint64_t n)
{
        for (uint64_t i = 0; i < n; i++) {
                char id[40];
                int len = snprintf(id, sizeof(id), "%08llx-0000-4000-8000-%012llx",
                                   (unsigned long long)(i >> 4), (unsigned long long)i);

                assert_int_equal(fixture_enqueue(f, site, (struct lessor_slice){id, (size_t)len}, owner), 0);
                if (i % 1024 == 0) {
                        fixture_drain(f);
                        lessor_arena_clear(f->arena);
                }
        }
        fixture_drain(f);
        lessor_arena_clear(f->arena);
}

/* The median time of a claim that finds one job, given back each time. */
static int64_t claim_p50_ns(struct fixture *f, const char *site, const char *owner)
{
        static int64_t took_ns[N_ROUNDS];

        for (size_t i = 0; i < N_ROUNDS; i++) {
                struct lessor_job_list granted;
                int64_t start_ns = now_ns();

                assert_int_equal(fixture_claim(f, LESSOR_SLICE("runner"), site, owner, 1, &granted), 0);
                took_ns[i] = now_ns() - start_ns;
                assert_int_equal(granted.n, 1);
                assert_int_equal(fixture_release(f, &granted.items[0], false, 0), 0);
                fixture_drain(f);
                lessor_arena_clear(f->arena);
        }
        qsort(took_ns, N_ROUNDS, sizeof(took_ns[0]), by_size);
        return took_ns[N_ROUNDS / 2];
}

static void report(const char *what, int64_t few_ns, int64_t many_ns)
{
        print_message("%s: claim p50 %lld ns beside %d, %lld ns beside %d\n", what, (long long)few_ns, FEW,
                      (long long)many_ns, MANY);
        assert_true((double)many_ns <= 1.5 * (double)few_ns);
}

static void a_queued_job_is_small(void **state)
{
        struct mallinfo2 before = mallinfo2();
        struct fixture f;
        double each;

        (void)state;
        fixture_init(&f);
        fill(&f, "site", "owner", MANY);
        each = (double)(mallinfo2().uordblks + mallinfo2().hblkhd - before.uordblks - before.hblkhd) / MANY;
        print_message("a queued job takes %.0f bytes\n", each);
        assert_true(each <= 500);
        fixture_done(&f);
}

static void a_claim_does_not_feel_the_jobs_of_others(void **state)
{
        int64_t took_ns[2];

        (void)state;
        for (int i = 0; i < 2; i++) {
                struct fixture f;

                fixture_init(&f);
                fill(&f, "other", "owner", i == 0 ? FEW : MANY);
                assert_int_equal(fixture_enqueue(&f, "site", LESSOR_SLICE("mine"), "owner"), 0);
                took_ns[i] = claim_p50_ns(&f, "site", "owner");
                fixture_done(&f);
        }
        report("others' jobs", took_ns[0], took_ns[1]);
}

static void a_claim_does_not_feel_the_queue_behind_its_job(void **state)
{
        int64_t took_ns[2];

        (void)state;
        for (int i = 0; i < 2; i++) {
                struct fixture f;

                fixture_init(&f);
                fill(&f, "site", "owner", i == 0 ? FEW : MANY);
                took_ns[i] = claim_p50_ns(&f, "site", "owner");
                fixture_done(&f);
        }
        report("its own queue", took_ns[0], took_ns[1]);
}

/* In front of the one job that it may have: jobs that it refused, and jobs that stick to somebody else. */
static void a_claim_does_not_feel_jobs_it_may_not_have(void **state)
{
        const struct engine_bar bar = {LESSOR_SLICE("runner"), ENGINE_BAR_FOREVER, NULL};
        int64_t took_ns[2];

        (void)state;
        for (int i = 0; i < 2; i++) {
                struct fixture f;
                uint64_t n = i == 0 ? FEW : MANY;

                fixture_init(&f);
                for (uint64_t k = 1; k <= n; k++) {
                        char id[32];
                        struct engine_row row = {.seq = k};

                        row.job.site_id = LESSOR_SLICE("site");
                        row.job.stub = fixture_stub(
                                (struct lessor_slice){id, (size_t)snprintf(id, sizeof(id), "job-%llu",
                                                                           (unsigned long long)k)},
                                LESSOR_SLICE("owner"));
                        if (k % 3 == 0)
                                row.job.reoffer_to = LESSOR_SLICE("another");
                        else if (k % 3 == 1)
                                row.bars = &bar, row.n_bars = 1;
                        else
                                row.job.cancelled = true;
                        assert_int_equal(engine_restore_job(f.engine, &row), 0);
                }
                assert_int_equal(fixture_enqueue(&f, "site", LESSOR_SLICE("mine"), "owner"), 0);
                took_ns[i] = claim_p50_ns(&f, "site", "owner");
                fixture_done(&f);
        }
        report("jobs it may not have", took_ns[0], took_ns[1]);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(a_queued_job_is_small),
                cmocka_unit_test(a_claim_does_not_feel_the_jobs_of_others),
                cmocka_unit_test(a_claim_does_not_feel_the_queue_behind_its_job),
                cmocka_unit_test(a_claim_does_not_feel_jobs_it_may_not_have),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
