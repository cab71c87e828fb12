/* SPDX-License-Identifier: MIT */
#include "base/log.h"
#include "crypto/machine_token.h"
#include "plane/rack_call.h"

/* What a machine says about itself: that it joins, that it is there, that it keeps a lease. */

/* A fresh rack token in the request's arena, wiped with it, and its hash. Returns NULL without memory. */
static const struct machine_token *mint(struct rack_call *call, char ret_hash[SHA256_HEX_LEN + 1])
{
        struct machine_token *token = lessor_arena_alloc(call->arena, sizeof(*token));

        if (token == NULL || lessor_arena_own(call->arena, token, machine_token_wipe) < 0)
                return NULL;
        machine_token_mint(MACHINE_TOKEN_RACK, token);
        machine_token_hash(machine_token_text(token), ret_hash);
        return token;
}

static struct lessor_slice hash_text(const char hash[SHA256_HEX_LEN + 1])
{
        return (struct lessor_slice){hash, SHA256_HEX_LEN};
}

/* --- enroll (section 6.1) --- */

void rack_serve_enroll(struct rack_call *call, const void *request)
{
        const struct rack_enroll_request *in = request;
        const struct lessor_host_info host = {.label = in->host_info.label,
                                              .tiers = in->host_info.tiers,
                                              .n_tiers = in->host_info.n_tiers,
                                              .capacity = in->host_info.capacity,
                                              .agent_version = in->host_info.agent_version};
        char enrolment_hash[SHA256_HEX_LEN + 1], rack_hash[SHA256_HEX_LEN + 1];
        const struct machine_token *token = mint(call, rack_hash);
        struct lessor_ticket ticket = {0};
        struct lessor_rack rack;
        int e = LESSOR_E_UNAVAILABLE;

        machine_token_hash(in->enrollment_token, enrolment_hash);
        if (token != NULL)
                e = lessor_rack_enroll(call->store, hash_text(enrolment_hash), &host, hash_text(rack_hash),
                                       call->arena, &rack, &ticket);
        rack_call_rests_on(call, ticket);
        if (e == LESSOR_E_NOT_FOUND) { /* R002, R004 */
                rack_refuse(call, RACK_UNAUTHORIZED,
                            "that enrolment token is unknown, used or expired; have another minted");
                return;
        }
        if (e < 0) {
                rack_refuse_error(call, e);
                return;
        }
        http_log_caller(call->http, rack.rack_id);
        log_info("rack-enrolled", LOG_TEXT("rack", rack.rack_id), LOG_TEXT("label", rack.label),
                 LOG_TEXT("version", rack.agent_version));
        rack_answer(call, &(struct rack_enroll_response){rack.rack_id, machine_token_text(token)});
}

/* --- heartbeat (section 6.3) --- */

static void answer_beat(struct rack_call *call, const struct rack_heartbeat_request *in,
                        const struct lessor_rack_beaten *beaten, struct lessor_slice successor)
{
        struct rack_heartbeat_response out = {.n_stop = beaten->stop.n,
                                              .pending_approval = beaten->pending_approval};

        if (rack_call_pick(call, in->running_leases, &beaten->stop, &out.stop) < 0) {
                rack_refuse_error(call, LESSOR_E_UNAVAILABLE);
                return;
        }
        if (beaten->offered) {
                log_info("rack-token-offered", LOG_TEXT("rack", call->caller.rack.rack_id));
                out.rotated_token = successor;
        }
        rack_answer(call, &out);
}

void rack_serve_heartbeat(struct rack_call *call, const void *request)
{
        const struct rack_heartbeat_request *in = request;
        struct lessor_rack_beat beat = {.rack_id = call->caller.rack.rack_id,
                                        .boot_id = in->boot_id,
                                        .agent_version = in->agent_version,
                                        .healthy = in->healthy,
                                        .n_running = in->n_running_leases,
                                        .token_hash = call->caller.token_hash,
                                        .token_status = call->caller.status};
        char successor_hash[SHA256_HEX_LEN + 1];
        const struct machine_token *successor = mint(call, successor_hash);
        struct lessor_ticket ticket = {0};
        struct lessor_rack_beaten beaten;
        struct lessor_lease_name *running = NULL;
        int e;

        e = successor == NULL ? LESSOR_E_NOMEM
                              : rack_call_names(call, in->running_leases, in->n_running_leases, &running);
        beat.running = running;
        beat.successor_hash = hash_text(successor_hash);
        if (e == 0)
                e = lessor_rack_heartbeat(call->store, &beat, call->arena, &beaten, &ticket);
        rack_call_rests_on(call, ticket);
        if (e == LESSOR_E_NOT_FOUND) /* R013 */
                rack_refuse_gone(call);
        else if (e < 0)
                rack_refuse_error(call, e == LESSOR_E_NOMEM ? LESSOR_E_UNAVAILABLE : e);
        else
                answer_beat(call, in, &beaten, machine_token_text(successor));
}

/* --- lease/extend (section 6.4) --- */

void rack_serve_extend(struct rack_call *call, const void *request)
{
        const struct rack_extend_request *in = request;
        const struct lessor_lease_holder holder = rack_call_holder(call, in->repo, in->lease_id, in->attempt);
        struct lessor_ticket ticket = {0};
        int64_t deadline_ms;
        bool held;
        int e;

        e = lessor_lease_extend(call->store, &holder, &deadline_ms, &ticket);
        rack_call_rests_on(call, ticket);
        held = e == 0;
        if (e < 0 && e != LESSOR_E_NOT_HELD)
                rack_refuse_error(call, e == LESSOR_E_NOMEM ? LESSOR_E_UNAVAILABLE : e);
        else
                rack_answer(call, &held); /* R064, R065 */
}
