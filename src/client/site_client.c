/* SPDX-License-Identifier: MIT */
#include "client/site_client.h"

#include <stdlib.h>
#include <string.h>

#include "base/json_read.h"
#include "base/limits.h"
#include "crypto/envelope_open.h"
#include "crypto/envelope_seal.h"
#include "crypto/public_identity.h"
#include "wire/relay_opened.h"
#include "wire/relay_site.h"

#define TIMEOUT_DEFAULT_MS 30000

DEFINE_CLEANUP(struct lessor_arena, lessor_arena_free)
DEFINE_CLEANUP(struct lessor_site_client, lessor_site_client_free)

static struct lessor_slice signing_id(const struct lessor_site_client *client)
{
        return signing_key_id(stored_keys_signing(client->keys));
}

static void set_problem(char **ret_problem, const char *text)
{
        if (ret_problem != NULL)
                *ret_problem = text == NULL ? NULL : strdup(text);
}

static int load_keys(struct lessor_site_client *client, const char *path, char **ret_problem)
{
        _cleanup_(lessor_arena_freep) struct lessor_arena *arena = lessor_arena_new();
        const char *problem = NULL;
        int r;

        if (arena == NULL)
                return LESSOR_E_NOMEM;
        r = path == NULL ? LESSOR_E_INVALID : stored_keys_load(path, arena, &client->keys, &problem);
        if (r < 0)
                set_problem(ret_problem, problem);
        return r;
}

static int set_up(struct lessor_site_client *client, const struct lessor_site_options *options,
                  char **ret_problem)
{
        struct http_client_options http = {.ca_file = options->ca_file, .proxy = options->proxy};
        int r;

        if (!relay_id_is_sendable(lessor_slice_of(options->site_id))) {
                set_problem(ret_problem, "a site id is printable ASCII without spaces");
                return LESSOR_E_INVALID;
        }
        client->site_id = strdup(options->site_id);
        if (client->site_id == NULL)
                return LESSOR_E_NOMEM;
        r = http_base_url(options->relay_url, &client->base_url, NULL);
        if (r < 0) {
                set_problem(ret_problem,
                            "the relay's URL must be http or https, without user, query or fragment");
                return r;
        }
        r = load_keys(client, options->keys_file, ret_problem);
        if (r < 0)
                return r;
        r = http_client_new(&http, &client->http);
        if (r < 0)
                return r;
        client->caller = (struct relay_caller){
                .http = client->http,
                .base_url = client->base_url,
                .plane = REQUEST_PLANE_SITE,
                .id = lessor_slice_of(client->site_id),
                .key = stored_keys_signing(client->keys),
                .stop = options->stop,
                .clock = clock_wall(),
                .timeout_ms = options->timeout_ms > 0 ? options->timeout_ms : TIMEOUT_DEFAULT_MS,
        };
        return 0;
}

int lessor_site_client_new(const struct lessor_site_options *options, struct lessor_site_client **ret_client,
                           char **ret_problem)
{
        _cleanup_(lessor_site_client_freep) struct lessor_site_client *client = calloc(1, sizeof(*client));
        int r;

        set_problem(ret_problem, NULL);
        if (client == NULL)
                return LESSOR_E_NOMEM;
        relay_failure_init(&client->failure);
        r = set_up(client, options, ret_problem);
        if (r < 0)
                return r;
        *ret_client = TAKE(client);
        return 0;
}

struct lessor_site_client *lessor_site_client_free(struct lessor_site_client *client)
{
        if (client == NULL)
                return NULL;
        http_client_free(client->http);
        stored_keys_free(client->keys);
        relay_failure_done(&client->failure);
        free(client->site_id);
        free(client->base_url);
        free(client);
        return NULL;
}

struct lessor_slice lessor_site_client_key_id(const struct lessor_site_client *client)
{
        return signing_id(client);
}

const char *lessor_site_client_problem(const struct lessor_site_client *client)
{
        return relay_failure_message(&client->failure);
}

const char *lessor_site_client_error(const struct lessor_site_client *client)
{
        return relay_failure_error(&client->failure);
}

/* What a site's caller tells apart: most refusals are for good. */
static int public_code(int code)
{
        switch (code) {
        case LESSOR_E_PERMISSION:
        case LESSOR_E_NEWER:
        case LESSOR_E_STALE:
        case LESSOR_E_NOT_FOUND:
                return LESSOR_E_REFUSED;
        case LESSOR_E_NOT_READY:
                return LESSOR_E_LATER;
        default:
                return code;
        }
}

int site_enqueue(struct lessor_site_client *client, const struct lessor_stub *stub,
                 enum lessor_job_state *ret_state)
{
        _cleanup_(lessor_arena_freep) struct lessor_arena *arena = lessor_arena_new();
        struct enqueue_request request = {.site_id = client->caller.id, .stub = *stub};
        struct job_state_answer answer;
        int r;

        if (arena == NULL)
                return LESSOR_E_NOMEM;
        request.stub.site = signing_id(client);
        r = relay_post(&client->caller, "enqueue", &enqueue_request_table, &request, &job_state_answer_table,
                       arena, &answer, &client->failure);
        if (r == 0)
                *ret_state = answer.state;
        return r;
}

int lessor_site_enqueue(struct lessor_site_client *client, const struct lessor_stub *stub,
                        enum lessor_job_state *ret_state)
{
        return public_code(site_enqueue(client, stub, ret_state));
}

int site_seal(struct lessor_site_client *client, const struct lessor_pending *pending,
              struct lessor_slice payload, int64_t deadline_ms)
{
        _cleanup_(lessor_arena_freep) struct lessor_arena *arena = lessor_arena_new();
        struct payload_request request = {.site_id = client->caller.id, .job_id = pending->job_id};
        struct envelope_terms terms = {
                .job_id = pending->job_id,
                .direction = LESSOR_DIRECTION_PAYLOAD,
                .deadline_ms = deadline_ms,
        };
        struct job_state_answer answer;
        int r;

        if (arena == NULL)
                return LESSOR_E_NOMEM;
        r = public_identity_check(&pending->device, NULL);
        if (r < 0)
                return relay_fail(&client->failure, r, "the device's identity is not consistent");
        r = envelope_seal(client->caller.key, &pending->device, &terms, payload, arena,
                          &request.envelope.sealed);
        if (r < 0)
                return relay_fail(&client->failure, r == LESSOR_E_INVALID ? LESSOR_E_BAD_SIGNATURE : r, NULL);
        return relay_post(&client->caller, "payload", &payload_request_table, &request,
                          &job_state_answer_table, arena, &answer, &client->failure);
}

int lessor_site_seal(struct lessor_site_client *client, const struct lessor_pending *pending,
                     struct lessor_slice payload, int64_t deadline_ms)
{
        return public_code(site_seal(client, pending, payload, deadline_ms));
}

int lessor_site_cancel(struct lessor_site_client *client, struct lessor_slice job_id, bool *ret_cancelled)
{
        _cleanup_(lessor_arena_freep) struct lessor_arena *arena = lessor_arena_new();
        struct cancel_request request = {.site_id = client->caller.id, .job_id = job_id};
        struct cancel_answer answer;
        int r;

        if (arena == NULL)
                return LESSOR_E_NOMEM;
        r = relay_post(&client->caller, "cancel", &cancel_request_table, &request, &cancel_answer_table,
                       arena, &answer, &client->failure);
        if (r == 0)
                *ret_cancelled = answer.cancelled;
        return public_code(r);
}

/* Waits for one read of the site plane. The transfer is the caller's to free, also on failure. */
static int get(struct lessor_site_client *client, const char *endpoint, int64_t wait_ms,
               struct http_transfer **ret_transfer)
{
        int r;

        if (wait_ms > LIMIT_HELD_WAIT_MS)
                wait_ms = LIMIT_HELD_WAIT_MS;
        r = relay_get_start(&client->caller, endpoint, wait_ms, ret_transfer);
        while (r == 0 && !http_transfer_done(*ret_transfer)) {
                r = http_client_wait(client->http, client->caller.stop, client->caller.timeout_ms + wait_ms);
                if (r == LESSOR_E_TIMEOUT)
                        r = 0; /* the transfer has a time limit of its own */
        }
        return r;
}

int site_pending_read(struct lessor_site_client *client, const struct http_transfer *transfer,
                      struct lessor_arena *arena, struct lessor_pending_list *ret_pending)
{
        struct pending_answer answer;
        struct lessor_pending *items;
        int r = relay_answer_read(&client->caller, transfer, &pending_answer_table, arena, &answer,
                                  &client->failure);

        if (r < 0)
                return r;
        items = lessor_arena_array(arena, answer.n_jobs, sizeof(*items));
        if (items == NULL)
                return LESSOR_E_NOMEM;
        for (size_t i = 0; i < answer.n_jobs; i++) {
                const struct pending_job *job = &answer.jobs[i];

                items[i] = (struct lessor_pending){
                        .job_id = job->job_id,
                        .device = job->device,
                        .runner_id = job->runner_id,
                        .lease_id = job->lease_id,
                        .awaiting_until_ms = job->awaiting_until_ms,
                        .lease_expires_ms = job->lease_expires_ms,
                };
        }
        *ret_pending = (struct lessor_pending_list){items, answer.n_jobs};
        return 0;
}

int lessor_site_pending(struct lessor_site_client *client, int64_t wait_ms, struct lessor_arena *arena,
                        struct lessor_pending_list *ret_pending)
{
        _cleanup_(http_transfer_freep) struct http_transfer *transfer = NULL;
        int r = get(client, "pending", wait_ms, &transfer);

        return public_code(r < 0 ? r : site_pending_read(client, transfer, arena, ret_pending));
}

int site_results_read(struct lessor_site_client *client, const struct http_transfer *transfer,
                      struct lessor_arena *arena, struct lessor_site_result_list *ret_results)
{
        struct results_answer answer;
        struct lessor_site_result *items;
        int r = relay_answer_read(&client->caller, transfer, &results_answer_table, arena, &answer,
                                  &client->failure);

        if (r < 0)
                return r;
        items = lessor_arena_array(arena, answer.n_jobs, sizeof(*items));
        if (items == NULL)
                return LESSOR_E_NOMEM;
        for (size_t i = 0; i < answer.n_jobs; i++) {
                const struct result_job *job = &answer.jobs[i];

                items[i] = (struct lessor_site_result){
                        .job_id = job->job_id,
                        .envelope = job->envelope.sealed,
                        .disposition = job->disposition,
                        .runner_id = job->runner_id,
                        .runner_owner = job->runner_owner,
                        .lease_id = job->lease_id,
                        .device = job->device,
                };
        }
        *ret_results = (struct lessor_site_result_list){items, answer.n_jobs};
        return 0;
}

int lessor_site_results(struct lessor_site_client *client, int64_t wait_ms, struct lessor_arena *arena,
                        struct lessor_site_result_list *ret_results)
{
        _cleanup_(http_transfer_freep) struct http_transfer *transfer = NULL;
        int r = get(client, "results", wait_ms, &transfer);

        return public_code(r < 0 ? r : site_results_read(client, transfer, arena, ret_results));
}

static int fill_answer(const struct lessor_site_result *result, const struct sealed_outcome *sealed,
                       const struct key_id *device, struct lessor_arena *arena,
                       struct lessor_answer *ret_answer)
{
        struct lessor_answer answer = {
                .job_id = result->job_id,
                .disposition = sealed->outcome.outcome,
                .text = sealed->outcome.text,
                .artifact_url = sealed->outcome.artifact_url,
                .code = sealed->outcome.code,
                .message = sealed->outcome.message,
                .retryable = sealed->outcome.retryable,
                .runner_id = result->runner_id,
                .runner_owner = result->runner_owner,
                .lease_id = result->lease_id,
                .model = sealed->ran.model,
                .backend_class = sealed->ran.backend_class,
                .duration_ms = sealed->ran.duration_ms,
        };
        int r;

        if (sealed->ran.has_stop)
                answer.stop = lessor_slice_of(message_word(&stop_reason_words, (int)sealed->ran.stop));
        r = lessor_arena_copy(arena, key_id_text(device), &answer.device_key_id);
        if (r == 0)
                *ret_answer = answer;
        return r;
}

int lessor_site_open(struct lessor_site_client *client, const struct lessor_site_result *result,
                     struct lessor_arena *arena, struct lessor_answer *ret_answer)
{
        struct identity_key device_key;
        struct key_id device;
        struct envelope_expected expected = {
                .job_id = result->job_id,
                .recipient_key_id = signing_id(client),
                .direction = LESSOR_DIRECTION_RESULT,
                .sender = &device_key,
        };
        struct sealed_outcome sealed = {0};
        struct lessor_slice text;
        struct json *value;
        int r = public_identity_check(&result->device, &device_key);

        if (r < 0)
                return r;
        key_id_of(&device_key, &device);
        expected.sender_key_id = key_id_text(&device);
        r = envelope_open(client->keys, &expected, &result->envelope, arena, &text);
        if (r == 0)
                r = json_read(text, arena, &value);
        if (r == 0)
                r = message_read(&sealed_outcome_table, value, arena, &sealed, NULL);
        if (r < 0)
                return r == LESSOR_E_INVALID || r == LESSOR_E_TOO_LARGE ? LESSOR_E_MALFORMED : r;
        /* The clear word is the relay's to change; the sealed one is the device's own. */
        if (sealed.outcome.outcome != result->disposition)
                return LESSOR_E_CONTEXT_MISMATCH;
        return fill_answer(result, &sealed, &device, arena, ret_answer);
}

int lessor_site_ack(struct lessor_site_client *client, const struct lessor_slice *job_ids, size_t n_job_ids)
{
        while (n_job_ids > 0 && !client->no_ack) {
                _cleanup_(lessor_arena_freep) struct lessor_arena *arena = lessor_arena_new();
                size_t n = n_job_ids < LIMIT_ACK_JOBS ? n_job_ids : LIMIT_ACK_JOBS;
                struct ack_request request = {.site_id = client->caller.id, .n_job_ids = n};
                struct ack_answer answer;
                int r;

                if (arena == NULL)
                        return LESSOR_E_NOMEM;
                request.job_ids = lessor_arena_array(arena, n, sizeof(*request.job_ids));
                if (request.job_ids == NULL)
                        return LESSOR_E_NOMEM;
                memcpy(request.job_ids, job_ids, n * sizeof(*job_ids));
                r = relay_post(&client->caller, "ack", &ack_request_table, &request, &ack_answer_table, arena,
                               &answer, &client->failure);
                /* `ack` is our own addition: other relays have no such path. */
                if (r == LESSOR_E_NOT_FOUND)
                        client->no_ack = true;
                else if (r < 0)
                        return public_code(r);
                job_ids += n;
                n_job_ids -= n;
        }
        return 0;
}
