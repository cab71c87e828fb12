/* SPDX-License-Identifier: MIT */
#include <string.h>

#include "base/macro.h"
#include "lessor/commands.h"
#include "lessor/control_client.h"
#include "lessor/kind.h"
#include "lessor/list.h"

/* Consents: whose work a site may publish, and what answers it. */

/* The members of one mapping. `service` is never NULL here. */
static void put_mapping(struct json_writer *w, const struct cli *cli, enum lessor_kind kind)
{
        json_member_cstr(w, "purpose", cli_option(cli, "purpose"));
        json_member_cstr(w, "kind", kind_name(kind));
        json_member_cstr(w, "service", cli_option(cli, "service"));
        json_member_cstr(w, "serviceOwner", cli_option(cli, "service-owner"));
}

/* The kinds that a mapping is for: the one of --kind, or all. Returns an enum cli_exit. */
static int read_kinds(struct cli *cli, unsigned *ret_kinds)
{
        const char *text = cli_option(cli, "kind");
        enum lessor_kind kind;

        *ret_kinds = (1u << LESSOR_N_KINDS) - 1;
        if (text == NULL)
                return CLI_EXIT_OK;
        if (kind_read(text, &kind) < 0)
                return cli_misuse(cli, "--kind: \"%s\" is neither chat nor generate", text);
        *ret_kinds = LESSOR_KIND_BIT(kind);
        return CLI_EXIT_OK;
}

int run_consent_add(struct cli *cli)
{
        _cleanup_(buf_done) struct buf body = {0};
        const char *service = cli_option(cli, "service");
        struct control_answer answer;
        struct json_writer w;
        unsigned kinds;
        int code = read_kinds(cli, &kinds);

        if (code != CLI_EXIT_OK)
                return code;
        if (service == NULL && (cli_option(cli, "kind") != NULL || cli_option(cli, "purpose") != NULL ||
                                cli_option(cli, "service-owner") != NULL))
                return cli_misuse(cli, "--kind, --purpose and --service-owner go with --service");
        json_writer_init(&w, &body);
        json_open_object(&w);
        json_member_cstr(&w, "owner", cli->args[0]);
        json_member_cstr(&w, "siteId", cli->args[1]);
        json_key(&w, "mappings");
        json_open_array(&w);
        for (int kind = 0; service != NULL && kind < LESSOR_N_KINDS; kind++) {
                if ((kinds & LESSOR_KIND_BIT(kind)) == 0)
                        continue;
                json_open_object(&w);
                put_mapping(&w, cli, (enum lessor_kind)kind);
                json_close_object(&w);
        }
        json_close_array(&w);
        json_close_object(&w);
        code = control_post(cli, "/consents/add", &body, &answer);
        if (code != CLI_EXIT_OK)
                return code;
        if (service == NULL)
                return control_report(cli, &answer, "%s lets site %s route work", cli->args[0], cli->args[1]);
        return control_report(cli, &answer, "%s lets site %s route work; %s answers it", cli->args[0],
                              cli->args[1], service);
}

static void put_row(struct output_table *t, const struct json *consent, int64_t now_ms)
{
        bool revoked = control_true(consent, "revoked"), paused = control_true(consent, "paused");
        const struct json *mappings = json_member_named(consent, "mappings");
        struct buf cell = {0};

        output_cell(t, control_slice(consent, "owner"), COLOUR_NONE);
        output_cell(t, control_slice(consent, "siteId"), COLOUR_NONE);
        if (revoked)
                output_cell(t, LESSOR_SLICE("revoked"), COLOUR_RED);
        else if (paused)
                output_cell(t, LESSOR_SLICE("paused"), COLOUR_YELLOW);
        else
                output_cell(t, LESSOR_SLICE("live"), COLOUR_GREEN);
        json_each (mapping, mappings) {
                const char *owner = control_text(mapping, "serviceOwner");

                buf_printf(&cell, "%s%s/%s -> %s%s%s", mapping == json_first(mappings) ? "" : ", ",
                           control_text(mapping, "purpose"), kind_short(control_text(mapping, "kind")),
                           control_text(mapping, "service"), owner[0] == '\0' ? "" : " of ", owner);
        }
        output_cell(t, cell.n == 0 ? LESSOR_SLICE("-") : buf_view(&cell), COLOUR_NONE);
        buf_done(&cell);
        list_when(t, control_int(consent, "createdAt"), now_ms, COLOUR_DIM);
}

int run_consent_ls(struct cli *cli)
{
        static const char *const titles[] = {"OWNER", "SITE", "STATE", "MAPPINGS", "GIVEN"};
        _cleanup_(buf_done) struct buf path = {0};
        struct list list = {.member = "consents",
                            .titles = titles,
                            .n_titles = 5,
                            .none = cli_option(cli, "owner") == NULL
                                            ? "no consents yet; `lessor consent add` gives one"
                                            : "no consents of this owner",
                            .row = put_row};

        buf_text(&path, "/consents");
        control_query(&path, "owner", cli_option(cli, "owner"));
        if (buf_failed(&path) < 0)
                return cli_fail_nomem(cli);
        list.path = path.p;
        return list_show(cli, &list);
}

static int change(struct cli *cli, const char *path, const char *done)
{
        struct control_answer answer;
        int code =
                control_post_texts(cli, path, &answer, "owner", cli->args[0], "siteId", cli->args[1], NULL);

        if (code != CLI_EXIT_OK)
                return code;
        return control_report(cli, &answer, "the consent of %s for site %s is %s", cli->args[0], cli->args[1],
                              done);
}

int run_consent_pause(struct cli *cli)
{
        return change(cli, "/consents/pause", "paused: its work waits");
}

int run_consent_resume(struct cli *cli)
{
        return change(cli, "/consents/resume", "live again");
}

int run_consent_revoke(struct cli *cli)
{
        return change(cli, "/consents/revoke", "revoked");
}

int run_consent_rm(struct cli *cli)
{
        return change(cli, "/consents/remove", "gone, with its mappings");
}

/*
 * One request a kind: the mapping of each is an edit of its own. Of both kinds one may be as it shall be
 * already, which the server answers with `idle`; that both are is said.
 */
static int edit_mappings(struct cli *cli, const char *path, long idle, const char *done)
{
        struct control_answer answer = {0}, last;
        unsigned kinds;
        int code = read_kinds(cli, &kinds);

        if (code == CLI_EXIT_OK && cli_option(cli, "service") == NULL)
                return cli_misuse(cli, "give --service NAME");
        for (int kind = 0; code == CLI_EXIT_OK && kind < LESSOR_N_KINDS; kind++) {
                _cleanup_(buf_done) struct buf body = {0};
                struct json_writer w;

                if ((kinds & LESSOR_KIND_BIT(kind)) == 0)
                        continue;
                json_writer_init(&w, &body);
                json_open_object(&w);
                json_member_cstr(&w, "owner", cli->args[0]);
                json_member_cstr(&w, "siteId", cli->args[1]);
                put_mapping(&w, cli, (enum lessor_kind)kind);
                json_close_object(&w);
                kinds &= ~LESSOR_KIND_BIT(kind);
                code = control_post_passing(cli, path, &body, kinds != 0 || answer.root != NULL ? idle : 0,
                                            &last);
                if (code == CLI_EXIT_OK && last.root != NULL)
                        answer = last;
        }
        if (code != CLI_EXIT_OK)
                return code;
        return control_report(cli, &answer, "%s %s for %s at site %s", cli_option(cli, "service"), done,
                              cli->args[0], cli->args[1]);
}

int run_mapping_add(struct cli *cli)
{
        return edit_mappings(cli, "/mappings/add", 409, "answers");
}

int run_mapping_rm(struct cli *cli)
{
        return edit_mappings(cli, "/mappings/remove", 404, "answers no longer");
}
