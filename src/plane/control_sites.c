/* SPDX-License-Identifier: MIT */
#include "base/limits.h"
#include "crypto/succession.h"
#include "plane/control_call.h"
#include "wire/relay_shapes.h"

/* Sites: who may publish work. */

struct site_body {
        struct lessor_slice site_id;
        struct lessor_public_identity site;
        struct lessor_slice *purposes;
        size_t n_purposes;
};

struct site_name_body {
        struct lessor_slice site_id;
};

struct site_rotate_body {
        struct lessor_slice site_id;
        struct lessor_public_identity site;
        struct lessor_slice signature;
        int64_t retire_after_ms;
};

struct site_declare_body {
        struct lessor_slice site_id;
        struct lessor_slice *purposes;
        size_t n_purposes;
};

static const struct message_field site_fields[] = {
        FIELD_TEXT1(struct site_body, site_id, "siteId"),
        FIELD_OBJECT(struct site_body, site, "site", &public_identity_table),
        FIELD_TEXTS(struct site_body, purposes, n_purposes, "purposes", 0, INT64_MAX,
                    .flags = MESSAGE_OPTIONAL),
};
const struct message_table control_site_body = MESSAGE_TABLE("SiteAdd", struct site_body, site_fields);

static const struct message_field site_name_fields[] = {
        FIELD_TEXT1(struct site_name_body, site_id, "siteId"),
};
const struct message_table control_site_name_body =
        MESSAGE_TABLE("SiteName", struct site_name_body, site_name_fields);

/* The link's signature is by the key that retires, which never comes here. */
static const struct message_field site_rotate_fields[] = {
        FIELD_TEXT1(struct site_rotate_body, site_id, "siteId"),
        FIELD_OBJECT(struct site_rotate_body, site, "site", &public_identity_table),
        FIELD_TEXT1(struct site_rotate_body, signature, "signature"),
        FIELD_INT(struct site_rotate_body, retire_after_ms, "retireAfterMs", 0, SUCCESSION_RETIREMENT_MS),
};
const struct message_table control_site_rotate_body =
        MESSAGE_TABLE("SiteRotate", struct site_rotate_body, site_rotate_fields);

static const struct message_field site_declare_fields[] = {
        FIELD_TEXT1(struct site_declare_body, site_id, "siteId"),
        FIELD_TEXTS(struct site_declare_body, purposes, n_purposes, "purposes", 0, INT64_MAX),
};
const struct message_table control_site_declare_body =
        MESSAGE_TABLE("SiteDeclare", struct site_declare_body, site_declare_fields);

static const struct control_words words[] = {
        {LESSOR_E_NOT_FOUND, "there is no site \"{}\"; `lessor site ls` lists them"},
        {LESSOR_E_EXISTS, "a site \"{}\" is registered already, or a site has this key"},
        {LESSOR_E_BAD_SIGNATURE, "the keys of site \"{}\" do not belong together"},
        {LESSOR_E_BROKEN_LINK, "the key that site \"{}\" has now did not sign this succession"},
        {LESSOR_E_INVALID, "an id or a purpose is empty or has control characters"},
        {LESSOR_E_TOO_LARGE, "an id or a purpose is longer than 256 bytes"},
        {0},
};

static void put_texts(struct json_writer *w, const char *key, const struct lessor_slice *texts, size_t n)
{
        json_key(w, key);
        json_open_array(w);
        for (size_t i = 0; i < n; i++)
                json_put_text(w, texts[i]);
        json_close_array(w);
}

static void put_site(struct json_writer *w, const struct directory_site *site)
{
        json_open_object(w);
        json_member_text(w, "siteId", site->site_id);
        json_member_text(w, "keyId", site->key_id);
        json_key(w, "site");
        message_write(&public_identity_table, &site->site, w);
        json_member_int(w, "retiredKeys", (int64_t)site->n_succeeds);
        if (site->retiring_until_ms > 0)
                json_member_int(w, "retiringUntil", site->retiring_until_ms);
        if (site->declares)
                put_texts(w, "purposes", site->purposes, site->n_purposes);
        if (site->created_ms > 0)
                json_member_int(w, "createdAt", site->created_ms);
        json_close_object(w);
}

/* Sites of a projection that comes from a file, in the shape of the tables'. */
static int sites_of_projection(struct control_call *call, struct directory_site_list *ret_sites)
{
        const struct projection *projection = control_projection(call);
        const struct relay_fixture *fixture;

        if (projection == NULL)
                return LESSOR_E_CLOSED;
        fixture = projection_fixture(projection);
        ret_sites->n = fixture->n_sites;
        ret_sites->items = lessor_arena_array(call->arena, fixture->n_sites, sizeof(*ret_sites->items));
        if (ret_sites->items == NULL)
                return LESSOR_E_NOMEM;
        for (size_t i = 0; i < fixture->n_sites; i++) {
                const struct fixture_site *from = &fixture->sites[i];

                ret_sites->items[i] =
                        (struct directory_site){.site_id = from->site_id,
                                                .site = from->site,
                                                .key_id = control_key_id(call, from->site.identity),
                                                .n_succeeds = from->n_succeeds,
                                                .retiring_until_ms = from->retiring_until_ms};
        }
        return 0;
}

void control_site_list(struct control_call *call, const void *body)
{
        struct directory_site_list sites;
        struct buf json = {0};
        struct json_writer w;
        int e;

        (void)body;
        if (control_has_tables(call))
                e = directory_sites(call->parts->directory, call->arena, &sites);
        else
                e = sites_of_projection(call, &sites);
        if (e == LESSOR_E_CLOSED)
                return;
        if (e < 0) {
                control_refuse_error(call, e, NULL, (struct lessor_slice){0});
                return;
        }
        json_writer_init(&w, &json);
        json_open_object(&w);
        json_key(&w, "sites");
        json_open_array(&w);
        for (size_t i = 0; i < sites.n; i++)
                put_site(&w, &sites.items[i]);
        json_close_array(&w);
        json_close_object(&w);
        control_answer(call, &json);
}

static void answer_key(struct control_call *call, struct lessor_slice site_id,
                       const struct lessor_public_identity *site, int64_t retiring_until_ms)
{
        struct buf json = {0};
        struct json_writer w;

        json_writer_init(&w, &json);
        json_open_object(&w);
        json_member_bool(&w, "ok", true);
        json_member_text(&w, "siteId", site_id);
        json_member_text(&w, "keyId", control_key_id(call, site->identity));
        if (retiring_until_ms > 0)
                json_member_int(&w, "retiringUntil", retiring_until_ms);
        json_close_object(&w);
        control_answer(call, &json);
}

void control_site_add(struct control_call *call, const void *body)
{
        const struct site_body *in = body;
        int e = directory_site_add(call->parts->directory, in->site_id, &in->site, call->now_ms);

        if (e == 0 && in->purposes != NULL)
                e = directory_site_declare(call->parts->directory, in->site_id, in->purposes, in->n_purposes);
        if (e < 0)
                control_refuse_error(call, e, words, in->site_id);
        else
                answer_key(call, in->site_id, &in->site, 0);
}

void control_site_remove(struct control_call *call, const void *body)
{
        const struct site_name_body *in = body;

        control_done(call, directory_site_remove(call->parts->directory, in->site_id), words, in->site_id);
}

void control_site_rotate(struct control_call *call, const void *body)
{
        const struct site_rotate_body *in = body;
        int64_t until_ms = in->retire_after_ms > 0 ? call->now_ms + in->retire_after_ms : 0;
        int e = directory_site_rotate(call->parts->directory, in->site_id, &in->site, in->signature,
                                      until_ms);

        if (e == LESSOR_E_EXISTS)
                control_refuse(call, 409, "exists", "a site has this key already, now or retired");
        else if (e < 0)
                control_refuse_error(call, e, words, in->site_id);
        else
                answer_key(call, in->site_id, &in->site, until_ms);
}

void control_site_declare(struct control_call *call, const void *body)
{
        const struct site_declare_body *in = body;

        control_done(
                call,
                directory_site_declare(call->parts->directory, in->site_id, in->purposes, in->n_purposes),
                words, in->site_id);
}

void control_site_undeclare(struct control_call *call, const void *body)
{
        const struct site_name_body *in = body;

        control_done(call, directory_site_undeclare(call->parts->directory, in->site_id), words, in->site_id);
}
