/* SPDX-License-Identifier: MIT */
#include "base/clock.h"
#include "base/macro.h"
#include "crypto/succession.h"
#include "lessor/args.h"
#include "lessor/commands.h"
#include "lessor/control_client.h"
#include "lessor/identity.h"
#include "lessor/input.h"
#include "lessor/list.h"

/* Sites: who may publish work. */

static void put_purposes(struct json_writer *w, const char *const *purposes, size_t n)
{
        json_key(w, "purposes");
        json_open_array(w);
        for (size_t i = 0; i < n; i++)
                json_put_cstr(w, purposes[i]);
        json_close_array(w);
}

int run_site_add(struct cli *cli)
{
        _cleanup_(buf_done) struct buf body = {0};
        struct control_answer answer;
        struct lessor_public_identity identity;
        struct lessor_slice key_id;
        struct json_writer w;
        int code = identity_read(cli, cli_option(cli, "keys"), cli_option(cli, "public"), &identity, &key_id);

        if (code != CLI_EXIT_OK)
                return code;
        json_writer_init(&w, &body);
        json_open_object(&w);
        json_member_cstr(&w, "siteId", cli->args[0]);
        json_key(&w, "site");
        identity_write(&identity, &w);
        if (cli->n_args > 1)
                put_purposes(&w, cli->args + 1, cli->n_args - 1);
        json_close_object(&w);
        code = control_post(cli, "/sites/add", &body, &answer);
        if (code != CLI_EXIT_OK)
                return code;
        return control_report(cli, &answer, "site %s is registered with key %.*s", cli->args[0],
                              (int)key_id.n, key_id.p);
}

static void put_row(struct output_table *t, const struct json *site, int64_t now_ms)
{
        const struct json *purposes = json_member_named(site, "purposes");
        _cleanup_(buf_done) struct buf cell = {0};

        output_cell(t, control_slice(site, "siteId"), COLOUR_NONE);
        output_cell(t, control_slice(site, "keyId"), COLOUR_NONE);
        if (purposes == NULL)
                buf_char(&cell, '-');
        json_each (purpose, purposes)
                buf_printf(&cell, "%s%s", purpose == json_first(purposes) ? "" : ", ",
                           control_value(purpose));
        output_cell(t, buf_view(&cell), COLOUR_NONE);
        buf_clear(&cell);
        if (control_int(site, "retiringUntil") > now_ms) {
                buf_text(&cell, "ends ");
                output_when(&cell, control_int(site, "retiringUntil"), now_ms);
        } else {
                buf_char(&cell, '-');
        }
        output_cell(t, buf_view(&cell), COLOUR_YELLOW);
        list_when(t, control_int(site, "createdAt"), now_ms, COLOUR_DIM);
}

int run_site_ls(struct cli *cli)
{
        static const char *const titles[] = {"SITE", "KEY", "PURPOSES", "OLD KEY", "REGISTERED"};
        const struct list list = {.path = "/sites",
                                  .member = "sites",
                                  .titles = titles,
                                  .n_titles = 5,
                                  .none = "no sites yet; `lessor site add` registers one",
                                  .row = put_row};

        return list_show(cli, &list);
}

int run_site_rm(struct cli *cli)
{
        struct control_answer answer;
        int code = control_post_texts(cli, "/sites/remove", &answer, "siteId", cli->args[0], NULL);

        if (code != CLI_EXIT_OK)
                return code;
        return control_report(cli, &answer, "site %s is gone, with its consents", cli->args[0]);
}

/*
 * The key that retires signs for the one that follows, here: the server sees the signature and never a
 * private key.
 */
int run_site_rotate(struct cli *cli)
{
        _cleanup_(signing_key_freep) struct signing_key *old = NULL, *next = NULL;
        _cleanup_(buf_done) struct buf body = {0};
        const char *retire = cli_option(cli, "retire-after");
        struct lessor_succession_link link;
        struct control_answer answer;
        struct lessor_slice key_id;
        struct json_writer w;
        int64_t retire_ms;
        int code;

        if (cli_option(cli, "keys") == NULL || cli_option(cli, "new-keys") == NULL)
                return cli_misuse(cli, "give --keys OLD and --new-keys NEW");
        if (args_duration(retire == NULL ? "7d" : retire, &retire_ms) < 0 ||
            retire_ms > SUCCESSION_RETIREMENT_MS)
                return cli_misuse(cli, "--retire-after: \"%s\" is no time of at most 7d, such as 12h",
                                  retire);
        code = identity_load_keys(cli, cli_option(cli, "keys"), &old);
        if (code == CLI_EXIT_OK)
                code = identity_load_keys(cli, cli_option(cli, "new-keys"), &next);
        if (code != CLI_EXIT_OK)
                return code;
        key_id = signing_key_id(next);
        if (succession_link_sign(old, key_id, cli->arena, &link) < 0)
                return cli_fail_nomem(cli);
        json_writer_init(&w, &body);
        json_open_object(&w);
        json_member_cstr(&w, "siteId", cli->args[0]);
        json_key(&w, "site");
        identity_write(signing_key_identity(next), &w);
        json_member_text(&w, "signature", link.signature);
        json_member_int(&w, "retireAfterMs", retire_ms);
        json_close_object(&w);
        code = control_post(cli, "/sites/rotate", &body, &answer);
        if (code != CLI_EXIT_OK)
                return code;
        return control_report(cli, &answer, "site %s now has key %.*s; the old one is taken for another %s",
                              cli->args[0], (int)key_id.n, key_id.p, retire == NULL ? "7d" : retire);
}

int run_site_declare(struct cli *cli)
{
        _cleanup_(buf_done) struct buf body = {0};
        struct control_answer answer;
        struct json_writer w;
        int code;

        if (cli_switch(cli, "clear")) {
                if (cli->n_args > 1)
                        return cli_misuse(cli, "give either purposes or --clear");
                code = control_post_texts(cli, "/sites/undeclare", &answer, "siteId", cli->args[0], NULL);
                if (code != CLI_EXIT_OK)
                        return code;
                return control_report(cli, &answer, "site %s declares nothing any more: any purpose is taken",
                                      cli->args[0]);
        }
        if (cli->n_args < 2)
                return cli_misuse(cli, "name the purposes, or --clear");
        json_writer_init(&w, &body);
        json_open_object(&w);
        json_member_cstr(&w, "siteId", cli->args[0]);
        put_purposes(&w, cli->args + 1, cli->n_args - 1);
        json_close_object(&w);
        code = control_post(cli, "/sites/declare", &body, &answer);
        if (code != CLI_EXIT_OK)
                return code;
        return control_report(cli, &answer, "site %s declares %zu purpose%s", cli->args[0], cli->n_args - 1,
                              cli->n_args == 2 ? "" : "s");
}
