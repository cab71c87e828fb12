/* SPDX-License-Identifier: MIT */
/* The things that may happen: each is told to the model and to every store, and the answers must be equal. */
#include "base/macro.h"
#include "world.h"

/* NOLINTNEXTLINE(bugprone-macro-parentheses): `s` is declared here. */
#define EACH_STORE(w, s) for (struct world_store *s = (w)->stores; s < (w)->stores + (w)->n_stores; s++)

static void check_code(struct world *w, const struct world_store *s, int got, int want)
{
        if (got != want)
                world_fail(w, s, "%s answers %s, the model %s", w->at.op, lessor_error_name(got),
                           lessor_error_name(want));
}

static int roll(struct world *w, int n)
{
        return (int)world_roll(w, (uint64_t)n);
}

/* --- the site --- */

static void step_enqueue(struct world *w)
{
        static const int64_t spans_ms[] = {-1000, 0, 5000, 20000, 60000, 600000, 3600000, 36000000};
        int64_t now_ms = world_now(w);
        struct model_job stub = {
                .site = roll(w, MODEL_SITES),
                .id = roll(w, WORLD_IDS),
                .owner = roll(w, MODEL_OWNERS),
                .kind = (enum lessor_kind)roll(w, 2),
                .audience = (enum lessor_audience)roll(w, 2),
                .deadline_ms = now_ms + spans_ms[roll(w, ARRAY_SIZE(spans_ms))],
                .enqueued_ms = now_ms,
        };
        struct lessor_stub wire = {
                .id = world_name(w, "job", (uint64_t)stub.id),
                .kind = stub.kind,
                .owner = world_name(w, "owner", (uint64_t)stub.owner),
                .site = world_name(w, "key", (uint64_t)stub.site),
                .audience = stub.audience,
                .purpose = roll(w, 2) == 0 ? (struct lessor_slice){0} : LESSOR_SLICE("purpose"),
                .size_class = LESSOR_SIZE_SMALL,
                .deadline_ms = stub.deadline_ms,
        };
        int i = model_enqueue(&w->model, &stub);

        w->at.site = stub.site;
        EACH_STORE(w, s)
        {
                struct lessor_job job;
                int r = lessor_routing_enqueue(s->store, world_name(w, "site", (uint64_t)stub.site), &wire,
                                               w->arena, &job, NULL);

                check_code(w, s, r, 0);
                if (r == 0)
                        world_check_job(w, s, &job, &w->model.jobs[i]);
        }
}

static void step_seal(struct world *w)
{
        int site = roll(w, MODEL_SITES), id = roll(w, WORLD_IDS);
        uint64_t payload = ++w->next_envelope;
        enum lessor_job_state want_was = LESSOR_JOB_QUEUED, was = LESSOR_JOB_QUEUED;
        int want;

        /* Mostly a job that waits for it. */
        for (int i = 0; i < w->model.n_jobs && roll(w, 4) != 0; i++) {
                if (w->model.jobs[i].there && w->model.jobs[i].state == LESSOR_JOB_AWAITING &&
                    roll(w, 2) == 0) {
                        site = w->model.jobs[i].site;
                        id = w->model.jobs[i].id;
                }
        }
        want = model_seal(&w->model, site, id, payload, &want_was);
        w->at.site = site;
        EACH_STORE(w, s)
        {
                struct lessor_envelope envelope = {world_name(w, "envelope", payload)};

                check_code(w, s,
                           lessor_routing_seal(s->store, world_name(w, "site", (uint64_t)site),
                                               world_name(w, "job", (uint64_t)id), &envelope, &was, NULL),
                           want);
                if (want == LESSOR_E_TOO_LATE && was != want_was)
                        world_fail(w, s, "seal says the job was in state %d, the model %d", (int)was,
                                   (int)want_was);
        }
}

static void step_cancel(struct world *w)
{
        int site = roll(w, MODEL_SITES), id = roll(w, WORLD_IDS);
        int want = model_cancel(&w->model, site, id);

        w->at.site = site;
        EACH_STORE(w, s)
        check_code(w, s,
                   lessor_routing_cancel(s->store, world_name(w, "site", (uint64_t)site),
                                         world_name(w, "job", (uint64_t)id), NULL),
                   want);
}

static void step_ack(struct world *w)
{
        int site = roll(w, MODEL_SITES), n = roll(w, 4);
        struct lessor_slice ids[4], want[4];
        size_t n_want = 0;

        for (int i = 0; i < n; i++) {
                int id = roll(w, WORLD_IDS);

                ids[i] = world_name(w, "job", (uint64_t)id);
                if (model_ack(&w->model, site, id))
                        want[n_want++] = ids[i];
        }
        w->at.site = site;
        w->at.acks = true;
        EACH_STORE(w, s)
        {
                struct lessor_slice *acked;
                size_t n_acked;

                if (lessor_routing_ack(s->store, world_name(w, "site", (uint64_t)site), ids, (size_t)n,
                                       w->arena, &acked, &n_acked, NULL) < 0 ||
                    n_acked != n_want) {
                        world_fail(w, s, "ack forgets another number of jobs than %zu", n_want);
                        continue;
                }
                for (size_t i = 0; i < n_want; i++)
                        if (!lessor_slice_equal(acked[i], want[i]))
                                world_fail(w, s, "ack forgets another job");
        }
}

/* --- the device --- */

static void roll_claim(struct world *w, struct model_claim *claim)
{
        *claim = (struct model_claim){
                .runner = roll(w, MODEL_RUNNERS),
                .kinds = (unsigned)roll(w, 4),
                .max = 1 + (unsigned)roll(w, roll(w, 4) == 0 ? 64 : 3),
                .lease_ms = roll(w, 8) == 0 ? 1000 : 60000,
        };
        claim->owner = world_owner_of(claim->runner);
        for (int site = 0; site < MODEL_SITES; site++)
                for (int owner = 0; owner < MODEL_OWNERS; owner++)
                        claim->routes[site][owner] = roll(w, 3) != 0;
}

static size_t list_routes(struct world *w, const struct model_claim *claim, struct lessor_route *routes)
{
        size_t n = 0;

        for (int site = 0; site < MODEL_SITES; site++)
                for (int owner = 0; owner < MODEL_OWNERS; owner++)
                        if (claim->routes[site][owner])
                                routes[n++] = (struct lessor_route){world_name(w, "site", (uint64_t)site),
                                                                    world_name(w, "owner", (uint64_t)owner)};
        if (n > 0) /* a route named twice counts once */
                routes[n] = routes[0];
        return n == 0 ? 0 : n + 1;
}

static void step_claim(struct world *w)
{
        struct lessor_route routes[MODEL_SITES * MODEL_OWNERS + 1];
        struct lessor_claim claim = {.routes = routes};
        struct model_claim rolled;
        struct model_list want;

        roll_claim(w, &rolled);
        claim.runner_id = world_name(w, "runner", (uint64_t)rolled.runner);
        claim.owner = world_name(w, "owner", (uint64_t)rolled.owner);
        claim.device.identity = world_name(w, "identity", (uint64_t)rolled.runner);
        claim.device.encryption = world_name(w, "encryption", (uint64_t)rolled.runner);
        claim.device.encryption_sig = world_name(w, "sig", (uint64_t)rolled.runner);
        claim.n_routes = list_routes(w, &rolled, routes);
        claim.kinds = rolled.kinds;
        claim.max = rolled.max;
        claim.lease_ms = rolled.lease_ms;
        model_claim(&w->model, &rolled, world_now(w), &want);
        w->at.sweeps = true;
        EACH_STORE(w, s)
        {
                struct lessor_job_list granted;
                int r = lessor_routing_claim(s->store, &claim, w->arena, &granted, NULL);

                check_code(w, s, r, 0);
                if (r < 0 || granted.n != (size_t)want.n) {
                        world_fail(w, s, "claim grants another number of jobs than %d", want.n);
                        continue;
                }
                for (size_t i = 0; i < granted.n; i++) {
                        world_note_lease(w, s, granted.items[i].lease_id);
                        world_check_job(w, s, &granted.items[i], &w->model.jobs[want.items[i]]);
                }
        }
}

/* A (job, runner, lease): mostly one that goes together, sometimes late, sometimes confused. */
static void roll_holder(struct world *w, int *ret_id, int *ret_runner, uint64_t *ret_lease)
{
        int start = w->model.n_jobs == 0 ? 0 : roll(w, w->model.n_jobs);

        *ret_id = roll(w, WORLD_IDS);
        *ret_runner = roll(w, MODEL_RUNNERS);
        *ret_lease = world_roll(w, w->model.n_leases + 1);
        for (int i = 0; i < w->model.n_jobs; i++) {
                const struct model_job *job = &w->model.jobs[(start + i) % w->model.n_jobs];

                if (!job->there || job->runner < 0)
                        continue;
                if (roll(w, 6) != 0)
                        *ret_id = job->id;
                if (roll(w, 6) != 0)
                        *ret_runner = job->runner;
                if (roll(w, 6) != 0)
                        *ret_lease = job->lease;
                return;
        }
}

static void step_take_payload(struct world *w)
{
        int id, runner, want;
        uint64_t lease, payload = 0;

        roll_holder(w, &id, &runner, &lease);
        want = model_take_payload(&w->model, id, runner, lease, &payload);
        w->at.runner = runner;
        EACH_STORE(w, s)
        {
                struct lessor_lease_ref ref = {world_name(w, "job", (uint64_t)id), world_lease(w, s, lease)};
                struct lessor_envelope envelope;
                int r = lessor_routing_take_payload(s->store, world_name(w, "runner", (uint64_t)runner), &ref,
                                                    w->arena, &envelope, NULL);

                check_code(w, s, r, want);
                if (r == 0 && !lessor_slice_equal(envelope.json, world_name(w, "envelope", payload)))
                        world_fail(w, s, "take-payload hands over another payload");
        }
}

static void step_complete(struct world *w)
{
        int id, runner, want;
        uint64_t lease, result = ++w->next_envelope;
        enum lessor_disposition disposition = (enum lessor_disposition)roll(w, 3);
        bool want_duplicate = false;

        roll_holder(w, &id, &runner, &lease);
        want = model_complete(&w->model, id, runner, lease, result, disposition, &want_duplicate);
        w->at.runner = runner;
        EACH_STORE(w, s)
        {
                struct lessor_lease_ref ref = {world_name(w, "job", (uint64_t)id), world_lease(w, s, lease)};
                struct lessor_envelope envelope = {world_name(w, "envelope", result)};
                bool duplicate = false;

                check_code(w, s,
                           lessor_routing_complete(s->store, world_name(w, "runner", (uint64_t)runner), &ref,
                                                   &envelope, disposition, &duplicate, NULL),
                           want);
                if (want == 0 && duplicate != want_duplicate)
                        world_fail(w, s, "complete is wrong about a duplicate");
        }
}

#define REFS_MAX 4

/* A few (job, lease) pairs for one runner. */
static int roll_refs(struct world *w, int *ret_runner, int ids[REFS_MAX], uint64_t leases[REFS_MAX])
{
        int n = roll(w, REFS_MAX + 1);

        *ret_runner = roll(w, MODEL_RUNNERS);
        for (int i = 0; i < n; i++) {
                int runner;

                roll_holder(w, &ids[i], &runner, &leases[i]);
                if (i == 0 || roll(w, 3) == 0)
                        *ret_runner = runner;
        }
        if (n > 1 && roll(w, 4) == 0) { /* one lease named twice */
                ids[n - 1] = ids[0];
                leases[n - 1] = leases[0];
        }
        return n;
}

static void name_refs(struct world *w, const struct world_store *s, const int *ids, const uint64_t *leases,
                      int n, struct lessor_lease_ref *ret_refs)
{
        for (int i = 0; i < n; i++)
                ret_refs[i] = (struct lessor_lease_ref){world_name(w, "job", (uint64_t)ids[i]),
                                                        world_lease(w, s, leases[i])};
}

static void step_release(struct world *w)
{
        int ids[REFS_MAX], given_back[REFS_MAX];
        uint64_t leases[REFS_MAX];
        struct lessor_lease_ref refs[REFS_MAX];
        struct lessor_release release = {.leases = refs};
        int runner, n_given_back = 0;
        int n = roll_refs(w, &runner, ids, leases);

        release.n_leases = (size_t)n;
        release.runner_id = world_name(w, "runner", (uint64_t)runner);
        release.refused = roll(w, 5) == 0;
        if (roll(w, 4) == 0)
                release.retry_after_ms = world_now(w) + (roll(w, 3) == 0 ? -1000 : 30000);
        for (int i = 0; i < n; i++)
                if (model_release(&w->model, ids[i], runner, leases[i], release.refused,
                                  release.retry_after_ms))
                        given_back[n_given_back++] = i;
        w->at.runner = runner;
        EACH_STORE(w, s)
        {
                struct lessor_lease_ref_list released;

                name_refs(w, s, ids, leases, n, refs);
                if (lessor_routing_release_leases(s->store, &release, w->arena, &released, NULL) < 0 ||
                    released.n != (size_t)n_given_back) {
                        world_fail(w, s, "release gives back another number of leases than %d", n_given_back);
                        continue;
                }
                for (size_t i = 0; i < released.n; i++)
                        if (!lessor_slice_equal(released.items[i].lease_id, refs[given_back[i]].lease_id))
                                world_fail(w, s, "release gives back another lease");
        }
}

static void step_renew(struct world *w)
{
        int ids[REFS_MAX];
        uint64_t leases[REFS_MAX];
        bool held[REFS_MAX];
        struct lessor_lease_ref refs[REFS_MAX];
        int runner;
        int n = roll_refs(w, &runner, ids, leases);
        int64_t lease_ms = roll(w, 4) == 0 ? 2000 : 60000;

        for (int i = 0; i < n; i++)
                held[i] = model_renew(&w->model, ids[i], runner, leases[i], world_now(w) + lease_ms);
        w->at.runner = runner;
        EACH_STORE(w, s)
        {
                struct lessor_renewal_list list;
                size_t n_renewed = 0, n_lost = 0;

                name_refs(w, s, ids, leases, n, refs);
                if (lessor_routing_renew_leases(s->store, world_name(w, "runner", (uint64_t)runner), refs,
                                                (size_t)n, lease_ms, w->arena, &list, NULL) < 0) {
                        world_fail(w, s, "renew fails");
                        continue;
                }
                for (int i = 0; i < n; i++) {
                        const struct lessor_lease_ref *got = NULL;

                        if (held[i] && n_renewed < list.n_renewed)
                                got = &list.renewed[n_renewed++].ref;
                        else if (!held[i] && n_lost < list.n_lost)
                                got = &list.lost[n_lost++];
                        if (got == NULL || !lessor_slice_equal(got->lease_id, refs[i].lease_id) ||
                            !lessor_slice_equal(got->job_id, refs[i].job_id))
                                world_fail(w, s, "renew answers otherwise for lease %d of %d", i, n);
                }
                if (n_renewed != list.n_renewed || n_lost != list.n_lost)
                        world_fail(w, s, "renew answers more than it was asked");
        }
}

static void step_seen(struct world *w)
{
        int runner = roll(w, MODEL_RUNNERS), owner = roll(w, MODEL_OWNERS), device = roll(w, 3);
        int capabilities = roll(w, 100);

        model_seen(&w->model, runner, owner, device, capabilities, world_now(w));
        EACH_STORE(w, s)
        {
                struct lessor_presence presence = {
                        .runner_id = world_name(w, "runner", (uint64_t)runner),
                        .owner = world_name(w, "owner", (uint64_t)owner),
                        .device = {world_name(w, "identity", (uint64_t)device),
                                   world_name(w, "encryption", (uint64_t)device),
                                   world_name(w, "sig", (uint64_t)device)},
                        .capabilities = world_name(w, "capabilities", (uint64_t)capabilities),
                        .withheld = LESSOR_SLICE("[]"),
                };

                check_code(w, s, lessor_routing_seen(s->store, &presence, NULL), 0);
        }
}

/* --- time --- */

static void step_sweep(struct world *w)
{
        static struct model_swept want; /* large; one history runs at a time */

        model_sweep(&w->model, world_now(w), &want);
        w->at.sweeps = true;
        EACH_STORE(w, s)
        {
                struct lessor_swept swept;

                if (lessor_routing_sweep(s->store, w->arena, &swept, NULL) < 0 ||
                    swept.n_requeued != (size_t)want.n_requeued ||
                    swept.n_removed != (size_t)want.n_removed) {
                        world_fail(w, s, "sweep does not requeue %d and remove %d", want.n_requeued,
                                   want.n_removed);
                        continue;
                }
                for (size_t i = 0; i < swept.n_requeued; i++)
                        world_check_job(w, s, &swept.requeued[i], &want.requeued[i]);
                for (size_t i = 0; i < swept.n_removed; i++)
                        world_check_job(w, s, &swept.removed[i], &want.removed[i]);
        }
}

static void step_time(struct world *w)
{
        static const int64_t spans_ms[] = {1,     100,   1000,  1000,  3000,   9999,
                                           10000, 12000, 30000, 60000, 600000, 7200000};
        size_t most = roll(w, 20) == 0 ? ARRAY_SIZE(spans_ms) : 9;

        clock_manual_advance(&w->clock, spans_ms[world_roll(w, most)]);
}

/* A store that remembers is ended and made again; whatever was answered must still be so. */
static void step_restart(struct world *w)
{
        struct lessor_routing_listener listener;

        EACH_STORE(w, s)
        {
                if (!s->kind->durable)
                        continue;
                listener = s->store->listener;
                s->store = lessor_routing_store_free(s->store);
                check_code(w, s, s->kind->make(&w->clock.clock, &listener, s->directory, &s->store), 0);
                s->restarted = true;
                if (w->failed)
                        return;
        }
}

static const struct {
        const char *op;
        int weight;
        void (*run)(struct world *w);
} steps[] = {
        {"enqueue", 20, step_enqueue},  {"claim", 20, step_claim},
        {"seal", 18, step_seal},        {"take-payload", 12, step_take_payload},
        {"complete", 8, step_complete}, {"release", 8, step_release},
        {"renew", 6, step_renew},       {"cancel", 3, step_cancel},
        {"ack", 4, step_ack},           {"seen", 4, step_seen},
        {"sweep", 5, step_sweep},       {"time", 20, step_time},
        {"restart", 1, step_restart},
};

void world_step(struct world *w)
{
        int total = 0, rolled;

        for (size_t i = 0; i < ARRAY_SIZE(steps); i++)
                total += steps[i].weight;
        rolled = roll(w, total);
        for (size_t i = 0; i < ARRAY_SIZE(steps); i++) {
                rolled -= steps[i].weight;
                if (rolled >= 0)
                        continue;
                w->at = (struct world_step){.op = steps[i].op, .site = -1, .runner = -1};
                w->model.n_churns = 0;
                steps[i].run(w);
                for (int k = 0; k < w->model.n_churns; k++) {
                        w->n_churns++;
                        w->churn_expiries += w->model.churns[k].expiries;
                }
                return;
        }
}
