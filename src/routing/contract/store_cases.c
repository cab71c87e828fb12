/* SPDX-License-Identifier: MIT */
/* The lists, presence, and what a store owes beside its rules: the clock, threads, rows that it cannot read,
 * keeping. */
#include <stdio.h>

#include "base/macro.h"
#include "routing/contract/probe.h"

static int jobs_lists_the_oldest_first(struct lessor_contract_probe *p)
{
        const struct lessor_slice site = LESSOR_SLICE(SITE), nobody = LESSOR_SLICE("site-nobody");
        struct lessor_job_list jobs;
        struct lessor_job job;

        TRY(put(p, SITE, "1", ALICE));
        TRY(put(p, OTHER, "2", BOB));
        TRY(put(p, SITE, "3", BOB));
        TRY(expect_code(p, "jobs", lessor_routing_jobs(p->store, NULL, SIZE_MAX, p->arena, &jobs, NULL), 0));
        TRY(expect_ids(p, "jobs of all", jobs.items, jobs.n, "1 2 3"));
        TRY(expect_code(p, "jobs", lessor_routing_jobs(p->store, &site, SIZE_MAX, p->arena, &jobs, NULL), 0));
        TRY(expect_ids(p, "jobs of one site", jobs.items, jobs.n, "1 3"));
        TRY(expect_code(p, "jobs", lessor_routing_jobs(p->store, NULL, 2, p->arena, &jobs, NULL), 0));
        TRY(expect_ids(p, "two jobs", jobs.items, jobs.n, "1 2"));
        TRY(expect_code(p, "jobs", lessor_routing_jobs(p->store, &nobody, 2, p->arena, &jobs, NULL), 0));
        TRY(expect_ids(p, "jobs of no site", jobs.items, jobs.n, ""));
        return expect_code(p, "job of another site",
                           lessor_routing_job(p->store, text_of(OTHER), text_of("1"), p->arena, &job, NULL),
                           LESSOR_E_NOT_FOUND);
}

static int awaiting_is_one_sites_in_enqueue_order(struct lessor_contract_probe *p)
{
        struct lessor_job_list jobs;
        struct lessor_job_list granted;
        size_t n;

        TRY(put_all(p, "1 2"));
        TRY(put(p, OTHER, "other", ALICE));
        TRY(claim_gets(p, &(struct ask){.runner = R1, .max = 1}, "1", &granted));
        TRY(claim_gets(p, &(struct ask){.runner = R1, .routes = {OTHER, ALICE, SITE, ALICE}}, "2 other",
                       NULL));
        TRY(release(p, R1, lease_ref("1", granted.items[0].lease_id), false, 0, &n));
        TRY(claim_gets(p, &(struct ask){.runner = R2}, "1", NULL));
        TRY(hear(p, "awaiting", &p->n_awaiting, p->n_awaiting));
        TRY(expect_code(p, "awaiting",
                        lessor_routing_awaiting(p->store, text_of(SITE), SIZE_MAX, p->arena, &jobs, NULL),
                        0));
        TRY(expect_ids(p, "awaiting", jobs.items, jobs.n, "1 2"));
        EXPECT(p, lessor_slice_equal(jobs.items[0].device.identity, text_of(R2)),
               "awaiting shows another device");
        TRY(expect_code(p, "awaiting",
                        lessor_routing_awaiting(p->store, text_of(SITE), 1, p->arena, &jobs, NULL), 0));
        return expect_ids(p, "one awaiting", jobs.items, jobs.n, "1");
}

static int finished_stops_at_its_bound_but_gives_one(struct lessor_contract_probe *p)
{
        struct lessor_result_list results;
        struct lessor_lease_ref lease;

        for (int i = 0; i < 3; i++) {
                char id[8];

                snprintf(id, sizeof(id), "%d", i);
                TRY(bring_to(p, id, LESSOR_JOB_DONE, &lease)); /* 12 bytes each */
        }
        TRY(expect_code(p, "finished",
                        lessor_routing_finished(p->store, text_of(SITE), 24, p->arena, &results, NULL), 0));
        EXPECT(p, results.n == 2 && results.more, "24 bytes hold %zu results of 12", results.n);
        EXPECT(p, lessor_slice_equal(results.items[0].job.stub.id, text_of("0")),
               "the oldest result is not first");
        TRY(expect_code(p, "finished",
                        lessor_routing_finished(p->store, text_of(SITE), 1, p->arena, &results, NULL), 0));
        EXPECT(p, results.n == 1 && results.more, "1 byte gives %zu results, expected one", results.n);
        TRY(expect_code(p, "finished",
                        lessor_routing_finished(p->store, text_of(SITE), 36, p->arena, &results, NULL), 0));
        EXPECT(p, results.n == 3 && !results.more, "36 bytes hold %zu results of 12", results.n);
        TRY(expect_code(p, "finished",
                        lessor_routing_finished(p->store, text_of(OTHER), 36, p->arena, &results, NULL), 0));
        EXPECT(p, results.n == 0, "another site sees the results");
        return 0;
}

static int the_listener_hears_what_a_site_waits_for(struct lessor_contract_probe *p)
{
        struct lessor_lease_ref lease;

        TRY(bring_to(p, "a", LESSOR_JOB_AWAITING, &lease));
        TRY(hear(p, "awaiting", &p->n_awaiting, 1));
        TRY(hear(p, "finished", &p->n_finished, 0));
        TRY(bring_to(p, "b", LESSOR_JOB_DONE, &lease));
        TRY(hear(p, "awaiting", &p->n_awaiting, 2));
        return hear(p, "finished", &p->n_finished, 1);
}

static int the_figures_add_up(struct lessor_contract_probe *p)
{
        struct lessor_routing_stats stats;
        struct lessor_lease_ref lease;

        TRY(bring_to(p, "done", LESSOR_JOB_DONE, &lease));
        TRY(bring_to(p, "running", LESSOR_JOB_RUNNING, &lease));
        TRY(bring_to(p, "ready", LESSOR_JOB_READY, &lease));
        TRY(bring_to(p, "awaiting", LESSOR_JOB_AWAITING, &lease));
        TRY(put_all(p, "queued queued2"));
        TRY(expect_code(p, "stats", lessor_routing_stats(p->store, &stats), 0));
        EXPECT(p,
               stats.n_jobs[LESSOR_JOB_QUEUED] == 2 && stats.n_jobs[LESSOR_JOB_AWAITING] == 1 &&
                       stats.n_jobs[LESSOR_JOB_READY] == 1 && stats.n_jobs[LESSOR_JOB_RUNNING] == 1 &&
                       stats.n_jobs[LESSOR_JOB_DONE] == 1,
               "the store miscounts its jobs");
        return 0;
}

/* --- presence --- */

static int see(struct lessor_contract_probe *p, const char *runner, const char *owner, const char *identity,
               const char *capabilities, const char *withheld)
{
        struct lessor_presence presence = {
                .runner_id = text_of(runner),
                .owner = text_of(owner),
                .device = {text_of(identity), LESSOR_SLICE("encryption"), LESSOR_SLICE("signature")},
                .capabilities = text_of(capabilities),
                .withheld = text_of(withheld),
        };

        return expect_code(p, "seen", lessor_routing_seen(p->store, &presence, NULL), 0);
}

static int look(struct lessor_contract_probe *p, const char *runner, struct lessor_presence *ret_presence)
{
        return expect_code(p, "presence",
                           lessor_routing_presence(p->store, text_of(runner), p->arena, ret_presence, NULL),
                           0);
}

static int a_device_is_remembered_with_its_first_keys(struct lessor_contract_probe *p)
{
        struct lessor_presence presence;
        int64_t before_ms;

        TRY(now(p, &before_ms));
        TRY(see(p, R1, ALICE, "first", "[1]", "[2]"));
        TRY(see(p, R1, BOB, "second", "[3]", "[4]"));
        TRY(look(p, R1, &presence));
        EXPECT(p, lessor_slice_equal(presence.owner, text_of(ALICE)), "a later beat changed the owner");
        EXPECT(p, lessor_slice_equal(presence.device.identity, text_of("first")),
               "a later beat changed the keys");
        EXPECT(p,
               lessor_slice_equal(presence.capabilities, text_of("[3]")) &&
                       lessor_slice_equal(presence.withheld, text_of("[4]")),
               "a later beat does not replace what the device says of itself");
        EXPECT(p, presence.last_seen_ms >= before_ms, "the store's clock did not stamp it");
        TRY(see(p, R1, ALICE, "first", "[]", "[]"));
        TRY(look(p, R1, &presence));
        EXPECT(p, lessor_slice_equal(presence.capabilities, text_of("[]")), "empty is an answer too");
        return expect_code(p, "presence of a stranger",
                           lessor_routing_presence(p->store, text_of(R2), p->arena, &presence, NULL),
                           LESSOR_E_NOT_FOUND);
}

static int everyone_is_listed_by_first_sight(struct lessor_contract_probe *p)
{
        static const char *const order[] = {"runner-z", "runner-a", "runner-m"};
        struct lessor_presence_list list;

        for (size_t i = 0; i < ARRAY_SIZE(order); i++)
                TRY(see(p, order[i], ALICE, order[i], "[]", "[]"));
        TRY(see(p, order[0], ALICE, order[0], "[]", "[]"));
        TRY(expect_code(p, "everyone", lessor_routing_everyone(p->store, p->arena, &list, NULL), 0));
        EXPECT(p, list.n == ARRAY_SIZE(order), "everyone lists %zu devices", list.n);
        for (size_t i = 0; i < list.n; i++)
                EXPECT(p, lessor_slice_equal(list.items[i].runner_id, text_of(order[i])),
                       "device %zu is not %s", i, order[i]);
        return 0;
}

static int presence_moves_with_the_clock_and_never_expires(struct lessor_contract_probe *p)
{
        struct lessor_presence first, second;

        TRY(see(p, R1, ALICE, "k", "[]", "[]"));
        TRY(look(p, R1, &first));
        advance(p, 86400000);
        TRY(sweep(p, &(struct lessor_swept){0}));
        TRY(look(p, R1, &second));
        EXPECT(p, second.last_seen_ms == first.last_seen_ms, "time alone moved when a device was seen");
        TRY(see(p, R1, ALICE, "k", "[]", "[]"));
        TRY(look(p, R1, &second));
        EXPECT(p, second.last_seen_ms >= first.last_seen_ms + 86400000,
               "a beat did not move when it was seen");
        return 0;
}

/* --- threads --- */

#define N_THREADS 4
#define N_PAIRS   64

struct claimer {
        struct lessor_contract_probe *probe;
        pthread_t thread;
        char runner[16];
        int result;
        unsigned granted[N_PAIRS]; /* by job number */
};

/* Claims every pair's one job, as fast as it can, in competition with the others. */
static void *claim_all(void *context)
{
        struct claimer *c = context;
        struct lessor_arena *arena = lessor_arena_new();
        char site[16];

        c->result = arena == NULL ? LESSOR_E_NOMEM : 0;
        for (int round = 0; c->result == 0 && round < 4 * N_PAIRS; round++) {
                struct lessor_route route = {{site, 0}, LESSOR_SLICE(ALICE)};
                struct lessor_claim wire = {
                        .runner_id = text_of(c->runner),
                        .owner = LESSOR_SLICE(ALICE),
                        .device = {LESSOR_SLICE("i"), LESSOR_SLICE("e"), LESSOR_SLICE("s")},
                        .routes = &route,
                        .n_routes = 1,
                        .kinds = LESSOR_KIND_BIT(LESSOR_KIND_LLM_GENERATE),
                        .max = 2,
                        .lease_ms = LEASE_MS,
                };
                struct lessor_job_list granted;
                int pair = round % N_PAIRS;

                route.site_id.n = (size_t)snprintf(site, sizeof(site), "site-%d", pair);
                c->result = lessor_routing_claim(c->probe->store, &wire, arena, &granted, NULL);
                if (c->result == 0)
                        c->granted[pair] += (unsigned)granted.n;
                lessor_arena_clear(arena);
        }
        lessor_arena_free(arena);
        return NULL;
}

static int two_threads_never_get_one_job(struct lessor_contract_probe *p)
{
        struct claimer claimers[N_THREADS] = {0};
        size_t n_started = 0;

        for (int i = 0; i < N_PAIRS; i++) {
                char site[16];

                snprintf(site, sizeof(site), "site-%d", i);
                TRY(put(p, site, "job", ALICE));
        }
        for (; n_started < N_THREADS; n_started++) {
                struct claimer *c = &claimers[n_started];

                c->probe = p;
                snprintf(c->runner, sizeof(c->runner), "runner-%zu", n_started);
                if (pthread_create(&c->thread, NULL, claim_all, c) != 0)
                        break;
        }
        for (size_t i = 0; i < n_started; i++)
                pthread_join(claimers[i].thread, NULL);
        EXPECT(p, n_started == N_THREADS, "a thread could not be started");
        for (int i = 0; i < N_PAIRS; i++) {
                unsigned n = 0;

                for (size_t k = 0; k < N_THREADS; k++) {
                        EXPECT(p, claimers[k].result == 0, "a claim failed: %s",
                               lessor_error_name(claimers[k].result));
                        n += claimers[k].granted[i];
                }
                EXPECT(p, n == 1, "the job of pair %d was granted %u times", i, n);
        }
        return 0;
}

/* --- durability and serialising, as far as one process can show them --- */

static void told(void *context, int result)
{
        (void)context;
        (void)result;
}

static int a_ticket_of_nothing_needs_no_waiting(struct lessor_contract_probe *p)
{
        int r = lessor_routing_when_durable(p->store, (struct lessor_ticket){0}, told, NULL);

        EXPECT(p, r == 1, "a ticket of 0 is waited for");
        TRY(expect_code(p, "check", lessor_routing_check(p->store), 0));
        return 0;
}

static int reopen(struct lessor_contract_probe *p)
{
        return expect_code(p, "reopen", p->options->reopen(p->options->context, &p->listener, &p->store), 0);
}

static int what_was_answered_is_there_after_reopening(struct lessor_contract_probe *p)
{
        static const char *const ids[] = {"done", "running", "ready", "awaiting"};
        struct lessor_lease_ref leases[ARRAY_SIZE(ids)];
        struct lessor_result_list results;
        struct lessor_job *before = lessor_arena_array(p->arena, ARRAY_SIZE(ids), sizeof(*before));
        struct lessor_job after;
        struct lessor_job_list jobs;
        struct lessor_slice payload;

        EXPECT(p, before != NULL, "out of memory");
        for (size_t i = 0; i < ARRAY_SIZE(ids); i++) {
                TRY(bring_to(p, ids[i], (enum lessor_job_state)(LESSOR_JOB_DONE - i), &leases[i]));
                TRY(get(p, SITE, ids[i], &before[i]));
        }
        TRY(put_all(p, "queued"));
        TRY(reopen(p));
        for (size_t i = 0; i < ARRAY_SIZE(ids); i++) {
                TRY(get(p, SITE, ids[i], &after));
                EXPECT(p,
                       after.state == before[i].state &&
                               lessor_slice_equal(after.lease_id, before[i].lease_id) &&
                               after.lease_expires_ms == before[i].lease_expires_ms &&
                               after.awaiting_until_ms == before[i].awaiting_until_ms &&
                               lessor_slice_equal(after.device.identity, before[i].device.identity) &&
                               after.enqueued_ms == before[i].enqueued_ms,
                       "%s came back changed", ids[i]);
        }
        TRY(expect_code(p, "jobs", lessor_routing_jobs(p->store, NULL, SIZE_MAX, p->arena, &jobs, NULL), 0));
        TRY(expect_ids(p, "jobs", jobs.items, jobs.n, "done running ready awaiting queued"));
        TRY(expect_code(p, "take_payload", fetch(p, R1, leases[1], &payload), 0));
        EXPECT(p, lessor_slice_equal(payload, LESSOR_SLICE("{\"payload\":1}")),
               "a payload came back changed");
        TRY(expect_code(p, "finished",
                        lessor_routing_finished(p->store, text_of(SITE), SIZE_MAX, p->arena, &results, NULL),
                        0));
        EXPECT(p,
               results.n == 1 &&
                       lessor_slice_equal(results.items[0].envelope.json, LESSOR_SLICE("{\"result\":1}")),
               "a result came back changed");
        return claim_gets(p, &(struct ask){.runner = R2}, "queued", NULL);
}

static int refusals_and_presence_are_there_after_reopening(struct lessor_contract_probe *p)
{
        struct lessor_presence_list list;
        struct lessor_lease_ref lease;
        int64_t now_ms;
        size_t n;

        TRY(bring_to(p, "refused", LESSOR_JOB_AWAITING, &lease));
        TRY(release(p, R1, lease, true, 0, &n));
        TRY(put_all(p, "barred cancelled"));
        TRY(now(p, &now_ms));
        {
                struct lessor_job_list granted;

                TRY(claim_gets(p, &(struct ask){.runner = R1, .max = 1}, "barred", &granted));
                TRY(release(p, R1, lease_ref("barred", granted.items[0].lease_id), false, now_ms + 600000,
                            &n));
        }
        TRY(expect_code(p, "cancel",
                        lessor_routing_cancel(p->store, text_of(SITE), text_of("cancelled"), NULL), 0));
        TRY(see(p, "runner-z", ALICE, "k", "[1]", "[]"));
        TRY(see(p, "runner-a", ALICE, "k", "[2]", "[]"));
        TRY(reopen(p));
        TRY(claim_gets(p, &(struct ask){.runner = R1}, "", NULL));
        TRY(claim_gets(p, &(struct ask){.runner = R2}, "refused barred", NULL));
        TRY(expect_code(p, "everyone", lessor_routing_everyone(p->store, p->arena, &list, NULL), 0));
        EXPECT(p,
               list.n == 2 && lessor_slice_equal(list.items[0].runner_id, text_of("runner-z")) &&
                       lessor_slice_equal(list.items[1].capabilities, text_of("[2]")),
               "presence came back changed");
        return 0;
}

static int a_stuck_job_sticks_after_reopening(struct lessor_contract_probe *p)
{
        TRY(put_all(p, "a"));
        TRY(claim_gets(p, &(struct ask){.runner = R1}, "a", NULL));
        advance(p, LESSOR_AWAITING_PAYLOAD_MS);
        TRY(sweep(p, &(struct lessor_swept){0}));
        TRY(reopen(p));
        TRY(claim_gets(p, &(struct ask){.runner = R2}, "", NULL));
        return claim_gets(p, &(struct ask){.runner = R1}, "a", NULL);
}

static int an_unreadable_stub_is_not_handed_out(struct lessor_contract_probe *p)
{
        struct lessor_slice raw =
                LESSOR_SLICE("{\"id\":\"old\",\"kind\":\"llm.generate\",\"owner\":\"alice\"}");

        TRY(put_all(p, "good old"));
        TRY(expect_code(p, "write_raw_stub",
                        p->options->write_raw_stub(p->options->context, &p->store, text_of(SITE),
                                                   text_of("old"), raw),
                        0));
        TRY(claim_gets(p, &(struct ask){.runner = R1}, "good", NULL));
        return state_is(p, SITE, "old", LESSOR_JOB_QUEUED);
}

static const struct lessor_contract_case cases[] = {
        {"jobs_lists_the_oldest_first", "jobs", 0, jobs_lists_the_oldest_first},
        {"awaiting_is_one_sites_in_enqueue_order", "awaiting", 0, awaiting_is_one_sites_in_enqueue_order},
        {"finished_stops_at_its_bound_but_gives_one", "finished", 0,
         finished_stops_at_its_bound_but_gives_one},
        {"the_listener_hears_what_a_site_waits_for", "listener (lessor's own)", 0,
         the_listener_hears_what_a_site_waits_for},
        {"the_figures_add_up", "stats (lessor's own)", 0, the_figures_add_up},
        {"a_device_is_remembered_with_its_first_keys", "seen, presence", 0,
         a_device_is_remembered_with_its_first_keys},
        {"everyone_is_listed_by_first_sight", "everyone", 0, everyone_is_listed_by_first_sight},
        {"presence_moves_with_the_clock_and_never_expires", "seen, presence", LESSOR_CONTRACT_NEEDS_ADVANCE,
         presence_moves_with_the_clock_and_never_expires},
        {"two_threads_never_get_one_job", "claim, CLAIM_ATOMIC", 0, two_threads_never_get_one_job},
        {"a_ticket_of_nothing_needs_no_waiting", "durability (lessor's own)", 0,
         a_ticket_of_nothing_needs_no_waiting},
        {"what_was_answered_is_there_after_reopening", "durability (lessor's own)",
         LESSOR_CONTRACT_NEEDS_REOPEN, what_was_answered_is_there_after_reopening},
        {"refusals_and_presence_are_there_after_reopening", "durability (lessor's own)",
         LESSOR_CONTRACT_NEEDS_REOPEN, refusals_and_presence_are_there_after_reopening},
        {"a_stuck_job_sticks_after_reopening", "durability (lessor's own)",
         LESSOR_CONTRACT_NEEDS_REOPEN | LESSOR_CONTRACT_NEEDS_ADVANCE, a_stuck_job_sticks_after_reopening},
        {"an_unreadable_stub_is_not_handed_out", "serialising stores", LESSOR_CONTRACT_NEEDS_RAW_STUB,
         an_unreadable_stub_is_not_handed_out},
};
const struct case_list store_cases = {cases, ARRAY_SIZE(cases)};
