/* SPDX-License-Identifier: MIT */
#include <stdlib.h>
#include <string.h>

#include "base/json_write.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/macro.h"
#include "crypto/request_signature.h"
#include "plane/relay_call.h"
#include "wire/relay_device.h"
#include "wire/version.h"

/* The device plane (relay-protocol 5 and 6) but for pairing, which is pair.c. */

/* --- claim --- */

/* The leases that go back when a claim's answer reaches nobody. In the request's arena. */
struct undelivered_claim {
        struct relay *relay;
        struct lessor_slice runner_id;
        struct lessor_lease_ref *leases;
        size_t n_leases;
};

/* At once, instead of after the sealing window; a release counts no attempt and sticks to nobody. */
static void claim_undelivered(struct http_request *http, void *context)
{
        const struct undelivered_claim *claim = context;
        const struct lessor_release release = {
                .runner_id = claim->runner_id, .leases = claim->leases, .n_leases = claim->n_leases};
        struct lessor_lease_ref_list released;
        struct lessor_ticket ticket;
        int e;

        e = lessor_routing_release_leases(claim->relay->parts.store, &release, http->arena, &released,
                                          &ticket);
        if (e < 0)
                log_warning("claim-not-taken-back", LOG_TEXT("runner", claim->runner_id), LOG_ERROR_CODE(e));
}

static int watch_delivery(struct relay_call *call, const struct lessor_job_list *granted)
{
        struct undelivered_claim *claim = lessor_arena_alloc(call->arena, sizeof(*claim));

        if (claim == NULL)
                return LESSOR_E_NOMEM;
        claim->relay = call->relay;
        claim->runner_id = call->device.runner_id;
        claim->leases = lessor_arena_array(call->arena, granted->n, sizeof(*claim->leases));
        if (claim->leases == NULL)
                return LESSOR_E_NOMEM;
        for (size_t i = 0; i < granted->n; i++)
                claim->leases[claim->n_leases++] =
                        (struct lessor_lease_ref){granted->items[i].stub.id, granted->items[i].lease_id};
        http_on_undelivered(call->http, claim_undelivered, claim);
        return 0;
}

static void describe_job(const struct lessor_job *job, struct claimed_stub *ret_stub)
{
        ret_stub->stub = job->stub;
        ret_stub->lease.id = job->lease_id;
        ret_stub->lease.runner_id = job->runner_id;
        ret_stub->lease.expires_ms = job->lease_expires_ms;
}

/* Jobs that the control plane declines, in two heaps: for good, and for now. */
struct declined {
        struct lessor_lease_ref *permanent, *transient;
        size_t n_permanent, n_transient;
};

static void decline(struct declined *declined, const struct lessor_job *job, bool permanent)
{
        struct lessor_lease_ref ref = {job->stub.id, job->lease_id};

        if (permanent)
                declined->permanent[declined->n_permanent++] = ref;
        else
                declined->transient[declined->n_transient++] = ref;
}

/*
 * Puts one claimed job to the control plane. The site is the one whose current key the stub names; a stub
 * that names none is declined for now (relay-protocol 6.2).
 */
static int author_grant(struct relay_call *call, const struct claim_request *in, const struct lessor_job *job,
                        int64_t now_ms, enum policy_decline *ret_decline, struct claimed_stub *ret_stub)
{
        const struct projection_site *site = projection_site_for_key(call->projection, job->stub.site);
        struct policy_question question;
        int e;

        if (site == NULL) {
                *ret_decline = POLICY_STORE_UNAVAILABLE;
                return 0;
        }
        question = (struct policy_question){.site_id = site->site_id,
                                            .user = job->stub.owner,
                                            .owner = call->device.owner,
                                            .purpose = job->stub.purpose,
                                            .kind = job->stub.kind,
                                            .capabilities = in->capabilities,
                                            .n_capabilities = in->n_capabilities};
        e = grant_author_decide(call->relay->parts.author, &question, job->stub.id, job->stub.site, now_ms,
                                call->arena, ret_decline, &ret_stub->grant);
        if (e < 0 || *ret_decline != POLICY_GRANTED)
                return e;
        ret_stub->has_grant = true;
        return 0;
}

static int give_back(struct relay_call *call, const struct declined *declined, int64_t now_ms)
{
        const struct lessor_release releases[] = {
                {.runner_id = call->device.runner_id,
                 .leases = declined->permanent,
                 .n_leases = declined->n_permanent,
                 .refused = true},
                {.runner_id = call->device.runner_id,
                 .leases = declined->transient,
                 .n_leases = declined->n_transient,
                 .retry_after_ms = now_ms + LESSOR_RETRY_AFTER_MS},
        };

        for (size_t i = 0; i < ARRAY_SIZE(releases); i++) {
                struct lessor_lease_ref_list released;
                struct lessor_ticket ticket;
                int e;

                if (releases[i].n_leases == 0)
                        continue;
                e = lessor_routing_release_leases(call->relay->parts.store, &releases[i], call->arena,
                                                  &released, &ticket);
                if (e < 0)
                        return e;
                relay_call_rests_on(call, ticket);
        }
        return 0;
}

/* Fills the answer with the jobs that may go out, each with its grant where there is a control plane. */
static int grant_jobs(struct relay_call *call, const struct claim_request *in,
                      const struct lessor_job_list *granted, struct claim_answer *out)
{
        struct declined declined = {0};
        int64_t now_ms;
        int e;

        out->jobs = lessor_arena_array(call->arena, granted->n, sizeof(*out->jobs));
        declined.permanent = lessor_arena_array(call->arena, granted->n, sizeof(*declined.permanent));
        declined.transient = lessor_arena_array(call->arena, granted->n, sizeof(*declined.transient));
        if (out->jobs == NULL || declined.permanent == NULL || declined.transient == NULL)
                return LESSOR_E_NOMEM;
        e = lessor_routing_now(call->relay->parts.store, &now_ms);
        if (e < 0)
                return e;
        for (size_t i = 0; i < granted->n; i++) {
                enum policy_decline verdict = POLICY_GRANTED;
                struct claimed_stub *stub = &out->jobs[out->n_jobs];

                describe_job(&granted->items[i], stub);
                if (call->relay->options.grants) {
                        e = author_grant(call, in, &granted->items[i], now_ms, &verdict, stub);
                        if (e < 0)
                                return e;
                }
                if (verdict == POLICY_GRANTED)
                        out->n_jobs++;
                else
                        decline(&declined, &granted->items[i], policy_decline_permanent(verdict));
        }
        return give_back(call, &declined, now_ms);
}

static void serve_claim(struct relay_call *call, const void *request)
{
        const struct claim_request *in = request;
        struct claim_answer out = {.lease_ms = call->relay->options.lease_ms};
        struct lessor_job_list granted;
        struct projection_routes routes;
        struct lessor_ticket ticket;
        int e;

        if (!lessor_slice_equal(in->runner_id, call->device.runner_id)) {
                relay_call_refuse(call, RELAY_REFUSAL_WRONG_RUNNER, NULL);
                return;
        }
        e = projection_routes(call->projection, call->device.owner, &routes);
        if (e < 0) {
                relay_call_refuse_error(call, e);
                return;
        }
        e = lessor_routing_claim(
                call->relay->parts.store,
                &(struct lessor_claim){.runner_id = call->device.runner_id,
                                       .owner = call->device.owner,
                                       .device = call->device.device,
                                       .routes = routes.items,
                                       .n_routes = routes.n,
                                       .kinds = capability_kinds(in->capabilities, in->n_capabilities),
                                       .max = (unsigned)in->max,
                                       .lease_ms = call->relay->options.lease_ms},
                call->arena, &granted, &ticket);
        if (e < 0) {
                relay_call_refuse_error(call, e);
                return;
        }
        relay_call_rests_on(call, ticket);
        if (granted.n > 0) {
                e = watch_delivery(call, &granted);
                if (e == 0)
                        e = grant_jobs(call, in, &granted, &out);
                if (e < 0) {
                        /* The jobs stay awaiting their payload and come back by themselves. */
                        log_error("claim-failed", LOG_TEXT("runner", call->device.runner_id),
                                  LOG_ERROR_CODE(e));
                        relay_call_refuse(call, RELAY_REFUSAL_INTERNAL, NULL);
                        return;
                }
        }
        relay_call_answer(call, &claim_answer_table, &out);
}

/* --- fetch, result, release --- */

static void serve_fetch(struct relay_call *call, const void *request)
{
        const struct fetch_request *in = request;
        struct fetch_answer out = {0};
        struct lessor_envelope envelope;
        struct lessor_ticket ticket = {0};
        int e;

        e = lessor_routing_take_payload(call->relay->parts.store, call->device.runner_id, &in->lease,
                                        call->arena, &envelope, &ticket);
        relay_call_rests_on(call, ticket);
        if (e < 0) {
                relay_call_refuse_error(call, e);
                return;
        }
        out.envelope.text = envelope.json;
        relay_call_answer(call, &fetch_answer_table, &out);
}

static void serve_result(struct relay_call *call, const void *request)
{
        const struct result_request *in = request;
        struct result_answer out = {.state = LESSOR_SLICE("done")};
        struct lessor_envelope envelope;
        struct lessor_ticket ticket = {0};
        int e;

        if (!relay_call_envelope(call, &in->envelope.sealed, &envelope))
                return;
        e = lessor_routing_complete(call->relay->parts.store, call->device.runner_id, &in->lease, &envelope,
                                    in->disposition, &out.duplicate, &ticket);
        relay_call_rests_on(call, ticket);
        if (e < 0) {
                relay_call_refuse_error(call, e);
                return;
        }
        out.accepted = !out.duplicate;
        relay_call_answer(call, &result_answer_table, &out);
}

static void serve_release(struct relay_call *call, const void *request)
{
        const struct release_request *in = request;
        struct release_answer out = {0};
        struct lessor_lease_ref_list released;
        struct lessor_ticket ticket = {0};
        int e;

        e = lessor_routing_release_leases(
                call->relay->parts.store,
                &(struct lessor_release){.runner_id = call->device.runner_id,
                                         .leases = in->leases,
                                         .n_leases = in->n_leases,
                                         .refused = in->reason ==
                                                    LESSOR_RELEASE_REFUSED /* REFUSAL_NOT_REOFFERED */},
                call->arena, &released, &ticket);
        relay_call_rests_on(call, ticket);
        if (e == 0) {
                out.released = lessor_arena_array(call->arena, released.n, sizeof(*out.released));
                e = out.released == NULL ? LESSOR_E_NOMEM : 0;
        }
        if (e < 0) {
                relay_call_refuse_error(call, e);
                return;
        }
        for (size_t i = 0; i < released.n && out.released != NULL; i++)
                out.released[out.n_released++] = released.items[i].job_id;
        relay_call_answer(call, &release_answer_table, &out);
}

/* --- heartbeat --- */

static int json_text_of(struct relay_call *call, const struct message_table *table, const void *items,
                        size_t n, struct lessor_slice *ret_json)
{
        _cleanup_(buf_done) struct buf json = {0};
        struct json_writer w;

        json_writer_init(&w, &json);
        message_write_list(table, items, n, &w);
        if (buf_failed(&json) < 0)
                return LESSOR_E_NOMEM;
        return lessor_arena_copy(call->arena, buf_view(&json), ret_json);
}

static int note_presence(struct relay_call *call, const struct heartbeat_request *in)
{
        struct lessor_presence presence = call->device;
        struct lessor_ticket ticket = {0};
        int e;

        e = json_text_of(call, &capability_table, in->capabilities, in->n_capabilities,
                         &presence.capabilities);
        if (e < 0)
                return e;
        e = json_text_of(call, &withheld_table, in->withheld, in->n_withheld, &presence.withheld);
        if (e < 0)
                return e;
        e = lessor_routing_seen(call->relay->parts.store, &presence, &ticket);
        relay_call_rests_on(call, ticket);
        return e;
}

/* What the sites of this owner say: pins, successions and paused consents, in site id order. */
static int describe_sites(struct relay_call *call, struct heartbeat_answer *out)
{
        struct projection_pins pins = projection_sites_for(call->projection, call->device.owner);
        int e;

        e = relay_call_pins(call, call->device.owner, &out->sites, &out->n_sites);
        if (e < 0)
                return e;
        out->awaiting_consent = lessor_arena_array(call->arena, pins.n, sizeof(*out->awaiting_consent));
        out->successions = lessor_arena_array(call->arena, pins.n, sizeof(*out->successions));
        if (out->awaiting_consent == NULL || out->successions == NULL)
                return LESSOR_E_NOMEM;
        for (size_t i = 0; i < pins.n; i++) {
                const struct projection_site *site = pins.items[i].site;
                struct site_succession *succession;

                if (pins.items[i].paused)
                        out->awaiting_consent[out->n_awaiting_consent++] = site->key_id;
                if (site->n_succeeds == 0)
                        continue;
                succession = &out->successions[out->n_successions++];
                succession->key_id = site->key_id;
                succession->retiring_until_ms = site->record->retiring_until_ms;
                succession->succeeds =
                        lessor_arena_array(call->arena, site->n_succeeds, sizeof(*succession->succeeds));
                if (succession->succeeds == NULL)
                        return LESSOR_E_NOMEM;
                for (size_t k = 0; k < site->n_succeeds; k++)
                        succession->succeeds[succession->n_succeeds++] = *site->succeeds[k].record;
        }
        if (out->n_successions == 0)
                out->successions = NULL;
        return 0;
}

static int renew(struct relay_call *call, const struct heartbeat_request *in, struct heartbeat_answer *out)
{
        struct lessor_routing_store *store = call->relay->parts.store;
        struct lessor_lease_ref_list cancel;
        struct lessor_renewal_list renewals;
        struct lessor_ticket ticket = {0};
        int e;

        e = lessor_routing_cancel_requests(store, call->device.runner_id, call->arena, &cancel, &ticket);
        relay_call_rests_on(call, ticket);
        if (e < 0)
                return e;
        e = lessor_routing_renew_leases(store, call->device.runner_id, in->active_leases, in->n_active_leases,
                                        call->relay->options.lease_ms, call->arena, &renewals, &ticket);
        relay_call_rests_on(call, ticket);
        if (e < 0)
                return e;
        out->cancel = cancel.items;
        out->n_cancel = cancel.n;
        out->lost = renewals.lost;
        out->n_lost = renewals.n_lost;
        return 0;
}

static void serve_heartbeat(struct relay_call *call, const void *request)
{
        const struct heartbeat_request *in = request;
        const struct relay_options *options = &call->relay->options;
        struct heartbeat_answer out = {0};
        struct lessor_ticket ticket = {0};
        int e;

        if (version_below_floor(in->daemon_version, options->daemon_floor)) {
                relay_call_refuse(call, RELAY_REFUSAL_BELOW_FLOOR,
                                  &(struct relay_refusal_details){.subject = in->daemon_version,
                                                                  .floor = options->daemon_floor});
                return;
        }
        e = lessor_routing_sweep(call->relay->parts.store, NULL, NULL, &ticket);
        relay_call_rests_on(call, ticket);
        if (e == 0)
                e = note_presence(call, in);
        if (e == 0)
                e = describe_sites(call, &out);
        if (e == 0 && out.n_sites > 0) {
                e = renew(call, in, &out);
        } else if (e == 0) {
                /* Nobody to work for: everything is lost, and the store is left alone (relay-protocol 6.5,
                 * 3). */
                out.lost = in->active_leases;
                out.n_lost = in->n_active_leases;
        }
        if (e == 0)
                e = lessor_routing_now(call->relay->parts.store, &out.server_time_ms);
        if (e < 0) {
                relay_call_refuse_error(call, e);
                return;
        }
        if (version_offered(in->daemon_version, options->update_offer))
                out.update_to = options->update_offer;
        relay_call_answer(call, &heartbeat_answer_table, &out);
}

/* --- Who is asking (relay-protocol 5, device endpoints) --- */

static const struct relay_endpoint endpoints[] = {
        {"claim", &claim_request_table, serve_claim},
        {"fetch", &fetch_request_table, serve_fetch},
        {"result", &result_request_table, serve_result},
        {"heartbeat", &heartbeat_request_table, serve_heartbeat},
        {"release", &release_request_table, serve_release},
};

/*
 * Step 2: a device that was seen before is known by what is remembered of it, even if its record is gone or
 * has other keys by now; any other by the projection.
 */
static int find_device(struct relay_call *call, struct lessor_slice runner_id, struct identity_key *ret_key,
                       bool *ret_has_key, bool *ret_remembered)
{
        const struct projection_device *record;
        struct lessor_ticket ticket;
        int e;

        e = lessor_routing_presence(call->relay->parts.store, runner_id, call->arena, &call->device, &ticket);
        *ret_remembered = e == 0;
        if (e == 0) {
                *ret_has_key = identity_key_read(call->device.device.identity, ret_key) == 0;
                return 0;
        }
        if (e != LESSOR_E_NOT_FOUND)
                return e;
        record = projection_device(call->projection, runner_id);
        if (record == NULL)
                return LESSOR_E_NOT_FOUND;
        call->device.runner_id = record->runner_id;
        call->device.owner = record->owner;
        call->device.device = record->record->device;
        *ret_has_key = record->has_key;
        *ret_key = record->key;
        return 0;
}

/* Steps 3 and 4. */
static int verify(struct relay_call *call, const struct relay_signature *signature,
                  const struct identity_key *key)
{
        struct signed_request signed_request = {.plane = REQUEST_PLANE_DEVICE,
                                                .endpoint = lessor_slice_of(call->endpoint->name),
                                                .caller = signature->caller,
                                                .issued_ms = signature->issued_ms};
        int64_t now_ms = clock_now_ms(call->relay->parts.wall);

        if (!request_is_fresh(signature->issued_ms, now_ms))
                return LESSOR_E_STALE;
        if (key == NULL)
                return LESSOR_E_BAD_SIGNATURE;
        request_body_hash(relay_call_signed_body(call), signed_request.body_hash);
        return request_verify(&signed_request, now_ms, key, signature->signature);
}

/* Steps 1 to 6; false when the call was refused. */
static bool authenticate(struct relay_call *call)
{
        struct relay_signature signature;
        struct lessor_ticket ticket = {0};
        struct identity_key key;
        bool has_key = false, remembered = false;
        int e;

        if (!relay_call_signature(call, "x-byollm-runner", &signature)) {
                relay_call_refuse(call, RELAY_REFUSAL_NOT_SIGNED, NULL);
                return false;
        }
        e = find_device(call, signature.caller, &key, &has_key, &remembered);
        if (e < 0) {
                relay_call_refuse(call,
                                  e == LESSOR_E_NOT_FOUND ? RELAY_REFUSAL_UNKNOWN_RUNNER
                                                          : relay_refusal_of_store(e),
                                  NULL);
                return false;
        }
        e = verify(call, &signature, has_key ? &key : NULL);
        if (e < 0) {
                relay_call_refuse(call,
                                  e == LESSOR_E_STALE           ? RELAY_REFUSAL_CLOCK_SKEW
                                  : e == LESSOR_E_BAD_SIGNATURE ? RELAY_REFUSAL_BAD_SIGNATURE
                                                                : RELAY_REFUSAL_INTERNAL,
                                  &(struct relay_refusal_details){
                                          .server_time_ms = clock_now_ms(call->relay->parts.wall)});
                return false;
        }
        http_log_caller(call->http, call->device.runner_id);
        if (!remembered) {
                struct lessor_presence presence = call->device;

                presence.capabilities = presence.withheld = LESSOR_SLICE("[]");
                e = lessor_routing_seen(call->relay->parts.store, &presence, &ticket);
                relay_call_rests_on(call, ticket);
                if (e < 0) {
                        relay_call_refuse_error(call, e);
                        return false;
                }
        }
        if (projection_device_revoked(call->projection, call->device.runner_id)) {
                relay_call_refuse(call, RELAY_REFUSAL_RUNNER_REVOKED, NULL);
                return false;
        }
        return true;
}

void relay_handle_device(struct http_request *http, void *context)
{
        struct relay_call *call = relay_call_begin(http, context);
        void *request;
        int e;

        if (call == NULL)
                return;
        for (size_t i = 0; i < ARRAY_SIZE(endpoints); i++)
                if (strcmp(endpoints[i].name, http->route->name) == 0)
                        call->endpoint = &endpoints[i];
        if (!authenticate(call))
                return;
        request = lessor_arena_alloc(call->arena, call->endpoint->schema->size);
        e = request == NULL ? LESSOR_E_NOMEM
            : call->body == NULL
                    ? LESSOR_E_INVALID
                    : message_read(call->endpoint->schema, call->body, call->arena, request, NULL);
        if (e < 0)
                relay_call_refuse(call,
                                  e == LESSOR_E_INVALID ? RELAY_REFUSAL_BAD_SCHEMA : RELAY_REFUSAL_INTERNAL,
                                  NULL);
        else
                call->endpoint->serve(call, request);
}
