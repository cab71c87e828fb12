/* SPDX-License-Identifier: MIT */
/* The invariants of engine_internal.h, by number. */
#undef NDEBUG
#include <assert.h>

#include "routing/engine_internal.h"

static bool in_queue_lane(const struct job *job, const struct order_tree *lanes)
{
        return order_has(&lanes[lane_of(job->kind, job->audience)], &job->queue_node);
}

static void check_bars(const struct engine *e, const struct job *job)
{
        const struct bars *bars = job->bars;
        int64_t first_ms = ENGINE_BAR_FOREVER;

        if (bars == NULL)
                return;
        assert(bars->job == job && bars->n <= bars->cap); /* 8 */
        for (size_t i = 0; i < bars->n; i++) {
                for (size_t k = 0; k < i; k++)
                        assert(bars->items[i].runner != bars->items[k].runner); /* 8 */
                if (bars->items[i].until_ms < first_ms)
                        first_ms = bars->items[i].until_ms;
        }
        assert(timer_is_set(&bars->timer) == (first_ms != ENGINE_BAR_FOREVER));     /* 8 */
        assert(!timer_is_set(&bars->timer) || bars->timer.at_ms == first_ms);       /* 8 */
        assert(e->bar_ends.n <= e->n_bar_sets && e->n_bar_sets <= e->bar_ends.cap); /* 10 */
}

static void check_claim(const struct job *job)
{
        const struct claim *c = job->claim;
        bool awaiting = job->state == LESSOR_JOB_AWAITING;

        assert((c != NULL) == (job->state != LESSOR_JOB_QUEUED)); /* 5 */
        if (c == NULL) {
                assert(!job->has_payload); /* 11 */
                return;
        }
        assert(c->job == job && c->berth->pair == job->pair && c->berth->runner == c->runner); /* 5 */
        assert(order_has(&c->runner->cancelled, &c->cancel_node) == job->cancelled);           /* 5 */
        assert((c->awaiting_until_ms != 0) == awaiting);                                       /* 6 */
        assert(timer_is_set(&c->timer) == (job->state != LESSOR_JOB_DONE));                    /* 6 */
        assert(!timer_is_set(&c->timer) ||
               c->timer.at_ms == (awaiting ? c->awaiting_until_ms : c->lease_expires_ms)); /* 6 */
        assert(!awaiting || !job->has_payload);                                            /* 11 */
        assert((job->state != LESSOR_JOB_READY && job->state != LESSOR_JOB_RUNNING) ||
               job->has_payload); /* 11 */
}

static void check_job(const struct engine *e, const struct job *job)
{
        const struct site *s = job->pair->site;
        bool queued = job->state == LESSOR_JOB_QUEUED && !job->cancelled;

        assert(!job->removed && !job->due && !job->picked);
        assert(engine_find(e, s->id, job->id) == job);                                          /* 1 */
        assert(order_has(&e->order, &job->order_node) && order_has(&s->jobs, &job->site_node)); /* 1 */
        assert(in_queue_lane(job, job->pair->lanes) == (queued && job->stuck == NULL));         /* 2 */
        assert(job->stuck == NULL || job->stuck->pair == job->pair);
        assert(job->stuck == NULL || in_queue_lane(job, job->stuck->lanes) == queued);            /* 2 */
        assert(order_has(&s->awaiting, &job->queue_node) == (job->state == LESSOR_JOB_AWAITING)); /* 3 */
        assert(order_has(&s->finished, &job->queue_node) == (job->state == LESSOR_JOB_DONE));     /* 4 */
        assert(job->has_result == (job->state == LESSOR_JOB_DONE));                               /* 4 */
        assert(timer_is_set(&job->deadline));                                                     /* 7 */
        check_claim(job);
        check_bars(e, job);
}

static void check_common(const struct order_node *node, const struct runner *r)
{
        if (node == NULL)
                return;
        assert(job_bars(job_of_queue(node), r)); /* 9 */
        check_common(node->left, r);
        check_common(node->right, r);
}

/* Returns how many jobs are in the queue. */
static size_t check_queue(const struct order_tree *t)
{
        size_t n = 0;

        for (const struct order_node *node = order_after(t, 0); node != NULL;
             node = order_after(t, node->seq)) {
                const struct runner_set *common = job_of_queue(node)->common;

                for (size_t i = 0; common != NULL && i < common->n; i++)
                        check_common(node, common->items[i]);
                n++;
        }
        assert(order_check(t) == n);
        return n;
}

struct totals {
        size_t n_queued;
        size_t n_awaiting;
        size_t n_finished;
        size_t n_site_jobs;
        size_t n_pair_awaiting;
};

static void check_pair(struct table_node *node, void *context)
{
        const struct pair *p = container_of(node, struct pair, node);
        struct totals *totals = context;

        for (size_t i = 0; i < N_LANES; i++)
                totals->n_queued += check_queue(&p->lanes[i]);
        totals->n_pair_awaiting += p->n_awaiting;
        assert(p->n_awaiting <= LIMIT_UNSEALED_PER_PAIR);
}

static void check_berth(struct table_node *node, void *context)
{
        const struct berth *b = container_of(node, struct berth, node);
        struct totals *totals = context;

        for (size_t i = 0; i < N_LANES; i++)
                totals->n_queued += check_queue(&b->lanes[i]);
}

static void check_site(struct table_node *node, void *context)
{
        const struct site *s = container_of(node, struct site, node);
        struct totals *totals = context;

        totals->n_site_jobs += order_check(&s->jobs);
        totals->n_awaiting += order_check(&s->awaiting);
        totals->n_finished += order_check(&s->finished);
}

static void check_heap(const struct timer_heap *h)
{
        assert(h->n <= h->cap);
        for (size_t i = 0; i < h->n; i++) {
                const struct timer *t = h->items[i], *up = h->items[i == 0 ? 0 : (i - 1) / 2];

                assert(t->place == i + 1);
                assert(up->at_ms < t->at_ms || (up->at_ms == t->at_ms && up->seq <= t->seq));
        }
}

void engine_check(const struct engine *e)
{
        struct totals totals = {0};
        uint64_t n_by_state[5] = {0};
        size_t n_claims = 0, n_queued = 0, n_jobs = 0;

        for (const struct order_node *node = order_after(&e->order, 0); node != NULL;
             node = order_after(&e->order, node->seq)) {
                const struct job *job = container_of(node, struct job, order_node);

                check_job(e, job);
                n_jobs++;
                n_by_state[job->state]++;
                n_claims += job->claim != NULL;
                n_queued += job->state == LESSOR_JOB_QUEUED && !job->cancelled;
        }
        table_each(&e->pairs, check_pair, &totals);
        table_each(&e->berths, check_berth, &totals);
        table_each(&e->sites, check_site, &totals);
        assert(order_check(&e->order) == n_jobs && e->jobs.n == n_jobs &&
               totals.n_site_jobs == n_jobs);                                                       /* 1 */
        assert(totals.n_queued == n_queued);                                                        /* 2 */
        assert(totals.n_awaiting == n_by_state[LESSOR_JOB_AWAITING]);                               /* 3 */
        assert(totals.n_pair_awaiting == totals.n_awaiting);                                        /* 3 */
        assert(totals.n_finished == n_by_state[LESSOR_JOB_DONE]);                                   /* 4 */
        assert(n_claims == e->n_claims && e->by_lease.n == n_claims && e->by_holder.n == n_claims); /* 5 */
        assert(e->deadlines.n == n_jobs);                                                           /* 7 */
        assert(e->claims.cap >= e->claims.n);                                                       /* 10 */
        for (size_t i = 0; i < ARRAY_SIZE(n_by_state); i++)
                assert(n_by_state[i] == e->n_by_state[i]); /* 12 */
        check_heap(&e->deadlines);
        check_heap(&e->claims);
        check_heap(&e->bar_ends);
        check_heap(&e->churns);
        assert(e->everyone.root == NULL || order_check(&e->everyone) == e->n_presences);
}
