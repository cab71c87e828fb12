/* SPDX-License-Identifier: MIT */
#include "base/limits.h"
#include "base/macro.h"
#include "plane/control_lease_json.h"
#include "plane/rack_state.h"

/* Racks: what they are and do, and what an operator does with them. */

#define ACTIVITY_DEFAULT 100

struct approve_body {
        struct lessor_slice rack_id;
        struct lessor_slice boot_id; /* absent: the one that was seen last */
        bool has_boot_id;
};

struct drain_body {
        struct lessor_slice rack_id;
        bool draining;
};

struct rack_body {
        struct lessor_slice rack_id;
};

struct policy_body {
        bool require_start_approval;
};

/* The empty text is a boot id like another (rack-protocol 20). */
static const struct message_field approve_fields[] = {
        FIELD_TEXT1(struct approve_body, rack_id, "rackId"),
        FIELD_TEXT(struct approve_body, boot_id, "bootId", 0, INT64_MAX,
                   FIELD_IF(struct approve_body, has_boot_id)),
};
const struct message_table control_rack_approve_body =
        MESSAGE_TABLE("RackApprove", struct approve_body, approve_fields);

static const struct message_field drain_fields[] = {
        FIELD_TEXT1(struct drain_body, rack_id, "rackId"),
        FIELD_BOOL(struct drain_body, draining, "draining"),
};
const struct message_table control_rack_drain_body =
        MESSAGE_TABLE("RackDrain", struct drain_body, drain_fields);

static const struct message_field rack_fields[] = {
        FIELD_TEXT1(struct rack_body, rack_id, "rackId"),
};
const struct message_table control_rack_name_body = MESSAGE_TABLE("RackName", struct rack_body, rack_fields);

static const struct message_field policy_fields[] = {
        FIELD_BOOL(struct policy_body, require_start_approval, "requireStartApproval"),
};
const struct message_table control_rack_policy_body =
        MESSAGE_TABLE("SecurityPolicy", struct policy_body, policy_fields);

static const struct control_words words[] = {
        {LESSOR_E_NOT_FOUND, "there is no rack {}; `lessor rack ls` lists them"},
        {LESSOR_E_BOOT_CHANGED, "rack {} has started again since: look again, and approve what you see then"},
        {0},
};

/* --- How racks are --- */

static void put_instant(struct json_writer *w, const char *key, int64_t at_ms)
{
        if (at_ms > 0)
                json_member_int(w, key, at_ms);
}

static void put_rack(struct json_writer *w, const struct lessor_rack *rack, int64_t now_ms)
{
        json_open_object(w);
        json_member_text(w, "rackId", rack->rack_id);
        json_member_text(w, "label", rack->label);
        json_member_cstr(w, "state", rack_state_name(rack, now_ms));
        json_key(w, "tiers");
        json_open_array(w);
        for (size_t i = 0; i < rack->n_tiers; i++)
                json_put_text(w, rack->tiers[i]);
        json_close_array(w);
        json_member_int(w, "capacity", rack->capacity);
        json_member_int(w, "leases", (int64_t)rack->n_leases);
        json_member_text(w, "agentVersion", rack->agent_version);
        json_member_text(w, "e3Version", lessor_agent_bundled_e3(rack->agent_version));
        json_member_bool(w, "healthy", rack->healthy);
        json_member_bool(w, "draining", rack->draining);
        json_member_bool(w, "pendingApproval", rack->pending);
        json_member_text(w, "lastBoot", rack->last_boot);
        json_member_text(w, "approvedBoot", rack->approved_boot);
        json_member_int(w, "enrolledAt", rack->enrolled_ms);
        put_instant(w, "lastSeenAt", rack->last_seen_ms);
        put_instant(w, "lastPollAt", rack->last_poll_ms);
        put_instant(w, "lastBeatAt", rack->last_beat_ms);
        json_close_object(w);
}

/* One rack or all, as of one store's answer. */
static int read_racks(struct control_call *call, struct lessor_lease_store *store, struct lessor_slice id,
                      struct lessor_rack_list *ret_racks)
{
        struct lessor_ticket ticket = {0};
        struct lessor_rack *one;
        int e;

        if (id.p == NULL) {
                e = lessor_rack_list(store, call->arena, ret_racks, &ticket);
                control_rests_on(call, ticket);
                return e;
        }
        one = lessor_arena_array(call->arena, 1, sizeof(*one));
        if (one == NULL)
                return LESSOR_E_NOMEM;
        e = lessor_rack_get(store, id, call->arena, one, &ticket);
        control_rests_on(call, ticket);
        if (e == 0)
                *ret_racks = (struct lessor_rack_list){one, 1};
        return e;
}

void control_rack_list(struct control_call *call, const void *body)
{
        struct lessor_lease_store *store = control_leases(call);
        struct lessor_ticket ticket = {0};
        struct lessor_rack_list racks = {0};
        struct lessor_slice id;
        struct buf json = {0};
        struct json_writer w;
        int64_t now_ms = 0;
        bool required = false;
        int e;

        (void)body;
        if (store == NULL || !control_query(call, "rack", &id))
                return;
        e = read_racks(call, store, id, &racks);
        if (e == 0)
                e = lessor_rack_policy(store, &required, &ticket);
        if (e == 0)
                e = lessor_lease_now(store, &now_ms);
        control_rests_on(call, ticket);
        if (e < 0) {
                control_refuse_error(call, e, words, id);
                return;
        }
        json_writer_init(&w, &json);
        json_open_object(&w);
        json_key(&w, "racks");
        json_open_array(&w);
        for (size_t i = 0; i < racks.n; i++)
                put_rack(&w, &racks.items[i], now_ms);
        json_close_array(&w);
        json_member_bool(&w, "requireStartApproval", required);
        json_close_object(&w);
        control_answer(call, &json);
}

/* --- What a rack did --- */

static void put_activity(struct json_writer *w, const struct lessor_lease *lease)
{
        json_open_object(w);
        json_member_int(w, "number", (int64_t)lease->seq);
        json_member_text(w, "repo", lease->name.repo);
        json_member_text(w, "leaseId", lease->name.lease_id);
        json_member_text(w, "workspace", lease->workspace);
        json_member_text(w, "taskName", lease->task_name);
        json_member_text(w, "tier", lease->tier);
        json_member_cstr(w, "status", message_word(&lease_status_words, (int)lease->status));
        if (lease->status == LESSOR_LEASE_COMPLETED) {
                json_member_cstr(w, "outcome", message_word(&verdict_words, verdict_number(&lease->verdict)));
                json_member_text(w, "error", lease->verdict.message);
        }
        json_member_int(w, "claimedAt", lease->claimed_ms);
        put_instant(w, "completedAt", lease->ended_ms);
        json_close_object(w);
}

void control_rack_activity(struct control_call *call, const void *body)
{
        struct lessor_lease_store *store = control_leases(call);
        struct lessor_ticket ticket = {0};
        struct lessor_lease_list leases = {0};
        struct lessor_rack rack;
        struct lessor_slice id;
        struct buf json = {0};
        struct json_writer w;
        int64_t limit;
        int e;

        (void)body;
        if (store == NULL || !control_query(call, "rack", &id) ||
            !control_query_int(call, "limit", 1, LIMIT_CONTROL_LEASES, ACTIVITY_DEFAULT, &limit))
                return;
        if (id.p == NULL) {
                control_refuse(call, 400, "invalid", "name the rack: ?rack=RACK");
                return;
        }
        e = lessor_rack_get(store, id, call->arena, &rack, &ticket);
        if (e == 0)
                e = lessor_lease_recent(store, id, (size_t)limit, call->arena, &leases, &ticket);
        control_rests_on(call, ticket);
        if (e < 0) {
                control_refuse_error(call, e, words, id);
                return;
        }
        json_writer_init(&w, &json);
        json_open_object(&w);
        json_key(&w, "activity");
        json_open_array(&w);
        for (size_t i = 0; i < leases.n; i++)
                put_activity(&w, &leases.items[i]);
        json_close_array(&w);
        json_close_object(&w);
        control_answer(call, &json);
}

/* --- What an operator does --- */

/* Without a boot id the one that was seen last is approved, if it is still the last when it comes to it. */
void control_rack_approve(struct control_call *call, const void *body)
{
        const struct approve_body *in = body;
        struct lessor_lease_store *store = control_leases(call);
        struct lessor_slice boot = in->boot_id;
        struct lessor_ticket ticket = {0};
        struct lessor_rack rack;
        struct buf json = {0};
        struct json_writer w;
        int e = 0;

        if (store == NULL)
                return;
        if (!in->has_boot_id) {
                e = lessor_rack_get(store, in->rack_id, call->arena, &rack, &ticket);
                if (e == 0 && rack.last_boot.p == NULL) {
                        control_refuse(call, 409, "refused",
                                       "the rack has not been heard of yet, so there is no start to approve");
                        return;
                }
                if (e == 0)
                        boot = rack.last_boot;
        }
        if (e == 0)
                e = lessor_rack_approve(store, in->rack_id, boot, &ticket);
        control_rests_on(call, ticket);
        if (e < 0) {
                control_refuse_error(call, e, words, in->rack_id);
                return;
        }
        json_writer_init(&w, &json);
        json_open_object(&w);
        json_member_bool(&w, "ok", true);
        json_member_text(&w, "bootId", boot);
        json_close_object(&w);
        control_answer(call, &json);
}

void control_rack_drain(struct control_call *call, const void *body)
{
        const struct drain_body *in = body;
        struct lessor_lease_store *store = control_leases(call);
        struct lessor_ticket ticket = {0};
        int e;

        if (store == NULL)
                return;
        e = lessor_rack_drain(store, in->rack_id, in->draining, &ticket);
        control_rests_on(call, ticket);
        control_done(call, e, words, in->rack_id);
}

void control_rack_remove(struct control_call *call, const void *body)
{
        const struct rack_body *in = body;
        struct lessor_lease_store *store = control_leases(call);
        struct lessor_ticket ticket = {0};
        struct buf json = {0};
        size_t n;
        int e;

        if (store == NULL)
                return;
        e = lessor_rack_deregister(store, in->rack_id, &n, &ticket);
        control_rests_on(call, ticket);
        if (e < 0) {
                control_refuse_error(call, e, words, in->rack_id);
                return;
        }
        buf_printf(&json, "{\"ok\":true,\"superseded\":%zu}", n);
        control_answer(call, &json);
}

static void answer_policy(struct control_call *call, bool required)
{
        struct buf json = {0};

        buf_printf(&json, "{\"requireStartApproval\":%s}", required ? "true" : "false");
        control_answer(call, &json);
}

void control_rack_policy_get(struct control_call *call, const void *body)
{
        struct lessor_lease_store *store = control_leases(call);
        struct lessor_ticket ticket = {0};
        bool required;
        int e;

        (void)body;
        if (store == NULL)
                return;
        e = lessor_rack_policy(store, &required, &ticket);
        control_rests_on(call, ticket);
        if (e < 0)
                control_refuse_error(call, e, NULL, (struct lessor_slice){0});
        else
                answer_policy(call, required);
}

void control_rack_policy_put(struct control_call *call, const void *body)
{
        const struct policy_body *in = body;
        struct lessor_lease_store *store = control_leases(call);
        struct lessor_ticket ticket = {0};
        int e;

        if (store == NULL)
                return;
        e = lessor_rack_set_policy(store, in->require_start_approval, &ticket);
        control_rests_on(call, ticket);
        if (e < 0)
                control_refuse_error(call, e, NULL, (struct lessor_slice){0});
        else
                answer_policy(call, in->require_start_approval);
}
