/* SPDX-License-Identifier: MIT */
#include "model.h"

#include <string.h>

#include "lessor/error.h"
#include "lessor/routing_store.h"

void model_init(struct model *m)
{
        memset(m, 0, sizeof(*m));
}

void model_pack(struct model *m)
{
        int n = 0;

        for (int i = 0; i < m->n_jobs; i++)
                if (m->jobs[i].there)
                        m->jobs[n++] = m->jobs[i];
        m->n_jobs = n;
}

int model_find(const struct model *m, int site, int id)
{
        for (int i = 0; i < m->n_jobs; i++)
                if (m->jobs[i].there && m->jobs[i].site == site && m->jobs[i].id == id)
                        return i;
        return -1;
}

int model_enqueue(struct model *m, const struct model_job *stub)
{
        int i = model_find(m, stub->site, stub->id);
        struct model_job *job;

        if (i >= 0)
                return i;
        if (m->n_jobs == MODEL_JOBS)
                return -1;
        job = &m->jobs[m->n_jobs];
        memset(job, 0, sizeof(*job));
        job->there = true;
        job->site = stub->site;
        job->id = stub->id;
        job->owner = stub->owner;
        job->kind = stub->kind;
        job->audience = stub->audience;
        job->deadline_ms = stub->deadline_ms;
        job->enqueued_ms = stub->enqueued_ms;
        job->state = LESSOR_JOB_QUEUED;
        job->runner = -1;
        job->reoffer_to = -1;
        return m->n_jobs++;
}

static void requeue(struct model_job *job)
{
        job->state = LESSOR_JOB_QUEUED;
        job->runner = -1;
        job->lease = 0;
        job->lease_expires_ms = 0;
        job->awaiting_until_ms = 0;
        job->payload = 0;
}

static int unsealed(const struct model *m, int site, int owner)
{
        int n = 0;

        for (int i = 0; i < m->n_jobs; i++)
                if (m->jobs[i].there && m->jobs[i].site == site && m->jobs[i].owner == owner &&
                    m->jobs[i].state == LESSOR_JOB_AWAITING)
                        n++;
        return n;
}

static bool may_have(const struct model *m, const struct model_job *job, const struct model_claim *claim,
                     int64_t now_ms)
{
        return job->there && job->state == LESSOR_JOB_QUEUED && claim->routes[job->site][job->owner] &&
               (job->reoffer_to < 0 || job->reoffer_to == claim->runner) &&
               unsealed(m, job->site, job->owner) < 2 && (claim->kinds & LESSOR_KIND_BIT(job->kind)) != 0 &&
               !job->refused_by[claim->runner] && job->retry_after_ms[claim->runner] <= now_ms &&
               !job->cancelled && (job->audience == LESSOR_AUDIENCE_TEAM || job->owner == claim->owner);
}

void model_claim(struct model *m, const struct model_claim *claim, int64_t now_ms,
                 struct model_list *ret_granted)
{
        struct model_swept swept;

        model_sweep(m, now_ms, &swept);
        ret_granted->n = 0;
        for (int i = 0; i < m->n_jobs && (unsigned)ret_granted->n < claim->max; i++) {
                struct model_job *job = &m->jobs[i];

                if (!may_have(m, job, claim, now_ms))
                        continue;
                job->state = LESSOR_JOB_AWAITING;
                job->runner = claim->runner;
                job->lease = ++m->n_leases;
                job->lease_expires_ms = now_ms + claim->lease_ms;
                job->awaiting_until_ms = now_ms + 10000;
                ret_granted->items[ret_granted->n++] = i;
        }
}

/* The job that a (job id, runner, lease) means. */
static struct model_job *meant(struct model *m, int id, int runner, uint64_t lease)
{
        for (int i = 0; i < m->n_jobs; i++)
                if (m->jobs[i].there && m->jobs[i].lease == lease && lease != 0 && m->jobs[i].id == id)
                        return &m->jobs[i];
        for (int i = 0; i < m->n_jobs; i++)
                if (m->jobs[i].there && m->jobs[i].runner == runner && m->jobs[i].id == id)
                        return &m->jobs[i];
        return NULL;
}

int model_take_payload(struct model *m, int id, int runner, uint64_t lease, uint64_t *ret_payload)
{
        struct model_job *job = meant(m, id, runner, lease);

        if (job == NULL)
                return LESSOR_E_NOT_FOUND;
        if (job->runner != runner)
                return LESSOR_E_NOT_HOLDER;
        if (job->lease != lease)
                return LESSOR_E_STALE_LEASE;
        if (job->payload == 0)
                return LESSOR_E_NOT_READY;
        if (job->state != LESSOR_JOB_READY && job->state != LESSOR_JOB_RUNNING)
                return LESSOR_E_TERMINAL;
        job->state = LESSOR_JOB_RUNNING;
        *ret_payload = job->payload;
        return 0;
}

int model_complete(struct model *m, int id, int runner, uint64_t lease, uint64_t result,
                   enum lessor_disposition disposition, bool *ret_duplicate)
{
        struct model_job *job = meant(m, id, runner, lease);

        if (job == NULL)
                return LESSOR_E_NOT_FOUND;
        if (job->runner != runner)
                return LESSOR_E_NOT_HOLDER;
        if (job->lease != lease)
                return LESSOR_E_STALE_LEASE;
        *ret_duplicate = job->state == LESSOR_JOB_DONE;
        if (*ret_duplicate)
                return 0;
        job->state = LESSOR_JOB_DONE;
        job->awaiting_until_ms = 0;
        job->result = result;
        job->disposition = disposition;
        return 0;
}

int model_seal(struct model *m, int site, int id, uint64_t payload, enum lessor_job_state *ret_was)
{
        int i = model_find(m, site, id);

        if (i < 0)
                return LESSOR_E_NOT_FOUND;
        if (m->jobs[i].state != LESSOR_JOB_AWAITING) {
                *ret_was = m->jobs[i].state;
                return LESSOR_E_TOO_LATE;
        }
        m->jobs[i].payload = payload;
        m->jobs[i].state = LESSOR_JOB_READY;
        m->jobs[i].awaiting_until_ms = 0;
        m->jobs[i].seal_attempts = 0;
        return 0;
}

int model_cancel(struct model *m, int site, int id)
{
        int i = model_find(m, site, id);

        if (i < 0)
                return LESSOR_E_NOT_FOUND;
        m->jobs[i].cancelled = true;
        return 0;
}

bool model_release(struct model *m, int id, int runner, uint64_t lease, bool refused, int64_t retry_after_ms)
{
        struct model_job *job = meant(m, id, runner, lease);

        if (job == NULL || job->runner != runner || job->lease != lease || job->state == LESSOR_JOB_DONE)
                return false;
        if (refused)
                job->refused_by[runner] = true;
        if (retry_after_ms != 0)
                job->retry_after_ms[runner] = retry_after_ms;
        requeue(job);
        return true;
}

bool model_renew(struct model *m, int id, int runner, uint64_t lease, int64_t expires_ms)
{
        struct model_job *job = meant(m, id, runner, lease);

        if (job == NULL || job->runner != runner || job->lease != lease)
                return false;
        job->lease_expires_ms = expires_ms;
        return true;
}

bool model_ack(struct model *m, int site, int id)
{
        int i = model_find(m, site, id);

        if (i < 0 || m->jobs[i].state != LESSOR_JOB_DONE)
                return false;
        m->jobs[i].there = false;
        return true;
}

void model_seen(struct model *m, int runner, int owner, int device, int capabilities, int64_t now_ms)
{
        struct model_presence *p = &m->presences[runner];

        if (!p->there) {
                p->there = true;
                p->order = m->n_presences++;
                p->owner = owner;
                p->device = device;
        }
        p->capabilities = capabilities;
        p->last_seen_ms = now_ms;
}

static void note_churn(struct model *m, int site, int owner, int64_t now_ms)
{
        int64_t *notes = m->notes[site][owner];
        int *n = &m->n_notes[site][owner];
        int kept = 0;

        for (int i = 0; i < *n; i++)
                if (now_ms - notes[i] <= 300000)
                        notes[kept++] = notes[i];
        notes[kept++] = now_ms;
        *n = kept;
        if (kept < 6 || (m->told_ms[site][owner] != 0 && now_ms - m->told_ms[site][owner] < 3600000))
                return;
        m->told_ms[site][owner] = now_ms;
        if (m->n_churns < MODEL_CHURNS)
                m->churns[m->n_churns++] = (struct model_churn){site, owner, (unsigned)kept};
}

static void sweep_job(struct model *m, struct model_job *job, int64_t now_ms, struct model_swept *swept)
{
        if (job->deadline_ms <= now_ms) {
                job->there = false;
                swept->removed[swept->n_removed++] = *job;
                return;
        }
        if (job->state == LESSOR_JOB_AWAITING && job->awaiting_until_ms <= now_ms) {
                note_churn(m, job->site, job->owner, now_ms);
                if (job->reoffer_to < 0)
                        job->reoffer_to = job->runner;
                if (job->seal_attempts == 2) {
                        job->there = false;
                        swept->removed[swept->n_removed++] = *job;
                        return;
                }
                job->seal_attempts++;
                requeue(job);
                swept->requeued[swept->n_requeued++] = *job;
                return;
        }
        if ((job->state == LESSOR_JOB_READY || job->state == LESSOR_JOB_RUNNING) &&
            job->lease_expires_ms <= now_ms) {
                requeue(job);
                swept->requeued[swept->n_requeued++] = *job;
        }
}

void model_sweep(struct model *m, int64_t now_ms, struct model_swept *ret_swept)
{
        ret_swept->n_requeued = ret_swept->n_removed = 0;
        for (int i = 0; i < m->n_jobs; i++)
                if (m->jobs[i].there)
                        sweep_job(m, &m->jobs[i], now_ms, ret_swept);
}
