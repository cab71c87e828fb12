/* SPDX-License-Identifier: MIT */
/* What happens by itself: deadlines, unsealed windows, leases. */
#include <stdio.h>

#include "base/macro.h"
#include "routing/contract/probe.h"

#define WINDOW_MS LESSOR_AWAITING_PAYLOAD_MS

/* Enqueues a job that is due in so many ms. */
static int put_due(struct lessor_contract_probe *p, const char *id, int64_t in_ms)
{
        struct lessor_stub stub = stub_of(id, ALICE);
        int64_t now_ms;

        TRY(now(p, &now_ms));
        stub.deadline_ms = now_ms + in_ms;
        return put_stub(p, SITE, &stub);
}

static int a_job_past_its_deadline_is_granted_to_nobody(struct lessor_contract_probe *p)
{
        TRY(put_due(p, "late", -1000));
        TRY(put_due(p, "now", 0));
        TRY(put_all(p, "alive"));
        TRY(claim_gets(p, &(struct ask){.runner = R1}, "alive", NULL));
        EXPECT(p, !exists(p, SITE, "late") && !exists(p, SITE, "now"),
               "claim did not sweep a job past its deadline");
        return 0;
}

static int a_sweep_says_what_it_removed(struct lessor_contract_probe *p)
{
        struct lessor_swept swept;

        TRY(put_due(p, "1", -1));
        TRY(put_all(p, "alive"));
        TRY(put_due(p, "2", -1000));
        TRY(sweep(p, &swept));
        TRY(expect_ids(p, "removed", swept.removed, swept.n_removed, "1 2"));
        TRY(expect_ids(p, "requeued", swept.requeued, swept.n_requeued, ""));
        TRY(state_is(p, SITE, "alive", LESSOR_JOB_QUEUED));
        TRY(sweep(p, &swept));
        return expect_ids(p, "removed again", swept.removed, swept.n_removed, "");
}

static int a_deadline_ends_every_state(struct lessor_contract_probe *p)
{
        static const char *const ids[] = {"queued", "awaiting", "ready", "running", "done"};
        struct lessor_result_list results;
        struct lessor_job_list granted;
        struct lessor_slice payload;
        struct lessor_swept swept;
        bool duplicate;

        for (size_t i = ARRAY_SIZE(ids); i-- > 0;) {
                TRY(put_due(p, ids[i], 5000));
                if (i == LESSOR_JOB_QUEUED)
                        break;
                TRY(claim_gets(p, &(struct ask){.runner = R1}, ids[i], &granted));
                if (i > LESSOR_JOB_AWAITING)
                        TRY(expect_code(p, "seal", seal(p, SITE, ids[i], "{}"), 0));
                if (i > LESSOR_JOB_READY)
                        TRY(expect_code(p, "fetch",
                                        fetch(p, R1, lease_ref(ids[i], granted.items[0].lease_id), &payload),
                                        0));
                if (i > LESSOR_JOB_RUNNING)
                        TRY(expect_code(p, "complete",
                                        complete(p, R1, lease_ref(ids[i], granted.items[0].lease_id), "{}",
                                                 &duplicate),
                                        0));
        }
        advance(p, 5000);
        TRY(sweep(p, &swept));
        TRY(expect_ids(p, "removed", swept.removed, swept.n_removed, "done running ready awaiting queued"));
        TRY(expect_code(p, "finished",
                        lessor_routing_finished(p->store, text_of(SITE), SIZE_MAX, p->arena, &results, NULL),
                        0));
        EXPECT(p, results.n == 0, "a result outlived its job's deadline");
        return 0;
}

static int a_forgotten_id_is_free_again(struct lessor_contract_probe *p)
{
        TRY(put_due(p, "a", 1000));
        advance(p, 1000);
        TRY(sweep(p, &(struct lessor_swept){0}));
        TRY(put_all(p, "a"));
        return claim_gets(p, &(struct ask){.runner = R1}, "a", NULL);
}

static int an_unsealed_window_requeues_and_sticks(struct lessor_contract_probe *p)
{
        struct lessor_lease_ref lease;
        struct lessor_swept swept;
        struct lessor_job job;
        struct lessor_slice payload;

        TRY(bring_to(p, "a", LESSOR_JOB_AWAITING, &lease));
        advance(p, WINDOW_MS - 1);
        TRY(sweep(p, &swept));
        TRY(expect_ids(p, "requeued too early", swept.requeued, swept.n_requeued, ""));
        advance(p, 1);
        TRY(sweep(p, &swept));
        TRY(expect_ids(p, "requeued", swept.requeued, swept.n_requeued, "a"));
        TRY(get(p, SITE, "a", &job));
        EXPECT(p, job.state == LESSOR_JOB_QUEUED && !job.claimed && job.seal_attempts == 1,
               "the job is not back in the queue with one attempt");
        EXPECT(p, lessor_slice_equal(job.reoffer_to, text_of(R1)), "the job does not stick to who held it");
        TRY(expect_code(p, "take_payload under the old lease", fetch(p, R1, lease, &payload),
                        LESSOR_E_NOT_FOUND));
        TRY(claim_gets(p, &(struct ask){.runner = R2}, "", NULL));
        return claim_gets(p, &(struct ask){.runner = R1}, "a", NULL);
}

static int a_stuck_job_has_its_old_place(struct lessor_contract_probe *p)
{
        TRY(put_all(p, "1 2 3"));
        TRY(claim_gets(p, &(struct ask){.runner = R1, .max = 1}, "1", NULL));
        advance(p, WINDOW_MS);
        TRY(claim_gets(p, &(struct ask){.runner = R2, .max = 1}, "2", NULL));
        TRY(claim_gets(p, &(struct ask){.runner = R1}, "1", NULL));
        return claim_gets(p, &(struct ask){.runner = R1}, "", NULL);
}

static int the_third_unsealed_window_ends_the_job(struct lessor_contract_probe *p)
{
        struct lessor_swept swept;

        TRY(put_all(p, "a"));
        for (int i = 0; i < 2; i++) {
                TRY(claim_gets(p, &(struct ask){.runner = R1}, "a", NULL));
                advance(p, WINDOW_MS);
                TRY(sweep(p, &swept));
                TRY(expect_ids(p, "requeued", swept.requeued, swept.n_requeued, "a"));
        }
        TRY(claim_gets(p, &(struct ask){.runner = R1}, "a", NULL));
        advance(p, WINDOW_MS);
        TRY(sweep(p, &swept));
        TRY(expect_ids(p, "removed", swept.removed, swept.n_removed, "a"));
        EXPECT(p, !exists(p, SITE, "a"), "the job outlived its third unsealed window");
        return 0;
}

static int a_seal_starts_the_count_again(struct lessor_contract_probe *p)
{
        struct lessor_job_list granted;
        struct lessor_job job;
        size_t n;

        TRY(put_all(p, "a"));
        for (int i = 0; i < 2; i++) {
                TRY(claim_gets(p, &(struct ask){.runner = R1}, "a", NULL));
                advance(p, WINDOW_MS);
        }
        TRY(claim_gets(p, &(struct ask){.runner = R1}, "a", &granted));
        TRY(expect_code(p, "seal", seal(p, SITE, "a", "{}"), 0));
        TRY(get(p, SITE, "a", &job));
        EXPECT(p, job.seal_attempts == 0 && job.awaiting_until_ms == 0,
               "a seal leaves attempts or the window behind");
        EXPECT(p, lessor_slice_equal(job.reoffer_to, text_of(R1)), "a seal frees a job that sticks");
        TRY(release(p, R1, lease_ref("a", granted.items[0].lease_id), false, 0, &n));
        TRY(claim_gets(p, &(struct ask){.runner = R1}, "a", NULL));
        advance(p, WINDOW_MS);
        TRY(claim_gets(p, &(struct ask){.runner = R1}, "a", NULL));
        return 0;
}

static int a_job_sticks_for_the_rest_of_its_life(struct lessor_contract_probe *p)
{
        TRY(put_all(p, "a"));
        TRY(claim_gets(p, &(struct ask){.runner = R1}, "a", NULL));
        advance(p, WINDOW_MS);
        TRY(claim_gets(p, &(struct ask){.runner = R1}, "a", NULL));
        TRY(expect_code(p, "seal", seal(p, SITE, "a", "{}"), 0));
        advance(p, LEASE_MS);
        TRY(claim_gets(p, &(struct ask){.runner = R2}, "", NULL));
        TRY(state_is(p, SITE, "a", LESSOR_JOB_QUEUED));
        return claim_gets(p, &(struct ask){.runner = R1}, "a", NULL);
}

static int a_stuck_and_refused_job_is_nobodys(struct lessor_contract_probe *p)
{
        struct lessor_job_list granted;
        size_t n;

        TRY(put_all(p, "a"));
        TRY(claim_gets(p, &(struct ask){.runner = R1}, "a", NULL));
        advance(p, WINDOW_MS);
        TRY(claim_gets(p, &(struct ask){.runner = R1}, "a", &granted));
        TRY(release(p, R1, lease_ref("a", granted.items[0].lease_id), true, 0, &n));
        TRY(claim_gets(p, &(struct ask){.runner = R1}, "", NULL));
        TRY(claim_gets(p, &(struct ask){.runner = R2}, "", NULL));
        return state_is(p, SITE, "a", LESSOR_JOB_QUEUED);
}

static int a_lease_that_ends_requeues(struct lessor_contract_probe *p)
{
        struct lessor_lease_ref ready, running;
        struct lessor_swept swept;
        struct lessor_job job;

        TRY(bring_to(p, "ready", LESSOR_JOB_READY, &ready));
        TRY(bring_to(p, "running", LESSOR_JOB_RUNNING, &running));
        advance(p, LEASE_MS - 1);
        TRY(sweep(p, &swept));
        TRY(expect_ids(p, "requeued too early", swept.requeued, swept.n_requeued, ""));
        advance(p, 1);
        TRY(sweep(p, &swept));
        TRY(expect_ids(p, "requeued", swept.requeued, swept.n_requeued, "ready running"));
        TRY(get(p, SITE, "running", &job));
        EXPECT(p, !job.claimed && !job.has_payload && job.reoffer_to.p == NULL && job.seal_attempts == 0,
               "a lease's end leaves a claim or a payload behind, or counts as an unsealed window");
        return claim_gets(p, &(struct ask){.runner = R2}, "ready running", NULL);
}

static int a_lease_is_not_looked_at_while_awaiting(struct lessor_contract_probe *p)
{
        struct lessor_swept swept;

        TRY(put_all(p, "a"));
        TRY(claim_gets(p, &(struct ask){.runner = R1, .lease_ms = 1000}, "a", NULL));
        advance(p, WINDOW_MS - 1);
        TRY(sweep(p, &swept));
        TRY(state_is(p, SITE, "a", LESSOR_JOB_AWAITING));
        TRY(expect_code(p, "seal", seal(p, SITE, "a", "{}"), 0));
        TRY(sweep(p, &swept)); /* now it is */
        return expect_ids(p, "requeued", swept.requeued, swept.n_requeued, "a");
}

static int renewal_keeps_a_lease_from_ending(struct lessor_contract_probe *p)
{
        struct lessor_lease_ref lease;
        struct lessor_swept swept;
        bool renewed;

        TRY(bring_to(p, "a", LESSOR_JOB_RUNNING, &lease));
        for (int i = 0; i < 3; i++) {
                advance(p, LEASE_MS - 1000);
                TRY(renew(p, R1, lease, LEASE_MS, &renewed));
                EXPECT(p, renewed, "a lease that is renewed in time is lost");
        }
        TRY(sweep(p, &swept));
        TRY(state_is(p, SITE, "a", LESSOR_JOB_RUNNING));
        advance(p, LEASE_MS);
        TRY(sweep(p, &swept));
        TRY(renew(p, R1, lease, LEASE_MS, &renewed));
        EXPECT(p, !renewed, "a lease that ended is renewed");
        return 0;
}

static int a_done_job_keeps_its_claim(struct lessor_contract_probe *p)
{
        struct lessor_lease_ref lease;
        struct lessor_swept swept;
        bool duplicate;

        TRY(bring_to(p, "a", LESSOR_JOB_DONE, &lease));
        advance(p, (int64_t)10 * LEASE_MS);
        TRY(sweep(p, &swept));
        TRY(state_is(p, SITE, "a", LESSOR_JOB_DONE));
        TRY(expect_code(p, "complete", complete(p, R1, lease, "{}", &duplicate), 0));
        EXPECT(p, duplicate, "a replayed result is not a duplicate after the lease's end");
        return 0;
}

static int between_sweeps_the_late_is_honoured(struct lessor_contract_probe *p)
{
        struct lessor_lease_ref sealed, running;
        struct lessor_job_list awaiting;
        struct lessor_slice payload;
        bool duplicate;

        TRY(bring_to(p, "running", LESSOR_JOB_RUNNING, &running));
        TRY(bring_to(p, "sealed", LESSOR_JOB_AWAITING, &sealed));
        advance(p, (int64_t)2 * LEASE_MS);
        TRY(expect_code(p, "awaiting",
                        lessor_routing_awaiting(p->store, text_of(SITE), SIZE_MAX, p->arena, &awaiting, NULL),
                        0));
        TRY(expect_ids(p, "awaiting", awaiting.items, awaiting.n, "sealed"));
        TRY(expect_code(p, "a late seal", seal(p, SITE, "sealed", "{}"), 0));
        TRY(expect_code(p, "a late fetch", fetch(p, R1, sealed, &payload), 0));
        TRY(expect_code(p, "a late result", complete(p, R1, running, "{}", &duplicate), 0));
        return state_is(p, SITE, "running", LESSOR_JOB_DONE);
}

static int a_bar_ends_when_it_says(struct lessor_contract_probe *p)
{
        struct lessor_lease_ref lease;
        int64_t now_ms;
        size_t n;

        TRY(bring_to(p, "a", LESSOR_JOB_AWAITING, &lease));
        TRY(now(p, &now_ms));
        TRY(release(p, R1, lease, false, now_ms + LESSOR_RETRY_AFTER_MS, &n));
        advance(p, LESSOR_RETRY_AFTER_MS - 1);
        TRY(claim_gets(p, &(struct ask){.runner = R1}, "", NULL));
        advance(p, 1);
        return claim_gets(p, &(struct ask){.runner = R1}, "a", NULL);
}

static int a_sweep_reports_in_enqueue_order(struct lessor_contract_probe *p)
{
        struct lessor_swept swept;

        TRY(put(p, SITE, "1", ALICE));
        TRY(put(p, OTHER, "2", ALICE));
        TRY(put(p, SITE, "3", ALICE));
        TRY(claim_gets(p, &(struct ask){.runner = R1, .routes = {OTHER, ALICE}}, "2", NULL));
        advance(p, 1);
        TRY(claim_gets(p, &(struct ask){.runner = R1}, "1 3", NULL));
        advance(p, WINDOW_MS);
        TRY(sweep(p, &swept));
        return expect_ids(p, "requeued", swept.requeued, swept.n_requeued, "1 2 3");
}

/* Lets so many windows of jobs of one pair pass unsealed. */
static int churn(struct lessor_contract_probe *p, int n)
{
        char id[32];
        int64_t now_ms;

        for (int i = 0; i < n; i++) {
                struct lessor_job_list granted;

                TRY(now(p, &now_ms));
                snprintf(id, sizeof(id), "%lld", (long long)now_ms);
                TRY(put_all(p, id));
                TRY(claim(p, &(struct ask){.runner = R1, .max = 1}, &granted));
                EXPECT(p, granted.n == 1, "nothing to claim while churning");
                advance(p, WINDOW_MS);
                TRY(sweep(p, &(struct lessor_swept){0}));
        }
        return 0;
}

static int churn_is_reported_once_and_then_kept_quiet(struct lessor_contract_probe *p)
{
        TRY(churn(p, LESSOR_CHURN_EXPIRIES - 1));
        TRY(hear(p, "churn", &p->n_churns, 0));
        TRY(churn(p, 1));
        TRY(hear(p, "churn", &p->n_churns, 1));
        EXPECT(p, p->churn_expiries == LESSOR_CHURN_EXPIRIES, "the report counts %u expiries",
               p->churn_expiries);
        TRY(churn(p, LESSOR_CHURN_EXPIRIES));
        TRY(hear(p, "churn", &p->n_churns, 1));
        advance(p, LESSOR_CHURN_QUIET_MS);
        TRY(churn(p, LESSOR_CHURN_EXPIRIES - 1));
        TRY(hear(p, "churn", &p->n_churns, 1));
        TRY(churn(p, 1));
        return hear(p, "churn", &p->n_churns, 2);
}

#define TIMED LESSOR_CONTRACT_NEEDS_ADVANCE

static const struct lessor_contract_case cases[] = {
        {"a_job_past_its_deadline_is_granted_to_nobody", "sweep (1); claim sweeps", 0,
         a_job_past_its_deadline_is_granted_to_nobody},
        {"a_sweep_says_what_it_removed", "sweep", 0, a_sweep_says_what_it_removed},
        {"a_deadline_ends_every_state", "sweep (1)", TIMED, a_deadline_ends_every_state},
        {"a_forgotten_id_is_free_again", "sweep (1)", TIMED, a_forgotten_id_is_free_again},
        {"an_unsealed_window_requeues_and_sticks", "sweep (2)", TIMED,
         an_unsealed_window_requeues_and_sticks},
        {"a_stuck_job_has_its_old_place", "sweep (2), claim", TIMED, a_stuck_job_has_its_old_place},
        {"the_third_unsealed_window_ends_the_job", "sweep (2), SEAL_ATTEMPTS_BEFORE_EVICTION", TIMED,
         the_third_unsealed_window_ends_the_job},
        {"a_seal_starts_the_count_again", "seal", TIMED, a_seal_starts_the_count_again},
        {"a_job_sticks_for_the_rest_of_its_life", "sticky re-offer", TIMED,
         a_job_sticks_for_the_rest_of_its_life},
        {"a_stuck_and_refused_job_is_nobodys", "sticky re-offer", TIMED, a_stuck_and_refused_job_is_nobodys},
        {"a_lease_that_ends_requeues", "sweep (3), LEASE_RECLAIMABLE", TIMED, a_lease_that_ends_requeues},
        {"a_lease_is_not_looked_at_while_awaiting", "sweep", TIMED, a_lease_is_not_looked_at_while_awaiting},
        {"renewal_keeps_a_lease_from_ending", "renewLeases", TIMED, renewal_keeps_a_lease_from_ending},
        {"a_done_job_keeps_its_claim", "sweep (3)", TIMED, a_done_job_keeps_its_claim},
        {"between_sweeps_the_late_is_honoured", "sweep", TIMED, between_sweeps_the_late_is_honoured},
        {"a_bar_ends_when_it_says", "claim, retryAfter", TIMED, a_bar_ends_when_it_says},
        {"a_sweep_reports_in_enqueue_order", "sweep", TIMED, a_sweep_reports_in_enqueue_order},
        {"churn_is_reported_once_and_then_kept_quiet", "churn report", TIMED,
         churn_is_reported_once_and_then_kept_quiet},
};
const struct case_list time_cases = {cases, ARRAY_SIZE(cases)};
