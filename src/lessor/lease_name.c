/* SPDX-License-Identifier: MIT */
#include "lessor/lease_name.h"

#include "base/macro.h"
#include "lessor/args.h"
#include "lessor/control_client.h"

#define NUMBER_MOST (INT64_C(1) << 53)

/* `ret_number` is 0 if it is named by repository and id. */
static int read_name(struct cli *cli, int64_t *ret_number)
{
        *ret_number = 0;
        if (cli->n_args == 1 && args_number(cli->args[0], 1, NUMBER_MOST, ret_number) < 0)
                return cli_misuse(
                        cli,
                        "\"%s\" is no number of a lease: give one as `lessor lease ls` shows it, or "
                        "a repository and a lease's id",
                        cli->args[0]);
        return CLI_EXIT_OK;
}

int lease_name_query(struct cli *cli, struct buf *path)
{
        int64_t number;
        int code = read_name(cli, &number);

        if (code != CLI_EXIT_OK)
                return code;
        if (number > 0) {
                control_query(path, "number", cli->args[0]);
        } else {
                control_query(path, "repo", cli->args[0]);
                control_query(path, "lease", cli->args[1]);
        }
        return buf_failed(path) < 0 ? cli_fail_nomem(cli) : CLI_EXIT_OK;
}

int lease_name_put(struct cli *cli, struct json_writer *w)
{
        int64_t number;
        int code = read_name(cli, &number);

        if (code != CLI_EXIT_OK)
                return code;
        if (number > 0) {
                json_member_int(w, "number", number);
        } else {
                json_member_cstr(w, "repo", cli->args[0]);
                json_member_cstr(w, "leaseId", cli->args[1]);
        }
        return CLI_EXIT_OK;
}

const char *lease_name_text(struct cli *cli)
{
        _cleanup_(buf_done) struct buf text = {0};
        struct lessor_slice copy;

        buf_printf(&text, "lease %s", cli->args[cli->n_args == 2 ? 1 : 0]);
        if (buf_failed(&text) < 0 || lessor_arena_copy(cli->arena, buf_view(&text), &copy) < 0)
                return "the lease";
        return copy.p;
}
