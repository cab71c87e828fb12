/* SPDX-License-Identifier: MIT */
#include "base/clock.h"
#include "base/limits.h"
#include "base/macro.h"
#include "lessor/args.h"
#include "lessor/commands.h"
#include "lessor/control_client.h"
#include "lessor/input.h"
#include "lessor/list.h"

/* Enrolment tokens. */

static int post(struct cli *cli, int64_t ttl_ms, struct control_answer *ret_answer)
{
        _cleanup_(buf_done) struct buf body = {0};
        struct json_writer w;

        json_writer_init(&w, &body);
        json_open_object(&w);
        json_member_cstr(&w, "label", cli_option(cli, "label"));
        if (ttl_ms > 0)
                json_member_int(&w, "ttlMs", ttl_ms);
        json_close_object(&w);
        return control_post(cli, "/racks/tokens/create", &body, ret_answer);
}

/* The token is on stdout in a line that can be pasted, and what there is to know of it on stderr. */
int run_rack_token(struct cli *cli)
{
        const char *ttl = cli_option(cli, "ttl"), *url = cli_option(cli, "url");
        _cleanup_(buf_done) struct buf note = {0};
        struct control_answer answer;
        struct buf out = {0};
        int64_t ttl_ms = 0;
        int code;

        if (ttl != NULL && (args_duration(ttl, &ttl_ms) < 0 || ttl_ms < LIMIT_ENROLMENT_MIN_MS ||
                            ttl_ms > LIMIT_ENROLMENT_MS))
                return cli_misuse(cli, "--ttl: \"%s\" is no time from 1m to 1d, such as 15m", ttl);
        code = post(cli, ttl_ms, &answer);
        if (code != CLI_EXIT_OK)
                return code;
        if (cli->json)
                return control_print(cli, &answer);
        if (url == NULL)
                url = control_text(answer.root, "url");
        buf_text(&note, "on the machine that shall join, for one machine, once, until it expires ");
        output_when(&note, control_int(answer.root, "expiresAt"), clock_now_ms(clock_wall()));
        if (buf_failed(&note) == 0)
                fprintf(stderr, "%s; it is not shown again:\n", note.p);
        buf_printf(&out, "lessor rack join %s %s\n", url[0] == '\0' ? "URL" : url,
                   control_text(answer.root, "token"));
        return output_print(cli, &out);
}

static void put_token(struct output_table *t, const struct json *token, int64_t now_ms)
{
        output_cell(t, control_slice(token, "tokenId"), COLOUR_NONE);
        list_text(t, token, "label");
        list_when(t, control_int(token, "mintedAt"), now_ms, COLOUR_DIM);
        list_when(t, control_int(token, "expiresAt"), now_ms, COLOUR_NONE);
}

int run_rack_tokens(struct cli *cli)
{
        static const char *const titles[] = {"TOKEN ID", "LABEL", "MINTED", "EXPIRES"};
        const struct list list = {.path = "/racks/tokens",
                                  .member = "tokens",
                                  .titles = titles,
                                  .n_titles = 4,
                                  .none = "no token waits to be used; `lessor rack token` mints one",
                                  .row = put_token};

        return list_show(cli, &list);
}

int run_rack_revoke(struct cli *cli)
{
        struct control_answer answer;
        int code = control_post_texts(cli, "/racks/tokens/revoke", &answer, "tokenId", cli->args[0], NULL);

        if (code != CLI_EXIT_OK)
                return code;
        return control_report(cli, &answer, "token %s can no longer be used", cli->args[0]);
}
