/* SPDX-License-Identifier: MIT */
#include "plane/control_call.h"

/* Rosters: whose work an owner's devices may do besides the owner's own. */

struct roster_body {
        struct lessor_slice roster_id;
        struct lessor_slice owner;
};

struct roster_name_body {
        struct lessor_slice roster_id;
};

struct member_body {
        struct lessor_slice roster_id;
        struct lessor_slice member;
};

static const struct message_field roster_fields[] = {
        FIELD_TEXT1(struct roster_body, roster_id, "rosterId"),
        FIELD_TEXT1(struct roster_body, owner, "owner"),
};
const struct message_table control_roster_body =
        MESSAGE_TABLE("RosterAdd", struct roster_body, roster_fields);

static const struct message_field roster_name_fields[] = {
        FIELD_TEXT1(struct roster_name_body, roster_id, "rosterId"),
};
const struct message_table control_roster_name_body =
        MESSAGE_TABLE("RosterName", struct roster_name_body, roster_name_fields);

static const struct message_field member_fields[] = {
        FIELD_TEXT1(struct member_body, roster_id, "rosterId"),
        FIELD_TEXT1(struct member_body, member, "member"),
};
const struct message_table control_member_body =
        MESSAGE_TABLE("RosterMember", struct member_body, member_fields);

static const struct control_words words[] = {
        {LESSOR_E_NOT_FOUND, "there is no roster \"{}\"; `lessor roster ls` lists them"},
        {LESSOR_E_EXISTS, "there is a roster \"{}\" already"},
        {0},
};
static const struct control_words member_words[] = {
        {LESSOR_E_NOT_FOUND, "there is no roster \"{}\", or it has no such member"},
        {LESSOR_E_EXISTS, "roster \"{}\" has that member already"},
        {0},
};

static void put_roster(struct json_writer *w, const struct directory_roster *roster)
{
        json_open_object(w);
        json_member_text(w, "rosterId", roster->roster_id);
        json_member_text(w, "owner", roster->owner);
        json_key(w, "members");
        json_open_array(w);
        for (size_t i = 0; i < roster->n_members; i++)
                json_put_text(w, roster->members[i]);
        json_close_array(w);
        if (roster->created_ms > 0)
                json_member_int(w, "createdAt", roster->created_ms);
        json_close_object(w);
}

static int rosters_of_projection(struct control_call *call, struct directory_roster_list *ret_rosters)
{
        const struct projection *projection = control_projection(call);
        const struct relay_fixture *fixture;

        if (projection == NULL)
                return LESSOR_E_CLOSED;
        fixture = projection_fixture(projection);
        ret_rosters->n = fixture->n_rosters;
        ret_rosters->items = lessor_arena_array(call->arena, fixture->n_rosters, sizeof(*ret_rosters->items));
        if (ret_rosters->items == NULL)
                return LESSOR_E_NOMEM;
        for (size_t i = 0; i < fixture->n_rosters; i++) {
                const struct fixture_roster *from = &fixture->rosters[i];

                ret_rosters->items[i] = (struct directory_roster){.roster_id = from->id,
                                                                  .owner = from->owner,
                                                                  .members = from->members,
                                                                  .n_members = from->n_members};
        }
        return 0;
}

void control_roster_list(struct control_call *call, const void *body)
{
        struct directory_roster_list rosters;
        struct buf json = {0};
        struct json_writer w;
        int e;

        (void)body;
        if (control_has_tables(call))
                e = directory_rosters(call->parts->directory, call->arena, &rosters);
        else
                e = rosters_of_projection(call, &rosters);
        if (e == LESSOR_E_CLOSED)
                return;
        if (e < 0) {
                control_refuse_error(call, e, NULL, (struct lessor_slice){0});
                return;
        }
        json_writer_init(&w, &json);
        json_open_object(&w);
        json_key(&w, "rosters");
        json_open_array(&w);
        for (size_t i = 0; i < rosters.n; i++)
                put_roster(&w, &rosters.items[i]);
        json_close_array(&w);
        json_close_object(&w);
        control_answer(call, &json);
}

void control_roster_add(struct control_call *call, const void *body)
{
        const struct roster_body *in = body;

        control_done(call,
                     directory_roster_add(call->parts->directory, in->roster_id, in->owner, call->now_ms),
                     words, in->roster_id);
}

void control_roster_remove(struct control_call *call, const void *body)
{
        const struct roster_name_body *in = body;

        control_done(call, directory_roster_remove(call->parts->directory, in->roster_id), words,
                     in->roster_id);
}

void control_member_add(struct control_call *call, const void *body)
{
        const struct member_body *in = body;
        int e = directory_member_add(call->parts->directory, in->roster_id, in->member);

        control_done(call, e, e == LESSOR_E_NOT_FOUND ? words : member_words, in->roster_id);
}

void control_member_remove(struct control_call *call, const void *body)
{
        const struct member_body *in = body;

        control_done(call, directory_member_remove(call->parts->directory, in->roster_id, in->member),
                     member_words, in->roster_id);
}
