/* SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/limits.h"
#include "base/macro.h"
#include "lessor/commands.h"
#include "lessor/control_client.h"
#include "lessor/error.h"
#include "lessor/input.h"
#include "lessor/list.h"

/* Webhooks: URLs that the server tells what happens. */

static void put_types(struct json_writer *w, const char *types)
{
        if (types == NULL)
                return;
        json_key(w, "types");
        json_open_array(w);
        while (*types != '\0') {
                size_t n = strcspn(types, ",");

                json_put_text(w, (struct lessor_slice){types, n});
                types += n + (types[n] == ',');
        }
        json_close_array(w);
}

static struct lessor_slice trimmed(struct lessor_slice text)
{
        while (text.n > 0 && (unsigned char)text.p[text.n - 1] <= ' ')
                text.n--;
        return text;
}

/* A secret is read from a file, so that no list of processes shows it. */
static int post(struct cli *cli, struct control_answer *ret_answer)
{
        const char *secret_file = cli_option(cli, "secret-file");
        _cleanup_(buf_wipe) struct buf secret = {0}, body = {0};
        struct json_writer w;
        int e = 0;

        if (secret_file != NULL)
                e = file_read(secret_file, LIMIT_ID_BYTES + 2, &secret);
        if (e < 0)
                return cli_fail(cli, CLI_EXIT_FAILED, "--secret-file: %s: %s", secret_file,
                                lessor_error_text(e));
        buf_reserve(&body, 8192); /* growing would leave copies of the secret behind */
        json_writer_init(&w, &body);
        json_open_object(&w);
        json_member_cstr(&w, "url", cli->args[0]);
        if (secret_file != NULL)
                json_member_text(&w, "secret", trimmed(buf_view(&secret)));
        json_member_cstr(&w, "repo", cli_option(cli, "repo"));
        json_member_cstr(&w, "run", cli_option(cli, "run"));
        put_types(&w, cli_option(cli, "types"));
        json_close_object(&w);
        return control_post(cli, "/webhooks/add", &body, ret_answer);
}

/* The id is on stdout; a secret that the server has made is shown this once. */
int run_webhook_add(struct cli *cli)
{
        struct control_answer answer = {0};
        struct buf out = {0};
        int code = post(cli, &answer);

        if (code != CLI_EXIT_OK)
                return code;
        if (cli->json)
                return control_print(cli, &answer);
        if (cli_option(cli, "secret-file") == NULL)
                fprintf(stderr, "deliveries are signed with this secret, which is not shown again:\n%s\n",
                        control_text(answer.root, "secret"));
        buf_printf(&out, "%s\n", control_text(answer.root, "webhookId"));
        return output_print(cli, &out);
}

static void put_webhook(struct output_table *t, const struct json *hook, int64_t now_ms)
{
        const char *problem = control_text(hook, "problem");

        output_cell(t, control_slice(hook, "id"), COLOUR_NONE);
        list_text(t, hook, "url");
        list_number(t, control_int(hook, "delivered"), COLOUR_NONE);
        list_number(t, control_int(hook, "dropped"),
                    control_int(hook, "dropped") > 0 ? COLOUR_YELLOW : COLOUR_NONE);
        list_when(t, control_int(hook, "triedAt"), now_ms, COLOUR_DIM);
        output_cell(t, lessor_slice_of(problem[0] == '\0' ? "ok" : problem),
                    problem[0] == '\0' ? COLOUR_NONE : COLOUR_RED);
}

int run_webhook_ls(struct cli *cli)
{
        static const char *const titles[] = {"WEBHOOK ID", "URL", "DELIVERED", "DROPPED", "LAST", "STATE"};
        const struct list list = {.path = "/webhooks",
                                  .member = "webhooks",
                                  .titles = titles,
                                  .n_titles = 6,
                                  .none = "no webhooks; `lessor webhook add URL` makes one",
                                  .row = put_webhook};

        return list_show(cli, &list);
}

int run_webhook_rm(struct cli *cli)
{
        struct control_answer answer;
        int code = control_post_texts(cli, "/webhooks/remove", &answer, "webhookId", cli->args[0], NULL);

        if (code != CLI_EXIT_OK)
                return code;
        return control_report(cli, &answer, "webhook %s is told nothing any more", cli->args[0]);
}
