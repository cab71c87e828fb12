/* SPDX-License-Identifier: MIT */
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json_write.h"
#include "base/macro.h"
#include "lessor/commands.h"
#include "lessor/input.h"
#include "lessor/output.h"
#include "lessor/rack_here.h"

#define TOKEN_MOST 256

static void free_text(char **text)
{
        free(*text);
}

const char *rack_here_dir(const struct cli *cli)
{
        const char *dir = cli_option(cli, "dir"), *env = getenv("LESSOR_RACK");

        if (dir != NULL)
                return dir;
        return env != NULL && env[0] != '\0' ? env : "./lessor-rack";
}

int rack_here_list(const struct cli *cli, const char *name, const char *const **ret_values, size_t *ret_n)
{
        const char **values = lessor_arena_array(cli->arena, cli->n_values + 1, sizeof(*values));
        size_t n = 0;

        if (values == NULL)
                return LESSOR_E_NOMEM;
        for (size_t i = 0; i < cli->n_values; i++)
                if (strcmp(cli->values[i].option->name, name) == 0)
                        values[n++] = cli->values[i].text;
        *ret_values = values;
        *ret_n = n;
        return 0;
}

/* The token of the command line, or the first line of stdin. */
static const char *read_token(const char *given, char room[TOKEN_MOST])
{
        if (strcmp(given, "-") != 0)
                return given;
        if (fgets(room, TOKEN_MOST, stdin) == NULL)
                room[0] = '\0';
        room[strcspn(room, " \r\n")] = '\0';
        return room;
}

static int print_joined(struct cli *cli, const char *rack_id, const struct lessor_rack_join *join)
{
        struct buf out = {0};
        struct json_writer w;

        if (cli->json) {
                json_writer_init(&w, &out);
                json_open_object(&w);
                json_member_cstr(&w, "rackId", rack_id);
                json_member_cstr(&w, "url", join->url);
                json_member_cstr(&w, "dir", join->dir);
                json_close_object(&w);
                buf_char(&out, '\n');
        } else {
                buf_printf(&out, "this machine is rack %s; its token is in %s/rack.json\n", rack_id,
                           join->dir);
        }
        return output_print(cli, &out);
}

int run_rack_join(struct cli *cli)
{
        _cleanup_(free_text) char *problem = NULL, *rack_id = NULL;
        static const char *const usual[] = {"shell"};
        char room[TOKEN_MOST];
        struct lessor_rack_join join = {.dir = rack_here_dir(cli),
                                        .url = cli->args[0],
                                        .token = read_token(cli->args[1], room),
                                        .label = cli_option(cli, "label"),
                                        .ca_file = cli_option(cli, "ca"),
                                        .proxy = cli_option(cli, "proxy"),
                                        .replace = cli_switch(cli, "replace")};
        int e = rack_here_list(cli, "tier", &join.tiers, &join.n_tiers);

        if (e < 0)
                return cli_fail_nomem(cli);
        if (join.n_tiers == 0) {
                join.tiers = usual;
                join.n_tiers = 1;
        }
        e = lessor_rack_join(&join, &rack_id, &problem);
        sodium_memzero(room, sizeof(room));
        if (e < 0)
                return cli_fail_error(cli, e, "not joined", problem);
        return print_joined(cli, rack_id, &join);
}
