/* SPDX-License-Identifier: MIT */
#include "lessor/commands.h"
#include "lessor/control_client.h"
#include "lessor/list.h"

/* Rosters: whose work an owner's devices may do besides the owner's own. */

int run_roster_add(struct cli *cli)
{
        struct control_answer answer;
        const char *owner = cli_option(cli, "owner");
        int code;

        if (owner == NULL)
                return cli_misuse(cli, "give --owner USER: whose devices serve the roster");
        code = control_post_texts(cli, "/rosters/add", &answer, "rosterId", cli->args[0], "owner", owner,
                                  NULL);
        for (size_t i = 1; code == CLI_EXIT_OK && i < cli->n_args; i++)
                code = control_post_texts(cli, "/members/add", &answer, "rosterId", cli->args[0], "member",
                                          cli->args[i], NULL);
        if (code != CLI_EXIT_OK)
                return code;
        return control_report(cli, &answer, "roster %s of %s has %zu member%s", cli->args[0], owner,
                              cli->n_args - 1, cli->n_args == 2 ? "" : "s");
}

static void put_row(struct output_table *t, const struct json *roster, int64_t now_ms)
{
        const struct json *members = json_member_named(roster, "members");
        struct buf cell = {0};

        output_cell(t, control_slice(roster, "rosterId"), COLOUR_NONE);
        output_cell(t, control_slice(roster, "owner"), COLOUR_NONE);
        json_each (member, members)
                buf_printf(&cell, "%s%s", member == json_first(members) ? "" : ", ", control_value(member));
        output_cell(t, cell.n == 0 ? LESSOR_SLICE("-") : buf_view(&cell), COLOUR_NONE);
        buf_done(&cell);
        list_when(t, control_int(roster, "createdAt"), now_ms, COLOUR_DIM);
}

int run_roster_ls(struct cli *cli)
{
        static const char *const titles[] = {"ROSTER", "OWNER", "MEMBERS", "MADE"};
        const struct list list = {.path = "/rosters",
                                  .member = "rosters",
                                  .titles = titles,
                                  .n_titles = 4,
                                  .none = "no rosters yet; `lessor roster add` makes one",
                                  .row = put_row};

        return list_show(cli, &list);
}

int run_roster_rm(struct cli *cli)
{
        struct control_answer answer;
        int code = control_post_texts(cli, "/rosters/remove", &answer, "rosterId", cli->args[0], NULL);

        if (code != CLI_EXIT_OK)
                return code;
        return control_report(cli, &answer, "roster %s is gone", cli->args[0]);
}

static int edit_member(struct cli *cli, const char *path, const char *done)
{
        struct control_answer answer;
        int code = control_post_texts(cli, path, &answer, "rosterId", cli->args[0], "member", cli->args[1],
                                      NULL);

        if (code != CLI_EXIT_OK)
                return code;
        return control_report(cli, &answer, "%s is %s roster %s", cli->args[1], done, cli->args[0]);
}

int run_member_add(struct cli *cli)
{
        return edit_member(cli, "/members/add", "on");
}

int run_member_rm(struct cli *cli)
{
        return edit_member(cli, "/members/remove", "off");
}
