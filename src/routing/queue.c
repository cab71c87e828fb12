/* SPDX-License-Identifier: MIT */
/*
 * How a claim finds its jobs.
 *
 * A claim may have a job only if a list of things hold, and jobs that fail one must not be looked at one by
 * one: there may be a million of them in front. So each reason has its own answer:
 *
 *  - route                queues are per (site, owner) pair, and a claim looks at the pairs that it names;
 *  - kind, audience       four lanes a queue;
 *  - cancelled            such a job is in no queue;
 *  - sticks to a runner   such a job is in a queue of its own pair and runner, a berth;
 *  - refused, not yet     the nodes of a queue know which runners *every* job below them bars (`common`). A
 * search skips such a subtree whole; in any other there is a job for this runner, so the search never has to
 * come back out of one, and costs O(log n).
 *
 * Bars that end are taken away when their time has come, so what is in a set bars now.
 *
 * `common` may be smaller than it could be (memory may be short while it is made up). That costs time, never
 * an answer: the search backs out of a subtree that it should have skipped.
 */
#include <stdlib.h>

#include "base/size.h"
#include "routing/engine_internal.h"

static bool set_has(const struct runner_set *set, const struct runner *r)
{
        size_t low = 0, high = set == NULL ? 0 : set->n;

        while (low < high) {
                size_t middle = low + (high - low) / 2;

                if (set->items[middle] == r)
                        return true;
                if ((uintptr_t)set->items[middle] < (uintptr_t)r)
                        low = middle + 1;
                else
                        high = middle;
        }
        return false;
}

bool job_bars(const struct job *job, const struct runner *r)
{
        if (job->bars != NULL)
                for (size_t i = 0; i < job->bars->n; i++)
                        if (job->bars->items[i].runner == r)
                                return true;
        return false;
}

static int by_address(const void *a, const void *b)
{
        uintptr_t left = (uintptr_t) * (const struct runner *const *)a;
        uintptr_t right = (uintptr_t) * (const struct runner *const *)b;

        return (left > right) - (left < right);
}

static bool barred_below(const struct order_node *child, const struct runner *r)
{
        return child == NULL || set_has(job_of_queue(child)->common, r);
}

void queue_update(struct order_node *node)
{
        struct job *job = job_of_queue(node);
        struct runner_set *set;
        size_t bytes;

        free(job->common);
        job->common = NULL;
        if (job->bars == NULL || job->bars->n == 0)
                return;
        if ((node->left != NULL && job_of_queue(node->left)->common == NULL) ||
            (node->right != NULL && job_of_queue(node->right)->common == NULL))
                return;
        if (!size_mul(job->bars->n, sizeof(struct runner *), &bytes) ||
            !size_add(bytes, sizeof(*set), &bytes))
                return;
        set = malloc(bytes);
        if (set == NULL)
                return;
        set->n = 0;
        for (size_t i = 0; i < job->bars->n; i++) {
                const struct runner *r = job->bars->items[i].runner;

                if (barred_below(node->left, r) && barred_below(node->right, r))
                        set->items[set->n++] = r;
        }
        if (set->n == 0) {
                free(set);
                return;
        }
        qsort(set->items, set->n, sizeof(struct runner *), by_address);
        job->common = set;
}

static struct order_tree *queue_of(const struct job *job)
{
        unsigned lane = lane_of(job->kind, job->audience);

        return job->stuck != NULL ? &job->stuck->lanes[lane] : &job->pair->lanes[lane];
}

void queue_add(struct job *job)
{
        order_add(queue_of(job), &job->queue_node);
}

void queue_remove(struct job *job)
{
        order_remove(queue_of(job), &job->queue_node);
        free(job->common);
        job->common = NULL;
}

static struct job *first_below(struct order_node *node, const struct runner *r, uint64_t after)
{
        while (node != NULL && !set_has(job_of_queue(node)->common, r)) {
                struct job *job = job_of_queue(node);

                if (node->seq > after) {
                        struct job *earlier = first_below(node->left, r, after);

                        if (earlier != NULL)
                                return earlier;
                        if (!job_bars(job, r)) /* REFUSAL_NOT_REOFFERED, and retryAfter */
                                return job;
                }
                node = node->right;
        }
        return NULL;
}

struct job *queue_first(const struct engine *e, const struct pair *p, const struct runner *r, unsigned lanes,
                        uint64_t after)
{
        const struct berth *b = p->n_berths == 0 || r == NULL ? NULL : berth_find(e, p, r);
        struct job *first = NULL;

        for (unsigned lane = 0; lane < N_LANES; lane++) {
                struct job *job;

                if ((lanes & (1u << lane)) == 0)
                        continue;
                job = first_below(p->lanes[lane].root, r, after);
                if (job != NULL && (first == NULL || job_seq(job) < job_seq(first)))
                        first = job;
                job = b == NULL ? NULL : first_below(b->lanes[lane].root, r, after);
                if (job != NULL && (first == NULL || job_seq(job) < job_seq(first)))
                        first = job;
        }
        return first;
}

/* --- bars --- */

int bars_reserve(struct engine *e, struct job *job)
{
        struct bars *bars = job->bars;
        size_t cap, bytes;
        int r;

        if (bars != NULL && bars->n < bars->cap)
                return 0;
        cap = bars == NULL ? 1 : bars->cap;
        if (bars != NULL && !size_mul(cap, 2, &cap))
                return LESSOR_E_NOMEM;
        if (!size_mul(cap, sizeof(bars->items[0]), &bytes) || !size_add(bytes, sizeof(*bars), &bytes))
                return LESSOR_E_NOMEM;
        r = timer_heap_reserve(&e->bar_ends, e->n_bar_sets + 1);
        if (r < 0)
                return r;
        bars = realloc(job->bars, bytes);
        if (bars == NULL)
                return LESSOR_E_NOMEM;
        if (job->bars == NULL) {
                *bars = (struct bars){.job = job, .timer = {.seq = job_seq(job)}};
                e->n_bar_sets++;
        } else if (timer_is_set(&bars->timer)) {
                timer_moved(&e->bar_ends, &bars->timer);
        }
        bars->cap = cap;
        job->bars = bars;
        return 0;
}

static void bars_set_timer(struct engine *e, struct bars *bars)
{
        int64_t first_ms = ENGINE_BAR_FOREVER;

        for (size_t i = 0; i < bars->n; i++)
                if (bars->items[i].until_ms < first_ms)
                        first_ms = bars->items[i].until_ms;
        if (first_ms == ENGINE_BAR_FOREVER)
                timer_unset(&e->bar_ends, &bars->timer);
        else
                timer_set(&e->bar_ends, &bars->timer, first_ms);
}

void bars_set(struct engine *e, struct job *job, struct runner *r, int64_t until_ms)
{
        struct bars *bars = job->bars;
        size_t i = 0;

        while (i < bars->n && bars->items[i].runner != r)
                i++;
        if (i == bars->n) {
                bars->items[bars->n++] = (struct engine_bar){r->id, until_ms, r};
        } else {
                if (bars->items[i].until_ms != ENGINE_BAR_FOREVER)
                        bars->items[i].until_ms = until_ms;
                runner_unref(e, r);
        }
        bars_set_timer(e, bars);
}

void bars_expire(struct engine *e, int64_t now_ms)
{
        struct timer *due;

        while ((due = timer_due(&e->bar_ends, now_ms)) != NULL) {
                struct bars *bars = container_of(due, struct bars, timer);
                struct job *job = bars->job;
                bool in_queue = job->state == LESSOR_JOB_QUEUED && !job->cancelled;
                size_t kept = 0;

                if (in_queue)
                        queue_remove(job);
                for (size_t i = 0; i < bars->n; i++) {
                        if (bars->items[i].until_ms <= now_ms)
                                runner_unref(e, bars->items[i].runner);
                        else
                                bars->items[kept++] = bars->items[i];
                }
                bars->n = kept;
                bars_set_timer(e, bars);
                if (in_queue)
                        queue_add(job);
        }
}

struct bars *bars_free(struct engine *e, struct bars *bars)
{
        if (bars == NULL)
                return NULL;
        timer_unset(&e->bar_ends, &bars->timer);
        for (size_t i = 0; i < bars->n; i++)
                runner_unref(e, bars->items[i].runner);
        e->n_bar_sets--;
        free(bars);
        return NULL;
}
