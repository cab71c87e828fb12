/* SPDX-License-Identifier: MIT */
/* takePayload, complete, releaseLeases, renewLeases, seal, cancel, ack: what the two parties of a grant may
 * do. */
#include "base/macro.h"
#include "routing/contract/probe.h"

#define NO_LEASE LESSOR_SLICE("a-lease-that-never-was")

static int a_payload_is_handed_to_its_holder(struct lessor_contract_probe *p)
{
        struct lessor_lease_ref lease;
        struct lessor_slice payload;

        TRY(bring_to(p, "a", LESSOR_JOB_AWAITING, &lease));
        TRY(expect_code(p, "take_payload", fetch(p, R1, lease, &payload), LESSOR_E_NOT_READY));
        TRY(expect_code(p, "seal", seal(p, SITE, "a", "{\"n\":1}"), 0));
        TRY(state_is(p, SITE, "a", LESSOR_JOB_READY));
        for (int i = 0; i < 2; i++) { /* repeatable */
                TRY(expect_code(p, "take_payload", fetch(p, R1, lease, &payload), 0));
                EXPECT(p, lessor_slice_equal(payload, LESSOR_SLICE("{\"n\":1}")),
                       "another payload is handed over");
                TRY(state_is(p, SITE, "a", LESSOR_JOB_RUNNING));
        }
        return 0;
}

static int holder_words(struct lessor_contract_probe *p,
                        int (*call)(struct lessor_contract_probe *p, const char *runner,
                                    struct lessor_lease_ref lease))
{
        struct lessor_lease_ref lease, old = {LESSOR_SLICE("a"), NO_LEASE};

        TRY(bring_to(p, "a", LESSOR_JOB_READY, &lease));
        TRY(expect_code(p, "another runner under the lease", call(p, R2, lease), LESSOR_E_NOT_HOLDER));
        TRY(expect_code(p, "the holder under another lease", call(p, R1, old), LESSOR_E_STALE_LEASE));
        TRY(expect_code(p, "another runner under another lease", call(p, R2, old), LESSOR_E_NOT_FOUND));
        TRY(expect_code(p, "an unknown id under the lease", call(p, R1, lease_ref("b", lease.lease_id)),
                        LESSOR_E_NOT_FOUND));
        return state_is(p, SITE, "a", LESSOR_JOB_READY);
}

static int call_fetch(struct lessor_contract_probe *p, const char *runner, struct lessor_lease_ref lease)
{
        struct lessor_slice payload;

        return fetch(p, runner, lease, &payload);
}

static int call_complete(struct lessor_contract_probe *p, const char *runner, struct lessor_lease_ref lease)
{
        bool duplicate;

        return complete(p, runner, lease, "{}", &duplicate);
}

static int take_payload_refuses_in_these_words(struct lessor_contract_probe *p)
{
        return holder_words(p, call_fetch);
}

static int complete_refuses_in_these_words(struct lessor_contract_probe *p)
{
        return holder_words(p, call_complete);
}

static int one_jobs_lease_does_not_open_another(struct lessor_contract_probe *p)
{
        struct lessor_job_list granted;
        struct lessor_slice payload;

        TRY(put_all(p, "mine other"));
        TRY(claim_gets(p, &(struct ask){.runner = R1}, "mine other", &granted));
        TRY(expect_code(p, "seal", seal(p, SITE, "other", "{}"), 0));
        TRY(expect_code(p, "take_payload",
                        fetch(p, R1, lease_ref("other", granted.items[0].lease_id), &payload),
                        LESSOR_E_STALE_LEASE));
        return expect_code(p, "take_payload",
                           fetch(p, R1, lease_ref("other", granted.items[1].lease_id), &payload), 0);
}

/* A bare id tells nobody whether another site has such a job: in whatever state it is. */
static int a_bare_id_reveals_nothing(struct lessor_contract_probe *p)
{
        struct lessor_lease_ref lease, foreign = {LESSOR_SLICE("secret"), NO_LEASE};
        struct lessor_job_list granted;
        size_t n;
        bool renewed;

        TRY(bring_to(p, "mine", LESSOR_JOB_READY, &lease));
        TRY(put(p, OTHER, "secret", ALICE));
        foreign.lease_id = lease.lease_id;
        TRY(expect_code(p, "take_payload of a queued job", call_fetch(p, R1, foreign), LESSOR_E_NOT_FOUND));
        TRY(claim_gets(p, &(struct ask){.runner = R2, .routes = {OTHER, ALICE}}, "secret", &granted));
        TRY(expect_code(p, "take_payload of a claimed job", call_fetch(p, R1, foreign), LESSOR_E_NOT_FOUND));
        TRY(expect_code(p, "complete of a claimed job", call_complete(p, R1, foreign), LESSOR_E_NOT_FOUND));
        TRY(release(p, R1, foreign, true, 0, &n));
        EXPECT(p, n == 0, "another runner's job was released by its id");
        TRY(renew(p, R1, foreign, LEASE_MS, &renewed));
        EXPECT(p, !renewed, "another runner's job was renewed by its id");
        TRY(expect_code(p, "seal of another site's job", seal(p, SITE, "secret", "{}"), LESSOR_E_NOT_FOUND));
        TRY(expect_code(p, "cancel of another site's job",
                        lessor_routing_cancel(p->store, text_of(SITE), text_of("secret"), NULL),
                        LESSOR_E_NOT_FOUND));
        return state_is(p, OTHER, "secret", LESSOR_JOB_AWAITING);
}

static int a_finished_job_is_not_fetched_again(struct lessor_contract_probe *p)
{
        struct lessor_lease_ref lease;

        TRY(bring_to(p, "a", LESSOR_JOB_DONE, &lease));
        TRY(expect_code(p, "take_payload", call_fetch(p, R1, lease), LESSOR_E_TERMINAL));
        return state_is(p, SITE, "a", LESSOR_JOB_DONE);
}

static int a_job_done_unsealed_never_was_ready(struct lessor_contract_probe *p)
{
        struct lessor_lease_ref lease;

        TRY(bring_to(p, "a", LESSOR_JOB_AWAITING, &lease));
        TRY(expect_code(p, "complete", call_complete(p, R1, lease), 0));
        return expect_code(p, "take_payload", call_fetch(p, R1, lease), LESSOR_E_NOT_READY);
}

static int a_result_is_recorded_once(struct lessor_contract_probe *p)
{
        struct lessor_envelope other = {LESSOR_SLICE("{\"result\":2}")};
        struct lessor_lease_ref lease, old = {LESSOR_SLICE("a"), NO_LEASE};
        struct lessor_result_list results;
        bool duplicate = true;

        TRY(bring_to(p, "a", LESSOR_JOB_RUNNING, &lease));
        TRY(expect_code(p, "complete", complete(p, R1, lease, "{\"result\":1}", &duplicate), 0));
        EXPECT(p, !duplicate, "a first result is called a duplicate");
        TRY(expect_code(p, "complete again",
                        lessor_routing_complete(p->store, text_of(R1), &lease, &other,
                                                LESSOR_DISPOSITION_ERROR, &duplicate, NULL),
                        0));
        EXPECT(p, duplicate, "a second result is not called a duplicate");
        TRY(expect_code(p, "complete under an old lease", call_complete(p, R1, old), LESSOR_E_STALE_LEASE));
        TRY(expect_code(p, "complete by another", call_complete(p, R2, lease), LESSOR_E_NOT_HOLDER));
        TRY(expect_code(p, "finished",
                        lessor_routing_finished(p->store, text_of(SITE), SIZE_MAX, p->arena, &results, NULL),
                        0));
        EXPECT(p, results.n == 1 && !results.more, "finished lists %zu results, expected one", results.n);
        EXPECT(p,
               lessor_slice_equal(results.items[0].envelope.json, LESSOR_SLICE("{\"result\":1}")) &&
                       results.items[0].job.disposition == LESSOR_DISPOSITION_OK,
               "the second result replaced the first");
        return 0;
}

static int a_result_ends_any_claimed_state(struct lessor_contract_probe *p)
{
        static const enum lessor_job_state states[] = {LESSOR_JOB_AWAITING, LESSOR_JOB_READY,
                                                       LESSOR_JOB_RUNNING};
        static const char *const ids[] = {"awaiting", "ready", "running"};
        struct lessor_lease_ref lease;

        for (size_t i = 0; i < ARRAY_SIZE(states); i++) {
                TRY(bring_to(p, ids[i], states[i], &lease));
                TRY(expect_code(p, ids[i], call_complete(p, R1, lease), 0));
                TRY(state_is(p, SITE, ids[i], LESSOR_JOB_DONE));
        }
        return 0;
}

static int a_cancelled_job_may_be_completed(struct lessor_contract_probe *p)
{
        struct lessor_lease_ref lease;

        TRY(bring_to(p, "a", LESSOR_JOB_RUNNING, &lease));
        TRY(expect_code(p, "cancel", lessor_routing_cancel(p->store, text_of(SITE), text_of("a"), NULL), 0));
        TRY(expect_code(p, "complete", call_complete(p, R1, lease), 0));
        return state_is(p, SITE, "a", LESSOR_JOB_DONE);
}

/* --- release and renew --- */

static int release_names_what_it_gave_back(struct lessor_contract_probe *p)
{
        struct lessor_lease_ref refs[4];
        struct lessor_release wire = {.runner_id = text_of(R1), .leases = refs, .n_leases = ARRAY_SIZE(refs)};
        struct lessor_job_list granted;
        struct lessor_lease_ref_list released;

        TRY(put_all(p, "a b"));
        TRY(claim_gets(p, &(struct ask){.runner = R1}, "a b", &granted));
        refs[0] = lease_ref("b", granted.items[1].lease_id);
        refs[1] = lease_ref("a", NO_LEASE);
        refs[2] = lease_ref("a", granted.items[0].lease_id);
        refs[3] = refs[0];
        TRY(expect_code(p, "release_leases",
                        lessor_routing_release_leases(p->store, &wire, p->arena, &released, NULL), 0));
        EXPECT(p, released.n == 2, "%zu leases were released, expected 2", released.n);
        EXPECT(p,
               lessor_slice_equal(released.items[0].job_id, text_of("b")) &&
                       lessor_slice_equal(released.items[1].job_id, text_of("a")),
               "the released are not named in request order");
        TRY(state_is(p, SITE, "a", LESSOR_JOB_QUEUED));
        return state_is(p, SITE, "b", LESSOR_JOB_QUEUED);
}

static int only_the_holder_releases(struct lessor_contract_probe *p)
{
        struct lessor_lease_ref lease;
        size_t n;

        TRY(bring_to(p, "a", LESSOR_JOB_READY, &lease));
        TRY(release(p, R2, lease, true, 0, &n));
        EXPECT(p, n == 0, "another runner released the job");
        return state_is(p, SITE, "a", LESSOR_JOB_READY);
}

static int a_done_job_is_not_released(struct lessor_contract_probe *p)
{
        struct lessor_lease_ref lease;
        size_t n;

        TRY(bring_to(p, "a", LESSOR_JOB_DONE, &lease));
        TRY(release(p, R1, lease, true, 0, &n));
        EXPECT(p, n == 0, "a done job was released");
        return state_is(p, SITE, "a", LESSOR_JOB_DONE);
}

static int a_released_job_is_free_and_bare(struct lessor_contract_probe *p)
{
        struct lessor_lease_ref lease;
        struct lessor_job_list granted;
        struct lessor_job job;
        size_t n;

        TRY(bring_to(p, "a", LESSOR_JOB_RUNNING, &lease));
        TRY(release(p, R1, lease, false, 0, &n));
        TRY(get(p, SITE, "a", &job));
        EXPECT(p, !job.claimed && !job.has_payload && job.awaiting_until_ms == 0,
               "a requeued job keeps its claim or its payload");
        EXPECT(p, job.seal_attempts == 0 && job.reoffer_to.p == NULL,
               "a release counts as an unsealed window");
        TRY(expect_code(p, "take_payload", call_fetch(p, R1, lease), LESSOR_E_NOT_FOUND));
        TRY(claim_gets(p, &(struct ask){.runner = R2}, "a", &granted));
        TRY(expect_code(p, "take_payload", call_fetch(p, R2, lease_ref("a", granted.items[0].lease_id)),
                        LESSOR_E_NOT_READY));
        return expect_code(p, "complete under the old lease", call_complete(p, R1, lease),
                           LESSOR_E_NOT_FOUND);
}

static int the_same_device_may_have_it_back(struct lessor_contract_probe *p)
{
        struct lessor_lease_ref lease;
        size_t n;

        TRY(bring_to(p, "a", LESSOR_JOB_AWAITING, &lease));
        TRY(release(p, R1, lease, false, 0, &n));
        return claim_gets(p, &(struct ask){.runner = R1}, "a", NULL);
}

static int renewal_extends_what_is_held_and_names_what_is_lost(struct lessor_contract_probe *p)
{
        struct lessor_lease_ref refs[4];
        struct lessor_job_list granted;
        struct lessor_renewal_list list;
        struct lessor_job job;
        int64_t awaiting_until_ms;

        TRY(put_all(p, "a b"));
        TRY(claim_gets(p, &(struct ask){.runner = R1, .lease_ms = 1000}, "a b", &granted));
        awaiting_until_ms = granted.items[0].awaiting_until_ms;
        refs[0] = lease_ref("b", NO_LEASE);
        refs[1] = lease_ref("a", granted.items[0].lease_id);
        refs[2] = lease_ref("a", granted.items[1].lease_id);
        refs[3] = lease_ref("nothing", NO_LEASE);
        TRY(expect_code(p, "renew_leases",
                        lessor_routing_renew_leases(p->store, text_of(R1), refs, ARRAY_SIZE(refs), 90000,
                                                    p->arena, &list, NULL),
                        0));
        EXPECT(p, list.n_renewed == 1 && list.n_lost == 3, "%zu renewed and %zu lost, expected 1 and 3",
               list.n_renewed, list.n_lost);
        EXPECT(p,
               lessor_slice_equal(list.lost[0].job_id, text_of("b")) &&
                       lessor_slice_equal(list.lost[1].lease_id, refs[2].lease_id) &&
                       lessor_slice_equal(list.lost[2].job_id, text_of("nothing")),
               "the lost are not named in request order");
        TRY(get(p, SITE, "a", &job));
        EXPECT(p,
               list.renewed[0].expires_ms == job.lease_expires_ms &&
                       job.lease_expires_ms >= granted.items[0].lease_expires_ms + 89000,
               "the lease was not extended");
        EXPECT(p, job.awaiting_until_ms == awaiting_until_ms, "renewal moved the window");
        TRY(get(p, SITE, "b", &job));
        EXPECT(p, job.lease_expires_ms == granted.items[1].lease_expires_ms,
               "a lease that was not named was extended");
        return 0;
}

static int a_done_job_is_not_lost(struct lessor_contract_probe *p)
{
        struct lessor_lease_ref lease;
        bool renewed;

        TRY(bring_to(p, "a", LESSOR_JOB_DONE, &lease));
        TRY(renew(p, R1, lease, LEASE_MS, &renewed));
        EXPECT(p, renewed, "a done job's lease is reported lost");
        TRY(renew(p, R2, lease, LEASE_MS, &renewed));
        EXPECT(p, !renewed, "another runner renewed the lease");
        return 0;
}

/* --- the site --- */

static int only_an_awaiting_job_is_sealed(struct lessor_contract_probe *p)
{
        static const enum lessor_job_state states[] = {LESSOR_JOB_QUEUED, LESSOR_JOB_READY,
                                                       LESSOR_JOB_RUNNING, LESSOR_JOB_DONE};
        static const char *const ids[] = {"queued", "ready", "running", "done"};
        struct lessor_envelope envelope = {LESSOR_SLICE("{\"late\":1}")};
        struct lessor_lease_ref lease;
        struct lessor_slice payload;

        for (size_t i = ARRAY_SIZE(states); i-- > 0;) { /* the queued one last: it would be claimed too */
                enum lessor_job_state was = LESSOR_JOB_AWAITING;

                TRY(bring_to(p, ids[i], states[i], &lease));
                TRY(expect_code(
                        p, ids[i],
                        lessor_routing_seal(p->store, text_of(SITE), text_of(ids[i]), &envelope, &was, NULL),
                        LESSOR_E_TOO_LATE));
                EXPECT(p, was == states[i], "seal says %s was in state %d", ids[i], (int)was);
                if (states[i] == LESSOR_JOB_READY) {
                        TRY(expect_code(p, "take_payload", fetch(p, R1, lease, &payload), 0));
                        EXPECT(p, lessor_slice_equal(payload, LESSOR_SLICE("{\"payload\":1}")),
                               "a late payload replaced the first");
                }
        }
        return expect_code(p, "seal of an unknown job", seal(p, SITE, "unknown", "{}"), LESSOR_E_NOT_FOUND);
}

static int a_device_hears_of_cancelled_jobs_it_has(struct lessor_contract_probe *p)
{
        static const enum lessor_job_state states[] = {LESSOR_JOB_AWAITING, LESSOR_JOB_READY,
                                                       LESSOR_JOB_RUNNING, LESSOR_JOB_DONE};
        static const char *const ids[] = {"awaiting", "ready", "running", "done"};
        struct lessor_lease_ref leases[ARRAY_SIZE(states)];
        struct lessor_lease_ref_list list;

        for (size_t i = 0; i < ARRAY_SIZE(states); i++)
                TRY(bring_to(p, ids[i], states[i], &leases[i]));
        for (size_t i = ARRAY_SIZE(states); i-- > 0;)
                TRY(expect_code(p, "cancel",
                                lessor_routing_cancel(p->store, text_of(SITE), text_of(ids[i]), NULL), 0));
        TRY(put_all(p, "queued"));
        TRY(expect_code(p, "cancel", lessor_routing_cancel(p->store, text_of(SITE), text_of("queued"), NULL),
                        0));
        TRY(expect_code(p, "cancel again",
                        lessor_routing_cancel(p->store, text_of(SITE), text_of("queued"), NULL), 0));
        TRY(expect_code(p, "cancel of an unknown job",
                        lessor_routing_cancel(p->store, text_of(SITE), text_of("unknown"), NULL),
                        LESSOR_E_NOT_FOUND));
        TRY(expect_code(p, "cancel_requests",
                        lessor_routing_cancel_requests(p->store, text_of(R1), p->arena, &list, NULL), 0));
        EXPECT(p, list.n == ARRAY_SIZE(states), "%zu cancel requests, expected %zu", list.n,
               ARRAY_SIZE(states));
        for (size_t i = 0; i < list.n; i++)
                EXPECT(p,
                       lessor_slice_equal(list.items[i].job_id, leases[i].job_id) &&
                               lessor_slice_equal(list.items[i].lease_id, leases[i].lease_id),
                       "cancel request %zu is not %s", i, ids[i]);
        TRY(expect_code(p, "cancel_requests",
                        lessor_routing_cancel_requests(p->store, text_of(R2), p->arena, &list, NULL), 0));
        EXPECT(p, list.n == 0, "another runner hears of the cancelled jobs");
        return 0;
}

static int a_released_cancelled_job_is_asked_for_no_more(struct lessor_contract_probe *p)
{
        struct lessor_lease_ref lease;
        struct lessor_lease_ref_list list;
        size_t n;

        TRY(bring_to(p, "a", LESSOR_JOB_RUNNING, &lease));
        TRY(expect_code(p, "cancel", lessor_routing_cancel(p->store, text_of(SITE), text_of("a"), NULL), 0));
        TRY(release(p, R1, lease, false, 0, &n));
        TRY(expect_code(p, "cancel_requests",
                        lessor_routing_cancel_requests(p->store, text_of(R1), p->arena, &list, NULL), 0));
        EXPECT(p, list.n == 0, "a job that was given back is still to be cancelled");
        return claim_gets(p, &(struct ask){.runner = R1}, "", NULL);
}

static int ack_forgets_the_sites_done_jobs(struct lessor_contract_probe *p)
{
        struct lessor_slice ids[] = {LESSOR_SLICE("done"), LESSOR_SLICE("ready"), LESSOR_SLICE("unknown"),
                                     LESSOR_SLICE("done")};
        struct lessor_slice *acked;
        struct lessor_lease_ref lease;
        size_t n;

        TRY(bring_to(p, "done", LESSOR_JOB_DONE, &lease));
        TRY(bring_to(p, "ready", LESSOR_JOB_READY, &lease));
        TRY(expect_code(p, "ack",
                        lessor_routing_ack(p->store, text_of(OTHER), ids, ARRAY_SIZE(ids), p->arena, &acked,
                                           &n, NULL),
                        0));
        EXPECT(p, n == 0 && exists(p, SITE, "done"), "another site forgot the job");
        TRY(expect_code(
                p, "ack",
                lessor_routing_ack(p->store, text_of(SITE), ids, ARRAY_SIZE(ids), p->arena, &acked, &n, NULL),
                0));
        EXPECT(p, n == 1 && lessor_slice_equal(acked[0], ids[0]), "%zu jobs were forgotten, expected one", n);
        EXPECT(p, !exists(p, SITE, "done"), "the job is still there");
        return state_is(p, SITE, "ready", LESSOR_JOB_READY);
}

static const struct lessor_contract_case cases[] = {
        {"a_payload_is_handed_to_its_holder", "takePayload", 0, a_payload_is_handed_to_its_holder},
        {"take_payload_refuses_in_these_words", "which job", 0, take_payload_refuses_in_these_words},
        {"complete_refuses_in_these_words", "which job", 0, complete_refuses_in_these_words},
        {"one_jobs_lease_does_not_open_another", "which job", 0, one_jobs_lease_does_not_open_another},
        {"a_bare_id_reveals_nothing", "which job; must never be disclosed", 0, a_bare_id_reveals_nothing},
        {"a_finished_job_is_not_fetched_again", "takePayload, terminal", 0,
         a_finished_job_is_not_fetched_again},
        {"a_job_done_unsealed_never_was_ready", "takePayload, not-ready", 0,
         a_job_done_unsealed_never_was_ready},
        {"a_result_is_recorded_once", "complete, RESULT_IDEMPOTENT", 0, a_result_is_recorded_once},
        {"a_result_ends_any_claimed_state", "complete", 0, a_result_ends_any_claimed_state},
        {"a_cancelled_job_may_be_completed", "complete", 0, a_cancelled_job_may_be_completed},
        {"release_names_what_it_gave_back", "releaseLeases", 0, release_names_what_it_gave_back},
        {"only_the_holder_releases", "releaseLeases", 0, only_the_holder_releases},
        {"a_done_job_is_not_released", "releaseLeases", 0, a_done_job_is_not_released},
        {"a_released_job_is_free_and_bare", "requeue", 0, a_released_job_is_free_and_bare},
        {"the_same_device_may_have_it_back", "releaseLeases", 0, the_same_device_may_have_it_back},
        {"renewal_extends_what_is_held_and_names_what_is_lost", "renewLeases", 0,
         renewal_extends_what_is_held_and_names_what_is_lost},
        {"a_done_job_is_not_lost", "renewLeases", 0, a_done_job_is_not_lost},
        {"only_an_awaiting_job_is_sealed", "seal", 0, only_an_awaiting_job_is_sealed},
        {"a_device_hears_of_cancelled_jobs_it_has", "cancel, cancelRequests", 0,
         a_device_hears_of_cancelled_jobs_it_has},
        {"a_released_cancelled_job_is_asked_for_no_more", "cancelRequests", 0,
         a_released_cancelled_job_is_asked_for_no_more},
        {"ack_forgets_the_sites_done_jobs", "ack (lessor's own)", 0, ack_forgets_the_sites_done_jobs},
};
const struct case_list holder_cases = {cases, ARRAY_SIZE(cases)};
