/* SPDX-License-Identifier: MIT */
/*
 * Random histories of leases and racks, lived through by the model and by every lease store at once.
 *
 * usage: lease_sim [--seed N] [--seeds N] [--steps N] [--store KIND]...
 *
 * Without --seed the first seed is 1, so that a run is the same every time; --seeds says how many follow.
 */
#include <ftw.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/macro.h"
#include "lease_model.h"
#include "lease_store_kinds.h"
#include "lessor/rack_registry.h"

#define MAX_STORES 4

struct place {
        const struct lease_store_kind *kind;
        struct lessor_lease_store *store;
        char directory[256];
        /* What the store calls the model's leases, attempts and racks. */
        char (*leases)[160];
        char (*attempts)[LEASE_MODEL_ATTEMPTS][40];
        char racks[LEASE_MODEL_RACKS][40];
};

struct sim {
        uint64_t dice, seed, step;
        const char *op;
        struct clock_manual clock;
        struct lease_model model;
        struct lessor_arena *arena;
        struct place places[MAX_STORES];
        size_t n_places;
        unsigned n_names;
        bool failed;
};

static uint64_t roll(struct sim *s, uint64_t n)
{
        uint64_t x;

        s->dice += UINT64_C(0x9e3779b97f4a7c15);
        x = s->dice;
        x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
        x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
        return (x ^ (x >> 31)) % n;
}

static int die(struct sim *s, int n)
{
        return (int)roll(s, (uint64_t)n);
}

static void fail(struct sim *s, const struct place *p, const char *format, ...)
        __attribute__((format(printf, 3, 4)));
static void fail(struct sim *s, const struct place *p, const char *format, ...)
{
        va_list args;

        if (s->failed)
                return;
        s->failed = true;
        fprintf(stderr, "lease_sim: %s: seed %llu, step %llu (%s): ", p->kind->name,
                (unsigned long long)s->seed, (unsigned long long)s->step, s->op);
        va_start(args, format);
        vfprintf(stderr, format, args);
        va_end(args);
        fprintf(stderr, "\nlease_sim: again: lease_sim --seed %llu --steps %llu\n",
                (unsigned long long)s->seed, (unsigned long long)s->step + 1);
}

static void expect(struct sim *s, const struct place *p, const char *what, int64_t got, int64_t want)
{
        if (got != want)
                fail(s, p, "%s is %lld, and the model says %lld", what, (long long)got, (long long)want);
}

static int64_t now_ms(struct sim *s)
{
        return clock_now_ms(&s->clock.clock);
}

static struct lessor_slice word(struct sim *s, const char *what, int number)
{
        struct lessor_slice copy = {0};
        char text[64];
        int n = snprintf(text, sizeof(text), "%s-%d", what, number);

        if (lessor_arena_copy(s->arena, (struct lessor_slice){text, (size_t)n}, &copy) < 0)
                abort();
        return copy;
}

static void keep(char *to, size_t cap, struct lessor_slice text)
{
        snprintf(to, cap, "%.*s", (int)text.n, text.p == NULL ? "" : text.p);
}

static struct lessor_lease_name name_of(struct sim *s, const struct place *p, int lease)
{
        if (lease < 0)
                return (struct lessor_lease_name){LESSOR_SLICE("repo-0"), LESSOR_SLICE("never")};
        return (struct lessor_lease_name){word(s, "repo", s->model.leases[lease].repo),
                                          lessor_slice_of(p->leases[lease])};
}

static struct lessor_lease_holder holder_of(struct sim *s, const struct place *p, int lease, int rack,
                                            int attempt)
{
        struct lessor_lease_holder h = {.name = name_of(s, p, lease),
                                        .rack_id = lessor_slice_of(p->racks[rack])};

        if (attempt > 0)
                h.attempt = lease >= 0 && p->attempts[lease][attempt - 1][0] != '\0'
                                    ? lessor_slice_of(p->attempts[lease][attempt - 1])
                                    : LESSOR_SLICE("no attempt");
        return h;
}

/* A lease made lately, or -1. */
static int some_lease(struct sim *s)
{
        int n = s->model.n_leases, back;

        if (n == 0 || die(s, 30) == 0)
                return -1;
        back = die(s, die(s, 4) == 0 ? n : n < 12 ? n : 12);
        return n - 1 - back;
}

/* A rack that there was, the newest mostly. */
static int some_rack(struct sim *s)
{
        int n = s->model.n_racks;

        return die(s, 8) == 0 ? die(s, n) : n - 1 - die(s, n < 3 ? n : 3);
}

/* Who speaks about a lease: its claimant mostly, naming its attempt or not, or another. */
static void some_speaker(struct sim *s, int lease, int *ret_rack, int *ret_attempt)
{
        const struct lease_model_lease *l = &s->model.leases[lease < 0 ? 0 : lease];

        *ret_rack = some_rack(s);
        *ret_attempt = 0;
        if (lease < 0 || l->n_attempts == 0)
                return;
        if (die(s, 5) != 0)
                *ret_rack = l->attempts[l->current >= 0 ? l->current : 0].rack;
        if (die(s, 2) == 0)
                *ret_attempt = die(s, 4) == 0 || l->current < 0 ? 1 + die(s, l->n_attempts) : l->current + 1;
}

/* --- steps --- */

static void step_create(struct sim *s)
{
        struct lease_model_submission from = {
                .repo = die(s, 2),
                .task = die(s, 5),
                .tier = die(s, LEASE_MODEL_TIERS),
                .owner = die(s, 3),
                .run = die(s, 3) - 1,
                .version = die(s, 12) == 0 ? 1 : 2,
                .floor = die(s, 4) == 0 ? 90 : 0,
                .key = die(s, 8) - 3,
                .function = die(s, 5) == 0,
                .limit = (unsigned)die(s, 3),
                .ttl_ms = die(s, 4) == 0 ? 90000 : 0,
        };
        int lease = -1, want, before = s->model.n_leases;

        if (from.key < -1)
                from.key = -1;
        from.share = from.key >= 0 && die(s, 2) == 0;
        if (s->model.n_leases == LEASE_MODEL_LEASES)
                return;
        want = lease_model_create(&s->model, &from, now_ms(s), &lease);
        for (size_t i = 0; i < s->n_places; i++) {
                struct place *p = &s->places[i];
                struct lessor_lease_submission sub = {
                        .repo = word(s, "repo", from.repo),
                        .workspace = LESSOR_SLICE("w"),
                        .task_name = LESSOR_SLICE("n"),
                        .task_hash = word(s, "task", from.task),
                        .inputs_hash = LESSOR_SLICE("i"),
                        .tier = word(s, "tier", from.tier),
                        .owner = word(s, "owner", from.owner),
                        .mode = from.function ? LESSOR_LEASE_FUNCTION : LESSOR_LEASE_TASK,
                        .event_version = from.version,
                        .event = LESSOR_SLICE("{}"),
                        .ttl_ms = from.ttl_ms,
                        .attempt_limit = from.limit,
                        .share = from.share,
                };
                struct lessor_lease l;
                bool created;
                int r;

                if (from.run >= 0)
                        sub.run = word(s, "run", from.run);
                if (from.floor != 0)
                        sub.floor = LESSOR_SLICE("1.0.90");
                if (from.key >= 0)
                        sub.key = word(s, "key", from.key);
                r = lessor_lease_create(p->store, &sub, s->arena, &l, &created, NULL);
                expect(s, p, "create", r, want);
                if (r < 0 || want < 0)
                        continue;
                expect(s, p, "created", created, lease == before);
                if (created)
                        keep(p->leases[lease], sizeof(p->leases[lease]), l.name.lease_id);
                else if (strncmp(p->leases[lease], l.name.lease_id.p, l.name.lease_id.n) != 0)
                        fail(s, p, "another lease was taken up");
        }
}

static void note_poll(struct sim *s, int rack, const bool *tiers)
{
        struct lease_model_rack *r = &s->model.racks[rack];

        if (!r->registered)
                return;
        memcpy(r->tiers, tiers, sizeof(r->tiers));
        r->seen_ms = now_ms(s);
}

static void step_claim(struct sim *s)
{
        struct lease_model_claim c = {.rack = some_rack(s),
                                      .boot = die(s, 6) == 0,
                                      .repo = die(s, 4) == 0 ? die(s, 2) : -1,
                                      .names = die(s, 3) == 0};
        int lease = -1, want;
        bool kept = false, polls = die(s, 8) != 0;

        for (int i = 0; i < LEASE_MODEL_TIERS; i++)
                c.tiers[i] = die(s, 4) != 0;
        if (polls)
                note_poll(s, c.rack, c.tiers);
        want = lease_model_claim(&s->model, &c, now_ms(s), &lease, &kept);
        for (size_t i = 0; i < s->n_places; i++) {
                struct place *p = &s->places[i];
                struct lessor_slice tiers[LEASE_MODEL_TIERS], repo = word(s, "repo", c.repo);
                struct lessor_lease_claim claim = {.rack_id = lessor_slice_of(p->racks[c.rack]),
                                                   .boot_id = word(s, "boot", c.boot),
                                                   .tiers = tiers,
                                                   .names_attempts = c.names};
                struct lessor_lease_grant g;
                int r;

                for (int t = 0; t < LEASE_MODEL_TIERS; t++)
                        if (c.tiers[t])
                                tiers[claim.n_tiers++] = word(s, "tier", t);
                if (c.repo >= 0)
                        claim.filter = (struct lessor_lease_filter){.repos = &repo, .n_repos = 1};
                if (polls)
                        lessor_rack_poll(p->store, claim.rack_id, tiers, claim.n_tiers, NULL);
                r = lessor_lease_claim(p->store, &claim, s->arena, &g, NULL);
                expect(s, p, "claim", r, want);
                if (r < 0 || want < 0)
                        continue;
                expect(s, p, "granted", g.granted, lease >= 0);
                if (s->failed)
                        return;
                if (!g.granted) {
                        expect(s, p, "whether something kept it", g.bar != LESSOR_BAR_NONE, kept);
                        continue;
                }
                if (!lessor_slice_equal(g.lease.name.lease_id, lessor_slice_of(p->leases[lease])))
                        fail(s, p, "another lease was granted than %d", lease);
                keep(p->attempts[lease][g.lease.claim_number - 1], 40, g.lease.attempt);
        }
}

static void step_extend(struct sim *s)
{
        int lease = some_lease(s), rack, attempt, want;

        some_speaker(s, lease, &rack, &attempt);
        want = lease_model_extend(&s->model, lease, rack, attempt, now_ms(s));
        for (size_t i = 0; i < s->n_places; i++) {
                struct lessor_lease_holder h = holder_of(s, &s->places[i], lease, rack, attempt);
                int64_t deadline_ms;

                expect(s, &s->places[i], "extend",
                       lessor_lease_extend(s->places[i].store, &h, &deadline_ms, NULL), want);
        }
}

static void step_complete(struct sim *s)
{
        static const enum lessor_attempt_state states[] = {LESSOR_ATTEMPT_SUCCESS, LESSOR_ATTEMPT_FAILED,
                                                           LESSOR_ATTEMPT_ERROR, LESSOR_ATTEMPT_CANCELLED};
        int lease = some_lease(s), rack, attempt;
        enum lessor_attempt_state state = states[die(s, 4)];
        enum lessor_completed want;

        some_speaker(s, lease, &rack, &attempt);
        want = lease_model_complete(&s->model, lease, rack, attempt, state, now_ms(s));
        for (size_t i = 0; i < s->n_places; i++) {
                struct place *p = &s->places[i];
                struct lessor_lease_completion c = {
                        .holder = holder_of(s, p, lease, rack, attempt),
                        .verdict = {.success = state == LESSOR_ATTEMPT_SUCCESS,
                                    .error = state == LESSOR_ATTEMPT_ERROR,
                                    .cancelled = state == LESSOR_ATTEMPT_CANCELLED,
                                    .output_hash = LESSOR_SLICE("hash")},
                        .result = LESSOR_SLICE("{}"),
                };
                enum lessor_completed how = LESSOR_COMPLETED_DISCARDED;

                expect(s, p, "complete", lessor_lease_complete(p->store, &c, s->arena, &how, NULL, NULL), 0);
                expect(s, p, "the disposition", how, want);
        }
}

static void step_end(struct sim *s)
{
        int lease = some_lease(s), key = die(s, 6) - 2, run = die(s, 40), want = 0;
        enum lessor_lease_ending ending = die(s, 2) == 0 ? LESSOR_END_CANCEL : LESSOR_END_SUPERSEDE;
        size_t n, n_want = 0;

        if (key < -1)
                key = -1;
        if (run < 2) {
                for (int i = 0; i < s->model.n_leases; i++) {
                        struct lease_model_lease *l = &s->model.leases[i];

                        if (!l->there || l->run != run ||
                            (l->status != LESSOR_LEASE_PENDING && l->status != LESSOR_LEASE_CLAIMED))
                                continue;
                        lease_model_end(&s->model, i, LESSOR_END_CANCEL, -1, now_ms(s));
                        n_want++;
                }
        } else {
                want = lease_model_end(&s->model, lease, ending, key, now_ms(s));
        }
        for (size_t i = 0; i < s->n_places; i++) {
                struct place *p = &s->places[i];
                struct lessor_lease_name name = name_of(s, p, lease);
                struct lessor_lease l;

                if (run < 2) {
                        expect(s, p, "cancel_run",
                               lessor_lease_cancel_run(p->store, word(s, "run", run), LESSOR_SLICE("r"), &n,
                                                       NULL),
                               0);
                        expect(s, p, "the number cancelled", (int64_t)n, (int64_t)n_want);
                        continue;
                }
                expect(s, p, "end",
                       lessor_lease_end(p->store, &name, ending,
                                        key < 0 ? (struct lessor_slice){0} : word(s, "key", key),
                                        LESSOR_SLICE("r"), s->arena, &l, NULL),
                       want);
                if (want == 0 && !s->failed)
                        expect(s, p, "the status", l.status, s->model.leases[lease].status);
        }
}

static void step_return(struct sim *s)
{
        int lease = some_lease(s), attempt, want;
        bool replays = die(s, 2) == 0;

        attempt = lease < 0 ? 1 : s->model.leases[lease].current + 1 - (die(s, 6) == 0);
        want = replays ? lease_model_replay(&s->model, lease)
                       : lease_model_undeliver(&s->model, lease, attempt, now_ms(s));
        for (size_t i = 0; i < s->n_places; i++) {
                struct place *p = &s->places[i];
                struct lessor_lease_name name = name_of(s, p, lease);
                struct lessor_lease l;
                int r = replays ? lessor_lease_replay(p->store, &name, s->arena, &l, NULL)
                                : lessor_lease_undeliver(p->store, &name, (unsigned)attempt, NULL);

                expect(s, p, replays ? "replay" : "undeliver", r, want);
        }
}

static void step_sweep(struct sim *s)
{
        lease_model_sweep(&s->model, now_ms(s));
        for (size_t i = 0; i < s->n_places; i++)
                expect(s, &s->places[i], "sweep", lessor_lease_sweep(s->places[i].store, NULL, NULL, NULL),
                       0);
}

static void step_enroll(struct sim *s)
{
        int rack = s->model.n_racks, version = die(s, 3);

        if (rack == LEASE_MODEL_RACKS || (rack >= 3 && die(s, 4) != 0))
                return;
        s->model.racks[s->model.n_racks++] = (struct lease_model_rack){.registered = true,
                                                                       .version = version,
                                                                       .last_boot = -1,
                                                                       .approved_boot = -1,
                                                                       .healthy = true,
                                                                       .seen_ms = now_ms(s)};
        for (size_t i = 0; i < s->n_places; i++) {
                struct place *p = &s->places[i];
                struct lessor_host_info host = {.label = LESSOR_SLICE("l"),
                                                .agent_version =
                                                        lessor_slice_of(lease_model_versions[version].text)};
                struct lessor_slice enrolment = word(s, "enrolment", rack);
                struct lessor_rack made;
                int64_t expires_ms;
                int r = lessor_rack_mint_enrolment(p->store, enrolment, LESSOR_SLICE(""), 1000, &expires_ms,
                                                   NULL);

                if (r == 0)
                        r = lessor_rack_enroll(p->store, enrolment, &host, word(s, "token", rack), s->arena,
                                               &made, NULL);
                expect(s, p, "enroll", r, 0);
                if (r == 0)
                        keep(p->racks[rack], sizeof(p->racks[rack]), made.rack_id);
        }
}

static void step_beat(struct sim *s)
{
        int rack = some_rack(s), boot = die(s, 6) == 0, lease = some_lease(s);
        int version = die(s, 10) == 0 ? 3 : die(s, 3);
        struct lease_model_rack *m = &s->model.racks[rack];
        bool healthy = die(s, 8) != 0;

        if (m->registered) {
                if (m->last_boot < 0 && m->approved_boot < 0)
                        m->approved_boot = boot;
                m->last_boot = boot;
                m->version = version;
                m->healthy = healthy;
                m->seen_ms = now_ms(s);
        }
        for (size_t i = 0; i < s->n_places; i++) {
                struct place *p = &s->places[i];
                struct lessor_lease_name running = name_of(s, p, lease);
                struct lessor_rack_beat b = {
                        .rack_id = lessor_slice_of(p->racks[rack]),
                        .boot_id = word(s, "boot", boot),
                        .agent_version = lessor_slice_of(lease_model_versions[version].text),
                        .healthy = healthy,
                        .running = &running,
                        .n_running = 1,
                        .token_hash = word(s, "token", rack),
                        .token_status = LESSOR_TOKEN_PENDING, /* draws no successor */
                        .successor_hash = LESSOR_SLICE("s"),
                };
                struct lessor_rack_beaten beaten;
                int r = lessor_rack_heartbeat(p->store, &b, s->arena, &beaten, NULL);

                expect(s, p, "heartbeat", r, m->registered ? 0 : LESSOR_E_NOT_FOUND);
                if (r < 0)
                        continue;
                expect(s, p, "stop", beaten.stop.n == 1, lease_model_must_stop(&s->model, lease, rack));
                expect(s, p, "pending", beaten.pending_approval, s->model.policy && m->approved_boot != boot);
        }
}

static void step_operate(struct sim *s)
{
        int what = die(s, 12), rack = some_rack(s), boot = die(s, 2), want = 0;
        struct lease_model_rack *m = &s->model.racks[rack];
        bool on = die(s, 4) == 0;

        if (what == 0) {
                want = lease_model_deregister(&s->model, rack, now_ms(s));
        } else if (what < 4) {
                want = m->registered ? 0 : LESSOR_E_NOT_FOUND;
                if (m->registered)
                        m->draining = on;
        } else if (what < 8) {
                want = !m->registered ? LESSOR_E_NOT_FOUND : m->last_boot != boot ? LESSOR_E_BOOT_CHANGED : 0;
                if (want == 0)
                        m->approved_boot = boot;
        } else {
                s->model.policy = on;
        }
        for (size_t i = 0; i < s->n_places; i++) {
                struct place *p = &s->places[i];
                struct lessor_slice id = lessor_slice_of(p->racks[rack]);
                int r = what == 0  ? lessor_rack_deregister(p->store, id, NULL, NULL)
                        : what < 4 ? lessor_rack_drain(p->store, id, on, NULL)
                        : what < 8 ? lessor_rack_approve(p->store, id, word(s, "boot", boot), NULL)
                                   : lessor_rack_set_policy(p->store, on, NULL);

                expect(s, p, "the operator's call", r, want);
        }
}

static void step_reopen(struct sim *s)
{
        struct lessor_lease_options options = LESSOR_LEASE_OPTIONS;
        bool crash = die(s, 2) == 0;

        for (size_t i = 0; i < s->n_places; i++) {
                struct place *p = &s->places[i];

                if (!p->kind->durable)
                        continue;
                if (crash) {
                        expect(s, p, "crash",
                               p->kind->crash(&options, &s->clock.clock, p->directory, &p->store), 0);
                        continue;
                }
                p->store = lessor_lease_store_free(p->store);
                expect(s, p, "reopen",
                       p->kind->make(&options, &s->clock.clock, NULL, p->directory, &p->store), 0);
        }
}

/* --- comparing --- */

static void compare_attempts(struct sim *s, const struct place *p, int lease,
                             const struct lessor_lease_name *name)
{
        const struct lease_model_lease *m = &s->model.leases[lease];
        struct lessor_attempt_list list;

        expect(s, p, "attempts", lessor_lease_attempts(p->store, name, s->arena, &list, NULL), 0);
        if (s->failed)
                return;
        expect(s, p, "the number of attempts", (int64_t)list.n, m->n_attempts);
        for (int i = 0; i < m->n_attempts && !s->failed; i++) {
                expect(s, p, "an attempt's state", list.items[i].state, m->attempts[i].state);
                expect(s, p, "an attempt's cause", list.items[i].cause, m->attempts[i].cause);
                expect(s, p, "whether an attempt counts", list.items[i].counts, m->attempts[i].counts);
                expect(s, p, "whether an attempt has an id", list.items[i].execution_id.p != NULL,
                       !m->function);
        }
}

static void compare_lease(struct sim *s, const struct place *p, int lease)
{
        const struct lease_model_lease *m = &s->model.leases[lease];
        struct lessor_lease_name name = name_of(s, p, lease);
        struct lessor_lease l;
        int r = lessor_lease_get(p->store, &name, 0, s->arena, &l, NULL);

        expect(s, p, "get", r, m->there ? 0 : LESSOR_E_NOT_FOUND);
        if (r < 0 || s->failed)
                return;
        expect(s, p, "the status", l.status, m->status);
        expect(s, p, "the view", l.view, lease_model_view(m, now_ms(s)));
        expect(s, p, "the cause", l.cause, m->cause);
        expect(s, p, "attempts spent", l.attempts_spent, m->spent);
        expect(s, p, "the claim", l.claim_number, m->current + 1);
        expect(s, p, "the deadline", l.deadline_ms, m->deadline_ms);
        expect(s, p, "the end", l.ended_ms, m->ended_ms);
        expect(s, p, "the time to live", l.expires_ms, m->expires_ms);
        if (m->current >= 0 &&
            !lessor_slice_equal(l.claimed_by, lessor_slice_of(p->racks[m->attempts[m->current].rack])))
                fail(s, p, "another rack holds it");
        compare_attempts(s, p, lease, &name);
}

static void compare(struct sim *s)
{
        for (size_t i = 0; i < s->n_places && !s->failed; i++) {
                struct lessor_lease_stats stats;
                uint64_t counts[LESSOR_N_LEASE_STATUSES] = {0};

                for (int k = 0; k < s->model.n_leases; k++) {
                        if (s->model.leases[k].there)
                                counts[s->model.leases[k].status]++;
                        if (s->step % 32 == 0 || k >= s->model.n_leases - 12)
                                compare_lease(s, &s->places[i], k);
                }
                lessor_lease_stats(s->places[i].store, &stats);
                for (int k = 0; k < LESSOR_N_LEASE_STATUSES; k++)
                        expect(s, &s->places[i], "the count of a status", (int64_t)stats.n_leases[k],
                               (int64_t)counts[k]);
        }
}

/* --- running --- */

static void live(struct sim *s)
{
        static const struct {
                const char *name;
                int weight;
                void (*step)(struct sim *s);
        } steps[] = {
                {"create", 14, step_create},    {"claim", 28, step_claim},  {"extend", 10, step_extend},
                {"complete", 8, step_complete}, {"end", 5, step_end},       {"return", 6, step_return},
                {"sweep", 6, step_sweep},       {"enroll", 2, step_enroll}, {"beat", 14, step_beat},
                {"operate", 5, step_operate},   {"reopen", 2, step_reopen},
        };
        static const int64_t leaps[] = {0, 0, 1, 50, 1000, 5000, 15000, 30000, 61000};
        int at, sum = 0;
        size_t i = 0;

        clock_manual_advance(&s->clock, leaps[roll(s, roll(s, ARRAY_SIZE(leaps)) + 1)]);
        /* Every call settles what is due, but for those that only look; this one makes sure. */
        lease_model_settle(&s->model, now_ms(s));
        for (size_t k = 0; k < s->n_places; k++) {
                struct lessor_index_list none;

                lessor_lease_must_stop(s->places[k].store, LESSOR_SLICE("r"), NULL, 0, s->arena, &none, NULL);
        }
        for (size_t k = 0; k < ARRAY_SIZE(steps); k++)
                sum += steps[k].weight;
        at = die(s, sum);
        while (at >= steps[i].weight)
                at -= steps[i++].weight;
        s->op = steps[i].name;
        steps[i].step(s);
        compare(s);
        lessor_arena_clear(s->arena);
}

static int remove_entry(const char *path, const struct stat *info, int type, struct FTW *at)
{
        (void)info, (void)type, (void)at;
        return remove(path);
}

static bool open_place(struct sim *s, struct place *p)
{
        struct lessor_lease_options options = LESSOR_LEASE_OPTIONS;

        snprintf(p->directory, sizeof(p->directory), "%s/lessor-lease-sim-XXXXXX",
                 access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
        p->leases = calloc(LEASE_MODEL_LEASES, sizeof(*p->leases));
        p->attempts = calloc(LEASE_MODEL_LEASES, sizeof(*p->attempts));
        return p->leases != NULL && p->attempts != NULL && mkdtemp(p->directory) != NULL &&
               p->kind->make(&options, &s->clock.clock, NULL, p->directory, &p->store) == 0;
}

static void close_place(struct place *p)
{
        p->store = lessor_lease_store_free(p->store);
        nftw(p->directory, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
        free(p->leases);
        free(p->attempts);
}

/* A lease may have no more attempts than the model has room for. */
static bool is_full(const struct lease_model *m)
{
        if (m->n_leases >= LEASE_MODEL_LEASES - 1)
                return true;
        for (int i = 0; i < m->n_leases; i++)
                if (m->leases[i].n_attempts >= LEASE_MODEL_ATTEMPTS - 1 ||
                    m->leases[i].n_keys >= LEASE_MODEL_KEYS - 1)
                        return true;
        return false;
}

static bool run_seed(struct sim *s, uint64_t seed, uint64_t n_steps)
{
        s->seed = s->dice = seed;
        s->failed = false;
        s->model.n_leases = s->model.n_racks = 0;
        s->model.policy = false;
        s->model.turn = -1;
        s->op = "begin";
        clock_manual_init(&s->clock, 1760000000000);
        for (size_t i = 0; i < s->n_places; i++)
                if (!open_place(s, &s->places[i]))
                        fail(s, &s->places[i], "the store cannot be made");
        if (!s->failed)
                step_enroll(s);
        for (s->step = 0; s->step < n_steps && !s->failed && !is_full(&s->model); s->step++)
                live(s);
        for (size_t i = 0; i < s->n_places; i++)
                close_place(&s->places[i]);
        return !s->failed;
}

static bool add_place(struct sim *s, const char *name)
{
        const struct lease_store_kind *kind = lease_store_kind_named(name);

        if (kind == NULL || s->n_places == MAX_STORES)
                return false;
        s->places[s->n_places++].kind = kind;
        return true;
}

static struct sim sim;

int main(int argc, char **argv)
{
        uint64_t seed = 1, n_seeds = 1, n_steps = 2000, n_lived = 0;

        for (int i = 1; i + 1 < argc; i += 2) {
                if (strcmp(argv[i], "--seed") == 0) {
                        seed = strtoull(argv[i + 1], NULL, 10);
                } else if (strcmp(argv[i], "--seeds") == 0) {
                        n_seeds = strtoull(argv[i + 1], NULL, 10);
                } else if (strcmp(argv[i], "--steps") == 0) {
                        n_steps = strtoull(argv[i + 1], NULL, 10);
                } else if (strcmp(argv[i], "--store") != 0 || !add_place(&sim, argv[i + 1])) {
                        fputs("usage: lease_sim [--seed N] [--seeds N] [--steps N] [--store KIND]...\n",
                              stderr);
                        return 2;
                }
        }
        for (size_t i = 0; sim.n_places == 0 && i < n_lease_store_kinds && i < MAX_STORES; i++)
                sim.places[i].kind = &lease_store_kinds[i];
        if (sim.n_places == 0)
                sim.n_places = n_lease_store_kinds < MAX_STORES ? n_lease_store_kinds : MAX_STORES;
        sim.arena = lessor_arena_new();
        if (sim.arena == NULL)
                return 1;
        for (uint64_t i = 0; i < n_seeds; i++) {
                if (!run_seed(&sim, seed + i, n_steps))
                        return 1;
                n_lived += sim.step;
        }
        printf("lease_sim: %llu steps, all as the model says\n", (unsigned long long)n_lived);
        lessor_arena_free(sim.arena);
        return 0;
}
