/* SPDX-License-Identifier: MIT */
#include "routing/engine.h"

#include <stdlib.h>

#include "base/size.h"
#include "routing/engine_internal.h"

int engine_new(const unsigned char hash_key[ENGINE_HASH_KEY_BYTES], void (*free_attachment)(void *attachment),
               struct engine **ret_engine)
{
        struct engine *e = calloc(1, sizeof(*e));
        uint64_t salt;

        if (e == NULL)
                return LESSOR_E_NOMEM;

        struct table *const tables[] = {
                &e->atoms,  &e->devices, &e->runners,  &e->sites,     &e->pairs,
                &e->berths, &e->jobs,    &e->by_lease, &e->by_holder, &e->presences,
        };
        for (size_t i = 0; i < ARRAY_SIZE(tables); i++) {
                if (table_init(tables[i], hash_key) < 0) {
                        while (i-- > 0)
                                table_done(tables[i]);
                        free(e);
                        return LESSOR_E_NOMEM;
                }
        }
        salt = table_hash(&e->atoms, LESSOR_SLICE("order"));
        e->plain_rules = (struct order_rules){.salt = salt};
        e->queue_rules = (struct order_rules){.salt = salt, .update = queue_update};
        e->order.rules = e->everyone.rules = &e->plain_rules;
        e->next_seq = e->next_presence = 1;
        e->changes_end = &e->changes;
        e->tell_end = &e->tell;
        e->tell_churn_end = &e->tell_churn;
        e->free_attachment = free_attachment;
        *ret_engine = e;
        return 0;
}

static void free_presence(struct table_node *node, void *context)
{
        struct engine *e = context;
        struct presence *p = container_of(node, struct presence, node);

        runner_unref(e, p->runner);
        atom_unref(e, p->owner);
        device_unref(e, p->device);
        free(p->text);
        free(p);
}

struct engine *engine_free(struct engine *e)
{
        struct order_node *node;
        struct engine_event event;
        struct timer *t;

        if (e == NULL)
                return NULL;
        while (engine_event_take(e, &event))
                engine_event_done(e, &event);
        /* Oldest first: at the edge of every tree, where taking a node out is cheapest. */
        while ((node = order_after(&e->order, 0)) != NULL)
                job_remove(e, container_of(node, struct job, order_node));
        while ((t = timer_first(&e->churns)) != NULL)
                churn_free(e, container_of(t, struct churn, timer)->pair);
        while (engine_change_drop(e))
                ;
        table_each(&e->presences, free_presence, e);

        struct table *const tables[] = {
                &e->atoms,  &e->devices, &e->runners,  &e->sites,     &e->pairs,
                &e->berths, &e->jobs,    &e->by_lease, &e->by_holder, &e->presences,
        };
        for (size_t i = 0; i < ARRAY_SIZE(tables); i++)
                table_done(tables[i]);
        timer_heap_done(&e->deadlines);
        timer_heap_done(&e->claims);
        timer_heap_done(&e->bar_ends);
        timer_heap_done(&e->churns);
        free(e);
        return NULL;
}

/* --- jobs --- */

struct job *engine_find(const struct engine *e, struct lessor_slice site_id, struct lessor_slice job_id)
{
        uint64_t hash = table_hash_pair(&e->jobs, site_id, job_id);

        for (struct table_node *n = table_first(&e->jobs, hash); n != NULL; n = table_next(n)) {
                struct job *job = container_of(n, struct job, node);

                if (lessor_slice_equal(job->id, job_id) && lessor_slice_equal(job->pair->site->id, site_id))
                        return job;
        }
        return NULL;
}

int engine_enqueue(struct engine *e, struct lessor_slice site_id, const struct lessor_stub *stub,
                   int64_t now_ms, struct lessor_arena *arena, struct lessor_job *ret_job, bool *ret_new)
{
        struct job *job = engine_find(e, site_id, stub->id);
        bool is_new = job == NULL;
        int r;

        if (is_new) {
                r = timer_heap_reserve(&e->deadlines, e->deadlines.n + 1);
                if (r < 0)
                        return r;
                r = job_new(e, site_id, stub, &job);
                if (r < 0)
                        return r;
                job->enqueued_ms = now_ms;
        }
        r = job_render(job, arena, ret_job);
        if (r < 0) {
                if (is_new)
                        job_free(e, job);
                return r;
        }
        if (is_new) {
                job->order_node.seq = e->next_seq++;
                job_install(e, job, stub->deadline_ms);
                change_note(e, &job->change);
        }
        if (ret_new != NULL)
                *ret_new = is_new;
        return 0;
}

int engine_job(const struct engine *e, struct lessor_slice site_id, struct lessor_slice job_id,
               struct lessor_arena *arena, struct lessor_job *ret_job)
{
        const struct job *job = engine_find(e, site_id, job_id);

        return job == NULL ? LESSOR_E_NOT_FOUND : job_render(job, arena, ret_job);
}

int engine_jobs(const struct engine *e, const struct lessor_slice *site_id, size_t max,
                struct lessor_arena *arena, struct lessor_job_list *ret_jobs)
{
        const struct site *s;

        if (site_id == NULL)
                return jobs_render(&e->order, offsetof(struct job, order_node), max, arena, ret_jobs);
        s = site_find(e, *site_id);
        if (s == NULL) {
                *ret_jobs = (struct lessor_job_list){0};
                return 0;
        }
        return jobs_render(&s->jobs, offsetof(struct job, site_node), max, arena, ret_jobs);
}

int engine_awaiting(const struct engine *e, struct lessor_slice site_id, size_t max,
                    struct lessor_arena *arena, struct lessor_job_list *ret_jobs)
{
        const struct site *s = site_find(e, site_id);

        if (s == NULL) {
                *ret_jobs = (struct lessor_job_list){0};
                return 0;
        }
        return jobs_render(&s->awaiting, offsetof(struct job, queue_node), max, arena, ret_jobs);
}

struct job *engine_finished_next(const struct engine *e, struct lessor_slice site_id, uint64_t after_seq)
{
        const struct site *s = site_find(e, site_id);
        struct order_node *node = s == NULL ? NULL : order_after(&s->finished, after_seq);

        return node == NULL ? NULL : job_of_queue(node);
}

void engine_stats(const struct engine *e, struct lessor_routing_stats *ret_stats)
{
        *ret_stats = (struct lessor_routing_stats){.n_presence = e->n_presences};
        for (size_t i = 0; i < ARRAY_SIZE(e->n_by_state); i++)
                ret_stats->n_jobs[i] = e->n_by_state[i];
}

/* --- claim --- */

/* The first jobs, by enqueue order, that one claim may have. */
struct picks {
        struct job *jobs[LIMIT_CLAIM_MAX];
        size_t n;
        size_t max;
};

/* Puts a job in its place; false when the list is full of earlier ones. */
static bool pick(struct picks *picks, struct job *job)
{
        size_t i;

        if (picks->n == picks->max) {
                if (job_seq(picks->jobs[picks->n - 1]) < job_seq(job))
                        return false;
                picks->n--;
        }
        for (i = picks->n; i > 0 && job_seq(picks->jobs[i - 1]) > job_seq(job); i--)
                picks->jobs[i] = picks->jobs[i - 1];
        picks->jobs[i] = job;
        picks->n++;
        return true;
}

/*
 * A pair gives at most what its unsealed cap leaves (UNSEALED_PER_PAIR), which is its first so many jobs for
 * this runner. The grants are then the first `max` of what all pairs give: the same as walking all jobs in
 * order, since what one pair gives does not hang on another.
 */
static void pick_from_pair(struct engine *e, const struct pair *p, const struct runner *r, unsigned lanes,
                           struct picks *picks)
{
        uint64_t after = 0;

        for (unsigned n = p->n_awaiting; n < LIMIT_UNSEALED_PER_PAIR; n++) {
                struct job *job = queue_first(e, p, r, lanes, after);

                if (job == NULL || !pick(picks, job))
                        return;
                after = job_seq(job);
        }
}

static void pick_jobs(struct engine *e, const struct lessor_claim *claim, struct picks *picks)
{
        const struct presence *known = presence_find(e, claim->runner_id);
        const struct runner *r = known != NULL ? known->runner : runner_find(e, claim->runner_id);
        unsigned team = 0, all = 0;

        for (unsigned kind = 0; kind < LESSOR_N_KINDS; kind++) {
                if ((claim->kinds & LESSOR_KIND_BIT(kind)) == 0)
                        continue;
                team |= 1u << lane_of(kind, LESSOR_AUDIENCE_TEAM);
                all |= 1u << lane_of(kind, LESSOR_AUDIENCE_TEAM) |
                       1u << lane_of(kind, LESSOR_AUDIENCE_PRIVATE);
        }
        e->n_claim_calls++;
        for (size_t i = 0; i < claim->n_routes; i++) {
                struct pair *p = pair_find(e, claim->routes[i].site_id, claim->routes[i].owner);

                if (p == NULL || p->seen_by_claim == e->n_claim_calls)
                        continue;
                p->seen_by_claim = e->n_claim_calls;
                /* A private job is for its owner's own devices. */
                pick_from_pair(e, p, r, lessor_slice_equal(p->owner->text, claim->owner) ? all : team, picks);
        }
}

/* Everything about a grant that may fail. */
static int prepare_grant(struct engine *e, struct job *job, const struct lessor_claim *claim, int64_t now_ms,
                         struct lessor_slice lease_id, struct lessor_arena *arena, struct claim **ret_claim,
                         struct lessor_job *ret_job)
{
        struct claim *c;
        int r;

        r = claim_new(e, job, claim->runner_id, claim->owner, &claim->device, lease_id, &c);
        if (r < 0)
                return r;
        c->lease_expires_ms = later_ms(now_ms, claim->lease_ms);
        c->awaiting_until_ms = later_ms(now_ms, LESSOR_AWAITING_PAYLOAD_MS);
        r = job_render(job, arena, ret_job);
        if (r == 0)
                r = claim_render(c, arena, ret_job);
        if (r < 0) {
                claim_free(e, c);
                return r;
        }
        ret_job->state = LESSOR_JOB_AWAITING;
        *ret_claim = c;
        return 0;
}

static void grant(struct engine *e, struct claim *c)
{
        struct job *job = c->job;

        job_leave(e, job);
        job->state = LESSOR_JOB_AWAITING;
        claim_attach(e, c);
        job_enter(e, job);
        change_note(e, &job->change);
        event_awaiting(e, job->pair->site);
}

int engine_claim(struct engine *e, const struct lessor_claim *claim, int64_t now_ms,
                 const struct lessor_slice *lease_ids, struct lessor_arena *arena,
                 struct lessor_job_list *ret_granted)
{
        struct picks picks = {.max = claim->max};
        struct claim *claims[LIMIT_CLAIM_MAX];
        struct lessor_job *granted = NULL;
        size_t n = 0;
        int r;

        if (claim->max < 1 || claim->max > LIMIT_CLAIM_MAX || claim->lease_ms <= 0)
                return LESSOR_E_INVALID;
        engine_sweep(e, now_ms, NULL, NULL);
        pick_jobs(e, claim, &picks);
        r = timer_heap_reserve(&e->claims, e->n_claims + picks.n);
        if (r < 0)
                return r;
        if (picks.n > 0) {
                granted = lessor_arena_array(arena, picks.n, sizeof(*granted));
                if (granted == NULL)
                        return LESSOR_E_NOMEM;
        }
        for (n = 0; n < picks.n; n++) {
                r = prepare_grant(e, picks.jobs[n], claim, now_ms, lease_ids[n], arena, &claims[n],
                                  &granted[n]);
                if (r < 0) {
                        while (n-- > 0)
                                claim_free(e, claims[n]);
                        return r;
                }
        }
        for (size_t i = 0; i < n; i++)
                grant(e, claims[i]);
        *ret_granted = (struct lessor_job_list){granted, n};
        return 0;
}
