/* SPDX-License-Identifier: MIT */
#include "store_text.h"

#include <stdint.h>

static void put(struct buf *out, const char *name, struct lessor_slice text)
{
        if (text.p != NULL)
                (void)buf_printf(out, " %s=%.*s", name, (int)text.n, text.p);
}

static void put_int(struct buf *out, const char *name, long long value)
{
        (void)buf_printf(out, " %s=%lld", name, value);
}

static void put_job(struct buf *out, const struct lessor_job *job)
{
        put(out, "site", job->site_id);
        put(out, "id", job->stub.id);
        put_int(out, "kind", job->stub.kind);
        put(out, "owner", job->stub.owner);
        put(out, "key", job->stub.site);
        put_int(out, "audience", job->stub.audience);
        put(out, "purpose", job->stub.purpose);
        put_int(out, "size", job->stub.size_class);
        put_int(out, "streaming", job->stub.streaming);
        put_int(out, "deadline", job->stub.deadline_ms);
        put_int(out, "enqueued", job->enqueued_ms);
        put_int(out, "state", job->state);
        put_int(out, "attempts", job->seal_attempts);
        put_int(out, "cancelled", job->cancelled);
        put_int(out, "payload", job->has_payload);
        put_int(out, "result", job->has_result);
        put(out, "reoffer", job->reoffer_to);
        if (job->has_result)
                put_int(out, "disposition", job->disposition);
        if (job->claimed) {
                put(out, "runner", job->runner_id);
                put(out, "runner_owner", job->runner_owner);
                put(out, "identity", job->device.identity);
                put(out, "encryption", job->device.encryption);
                put(out, "sig", job->device.encryption_sig);
                put(out, "lease", job->lease_id);
                put_int(out, "expires", job->lease_expires_ms);
                put_int(out, "awaiting", job->awaiting_until_ms);
        }
        for (size_t i = 0; i < job->n_refused_by; i++)
                put(out, "refused_by", job->refused_by[i]);
        for (size_t i = 0; i < job->n_retry_after; i++) {
                put(out, "retry_after", job->retry_after[i].runner_id);
                put_int(out, "until", job->retry_after[i].until_ms);
        }
}

static int put_payload(struct lessor_routing_store *store, const struct lessor_job *job,
                       struct lessor_arena *arena, struct buf *out)
{
        const struct lessor_lease_ref ref = {job->stub.id, job->lease_id};
        struct lessor_envelope envelope;
        int r;

        if (job->state != LESSOR_JOB_RUNNING) /* asking for a ready one would change it */
                return 0;
        r = lessor_routing_take_payload(store, job->runner_id, &ref, arena, &envelope, NULL);
        if (r == 0)
                put(out, "bytes", envelope.json);
        return r;
}

/* A site's results follow its jobs; every site once is enough, more do no harm. */
static int put_results(struct lessor_routing_store *store, struct lessor_slice site_id,
                       struct lessor_arena *arena, struct buf *out)
{
        struct lessor_result_list results;
        int r = lessor_routing_finished(store, site_id, SIZE_MAX, arena, &results, NULL);

        for (size_t i = 0; r == 0 && i < results.n; i++) {
                put(out, "result_of", results.items[i].job.stub.id);
                put(out, "bytes", results.items[i].envelope.json);
        }
        return r;
}

static int put_everyone(struct lessor_routing_store *store, struct lessor_arena *arena, struct buf *out)
{
        struct lessor_presence_list list;
        int r = lessor_routing_everyone(store, arena, &list, NULL);

        for (size_t i = 0; r == 0 && i < list.n; i++) {
                (void)buf_text(out, "\ndevice");
                put(out, "runner", list.items[i].runner_id);
                put(out, "owner", list.items[i].owner);
                put(out, "identity", list.items[i].device.identity);
                put(out, "encryption", list.items[i].device.encryption);
                put(out, "sig", list.items[i].device.encryption_sig);
        }
        return r;
}

int store_text(struct lessor_routing_store *store, struct buf *out)
{
        struct lessor_arena *arena = lessor_arena_new();
        struct lessor_slice last = {NULL, 0};
        struct lessor_job_list jobs;
        int r;

        if (arena == NULL)
                return LESSOR_E_NOMEM;
        r = lessor_routing_jobs(store, NULL, SIZE_MAX, arena, &jobs, NULL);
        for (size_t i = 0; r == 0 && i < jobs.n; i++) {
                (void)buf_text(out, "\njob");
                put_job(out, &jobs.items[i]);
                r = put_payload(store, &jobs.items[i], arena, out);
                if (r == 0 && (last.p == NULL || !lessor_slice_equal(last, jobs.items[i].site_id)))
                        r = put_results(store, jobs.items[i].site_id, arena, out);
                last = jobs.items[i].site_id;
        }
        if (r == 0)
                r = put_everyone(store, arena, out);
        lessor_arena_free(arena);
        return r == 0 ? buf_failed(out) : r;
}
