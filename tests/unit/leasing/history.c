/* SPDX-License-Identifier: MIT */
#include "history.h"

#include <stdarg.h>
#include <stdio.h>

const struct lessor_lease_options history_options = {
        .visibility_ms = 60000,
        .healthy_ms = 45000,
        .rotation_ms = 100000,
        .reoffer_ms = 20000,
        .grace_ms = 15000,
        .capability_ms = 30000,
        .retention_ms = 90000,
        .rack_expiry_ms = 900000,
        .max_open = 48,
        .max_capabilities = 40,
        .interleave = true,
        .heed_health = true,
};

void history_init(struct history *h, uint64_t seed)
{
        *h = (struct history){.dice = seed * UINT64_C(0x9e3779b97f4a7c15) + 1, .now_ms = 1760000000000};
}

uint64_t history_roll(struct history *h, uint64_t n)
{
        h->dice = h->dice * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        return (h->dice >> 33) % n;
}

enum {
        STEP_CREATE,
        STEP_CLAIM,
        STEP_EXTEND,
        STEP_COMPLETE,
        STEP_END,
        STEP_UNDELIVER,
        STEP_REPLAY,
        STEP_SWEEP,
        STEP_ENROLL,
        STEP_BEAT,
        STEP_POLL,
        STEP_AUTHENTICATE,
        STEP_OPERATE,
        STEP_TRANSFER,
        STEP_STORE,
        STEP_LOOK,
        N_STEPS,
};

struct step history_next(struct history *h)
{
        static const unsigned char weights[N_STEPS] = {16, 24, 8, 6, 3, 3, 3, 6, 3, 8, 8, 6, 3, 20, 16, 6};
        static const int64_t leaps[] = {0, 0, 1, 10, 300, 3000, 10000, 61000};
        unsigned sum = 0, roll;
        struct step s = {.number = ++h->n_steps};

        for (size_t i = 0; i < N_STEPS; i++)
                sum += weights[i];
        roll = (unsigned)history_roll(h, sum);
        while (roll >= weights[s.what])
                roll -= weights[s.what++];
        for (size_t i = 0; i < 8; i++)
                s.rolls[i] = history_roll(h, UINT32_MAX);
        h->now_ms += leaps[history_roll(h, history_roll(h, 8) + 1)];
        s.now_ms = h->now_ms;
        return s;
}

/* --- saying what came of it --- */

struct out {
        char *p;
        size_t n, cap;
};

static void say(struct out *o, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void say(struct out *o, const char *format, ...)
{
        va_list args;
        int n;

        va_start(args, format);
        n = vsnprintf(o->p + o->n, o->cap - o->n, format, args);
        va_end(args);
        if (n > 0)
                o->n = o->n + (size_t)n < o->cap ? o->n + (size_t)n : o->cap - 1;
}

static void say_text(struct out *o, struct lessor_slice text)
{
        if (text.p == NULL)
                say(o, " -");
        else
                say(o, " \"%.*s\"", (int)text.n, text.p);
}

static void say_lease(struct out *o, const struct lessor_lease *l)
{
        const struct lessor_slice texts[] = {l->name.repo,      l->name.lease_id, l->workspace,
                                             l->task_name,      l->task_hash,     l->inputs_hash,
                                             l->tier,           l->compute_size,  l->floor,
                                             l->environment,    l->run,           l->owner,
                                             l->claimed_by,     l->attempt,       l->verdict.output_hash,
                                             l->verdict.message};

        say(o, "\n lease %llu", (unsigned long long)l->seq);
        for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
                say_text(o, texts[i]);
        say(o, " %d %d v%lld s%d v%d h%d c%lld x%lld %u/%u %lld %lld %lld %d #%u t%zu %d%d%d", (int)l->mode,
            l->own, (long long)l->event_version, (int)l->status, (int)l->view, l->held,
            (long long)l->created_ms, (long long)l->expires_ms, l->attempts_spent, l->attempt_limit,
            (long long)l->claimed_ms, (long long)l->deadline_ms, (long long)l->ended_ms, (int)l->cause,
            l->claim_number, l->n_targets, l->verdict.success, l->verdict.error, l->verdict.cancelled);
}

static void say_rack(struct out *o, const struct lessor_rack *r)
{
        const struct lessor_slice texts[] = {r->rack_id, r->label, r->agent_version, r->last_boot,
                                             r->approved_boot};

        say(o, "\n rack");
        for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
                say_text(o, texts[i]);
        for (size_t i = 0; i < r->n_tiers; i++)
                say_text(o, r->tiers[i]);
        say(o, " %lld h%d d%d p%d f%d %lld %lld %lld %lld n%zu", (long long)r->capacity, r->healthy,
            r->draining, r->pending, r->fit, (long long)r->enrolled_ms, (long long)r->last_seen_ms,
            (long long)r->last_poll_ms, (long long)r->last_beat_ms, r->n_leases);
}

static void say_attempts(struct out *o, const struct lessor_attempt_list *list)
{
        for (size_t i = 0; i < list->n; i++) {
                const struct lessor_attempt *a = &list->items[i];

                say(o, "\n  attempt %u s%d c%d %d %lld %lld %d:%lld", a->number, (int)a->state, (int)a->cause,
                    a->counts, (long long)a->started_ms, (long long)a->ended_ms, a->has_exit_code,
                    (long long)a->exit_code);
                say_text(o, a->execution_id);
                say_text(o, a->rack_id);
                say_text(o, a->boot_id);
                say_text(o, a->reason);
                say_text(o, a->output_hash);
        }
}

/* --- the parts of a step --- */

struct doing {
        struct history *h;
        const struct step *s;
        struct lease_engine *e;
        struct lessor_arena *arena;
        bool note;
        struct out out;
};

static struct lessor_slice fresh(struct doing *d, const char *what, char text[64])
{
        int n = snprintf(text, 64, "%s-%u", what, d->s->number);

        return (struct lessor_slice){text, (size_t)n};
}

static struct lessor_slice pick(uint64_t roll, const char *const *names, size_t n)
{
        return lessor_slice_of(names[roll % n]);
}

static const char *const repos[] = {"one", "two"};
static const char *const tiers[] = {"c", "py"};
static const char *const owners[] = {"alice", "bob"};
static const char *const boots[] = {"boot-1", "boot-2"};
static const char *const versions[] = {"0.5.0+e3.1.0.2", "0.6.0+e3.1.0.9", "0.6.0", "0.4.0"};
static const char *const keys[] = {"k1", "k2", "k3"};

static unsigned which_lease(const struct doing *d, uint64_t roll)
{
        return d->h->n_leases == 0 ? 0 : (unsigned)(roll % (d->h->n_leases < 64 ? d->h->n_leases : 64));
}

/* A lease that was granted lately, mostly. */
static unsigned which_granted(const struct doing *d, uint64_t roll)
{
        if (d->h->n_granted == 0 || roll % 8 == 0)
                return which_lease(d, roll / 8);
        return d->h->granted[roll / 8 % (d->h->n_granted < 8 ? d->h->n_granted : 8)];
}

static struct lessor_lease_name lease_name(const struct doing *d, unsigned i)
{
        const char *text = d->h->leases[i];
        const char *slash = strchr(text, '/');

        if (slash == NULL)
                return (struct lessor_lease_name){LESSOR_SLICE("one"), LESSOR_SLICE("none")};
        return (struct lessor_lease_name){{text, (size_t)(slash - text)}, lessor_slice_of(slash + 1)};
}

static struct lessor_slice rack_id(const struct doing *d, uint64_t roll)
{
        return lessor_slice_of(d->h->racks[roll % 4]);
}

/* The holder of a lease, mostly; now and then somebody else or another attempt. */
static int holder(const struct doing *d, unsigned i, struct lessor_lease_holder *ret_holder)
{
        struct lessor_lease_holder h = {.name = lease_name(d, i), .rack_id = rack_id(d, d->s->rolls[5])};
        struct lease *lease = lease_engine_find_lease(d->e, &h.name);
        struct lessor_lease l;

        if (lease != NULL && d->s->rolls[6] % 8 != 0) {
                int r = lease_render(d->e, lease, d->s->now_ms, d->arena, &l);

                if (r < 0)
                        return r;
                if (l.claimed_by.p != NULL)
                        h.rack_id = l.claimed_by;
        }
        if (d->s->rolls[7] % 2 == 0)
                h.attempt = lessor_slice_of(d->h->attempts[i]);
        *ret_holder = h;
        return 0;
}

static void note_lease(struct doing *d, const struct lessor_lease *l)
{
        unsigned i = d->h->n_leases % 64;

        if (!d->note)
                return;
        snprintf(d->h->leases[i], sizeof(d->h->leases[i]), "%.*s/%.*s", (int)l->name.repo.n, l->name.repo.p,
                 (int)l->name.lease_id.n, l->name.lease_id.p);
        d->h->attempts[i][0] = '\0';
        d->h->claims[i] = 0;
        d->h->n_leases++;
}

static int do_create(struct doing *d)
{
        static const char *const tasks[] = {"t1", "t2", "t3", "t4"};
        const uint64_t *r = d->s->rolls;
        struct lessor_lease_submission from = {
                .repo = pick(r[0], repos, 2),
                .workspace = LESSOR_SLICE("w"),
                .task_name = LESSOR_SLICE("n"),
                .task_hash = pick(r[1], tasks, 4),
                .inputs_hash = LESSOR_SLICE("i"),
                .tier = pick(r[2], tiers, 2),
                .owner = pick(r[3], owners, 2),
                .mode = r[4] % 5 == 0 ? LESSOR_LEASE_FUNCTION : LESSOR_LEASE_TASK,
                .event_version = r[4] % 13 == 0 ? 1 : 2,
                .event = LESSOR_SLICE("{}"),
                .ttl_ms = r[5] % 4 == 0 ? 70000 : 0,
                .attempt_limit = (unsigned)(r[5] / 4 % 3),
        };
        struct lessor_lease l;
        struct lease *handle;
        char uuid[64];
        bool created;
        int code;

        if (r[6] % 3 == 0)
                from.key = pick(r[7], keys, 3);
        from.share = from.key.p != NULL && r[7] % 2 == 0;
        if (r[6] % 4 == 0)
                from.floor = LESSOR_SLICE("1.0.5");
        if (r[6] % 5 == 0)
                from.run = LESSOR_SLICE("run");
        if (r[6] % 7 == 0)
                from.compute_size = LESSOR_SLICE("large");
        code = lease_engine_create(d->e, &from, d->s->now_ms, fresh(d, "uuid", uuid), r[6] % 11 != 0,
                                   d->arena, &handle, &l, &created);
        if (code < 0)
                return code;
        say(&d->out, " created %d", created);
        say_lease(&d->out, &l);
        if (created)
                note_lease(d, &l);
        return 0;
}

static int do_claim(struct doing *d)
{
        const uint64_t *r = d->s->rolls;
        struct lessor_slice both[] = {LESSOR_SLICE("py"), LESSOR_SLICE("c")}, repo = LESSOR_SLICE("two");
        struct lessor_lease_claim c = {
                .rack_id = rack_id(d, r[0]),
                .boot_id = pick(r[1] % 4 == 0, boots, 2),
                .tiers = both,
                .n_tiers = 1 + r[2] % 2,
                .names_attempts = r[3] % 3 == 0,
        };
        struct lessor_lease_grant g;
        struct lease *handle;
        char uuid[64];
        int code;

        if (r[4] % 4 == 0)
                c.filter = (struct lessor_lease_filter){.repos = &repo, .n_repos = 1};
        code = lease_engine_poll(d->e, c.rack_id, c.tiers, c.n_tiers, d->s->now_ms);
        if (code < 0)
                return code;
        code = lease_engine_claim(d->e, &c, d->s->now_ms, fresh(d, "attempt", uuid), d->arena, &handle, &g);
        if (code < 0)
                return code;
        if (!g.granted) {
                say(&d->out, " bar %d", (int)g.bar);
                return 0;
        }
        say_lease(&d->out, &g.lease);
        for (unsigned i = 0; d->note && i < 64; i++) {
                if (!lessor_slice_equal(lease_name(d, i).lease_id, g.lease.name.lease_id))
                        continue;
                d->h->claims[i] = g.lease.claim_number;
                d->h->granted[d->h->n_granted++ % 8] = i;
                snprintf(d->h->attempts[i], sizeof(d->h->attempts[i]), "%.*s", (int)g.lease.attempt.n,
                         g.lease.attempt.p == NULL ? "" : g.lease.attempt.p);
        }
        return 0;
}

static int do_extend(struct doing *d)
{
        struct lessor_lease_holder h;
        int64_t deadline_ms;
        int code = holder(d, which_granted(d, d->s->rolls[0]), &h);

        if (code == 0)
                code = lease_engine_extend(d->e, &h, d->s->now_ms, &deadline_ms);

        if (code == 0)
                say(&d->out, " until %lld", (long long)deadline_ms);
        return code;
}

static int do_complete(struct doing *d)
{
        const uint64_t *r = d->s->rolls;
        struct lessor_lease_completion c = {
                .verdict = {.success = r[1] % 2 == 0, .cancelled = r[1] % 7 == 0, .error = r[1] % 5 == 1},
        };
        enum lessor_completed how;
        struct lease *handle;
        int code;

        if (r[2] % 8 != 0)
                c.verdict.output_hash = LESSOR_SLICE("hash");
        if (r[3] % 2 == 0)
                c.verdict.message = LESSOR_SLICE("words");
        code = holder(d, which_granted(d, r[0]), &c.holder);
        if (code < 0)
                return code;
        code = lease_engine_complete(d->e, &c, d->s->now_ms, &handle, &how);
        if (code == 0)
                say(&d->out, " how %d", (int)how);
        return code;
}

static int do_end(struct doing *d)
{
        const uint64_t *r = d->s->rolls;
        struct lessor_lease_name name = lease_name(d, which_lease(d, r[0]));
        struct lessor_slice key = r[1] % 2 == 0 ? (struct lessor_slice){0} : pick(r[2], keys, 3);
        struct lessor_lease l;
        size_t n;
        int code;

        if (r[3] % 8 == 0) {
                code = lease_engine_cancel_run(d->e, LESSOR_SLICE("run"), LESSOR_SLICE("r"), d->s->now_ms,
                                               &n);
                if (code == 0)
                        say(&d->out, " %zu of the run", n);
                return code;
        }
        code = lease_engine_end(d->e, &name, r[3] % 2 == 0 ? LESSOR_END_CANCEL : LESSOR_END_SUPERSEDE, key,
                                LESSOR_SLICE("reason"), d->s->now_ms, d->arena, &l);
        if (code == 0)
                say_lease(&d->out, &l);
        return code;
}

static int do_enroll(struct doing *d)
{
        const uint64_t *r = d->s->rolls;
        struct lessor_slice both[] = {LESSOR_SLICE("c"), LESSOR_SLICE("py")};
        struct lessor_host_info host = {.label = LESSOR_SLICE("l"),
                                        .tiers = both,
                                        .n_tiers = 2,
                                        .agent_version = pick(r[1], versions, 3)};
        char enrolment[64], id[64], token[64];
        struct lessor_slice hash = fresh(d, "enrolment", enrolment);
        struct lessor_rack rack;
        unsigned i = (unsigned)(r[0] % 4);
        int64_t expires_ms;
        int code;

        code = lease_engine_mint_enrolment(d->e, hash, LESSOR_SLICE("n"), 50000, d->s->now_ms, &expires_ms);
        /* Already minted: the step is done again after a failure. */
        if ((code < 0 && code != LESSOR_E_EXISTS) || r[2] % 4 == 0)
                return code == LESSOR_E_EXISTS ? 0 : code;
        code = lease_engine_enroll(d->e, hash, &host, fresh(d, "rack", id), fresh(d, "token", token),
                                   d->s->now_ms, d->arena, &rack);
        if (code < 0)
                return code;
        say_rack(&d->out, &rack);
        if (d->note) {
                snprintf(d->h->racks[i], sizeof(d->h->racks[i]), "%s", id);
                snprintf(d->h->tokens[i], sizeof(d->h->tokens[i]), "%s", token);
        }
        return 0;
}

static int do_beat(struct doing *d)
{
        const uint64_t *r = d->s->rolls;
        unsigned i = (unsigned)(r[0] % 4);
        struct lessor_lease_name running[2] = {lease_name(d, which_granted(d, r[1])),
                                               lease_name(d, which_lease(d, r[2]))};
        struct lessor_rack_caller caller;
        struct lessor_rack_beaten beaten;
        char successor[64];
        struct lessor_rack_beat b = {
                .rack_id = rack_id(d, i),
                .boot_id = pick(r[3] % 6 == 0, boots, 2),
                .agent_version = pick(r[4] % 16 == 0 ? 3 : r[4] % 3, versions, 4),
                .healthy = r[5] % 8 != 0,
                .running = running,
                .n_running = 2,
                .token_hash = lessor_slice_of(d->h->tokens[i]),
                /* Not what authentication said, so that the step can be done again after a failure. */
                .token_status = LESSOR_TOKEN_CURRENT,
                .successor_hash = fresh(d, "token", successor),
        };
        int code;

        code = lease_engine_authenticate(d->e, b.token_hash, d->s->now_ms, d->arena, &caller);
        if (code < 0)
                return code;
        code = lease_engine_heartbeat(d->e, &b, d->s->now_ms, d->arena, &beaten);
        if (code < 0)
                return code;
        say(&d->out, " stop %zu offered %d pending %d", beaten.stop.n, beaten.offered,
            beaten.pending_approval);
        /* The rack moves to its successor, or forgets it. */
        if (beaten.offered && d->note && r[6] % 2 == 0)
                snprintf(d->h->tokens[i], sizeof(d->h->tokens[i]), "%s", successor);
        return 0;
}

static int do_operate(struct doing *d)
{
        const uint64_t *r = d->s->rolls;
        struct lessor_environment env = {.env_hash = LESSOR_SLICE("env"),
                                         .e3_version = pick(r[3], versions, 2),
                                         .base_image = LESSOR_SLICE("image"),
                                         .base_tier = LESSOR_SLICE("py"),
                                         .manifest_key = LESSOR_SLICE("key"),
                                         .manifest = pick(r[4], versions, 4)};
        size_t n;

        switch (r[0] % 8) {
        case 0:
        case 1:
                return lease_engine_approve(d->e, rack_id(d, r[1]), pick(r[2], boots, 2));
        case 2:
                return lease_engine_drain(d->e, rack_id(d, r[1]), r[2] % 4 == 0);
        case 3:
                return r[5] % 2 != 0 ? 0 : lease_engine_deregister(d->e, rack_id(d, r[1]), d->s->now_ms, &n);
        case 4:
        case 5:
                lease_engine_set_policy(d->e, r[1] % 4 == 0);
                return 0;
        case 6:
                return lease_engine_publish(d->e, &env, d->s->now_ms);
        default:
                return lease_engine_unpublish(d->e, env.env_hash, env.e3_version);
        }
}

static int do_transfer(struct doing *d)
{
        static const char *const hashes[] = {
                "0000000000000000000000000000000000000000000000000000000000000001",
                "0000000000000000000000000000000000000000000000000000000000000002",
                "0000000000000000000000000000000000000000000000000000000000000003",
        };
        static const char *const receipts[] = {"receipt-1", "receipt-2", "receipt-3"};
        const uint64_t *r = d->s->rolls;
        struct lessor_transfer_need need = {pick(r[1], hashes, 3), r[1] % 2 == 0};
        struct lessor_transfer_output output = {
                {pick(r[2], hashes, 3), r[2] % 7 == 0 ? 11 : 10}, r[2] % 4 == 0, 10};
        struct lessor_transfer_commit commit = {{pick(r[3], hashes, 3), 10}, pick(r[3] / 3, receipts, 3)};
        struct lessor_object_size staged = {pick(r[4], hashes, 3), 10};
        struct lessor_transfer_request q = {
                .needs = &need,
                .n_needs = r[1] % 3,
                .staged = r[4] % 3 == 0 ? &staged : NULL,
                .outputs = &output,
                .n_outputs = 1,
                .commits = &commit,
                .n_commits = 1,
        };
        struct lessor_transfer_need needs[2] = {need, need};
        unsigned char seed[LEASE_ENGINE_SEED_BYTES] = {0};
        struct lessor_transfer_answer a;
        int code;

        q.needs = needs;
        memcpy(seed, &d->s->number, sizeof(d->s->number));
        code = holder(d, which_granted(d, r[0]), &q.holder);
        if (code < 0)
                return code;
        code = lease_engine_transfer(d->e, &q, d->s->now_ms, seed, d->arena, &a);
        if (code < 0)
                return code;
        for (size_t i = 0; i < q.n_needs; i++)
                say_text(&d->out, a.need_ids[i]);
        say_text(&d->out, a.staged_id);
        say_text(&d->out, a.output_ids[0]);
        say(&d->out, " committed %d", a.committed[0]);
        if (d->note && a.output_ids[0].p != NULL)
                memcpy(d->h->urls[d->h->n_urls++ % 8], a.output_ids[0].p, 64);
        if (d->note && a.staged_id.p != NULL)
                memcpy(d->h->urls[d->h->n_urls++ % 8], a.staged_id.p, 64);
        return 0;
}

static int do_store(struct doing *d)
{
        static const char *const receipts[] = {"receipt-1", "receipt-2", "receipt-3"};
        const uint64_t *r = d->s->rolls;
        struct lessor_slice id = lessor_slice_of(d->h->urls[r[0] % 8]), stands;
        struct lessor_capability c;
        int code = lease_engine_open(d->e, id, true, d->s->now_ms, d->arena, &c);

        if (code < 0)
                return code;
        say(&d->out, " kind %d #%u size %lld until %lld %d", (int)c.kind, c.claim_number, (long long)c.size,
            (long long)c.expires_ms, c.committed);
        say_text(&d->out, c.name.lease_id);
        say_text(&d->out, c.hash);
        say_text(&d->out, c.receipt);
        code = lease_engine_stored(d->e, id, pick(r[1], receipts, 3), d->s->now_ms, d->arena, &stands);
        if (code == 0)
                say_text(&d->out, stands);
        return code;
}

/* Everything that can be listed. */
static int do_look(struct doing *d)
{
        struct lessor_lease_query all = {.max = 1000};
        struct lessor_lease_list leases, recent;
        struct lessor_rack_list racks;
        struct lessor_enrolment_list enrolments;
        struct lessor_environment_list environments;
        struct lessor_lease_stats stats;
        int code;

        code = lease_engine_list(d->e, &all, d->s->now_ms, d->arena, &leases);
        for (size_t i = 0; code == 0 && i < leases.n; i++) {
                struct lessor_attempt_list attempts;
                struct lessor_slice *hashes;
                size_t n;

                say_lease(&d->out, &leases.items[i]);
                code = lease_engine_attempts(d->e, &leases.items[i].name, d->arena, &attempts);
                if (code == 0)
                        say_attempts(&d->out, &attempts);
                if (code == 0)
                        code = lease_engine_targets(d->e, &leases.items[i].name, d->arena, &hashes, &n);
                for (size_t j = 0; code == 0 && j < n; j++)
                        say_text(&d->out, hashes[j]);
        }
        if (code == 0)
                code = lease_engine_racks(d->e, d->s->now_ms, d->arena, &racks);
        for (size_t i = 0; code == 0 && i < racks.n; i++) {
                say_rack(&d->out, &racks.items[i]);
                code = lease_engine_recent(d->e, racks.items[i].rack_id, 100, d->s->now_ms, d->arena,
                                           &recent);
                for (size_t j = 0; code == 0 && j < recent.n; j++)
                        say(&d->out, " r%llu", (unsigned long long)recent.items[j].seq);
        }
        if (code == 0)
                code = lease_engine_enrolments(d->e, d->s->now_ms, d->arena, &enrolments);
        if (code == 0)
                code = lease_engine_environments(d->e, d->arena, &environments);
        if (code < 0)
                return code;
        lease_engine_stats(d->e, &stats);
        say(&d->out, "\n %zu enrolments %zu environments %llu capabilities policy %d", enrolments.n,
            environments.n, (unsigned long long)stats.n_capabilities, lease_engine_policy(d->e));
        return 0;
}

static int carry_out(struct doing *d)
{
        const uint64_t *r = d->s->rolls;
        unsigned i = which_granted(d, r[0]);
        struct lessor_lease_name name = lease_name(d, i);
        struct lessor_slice polled[] = {pick(r[1], tiers, 2)};
        struct lessor_rack_caller caller;
        struct lessor_lease_swept swept;
        struct lessor_lease l;
        int code;

        switch (d->s->what) {
        case STEP_CREATE:
                return do_create(d);
        case STEP_CLAIM:
                return do_claim(d);
        case STEP_EXTEND:
                return do_extend(d);
        case STEP_COMPLETE:
                return do_complete(d);
        case STEP_END:
                return do_end(d);
        case STEP_UNDELIVER:
                return lease_engine_undeliver(d->e, &name, d->h->claims[i], d->s->now_ms);
        case STEP_REPLAY:
                code = lease_engine_replay(d->e, &name, d->s->now_ms, d->arena, &l);
                if (code == 0)
                        say_lease(&d->out, &l);
                return code;
        case STEP_SWEEP:
                lease_engine_sweep(d->e, d->s->now_ms, &swept);
                say(&d->out, " %zu %zu %zu %zu", swept.n_lost, swept.n_expired, swept.n_forgotten,
                    swept.n_racks);
                return 0;
        case STEP_ENROLL:
                return do_enroll(d);
        case STEP_BEAT:
                return do_beat(d);
        case STEP_POLL:
                return lease_engine_poll(d->e, rack_id(d, r[2]), polled, 1, d->s->now_ms);
        case STEP_AUTHENTICATE:
                code = lease_engine_authenticate(d->e, lessor_slice_of(d->h->tokens[r[0] % 4]), d->s->now_ms,
                                                 d->arena, &caller);
                if (code == 0)
                        say(&d->out, " status %d issued %lld", (int)caller.status,
                            (long long)caller.issued_ms);
                return code;
        case STEP_OPERATE:
                return do_operate(d);
        case STEP_TRANSFER:
                return do_transfer(d);
        case STEP_STORE:
                return do_store(d);
        default:
                return do_look(d);
        }
}

void history_do(struct history *h, const struct step *step, struct lease_engine *e,
                struct lessor_arena *arena, bool note, int *ret_code, char *text, size_t cap)
{
        struct doing d = {.h = h, .s = step, .e = e, .arena = arena, .note = note, .out = {text, 0, cap}};

        say(&d.out, "step %u (%u) at %lld:", step->number, step->what, (long long)step->now_ms);
        *ret_code = carry_out(&d);
        say(&d.out, " -> %s", lessor_error_name(*ret_code));
}
