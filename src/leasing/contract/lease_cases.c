/* SPDX-License-Identifier: MIT */
/* Leases from the host's side: creating, finding, ending, losing. */
#include "probe.h"

static int a_new_lease_is_pending_and_found(probe_t *p)
{
        struct lessor_lease made, found;

        TRY(submit(
                p,
                &(struct work){
                        .task = "task", .size = "large", .run = "run", .owner = "alice", .floor = "1.0.85"},
                &made));
        EXPECT(p, made.status == LESSOR_LEASE_PENDING && made.held, "it is not pending");
        EXPECT(p, made.name.lease_id.n == 4 + 1 + 6 + 1 + 36, "the id is %.*s", (int)made.name.lease_id.n,
               made.name.lease_id.p);
        EXPECT_CODE(p, lessor_lease_get(p->store, &made.name, LESSOR_WITH_EVENT, p->arena, &found, NULL), 0);
        EXPECT(p,
               text_is(found.name.repo, REPO) && text_is(found.workspace, "workspace") &&
                       text_is(found.task_name, "train") && text_is(found.task_hash, "task") &&
                       text_is(found.inputs_hash, "inputs") && text_is(found.tier, TIER) &&
                       text_is(found.compute_size, "large") && text_is(found.floor, "1.0.85") &&
                       text_is(found.run, "run") && text_is(found.owner, "alice") &&
                       found.environment.p == NULL,
               "a field is not as submitted");
        EXPECT(p, found.has_event && text_is(found.event, "{\"version\":2}"),
               "the event is not as submitted");
        EXPECT(p, found.claimed_by.p == NULL && found.attempt.p == NULL && found.claim_number == 0,
               "it is claimed");
        return probe_hear(p, LESSOR_EVENT_CLAIMABLE, 1);
}

static int an_unknown_lease_is_not_found(probe_t *p)
{
        struct lessor_lease made, found;
        struct lessor_lease_name elsewhere;

        TRY(submit(p, &(struct work){0}, &made));
        elsewhere = (struct lessor_lease_name){LESSOR_SLICE("other"), made.name.lease_id};
        EXPECT_CODE(p, lessor_lease_get(p->store, &elsewhere, 0, p->arena, &found, NULL), LESSOR_E_NOT_FOUND);
        return 0;
}

static int a_repo_may_not_be_named_like_the_fence_of_racks(probe_t *p)
{
        struct lessor_lease lease;

        TRY(submit_as(p, &(struct work){.repo = "@rack"}, LESSOR_E_INVALID, &lease, NULL));
        return submit_as(p, &(struct work){.task = "a#b"}, LESSOR_E_INVALID, &lease, NULL);
}

static int a_key_makes_one_lease_of_its_owner(probe_t *p)
{
        struct lessor_lease first, second, other;
        bool created;

        TRY(submit_as(p, &(struct work){.task = "t", .key = "k", .owner = "alice"}, 0, &first, &created));
        EXPECT(p, created, "it was not created");
        TRY(submit_as(p, &(struct work){.task = "t", .key = "k", .owner = "alice"}, 0, &second, &created));
        EXPECT(p, !created && first.seq == second.seq, "the key made a second lease");
        TRY(submit_as(p, &(struct work){.task = "t", .key = "k", .owner = "bob"}, 0, &other, &created));
        EXPECT(p, created && other.seq != first.seq, "another owner's key is the same");
        return submit_as(p, &(struct work){.task = "u", .key = "k", .owner = "alice"}, LESSOR_E_EXISTS,
                         &other, NULL);
}

static int a_key_lives_and_dies_with_its_lease(probe_t *p)
{
        struct lessor_lease first, again;
        bool created;

        TRY(submit_as(p, &(struct work){.task = "t", .key = "k"}, 0, &first, NULL));
        TRY(end_lease(p, &first, LESSOR_END_CANCEL, &again));
        TRY(submit_as(p, &(struct work){.task = "t", .key = "k"}, 0, &again, &created));
        EXPECT(p, !created && again.status == LESSOR_LEASE_CANCELLED, "the key forgot its ended lease");
        TRY(probe_advance(p, p->lease_options.retention_ms));
        TRY(probe_sweep(p));
        TRY(probe_hear(p, LESSOR_EVENT_FORGOTTEN, 1));
        TRY(submit_as(p, &(struct work){.task = "t", .key = "k"}, 0, &again, &created));
        EXPECT(p, created, "the key outlived its lease");
        return 0;
}

static int shared_work_ends_with_its_last_subscriber(probe_t *p)
{
        struct lessor_lease first, second, now;
        bool created;

        TRY(submit_as(p, &(struct work){.task = "t", .key = "one", .share = true}, 0, &first, NULL));
        TRY(submit_as(p, &(struct work){.task = "t", .key = "two", .share = true}, 0, &second, &created));
        EXPECT(p, !created && second.seq == first.seq, "the work is not shared");
        TRY(submit_as(p, &(struct work){.task = "t", .key = "three", .share = true, .floor = "1.0.0"}, 0,
                      &second, &created));
        EXPECT(p, created, "work of another floor is shared");
        EXPECT_CODE(p,
                    lessor_lease_end(p->store, &first.name, LESSOR_END_CANCEL, LESSOR_SLICE("one"),
                                     (struct lessor_slice){0}, p->arena, &now, NULL),
                    0);
        EXPECT(p, now.status == LESSOR_LEASE_PENDING, "the first that left ended it");
        EXPECT_CODE(p,
                    lessor_lease_end(p->store, &first.name, LESSOR_END_CANCEL, LESSOR_SLICE("stranger"),
                                     (struct lessor_slice){0}, p->arena, &now, NULL),
                    0);
        EXPECT(p, now.status == LESSOR_LEASE_PENDING, "somebody else ended it");
        EXPECT_CODE(p,
                    lessor_lease_end(p->store, &first.name, LESSOR_END_CANCEL, LESSOR_SLICE("two"),
                                     (struct lessor_slice){0}, p->arena, &now, NULL),
                    0);
        EXPECT(p, now.status == LESSOR_LEASE_CANCELLED, "the last that left did not end it");
        return submit_as(p, &(struct work){.share = true}, LESSOR_E_INVALID, &now, NULL);
}

static int a_planner_finds_its_task_again(probe_t *p)
{
        struct lessor_lease old, young, found;
        struct lessor_slice repo = LESSOR_SLICE(REPO), task = LESSOR_SLICE("t"),
                            inputs = LESSOR_SLICE("inputs");

        EXPECT_CODE(p, lessor_lease_find(p->store, repo, task, inputs, 0, p->arena, &found, NULL),
                    LESSOR_E_NOT_FOUND);
        TRY(submit(p, &(struct work){.task = "t"}, &old));
        TRY(probe_advance(p, 1));
        TRY(submit(p, &(struct work){.task = "t"}, &young));
        EXPECT_CODE(p, lessor_lease_find(p->store, repo, task, inputs, 0, p->arena, &found, NULL), 0);
        EXPECT(p, found.seq == young.seq, "it is not the newest");
        TRY(end_lease(p, &young, LESSOR_END_SUPERSEDE, &young));
        EXPECT_CODE(p, lessor_lease_find(p->store, repo, task, inputs, 0, p->arena, &found, NULL), 0);
        EXPECT(p, found.seq == old.seq, "a superseded one is found");
        TRY(end_lease(p, &old, LESSOR_END_CANCEL, &old));
        EXPECT_CODE(p, lessor_lease_find(p->store, repo, task, inputs, 0, p->arena, &found, NULL),
                    LESSOR_E_NOT_FOUND);
        return 0;
}

static int lists_go_by_status_run_and_page(probe_t *p)
{
        struct lessor_lease a, b, c;
        struct lessor_lease_list list;

        TRY(submit(p, &(struct work){.run = "r"}, &a));
        TRY(submit(p, &(struct work){0}, &b));
        TRY(submit(p, &(struct work){.run = "r"}, &c));
        TRY(end_lease(p, &c, LESSOR_END_CANCEL, &c));
        EXPECT_CODE(
                p, lessor_lease_list(p->store, &(struct lessor_lease_query){.max = 2}, p->arena, &list, NULL),
                0);
        EXPECT(p, list.n == 2 && list.items[0].seq == a.seq && list.items[1].seq == b.seq,
               "the first page is wrong");
        EXPECT_CODE(p,
                    lessor_lease_list(p->store, &(struct lessor_lease_query){.max = 2, .after = b.seq},
                                      p->arena, &list, NULL),
                    0);
        EXPECT(p, list.n == 1 && list.items[0].seq == c.seq, "the second page is wrong");
        EXPECT_CODE(p,
                    lessor_lease_list(p->store,
                                      &(struct lessor_lease_query){.max = 9,
                                                                   .run = LESSOR_SLICE("r"),
                                                                   .statuses = 1u << LESSOR_LEASE_PENDING},
                                      p->arena, &list, NULL),
                    0);
        EXPECT(p, list.n == 1 && list.items[0].seq == a.seq, "the run's pending ones are wrong");
        return 0;
}

static int a_run_is_cancelled_as_one(probe_t *p)
{
        struct lessor_lease a, b, c;
        size_t n;

        TRY(submit(p, &(struct work){.run = "r"}, &a));
        TRY(submit(p, &(struct work){.run = "r"}, &b));
        TRY(submit(p, &(struct work){.run = "s"}, &c));
        EXPECT_CODE(p, lessor_lease_cancel_run(p->store, LESSOR_SLICE("r"), LESSOR_SLICE("enough"), &n, NULL),
                    0);
        EXPECT(p, n == 2, "%zu leases were cancelled", n);
        TRY(look(p, &c, &c));
        EXPECT(p, c.status == LESSOR_LEASE_PENDING, "another run was cancelled");
        TRY(look(p, &b, &b));
        EXPECT(p, b.status == LESSOR_LEASE_CANCELLED, "the run was not cancelled");
        return 0;
}

static int ending_a_claim_ends_its_attempt(probe_t *p)
{
        static const struct {
                enum lessor_lease_ending ending;
                enum lessor_lease_status status;
                enum lessor_attempt_state state;
        } cases[] = {{LESSOR_END_CANCEL, LESSOR_LEASE_CANCELLED, LESSOR_ATTEMPT_CANCELLED},
                     {LESSOR_END_SUPERSEDE, LESSOR_LEASE_SUPERSEDED, LESSOR_ATTEMPT_INTERRUPTED}};

        for (size_t i = 0; i < 2; i++) {
                struct lessor_lease_grant grant;
                struct lessor_attempt attempt;
                struct lessor_lease now;
                struct machine m;
                bool stop;

                TRY(held_task(p, &m, &grant));
                TRY(end_lease(p, &grant.lease, cases[i].ending, &now));
                EXPECT(p, now.status == cases[i].status, "the answer says %d", (int)now.status);
                TRY(look(p, &grant.lease, &now));
                EXPECT(p, now.status == cases[i].status && now.ended_ms != 0, "it has not ended");
                TRY(last_attempt(p, &grant.lease, &attempt));
                EXPECT(p, attempt.state == cases[i].state && text_is(attempt.reason, "a test"),
                       "the attempt reads %d", (int)attempt.state);
                TRY(probe_hear(p, LESSOR_EVENT_ATTEMPT_ENDED, (unsigned)i + 1));
                EXPECT(p, lessor_slice_equal(lessor_slice_of(p->execution_id), grant.lease.attempt),
                       "another attempt was told of");
                TRY(stops(p, &m, &grant.lease, &stop));
                EXPECT(p, stop, "the rack is not told to stop");                      /* R057, R058 */
                TRY(probe_complete(p, &m, &grant.lease, LESSOR_COMPLETED_DISCARDED)); /* R070 */
        }
        return 0;
}

static int completed_wins(probe_t *p)
{
        struct lessor_lease_grant grant;
        struct lessor_lease now;
        struct machine m;

        TRY(held_task(p, &m, &grant));
        TRY(probe_complete(p, &m, &grant.lease, LESSOR_COMPLETED_RECORDED));
        TRY(end_lease(p, &grant.lease, LESSOR_END_CANCEL, &now));
        EXPECT(p, now.status == LESSOR_LEASE_COMPLETED, "cancel undid a completion");
        TRY(end_lease(p, &grant.lease, LESSOR_END_SUPERSEDE, &now));
        EXPECT(p, now.status == LESSOR_LEASE_COMPLETED, "supersede undid a completion");
        return 0;
}

static int a_lapsed_claim_is_shown_pending_and_then_lost(probe_t *p)
{
        struct lessor_lease_grant grant;
        struct lessor_lease now;
        struct machine m;

        TRY(held_task(p, &m, &grant));
        TRY(probe_advance(p, VISIBILITY));
        TRY(look(p, &grant.lease, &now));
        EXPECT(p, now.view == LESSOR_VIEW_CLAIMED && now.held, "it lapsed at its deadline");
        TRY(probe_advance(p, 1));
        TRY(look(p, &grant.lease, &now));
        EXPECT(p, now.view == LESSOR_VIEW_PENDING && !now.held && now.status == LESSOR_LEASE_CLAIMED,
               "past its deadline it is not shown pending");
        TRY(probe_advance(p, VISIBILITY - 1));
        TRY(look(p, &grant.lease, &now));
        EXPECT(p, now.view == LESSOR_VIEW_PENDING, "it is lost too early");
        TRY(probe_advance(p, 1));
        TRY(look(p, &grant.lease, &now));
        EXPECT(p, now.view == LESSOR_VIEW_LOST, "it is not shown lost");
        return 0;
}

static int a_lost_lease_is_superseded(probe_t *p)
{
        struct lessor_lease_grant grant;
        struct lessor_attempt attempt;
        struct lessor_lease now;
        struct machine m;

        TRY(held_task(p, &m, &grant));
        TRY(probe_advance(p, 2 * VISIBILITY));
        TRY(probe_sweep(p));
        TRY(look(p, &grant.lease, &now));
        EXPECT(p, now.status == LESSOR_LEASE_CLAIMED, "it was lost too early");
        TRY(probe_advance(p, 1));
        TRY(probe_sweep(p));
        TRY(look(p, &grant.lease, &now));
        EXPECT(p, now.status == LESSOR_LEASE_SUPERSEDED && now.cause == LESSOR_CAUSE_LOST,
               "it is not superseded");
        TRY(last_attempt(p, &grant.lease, &attempt));
        EXPECT(p, attempt.state == LESSOR_ATTEMPT_INTERRUPTED && attempt.cause == LESSOR_CAUSE_LOST,
               "its attempt is not interrupted");
        return probe_hear(p, LESSOR_EVENT_LOST, 1);
}

static int a_task_that_loses_its_racks_is_poisoned(probe_t *p)
{
        struct machine a, b, c;
        struct lessor_lease lease, now;
        struct lessor_lease_grant grant;

        TRY(join(p, NULL, &a));
        TRY(join(p, NULL, &b));
        TRY(join(p, NULL, &c));
        TRY(submit(p, &(struct work){.limit = 2}, &lease));
        TRY(probe_claim_gets(p, &a, &lease, NULL));
        TRY(probe_advance(p, 2 * VISIBILITY + 1));
        TRY(probe_sweep(p));
        TRY(look(p, &lease, &now));
        EXPECT(p, now.status == LESSOR_LEASE_PENDING && now.attempts_spent == 1,
               "a lost lease is not queued again");
        TRY(beat(p, &b, NULL));
        TRY(probe_claim_gets(p, &b, &lease, &grant));
        TRY(probe_advance(p, VISIBILITY + 1));
        TRY(beat(p, &c, NULL));
        TRY(probe_claim_gets_nothing(p, &c, LESSOR_BAR_NONE));
        TRY(probe_advance(p, VISIBILITY));
        TRY(probe_sweep(p));
        TRY(look(p, &lease, &now));
        EXPECT(p, now.status == LESSOR_LEASE_POISONED, "its status is %d", (int)now.status);
        TRY(probe_hear(p, LESSOR_EVENT_POISONED, 1));
        TRY(probe_complete(p, &b, &grant.lease, LESSOR_COMPLETED_DISCARDED));
        EXPECT_CODE(p, lessor_lease_replay(p->store, &lease.name, p->arena, &now, NULL), 0);
        EXPECT(p, now.status == LESSOR_LEASE_PENDING && now.attempts_spent == 0, "the replay is not as new");
        TRY(probe_claim_gets(p, &c, &lease, NULL));
        EXPECT_CODE(p, lessor_lease_replay(p->store, &lease.name, p->arena, &now, NULL), LESSOR_E_TERMINAL);
        return 0;
}

static int a_time_to_live_ends_what_nobody_holds(probe_t *p)
{
        struct lessor_lease waiting, running, now;
        struct machine m;

        TRY(join(p, NULL, &m));
        TRY(submit(p, &(struct work){.ttl_ms = 30000}, &running));
        TRY(probe_claim_gets(p, &m, &running, NULL));
        TRY(submit(p, &(struct work){.ttl_ms = 30000}, &waiting));
        TRY(probe_advance(p, 29999));
        TRY(probe_sweep(p));
        TRY(look(p, &waiting, &now));
        EXPECT(p, now.status == LESSOR_LEASE_PENDING, "it expired too early");
        TRY(probe_advance(p, 1));
        TRY(probe_claim_gets_nothing(p, &m, LESSOR_BAR_NONE));
        TRY(look(p, &waiting, &now));
        EXPECT(p, now.status == LESSOR_LEASE_EXPIRED, "it did not expire");
        TRY(look(p, &running, &now));
        EXPECT(p, now.status == LESSOR_LEASE_CLAIMED, "what is held expired");
        TRY(probe_advance(p, VISIBILITY - 30000));
        TRY(look(p, &running, &now));
        EXPECT(p, now.status == LESSOR_LEASE_CLAIMED, "what is held expired");
        TRY(probe_advance(p, 1));
        TRY(probe_sweep(p));
        TRY(look(p, &running, &now));
        EXPECT(p, now.status == LESSOR_LEASE_EXPIRED, "what nobody holds did not expire");
        return probe_hear(p, LESSOR_EVENT_EXPIRED, 2);
}

static int an_ended_lease_is_kept_for_retries(probe_t *p)
{
        struct lessor_lease_grant grant;
        struct lessor_lease now;
        struct machine m;
        bool stop;

        TRY(held_task(p, &m, &grant));
        TRY(probe_complete(p, &m, &grant.lease, LESSOR_COMPLETED_RECORDED));
        TRY(probe_advance(p, 15 * MINUTE - 1));
        TRY(probe_sweep(p));
        TRY(probe_complete(p, &m, &grant.lease, LESSOR_COMPLETED_IDEMPOTENT));
        TRY(stops(p, &m, &grant.lease, &stop));
        EXPECT(p, !stop, "a completed lease is to be stopped"); /* R061 */
        TRY(probe_advance(p, 1));
        TRY(probe_sweep(p));
        EXPECT_CODE(p, lessor_lease_get(p->store, &grant.lease.name, 0, p->arena, &now, NULL),
                    LESSOR_E_NOT_FOUND);
        TRY(probe_complete(p, &m, &grant.lease, LESSOR_COMPLETED_DISCARDED)); /* R072 */
        TRY(stops(p, &m, &grant.lease, &stop));
        EXPECT(p, stop, "an unknown lease goes on"); /* R059 */
        return 0;
}

static int what_was_answered_is_there_after_a_restart(probe_t *p)
{
        struct lessor_lease_grant grant;
        struct lessor_lease waiting, done, now;
        struct lessor_attempt attempt;
        struct machine m;
        bool created, required;

        TRY(held_task(p, &m, &grant));
        TRY(submit(p, &(struct work){.task = "w", .key = "k", .run = "r", .limit = 3, .ttl_ms = HOUR},
                   &waiting));
        TRY(submit(p, &(struct work){.task = "d", .tier = "d"}, &done));
        m.tiers[0] = LESSOR_SLICE("d");
        TRY(probe_claim_gets(p, &m, &done, NULL));
        TRY(probe_complete(p, &m, &done, LESSOR_COMPLETED_RECORDED));
        EXPECT_CODE(p, lessor_rack_set_policy(p->store, true, NULL), 0);
        TRY(reopen(p));
        TRY(look(p, &grant.lease, &now));
        EXPECT(p,
               now.status == LESSOR_LEASE_CLAIMED && now.deadline_ms == grant.lease.deadline_ms &&
                       lessor_slice_equal(now.attempt, grant.lease.attempt) &&
                       lessor_slice_equal(now.claimed_by, m.id),
               "the claim is not as it was");
        TRY(last_attempt(p, &grant.lease, &attempt));
        EXPECT(p, attempt.state == LESSOR_ATTEMPT_RUNNING && text_is(attempt.boot_id, "boot-1"),
               "the attempt is not as it was");
        TRY(submit_as(p, &(struct work){.task = "w", .key = "k"}, 0, &now, &created));
        EXPECT(p,
               !created && now.seq == waiting.seq && now.attempt_limit == 3 &&
                       now.expires_ms == waiting.expires_ms,
               "the key is not as it was");
        TRY(look(p, &done, &now));
        EXPECT(p,
               now.status == LESSOR_LEASE_COMPLETED && text_is(now.result, "{\"status\":\"success\"}") &&
                       now.verdict.success && text_is(now.verdict.output_hash, "output"),
               "the result is not as it was");
        EXPECT_CODE(p, lessor_rack_policy(p->store, &required, NULL), 0);
        EXPECT(p, required, "the policy is forgotten");
        return probe_complete(p, &m, &grant.lease, LESSOR_COMPLETED_RECORDED);
}

const struct lessor_lease_contract_case lease_cases[] = {
        {"a_new_lease_is_pending_and_found", "section 8, put", 0, a_new_lease_is_pending_and_found},
        {"an_unknown_lease_is_not_found", "section 8", 0, an_unknown_lease_is_not_found},
        {"a_repo_may_not_be_named_like_the_fence_of_racks", "section 20", 0,
         a_repo_may_not_be_named_like_the_fence_of_racks},
        {"a_key_makes_one_lease_of_its_owner", "control API, idempotency key", 0,
         a_key_makes_one_lease_of_its_owner},
        {"a_key_lives_and_dies_with_its_lease", "control API, idempotency key", NEEDS_ADVANCE,
         a_key_lives_and_dies_with_its_lease},
        {"shared_work_ends_with_its_last_subscriber", "section 18, cancel", 0,
         shared_work_ends_with_its_last_subscriber},
        {"a_planner_finds_its_task_again", "section 8, findByTask", NEEDS_ADVANCE,
         a_planner_finds_its_task_again},
        {"lists_go_by_status_run_and_page", "control API, list", 0, lists_go_by_status_run_and_page},
        {"a_run_is_cancelled_as_one", "control API, runs", 0, a_run_is_cancelled_as_one},
        {"ending_a_claim_ends_its_attempt", "section 9, R057 R058 R070", 0, ending_a_claim_ends_its_attempt},
        {"completed_wins", "R091", 0, completed_wins},
        {"a_lapsed_claim_is_shown_pending_and_then_lost", "section 9, view", NEEDS_ADVANCE,
         a_lapsed_claim_is_shown_pending_and_then_lost},
        {"a_lost_lease_is_superseded", "section 18, sweep", NEEDS_ADVANCE, a_lost_lease_is_superseded},
        {"a_task_that_loses_its_racks_is_poisoned", "control API, attempt limit", NEEDS_ADVANCE,
         a_task_that_loses_its_racks_is_poisoned},
        {"a_time_to_live_ends_what_nobody_holds", "control API, time to live", NEEDS_ADVANCE,
         a_time_to_live_ends_what_nobody_holds},
        {"an_ended_lease_is_kept_for_retries", "R059 R061 R068 R072", NEEDS_ADVANCE,
         an_ended_lease_is_kept_for_retries},
        {"what_was_answered_is_there_after_a_restart", "durability", NEEDS_REOPEN,
         what_was_answered_is_there_after_a_restart},
};
const size_t n_lease_cases = sizeof(lease_cases) / sizeof(lease_cases[0]);
