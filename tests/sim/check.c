/* SPDX-License-Identifier: MIT */
/* What must hold after every step, whatever happened. */
#include <stdlib.h>

#include "world.h"

static bool is_name(struct world *w, struct lessor_slice text, const char *what, uint64_t number)
{
        return lessor_slice_equal(text, world_name(w, what, number));
}

static bool bars_agree(struct world *w, const struct lessor_job *job, const struct model_job *want)
{
        for (int runner = 0; runner < MODEL_RUNNERS; runner++) {
                struct lessor_slice name = world_name(w, "runner", (uint64_t)runner);
                bool refused = false;
                int64_t until_ms = 0;

                for (size_t i = 0; i < job->n_refused_by; i++)
                        refused = refused || lessor_slice_equal(job->refused_by[i], name);
                for (size_t i = 0; i < job->n_retry_after; i++)
                        if (lessor_slice_equal(job->retry_after[i].runner_id, name))
                                until_ms = job->retry_after[i].until_ms;
                if (refused != want->refused_by[runner])
                        return false;
                /* A bar that is over may be forgotten, and one under a refusal makes no difference. */
                if (!refused && want->retry_after_ms[runner] > world_now(w) &&
                    until_ms != want->retry_after_ms[runner])
                        return false;
        }
        return true;
}

static bool claims_agree(struct world *w, const struct world_store *s, const struct lessor_job *job,
                         const struct model_job *want)
{
        if (job->claimed != (want->runner >= 0))
                return false;
        if (!job->claimed)
                return job->awaiting_until_ms == 0;
        return is_name(w, job->runner_id, "runner", (uint64_t)want->runner) &&
               is_name(w, job->runner_owner, "owner", (uint64_t)world_owner_of(want->runner)) &&
               is_name(w, job->device.identity, "identity", (uint64_t)want->runner) &&
               lessor_slice_equal(job->lease_id, world_lease(w, s, want->lease)) &&
               job->lease_expires_ms == want->lease_expires_ms &&
               job->awaiting_until_ms == want->awaiting_until_ms;
}

void world_check_job(struct world *w, const struct world_store *s, const struct lessor_job *job,
                     const struct model_job *want)
{
        struct lessor_slice reoffer_to = want->reoffer_to < 0
                                                 ? (struct lessor_slice){0}
                                                 : world_name(w, "runner", (uint64_t)want->reoffer_to);
        const char *wrong = NULL;

        if (!is_name(w, job->site_id, "site", (uint64_t)want->site) ||
            !is_name(w, job->stub.id, "job", (uint64_t)want->id))
                wrong = "is another job";
        else if (!is_name(w, job->stub.owner, "owner", (uint64_t)want->owner) ||
                 job->stub.kind != want->kind || job->stub.audience != want->audience ||
                 job->stub.deadline_ms != want->deadline_ms || job->enqueued_ms != want->enqueued_ms)
                wrong = "has another stub";
        else if (job->state != want->state)
                wrong = "is in another state";
        else if (!claims_agree(w, s, job, want))
                wrong = "has another claim";
        else if (job->seal_attempts != want->seal_attempts ||
                 !lessor_slice_equal(job->reoffer_to, reoffer_to) ||
                 (job->reoffer_to.p == NULL) != (want->reoffer_to < 0))
                wrong = "is re-offered otherwise";
        else if (!bars_agree(w, job, want))
                wrong = "is barred otherwise";
        else if (job->cancelled != want->cancelled || job->has_payload != (want->payload != 0) ||
                 job->has_result != (want->result != 0) ||
                 (job->has_result && job->disposition != want->disposition))
                wrong = "differs in a flag";
        if (wrong != NULL)
                world_fail(w, s, "site-%d/job-%d %s than in the model (%.*s/%.*s, state %d, model's %d)",
                           want->site, want->id, wrong, (int)job->site_id.n, job->site_id.p,
                           (int)job->stub.id.n, job->stub.id.p, (int)job->state, (int)want->state);
}

/* --- what a store says now --- */

static void check_all_jobs(struct world *w, struct world_store *s)
{
        size_t n = 0;

        for (int i = 0; i < w->model.n_jobs && !w->failed; i++) {
                if (!w->model.jobs[i].there)
                        continue;
                if (n == s->now.n)
                        world_fail(w, s, "site-%d/job-%d is lost", w->model.jobs[i].site,
                                   w->model.jobs[i].id);
                else
                        world_check_job(w, s, &s->now.items[n++], &w->model.jobs[i]);
        }
        if (!w->failed && n != s->now.n)
                world_fail(w, s, "it has %zu jobs, the model has %zu", s->now.n, n);
}

static void check_site(struct world *w, struct world_store *s, int site)
{
        struct lessor_slice site_id = world_name(w, "site", (uint64_t)site);
        struct lessor_job_list awaiting;
        struct lessor_result_list finished;
        size_t n_awaiting = 0, n_finished = 0;

        if (lessor_routing_awaiting(s->store, site_id, SIZE_MAX, w->arena, &awaiting, NULL) < 0 ||
            lessor_routing_finished(s->store, site_id, SIZE_MAX, w->arena, &finished, NULL) < 0) {
                world_fail(w, s, "the lists of site-%d cannot be read", site);
                return;
        }
        for (int i = 0; i < w->model.n_jobs && !w->failed; i++) {
                const struct model_job *job = &w->model.jobs[i];

                if (!job->there || job->site != site)
                        continue;
                if (job->state == LESSOR_JOB_AWAITING && n_awaiting < awaiting.n)
                        world_check_job(w, s, &awaiting.items[n_awaiting], job);
                n_awaiting += job->state == LESSOR_JOB_AWAITING;
                if (job->state != LESSOR_JOB_DONE)
                        continue;
                if (n_finished < finished.n) {
                        world_check_job(w, s, &finished.items[n_finished].job, job);
                        if (!is_name(w, finished.items[n_finished].envelope.json, "envelope", job->result))
                                world_fail(w, s, "site-%d/job-%d has another result", site, job->id);
                }
                n_finished++;
        }
        if (!w->failed && (n_awaiting != awaiting.n || n_finished != finished.n))
                world_fail(w, s, "site-%d: %zu awaiting and %zu finished, model: %zu and %zu", site,
                           awaiting.n, finished.n, n_awaiting, n_finished);
}

static void check_cancel_requests(struct world *w, struct world_store *s, int runner)
{
        struct lessor_lease_ref_list list;
        size_t n = 0;

        if (lessor_routing_cancel_requests(s->store, world_name(w, "runner", (uint64_t)runner), w->arena,
                                           &list, NULL) < 0) {
                world_fail(w, s, "the cancel requests of runner-%d cannot be read", runner);
                return;
        }
        for (int i = 0; i < w->model.n_jobs; i++) {
                const struct model_job *job = &w->model.jobs[i];

                if (!job->there || !job->cancelled || job->runner != runner)
                        continue;
                if (n < list.n &&
                    (!is_name(w, list.items[n].job_id, "job", (uint64_t)job->id) ||
                     !lessor_slice_equal(list.items[n].lease_id, world_lease(w, s, job->lease))))
                        world_fail(w, s, "runner-%d is asked to cancel something else than job-%d", runner,
                                   job->id);
                n++;
        }
        if (n != list.n)
                world_fail(w, s, "runner-%d has %zu cancel requests, model: %zu", runner, list.n, n);
}

static void check_presence(struct world *w, struct world_store *s)
{
        struct lessor_presence_list list;

        if (lessor_routing_everyone(s->store, w->arena, &list, NULL) < 0 || list.n != w->model.n_presences) {
                world_fail(w, s, "it has seen another number of devices than %u", w->model.n_presences);
                return;
        }
        for (int runner = 0; runner < MODEL_RUNNERS; runner++) {
                const struct model_presence *want = &w->model.presences[runner];
                const struct lessor_presence *got;

                if (!want->there)
                        continue;
                got = &list.items[want->order];
                if (!is_name(w, got->runner_id, "runner", (uint64_t)runner) ||
                    !is_name(w, got->owner, "owner", (uint64_t)want->owner) ||
                    !is_name(w, got->device.encryption, "encryption", (uint64_t)want->device) ||
                    !is_name(w, got->capabilities, "capabilities", (uint64_t)want->capabilities) ||
                    got->last_seen_ms != want->last_seen_ms)
                        world_fail(w, s, "runner-%d is present otherwise than in the model", runner);
        }
}

/* --- what must hold between two steps, model or not --- */

static const struct lessor_job *find(const struct lessor_job_list *list, const struct lessor_job *job)
{
        for (size_t i = 0; i < list->n; i++)
                if (lessor_slice_equal(list->items[i].site_id, job->site_id) &&
                    lessor_slice_equal(list->items[i].stub.id, job->stub.id) &&
                    list->items[i].enqueued_ms == job->enqueued_ms)
                        return &list->items[i];
        return NULL;
}

static bool same(const struct lessor_job *a, const struct lessor_job *b)
{
        return a->state == b->state && a->claimed == b->claimed &&
               lessor_slice_equal(a->runner_id, b->runner_id) &&
               lessor_slice_equal(a->lease_id, b->lease_id) && a->lease_expires_ms == b->lease_expires_ms &&
               a->awaiting_until_ms == b->awaiting_until_ms && a->seal_attempts == b->seal_attempts &&
               lessor_slice_equal(a->reoffer_to, b->reoffer_to) && a->n_refused_by == b->n_refused_by &&
               a->cancelled == b->cancelled && a->has_payload == b->has_payload &&
               a->has_result == b->has_result && a->disposition == b->disposition;
}

/* A job may go for three reasons, and for no other. */
static bool may_be_gone(struct world *w, const struct lessor_job *was)
{
        int64_t now_ms = world_now(w);

        return (w->at.sweeps && was->stub.deadline_ms <= now_ms) ||
               (w->at.sweeps && was->state == LESSOR_JOB_AWAITING && was->awaiting_until_ms <= now_ms &&
                was->seal_attempts == 2) ||
               (w->at.acks && was->state == LESSOR_JOB_DONE);
}

static void check_transition(struct world *w, struct world_store *s, const struct lessor_job *was,
                             const struct lessor_job *is)
{
        bool is_lease_over =
                was->claimed && (was->state == LESSOR_JOB_AWAITING ? was->awaiting_until_ms
                                                                   : was->lease_expires_ms) <= world_now(w);

        if (was->state == LESSOR_JOB_DONE &&
            (is->state != LESSOR_JOB_DONE || is->disposition != was->disposition ||
             !lessor_slice_equal(is->lease_id, was->lease_id)))
                world_fail(w, s, "%.*s was done and is reopened", (int)is->stub.id.n, is->stub.id.p);
        if (was->claimed && is->claimed && !lessor_slice_equal(is->lease_id, was->lease_id) && !is_lease_over)
                world_fail(w, s, "%.*s was granted while another held it", (int)is->stub.id.n, is->stub.id.p);
        if (w->at.site >= 0 && !is_name(w, was->site_id, "site", (uint64_t)w->at.site) && !same(was, is))
                world_fail(w, s, "%s of site-%d changed another site's %.*s", w->at.op, w->at.site,
                           (int)is->stub.id.n, is->stub.id.p);
        if (w->at.runner >= 0 && !is_name(w, was->runner_id, "runner", (uint64_t)w->at.runner) &&
            !same(was, is))
                world_fail(w, s, "%s of runner-%d changed %.*s, which it does not hold", w->at.op,
                           w->at.runner, (int)is->stub.id.n, is->stub.id.p);
}

static void check_history(struct world *w, struct world_store *s)
{
        for (size_t i = 0; i < s->before.n && !w->failed; i++) {
                const struct lessor_job *was = &s->before.items[i], *is = find(&s->now, was);

                if (is != NULL)
                        check_transition(w, s, was, is);
                else if (!may_be_gone(w, was))
                        world_fail(w, s, "%.*s of %.*s was lost", (int)was->stub.id.n, was->stub.id.p,
                                   (int)was->site_id.n, was->site_id.p);
        }
        for (size_t i = 0; i < s->now.n && !w->failed; i++)
                for (size_t k = 0; k < i; k++)
                        if (s->now.items[i].claimed && s->now.items[k].claimed &&
                            lessor_slice_equal(s->now.items[i].lease_id, s->now.items[k].lease_id))
                                world_fail(w, s, "two jobs under one lease");
}

/* A runner that asks after an id it has nothing to do with hears the same whether or not anybody has such a
 * job. */
static void check_no_oracle(struct world *w, struct world_store *s)
{
        struct lessor_slice stranger = LESSOR_SLICE("a-runner-that-never-was");
        struct lessor_lease_ref there = {world_name(w, "job", w->step % WORLD_IDS), LESSOR_SLICE("no-lease")};
        struct lessor_lease_ref nowhere = {LESSOR_SLICE("a-job-that-never-was"), LESSOR_SLICE("no-lease")};
        struct lessor_slice foreign = LESSOR_SLICE("a-site-that-never-was");
        struct lessor_envelope envelope = {LESSOR_SLICE("{}")};
        enum lessor_job_state was;
        bool duplicate;

        if (lessor_routing_take_payload(s->store, stranger, &there, w->arena, &envelope, NULL) !=
                    lessor_routing_take_payload(s->store, stranger, &nowhere, w->arena, &envelope, NULL) ||
            lessor_routing_complete(s->store, stranger, &there, &envelope, LESSOR_DISPOSITION_OK, &duplicate,
                                    NULL) != lessor_routing_complete(s->store, stranger, &nowhere, &envelope,
                                                                     LESSOR_DISPOSITION_OK, &duplicate,
                                                                     NULL) ||
            lessor_routing_seal(s->store, foreign, there.job_id, &envelope, &was, NULL) !=
                    LESSOR_E_NOT_FOUND ||
            lessor_routing_cancel(s->store, foreign, there.job_id, NULL) != LESSOR_E_NOT_FOUND)
                world_fail(w, s, "a stranger can tell that a job exists");
}

static void check_store(struct world *w, struct world_store *s)
{
        struct lessor_arena *arena = s->arenas[0];

        check_no_oracle(w, s);
        s->arenas[0] = s->arenas[1];
        s->arenas[1] = arena;
        s->before = s->now;
        lessor_arena_clear(arena);
        if (lessor_routing_jobs(s->store, NULL, SIZE_MAX, arena, &s->now, NULL) < 0) {
                world_fail(w, s, "its jobs cannot be listed");
                return;
        }
        check_history(w, s);
        check_all_jobs(w, s);
        for (int site = 0; site < MODEL_SITES && !w->failed; site++)
                check_site(w, s, site);
        for (int runner = 0; runner < MODEL_RUNNERS && !w->failed; runner++)
                check_cancel_requests(w, s, runner);
        check_presence(w, s);
}

void world_check(struct world *w)
{
        for (size_t i = 0; i < w->n_stores && !w->failed; i++)
                check_store(w, &w->stores[i]);
}
