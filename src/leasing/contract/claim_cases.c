/* SPDX-License-Identifier: MIT */
/* Claims, holds, extensions and completions. */
#include "probe.h"

static int nothing_claimable_is_no_error(probe_t *p)
{
        struct machine m;

        TRY(join(p, NULL, &m));
        return probe_claim_gets_nothing(p, &m, LESSOR_BAR_NONE); /* R038 */
}

static int a_grant_names_the_lease(probe_t *p)
{
        struct lessor_lease_grant grant;
        struct lessor_attempt attempt;
        struct lessor_lease now;
        struct machine m;
        int64_t now_ms;

        TRY(held_task(p, &m, &grant));
        EXPECT_CODE(p, lessor_lease_now(p->store, &now_ms), 0);
        EXPECT(p,
               text_is(grant.lease.name.repo, REPO) && text_is(grant.lease.tier, TIER) &&
                       grant.lease.compute_size.p == NULL && text_is(grant.lease.event, "{\"version\":2}"),
               "a field is wrong");
        EXPECT(p, grant.lease.deadline_ms <= now_ms + VISIBILITY && grant.lease.deadline_ms > now_ms,
               "the deadline is wrong"); /* R051 */
        EXPECT(p, grant.lease.attempt.n == 36 && grant.lease.claim_number == 1,
               "the attempt is wrong"); /* R052 */
        TRY(look(p, &grant.lease, &now));
        EXPECT(p,
               lessor_slice_equal(now.attempt, grant.lease.attempt) &&
                       lessor_slice_equal(now.claimed_by, m.id),
               "the record does not say what the grant says");
        TRY(last_attempt(p, &grant.lease, &attempt));
        EXPECT(p, attempt.state == LESSOR_ATTEMPT_RUNNING && attempt.started_ms == now.claimed_ms,
               "the attempt is not running");
        return probe_hear(p, LESSOR_EVENT_CLAIMED, 1);
}

static int a_function_has_no_attempt(probe_t *p)
{
        struct lessor_lease_grant grant;
        struct lessor_lease lease;
        struct machine m;

        TRY(join(p, NULL, &m));
        TRY(submit(p, &(struct work){.mode = LESSOR_LEASE_FUNCTION}, &lease));
        TRY(probe_claim_gets(p, &m, &lease, &grant));
        EXPECT(p, grant.lease.attempt.p == NULL, "a function has an attempt"); /* R052 */
        return probe_complete(p, &m, &lease, LESSOR_COMPLETED_RECORDED);
}

static int a_lease_is_granted_once(probe_t *p)
{
        struct lessor_lease_grant grant;
        struct machine a, b;

        TRY(join(p, NULL, &b));
        TRY(held_task(p, &a, &grant));
        TRY(probe_claim_gets_nothing(p, &b, LESSOR_BAR_NONE)); /* R040 */
        return probe_claim_gets_nothing(p, &a, LESSOR_BAR_NONE);
}

#define N_RACERS 4
#define N_RACES  200

struct racer {
        probe_t *p;
        struct machine m;
        struct lessor_arena *arena;
        uint64_t sum;
        unsigned n_granted;
        int result;
};

static void *race(void *context)
{
        struct racer *r = context;
        struct lessor_lease_claim c = {.rack_id = r->m.id,
                                       .boot_id = lessor_slice_of(r->m.boot),
                                       .tiers = r->m.tiers,
                                       .n_tiers = r->m.n_tiers};

        while (r->result == 0) {
                struct lessor_lease_grant grant;

                r->result = lessor_lease_claim(r->p->store, &c, r->arena, &grant, NULL);
                if (r->result < 0 || !grant.granted)
                        break;
                r->n_granted++;
                r->sum += grant.lease.seq;
                lessor_arena_clear(r->arena);
        }
        return NULL;
}

static int of_racing_claimants_one_wins(probe_t *p)
{
        struct racer racers[N_RACERS] = {0};
        pthread_t threads[N_RACERS];
        uint64_t sum = 0, granted = 0;
        unsigned n = 0;

        for (size_t i = 0; i < N_RACERS; i++) {
                racers[i].p = p;
                racers[i].arena = lessor_arena_new();
                EXPECT(p, racers[i].arena != NULL, "out of memory");
                TRY(join(p, NULL, &racers[i].m));
        }
        for (size_t i = 0; i < N_RACES; i++) {
                struct lessor_lease lease;

                TRY(submit(p, &(struct work){0}, &lease));
                sum += lease.seq;
        }
        for (size_t i = 0; i < N_RACERS; i++)
                EXPECT(p, pthread_create(&threads[i], NULL, race, &racers[i]) == 0, "no thread");
        for (size_t i = 0; i < N_RACERS; i++) {
                pthread_join(threads[i], NULL);
                n += racers[i].n_granted;
                granted += racers[i].sum;
                lessor_arena_free(racers[i].arena);
                EXPECT(p, racers[i].result == 0, "a claim said %s", lessor_error_name(racers[i].result));
        }
        EXPECT(p, n == N_RACES && granted == sum, "%u grants of %d leases", n, N_RACES); /* R040 */
        return 0;
}

static int only_polled_tiers_are_granted(probe_t *p)
{
        struct lessor_lease lease;
        struct machine m;

        TRY(join(p, "py node", &m));
        TRY(submit(p, &(struct work){.tier = "c"}, &lease));
        TRY(probe_claim_gets_nothing(p, &m, LESSOR_BAR_NONE)); /* R041 */
        TRY(submit(p, &(struct work){.tier = "node"}, &lease));
        return probe_claim_gets(p, &m, &lease, NULL);
}

static int other_event_versions_are_never_granted(probe_t *p)
{
        struct lessor_lease lease;
        struct machine m;

        TRY(join(p, NULL, &m));
        TRY(submit(p, &(struct work){.version = 1}, &lease));
        TRY(probe_claim_gets_nothing(p, &m, LESSOR_BAR_NONE)); /* R046 */
        return look(p, &lease, &lease);
}

static int the_older_comes_first(probe_t *p)
{
        struct lessor_lease old, young;
        struct machine m;

        TRY(join(p, NULL, &m));
        TRY(submit(p, &(struct work){.owner = "a", .task = "z", .repo = "other"}, &old));
        TRY(probe_advance(p, 1));
        TRY(submit(p, &(struct work){.owner = "a", .task = "a"}, &young));
        TRY(probe_claim_gets(p, &m, &old, NULL)); /* R048 */
        return probe_claim_gets(p, &m, &young, NULL);
}

static int owners_take_turns(probe_t *p)
{
        struct lessor_lease a1, a2, a3, b1, c1;
        struct machine m;

        TRY(join(p, "c d", &m));
        TRY(submit(p, &(struct work){.owner = "alice"}, &a1));
        TRY(probe_advance(p, 1));
        TRY(submit(p, &(struct work){.owner = "alice"}, &a2));
        TRY(submit(p, &(struct work){.owner = "bob", .tier = "d"}, &b1));
        TRY(probe_claim_gets(p, &m, &a1, NULL));
        TRY(probe_claim_gets(p, &m, &b1, NULL)); /* R049 */
        TRY(submit(p, &(struct work){.owner = "carol"}, &c1));
        TRY(probe_advance(p, 1));
        TRY(submit(p, &(struct work){.owner = "alice"}, &a3));
        TRY(probe_claim_gets(p, &m, &c1, NULL));
        TRY(probe_claim_gets(p, &m, &a2, NULL));
        return probe_claim_gets(p, &m, &a3, NULL);
}

static int a_losing_poll_does_not_move_the_turn(probe_t *p)
{
        struct lessor_lease a1, a2, b1;
        struct machine m, other;

        TRY(join(p, NULL, &m));
        TRY(join(p, "elsewhere", &other));
        TRY(submit(p, &(struct work){.owner = "alice"}, &a1));
        TRY(probe_advance(p, 1));
        TRY(submit(p, &(struct work){.owner = "alice"}, &a2));
        TRY(submit(p, &(struct work){.owner = "bob"}, &b1));
        TRY(probe_claim_gets(p, &m, &a1, NULL));
        TRY(probe_claim_gets_nothing(p, &other, LESSOR_BAR_NONE));
        return probe_claim_gets(p, &m, &b1, NULL);
}

static int a_floor_keeps_old_bundles_out(probe_t *p)
{
        struct lessor_lease high, low;
        struct machine m;

        TRY(join(p, NULL, &m)); /* 0.5.0+e3.1.0.85 */
        TRY(submit(p, &(struct work){.floor = "1.0.86"}, &high));
        TRY(probe_claim_gets_nothing(p, &m, LESSOR_BAR_FLOOR)); /* R047 */
        TRY(submit(p, &(struct work){.floor = "1.0.9"}, &low));
        TRY(probe_claim_gets(p, &m, &low, NULL));
        m.version = "0.6.0+e3.1.0.86-rc.1";
        TRY(beat(p, &m, NULL));
        TRY(probe_claim_gets(p, &m, &high, NULL));
        TRY(submit(p, &(struct work){.floor = "0.0.1"}, &low));
        m.version = "0.6.0";
        TRY(beat(p, &m, NULL));
        return probe_claim_gets_nothing(p, &m, LESSOR_BAR_FLOOR);
}

static int a_filter_confines_a_claim(probe_t *p)
{
        struct lessor_lease a, b, c;
        struct lessor_slice repo = LESSOR_SLICE("two"), size = LESSOR_SLICE("serverless");
        struct lessor_lease_grant grant;
        struct lessor_lease_list list;
        struct machine m;

        TRY(join(p, NULL, &m));
        TRY(submit(p, &(struct work){.repo = "one", .size = "large"}, &a));
        TRY(probe_advance(p, 1));
        TRY(submit(p, &(struct work){.repo = "one"}, &b));
        TRY(probe_advance(p, 1));
        TRY(submit(p, &(struct work){.repo = "two"}, &c));

        struct lessor_lease_claim claim = {
                .rack_id = m.id, .boot_id = lessor_slice_of(m.boot), .tiers = m.tiers, .n_tiers = m.n_tiers};
        EXPECT_CODE(p, lessor_lease_candidates(p->store, &claim, 10, p->arena, &list, NULL), 0);
        EXPECT(p,
               list.n == 3 && list.items[0].seq == a.seq && list.items[1].seq == b.seq &&
                       list.items[2].seq == c.seq && list.items[2].has_event,
               "the candidates are wrong");
        EXPECT_CODE(p, lessor_lease_candidates(p->store, &claim, 2, p->arena, &list, NULL), 0);
        EXPECT(p, list.n == 2, "too many candidates");
        claim.filter = (struct lessor_lease_filter){.repos = &repo, .n_repos = 1};
        EXPECT_CODE(p, lessor_lease_claim(p->store, &claim, p->arena, &grant, NULL), 0);
        EXPECT(p, grant.granted && grant.lease.seq == c.seq, "the repo's lease was not granted");
        claim.filter = (struct lessor_lease_filter){.compute_sizes = &size, .n_compute_sizes = 1};
        EXPECT_CODE(p, lessor_lease_claim(p->store, &claim, p->arena, &grant, NULL), 0);
        EXPECT(p, grant.granted && grant.lease.seq == b.seq, "the size's lease was not granted");
        claim.filter = (struct lessor_lease_filter){.only = &b.name, .n_only = 1};
        EXPECT_CODE(p, lessor_lease_claim(p->store, &claim, p->arena, &grant, NULL), 0);
        EXPECT(p, !grant.granted, "a lease that is not on the list was granted");
        claim.filter = (struct lessor_lease_filter){.only = &a.name, .n_only = 1};
        EXPECT_CODE(p, lessor_lease_claim(p->store, &claim, p->arena, &grant, NULL), 0);
        EXPECT(p, grant.granted && grant.lease.seq == a.seq, "the lease on the list was not granted");
        return 0;
}

static int a_lease_is_granted_again_only_after_its_deadline(probe_t *p)
{
        struct lessor_lease_grant first, second;
        struct lessor_attempt_list attempts;
        struct machine a, b;
        bool stop;

        TRY(join(p, NULL, &b));
        TRY(held_task(p, &a, &first));
        TRY(probe_advance(p, VISIBILITY));
        TRY(probe_claim_gets_nothing(p, &b, LESSOR_BAR_NONE)); /* R053: strictly */
        TRY(probe_advance(p, 1));
        TRY(stops(p, &a, &first.lease, &stop));
        EXPECT(p, !stop, "its claimant must stop before anybody took it up"); /* R062 */
        TRY(probe_claim_gets(p, &b, &first.lease, &second));
        EXPECT(p, !lessor_slice_equal(first.lease.attempt, second.lease.attempt), "the attempt is the same");
        EXPECT_CODE(p, lessor_lease_attempts(p->store, &first.lease.name, p->arena, &attempts, NULL), 0);
        EXPECT(p,
               attempts.n == 2 && attempts.items[0].state == LESSOR_ATTEMPT_INTERRUPTED &&
                       attempts.items[0].cause == LESSOR_CAUSE_RECLAIMED &&
                       attempts.items[1].state == LESSOR_ATTEMPT_RUNNING,
               "the attempts are wrong"); /* R054 */
        TRY(stops(p, &a, &first.lease, &stop));
        EXPECT(p, stop, "the earlier claimant goes on");                      /* R060 */
        TRY(probe_complete(p, &a, &first.lease, LESSOR_COMPLETED_DISCARDED)); /* R071 */
        TRY(probe_complete(p, &b, &first.lease, LESSOR_COMPLETED_RECORDED));
        return probe_hear(p, LESSOR_EVENT_CLAIMABLE, 2);
}

static int an_earlier_claimant_is_barred_under_its_boot(probe_t *p)
{
        struct lessor_lease_grant grant;
        struct machine m;

        TRY(held_task(p, &m, &grant));
        TRY(probe_advance(p, VISIBILITY + 1));
        TRY(probe_claim_gets_nothing(p, &m, LESSOR_BAR_CLAIMED));
        m.boot = "boot-2";
        TRY(probe_claim_gets(p, &m, &grant.lease, &grant)); /* a fleet of one */
        EXPECT(p, grant.lease.claim_number == 2, "the claim is number %u", grant.lease.claim_number);
        return probe_complete(p, &m, &grant.lease, LESSOR_COMPLETED_RECORDED);
}

static int one_that_names_its_attempts_takes_up_its_own(probe_t *p)
{
        struct lessor_lease_grant first, second;
        struct lessor_lease_holder holder;
        struct machine m;
        int64_t deadline_ms;

        TRY(held_task(p, &m, &first));
        TRY(probe_advance(p, VISIBILITY + 1));
        m.names_attempts = true;
        TRY(probe_claim_gets(p, &m, &first.lease, &second));
        holder = holder_of(&m, &first.lease);
        EXPECT_CODE(p, lessor_lease_extend(p->store, &holder, &deadline_ms, NULL), LESSOR_E_NOT_HELD);
        holder.attempt = first.lease.attempt;
        EXPECT_CODE(p, lessor_lease_extend(p->store, &holder, &deadline_ms, NULL), LESSOR_E_NOT_HELD);
        TRY(probe_complete(p, &m, &first.lease, LESSOR_COMPLETED_DISCARDED));
        holder.attempt = second.lease.attempt;
        EXPECT_CODE(p, lessor_lease_extend(p->store, &holder, &deadline_ms, NULL), 0);
        return 0;
}

static int a_function_cannot_be_told_from_its_earlier_call(probe_t *p)
{
        struct lessor_lease lease;
        struct machine m;

        TRY(join(p, NULL, &m));
        m.names_attempts = true;
        TRY(submit(p, &(struct work){.mode = LESSOR_LEASE_FUNCTION}, &lease));
        TRY(probe_claim_gets(p, &m, &lease, NULL));
        TRY(probe_advance(p, VISIBILITY + 1));
        return probe_claim_gets_nothing(p, &m, LESSOR_BAR_CLAIMED);
}

static int an_undelivered_grant_spends_no_attempt(probe_t *p)
{
        struct lessor_lease_grant grant;
        struct lessor_attempt attempt;
        struct lessor_lease lease, now;
        struct machine m;

        TRY(join(p, NULL, &m));
        TRY(submit(p, &(struct work){.limit = 1}, &lease));
        TRY(probe_claim_gets(p, &m, &lease, &grant));
        EXPECT_CODE(p, lessor_lease_undeliver(p->store, &lease.name, 2, NULL), LESSOR_E_NOT_HELD);
        EXPECT_CODE(p, lessor_lease_undeliver(p->store, &lease.name, grant.lease.claim_number, NULL), 0);
        TRY(look(p, &lease, &now));
        EXPECT(p, now.status == LESSOR_LEASE_PENDING && now.attempts_spent == 0 && now.claimed_by.p == NULL,
               "it is not as before");
        TRY(last_attempt(p, &lease, &attempt));
        EXPECT(p, attempt.cause == LESSOR_CAUSE_UNDELIVERED && !attempt.counts, "the attempt counts");
        EXPECT_CODE(p, lessor_lease_undeliver(p->store, &lease.name, 1, NULL), LESSOR_E_NOT_HELD);
        TRY(probe_claim_gets(p, &m, &lease, &grant)); /* the same rack, the same boot, the only attempt */
        EXPECT(p, grant.lease.claim_number == 2, "the claim is number %u", grant.lease.claim_number);
        return probe_complete(p, &m, &lease, LESSOR_COMPLETED_RECORDED);
}

static int the_holder_extends(probe_t *p)
{
        struct lessor_lease_grant grant;
        struct lessor_lease_holder holder, stranger;
        struct machine m, other;
        int64_t deadline_ms;

        TRY(join(p, NULL, &other));
        TRY(held_task(p, &m, &grant));
        holder = holder_of(&m, &grant.lease);
        stranger = holder_of(&other, &grant.lease);
        TRY(probe_advance(p, 40000));
        EXPECT_CODE(p, lessor_lease_extend(p->store, &holder, &deadline_ms, NULL), 0);
        EXPECT(p, deadline_ms == grant.lease.deadline_ms + 40000, "the deadline is wrong"); /* R064 */
        EXPECT_CODE(p, lessor_lease_extend(p->store, &stranger, &deadline_ms, NULL),
                    LESSOR_E_NOT_HELD); /* R065 */
        TRY(probe_advance(p, VISIBILITY + 10));
        EXPECT_CODE(p, lessor_lease_extend(p->store, &holder, &deadline_ms, NULL), 0); /* R066 */
        TRY(probe_claim_gets_nothing(p, &other, LESSOR_BAR_NONE));
        TRY(probe_advance(p, VISIBILITY + 1));
        TRY(beat(p, &m, NULL)); /* R067: a heartbeat alone does not extend */
        TRY(probe_claim_gets(p, &other, &grant.lease, NULL));
        EXPECT_CODE(p, lessor_lease_extend(p->store, &holder, &deadline_ms, NULL), LESSOR_E_NOT_HELD);
        holder.name.lease_id = LESSOR_SLICE("a#b#c");
        EXPECT_CODE(p, lessor_lease_extend(p->store, &holder, &deadline_ms, NULL), LESSOR_E_NOT_HELD);
        return probe_hear(p, LESSOR_EVENT_EXTENDED, 2);
}

static int a_stop_list_keeps_the_order(probe_t *p)
{
        struct lessor_lease_grant grant;
        struct lessor_lease_name names[4];
        struct lessor_index_list list;
        struct lessor_lease waiting;
        struct machine m;

        TRY(held_task(p, &m, &grant));
        TRY(submit(p, &(struct work){0}, &waiting));
        names[0] = names[3] = (struct lessor_lease_name){LESSOR_SLICE(REPO), LESSOR_SLICE("unknown")};
        names[1] = grant.lease.name;
        names[2] = waiting.name;
        EXPECT_CODE(p, lessor_lease_must_stop(p->store, m.id, names, 4, p->arena, &list, NULL), 0);
        EXPECT(p, list.n == 2 && list.items[0] == 0 && list.items[1] == 3, "the list is wrong"); /* R063 */
        return 0;
}

static int the_first_result_stands(probe_t *p)
{
        struct lessor_lease_grant grant;
        struct lessor_lease now;
        struct machine m, other;
        struct lessor_lease_completion late;
        enum lessor_completed how;

        TRY(join(p, NULL, &other));
        TRY(held_task(p, &m, &grant));
        TRY(probe_complete(p, &other, &grant.lease, LESSOR_COMPLETED_DISCARDED));
        TRY(probe_complete(p, &m, &grant.lease, LESSOR_COMPLETED_RECORDED));
        TRY(probe_complete(p, &m, &grant.lease, LESSOR_COMPLETED_IDEMPOTENT)); /* R068 */
        late = (struct lessor_lease_completion){.holder = holder_of(&other, &grant.lease),
                                                .verdict = {.message = LESSOR_SLICE("no")},
                                                .result = LESSOR_SLICE("{}")};
        EXPECT_CODE(p, lessor_lease_complete(p->store, &late, p->arena, &how, &now, NULL), 0);
        EXPECT(p, how == LESSOR_COMPLETED_IDEMPOTENT, "a repeat by another was %d", (int)how); /* R069 */
        TRY(look(p, &grant.lease, &now));
        EXPECT(p, now.status == LESSOR_LEASE_COMPLETED && text_is(now.result, "{\"status\":\"success\"}"),
               "the result changed");
        return probe_hear(p, LESSOR_EVENT_COMPLETED, 1);
}

static int outcomes_are_recorded(probe_t *p)
{
        static const struct {
                struct lessor_verdict verdict;
                enum lessor_attempt_state state;
                bool has_exit_code;
                int64_t exit_code;
        } cases[] = {
                {{.success = true, .output_hash = {"h", 1}, .has_peak_bytes = true, .peak_bytes = 7},
                 LESSOR_ATTEMPT_SUCCESS,
                 false,
                 0},
                {{.has_exit_code = true, .exit_code = 3, .message = {"no", 2}},
                 LESSOR_ATTEMPT_FAILED,
                 true,
                 3}, /* R094 */
                {{0}, LESSOR_ATTEMPT_FAILED, true, -1},
                {{.error = true}, LESSOR_ATTEMPT_ERROR, false, 0},
                {{.cancelled = true, .success = true, .output_hash = {"h", 1}},
                 LESSOR_ATTEMPT_CANCELLED,
                 false,
                 0}, /* R093 */
        };

        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                struct lessor_lease_completion c = {.verdict = cases[i].verdict,
                                                    .result = LESSOR_SLICE("{}")};
                struct lessor_lease_grant grant;
                struct lessor_attempt a;
                enum lessor_completed how;
                struct machine m;

                TRY(held_task(p, &m, &grant));
                c.holder = holder_of(&m, &grant.lease);
                EXPECT_CODE(p, lessor_lease_complete(p->store, &c, p->arena, &how, NULL, NULL), 0);
                TRY(last_attempt(p, &grant.lease, &a));
                EXPECT(p,
                       a.state == cases[i].state && a.has_exit_code == cases[i].has_exit_code &&
                               a.exit_code == cases[i].exit_code && a.ended_ms != 0 &&
                               a.has_peak_bytes == cases[i].verdict.has_peak_bytes &&
                               lessor_slice_equal(a.reason, cases[i].verdict.message),
                       "case %zu reads %d", i, (int)a.state); /* R090 */
        }
        return 0;
}

static int a_task_that_succeeds_has_an_output(probe_t *p)
{
        struct lessor_lease_completion c = {.verdict = {.success = true}, .result = LESSOR_SLICE("{}")};
        struct lessor_lease_grant grant;
        enum lessor_completed how;
        struct lessor_lease now;
        struct machine m;

        TRY(held_task(p, &m, &grant));
        c.holder = holder_of(&m, &grant.lease);
        EXPECT_CODE(p, lessor_lease_complete(p->store, &c, p->arena, &how, NULL, NULL),
                    LESSOR_E_INVALID); /* R087 */
        TRY(look(p, &grant.lease, &now));
        EXPECT(p, now.status == LESSOR_LEASE_CLAIMED, "it is no longer claimed");
        return 0;
}

static int recent_leases_follow_their_claimant(probe_t *p)
{
        struct lessor_lease_grant first, second;
        struct lessor_lease_list list;
        struct lessor_lease lease;
        struct machine a, b;

        TRY(join(p, NULL, &b));
        TRY(held_task(p, &a, &first));
        TRY(probe_advance(p, 1));
        TRY(submit(p, &(struct work){0}, &lease));
        TRY(probe_claim_gets(p, &a, &lease, &second));
        TRY(probe_complete(p, &a, &lease, LESSOR_COMPLETED_RECORDED));
        EXPECT_CODE(p, lessor_lease_recent(p->store, a.id, 10, p->arena, &list, NULL), 0);
        EXPECT(p, list.n == 2 && list.items[0].seq == lease.seq && list.items[1].seq == first.lease.seq,
               "the list is wrong");
        TRY(probe_advance(p, VISIBILITY));
        TRY(probe_claim_gets(p, &b, &first.lease, NULL));
        EXPECT_CODE(p, lessor_lease_recent(p->store, a.id, 10, p->arena, &list, NULL), 0);
        EXPECT(p, list.n == 1 && list.items[0].seq == lease.seq, "what another took over stays");
        EXPECT_CODE(p, lessor_lease_recent(p->store, b.id, 10, p->arena, &list, NULL), 0);
        EXPECT(p, list.n == 1 && list.items[0].seq == first.lease.seq, "what it took over is not there");
        return 0;
}

static int it_says_why_a_lease_is_not_placed(probe_t *p)
{
        struct machine wrong, draining, fit, floor;
        struct lessor_lease_why_list list;
        struct lessor_lease lease;
        static const enum lessor_lease_bar bars[] = {LESSOR_BAR_TIER, LESSOR_BAR_DRAINING, LESSOR_BAR_NONE,
                                                     LESSOR_BAR_FLOOR};

        TRY(join(p, "py", &wrong));
        TRY(join(p, NULL, &draining));
        TRY(join(p, NULL, &fit));
        TRY(join(p, NULL, &floor));
        floor.version = "0.9.0";
        TRY(beat(p, &floor, NULL));
        EXPECT_CODE(p, lessor_rack_drain(p->store, draining.id, true, NULL), 0);
        TRY(submit(p, &(struct work){.floor = "1.0.0"}, &lease));
        EXPECT_CODE(p, lessor_lease_explain(p->store, &lease.name, p->arena, &list, NULL), 0);
        EXPECT(p, list.n == 4, "%zu racks", list.n);
        for (size_t i = 0; i < 4; i++)
                EXPECT(p, list.items[i].bar == bars[i], "rack %zu: %d", i, (int)list.items[i].bar);
        return 0;
}

const struct lessor_lease_contract_case claim_cases[] = {
        {"nothing_claimable_is_no_error", "R038", 0, nothing_claimable_is_no_error},
        {"a_grant_names_the_lease", "R039 R051 R052", 0, a_grant_names_the_lease},
        {"a_function_has_no_attempt", "R052", 0, a_function_has_no_attempt},
        {"a_lease_is_granted_once", "R040", 0, a_lease_is_granted_once},
        {"of_racing_claimants_one_wins", "R040", 0, of_racing_claimants_one_wins},
        {"only_polled_tiers_are_granted", "R041", 0, only_polled_tiers_are_granted},
        {"other_event_versions_are_never_granted", "R046", 0, other_event_versions_are_never_granted},
        {"the_older_comes_first", "R048", NEEDS_ADVANCE, the_older_comes_first},
        {"owners_take_turns", "R049", NEEDS_ADVANCE, owners_take_turns},
        {"a_losing_poll_does_not_move_the_turn", "section 9, fairness", NEEDS_ADVANCE,
         a_losing_poll_does_not_move_the_turn},
        {"a_floor_keeps_old_bundles_out", "R047, section 9", 0, a_floor_keeps_old_bundles_out},
        {"a_filter_confines_a_claim", "R047", NEEDS_ADVANCE, a_filter_confines_a_claim},
        {"a_lease_is_granted_again_only_after_its_deadline", "R053 R054 R060 R062 R071", NEEDS_ADVANCE,
         a_lease_is_granted_again_only_after_its_deadline},
        {"an_earlier_claimant_is_barred_under_its_boot", "section 17, fleet of one", NEEDS_ADVANCE,
         an_earlier_claimant_is_barred_under_its_boot},
        {"one_that_names_its_attempts_takes_up_its_own", "section 19, attempt", NEEDS_ADVANCE,
         one_that_names_its_attempts_takes_up_its_own},
        {"a_function_cannot_be_told_from_its_earlier_call", "section 20, attempt", NEEDS_ADVANCE,
         a_function_cannot_be_told_from_its_earlier_call},
        {"an_undelivered_grant_spends_no_attempt", "section 20, dead poll", 0,
         an_undelivered_grant_spends_no_attempt},
        {"the_holder_extends", "R064 R065 R066 R067", NEEDS_ADVANCE, the_holder_extends},
        {"a_stop_list_keeps_the_order", "R063", 0, a_stop_list_keeps_the_order},
        {"the_first_result_stands", "R068 R069", 0, the_first_result_stands},
        {"outcomes_are_recorded", "R090 R093 R094, section 10", 0, outcomes_are_recorded},
        {"a_task_that_succeeds_has_an_output", "R087", 0, a_task_that_succeeds_has_an_output},
        {"recent_leases_follow_their_claimant", "section 8, listRecentByRack", NEEDS_ADVANCE,
         recent_leases_follow_their_claimant},
        {"it_says_why_a_lease_is_not_placed", "control API, why", 0, it_says_why_a_lease_is_not_placed},
};
const size_t n_claim_cases = sizeof(claim_cases) / sizeof(claim_cases[0]);
