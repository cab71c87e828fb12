/* SPDX-License-Identifier: MIT */
#include <stdlib.h>

#include "base/size.h"
#include "routing/engine_internal.h"

void job_attach(struct job *job, void *attachment)
{
        job->attachment = attachment;
}

void *job_attachment(const struct job *job)
{
        return job->attachment;
}

uint64_t job_seq(const struct job *job)
{
        return job->order_node.seq;
}

int job_new(struct engine *e, struct lessor_slice site_id, const struct lessor_stub *stub,
            struct job **ret_job)
{
        struct job *job;
        size_t bytes;

        if (!size_add(sizeof(*job), stub->id.n, &bytes))
                return LESSOR_E_NOMEM;
        job = calloc(1, bytes);
        if (job == NULL)
                return LESSOR_E_NOMEM;
        job->id = (struct lessor_slice){(char *)(job + 1), stub->id.n};
        if (stub->id.n > 0)
                memcpy(job + 1, stub->id.p, stub->id.n);
        job->kind = stub->kind;
        job->audience = stub->audience;
        job->size_class = stub->size_class;
        job->streaming = stub->streaming;
        job->deadline.at_ms = stub->deadline_ms;
        job->pair = pair_get(e, site_id, stub->owner);
        job->key_id = atom_get(e, stub->site);
        if (stub->purpose.p != NULL)
                job->purpose = atom_get(e, stub->purpose);
        if (job->pair == NULL || job->key_id == NULL || (stub->purpose.p != NULL && job->purpose == NULL)) {
                job_free(e, job);
                return LESSOR_E_NOMEM;
        }
        *ret_job = job;
        return 0;
}

struct job *job_free(struct engine *e, struct job *job)
{
        if (job == NULL)
                return NULL;
        if (job->attachment != NULL && e->free_attachment != NULL)
                e->free_attachment(job->attachment);
        claim_free(e, job->claim);
        bars_free(e, job->bars);
        berth_unref(e, job->stuck);
        atom_unref(e, job->key_id);
        atom_unref(e, job->purpose);
        pair_unref(e, job->pair);
        free(job->common);
        free(job);
        return NULL;
}

/* --- its place in the indexes --- */

void job_enter(struct engine *e, struct job *job)
{
        struct claim *c = job->claim;

        e->n_by_state[job->state]++;
        switch (job->state) {
        case LESSOR_JOB_QUEUED:
                if (!job->cancelled)
                        queue_add(job);
                return;
        case LESSOR_JOB_AWAITING:
                order_add(&job->pair->site->awaiting, &job->queue_node);
                job->pair->n_awaiting++;
                timer_set(&e->claims, &c->timer, c->awaiting_until_ms);
                break;
        case LESSOR_JOB_READY:
        case LESSOR_JOB_RUNNING:
                timer_set(&e->claims, &c->timer, c->lease_expires_ms);
                break;
        case LESSOR_JOB_DONE:
                order_add(&job->pair->site->finished, &job->queue_node);
                break;
        }
        if (job->cancelled)
                order_add(&c->runner->cancelled, &c->cancel_node);
}

void job_leave(struct engine *e, struct job *job)
{
        struct claim *c = job->claim;

        e->n_by_state[job->state]--;
        switch (job->state) {
        case LESSOR_JOB_QUEUED:
                if (!job->cancelled)
                        queue_remove(job);
                return;
        case LESSOR_JOB_AWAITING:
                order_remove(&job->pair->site->awaiting, &job->queue_node);
                job->pair->n_awaiting--;
                break;
        case LESSOR_JOB_READY:
        case LESSOR_JOB_RUNNING:
                break;
        case LESSOR_JOB_DONE:
                order_remove(&job->pair->site->finished, &job->queue_node);
                break;
        }
        timer_unset(&e->claims, &c->timer);
        if (job->cancelled)
                order_remove(&c->runner->cancelled, &c->cancel_node);
}

void job_install(struct engine *e, struct job *job, int64_t deadline_ms)
{
        uint64_t seq = job_seq(job);

        job->queue_node.seq = job->site_node.seq = job->deadline.seq = seq;
        table_add(&e->jobs, &job->node, table_hash_pair(&e->jobs, job->pair->site->id, job->id));
        order_add(&e->order, &job->order_node);
        order_add(&job->pair->site->jobs, &job->site_node);
        timer_set(&e->deadlines, &job->deadline, deadline_ms);
        job_enter(e, job);
}

void job_remove(struct engine *e, struct job *job)
{
        job_leave(e, job);
        table_remove(&e->jobs, &job->node);
        order_remove(&e->order, &job->order_node);
        order_remove(&job->pair->site->jobs, &job->site_node);
        timer_unset(&e->deadlines, &job->deadline);
        job->claim = claim_free(e, job->claim);
        job->bars = bars_free(e, job->bars);
        job->stuck = berth_unref(e, job->stuck);
        job->removed = true;
        change_note(e, &job->change);
}

void job_requeue(struct engine *e, struct job *job, bool stick)
{
        job_leave(e, job);
        if (stick && job->stuck == NULL) {
                job->stuck = job->claim->berth;
                job->stuck->refs++;
        }
        job->claim = claim_free(e, job->claim);
        job->state = LESSOR_JOB_QUEUED;
        if (job->has_payload)
                job->payload_changed = true;
        job->has_payload = false;
        job_enter(e, job);
        change_note(e, &job->change);
}

/* --- claims --- */

/*
 * Who holds a claim is nearly always a device as it is remembered, and then everything about it is at hand;
 * looking each part up by itself costs a cache miss or two.
 */
static void claim_set_holder(struct engine *e, struct claim *c, struct lessor_slice runner_id,
                             struct lessor_slice owner, const struct lessor_public_identity *device)
{
        const struct presence *p = presence_find(e, runner_id);

        if (p != NULL && lessor_slice_equal(p->owner->text, owner) && device_has_keys(p->device, device)) {
                c->runner = p->runner;
                c->owner = p->owner;
                c->device = p->device;
                c->runner->refs++;
                c->owner->refs++;
                c->device->refs++;
                return;
        }
        c->runner = runner_get(e, runner_id);
        c->owner = atom_get(e, owner);
        c->device = device_get(e, device);
}

int claim_new(struct engine *e, struct job *job, struct lessor_slice runner_id, struct lessor_slice owner,
              const struct lessor_public_identity *device, struct lessor_slice lease_id,
              struct claim **ret_claim)
{
        struct claim *c;
        size_t bytes;

        if (!size_add(sizeof(*c), lease_id.n, &bytes))
                return LESSOR_E_NOMEM;
        c = calloc(1, bytes);
        if (c == NULL)
                return LESSOR_E_NOMEM;
        c->lease_id = (struct lessor_slice){(char *)(c + 1), lease_id.n};
        if (lease_id.n > 0)
                memcpy(c + 1, lease_id.p, lease_id.n);
        c->job = job;
        c->timer.seq = c->cancel_node.seq = job_seq(job);
        claim_set_holder(e, c, runner_id, owner, device);
        if (c->runner != NULL)
                c->berth = berth_get(e, job->pair, c->runner);
        if (c->owner == NULL || c->device == NULL || c->berth == NULL) {
                claim_free(e, c);
                return LESSOR_E_NOMEM;
        }
        *ret_claim = c;
        return 0;
}

struct claim *claim_free(struct engine *e, struct claim *c)
{
        if (c == NULL)
                return NULL;
        if (c->job->claim == c) {
                table_remove(&e->by_lease, &c->by_lease);
                table_remove(&e->by_holder, &c->by_holder);
                e->n_claims--;
        }
        berth_unref(e, c->berth);
        runner_unref(e, c->runner);
        atom_unref(e, c->owner);
        device_unref(e, c->device);
        free(c);
        return NULL;
}

void claim_attach(struct engine *e, struct claim *c)
{
        c->job->claim = c;
        table_add(&e->by_lease, &c->by_lease, table_hash(&e->by_lease, c->lease_id));
        table_add(&e->by_holder, &c->by_holder, table_hash_pair(&e->by_holder, c->runner->id, c->job->id));
        e->n_claims++;
}

/* --- as others see it --- */

void job_stub(const struct job *job, struct lessor_stub *ret_stub)
{
        *ret_stub = (struct lessor_stub){
                .id = job->id,
                .kind = job->kind,
                .owner = job->pair->owner->text,
                .site = job->key_id->text,
                .audience = job->audience,
                .purpose = job->purpose == NULL ? (struct lessor_slice){0} : job->purpose->text,
                .size_class = job->size_class,
                .streaming = job->streaming,
                .deadline_ms = job->deadline.at_ms,
        };
}

static int copy_texts(struct lessor_arena *arena, struct lessor_slice *const *texts, size_t n)
{
        for (size_t i = 0; i < n; i++) {
                int r = lessor_arena_copy(arena, *texts[i], texts[i]);

                if (r < 0)
                        return r;
        }
        return 0;
}

int claim_render(const struct claim *c, struct lessor_arena *arena, struct lessor_job *job)
{
        struct lessor_slice *const texts[] = {
                &job->runner_id,         &job->runner_owner,          &job->device.identity,
                &job->device.encryption, &job->device.encryption_sig, &job->lease_id,
        };

        job->claimed = true;
        job->runner_id = c->runner->id;
        job->runner_owner = c->owner->text;
        job->device = c->device->keys;
        job->lease_id = c->lease_id;
        job->lease_expires_ms = c->lease_expires_ms;
        job->awaiting_until_ms = c->awaiting_until_ms;
        return copy_texts(arena, texts, ARRAY_SIZE(texts));
}

static int bars_render(const struct bars *bars, struct lessor_arena *arena, struct lessor_job *job)
{
        if (bars == NULL || bars->n == 0)
                return 0;
        job->refused_by = lessor_arena_array(arena, bars->n, sizeof(*job->refused_by));
        job->retry_after = lessor_arena_array(arena, bars->n, sizeof(*job->retry_after));
        if (job->refused_by == NULL || job->retry_after == NULL)
                return LESSOR_E_NOMEM;
        for (size_t i = 0; i < bars->n; i++) {
                struct lessor_slice runner_id;
                int r = lessor_arena_copy(arena, bars->items[i].runner_id, &runner_id);

                if (r < 0)
                        return r;
                if (bars->items[i].until_ms == ENGINE_BAR_FOREVER)
                        job->refused_by[job->n_refused_by++] = runner_id;
                else
                        job->retry_after[job->n_retry_after++] =
                                (struct lessor_retry_after){runner_id, bars->items[i].until_ms};
        }
        return 0;
}

int job_render(const struct job *job, struct lessor_arena *arena, struct lessor_job *ret_job)
{
        struct lessor_job out = {
                .site_id = job->pair->site->id,
                .state = job->state,
                .seal_attempts = job->seal_attempts,
                .reoffer_to = job->stuck == NULL ? (struct lessor_slice){0} : job->stuck->runner->id,
                .cancelled = job->cancelled,
                .has_payload = job->has_payload,
                .has_result = job->has_result,
                .disposition = job->disposition,
                .enqueued_ms = job->enqueued_ms,
        };
        struct lessor_slice *const texts[] = {
                &out.site_id,   &out.stub.id,      &out.stub.owner,
                &out.stub.site, &out.stub.purpose, &out.reoffer_to,
        };
        int r;

        job_stub(job, &out.stub);
        r = copy_texts(arena, texts, ARRAY_SIZE(texts));
        if (r == 0 && job->claim != NULL)
                r = claim_render(job->claim, arena, &out);
        if (r == 0)
                r = bars_render(job->bars, arena, &out);
        if (r == 0)
                *ret_job = out;
        return r;
}

int jobs_render(const struct order_tree *t, size_t node_offset, size_t max, struct lessor_arena *arena,
                struct lessor_job_list *ret_jobs)
{
        struct lessor_job_list list = {0};
        size_t cap = 0;
        uint64_t after = 0;

        while (list.n < max) {
                const struct order_node *node = order_after(t, after);
                int r;

                if (node == NULL)
                        break;
                if (list.n == cap) {
                        struct lessor_job *more =
                                lessor_arena_array(arena, cap == 0 ? 8 : cap * 2, sizeof(*more));

                        if (more == NULL)
                                return LESSOR_E_NOMEM;
                        if (list.n > 0)
                                memcpy(more, list.items, list.n * sizeof(*more));
                        list.items = more;
                        cap = cap == 0 ? 8 : cap * 2;
                }
                r = job_render((const struct job *)(const void *)((const char *)node - node_offset), arena,
                               &list.items[list.n]);
                if (r < 0)
                        return r;
                list.n++;
                after = node->seq;
        }
        *ret_jobs = list;
        return 0;
}
