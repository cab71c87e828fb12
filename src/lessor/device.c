/* SPDX-License-Identifier: MIT */
#include <string.h>

#include "base/macro.h"
#include "lessor/commands.h"
#include "lessor/control_client.h"
#include "lessor/input.h"
#include "lessor/kind.h"
#include "lessor/list.h"

/* Devices as the server has them: approving, listing, revoking. */

#define SEEN_LATELY_MS 90000 /* three heartbeats of a device that is there */

/* "llama (chat, generate), echo (chat)". */
static void append_services(struct buf *out, const struct json *capabilities)
{
        const char *before = "";

        json_each (one, capabilities) {
                const char *service = control_text(one, "service");
                const char *kind = kind_short(control_text(one, "kind"));

                if (strcmp(service, before) == 0) {
                        buf_printf(out, ", %s", kind);
                        continue;
                }
                buf_printf(out, "%s%s (%s", one == json_first(capabilities) ? "" : "), ", service, kind);
                before = service;
        }
        if (out->n > 0)
                buf_char(out, ')');
}

static void put_device(struct output_table *t, const struct json *device, int64_t now_ms)
{
        int64_t seen_ms = control_int(device, "lastSeenAt");
        struct buf cell = {0};

        output_cell(t, control_slice(device, "runnerId"), COLOUR_NONE);
        output_cell(t, control_slice(device, "owner"), COLOUR_NONE);
        list_text(t, device, "label");
        list_text(t, device, "platform");
        if (control_true(device, "revoked"))
                output_cell(t, LESSOR_SLICE("revoked"), COLOUR_RED);
        else if (seen_ms == 0)
                output_cell(t, LESSOR_SLICE("never seen"), COLOUR_DIM);
        else
                list_when(t, seen_ms, now_ms,
                          now_ms - seen_ms < SEEN_LATELY_MS ? COLOUR_GREEN : COLOUR_YELLOW);
        append_services(&cell, json_member_named(device, "capabilities"));
        output_cell(t, cell.n == 0 ? LESSOR_SLICE("-") : buf_view(&cell), COLOUR_NONE);
        buf_done(&cell);
        output_cell(t, control_slice(device, "keyId"), COLOUR_NONE);
}

static void put_pairing(struct output_table *t, const struct json *pairing, int64_t now_ms)
{
        output_cell(t, control_slice(pairing, "userCode"), COLOUR_BOLD);
        list_text(t, pairing, "label");
        list_text(t, pairing, "platform");
        list_text(t, pairing, "version");
        list_when(t, control_int(pairing, "expiresAt"), now_ms, COLOUR_DIM);
        output_cell(t, control_slice(pairing, "keyId"), COLOUR_NONE);
}

static int list_pairings(struct cli *cli)
{
        static const char *const titles[] = {"CODE", "LABEL", "PLATFORM", "VERSION", "EXPIRES", "KEY"};
        const struct list list = {.path = "/pairings",
                                  .member = "pairings",
                                  .titles = titles,
                                  .n_titles = 6,
                                  .none = "no device waits to be approved",
                                  .row = put_pairing};

        return list_show(cli, &list);
}

int run_device_ls(struct cli *cli)
{
        static const char *const titles[] = {"DEVICE", "OWNER",    "LABEL", "PLATFORM",
                                             "SEEN",   "SERVICES", "KEY"};
        _cleanup_(buf_done) struct buf path = {0};
        struct list list = {.member = "devices",
                            .titles = titles,
                            .n_titles = 7,
                            .none = "no devices yet; `lessor device pair` asks for one to be approved",
                            .row = put_device};

        if (cli_switch(cli, "pending"))
                return list_pairings(cli);
        buf_text(&path, "/devices");
        control_query(&path, "owner", cli_option(cli, "owner"));
        if (buf_failed(&path) < 0)
                return cli_fail_nomem(cli);
        list.path = path.p;
        return list_show(cli, &list);
}

/*
 * On a terminal a person compares the key with the one that the device shows: a code may have been read off
 * somebody else's screen. Returns an enum cli_exit; `ret_key_id` is what was agreed to.
 */
static int confirm(struct cli *cli, const char *code, const char *owner, const char **ret_key_id)
{
        _cleanup_(buf_done) struct buf path = {0}, question = {0}, shown = {0};
        struct control_answer answer;
        const struct json *pairing;
        int e;

        buf_text(&path, "/pairings");
        control_query(&path, "userCode", code);
        if (buf_failed(&path) < 0)
                return cli_fail_nomem(cli);
        e = control_get(cli, path.p, &answer);
        if (e != CLI_EXIT_OK)
                return e;
        pairing = json_first(json_member_named(answer.root, "pairings"));
        buf_printf(&question, "device \"%s\" (%s) with key %s, for %s: approve it?",
                   control_text(pairing, "label"), control_text(pairing, "platform"),
                   control_text(pairing, "keyId"), owner);
        if (output_safe(&shown, buf_view(&question)) < 0)
                return cli_fail_nomem(cli);
        if (!input_confirm(shown.p))
                return cli_fail(cli, CLI_EXIT_REFUSED, "not approved");
        *ret_key_id = control_text(pairing, "keyId");
        return CLI_EXIT_OK;
}

int run_device_approve(struct cli *cli)
{
        const char *code = cli->args[0], *owner = cli_option(cli, "owner"), *key_id = cli_option(cli, "key");
        struct control_answer answer;
        const struct json *device;
        int e = CLI_EXIT_OK;

        if (owner == NULL)
                return cli_misuse(cli, "give --owner USER: whose device it is");
        if (key_id == NULL && !cli_switch(cli, "yes") && input_is_terminal())
                e = confirm(cli, code, owner, &key_id);
        if (e == CLI_EXIT_OK)
                e = control_post_texts(cli, "/devices/approve", &answer, "userCode", code, "owner", owner,
                                       "keyId", key_id, NULL);
        if (e != CLI_EXIT_OK)
                return e;
        device = json_member_named(answer.root, "device");
        return control_report(cli, &answer, "device %s of %s is approved, with key %s",
                              control_text(device, "runnerId"), owner, control_text(device, "keyId"));
}

static int change(struct cli *cli, const char *path, const char *done)
{
        struct control_answer answer;
        int code = control_post_texts(cli, path, &answer, "runnerId", cli->args[0], NULL);

        if (code != CLI_EXIT_OK)
                return code;
        return control_report(cli, &answer, "device %s is %s", cli->args[0], done);
}

int run_device_revoke(struct cli *cli)
{
        return change(cli, "/devices/revoke", "revoked: its next request is refused, for good");
}

int run_device_rm(struct cli *cli)
{
        return change(cli, "/devices/remove", "gone");
}
