/* SPDX-License-Identifier: MIT */
#include "lessor/list.h"

#include "base/clock.h"
#include "base/macro.h"
#include "lessor/control_client.h"
#include "lessor/input.h"

DEFINE_CLEANUP(struct output_table, output_table_free)

void list_when(struct output_table *t, int64_t at_ms, int64_t now_ms, enum output_colour colour)
{
        struct buf cell = {0};

        if (at_ms > 0)
                output_when(&cell, at_ms, now_ms);
        else
                buf_char(&cell, '-');
        output_cell(t, buf_view(&cell), colour);
        buf_done(&cell);
}

void list_number(struct output_table *t, int64_t number, enum output_colour colour)
{
        struct buf cell = {0};

        buf_int(&cell, number);
        output_cell(t, buf_view(&cell), colour);
        buf_done(&cell);
}

void list_text(struct output_table *t, const struct json *item, const char *key)
{
        struct lessor_slice text = control_slice(item, key);

        output_cell(t, text.n == 0 ? LESSOR_SLICE("-") : text, COLOUR_NONE);
}

int list_show(struct cli *cli, const struct list *list)
{
        _cleanup_(output_table_freep) struct output_table *t = NULL;
        struct control_answer answer;
        struct buf out = {0};
        int64_t now_ms = clock_now_ms(clock_wall());
        const struct json *items;
        int code = control_get(cli, list->path, &answer);

        if (code != CLI_EXIT_OK)
                return code;
        if (cli->json)
                return control_print(cli, &answer);
        items = json_member_named(answer.root, list->member);
        if (json_count(items) == 0) {
                fprintf(stderr, "%s\n", list->none);
                return CLI_EXIT_OK;
        }
        t = output_table_new(list->titles, list->n_titles);
        if (t == NULL)
                return cli_fail_nomem(cli);
        json_each (item, items)
                list->row(t, item, now_ms);
        if (output_table_write(t, output_has_colour(stdout), &out) < 0) {
                buf_done(&out);
                return cli_fail_nomem(cli);
        }
        code = output_print(cli, &out);
        if (code == CLI_EXIT_OK && list->more != NULL && control_true(answer.root, "more"))
                fprintf(stderr, "there are more; %s\n", list->more);
        return code;
}
