/* SPDX-License-Identifier: MIT */
/* A million leases: what they take, and that a claim does not feel them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
/* cmocka wants those before it */
#include <cmocka.h>
#include <malloc.h>
#include <stdio.h>
#include <time.h>

#include "leasing/engine.h"

#define N_CLAIMS 4000

static int64_t now_ns(void)
{
        struct timespec t;

        clock_gettime(CLOCK_MONOTONIC, &t);
        return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

struct cost {
        struct lease_engine *e;
        struct lessor_arena *arena;
        struct lessor_slice rack;
        unsigned n;
        int64_t now_ms;
};

static void drain(struct lease_engine *e)
{
        struct lease_engine_event event;

        while (lease_engine_change_drop(e))
                ;
        while (lease_engine_event_take(e, &event))
                lease_engine_event_done(e, &event);
}

static void create(struct cost *c, const char *tier, const char *repo, const char *owner)
{
        struct lessor_lease_submission from = {
                .repo = lessor_slice_of(repo),
                .workspace = LESSOR_SLICE("w"),
                .task_name = LESSOR_SLICE("n"),
                .task_hash = LESSOR_SLICE("0000000000000000000000000000000000000000000000000000000000000001"),
                .tier = lessor_slice_of(tier),
                .owner = lessor_slice_of(owner),
                .event_version = 2,
        };
        char inputs[65], uuid[40];
        struct lessor_lease lease;
        struct lease *handle;
        bool created;

        snprintf(inputs, sizeof(inputs), "%064x", ++c->n);
        snprintf(uuid, sizeof(uuid), "%036x", c->n);
        from.inputs_hash = lessor_slice_of(inputs);
        assert_int_equal(lease_engine_create(c->e, &from, c->now_ms, lessor_slice_of(uuid), true, c->arena,
                                             &handle, &lease, &created),
                         0);
        lessor_arena_clear(c->arena);
        drain(c->e);
}

static void begin(struct cost *c)
{
        static const unsigned char key[LEASE_ENGINE_HASH_KEY_BYTES] = "a key for tests";
        struct lessor_lease_options options = LESSOR_LEASE_OPTIONS;
        struct lessor_host_info host = {.label = LESSOR_SLICE("l"), .agent_version = LESSOR_SLICE("1.0.0")};
        struct lessor_rack rack;
        int64_t expires_ms;

        *c = (struct cost){
                .arena = lessor_arena_new(), .rack = LESSOR_SLICE("rack"), .now_ms = 1760000000000};
        assert_non_null(c->arena);
        assert_int_equal(lease_engine_new(&options, key, NULL, &c->e), 0);
        assert_int_equal(lease_engine_mint_enrolment(c->e, LESSOR_SLICE("e"), LESSOR_SLICE(""), 1000,
                                                     c->now_ms, &expires_ms),
                         0);
        assert_int_equal(lease_engine_enroll(c->e, LESSOR_SLICE("e"), &host, c->rack, LESSOR_SLICE("t"),
                                             c->now_ms, c->arena, &rack),
                         0);
        lessor_arena_clear(c->arena);
        drain(c->e);
}

static void finish(struct cost *c)
{
        lease_engine_free(c->e);
        lessor_arena_free(c->arena);
}

static int compare(const void *a, const void *b)
{
        int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

        return (x > y) - (x < y);
}

/* The median cost of a claim that is granted the only lease of its own, and of one that finds nothing; ns. */
static int64_t claim_ns(struct cost *c, const char *tier, const char *repo, bool confined, bool grants)
{
        static int64_t spans[N_CLAIMS];
        struct lessor_slice t = lessor_slice_of(tier), r = lessor_slice_of(repo);
        struct lessor_lease_claim claim = {
                .rack_id = c->rack, .boot_id = LESSOR_SLICE("b"), .tiers = &t, .n_tiers = 1};

        if (confined)
                claim.filter = (struct lessor_lease_filter){.repos = &r, .n_repos = 1};
        for (size_t i = 0; i < N_CLAIMS; i++) {
                struct lessor_lease_grant grant;
                struct lease *handle;
                char uuid[40];
                int64_t begin_ns;

                if (grants)
                        create(c, tier, repo, "me");
                snprintf(uuid, sizeof(uuid), "%036x", ++c->n);
                begin_ns = now_ns();
                assert_int_equal(lease_engine_claim(c->e, &claim, c->now_ms, lessor_slice_of(uuid), c->arena,
                                                    &handle, &grant),
                                 0);
                drain(c->e);
                spans[i] = now_ns() - begin_ns;
                assert_int_equal(grant.granted, grants);
                lessor_arena_clear(c->arena);
        }
        qsort(spans, N_CLAIMS, sizeof(spans[0]), compare);
        return spans[N_CLAIMS / 2];
}

/* At most half as much again, and the noise of a clock. */
#define NOISE_NS 400

static void a_claim_does_not_feel_leases_of_others(void **state)
{
        static const unsigned sizes[] = {1000, 1000000};
        int64_t ns[2][4];

        (void)state;
        for (size_t i = 0; i < 2; i++) {
                size_t before = mallinfo2().uordblks;
                struct cost c;

                begin(&c);
                for (unsigned k = 0; k < sizes[i]; k++) {
                        char owner[16], tier[16], repo[16];

                        snprintf(owner, sizeof(owner), "owner-%u", k % 100);
                        snprintf(tier, sizeof(tier), k % 2 == 0 ? "mine" : "tier-%u", k % 10);
                        snprintf(repo, sizeof(repo), "repo-%u", k % 1000);
                        create(&c, tier, repo, owner);
                }
                print_message("%u leases: %zu bytes each\n", sizes[i],
                              (mallinfo2().uordblks - before) / sizes[i]);
                ns[i][0] = claim_ns(&c, "own", "repo-1", false, true);
                ns[i][1] = claim_ns(&c, "own", "repo-1", false, false);
                ns[i][2] = claim_ns(&c, "mine", "elsewhere", true, true);
                ns[i][3] = claim_ns(&c, "mine", "elsewhere", true, false);
                for (size_t k = 0; k < 4; k++)
                        print_message("  %s in %s: %lld ns\n", k % 2 == 0 ? "a grant" : "nothing",
                                      k < 2 ? "another tier" : "another repo of the tier",
                                      (long long)ns[i][k]);
                finish(&c);
        }
        for (size_t k = 0; k < 4; k++)
                assert_true(2 * ns[1][k] <= 3 * ns[0][k] + NOISE_NS);
}

int main(void)
{
        const struct CMUnitTest tests[] = {cmocka_unit_test(a_claim_does_not_feel_leases_of_others)};

        return cmocka_run_group_tests(tests, NULL, NULL);
}
