/* SPDX-License-Identifier: MIT */
#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "base/macro.h"
#include "crypto/request_signature.h"
#include "plane/relay_call.h"
#include "wire/envelope_text.h"
#include "wire/relay_site.h"

/* The site plane (relay-protocol 5 and 8). */

/* More than this at once would not fit an answer even with the shortest ids. */
#define PENDING_MAX 32768

/*
 * What one job takes of an answer at most, but for its envelope: texts that somebody chose may have to be
 * escaped, six bytes for one.
 */
static size_t description_bytes(const struct lessor_job *job)
{
        return 512 + 6 * (job->stub.id.n + job->runner_id.n + job->runner_owner.n) + job->device.identity.n +
               job->device.encryption.n + job->device.encryption_sig.n;
}

/* --- enqueue --- */

/* Whether the policy lets the stub be queued; false when the call was refused. */
static bool satisfiable(struct relay_call *call, const struct lessor_stub *stub)
{
        _cleanup_(policy_unrefp) struct policy *policy = policy_cell_get(call->relay->parts.author->policy);
        struct relay_refusal_details details = {
                .subject = stub->purpose.p == NULL ? LESSOR_SLICE("that purpose") : stub->purpose};
        enum policy_satisfiable verdict;

        if (policy_satisfiable(policy, call->site->site_id, stub->owner, stub->purpose, stub->kind,
                               &verdict) < 0) {
                relay_call_refuse(call, RELAY_REFUSAL_CANNOT_CHECK, NULL);
                return false;
        }
        switch (verdict) {
        case POLICY_SATISFIABLE:
                return true;
        case POLICY_NOT_DECLARED:
                relay_call_refuse(call, RELAY_REFUSAL_PURPOSE_NOT_DECLARED, &details);
                return false;
        case POLICY_NOT_MAPPED:
                relay_call_refuse(call, RELAY_REFUSAL_SLOT_UNSATISFIABLE, NULL);
                return false;
        case POLICY_WAITING:
                relay_call_refuse(call, RELAY_REFUSAL_SLOT_WAITING, NULL);
                return false;
        }
        return false;
}

static void serve_enqueue(struct relay_call *call, const void *request)
{
        const struct enqueue_request *in = request;
        struct lessor_ticket ticket = {0};
        struct lessor_job job;
        int e;

        if (!lessor_slice_equal(in->stub.site, call->site->key_id)) {
                relay_call_refuse(call, RELAY_REFUSAL_FOREIGN_STUB, NULL);
                return;
        }
        if (call->relay->options.satisfiable && !satisfiable(call, &in->stub))
                return;
        e = lessor_routing_enqueue(call->relay->parts.store, call->site->site_id, &in->stub, call->arena,
                                   &job, &ticket);
        relay_call_rests_on(call, ticket);
        if (e < 0)
                relay_call_refuse(
                        call, e == LESSOR_E_LOW_SPACE ? RELAY_REFUSAL_LOW_SPACE : relay_refusal_of_store(e),
                        NULL);
        else
                relay_call_answer(call, &job_state_answer_table,
                                  &(struct job_state_answer){.job_id = in->stub.id, .state = job.state});
}

/* --- payload, cancel, ack --- */

static void serve_payload(struct relay_call *call, const void *request)
{
        const struct payload_request *in = request;
        enum lessor_job_state was = LESSOR_JOB_QUEUED;
        struct lessor_ticket ticket = {0};
        struct lessor_envelope envelope;
        int e;

        if (!relay_call_envelope(call, &in->envelope.sealed, &envelope))
                return;
        e = lessor_routing_seal(call->relay->parts.store, call->site->site_id, in->job_id, &envelope, &was,
                                &ticket);
        relay_call_rests_on(call, ticket);
        if (e == LESSOR_E_TOO_LATE) {
                const char *word = message_word(&job_state_words, (int)was);

                relay_call_refuse(call, RELAY_REFUSAL_NOT_AWAITING,
                                  &(struct relay_refusal_details){.subject = lessor_slice_of(word)});
                return;
        }
        if (e < 0)
                relay_call_refuse_error(call, e);
        else
                relay_call_answer(
                        call, &job_state_answer_table,
                        &(struct job_state_answer){.job_id = in->job_id, .state = LESSOR_JOB_READY});
}

static void serve_cancel(struct relay_call *call, const void *request)
{
        const struct cancel_request *in = request;
        struct lessor_ticket ticket = {0};
        int e;

        e = lessor_routing_cancel(call->relay->parts.store, call->site->site_id, in->job_id, &ticket);
        relay_call_rests_on(call, ticket);
        if (e < 0 && e != LESSOR_E_NOT_FOUND)
                relay_call_refuse_error(call, e);
        else
                relay_call_answer(call, &cancel_answer_table, &(struct cancel_answer){.cancelled = e == 0});
}

static void serve_ack(struct relay_call *call, const void *request)
{
        const struct ack_request *in = request;
        struct lessor_ticket ticket = {0};
        struct ack_answer out = {0};
        int e;

        e = lessor_routing_ack(call->relay->parts.store, call->site->site_id, in->job_ids, in->n_job_ids,
                               call->arena, &out.acked, &out.n_acked, &ticket);
        relay_call_rests_on(call, ticket);
        if (e < 0)
                relay_call_refuse_error(call, e);
        else
                relay_call_answer(call, &ack_answer_table, &out);
}

/* --- pending and results, which can be held until there is something --- */

/* A key of the parking lot: which reads of which site. Returns the absent slice when memory is short. */
static struct lessor_slice waiting_key(struct lessor_arena *arena, char what, struct lessor_slice site_id)
{
        char *key = lessor_arena_alloc(arena, site_id.n + 1);

        if (key == NULL)
                return (struct lessor_slice){0};
        key[0] = what;
        memcpy(key + 1, site_id.p, site_id.n);
        return (struct lessor_slice){key, site_id.n + 1};
}

/* For every grant and every result: an id of usual length costs no memory. */
static void wake(struct parking_lot *lot, char what, struct lessor_slice site_id)
{
        struct lessor_arena *arena;
        struct lessor_slice key;
        char usual[128];

        if (site_id.n < sizeof(usual)) {
                usual[0] = what;
                memcpy(usual + 1, site_id.p, site_id.n);
                parking_wake(lot, (struct lessor_slice){usual, site_id.n + 1});
                return;
        }
        arena = lessor_arena_new();
        /* Without memory nobody is woken; who waits looks again when its time is over. */
        if (arena == NULL)
                return;
        key = waiting_key(arena, what, site_id);
        if (key.p != NULL)
                parking_wake(lot, key);
        lessor_arena_free(arena);
}

void relay_on_awaiting(void *lot, struct lessor_slice site_id)
{
        wake(lot, 'p', site_id);
}

void relay_on_finished(void *lot, struct lessor_slice site_id)
{
        wake(lot, 'r', site_id);
}

static void read_pending(struct http_request *http, void *context);
static void read_results(struct http_request *http, void *context);

/* Parks a read that found nothing, if it wants to wait and has time left. */
static bool park(struct relay_call *call, struct lessor_slice key, uint64_t generation, http_handler *again)
{
        int64_t left_ms = call->wait_until_ms - clock_monotonic_ms();

        if (left_ms <= 0 || http_wait_over(call->http) || http_draining(call->http))
                return false;
        parking_wait(call->relay->parts.lot, call->http, key, generation, left_ms, again, call);
        return true;
}

static int describe_pending(struct relay_call *call, const struct lessor_job_list *jobs,
                            struct pending_answer *out)
{
        size_t bytes = 0;

        out->jobs = lessor_arena_array(call->arena, jobs->n, sizeof(*out->jobs));
        if (out->jobs == NULL)
                return LESSOR_E_NOMEM;
        for (size_t i = 0; i < jobs->n; i++) {
                const struct lessor_job *job = &jobs->items[i];

                bytes += description_bytes(job);
                if (i > 0 && bytes > LIMIT_ANSWER)
                        break;
                out->jobs[out->n_jobs++] = (struct pending_job){.job_id = job->stub.id,
                                                                .device = job->device,
                                                                .runner_id = job->runner_id,
                                                                .lease_id = job->lease_id,
                                                                .awaiting_until_ms = job->awaiting_until_ms,
                                                                .lease_expires_ms = job->lease_expires_ms};
        }
        return 0;
}

static void read_pending(struct http_request *http, void *context)
{
        struct relay_call *call = context;
        struct lessor_routing_store *store = call->relay->parts.store;
        struct lessor_slice key = waiting_key(call->arena, 'p', call->site->site_id);
        struct lessor_ticket ticket = {0};
        struct pending_answer out = {0};
        struct lessor_job_list jobs;
        uint64_t generation;
        int e;

        (void)http;
        if (key.p == NULL) {
                relay_call_refuse_error(call, LESSOR_E_NOMEM);
                return;
        }
        generation = parking_generation(call->relay->parts.lot, key);
        e = lessor_routing_sweep(store, NULL, NULL, &ticket);
        relay_call_rests_on(call, ticket);
        if (e == 0)
                e = lessor_routing_awaiting(store, call->site->site_id, PENDING_MAX, call->arena, &jobs,
                                            &ticket);
        relay_call_rests_on(call, ticket);
        if (e == 0 && jobs.n == 0 && park(call, key, generation, read_pending))
                return;
        if (e == 0)
                e = describe_pending(call, &jobs, &out);
        if (e < 0)
                relay_call_refuse_error(call, e);
        else
                relay_call_answer(call, &pending_answer_table, &out);
}

static int describe_results(struct relay_call *call, const struct lessor_result_list *results,
                            struct results_answer *out)
{
        size_t bytes = 0;

        out->jobs = lessor_arena_array(call->arena, results->n, sizeof(*out->jobs));
        if (out->jobs == NULL)
                return LESSOR_E_NOMEM;
        for (size_t i = 0; i < results->n; i++) {
                const struct lessor_job *job = &results->items[i].job;

                bytes += description_bytes(job) + results->items[i].envelope.json.n;
                if (i > 0 && bytes > LIMIT_ANSWER)
                        break;
                out->jobs[out->n_jobs++] =
                        (struct result_job){.job_id = job->stub.id,
                                            .envelope.text = results->items[i].envelope.json,
                                            .disposition = job->disposition,
                                            .runner_id = job->runner_id,
                                            .lease_id = job->lease_id,
                                            .device = job->device,
                                            .runner_owner = job->runner_owner};
        }
        return 0;
}

/* No sweep here: a past deadline shows until something else sweeps (relay-protocol 8). */
static void read_results(struct http_request *http, void *context)
{
        struct relay_call *call = context;
        struct lessor_slice key = waiting_key(call->arena, 'r', call->site->site_id);
        struct lessor_ticket ticket = {0};
        struct results_answer out = {0};
        struct lessor_result_list results;
        uint64_t generation;
        int e;

        (void)http;
        if (key.p == NULL) {
                relay_call_refuse_error(call, LESSOR_E_NOMEM);
                return;
        }
        generation = parking_generation(call->relay->parts.lot, key);
        e = lessor_routing_finished(call->relay->parts.store, call->site->site_id, LIMIT_ANSWER, call->arena,
                                    &results, &ticket);
        relay_call_rests_on(call, ticket);
        if (e == 0 && results.n == 0 && park(call, key, generation, read_results))
                return;
        if (e == 0)
                e = describe_results(call, &results, &out);
        if (e < 0)
                relay_call_refuse_error(call, e);
        else
                relay_call_answer(call, &results_answer_table, &out);
}

static void begin_read(struct relay_call *call, const struct site_query *query, http_handler *read)
{
        relay_call_forget_body(call); /* it may be held for long */
        if (query->wait_ms > 0)
                call->wait_until_ms = clock_monotonic_ms() + query->wait_ms;
        read(call->http, call);
}

static void serve_pending(struct relay_call *call, const void *request)
{
        begin_read(call, request, read_pending);
}

static void serve_results(struct relay_call *call, const void *request)
{
        begin_read(call, request, read_results);
}

/* --- Who is asking (relay-protocol 5, site endpoints) --- */

static const struct relay_endpoint endpoints[] = {
        {"enqueue", &enqueue_request_table, serve_enqueue},
        {"payload", &payload_request_table, serve_payload},
        {"cancel", &cancel_request_table, serve_cancel},
        {"pending", NULL, serve_pending},
        {"results", NULL, serve_results},
        {"ack", &ack_request_table, serve_ack},
};

/* Step 4: the current identity, or within the retirement window that of any predecessor. */
static int verify(struct relay_call *call, const struct relay_signature *signature)
{
        struct signed_request signed_request = {.plane = REQUEST_PLANE_SITE,
                                                .endpoint = lessor_slice_of(call->endpoint->name),
                                                .caller = signature->caller,
                                                .issued_ms = signature->issued_ms};
        const struct projection_site *site = call->site;
        int64_t now_ms = clock_now_ms(call->relay->parts.wall), store_now_ms;
        int e = LESSOR_E_BAD_SIGNATURE;

        if (!request_is_fresh(signature->issued_ms, now_ms))
                return LESSOR_E_STALE;
        request_body_hash(relay_call_signed_body(call), signed_request.body_hash);
        if (site->has_key)
                e = request_verify(&signed_request, now_ms, &site->key, signature->signature);
        if (e != LESSOR_E_BAD_SIGNATURE || site->n_succeeds == 0)
                return e;
        if (lessor_routing_now(call->relay->parts.store, &store_now_ms) < 0 ||
            !projection_site_retiring(site, store_now_ms))
                return e;
        for (size_t i = 0; i < site->n_succeeds && e == LESSOR_E_BAD_SIGNATURE; i++) {
                if (site->succeeds[i].has_key)
                        e = request_verify(&signed_request, now_ms, &site->succeeds[i].key,
                                           signature->signature);
        }
        return e;
}

/* Steps 1 to 4; false when the call was refused. */
static bool authenticate(struct relay_call *call)
{
        struct relay_signature signature;
        int e;

        if (!relay_call_signature(call, "x-byollm-site", &signature)) {
                relay_call_refuse(call, RELAY_REFUSAL_NOT_SIGNED, NULL);
                return false;
        }
        call->site = projection_site(call->projection, signature.caller);
        if (call->site == NULL) {
                relay_call_refuse(call, RELAY_REFUSAL_UNKNOWN_SITE, NULL);
                return false;
        }
        e = verify(call, &signature);
        if (e < 0) {
                relay_call_refuse(call,
                                  e == LESSOR_E_STALE           ? RELAY_REFUSAL_CLOCK_SKEW
                                  : e == LESSOR_E_BAD_SIGNATURE ? RELAY_REFUSAL_BAD_SIGNATURE
                                                                : RELAY_REFUSAL_INTERNAL,
                                  &(struct relay_refusal_details){
                                          .server_time_ms = clock_now_ms(call->relay->parts.wall)});
                return false;
        }
        http_log_caller(call->http, call->site->site_id);
        return true;
}

/* Step 5. Every request has its site id first, whether it comes from a body or from the query. */
static int read_request(struct relay_call *call, void **ret_request, struct lessor_slice *ret_site_id)
{
        struct lessor_slice site_id, wait;
        int e;

        if (call->endpoint->schema != NULL) {
                if (call->body == NULL)
                        return LESSOR_E_INVALID;
                *ret_request = lessor_arena_alloc(call->arena, call->endpoint->schema->size);
                if (*ret_request == NULL)
                        return LESSOR_E_NOMEM;
                e = message_read(call->endpoint->schema, call->body, call->arena, *ret_request, NULL);
        } else {
                *ret_request = lessor_arena_alloc(call->arena, sizeof(struct site_query));
                if (*ret_request == NULL)
                        return LESSOR_E_NOMEM;
                e = http_query(call->http, "siteId", &site_id);
                if (e == 0)
                        e = http_query(call->http, "wait", &wait);
                if (e == 0)
                        e = site_query_read(site_id, wait, *ret_request);
        }
        if (e == 0)
                memcpy(ret_site_id, *ret_request, sizeof(*ret_site_id));
        return e;
}

_Static_assert(offsetof(struct enqueue_request, site_id) == 0 &&
                       offsetof(struct payload_request, site_id) == 0 &&
                       offsetof(struct cancel_request, site_id) == 0 &&
                       offsetof(struct ack_request, site_id) == 0 &&
                       offsetof(struct site_query, site_id) == 0,
               "the site id comes first in every request of the site plane");

void relay_handle_site(struct http_request *http, void *context)
{
        struct relay_call *call = relay_call_begin(http, context);
        struct lessor_slice site_id = {0};
        void *request;
        int e;

        if (call == NULL)
                return;
        for (size_t i = 0; i < ARRAY_SIZE(endpoints); i++)
                if (strcmp(endpoints[i].name, http->route->name) == 0)
                        call->endpoint = &endpoints[i];
        if (!authenticate(call))
                return;
        e = read_request(call, &request, &site_id);
        if (e < 0)
                relay_call_refuse(call,
                                  e == LESSOR_E_INVALID ? RELAY_REFUSAL_BAD_SCHEMA : RELAY_REFUSAL_INTERNAL,
                                  NULL);
        else if (!lessor_slice_equal(site_id, call->site->site_id))
                relay_call_refuse(call, RELAY_REFUSAL_WRONG_SITE, NULL);
        else
                call->endpoint->serve(call, request);
}
