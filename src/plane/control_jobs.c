/* SPDX-License-Identifier: MIT */
#include "base/encode.h"
#include "base/limits.h"
#include "plane/control_call.h"
#include "wire/relay_shapes.h"

/* Jobs, as the routing store has them. Never an envelope: the operator has no use for what they cannot open.
 */

#define JOBS_DEFAULT 100

struct job_body {
        struct lessor_slice site_id;
        struct lessor_slice job_id;
};

static const struct message_field job_fields[] = {
        FIELD_TEXT1(struct job_body, site_id, "siteId"),
        FIELD_TEXT1(struct job_body, job_id, "jobId"),
};
const struct message_table control_job_body = MESSAGE_TABLE("JobName", struct job_body, job_fields);

static const struct control_words words[] = {
        {LESSOR_E_NOT_FOUND, "that site has no job \"{}\"; `lessor job ls` lists them"},
        {0},
};

static void put_claim(struct control_call *call, struct json_writer *w, const struct lessor_job *job)
{
        json_key(w, "claim");
        json_open_object(w);
        json_member_text(w, "runnerId", job->runner_id);
        json_member_text(w, "owner", job->runner_owner);
        json_member_text(w, "keyId", control_key_id(call, job->device.identity));
        json_member_text(w, "leaseId", job->lease_id);
        json_member_int(w, "leaseExpiresAt", job->lease_expires_ms);
        if (job->awaiting_until_ms > 0)
                json_member_int(w, "awaitingUntil", job->awaiting_until_ms);
        json_close_object(w);
}

static void put_history(struct json_writer *w, const struct lessor_job *job)
{
        json_member_int(w, "sealAttempts", job->seal_attempts);
        json_member_text(w, "reofferTo", job->reoffer_to);
        json_key(w, "refusedBy");
        json_open_array(w);
        for (size_t i = 0; i < job->n_refused_by; i++)
                json_put_text(w, job->refused_by[i]);
        json_close_array(w);
        json_key(w, "retryAfter");
        json_open_array(w);
        for (size_t i = 0; i < job->n_retry_after; i++) {
                json_open_object(w);
                json_member_text(w, "runnerId", job->retry_after[i].runner_id);
                json_member_int(w, "until", job->retry_after[i].until_ms);
                json_close_object(w);
        }
        json_close_array(w);
}

static void put_job(struct control_call *call, struct json_writer *w, const struct lessor_job *job)
{
        const struct lessor_stub *stub = &job->stub;

        json_open_object(w);
        json_member_text(w, "siteId", job->site_id);
        json_member_text(w, "jobId", stub->id);
        json_member_cstr(w, "state", message_word(&job_state_words, (int)job->state));
        json_member_bool(w, "cancelled", job->cancelled);
        json_member_cstr(w, "kind", message_word(&kind_words, (int)stub->kind));
        json_member_text(w, "owner", stub->owner);
        json_member_cstr(w, "audience", message_word(&audience_words, (int)stub->audience));
        json_member_text(w, "purpose", stub->purpose);
        json_member_cstr(w, "sizeClass", message_word(&size_class_words, (int)stub->size_class));
        json_member_bool(w, "streaming", stub->streaming);
        json_member_int(w, "enqueuedAt", job->enqueued_ms);
        json_member_int(w, "deadlineAt", stub->deadline_ms);
        json_member_bool(w, "hasPayload", job->has_payload);
        if (job->has_result)
                json_member_cstr(w, "disposition", message_word(&disposition_words, (int)job->disposition));
        if (job->claimed)
                put_claim(call, w, job);
        put_history(w, job);
        json_close_object(w);
}

struct job_filter {
        struct lessor_slice site;
        struct lessor_slice owner;
        int state; /* -1: any */
        int64_t limit;
};

static bool read_limit(struct lessor_slice text, int64_t *ret_limit)
{
        int64_t limit = 0;

        if (text.n == 0 || text.n > 6)
                return false;
        for (size_t i = 0; i < text.n; i++) {
                if (text.p[i] < '0' || text.p[i] > '9')
                        return false;
                limit = limit * 10 + (text.p[i] - '0');
        }
        *ret_limit = limit;
        return limit >= 1 && limit <= LIMIT_CONTROL_JOBS;
}

/* False when the call was refused. */
static bool read_filter(struct control_call *call, struct job_filter *ret_filter)
{
        struct lessor_slice state, limit;
        struct job_filter f = {.state = -1, .limit = JOBS_DEFAULT};

        if (!control_query(call, "site", &f.site) || !control_query(call, "owner", &f.owner) ||
            !control_query(call, "state", &state) || !control_query(call, "limit", &limit))
                return false;
        if (state.p != NULL) {
                f.state = message_word_number(&job_state_words, state);
                if (f.state < 0) {
                        control_refuse(call, 400, "invalid",
                                       "a state is queued, awaiting-payload, ready, running or done");
                        return false;
                }
        }
        if (limit.p != NULL && !read_limit(limit, &f.limit)) {
                control_refuse(call, 400, "invalid", "a limit is a number from 1 to %d", LIMIT_CONTROL_JOBS);
                return false;
        }
        *ret_filter = f;
        return true;
}

static bool job_matches(const struct lessor_job *job, const struct job_filter *f)
{
        return (f->state < 0 || (int)job->state == f->state) &&
               (f->owner.p == NULL || lessor_slice_equal(job->stub.owner, f->owner));
}

/*
 * The store filters by site only. Other filters look at the oldest LIMIT_CONTROL_JOBS jobs, and `more` says
 * when there were others beyond.
 */
void control_job_list(struct control_call *call, const void *body)
{
        struct lessor_job_list jobs;
        struct job_filter filter;
        struct buf json = {0};
        struct json_writer w;
        bool filtered, more;
        int64_t n = 0;
        size_t look;
        int e;

        (void)body;
        if (!read_filter(call, &filter))
                return;
        filtered = filter.state >= 0 || filter.owner.p != NULL;
        look = filtered ? LIMIT_CONTROL_JOBS : (size_t)filter.limit;
        e = lessor_routing_jobs(call->parts->store, filter.site.p == NULL ? NULL : &filter.site, look + 1,
                                call->arena, &jobs, &call->ticket);
        if (e < 0) {
                control_refuse_error(call, e, NULL, filter.site);
                return;
        }
        json_writer_init(&w, &json);
        json_open_object(&w);
        json_key(&w, "jobs");
        json_open_array(&w);
        more = jobs.n > look;
        for (size_t i = 0; i < jobs.n && i < look; i++) {
                if (!job_matches(&jobs.items[i], &filter))
                        continue;
                if (n++ == filter.limit) {
                        more = true;
                        break;
                }
                put_job(call, &w, &jobs.items[i]);
        }
        json_close_array(&w);
        json_member_bool(&w, "more", more);
        json_close_object(&w);
        control_answer(call, &json);
}

void control_job_show(struct control_call *call, const void *body)
{
        struct lessor_slice site, id;
        struct lessor_job job;
        struct buf json = {0};
        struct json_writer w;
        int e;

        (void)body;
        if (!control_query(call, "site", &site) || !control_query(call, "job", &id))
                return;
        if (site.p == NULL || id.p == NULL) {
                control_refuse(call, 400, "invalid", "name the job: ?site=SITE&job=JOB");
                return;
        }
        e = lessor_routing_job(call->parts->store, site, id, call->arena, &job, &call->ticket);
        if (e < 0) {
                control_refuse_error(call, e, words, id);
                return;
        }
        json_writer_init(&w, &json);
        json_open_object(&w);
        json_key(&w, "job");
        put_job(call, &w, &job);
        json_close_object(&w);
        control_answer(call, &json);
}

void control_job_cancel(struct control_call *call, const void *body)
{
        const struct job_body *in = body;
        int e = lessor_routing_cancel(call->parts->store, in->site_id, in->job_id, &call->ticket);

        control_done(call, e, words, in->job_id);
}
