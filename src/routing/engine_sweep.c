/* SPDX-License-Identifier: MIT */
#include <stdlib.h>

#include "base/size.h"
#include "routing/engine_internal.h"

/* --- churn: pairs whose windows pass unsealed again and again --- */

void churn_free(struct engine *e, struct pair *p)
{
        struct churn *churn = p->churn;

        timer_unset(&e->churns, &churn->timer);
        e->n_churns--;
        p->churn = NULL;
        free(churn->at_ms);
        free(churn);
        pair_unref(e, p);
}

/* The pair's notes, made if need be; NULL when memory is short, and then this expiry goes unnoted. */
static struct churn *churn_of(struct engine *e, const struct job *job)
{
        struct pair *p = job->pair;
        struct churn *churn = p->churn;

        if (churn == NULL) {
                if (timer_heap_reserve(&e->churns, e->n_churns + 1) < 0)
                        return NULL;
                churn = calloc(1, sizeof(*churn));
                if (churn == NULL)
                        return NULL;
                churn->pair = p;
                churn->timer.seq = job_seq(job);
                churn->told_ms = INT64_MIN;
                p->refs++;
                p->churn = churn;
                e->n_churns++;
        }
        if (churn->n == churn->cap) {
                size_t cap = churn->cap == 0 ? LESSOR_CHURN_EXPIRIES : churn->cap * 2;
                int64_t *more = NULL;
                size_t bytes;

                if (size_mul(cap, sizeof(*more), &bytes))
                        more = realloc(churn->at_ms, bytes);

                if (more != NULL) {
                        churn->at_ms = more;
                        churn->cap = cap;
                }
        }
        return churn;
}

static void churn_report(struct engine *e, struct churn *churn, int64_t now_ms)
{
        churn->told_ms = now_ms;
        churn->tell_expiries = (unsigned)churn->n;
        if (churn->in_tell)
                return;
        churn->in_tell = true;
        churn->tell_next = NULL;
        *e->tell_churn_end = churn;
        e->tell_churn_end = &churn->tell_next;
}

static void churn_note(struct engine *e, const struct job *job, int64_t now_ms)
{
        struct churn *churn = churn_of(e, job);
        size_t kept = 0;
        int64_t until_ms = later_ms(now_ms, LESSOR_CHURN_WINDOW_MS);

        if (churn == NULL)
                return;
        for (size_t i = 0; i < churn->n; i++)
                if (now_ms - churn->at_ms[i] <= LESSOR_CHURN_WINDOW_MS)
                        churn->at_ms[kept++] = churn->at_ms[i];
        churn->n = kept;
        if (churn->n < churn->cap)
                churn->at_ms[churn->n++] = now_ms;
        if (churn->n >= LESSOR_CHURN_EXPIRIES &&
            (churn->told_ms == INT64_MIN || now_ms - churn->told_ms >= LESSOR_CHURN_QUIET_MS))
                churn_report(e, churn, now_ms);
        if (churn->told_ms != INT64_MIN && later_ms(churn->told_ms, LESSOR_CHURN_QUIET_MS) > until_ms)
                until_ms = later_ms(churn->told_ms, LESSOR_CHURN_QUIET_MS);
        timer_set(&e->churns, &churn->timer, until_ms);
}

/* Forgets notes that can no longer count towards a report or keep one back. */
static void churn_expire(struct engine *e, int64_t now_ms)
{
        struct timer *due;

        /* One ms later than the timer says: a note counts up to and with the end of its window. */
        while ((due = timer_due(&e->churns, now_ms - 1)) != NULL) {
                struct churn *churn = container_of(due, struct churn, timer);

                if (churn->in_tell)
                        timer_set(&e->churns, due, later_ms(now_ms, LESSOR_CHURN_WINDOW_MS));
                else
                        churn_free(e, churn->pair);
        }
}

/* --- sweep --- */

enum verdict { VERDICT_REMOVE, VERDICT_EVICT, VERDICT_REQUEUE_UNSEALED, VERDICT_REQUEUE };

static enum verdict judge(const struct job *job, int64_t now_ms)
{
        if (job->deadline.at_ms <= now_ms)
                return VERDICT_REMOVE;
        if (job->state != LESSOR_JOB_AWAITING)
                return VERDICT_REQUEUE;
        /* SEAL_ATTEMPTS_BEFORE_EVICTION */
        return job->seal_attempts + 1 >= LIMIT_SEAL_ATTEMPTS ? VERDICT_EVICT : VERDICT_REQUEUE_UNSEALED;
}

static void take_due(struct job *job, struct job **list)
{
        if (job->due)
                return;
        job->due = true;
        job->due_next = *list;
        *list = job;
}

/* Sorts a list by enqueue order: bottom-up merge sort, which takes no memory. */
static struct job *sort_due(struct job *list)
{
        for (size_t width = 1;; width *= 2) {
                struct job *in = list, *out = NULL, **end = &out;
                size_t n_merges = 0;

                while (in != NULL) {
                        struct job *a = in, *b = in;
                        size_t n_a = 0, n_b = width;

                        n_merges++;
                        while (n_a < width && b != NULL) {
                                n_a++;
                                b = b->due_next;
                        }
                        while (n_a > 0 || (n_b > 0 && b != NULL)) {
                                struct job **from;

                                if (n_a == 0 || (n_b > 0 && b != NULL && job_seq(b) < job_seq(a))) {
                                        from = &b;
                                        n_b--;
                                } else {
                                        from = &a;
                                        n_a--;
                                }
                                *end = *from;
                                end = &(*from)->due_next;
                                *from = (*from)->due_next;
                        }
                        in = b;
                }
                *end = NULL;
                list = out;
                if (n_merges <= 1)
                        return list;
        }
}

/* Takes every due job out of the heaps, in enqueue order. */
static struct job *collect_due(struct engine *e, int64_t now_ms)
{
        struct job *list = NULL;
        struct timer *t;

        while ((t = timer_due(&e->deadlines, now_ms)) != NULL) {
                timer_unset(&e->deadlines, t);
                take_due(container_of(t, struct job, deadline), &list);
        }
        while ((t = timer_due(&e->claims, now_ms)) != NULL) {
                timer_unset(&e->claims, t);
                take_due(container_of(t, struct claim, timer)->job, &list);
        }
        return sort_due(list);
}

/* Undoes collect_due. */
static void put_back(struct engine *e, struct job *list)
{
        for (struct job *job = list; job != NULL; job = job->due_next) {
                struct claim *c = job->claim;

                job->due = false;
                timer_set(&e->deadlines, &job->deadline, job->deadline.at_ms);
                if (c != NULL && job->state != LESSOR_JOB_DONE)
                        timer_set(&e->claims, &c->timer, c->timer.at_ms);
        }
}

/* What a job will look like when its verdict is carried out. */
static int foretell(const struct job *job, enum verdict verdict, struct lessor_arena *arena,
                    struct lessor_job *out)
{
        int r = job_render(job, arena, out);

        if (r < 0 || verdict == VERDICT_REMOVE)
                return r;
        if (verdict != VERDICT_REQUEUE && out->reoffer_to.p == NULL)
                out->reoffer_to = out->runner_id;
        if (verdict == VERDICT_EVICT)
                return 0;
        if (verdict == VERDICT_REQUEUE_UNSEALED)
                out->seal_attempts++;
        out->state = LESSOR_JOB_QUEUED;
        out->has_payload = false;
        out->claimed = false;
        out->runner_id = out->runner_owner = out->lease_id = (struct lessor_slice){0};
        out->device = (struct lessor_public_identity){0};
        out->lease_expires_ms = out->awaiting_until_ms = 0;
        return 0;
}

static int report(const struct job *list, int64_t now_ms, struct lessor_arena *arena,
                  struct lessor_swept *ret_swept)
{
        struct lessor_swept swept = {0};
        size_t n_requeued = 0, n_removed = 0;

        for (const struct job *job = list; job != NULL; job = job->due_next)
                *(judge(job, now_ms) <= VERDICT_EVICT ? &n_removed : &n_requeued) += 1;
        swept.requeued = lessor_arena_array(arena, n_requeued, sizeof(*swept.requeued));
        swept.removed = lessor_arena_array(arena, n_removed, sizeof(*swept.removed));
        if (swept.requeued == NULL || swept.removed == NULL)
                return LESSOR_E_NOMEM;
        for (const struct job *job = list; job != NULL; job = job->due_next) {
                enum verdict verdict = judge(job, now_ms);
                int r = foretell(job, verdict, arena,
                                 verdict <= VERDICT_EVICT ? &swept.removed[swept.n_removed++]
                                                          : &swept.requeued[swept.n_requeued++]);

                if (r < 0)
                        return r;
        }
        *ret_swept = swept;
        return 0;
}

static void carry_out(struct engine *e, struct job *job, int64_t now_ms)
{
        enum verdict verdict = judge(job, now_ms);

        if (verdict == VERDICT_EVICT || verdict == VERDICT_REQUEUE_UNSEALED)
                churn_note(e, job, now_ms);
        switch (verdict) {
        case VERDICT_REMOVE:
        case VERDICT_EVICT:
                job_remove(e, job);
                break;
        case VERDICT_REQUEUE_UNSEALED:
                job->seal_attempts++;
                job_requeue(e, job, true);
                break;
        case VERDICT_REQUEUE:
                job_requeue(e, job, false);
                break;
        }
}

int engine_sweep(struct engine *e, int64_t now_ms, struct lessor_arena *arena, struct lessor_swept *ret_swept)
{
        struct job *list = collect_due(e, now_ms);

        if (ret_swept != NULL) {
                int r = report(list, now_ms, arena, ret_swept);

                if (r < 0) {
                        put_back(e, list);
                        return r;
                }
        }
        bars_expire(e, now_ms);
        while (list != NULL) {
                struct job *job = list;

                list = job->due_next;
                job->due = false;
                carry_out(e, job, now_ms);
        }
        churn_expire(e, now_ms);
        return 0;
}

int64_t engine_next_due_ms(const struct engine *e)
{
        const struct timer_heap *const heaps[] = {&e->deadlines, &e->claims, &e->bar_ends};
        int64_t first_ms = INT64_MAX;

        for (size_t i = 0; i < ARRAY_SIZE(heaps); i++) {
                const struct timer *t = timer_first(heaps[i]);

                if (t != NULL && t->at_ms < first_ms)
                        first_ms = t->at_ms;
        }
        return first_ms;
}
