/* SPDX-License-Identifier: MIT */
#include "plane/control_call.h"
#include "wire/relay_shapes.h"

/* Consents: whose work a site may publish, and the mappings that say what answers it. */

struct mapping_item {
        struct policy_mapping mapping;
};

struct consent_body {
        struct lessor_slice owner;
        struct lessor_slice site_id;
        struct mapping_item *mappings;
        size_t n_mappings;
};

struct consent_name_body {
        struct lessor_slice owner;
        struct lessor_slice site_id;
};

struct mapping_body {
        struct lessor_slice owner;
        struct lessor_slice site_id;
        struct policy_mapping mapping;
};

/* An absent purpose is the default one; an absent owner of the service is the consent's. */
#define MAPPING_FIELDS(type)                                                      \
        FIELD_TEXT1(type, mapping.purpose, "purpose", .flags = MESSAGE_OPTIONAL), \
                FIELD_ENUM(type, mapping.kind, "kind", &kind_words),              \
                FIELD_TEXT1(type, mapping.service, "service"),                    \
                FIELD_TEXT1(type, mapping.owner, "serviceOwner", .flags = MESSAGE_OPTIONAL)

static const struct message_field mapping_item_fields[] = {MAPPING_FIELDS(struct mapping_item)};
static const struct message_table mapping_item_table =
        MESSAGE_TABLE("Mapping", struct mapping_item, mapping_item_fields);

static const struct message_field consent_fields[] = {
        FIELD_TEXT1(struct consent_body, owner, "owner"),
        FIELD_TEXT1(struct consent_body, site_id, "siteId"),
        FIELD_LIST(struct consent_body, mappings, n_mappings, "mappings", &mapping_item_table, 0, INT64_MAX,
                   .flags = MESSAGE_OPTIONAL),
};
const struct message_table control_consent_body =
        MESSAGE_TABLE("ConsentAdd", struct consent_body, consent_fields);

static const struct message_field consent_name_fields[] = {
        FIELD_TEXT1(struct consent_name_body, owner, "owner"),
        FIELD_TEXT1(struct consent_name_body, site_id, "siteId"),
};
const struct message_table control_consent_name_body =
        MESSAGE_TABLE("ConsentName", struct consent_name_body, consent_name_fields);

static const struct message_field mapping_fields[] = {
        FIELD_TEXT1(struct mapping_body, owner, "owner"),
        FIELD_TEXT1(struct mapping_body, site_id, "siteId"),
        MAPPING_FIELDS(struct mapping_body),
};
const struct message_table control_mapping_body =
        MESSAGE_TABLE("ConsentMapping", struct mapping_body, mapping_fields);

static const struct control_words site_words[] = {
        {LESSOR_E_NOT_FOUND, "there is no site \"{}\"; `lessor site add` registers one"},
        {LESSOR_E_EXISTS, "this owner has a consent for site \"{}\" already"},
        {0},
};
static const struct control_words consent_words[] = {
        {LESSOR_E_NOT_FOUND, "this owner has no consent for site \"{}\"; `lessor consent ls` lists them"},
        {LESSOR_E_REFUSED, "the consent for site \"{}\" is revoked; `lessor consent add` gives it anew"},
        {0},
};
static const struct control_words mapping_words[] = {
        {LESSOR_E_NOT_FOUND, "there is no such mapping, or no such consent for site \"{}\""},
        {LESSOR_E_EXISTS, "this very mapping is there already"},
        {0},
};

static void put_mapping(struct json_writer *w, const struct policy_mapping *mapping)
{
        json_open_object(w);
        json_member_text(w, "purpose", mapping->purpose);
        json_member_cstr(w, "kind", message_word(&kind_words, (int)mapping->kind));
        json_member_text(w, "service", mapping->service);
        json_member_text(w, "serviceOwner", mapping->owner);
        json_close_object(w);
}

static void put_consent(struct json_writer *w, const struct directory_consent *consent)
{
        json_open_object(w);
        json_member_text(w, "owner", consent->owner);
        json_member_text(w, "siteId", consent->site_id);
        json_member_bool(w, "paused", consent->paused);
        json_member_bool(w, "revoked", consent->revoked);
        json_key(w, "mappings");
        json_open_array(w);
        for (size_t i = 0; i < consent->n_mappings; i++)
                put_mapping(w, &consent->mappings[i]);
        json_close_array(w);
        if (consent->created_ms > 0)
                json_member_int(w, "createdAt", consent->created_ms);
        json_close_object(w);
}

/* Consents of a projection that comes from a file, in the shape of the tables'. */
static int consents_of_projection(struct control_call *call, struct lessor_slice owner,
                                  struct directory_consent_list *ret_consents)
{
        const struct projection *projection = control_projection(call);
        const struct relay_fixture *fixture;
        size_t n = 0;

        if (projection == NULL)
                return LESSOR_E_CLOSED;
        fixture = projection_fixture(projection);
        ret_consents->items =
                lessor_arena_array(call->arena, fixture->n_consents, sizeof(*ret_consents->items));
        if (ret_consents->items == NULL)
                return LESSOR_E_NOMEM;
        for (size_t i = 0; i < fixture->n_consents; i++) {
                const struct fixture_consent *from = &fixture->consents[i];

                if (owner.p != NULL && !lessor_slice_equal(owner, from->owner))
                        continue;
                ret_consents->items[n++] = (struct directory_consent){
                        .owner = from->owner,
                        .site_id = from->site_id,
                        .paused = from->paused,
                        .revoked = projection_consent(projection, from->owner, from->site_id) ==
                                   PROJECTION_CONSENT_NONE};
        }
        ret_consents->n = n;
        return 0;
}

void control_consent_list(struct control_call *call, const void *body)
{
        struct directory_consent_list consents;
        struct lessor_slice owner;
        struct buf json = {0};
        struct json_writer w;
        int e;

        (void)body;
        if (!control_query(call, "owner", &owner))
                return;
        if (control_has_tables(call))
                e = directory_consents(call->parts->directory, owner, call->arena, &consents);
        else
                e = consents_of_projection(call, owner, &consents);
        if (e == LESSOR_E_CLOSED)
                return;
        if (e < 0) {
                control_refuse_error(call, e, NULL, owner);
                return;
        }
        json_writer_init(&w, &json);
        json_open_object(&w);
        json_key(&w, "consents");
        json_open_array(&w);
        for (size_t i = 0; i < consents.n; i++)
                put_consent(&w, &consents.items[i]);
        json_close_array(&w);
        json_close_object(&w);
        control_answer(call, &json);
}

void control_consent_add(struct control_call *call, const void *body)
{
        const struct consent_body *in = body;
        struct policy_mapping *mappings;

        if (in->n_mappings > 0 && call->parts->policy_file != NULL) {
                control_refuse(call, 409, "comes-from-a-file",
                               "the policy comes from %s: write the mappings there",
                               call->parts->policy_file);
                return;
        }
        mappings = lessor_arena_array(call->arena, in->n_mappings, sizeof(*mappings));
        if (mappings == NULL) {
                control_refuse_error(call, LESSOR_E_NOMEM, NULL, in->site_id);
                return;
        }
        for (size_t i = 0; i < in->n_mappings; i++)
                mappings[i] = in->mappings[i].mapping;
        control_done(call,
                     directory_consent_add(call->parts->directory, in->owner, in->site_id, mappings,
                                           in->n_mappings, call->now_ms),
                     site_words, in->site_id);
}

void control_consent_remove(struct control_call *call, const void *body)
{
        const struct consent_name_body *in = body;

        control_done(call, directory_consent_remove(call->parts->directory, in->owner, in->site_id),
                     consent_words, in->site_id);
}

void control_consent_pause(struct control_call *call, const void *body)
{
        const struct consent_name_body *in = body;

        control_done(call, directory_consent_pause(call->parts->directory, in->owner, in->site_id, true),
                     consent_words, in->site_id);
}

void control_consent_resume(struct control_call *call, const void *body)
{
        const struct consent_name_body *in = body;

        control_done(call, directory_consent_pause(call->parts->directory, in->owner, in->site_id, false),
                     consent_words, in->site_id);
}

void control_consent_revoke(struct control_call *call, const void *body)
{
        const struct consent_name_body *in = body;

        control_done(call,
                     directory_route_revoke(call->parts->directory, in->owner, in->site_id, call->now_ms),
                     site_words, in->site_id);
}

void control_mapping_add(struct control_call *call, const void *body)
{
        const struct mapping_body *in = body;
        int e = directory_mapping_add(call->parts->directory, in->owner, in->site_id, &in->mapping);

        control_done(call, e, e == LESSOR_E_NOT_FOUND ? consent_words : mapping_words, in->site_id);
}

void control_mapping_remove(struct control_call *call, const void *body)
{
        const struct mapping_body *in = body;

        control_done(call,
                     directory_mapping_remove(call->parts->directory, in->owner, in->site_id, &in->mapping),
                     mapping_words, in->site_id);
}
