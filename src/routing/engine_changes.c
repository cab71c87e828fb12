/* SPDX-License-Identifier: MIT */
/* What the engine tells a store: the records that changed and what happened; and how it is rebuilt from rows.
 */
#include "routing/engine_internal.h"

/* --- changes --- */

void change_note(struct engine *e, struct change_node *node)
{
        if (node->queued)
                return;
        node->queued = true;
        node->next = NULL;
        *e->changes_end = node;
        e->changes_end = &node->next;
}

static void row_of(const struct job *job, struct engine_row *ret_row)
{
        const struct claim *c = job->claim;

        *ret_row = (struct engine_row){
                .seq = job_seq(job),
                .job =
                        {
                                .site_id = job->pair->site->id,
                                .state = job->state,
                                .seal_attempts = job->seal_attempts,
                                .cancelled = job->cancelled,
                                .has_payload = job->has_payload,
                                .has_result = job->has_result,
                                .disposition = job->disposition,
                                .enqueued_ms = job->enqueued_ms,
                        },
        };
        job_stub(job, &ret_row->job.stub);
        if (job->stuck != NULL)
                ret_row->job.reoffer_to = job->stuck->runner->id;
        if (c != NULL) {
                ret_row->job.claimed = true;
                ret_row->job.runner_id = c->runner->id;
                ret_row->job.runner_owner = c->owner->text;
                ret_row->job.device = c->device->keys;
                ret_row->job.lease_id = c->lease_id;
                ret_row->job.lease_expires_ms = c->lease_expires_ms;
                ret_row->job.awaiting_until_ms = c->awaiting_until_ms;
        }
        if (job->bars != NULL) {
                ret_row->bars = job->bars->items;
                ret_row->n_bars = job->bars->n;
        }
}

static bool keeps_payload(const struct job *job)
{
        return job->state == LESSOR_JOB_READY || job->state == LESSOR_JOB_RUNNING;
}

bool engine_change(const struct engine *e, struct engine_change *ret_change)
{
        struct change_node *node = e->changes;
        struct job *job;

        if (node == NULL)
                return false;
        if (node->is_presence) {
                const struct presence *p = container_of(node, struct presence, change);

                *ret_change = (struct engine_change){
                        .what = ENGINE_PRESENCE_PUT,
                        .order = p->order_node.seq,
                        .presence =
                                {
                                        .runner_id = p->runner->id,
                                        .owner = p->owner->text,
                                        .device = p->device->keys,
                                        .last_seen_ms = p->last_seen_ms,
                                        .capabilities = p->capabilities,
                                        .withheld = p->withheld,
                                },
                };
                return true;
        }
        job = container_of(node, struct job, change);
        *ret_change = (struct engine_change){
                .what = job->removed ? ENGINE_JOB_REMOVED : ENGINE_JOB_PUT,
                .payload_changed = job->payload_changed,
                .result_changed = job->result_changed,
                .keep_payload = keeps_payload(job),
                .handle = job,
        };
        row_of(job, &ret_change->row);
        return true;
}

bool engine_change_is_job(const struct engine *e)
{
        return e->changes != NULL && !e->changes->is_presence;
}

bool engine_change_drops_payload(const struct engine *e, struct job **ret_job)
{
        struct job *job;

        if (e->changes == NULL)
                return false;
        *ret_job = NULL;
        if (e->changes->is_presence)
                return true;
        job = container_of(e->changes, struct job, change);
        if (job->payload_changed && !keeps_payload(job))
                *ret_job = job;
        return true;
}

bool engine_change_drop(struct engine *e)
{
        struct change_node *node = e->changes;
        struct job *job;

        if (node == NULL)
                return false;
        e->changes = node->next;
        if (e->changes == NULL)
                e->changes_end = &e->changes;
        node->queued = false;
        node->next = NULL;
        if (node->is_presence)
                return true;
        job = container_of(node, struct job, change);
        job->payload_changed = job->result_changed = false;
        if (job->removed)
                job_free(e, job);
        return true;
}

/* --- events --- */

static void tell(struct engine *e, struct site *s)
{
        if (s->in_tell)
                return;
        s->in_tell = true;
        s->refs++;
        s->tell_next = NULL;
        *e->tell_end = s;
        e->tell_end = &s->tell_next;
}

void event_awaiting(struct engine *e, struct site *s)
{
        s->tell_awaiting = true;
        tell(e, s);
}

void event_finished(struct engine *e, struct site *s)
{
        s->tell_finished = true;
        tell(e, s);
}

static void take_site_event(struct engine *e, struct engine_event *ret_event)
{
        struct site *s = e->tell;

        *ret_event = (struct engine_event){
                .what = s->tell_awaiting ? ENGINE_EVENT_AWAITING : ENGINE_EVENT_FINISHED,
                .site_id = s->id,
                .held = s,
        };
        s->refs++;
        if (s->tell_awaiting)
                s->tell_awaiting = false;
        else
                s->tell_finished = false;
        if (s->tell_finished)
                return;
        e->tell = s->tell_next;
        if (e->tell == NULL)
                e->tell_end = &e->tell;
        s->in_tell = false;
        site_unref(e, s);
}

bool engine_event_take(struct engine *e, struct engine_event *ret_event)
{
        struct churn *churn = e->tell_churn;

        if (e->tell != NULL) {
                take_site_event(e, ret_event);
                return true;
        }
        if (churn == NULL)
                return false;
        e->tell_churn = churn->tell_next;
        if (e->tell_churn == NULL)
                e->tell_churn_end = &e->tell_churn;
        churn->in_tell = false;
        churn->pair->refs++;
        *ret_event = (struct engine_event){
                .what = ENGINE_EVENT_CHURN,
                .site_id = churn->pair->site->id,
                .churn =
                        {
                                .site_id = churn->pair->site->id,
                                .owner = churn->pair->owner->text,
                                .expiries = churn->tell_expiries,
                                .window_ms = LESSOR_CHURN_WINDOW_MS,
                        },
                .held = churn->pair,
        };
        return true;
}

void engine_event_done(struct engine *e, struct engine_event *event)
{
        if (event->what == ENGINE_EVENT_CHURN)
                pair_unref(e, event->held);
        else
                site_unref(e, event->held);
        *event = (struct engine_event){0};
}

/* --- restoring --- */

static bool row_is_sound(const struct engine_row *row)
{
        const struct lessor_job *job = &row->job;
        bool awaiting = job->state == LESSOR_JOB_AWAITING;
        bool sealed = job->state == LESSOR_JOB_READY || job->state == LESSOR_JOB_RUNNING;

        return row->seq > 0 && row->seq < UINT64_MAX && job->state <= LESSOR_JOB_DONE &&
               (unsigned)job->stub.kind < LESSOR_N_KINDS && job->stub.audience <= LESSOR_AUDIENCE_TEAM &&
               job->stub.size_class <= LESSOR_SIZE_UNBOUNDED &&
               job->disposition <= LESSOR_DISPOSITION_CANCELED &&
               job->claimed == (job->state != LESSOR_JOB_QUEUED) &&
               (job->awaiting_until_ms != 0) == awaiting &&
               job->has_result == (job->state == LESSOR_JOB_DONE) && (!sealed || job->has_payload) &&
               (!job->has_payload || sealed || job->state == LESSOR_JOB_DONE);
}

static bool lease_is_known(const struct engine *e, struct lessor_slice lease_id)
{
        uint64_t hash = table_hash(&e->by_lease, lease_id);

        for (struct table_node *n = table_first(&e->by_lease, hash); n != NULL; n = table_next(n))
                if (lessor_slice_equal(container_of(n, struct claim, by_lease)->lease_id, lease_id))
                        return true;
        return false;
}

static int restore_bars(struct engine *e, struct job *job, const struct engine_row *row)
{
        for (size_t i = 0; i < row->n_bars; i++) {
                struct runner *runner;
                int r = bars_reserve(e, job);

                if (r < 0)
                        return r;
                runner = runner_get(e, row->bars[i].runner_id);
                if (runner == NULL)
                        return LESSOR_E_NOMEM;
                bars_set(e, job, runner, row->bars[i].until_ms);
        }
        return 0;
}

static int restore_stuck(struct engine *e, struct job *job, struct lessor_slice runner_id)
{
        struct runner *runner;

        if (runner_id.p == NULL)
                return 0;
        runner = runner_get(e, runner_id);
        if (runner == NULL)
                return LESSOR_E_NOMEM;
        job->stuck = berth_get(e, job->pair, runner);
        runner_unref(e, runner);
        return job->stuck == NULL ? LESSOR_E_NOMEM : 0;
}

static int restore_claim(struct engine *e, struct job *job, const struct lessor_job *from)
{
        struct claim *c;
        int r;

        if (!from->claimed)
                return 0;
        r = timer_heap_reserve(&e->claims, e->n_claims + 1);
        if (r < 0)
                return r;
        r = claim_new(e, job, from->runner_id, from->runner_owner, &from->device, from->lease_id, &c);
        if (r < 0)
                return r;
        c->lease_expires_ms = from->lease_expires_ms;
        c->awaiting_until_ms = from->awaiting_until_ms;
        claim_attach(e, c);
        return 0;
}

int engine_restore_job(struct engine *e, const struct engine_row *row)
{
        const struct lessor_job *from = &row->job;
        const struct order_node *there;
        struct job *job;
        int r;

        if (!row_is_sound(row))
                return LESSOR_E_INVALID;
        there = order_after(&e->order, row->seq - 1);
        if ((there != NULL && there->seq == row->seq) ||
            engine_find(e, from->site_id, from->stub.id) != NULL ||
            (from->claimed && lease_is_known(e, from->lease_id)))
                return LESSOR_E_EXISTS;
        r = timer_heap_reserve(&e->deadlines, e->deadlines.n + 1);
        if (r < 0)
                return r;
        r = job_new(e, from->site_id, &from->stub, &job);
        if (r < 0)
                return r;
        job->order_node.seq = row->seq;
        job->state = from->state;
        job->seal_attempts = from->seal_attempts;
        job->cancelled = from->cancelled;
        job->has_payload = from->has_payload;
        job->has_result = from->has_result;
        job->disposition = from->disposition;
        job->enqueued_ms = from->enqueued_ms;
        r = restore_bars(e, job, row);
        if (r == 0)
                r = restore_stuck(e, job, from->reoffer_to);
        if (r == 0)
                r = restore_claim(e, job, from);
        if (r < 0) {
                job_free(e, job);
                return r;
        }
        job_install(e, job, from->stub.deadline_ms);
        if (row->seq >= e->next_seq)
                e->next_seq = row->seq + 1;
        return 0;
}

void engine_reserve(struct engine *e, uint64_t seq, uint64_t order)
{
        if (seq >= e->next_seq && seq < UINT64_MAX)
                e->next_seq = seq + 1;
        if (order >= e->next_presence && order < UINT64_MAX)
                e->next_presence = order + 1;
}
