/* SPDX-License-Identifier: MIT */
#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "client/device_link.h"
#include "client/rack.h"
#include "client/rack_outbox.h"

/* A slot: takes one job at a time, and sees to it that the server gets to know its result. */

#define STRANGE_MOST 5 /* answers of no protocol that a call is repeated after */

DEFINE_CLEANUP(struct lessor_arena, lessor_arena_free)

/*
 * Whether a lease is still ours, after an answer that says that something is not allowed: what was asked may
 * be none of the lease's business instead. Unless it is known to be, the lease counts as lost.
 */
static bool is_still_held(struct rack_slot *slot, const struct rack_job *job)
{
        _cleanup_(lessor_arena_freep) struct lessor_arena *arena = lessor_arena_new();
        struct rack_extend_request request = {job->repo, job->lease_id, job->attempt};
        struct rack_failure failure;
        bool held = false;
        int r;

        if (arena == NULL)
                return false;
        rack_failure_init(&failure); /* slot->failure has what the caller wants to tell */
        r = rack_call(&slot->caller, "lease/extend", &rack_extend_request_type, &request, RACK_CALL_MS,
                      &beast2_boolean, arena, &held, &failure);
        rack_failure_done(&failure);
        return r == 0 && held;
}

int rack_job_call(struct rack_slot *slot, struct rack_job *job, const char *endpoint,
                  const struct beast2_type *type, const void *request, const struct beast2_type *reply_type,
                  struct lessor_arena *arena, void *ret_reply)
{
        for (unsigned attempt = 0;; attempt++) {
                int r = rack_call(&slot->caller, endpoint, type, request, RACK_CALL_MS, reply_type, arena,
                                  ret_reply, &slot->failure);

                switch (r) {
                case LESSOR_E_NOT_HELD:
                        if (is_still_held(slot, job))
                                return LESSOR_E_REFUSED;
                        rack_job_end(slot->agent, job, RACK_FATE_LOST);
                        return LESSOR_E_CLOSED;
                case LESSOR_E_PERMISSION:
                        rack_fatal(slot->agent, r);
                        return LESSOR_E_CLOSED;
                case LESSOR_E_LATER:
                        break;
                case LESSOR_E_PROTOCOL: /* a page of somebody in between, which may go away */
                        if (attempt < STRANGE_MOST)
                                break;
                        return r;
                default:
                        return r;
                }
                if (device_pause(rack_backoff_ms(attempt, slot->failure.retry_after_ms, randombytes_random()),
                                 job->stop, NULL))
                        return LESSOR_E_CLOSED;
        }
}

static void drop(struct rack_slot *slot, const struct rack_job *job)
{
        bool lost = rack_job_fate(slot->agent, job) != RACK_FATE_SHUTDOWN;
        const char *left = "this rack stops; another takes it up when its lease lapses";

        if (!lost && job->outbox_path != NULL)
                rack_tell_job(slot->agent, job,
                              (struct lessor_rack_event){.type = LESSOR_RACK_KEPT,
                                                         .message = "until the next start"});
        else
                rack_tell_job(slot->agent, job,
                              (struct lessor_rack_event){
                                      .type = LESSOR_RACK_DROPPED,
                                      .message = lost ? "the lease is no longer this rack's" : left});
}

/* What is told of a result that is delivered; of one that was kept only what its file has. */
static void tell_done(struct rack_slot *slot, const struct rack_job *job, const struct rack_result *result,
                      enum rack_disposition disposition)
{
        static const char *const words[] = {[RACK_DISPOSITION_DISCARDED] = "discarded",
                                            [RACK_DISPOSITION_IDEMPOTENT] = "idempotent",
                                            [RACK_DISPOSITION_RECORDED] = "recorded"};
        struct lessor_rack_event event = {.type = LESSOR_RACK_DONE, .recorded = words[disposition]};

        if (result != NULL) {
                event.state = rack_result_states[result->state];
                event.has_exit_code = result->has_exit_code;
                event.exit_code = result->exit_code;
                event.message = result->error;
                event.duration_ms = result->duration_ms;
        } else {
                event.message = "kept from an earlier run";
        }
        rack_tell_job(slot->agent, job, event);
}

/*
 * Keeps the result on disk, and in the job. Where the disk does not take it, it is sent all the same: only a
 * crash before it is delivered would lose it then. Returns 0 or LESSOR_E_NOMEM.
 */
static int keep_result(struct rack_slot *slot, struct rack_job *job, const struct rack_result *result)
{
        _cleanup_(buf_done) struct buf text = {0};
        struct rack_outbox_item item = {.rack_id =
                                                lessor_slice_of(rack_identity_rack_id(slot->agent->identity)),
                                        .repo = job->repo,
                                        .lease_id = job->lease_id,
                                        .attempt = job->attempt,
                                        .task_name = job->task_name};
        char *path = NULL;
        int r = rack_result_write(result, &text);

        if (r == 0)
                r = lessor_arena_copy(job->arena, buf_view(&text), &job->result);
        if (r < 0)
                return r;
        item.result = job->result;
        r = rack_outbox_put(slot->agent->outbox_dir, &item, &path);
        if (r < 0)
                rack_tell_job(slot->agent, job,
                              (struct lessor_rack_event){.type = LESSOR_RACK_NOTICE,
                                                         .error = r,
                                                         .message =
                                                                 "its result cannot be kept on disk until it "
                                                                 "is delivered"});
        if (job->outbox_path != NULL)
                rack_outbox_remove(job->outbox_path);
        free(job->outbox_path);
        job->outbox_path = path;
        return 0;
}

static void forget_result(struct rack_job *job)
{
        if (job->outbox_path != NULL)
                rack_outbox_remove(job->outbox_path);
        free(TAKE(job->outbox_path));
}

/*
 * Sends the result until the server has said what became of it. Returns 0; LESSOR_E_CLOSED; LESSOR_E_REFUSED
 * (it does not take this one).
 */
static int send_result(struct rack_slot *slot, struct rack_job *job, enum rack_disposition *ret_disposition)
{
        struct rack_complete_request request = {.repo = job->repo,
                                                .lease_id = job->lease_id,
                                                .attempt = job->attempt,
                                                .result_json = job->result};
        struct rack_complete_response answer;

        for (unsigned attempt = 0;; attempt++) {
                _cleanup_(lessor_arena_freep) struct lessor_arena *arena = lessor_arena_new();
                int r = arena == NULL ? LESSOR_E_NOMEM
                                      : rack_job_call(slot, job, "complete", &rack_complete_request_type,
                                                      &request, &rack_complete_response_type, arena, &answer);

                if (r == 0) {
                        *ret_disposition = answer.disposition;
                        return 0;
                }
                if (r == LESSOR_E_CLOSED || r == LESSOR_E_REFUSED || r == LESSOR_E_TOO_LARGE)
                        return r == LESSOR_E_TOO_LARGE ? LESSOR_E_REFUSED : r;
                if (attempt == 0)
                        rack_tell_job(
                                slot->agent, job,
                                (struct lessor_rack_event){.type = LESSOR_RACK_KEPT,
                                                           .error = r,
                                                           .message = rack_failure_message(&slot->failure)});
                if (device_pause(rack_backoff_ms(attempt, 0, randombytes_random()), job->stop, NULL))
                        return LESSOR_E_CLOSED;
        }
}

/*
 * Delivers the job's result. One that the server refuses, since it finds the output not whole, say, becomes
 * an infrastructure error: there is nothing that this rack could do about it.
 */
static int deliver(struct rack_slot *slot, struct rack_job *job, struct rack_result *result)
{
        enum rack_disposition disposition;
        struct rack_result refused = {.task_name = job->task_name, .state = RACK_RESULT_ERROR};
        _cleanup_(buf_done) struct buf why = {0};
        int r = send_result(slot, job, &disposition);

        if (r == LESSOR_E_REFUSED) {
                buf_printf(&why, "the server does not take the result: %s",
                           rack_failure_message(&slot->failure));
                refused.error = why.p;
                refused.duration_ms = result == NULL ? 0 : result->duration_ms;
                r = keep_result(slot, job, &refused);
                if (r == 0)
                        r = send_result(slot, job, &disposition);
                result = &refused;
        }
        if (r == LESSOR_E_REFUSED) {
                rack_tell_job(slot->agent, job,
                              (struct lessor_rack_event){.type = LESSOR_RACK_DROPPED,
                                                         .error = r,
                                                         .message = rack_failure_message(&slot->failure)});
                forget_result(job);
                return 0;
        }
        if (r < 0)
                return r;
        forget_result(job);
        tell_done(slot, job, result, disposition);
        return 0;
}

static void work_on(struct rack_slot *slot, struct rack_job *job)
{
        _cleanup_(lessor_arena_freep) struct lessor_arena *arena = lessor_arena_new();
        bool kept = job->outbox_path != NULL;
        struct rack_result result;
        int r = arena == NULL ? LESSOR_E_NOMEM : 0;

        slot->caller.stop = job->stop;
        slot->done_bytes = slot->total_bytes = 0;
        if (r == 0 && !kept) {
                r = rack_work_on(slot, job, arena, &result);
                if (r == 0)
                        r = keep_result(slot, job, &result);
        }
        if (r == 0)
                r = deliver(slot, job, kept ? NULL : &result);
        if (r == LESSOR_E_CLOSED && rack_job_fate(slot->agent, job) == RACK_FATE_LOST)
                forget_result(job); /* whatever it was, nobody wants it */
        if (r == LESSOR_E_CLOSED)
                drop(slot, job);
        else if (r < 0)
                rack_fatal(slot->agent, r);
}

static struct rack_job *next_job(struct lessor_rack_agent *agent)
{
        struct rack_job *job;

        pthread_mutex_lock(&agent->mutex);
        while (agent->queue_first == NULL && !agent->closing)
                pthread_cond_wait(&agent->work, &agent->mutex);
        job = agent->queue_first;
        if (job != NULL) {
                agent->queue_first = job->queue_next;
                if (agent->queue_first == NULL)
                        agent->queue_last = NULL;
        }
        pthread_mutex_unlock(&agent->mutex);
        return job;
}

/* The main thread frees it: an extension of its may be under way. */
static void end_job(struct lessor_rack_agent *agent, struct rack_job *job)
{
        pthread_mutex_lock(&agent->mutex);
        job->over = true;
        pthread_mutex_unlock(&agent->mutex);
        http_client_wake(agent->loop.http);
}

void *rack_slot_run(void *context)
{
        struct lessor_rack_agent *agent = context;
        struct rack_slot slot = {.agent = agent};
        struct http_client_options http = rack_http_options(agent);
        struct rack_job *job;
        int r = http_client_new(&http, &slot.http);

        rack_failure_init(&slot.failure);
        slot.caller = (struct rack_caller){
                .http = slot.http, .identity = agent->identity, .url = rack_identity_url(agent->identity)};
        while ((job = next_job(agent)) != NULL) {
                if (r < 0)
                        rack_fatal(agent, r);
                else
                        work_on(&slot, job);
                end_job(agent, job);
        }
        rack_failure_done(&slot.failure);
        buf_done(&slot.pins);
        http_client_free(slot.http);
        return NULL;
}
