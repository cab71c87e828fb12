/* SPDX-License-Identifier: MIT */
#include <sodium.h>

#include "base/json_write.h"
#include "crypto/public_identity.h"
#include "plane/relay_call.h"
#include "wire/relay_device.h"

/* Pairing: how a device becomes known (relay-protocol 6.1). Unsigned; signature headers are not looked at. */

static struct lessor_slice control_plane_public(const struct relay_call *call)
{
        const struct grant_author *author = call->relay->parts.author;

        if (!call->relay->options.grants || author->signer == NULL)
                return (struct lessor_slice){0};
        return signer_public(author->signer);
}

static int remember(struct relay_call *call, const struct projection_device *record,
                    const struct lessor_public_identity *keys, struct lessor_slice capabilities)
{
        struct lessor_ticket ticket = {0};
        int e;

        e = lessor_routing_seen(call->relay->parts.store,
                                &(struct lessor_presence){.runner_id = record->runner_id,
                                                          .owner = record->owner,
                                                          .device = *keys,
                                                          .capabilities = capabilities,
                                                          .withheld = LESSOR_SLICE("[]")},
                                &ticket);
        relay_call_rests_on(call, ticket);
        return e;
}

static int capabilities_json(struct relay_call *call, const struct pair_start_request *in,
                             struct lessor_slice *ret_json)
{
        struct buf json = {0};
        struct json_writer w;
        int e;

        json_writer_init(&w, &json);
        message_write_list(&capability_table, in->capabilities, in->n_capabilities, &w);
        e = buf_failed(&json);
        if (e == 0)
                e = lessor_arena_copy(call->arena, buf_view(&json), ret_json);
        buf_done(&json);
        return e;
}

static int new_codes(struct relay_call *call, const struct pairing_request *request, int64_t now_ms,
                     struct pairing_codes *ret_codes)
{
        unsigned char random[PAIRING_RANDOM_BYTES];
        int e;

        /* Codes that are in use already are about as likely as guessing one; one more try is plenty. */
        for (int tries = 0;; tries++) {
                randombytes_buf(random, sizeof(random));
                e = pairing_start(call->relay->parts.pairings, request, random, now_ms, ret_codes);
                if (e != LESSOR_E_EXISTS || tries == 3)
                        break;
        }
        sodium_memzero(random, sizeof(random));
        return e;
}

static void serve_start(struct relay_call *call, const struct pair_start_request *in)
{
        static const char *const platforms[] = {"darwin", "linux", "win32"};
        struct pairing_request request = {.device = in->device,
                                          .version = in->daemon.version,
                                          .label = in->daemon.label,
                                          .platform = lessor_slice_of(platforms[in->daemon.platform])};
        struct pairing_codes codes;
        int64_t now_ms;
        int e;

        if (call->relay->options.verification_url.p == NULL) {
                relay_call_refuse(call, RELAY_REFUSAL_NO_PAIRING, NULL);
                return;
        }
        if (public_identity_check(&in->device, NULL) < 0) {
                relay_call_refuse(call, RELAY_REFUSAL_INCONSISTENT_DEVICE, NULL);
                return;
        }
        e = capabilities_json(call, in, &request.capabilities);
        if (e == 0)
                e = lessor_routing_now(call->relay->parts.store, &now_ms);
        if (e == 0)
                e = new_codes(call, &request, now_ms, &codes);
        if (e < 0) {
                relay_call_refuse(call,
                                  e == LESSOR_E_BUSY ? RELAY_REFUSAL_PAIRING_FULL : relay_refusal_of_store(e),
                                  NULL);
                return;
        }
        relay_call_answer(
                call, &pair_start_answer_table,
                &(struct pair_start_answer){.device_code = lessor_slice_of(codes.device_code),
                                            .user_code = lessor_slice_of(codes.user_code),
                                            .verification_url = call->relay->options.verification_url,
                                            .expires_ms = codes.expires_ms,
                                            .poll_interval_ms = PAIRING_POLL_INTERVAL_MS});
        sodium_memzero(&codes, sizeof(codes));
}

/* The device is recorded as present with the keys that it started with, then the code is used up. */
static int finish(struct relay_call *call, const struct pair_poll_request *in, const struct pairing *pairing,
                  const struct projection_device *record, struct pair_poll_answer *out)
{
        int e;

        e = remember(call, record, &pairing->request.device, pairing->request.capabilities);
        if (e == 0)
                e = relay_call_pins(call, record->owner, &out->sites, &out->n_sites);
        if (e == 0)
                e = pairing_spend(call->relay->parts.pairings, in->device_code);
        if (e < 0)
                return e;
        out->status = PAIR_STATUS_APPROVED;
        out->runner_id = record->runner_id;
        out->owner = record->owner;
        out->control_plane_public = control_plane_public(call);
        return 0;
}

static void serve_poll(struct relay_call *call, const struct pair_poll_request *in)
{
        struct pair_poll_answer out = {.status = PAIR_STATUS_EXPIRED};
        const struct projection_device *record;
        enum pairing_state state;
        struct pairing pairing;
        int64_t now_ms;
        int e;

        e = lessor_routing_now(call->relay->parts.store, &now_ms);
        if (e == 0)
                e = pairing_poll(call->relay->parts.pairings, call->projection, in->device_code, now_ms,
                                 call->arena, &state, &pairing, &record);
        if (e == 0 && state == PAIRING_PENDING)
                out.status = PAIR_STATUS_PENDING;
        else if (e == 0 && state == PAIRING_APPROVED) {
                e = finish(call, in, &pairing, record, &out);
                if (e == LESSOR_E_NOT_FOUND) /* another poll was first */
                        e = 0;
        }
        if (e < 0)
                relay_call_refuse_error(call, e);
        else
                relay_call_answer(call, &pair_poll_answer_table, &out);
}

static void serve_fixture(struct relay_call *call, const struct pair_fixture_request *in)
{
        struct pair_fixture_answer out = {0};
        const struct projection_device *record;
        int e;

        if (public_identity_check(&in->device, NULL) < 0) {
                relay_call_refuse(call, RELAY_REFUSAL_INCONSISTENT_DEVICE, NULL);
                return;
        }
        /* A paused consent is one: it routes nothing and keeps its pin. */
        if (projection_sites_for(call->projection, in->owner).n == 0) {
                relay_call_refuse(call, RELAY_REFUSAL_NO_CONSENT, NULL);
                return;
        }
        record = projection_device_by_identity(call->projection, in->device.identity);
        if (record == NULL) {
                relay_call_refuse(call, RELAY_REFUSAL_NOT_APPROVED, NULL);
                return;
        }
        if (!lessor_slice_equal(record->owner, in->owner)) {
                relay_call_refuse(call, RELAY_REFUSAL_OTHER_OWNER, NULL);
                return;
        }
        e = remember(call, record, &in->device, LESSOR_SLICE("[]"));
        if (e == 0)
                e = relay_call_pins(call, in->owner, &out.sites, &out.n_sites);
        if (e < 0) {
                relay_call_refuse_error(call, e);
                return;
        }
        out.runner_id = record->runner_id;
        out.control_plane_public = control_plane_public(call);
        relay_call_answer(call, &pair_fixture_answer_table, &out);
}

void relay_handle_pair(struct http_request *http, void *context)
{
        struct relay_call *call = relay_call_begin(http, context);
        struct pair_request *request;
        int e;

        if (call == NULL)
                return;
        request = lessor_arena_alloc(call->arena, sizeof(*request));
        e = request == NULL ? LESSOR_E_NOMEM : pair_request_read(call->body, call->arena, request);
        if (e < 0) {
                relay_call_refuse(
                        call, e == LESSOR_E_INVALID ? RELAY_REFUSAL_BAD_PAIR_SCHEMA : RELAY_REFUSAL_INTERNAL,
                        NULL);
                return;
        }
        switch (request->form) {
        case PAIR_FORM_START:
                serve_start(call, &request->start);
                break;
        case PAIR_FORM_POLL:
                serve_poll(call, &request->poll);
                break;
        case PAIR_FORM_FIXTURE:
                serve_fixture(call, &request->fixture);
                break;
        }
}
