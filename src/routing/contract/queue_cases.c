/* SPDX-License-Identifier: MIT */
/* enqueue and claim: who gets what, and in which order. */
#include <stdio.h>

#include "base/macro.h"
#include "routing/contract/probe.h"

static int a_known_job_comes_back_untouched(struct lessor_contract_probe *p)
{
        struct lessor_stub stub = stub_of("a", BOB);
        struct lessor_lease_ref lease;
        struct lessor_job job;

        TRY(bring_to(p, "a", LESSOR_JOB_AWAITING, &lease));
        TRY(expect_code(p, "enqueue",
                        lessor_routing_enqueue(p->store, text_of(SITE), &stub, p->arena, &job, NULL), 0));
        EXPECT(p, job.state == LESSOR_JOB_AWAITING, "a replayed enqueue answers state %d", (int)job.state);
        EXPECT(p, lessor_slice_equal(job.stub.owner, text_of(ALICE)), "a replayed enqueue changed the stub");
        EXPECT(p, lessor_slice_equal(job.lease_id, lease.lease_id), "a replayed enqueue took the job back");
        return 0;
}

static int a_done_job_comes_back_done(struct lessor_contract_probe *p)
{
        struct lessor_lease_ref lease;

        TRY(bring_to(p, "a", LESSOR_JOB_DONE, &lease));
        TRY(put(p, SITE, "a", ALICE));
        TRY(state_is(p, SITE, "a", LESSOR_JOB_DONE));
        return claim_gets(p, &(struct ask){.runner = R2}, "", NULL);
}

static int one_id_of_two_sites_is_two_jobs(struct lessor_contract_probe *p)
{
        struct lessor_job job;

        TRY(put(p, SITE, "shared", ALICE));
        TRY(put(p, OTHER, "shared", BOB));
        TRY(get(p, SITE, "shared", &job));
        EXPECT(p, lessor_slice_equal(job.stub.owner, text_of(ALICE)),
               "the second site's job replaced the first");
        TRY(get(p, OTHER, "shared", &job));
        EXPECT(p, lessor_slice_equal(job.stub.owner, text_of(BOB)),
               "the second site got the first one's job");
        TRY(claim_gets(p, &(struct ask){.runner = R1}, "shared", NULL));
        return state_is(p, OTHER, "shared", LESSOR_JOB_QUEUED);
}

static int a_stub_is_kept_whole(struct lessor_contract_probe *p)
{
        static const char id[] = "j\0\xc3\xa9\xf0\x9f\x98\x80 ";
        struct lessor_stub stub = {
                .id = {id, sizeof(id) - 1},
                .kind = LESSOR_KIND_LLM_CHAT,
                .owner = LESSOR_SLICE("o w\nner"),
                .site = LESSOR_SLICE("KEY"),
                .audience = LESSOR_AUDIENCE_TEAM,
                .purpose = LESSOR_SLICE("purpose"),
                .size_class = LESSOR_SIZE_UNBOUNDED,
                .streaming = true,
                .deadline_ms = 9007199254740991,
        };
        struct lessor_job job;

        TRY(put_stub(p, SITE, &stub));
        TRY(expect_code(p, "job", lessor_routing_job(p->store, text_of(SITE), stub.id, p->arena, &job, NULL),
                        0));
        EXPECT(p,
               lessor_slice_equal(job.stub.id, stub.id) && job.stub.kind == stub.kind &&
                       lessor_slice_equal(job.stub.owner, stub.owner) &&
                       lessor_slice_equal(job.stub.site, stub.site) && job.stub.audience == stub.audience &&
                       lessor_slice_equal(job.stub.purpose, stub.purpose) &&
                       job.stub.size_class == stub.size_class && job.stub.streaming &&
                       job.stub.deadline_ms == stub.deadline_ms,
               "a stub comes back changed");
        stub.id = LESSOR_SLICE("plain");
        stub.purpose = (struct lessor_slice){0};
        TRY(put_stub(p, SITE, &stub));
        TRY(get(p, SITE, "plain", &job));
        EXPECT(p, job.stub.purpose.p == NULL, "an absent purpose comes back present");
        return 0;
}

static int jobs_are_granted_in_enqueue_order(struct lessor_contract_probe *p)
{
        TRY(put(p, SITE, "1", ALICE));
        TRY(put(p, OTHER, "2", ALICE));
        TRY(put(p, SITE, "3", BOB));
        TRY(put(p, OTHER, "4", ALICE));
        TRY(put(p, SITE, "5", ALICE));
        /* Bob's jobs are private, and this device is Alice's. */
        return claim_gets(p, &(struct ask){.runner = R1, .routes = {OTHER, ALICE, SITE, BOB, SITE, ALICE}},
                          "1 2 4 5", NULL);
}

static int at_most_max_are_granted(struct lessor_contract_probe *p)
{
        TRY(put(p, SITE, "1", ALICE));
        TRY(put(p, OTHER, "2", ALICE));
        TRY(put(p, SITE, "3", ALICE));
        TRY(claim_gets(p, &(struct ask){.runner = R1, .routes = {OTHER, ALICE, SITE, ALICE}, .max = 2}, "1 2",
                       NULL));
        return claim_gets(p, &(struct ask){.runner = R1, .routes = {OTHER, ALICE, SITE, ALICE}, .max = 2},
                          "3", NULL);
}

static int a_granted_job_is_not_granted_again(struct lessor_contract_probe *p)
{
        TRY(put_all(p, "a"));
        TRY(claim_gets(p, &(struct ask){.runner = R1}, "a", NULL));
        TRY(claim_gets(p, &(struct ask){.runner = R1}, "", NULL));
        return claim_gets(p, &(struct ask){.runner = R2}, "", NULL);
}

static int routes_are_pairs_and_do_not_multiply(struct lessor_contract_probe *p)
{
        struct lessor_stub stub = stub_of("1", ALICE);

        stub.audience = LESSOR_AUDIENCE_TEAM;
        TRY(put_stub(p, SITE, &stub));
        stub.id = LESSOR_SLICE("2");
        TRY(put_stub(p, OTHER, &stub));
        stub.owner = text_of(BOB);
        stub.id = LESSOR_SLICE("3");
        TRY(put_stub(p, SITE, &stub));
        stub.id = LESSOR_SLICE("4");
        TRY(put_stub(p, OTHER, &stub));
        return claim_gets(p, &(struct ask){.runner = R1, .routes = {SITE, ALICE, OTHER, BOB}}, "1 4", NULL);
}

static int a_route_named_twice_counts_once(struct lessor_contract_probe *p)
{
        TRY(put_all(p, "1 2 3 4"));
        return claim_gets(p, &(struct ask){.runner = R1, .routes = {SITE, ALICE, SITE, ALICE}}, "1 2", NULL);
}

static int only_kinds_asked_for_are_granted(struct lessor_contract_probe *p)
{
        struct lessor_stub stub = stub_of("chat", ALICE);
        unsigned chat = LESSOR_KIND_BIT(LESSOR_KIND_LLM_CHAT),
                 generate = LESSOR_KIND_BIT(LESSOR_KIND_LLM_GENERATE);

        stub.kind = LESSOR_KIND_LLM_CHAT;
        TRY(put_stub(p, SITE, &stub));
        TRY(put_all(p, "generate"));
        TRY(claim_gets(p, &(struct ask){.runner = R1, .kinds = generate}, "generate", NULL));
        TRY(claim_gets(p, &(struct ask){.runner = R1, .kinds = generate}, "", NULL));
        return claim_gets(p, &(struct ask){.runner = R1, .kinds = chat | generate}, "chat", NULL);
}

static int a_private_job_is_for_its_owners_devices(struct lessor_contract_probe *p)
{
        struct lessor_stub team = stub_of("team", ALICE);

        team.audience = LESSOR_AUDIENCE_TEAM;
        TRY(put_all(p, "private"));
        TRY(put_stub(p, SITE, &team));
        TRY(claim_gets(p, &(struct ask){.runner = R2, .owner = BOB}, "team", NULL));
        TRY(state_is(p, SITE, "private", LESSOR_JOB_QUEUED));
        return claim_gets(p, &(struct ask){.runner = R1, .owner = ALICE}, "private", NULL);
}

static int two_unsealed_a_pair_over_all_runners(struct lessor_contract_probe *p)
{
        TRY(put_all(p, "1 2 3 4"));
        TRY(claim_gets(p, &(struct ask){.runner = R1, .max = 1}, "1", NULL));
        TRY(claim_gets(p, &(struct ask){.runner = R2}, "2", NULL));
        TRY(claim_gets(p, &(struct ask){.runner = R1}, "", NULL));
        TRY(expect_code(p, "seal", seal(p, SITE, "1", "{}"), 0));
        return claim_gets(p, &(struct ask){.runner = R1}, "3", NULL);
}

static int the_unsealed_cap_is_per_pair(struct lessor_contract_probe *p)
{
        TRY(put_all(p, "1 2 3"));
        TRY(put(p, SITE, "4", BOB));
        TRY(put(p, OTHER, "5", ALICE));
        TRY(claim_gets(p, &(struct ask){.runner = R1}, "1 2", NULL));
        TRY(claim_gets(p, &(struct ask){.runner = R1, .routes = {SITE, ALICE, OTHER, ALICE}}, "5", NULL));
        return claim_gets(p, &(struct ask){.runner = R2, .owner = BOB, .routes = {SITE, BOB}}, "4", NULL);
}

static int a_completed_job_frees_its_unsealed_place(struct lessor_contract_probe *p)
{
        struct lessor_job_list granted;
        bool duplicate;

        TRY(put_all(p, "1 2 3"));
        TRY(claim_gets(p, &(struct ask){.runner = R1}, "1 2", &granted));
        TRY(expect_code(p, "complete",
                        complete(p, R1, lease_ref("1", granted.items[0].lease_id), "{}", &duplicate), 0));
        return claim_gets(p, &(struct ask){.runner = R1}, "3", NULL);
}

static int a_grant_is_stamped_by_the_stores_clock(struct lessor_contract_probe *p)
{
        struct lessor_job_list granted;
        const struct lessor_job *a, *b;
        int64_t before_ms, after_ms;

        TRY(put_all(p, "a b"));
        TRY(now(p, &before_ms));
        TRY(claim_gets(p, &(struct ask){.runner = R1, .lease_ms = 45000}, "a b", &granted));
        TRY(now(p, &after_ms));
        a = &granted.items[0];
        b = &granted.items[1];
        EXPECT(p, a->state == LESSOR_JOB_AWAITING && a->claimed, "a granted job is not awaiting its payload");
        EXPECT(p, a->lease_expires_ms >= before_ms + 45000 && a->lease_expires_ms <= after_ms + 45000,
               "the lease does not end 45 s from now");
        EXPECT(p,
               a->awaiting_until_ms >= before_ms + LESSOR_AWAITING_PAYLOAD_MS &&
                       a->awaiting_until_ms <= after_ms + LESSOR_AWAITING_PAYLOAD_MS,
               "the window does not end 10 s from now");
        EXPECT(p, a->lease_id.n > 0 && !lessor_slice_equal(a->lease_id, b->lease_id),
               "two grants share a lease id");
        EXPECT(p,
               lessor_slice_equal(a->runner_id, text_of(R1)) &&
                       lessor_slice_equal(a->runner_owner, text_of(ALICE)) &&
                       lessor_slice_equal(a->device.identity, text_of(R1)),
               "the grant does not say who claimed");
        return 0;
}

static int each_grant_has_a_new_lease(struct lessor_contract_probe *p)
{
        struct lessor_job_list granted;
        struct lessor_lease_ref lease;
        size_t n;

        TRY(bring_to(p, "a", LESSOR_JOB_AWAITING, &lease));
        TRY(release(p, R1, lease, false, 0, &n));
        TRY(claim_gets(p, &(struct ask){.runner = R1}, "a", &granted));
        EXPECT(p, !lessor_slice_equal(granted.items[0].lease_id, lease.lease_id), "a lease id came back");
        return 0;
}

static int a_requeued_job_has_its_old_place(struct lessor_contract_probe *p)
{
        struct lessor_job_list granted;
        size_t n;

        TRY(put_all(p, "1 2 3"));
        TRY(claim_gets(p, &(struct ask){.runner = R1, .max = 1}, "1", &granted));
        TRY(release(p, R1, lease_ref("1", granted.items[0].lease_id), false, 0, &n));
        return claim_gets(p, &(struct ask){.runner = R1}, "1 2", NULL);
}

static int a_refused_job_is_not_offered_again(struct lessor_contract_probe *p)
{
        struct lessor_lease_ref lease;
        struct lessor_job job;
        size_t n;

        TRY(bring_to(p, "a", LESSOR_JOB_AWAITING, &lease));
        TRY(put_all(p, "b"));
        TRY(release(p, R1, lease, true, 0, &n));
        TRY(get(p, SITE, "a", &job));
        EXPECT(p, job.n_refused_by == 1 && lessor_slice_equal(job.refused_by[0], text_of(R1)),
               "the job does not say who refused it");
        TRY(claim_gets(p, &(struct ask){.runner = R1}, "b", NULL));
        return claim_gets(p, &(struct ask){.runner = R2}, "a", NULL);
}

static int a_late_bar_keeps_only_its_runner_away(struct lessor_contract_probe *p)
{
        struct lessor_lease_ref lease;
        int64_t now_ms;
        size_t n;

        TRY(bring_to(p, "a", LESSOR_JOB_AWAITING, &lease));
        TRY(now(p, &now_ms));
        TRY(release(p, R1, lease, false, now_ms + 600000, &n));
        TRY(claim_gets(p, &(struct ask){.runner = R1}, "", NULL));
        return claim_gets(p, &(struct ask){.runner = R2}, "a", NULL);
}

static int a_bar_in_the_past_is_none(struct lessor_contract_probe *p)
{
        struct lessor_lease_ref lease;
        int64_t now_ms;
        size_t n;

        TRY(bring_to(p, "a", LESSOR_JOB_AWAITING, &lease));
        TRY(now(p, &now_ms));
        TRY(release(p, R1, lease, false, now_ms - 1000, &n));
        return claim_gets(p, &(struct ask){.runner = R1}, "a", NULL);
}

static int many_refusals_do_not_hide_a_later_job(struct lessor_contract_probe *p)
{
        char id[16];

        for (int i = 0; i < 200; i++) {
                struct lessor_job_list granted;
                size_t n;

                snprintf(id, sizeof(id), "%d", i);
                TRY(put_all(p, id));
                TRY(claim_gets(p, &(struct ask){.runner = R1, .max = 1}, id, &granted));
                TRY(release(p, R1, lease_ref(id, granted.items[0].lease_id), true, 0, &n));
        }
        TRY(put_all(p, "last"));
        TRY(claim_gets(p, &(struct ask){.runner = R1}, "last", NULL));
        return claim_gets(p, &(struct ask){.runner = R2}, "0", NULL);
}

static int a_cancelled_job_is_offered_to_nobody(struct lessor_contract_probe *p)
{
        TRY(put_all(p, "a b"));
        TRY(expect_code(p, "cancel", lessor_routing_cancel(p->store, text_of(SITE), text_of("a"), NULL), 0));
        TRY(claim_gets(p, &(struct ask){.runner = R1}, "b", NULL));
        return state_is(p, SITE, "a", LESSOR_JOB_QUEUED);
}

static const struct lessor_contract_case cases[] = {
        {"a_known_job_comes_back_untouched", "enqueue", 0, a_known_job_comes_back_untouched},
        {"a_done_job_comes_back_done", "enqueue", 0, a_done_job_comes_back_done},
        {"one_id_of_two_sites_is_two_jobs", "enqueue", 0, one_id_of_two_sites_is_two_jobs},
        {"a_stub_is_kept_whole", "enqueue", 0, a_stub_is_kept_whole},
        {"jobs_are_granted_in_enqueue_order", "claim", 0, jobs_are_granted_in_enqueue_order},
        {"at_most_max_are_granted", "claim", 0, at_most_max_are_granted},
        {"a_granted_job_is_not_granted_again", "claim, CLAIM_ATOMIC", 0, a_granted_job_is_not_granted_again},
        {"routes_are_pairs_and_do_not_multiply", "claim", 0, routes_are_pairs_and_do_not_multiply},
        {"a_route_named_twice_counts_once", "claim", 0, a_route_named_twice_counts_once},
        {"only_kinds_asked_for_are_granted", "claim", 0, only_kinds_asked_for_are_granted},
        {"a_private_job_is_for_its_owners_devices", "claim", 0, a_private_job_is_for_its_owners_devices},
        {"two_unsealed_a_pair_over_all_runners", "claim, UNSEALED_PER_PAIR", 0,
         two_unsealed_a_pair_over_all_runners},
        {"the_unsealed_cap_is_per_pair", "claim, UNSEALED_PER_PAIR", 0, the_unsealed_cap_is_per_pair},
        {"a_completed_job_frees_its_unsealed_place", "claim, UNSEALED_PER_PAIR", 0,
         a_completed_job_frees_its_unsealed_place},
        {"a_grant_is_stamped_by_the_stores_clock", "claim", 0, a_grant_is_stamped_by_the_stores_clock},
        {"each_grant_has_a_new_lease", "claim", 0, each_grant_has_a_new_lease},
        {"a_requeued_job_has_its_old_place", "claim", 0, a_requeued_job_has_its_old_place},
        {"a_refused_job_is_not_offered_again", "claim, REFUSAL_NOT_REOFFERED", 0,
         a_refused_job_is_not_offered_again},
        {"a_late_bar_keeps_only_its_runner_away", "claim, retryAfter", 0,
         a_late_bar_keeps_only_its_runner_away},
        {"a_bar_in_the_past_is_none", "claim, retryAfter", 0, a_bar_in_the_past_is_none},
        {"many_refusals_do_not_hide_a_later_job", "claim, REFUSAL_NOT_REOFFERED", 0,
         many_refusals_do_not_hide_a_later_job},
        {"a_cancelled_job_is_offered_to_nobody", "claim", 0, a_cancelled_job_is_offered_to_nobody},
};
const struct case_list queue_cases = {cases, ARRAY_SIZE(cases)};
