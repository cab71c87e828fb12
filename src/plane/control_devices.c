/* SPDX-License-Identifier: MIT */
#include "plane/control_call.h"
#include "wire/relay_shapes.h"

/* Devices, and the pairings that are on their way to become one. */

struct approve_body {
        struct lessor_slice user_code;
        struct lessor_slice owner;
        struct lessor_slice key_id; /* absent: the caller has not compared it */
};

struct device_body {
        struct lessor_slice runner_id;
};

static const struct message_field approve_fields[] = {
        FIELD_TEXT1(struct approve_body, user_code, "userCode"),
        FIELD_TEXT1(struct approve_body, owner, "owner"),
        FIELD_TEXT1(struct approve_body, key_id, "keyId", .flags = MESSAGE_OPTIONAL),
};
const struct message_table control_approve_body =
        MESSAGE_TABLE("DeviceApprove", struct approve_body, approve_fields);

static const struct message_field device_fields[] = {
        FIELD_TEXT1(struct device_body, runner_id, "runnerId"),
};
const struct message_table control_device_body =
        MESSAGE_TABLE("DeviceName", struct device_body, device_fields);

static const struct control_words code_words[] = {
        {LESSOR_E_NOT_FOUND, "no device waits with code {}: it was approved already, is older than ten "
                             "minutes, or never was; `lessor device ls --pending` lists them"},
        {LESSOR_E_INVALID, "\"{}\" is no code: they look like ABCD-1234"},
        {LESSOR_E_EXISTS,
         "the device with code {} belongs to another owner, or is revoked: `lessor device rm` forgets it"},
        {LESSOR_E_BAD_SIGNATURE, "the keys of the device with code {} do not belong together"},
        {0},
};
static const struct control_words device_words[] = {
        {LESSOR_E_NOT_FOUND, "there is no device \"{}\"; `lessor device ls` lists them"},
        {0},
};

/* The members of a device inside an open object. */
static void put_device(struct json_writer *w, const struct directory_device *device)
{
        json_member_text(w, "runnerId", device->runner_id);
        json_member_text(w, "owner", device->owner);
        json_member_text(w, "keyId", device->key_id);
        json_member_text(w, "label", device->label);
        json_member_text(w, "platform", device->platform);
        json_member_bool(w, "revoked", device->revoked);
        if (device->created_ms > 0)
                json_member_int(w, "createdAt", device->created_ms);
}

static int devices_of_projection(struct control_call *call, struct directory_device_list *ret_devices)
{
        const struct projection *projection = control_projection(call);
        const struct relay_fixture *fixture;

        if (projection == NULL)
                return LESSOR_E_CLOSED;
        fixture = projection_fixture(projection);
        ret_devices->n = fixture->n_devices;
        ret_devices->items = lessor_arena_array(call->arena, fixture->n_devices, sizeof(*ret_devices->items));
        if (ret_devices->items == NULL)
                return LESSOR_E_NOMEM;
        for (size_t i = 0; i < fixture->n_devices; i++) {
                const struct fixture_device *from = &fixture->devices[i];

                ret_devices->items[i] =
                        (struct directory_device){.runner_id = from->runner_id,
                                                  .owner = from->owner,
                                                  .device = from->device,
                                                  .key_id = control_key_id(call, from->device.identity),
                                                  .label = LESSOR_SLICE(""),
                                                  .platform = LESSOR_SLICE(""),
                                                  .revoked = from->revoked};
        }
        return 0;
}

/* When the device was here last and what it serves, which the routing store knows. */
static int put_presence(struct control_call *call, struct json_writer *w, struct lessor_slice runner_id)
{
        struct lessor_presence presence;
        struct lessor_ticket ticket = {0};
        int e = lessor_routing_presence(call->parts->store, runner_id, call->arena, &presence, &ticket);

        if (e == LESSOR_E_NOT_FOUND)
                return 0;
        if (e < 0)
                return e;
        if (ticket.seq > call->ticket.seq)
                call->ticket = ticket;
        json_member_int(w, "lastSeenAt", presence.last_seen_ms);
        json_member_raw(w, "capabilities", presence.capabilities);
        return 0;
}

void control_device_list(struct control_call *call, const void *body)
{
        struct directory_device_list devices;
        struct lessor_slice owner;
        struct buf json = {0};
        struct json_writer w;
        int e;

        (void)body;
        if (!control_query(call, "owner", &owner))
                return;
        if (control_has_tables(call))
                e = directory_devices(call->parts->directory, call->arena, &devices);
        else
                e = devices_of_projection(call, &devices);
        if (e == LESSOR_E_CLOSED)
                return;
        json_writer_init(&w, &json);
        json_open_object(&w);
        json_key(&w, "devices");
        json_open_array(&w);
        for (size_t i = 0; e == 0 && i < devices.n; i++) {
                const struct directory_device *device = &devices.items[i];

                if (owner.p != NULL && !lessor_slice_equal(owner, device->owner))
                        continue;
                json_open_object(&w);
                put_device(&w, device);
                e = put_presence(call, &w, device->runner_id);
                json_close_object(&w);
        }
        json_close_array(&w);
        json_close_object(&w);
        if (e < 0) {
                buf_done(&json);
                control_refuse_error(call, e, NULL, owner);
                return;
        }
        control_answer(call, &json);
}

static void put_pairing(struct control_call *call, struct json_writer *w, const struct pairing *pairing)
{
        json_open_object(w);
        json_member_text(w, "userCode", pairing->user_code);
        json_member_text(w, "keyId", control_key_id(call, pairing->request.device.identity));
        json_member_text(w, "label", pairing->request.label);
        json_member_text(w, "platform", pairing->request.platform);
        json_member_text(w, "version", pairing->request.version);
        json_member_raw(w, "capabilities", pairing->request.capabilities);
        json_member_int(w, "startedAt", pairing->started_ms);
        json_member_int(w, "expiresAt", pairing->expires_ms);
        json_close_object(w);
}

void control_pairing_list(struct control_call *call, const void *body)
{
        struct pairing_list list = {0};
        struct lessor_slice code;
        struct pairing one;
        struct buf json = {0};
        struct json_writer w;
        int64_t now_ms;
        int e;

        (void)body;
        if (!control_query(call, "userCode", &code))
                return;
        e = lessor_routing_now(call->parts->store, &now_ms);
        if (e == 0 && code.p != NULL) {
                e = pairing_find(call->parts->pairings, code, now_ms, call->arena, &one);
                list = (struct pairing_list){&one, 1};
        } else if (e == 0) {
                e = pairing_list(call->parts->pairings, now_ms, call->arena, &list);
        }
        if (e < 0) {
                control_refuse_error(call, e, code_words, code);
                return;
        }
        json_writer_init(&w, &json);
        json_open_object(&w);
        json_key(&w, "pairings");
        json_open_array(&w);
        for (size_t i = 0; i < list.n; i++)
                put_pairing(call, &w, &list.items[i]);
        json_close_array(&w);
        json_close_object(&w);
        control_answer(call, &json);
}

/* The code is what a person read off a screen; a key id that goes with it was compared by that person. */
void control_device_approve(struct control_call *call, const void *body)
{
        const struct approve_body *in = body;
        struct directory_device device = {0};
        struct pairing pairing;
        struct buf json = {0};
        struct json_writer w;
        int e;

        e = pairing_find(call->parts->pairings, in->user_code, call->now_ms, call->arena, &pairing);
        if (e == 0 && in->key_id.p != NULL &&
            !lessor_slice_equal(in->key_id, control_key_id(call, pairing.request.device.identity))) {
                control_refuse(call, 409, "other-key",
                               "the device that shows this code has another key than the one you name: do "
                               "not approve it");
                return;
        }
        if (e == 0)
                e = pairing_approve(call->parts->pairings, call->parts->directory, in->user_code, in->owner,
                                    call->now_ms, call->arena, &device);
        if (e < 0) {
                control_refuse_error(call, e, code_words, in->user_code);
                return;
        }
        json_writer_init(&w, &json);
        json_open_object(&w);
        json_member_bool(&w, "ok", true);
        json_key(&w, "device");
        json_open_object(&w);
        put_device(&w, &device);
        json_close_object(&w);
        json_close_object(&w);
        control_answer(call, &json);
}

void control_device_revoke(struct control_call *call, const void *body)
{
        const struct device_body *in = body;

        control_done(call, directory_device_revoke(call->parts->directory, in->runner_id), device_words,
                     in->runner_id);
}

void control_device_remove(struct control_call *call, const void *body)
{
        const struct device_body *in = body;

        control_done(call, directory_device_remove(call->parts->directory, in->runner_id), device_words,
                     in->runner_id);
}
