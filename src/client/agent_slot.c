/* SPDX-License-Identifier: MIT */
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "client/agent.h"
#include "client/payload.h"
#include "crypto/envelope_open.h"
#include "crypto/envelope_seal.h"
#include "wire/relay_opened.h"

/* One slot: a job from fetch to result. */

#define GAVE_UP_TTL_MS    600000
#define RESULT_FIRST_MS   500
#define RESULT_LONGEST_MS 15000

DEFINE_CLEANUP(struct lessor_arena, lessor_arena_free)

struct slot {
        struct lessor_agent *agent;
        struct device_link link;
};

/* What is left to do with the lease once a job is through. */
enum leave {
        LEAVE_NOTHING,     /* done, lost, or to lapse by itself */
        LEAVE_REFUSED,     /* give it back, never to come again */
        LEAVE_REVOKED,     /* give it back: its site is served no more */
        LEAVE_BACKEND,     /* give it back: we cannot run it just now */
        LEAVE_TO_SHUTDOWN, /* the main thread gives it back with the others */
};

static enum job_fate fate_of(struct lessor_agent *agent, const struct agent_job *job)
{
        enum job_fate fate;

        pthread_mutex_lock(&agent->mutex);
        fate = job->fate;
        pthread_mutex_unlock(&agent->mutex);
        return fate;
}

static int64_t lease_left_ms(struct lessor_agent *agent, const struct agent_job *job)
{
        int64_t until_ms;

        pthread_mutex_lock(&agent->mutex);
        until_ms = job->lease_until_ms;
        pthread_mutex_unlock(&agent->mutex);
        return until_ms - clock_monotonic_ms();
}

static enum leave drop(struct lessor_agent *agent, const struct agent_job *job, int error,
                       const char *message)
{
        agent_tell_job(agent, LESSOR_AGENT_JOB_DROPPED, job, error, message);
        return LEAVE_NOTHING;
}

static enum leave refuse(struct lessor_agent *agent, const struct agent_job *job, int error,
                         const char *message)
{
        agent_tell_job(agent, LESSOR_AGENT_JOB_REFUSED, job, error, message);
        return LEAVE_REFUSED;
}

static enum leave fatal(struct lessor_agent *agent, const struct agent_job *job, int error,
                        const char *message)
{
        agent_tell_job(agent, LESSOR_AGENT_JOB_REFUSED, job, error, message);
        pthread_mutex_lock(&agent->mutex);
        if (agent->fatal == 0)
                agent->fatal = error;
        pthread_mutex_unlock(&agent->mutex);
        return LEAVE_BACKEND;
}

/* How many times, this one included, the payload of this job did not come. 0 when memory is short. */
static unsigned count_gave_up(struct lessor_agent *agent, const struct agent_job *job)
{
        int64_t now_ms = clock_monotonic_ms();
        struct gave_up *entry = NULL;
        unsigned times = 0;
        struct buf key;

        buf_init(&key);
        buf_slice(&key, job->stub.site);
        buf_char(&key, ':');
        buf_slice(&key, job->stub.id);
        if (buf_failed(&key) < 0) {
                buf_done(&key);
                return 0;
        }
        pthread_mutex_lock(&agent->mutex);
        for (struct gave_up **link = &agent->gave_up; *link != NULL;) {
                if (now_ms - (*link)->at_ms > GAVE_UP_TTL_MS) {
                        struct gave_up *old = *link;

                        *link = old->next;
                        free(old->key);
                        free(old);
                        continue;
                }
                if (strcmp((*link)->key, key.p) == 0)
                        entry = *link;
                link = &(*link)->next;
        }
        if (entry == NULL && (entry = calloc(1, sizeof(*entry))) != NULL) {
                entry->key = TAKE(key.p);
                entry->next = agent->gave_up;
                agent->gave_up = entry;
        }
        if (entry != NULL) {
                entry->at_ms = now_ms;
                times = ++entry->times;
        }
        pthread_mutex_unlock(&agent->mutex);
        free(key.p);
        return times;
}

/* What the main thread has decided, when it is not ours to go on. */
static enum leave obey(struct lessor_agent *agent, const struct agent_job *job, enum job_fate fate)
{
        switch (fate) {
        case FATE_LOST:
                return drop(agent, job, LESSOR_E_STALE_LEASE, "its lease was lost");
        case FATE_WITHDRAWN:
                agent_tell_job(agent, LESSOR_AGENT_JOB_DROPPED, job, LESSOR_E_REFUSED,
                               "its site is served no more");
                return LEAVE_REVOKED;
        default:
                return LEAVE_TO_SHUTDOWN;
        }
}

/*
 * Fetches the sealed payload, as long as the site may still be about to seal it (relay-protocol 6.3).
 *
 * Returns 0; LESSOR_E_CLOSED when a fate was decided meanwhile; LESSOR_E_REFUSED otherwise, and then
 * `ret_leave` says how to part from the job.
 */
static int fetch(struct slot *slot, const struct agent_job *job, struct lessor_arena *arena,
                 struct lessor_sealed_envelope *ret_envelope, enum leave *ret_leave)
{
        struct lessor_agent *agent = slot->agent;
        struct fetch_request request = {.runner_id = agent->runner_id,
                                        .lease = {job->stub.id, job->lease_id}};
        int64_t started_ms = clock_monotonic_ms();
        struct fetch_answer answer;

        slot->link.caller.stop = job->stop;
        for (unsigned attempt = 0;; attempt++) {
                int r = relay_post(&slot->link.caller, "fetch", &fetch_request_table, &request,
                                   &fetch_answer_table, arena, &answer, &slot->link.failure);

                if (r == 0) {
                        *ret_envelope = answer.envelope.sealed;
                        return 0;
                }
                if (r == LESSOR_E_CLOSED)
                        return r;
                switch (rules_after_fetch(r, clock_monotonic_ms() - started_ms, lease_left_ms(agent, job))) {
                case FETCH_AGAIN:
                        if (device_pause(rules_backoff_ms(attempt, FETCH_FIRST_MS, FETCH_LONGEST_MS),
                                         job->stop, NULL))
                                return LESSOR_E_CLOSED;
                        continue;
                case FETCH_DROP:
                        *ret_leave = drop(agent, job, r, relay_failure_message(&slot->link.failure));
                        return LESSOR_E_REFUSED;
                case FETCH_GIVE_UP:
                        break;
                }
                if (count_gave_up(agent, job) >= FETCH_FAILURES)
                        *ret_leave = refuse(agent, job, r, "its payload did not come, once too often");
                else
                        *ret_leave = drop(agent, job, r, "its payload did not come");
                return LESSOR_E_REFUSED;
        }
}

/* Opens the payload with the key that is pinned for its site now. */
static int open_payload(struct lessor_agent *agent, const struct agent_job *job,
                        const struct lessor_sealed_envelope *envelope, struct lessor_arena *arena,
                        struct lessor_slice *ret_text)
{
        struct identity_key site_key;
        struct envelope_expected expected = {
                .job_id = job->stub.id,
                .sender_key_id = job->stub.site,
                .recipient_key_id = signing_key_id(stored_keys_signing(agent->keys)),
                .direction = LESSOR_DIRECTION_PAYLOAD,
                .sender = &site_key,
        };
        const struct known_site *site;
        int r;

        pthread_mutex_lock(&agent->mutex);
        site = known_site_find(agent->state.sites, agent->state.n_sites, job->stub.site);
        r = site == NULL ? LESSOR_E_REFUSED : identity_key_read(site->identity.identity, &site_key);
        pthread_mutex_unlock(&agent->mutex);
        if (r < 0)
                return r;
        return envelope_open(agent->keys, &expected, envelope, arena, ret_text);
}

static int log_ingress(struct lessor_agent *agent, const struct agent_job *job, struct lessor_slice payload)
{
        struct ingress_entry entry = {
                .at_ms = clock_now_ms(agent->clock),
                .job_id = job->stub.id,
                .lease_id = job->lease_id,
                .site = job->stub.site,
                .owner = job->stub.owner,
                .kind = message_word(&kind_words, (int)job->stub.kind),
                .service = job->service->name,
                .payload = payload,
        };

        return ingress_log_append(agent->ingress, &entry);
}

static struct lessor_outcome error_outcome(const char *code, const char *message, bool retryable)
{
        return (struct lessor_outcome){
                .disposition = LESSOR_DISPOSITION_ERROR,
                .code = lessor_slice_of(code),
                .message = lessor_slice_of(message),
                .retryable = retryable,
        };
}

/* What a backend says must be fit to be sealed. */
static struct lessor_outcome fit_outcome(const struct lessor_outcome *outcome)
{
        bool texts_hold = utf8_valid(outcome->text) && utf8_valid(outcome->code) &&
                          utf8_valid(outcome->message) && utf8_valid(outcome->model);

        if (!texts_hold)
                return error_outcome("backend-answer", "the answer is not valid UTF-8", false);
        if (outcome->disposition == LESSOR_DISPOSITION_OK && outcome->text.p == NULL)
                return error_outcome("backend-answer", "there is no answer", true);
        if (outcome->disposition == LESSOR_DISPOSITION_ERROR &&
            (outcome->code.n == 0 || outcome->message.n == 0))
                return error_outcome("backend-error", "the backend failed and did not say why",
                                     outcome->retryable);
        return *outcome;
}

static int seal_outcome(struct lessor_agent *agent, const struct agent_job *job,
                        const struct lessor_outcome *outcome, int64_t duration_ms, struct lessor_arena *arena,
                        struct lessor_sealed_envelope *ret_envelope)
{
        static const enum stop_reason stops[] = {
                [LESSOR_STOPPED_END] = STOP_END,
                [LESSOR_STOPPED_LENGTH] = STOP_LENGTH,
                [LESSOR_STOPPED_SEQUENCE] = STOP_SEQUENCE,
                [LESSOR_STOPPED_UNKNOWN] = STOP_UNKNOWN,
        };
        const char *model = job->service->model != NULL ? job->service->model : job->service->name;
        struct sealed_outcome sealed = {
                .outcome =
                        {
                                .outcome = outcome->disposition,
                                .text = outcome->text,
                                .code = outcome->code,
                                .message = outcome->message,
                                .retryable = outcome->retryable,
                        },
                .ran =
                        {
                                .model = outcome->model.n > 0 ? outcome->model : lessor_slice_of(model),
                                .backend_class = job->service->backend->ops->backend_class,
                                .duration_ms = duration_ms,
                                .has_stop = outcome->disposition == LESSOR_DISPOSITION_OK,
                                .stop = stops[outcome->stop],
                                .has_stop_reported = outcome->disposition == LESSOR_DISPOSITION_OK,
                                .stop_reported = outcome->stop_reported,
                        },
        };
        struct envelope_terms terms = {
                .job_id = job->stub.id,
                .direction = LESSOR_DIRECTION_RESULT,
                .deadline_ms = job->stub.deadline_ms,
        };
        struct lessor_public_identity site_identity = {0};
        const struct known_site *site;
        _cleanup_(buf_wipe) struct buf text;
        int r;

        buf_init(&text);
        r = message_append(&sealed_outcome_table, &sealed, &text);
        if (r < 0)
                return r;
        pthread_mutex_lock(&agent->mutex);
        site = known_site_find(agent->state.sites, agent->state.n_sites, job->stub.site);
        r = site == NULL ? LESSOR_E_REFUSED
                         : lessor_arena_copy(arena, site->identity.identity, &site_identity.identity);
        if (r == 0)
                r = lessor_arena_copy(arena, site->identity.encryption, &site_identity.encryption);
        if (r == 0)
                r = lessor_arena_copy(arena, site->identity.encryption_sig, &site_identity.encryption_sig);
        pthread_mutex_unlock(&agent->mutex);
        if (r < 0)
                return r;
        return envelope_seal(stored_keys_signing(agent->keys), &site_identity, &terms, buf_view(&text), arena,
                             ret_envelope);
}

/* Hands the result in, again and again as long as that can help. */
static enum leave send_result(struct slot *slot, const struct agent_job *job,
                              const struct lessor_sealed_envelope *envelope,
                              enum lessor_disposition disposition, int64_t duration_ms)
{
        struct lessor_agent *agent = slot->agent;
        struct result_request request = {
                .runner_id = agent->runner_id,
                .lease = {job->stub.id, job->lease_id},
                .envelope = {.sealed = *envelope},
                .disposition = disposition,
        };

        /* A finished answer is worth some seconds even while the agent shuts down. */
        slot->link.caller.stop = agent->hard_stop;
        for (unsigned attempt = 0;; attempt++) {
                _cleanup_(lessor_arena_freep) struct lessor_arena *arena = lessor_arena_new();
                struct result_answer answer;
                enum job_fate fate;
                int r;

                if (arena == NULL)
                        return drop(agent, job, LESSOR_E_NOMEM, lessor_error_text(LESSOR_E_NOMEM));
                r = relay_post(&slot->link.caller, "result", &result_request_table, &request,
                               &result_answer_table, arena, &answer, &slot->link.failure);
                if (r == 0) {
                        agent_tell(agent, &(struct lessor_agent_event){
                                                  .type = LESSOR_AGENT_JOB_DONE,
                                                  .job_id = job->stub.id,
                                                  .lease_id = job->lease_id,
                                                  .site = job->stub.site,
                                                  .service = lessor_slice_of(job->service->name),
                                                  .disposition = disposition,
                                                  .duration_ms = duration_ms,
                                          });
                        return LEAVE_NOTHING;
                }
                if (r == LESSOR_E_CLOSED)
                        return LEAVE_TO_SHUTDOWN;
                if (!rules_result_again(r) || clock_now_ms(agent->clock) >= job->stub.deadline_ms)
                        return drop(agent, job, r, relay_failure_message(&slot->link.failure));
                fate = fate_of(agent, job);
                if (fate == FATE_LOST)
                        return drop(agent, job, LESSOR_E_STALE_LEASE,
                                    "its lease was lost before its result arrived");
                if (device_pause(rules_backoff_ms(attempt, RESULT_FIRST_MS, RESULT_LONGEST_MS),
                                 agent->hard_stop, NULL))
                        return LEAVE_TO_SHUTDOWN;
        }
}

static enum leave finish(struct slot *slot, const struct agent_job *job, const struct lessor_outcome *from,
                         int64_t duration_ms, struct lessor_arena *arena)
{
        struct lessor_agent *agent = slot->agent;
        struct lessor_outcome outcome = fit_outcome(from);
        struct lessor_sealed_envelope envelope;
        int r = seal_outcome(agent, job, &outcome, duration_ms, arena, &envelope);

        if (r == LESSOR_E_TOO_LARGE) {
                outcome = error_outcome("answer-too-large", "the answer is larger than one message may be",
                                        false);
                r = seal_outcome(agent, job, &outcome, duration_ms, arena, &envelope);
        }
        if (r < 0)
                return drop(agent, job, r, lessor_error_text(r));
        return send_result(slot, job, &envelope, outcome.disposition, duration_ms);
}

/* Runs an opened payload and hands the result in. */
static enum leave run(struct slot *slot, const struct agent_job *job, struct lessor_slice text,
                      struct lessor_arena *arena)
{
        struct lessor_agent *agent = slot->agent;
        struct lessor_backend *backend = job->service->backend;
        int64_t started_ms = clock_monotonic_ms();
        struct lessor_outcome outcome;
        struct lessor_prompt prompt;
        const char *problem = NULL;
        enum job_fate fate;
        int r = payload_read(job->stub.kind, text, arena, &prompt, NULL, &problem);

        if (r == LESSOR_E_NOMEM)
                return fatal(agent, job, r, lessor_error_text(r));
        if (r < 0) {
                /* Told to the site, which sealed it and can mend it; given back, it would only come again. */
                outcome = error_outcome("payload-invalid",
                                        problem != NULL ? problem : "the payload is not JSON", false);
                return finish(slot, job, &outcome, 0, arena);
        }
        prompt.job_id = job->stub.id;
        r = log_ingress(agent, job, text);
        if (r < 0)
                return fatal(agent, job, r, "the ingress log cannot be written, so nothing may run");
        agent_tell_job(agent, LESSOR_AGENT_JOB_RUNNING, job, 0, NULL);
        memset(&outcome, 0, sizeof(outcome));
        r = backend->ops->run(backend, &prompt, job->stop, arena, &outcome);
        if (r < 0)
                outcome = error_outcome("backend-memory", "this device ran out of memory", true);
        fate = fate_of(agent, job);
        if (fate == FATE_LOST || fate == FATE_WITHDRAWN)
                return obey(agent, job, fate);
        if (fate == FATE_SHUTDOWN && outcome.disposition == LESSOR_DISPOSITION_CANCELED)
                return LEAVE_TO_SHUTDOWN;
        if (fate == FATE_CANCELLED && outcome.disposition != LESSOR_DISPOSITION_OK)
                outcome = (struct lessor_outcome){.disposition = LESSOR_DISPOSITION_CANCELED};
        return finish(slot, job, &outcome, clock_monotonic_ms() - started_ms, arena);
}

static enum leave work_on(struct slot *slot, const struct agent_job *job)
{
        _cleanup_(lessor_arena_freep) struct lessor_arena *arena = lessor_arena_new();
        struct lessor_agent *agent = slot->agent;
        struct lessor_outcome canceled = {.disposition = LESSOR_DISPOSITION_CANCELED};
        struct lessor_sealed_envelope envelope;
        enum leave leave = LEAVE_NOTHING;
        struct lessor_slice text;
        int r;

        if (arena == NULL)
                return fatal(agent, job, LESSOR_E_NOMEM, lessor_error_text(LESSOR_E_NOMEM));
        r = fetch(slot, job, arena, &envelope, &leave);
        if (r == LESSOR_E_CLOSED) {
                enum job_fate fate = fate_of(agent, job);

                return fate == FATE_CANCELLED ? finish(slot, job, &canceled, 0, arena)
                                              : obey(agent, job, fate);
        }
        if (r < 0)
                return leave;
        r = open_payload(agent, job, &envelope, arena, &text);
        if (r == LESSOR_E_NOMEM)
                return fatal(agent, job, r, lessor_error_text(r));
        if (r < 0)
                return refuse(agent, job, r, lessor_error_text(r));
        return run(slot, job, text, arena);
}

static void part(struct slot *slot, struct agent_job *job, enum leave leave)
{
        struct lessor_lease_ref lease = {job->stub.id, job->lease_id};

        switch (leave) {
        case LEAVE_REFUSED:
                agent_release(slot->agent, &slot->link, slot->agent->hard_stop, &lease, 1,
                              LESSOR_RELEASE_REFUSED);
                break;
        case LEAVE_REVOKED:
                agent_release(slot->agent, &slot->link, slot->agent->hard_stop, &lease, 1,
                              LESSOR_RELEASE_REVOKED);
                break;
        case LEAVE_BACKEND:
                agent_release(slot->agent, &slot->link, slot->agent->hard_stop, &lease, 1,
                              LESSOR_RELEASE_BACKEND_DOWN);
                break;
        case LEAVE_NOTHING:
        case LEAVE_TO_SHUTDOWN:
                break;
        }
}

static struct agent_job *next_job(struct lessor_agent *agent)
{
        struct agent_job *job;

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

static void end_job(struct lessor_agent *agent, struct agent_job *job, enum leave leave)
{
        struct agent_job **link = &agent->active;

        pthread_mutex_lock(&agent->mutex);
        while (*link != job)
                link = &(*link)->next;
        *link = job->next;
        agent->n_active--;
        if (leave == LEAVE_TO_SHUTDOWN) {
                job->next = agent->returned;
                agent->returned = TAKE(job);
        }
        pthread_mutex_unlock(&agent->mutex);
        agent_job_free(job);
        agent_wake(agent);
}

void *agent_slot(void *context)
{
        struct lessor_agent *agent = context;
        struct slot slot = {.agent = agent};
        struct agent_job *job;
        int r = device_link_init(&slot.link, &agent->options, agent->relay_url.p);

        slot.link.caller.id = agent->runner_id;
        slot.link.caller.key = stored_keys_signing(agent->keys);
        while ((job = next_job(agent)) != NULL) {
                enum leave leave = r < 0 ? fatal(agent, job, r, lessor_error_text(r)) : work_on(&slot, job);

                if (r == 0)
                        part(&slot, job, leave);
                end_job(agent, job, leave);
        }
        device_link_done(&slot.link);
        return NULL;
}
