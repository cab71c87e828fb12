/* SPDX-License-Identifier: MIT */
#include "base/limits.h"
#include "base/macro.h"
#include "crypto/machine_token.h"
#include "plane/control_call.h"

/*
 * Enrolment tokens: what makes a machine a rack, once. The text is told to whoever asked for it and to nobody
 * else, ever: the store has its hash, and the log has neither.
 */

#define TTL_DEFAULT_MS 900000
/* What an operator calls a token by: so many digits of its hash, which tell nothing of the token. */
#define TOKEN_ID_LEN 16

struct token_body {
        struct lessor_slice label;
        int64_t ttl_ms; /* 0: not said */
};

struct token_name_body {
        struct lessor_slice token_id;
};

static const struct message_field token_fields[] = {
        FIELD_TEXT(struct token_body, label, "label", 0, LIMIT_ID_BYTES, .flags = MESSAGE_OPTIONAL),
        FIELD_INT(struct token_body, ttl_ms, "ttlMs", LIMIT_ENROLMENT_MIN_MS, LIMIT_ENROLMENT_MS,
                  .flags = MESSAGE_OPTIONAL),
};
const struct message_table control_rack_token_body =
        MESSAGE_TABLE("RackToken", struct token_body, token_fields);

static const struct message_field token_name_fields[] = {
        FIELD_TEXT(struct token_name_body, token_id, "tokenId", TOKEN_ID_LEN, TOKEN_ID_LEN),
};
const struct message_table control_rack_token_name_body =
        MESSAGE_TABLE("RackTokenName", struct token_name_body, token_name_fields);

static const struct control_words words[] = {
        {LESSOR_E_NOT_FOUND,
         "no token {} can be used: it was used already, has expired, or never was; `lessor rack tokens` "
         "lists them"},
        {0},
};

static struct lessor_slice id_of(struct lessor_slice hash)
{
        return (struct lessor_slice){hash.p, hash.n < TOKEN_ID_LEN ? hash.n : TOKEN_ID_LEN};
}

void control_rack_token_list(struct control_call *call, const void *body)
{
        struct lessor_lease_store *store = control_leases(call);
        struct lessor_enrolment_list list;
        struct lessor_ticket ticket = {0};
        struct buf json = {0};
        struct json_writer w;
        int e;

        (void)body;
        if (store == NULL)
                return;
        e = lessor_rack_enrolments(store, call->arena, &list, &ticket);
        control_rests_on(call, ticket);
        if (e < 0) {
                control_refuse_error(call, e, NULL, (struct lessor_slice){0});
                return;
        }
        json_writer_init(&w, &json);
        json_open_object(&w);
        json_key(&w, "tokens");
        json_open_array(&w);
        for (size_t i = 0; i < list.n; i++) {
                json_open_object(&w);
                json_member_text(&w, "tokenId", id_of(list.items[i].hash));
                json_member_text(&w, "label", list.items[i].label);
                json_member_int(&w, "mintedAt", list.items[i].minted_ms);
                json_member_int(&w, "expiresAt", list.items[i].expires_ms);
                json_close_object(&w);
        }
        json_close_array(&w);
        json_close_object(&w);
        control_answer(call, &json);
}

/* Where racks find this server: as configured, else where it listens. Absent when nobody knows. */
static struct lessor_slice url_of(const struct control_parts *parts)
{
        if (parts->rack->options.origin.n > 0)
                return parts->rack->options.origin;
        if (parts->n_listeners != NULL && *parts->n_listeners > 0 && *parts->listeners != NULL)
                return lessor_slice_of((*parts->listeners)[0]);
        return (struct lessor_slice){0};
}

void control_rack_token_create(struct control_call *call, const void *body)
{
        const struct token_body *in = body;
        struct lessor_lease_store *store = control_leases(call);
        _cleanup_(machine_token_wipe) struct machine_token token = {.n = 0};
        struct lessor_slice label = in->label.p == NULL ? LESSOR_SLICE("") : in->label, hash;
        struct lessor_ticket ticket = {0};
        char hex[SHA256_HEX_LEN + 1];
        int64_t expires_ms;
        struct buf json = {0};
        struct json_writer w;
        int e;

        if (store == NULL)
                return;
        machine_token_mint(MACHINE_TOKEN_ENROLMENT, &token);
        machine_token_hash(machine_token_text(&token), hex);
        hash = (struct lessor_slice){hex, SHA256_HEX_LEN};
        e = lessor_rack_mint_enrolment(store, hash, label, in->ttl_ms == 0 ? TTL_DEFAULT_MS : in->ttl_ms,
                                       &expires_ms, &ticket);
        control_rests_on(call, ticket);
        if (e < 0) {
                control_refuse_error(call, e, NULL, (struct lessor_slice){0});
                return;
        }
        json_writer_init(&w, &json);
        json_open_object(&w);
        json_member_text(&w, "token", machine_token_text(&token));
        json_member_text(&w, "tokenId", id_of(hash));
        json_member_text(&w, "label", label);
        json_member_int(&w, "expiresAt", expires_ms);
        json_member_text(&w, "url", url_of(call->parts));
        json_close_object(&w);
        control_answer(call, &json);
}

void control_rack_token_revoke(struct control_call *call, const void *body)
{
        const struct token_name_body *in = body;
        struct lessor_lease_store *store = control_leases(call);
        struct lessor_enrolment_list list;
        struct lessor_ticket ticket = {0};
        int e;

        if (store == NULL)
                return;
        e = lessor_rack_enrolments(store, call->arena, &list, &ticket);
        for (size_t i = 0; e == 0; i++) {
                if (i == list.n) {
                        e = LESSOR_E_NOT_FOUND;
                } else if (lessor_slice_equal(id_of(list.items[i].hash), in->token_id)) {
                        e = lessor_rack_revoke_enrolment(store, list.items[i].hash, &ticket);
                        break;
                }
        }
        control_rests_on(call, ticket);
        control_done(call, e, words, in->token_id);
}
