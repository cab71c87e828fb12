/* SPDX-License-Identifier: MIT */
#include <string.h>

#include "base/clock.h"
#include "base/limits.h"
#include "base/macro.h"
#include "lessor/args.h"
#include "lessor/commands.h"
#include "lessor/control_client.h"
#include "lessor/input.h"
#include "lessor/kind.h"
#include "lessor/list.h"

/* Jobs as the server has them. What is in them only the site and the device know. */

static enum output_colour state_colour(const char *state)
{
        if (strcmp(state, "running") == 0 || strcmp(state, "ready") == 0)
                return COLOUR_GREEN;
        if (strcmp(state, "awaiting-payload") == 0)
                return COLOUR_YELLOW;
        return strcmp(state, "done") == 0 ? COLOUR_DIM : COLOUR_NONE;
}

/* "done: error", "queued, cancelled". */
static void append_state(struct buf *out, const struct json *job)
{
        const char *disposition = control_text(job, "disposition");

        buf_text(out, control_text(job, "state"));
        if (disposition[0] != '\0')
                buf_printf(out, ": %s", disposition);
        if (control_true(job, "cancelled"))
                buf_text(out, ", cancelled");
}

static void put_row(struct output_table *t, const struct json *job, int64_t now_ms)
{
        struct buf cell = {0};

        output_cell(t, control_slice(job, "siteId"), COLOUR_NONE);
        output_cell(t, control_slice(job, "jobId"), COLOUR_NONE);
        append_state(&cell, job);
        output_cell(t, buf_view(&cell), state_colour(control_text(job, "state")));
        buf_done(&cell);
        output_cell(t, control_slice(job, "owner"), COLOUR_NONE);
        output_cell_text(t, kind_short(control_text(job, "kind")));
        list_text(t, json_member_named(job, "claim"), "runnerId");
        list_when(t, control_int(job, "enqueuedAt"), now_ms, COLOUR_DIM);
        list_when(t, control_int(job, "deadlineAt"), now_ms, COLOUR_DIM);
}

int run_job_ls(struct cli *cli)
{
        static const char *const titles[] = {"SITE", "JOB",    "STATE",    "OWNER",
                                             "KIND", "DEVICE", "ENQUEUED", "DEADLINE"};
        static const char *const filters[] = {"site", "state", "owner", "limit"};
        const char *limit = cli_option(cli, "limit");
        _cleanup_(buf_done) struct buf path = {0};
        struct list list = {.member = "jobs",
                            .titles = titles,
                            .n_titles = 8,
                            .none = "no jobs",
                            .more = "--limit shows them, --site, --owner and --state choose",
                            .row = put_row};

        if (limit != NULL && args_number(limit, 1, LIMIT_CONTROL_JOBS, &(int64_t){0}) < 0)
                return cli_misuse(cli, "--limit: \"%s\" is no number from 1 to %d", limit,
                                  (int)LIMIT_CONTROL_JOBS);
        buf_text(&path, "/jobs");
        for (size_t i = 0; i < 4; i++)
                control_query(&path, filters[i], cli_option(cli, filters[i]));
        if (buf_failed(&path) < 0)
                return cli_fail_nomem(cli);
        list.path = path.p;
        return list_show(cli, &list);
}

static void write_job(struct buf *out, const struct json *job, int64_t now_ms)
{
        const struct json *claim = json_member_named(job, "claim"),
                          *refused = json_member_named(job, "refusedBy");
        struct buf state = {0};

        append_state(&state, job);
        output_line(out, "job", control_text(job, "jobId"));
        output_line(out, "site", control_text(job, "siteId"));
        output_line(out, "state", state.p == NULL ? "" : state.p);
        buf_done(&state);
        output_line(out, "kind", control_text(job, "kind"));
        output_line(out, "purpose", control_text(job, "purpose"));
        output_line(out, "owner", control_text(job, "owner"));
        output_line(out, "audience", control_text(job, "audience"));
        output_line(out, "size", control_text(job, "sizeClass"));
        output_line_when(out, "enqueued", control_int(job, "enqueuedAt"), now_ms);
        output_line_when(out, "deadline", control_int(job, "deadlineAt"), now_ms);
        if (claim != NULL) {
                output_line(out, "device", control_text(claim, "runnerId"));
                output_line(out, "device of", control_text(claim, "owner"));
                output_line(out, "device key", control_text(claim, "keyId"));
                output_line(out, "lease", control_text(claim, "leaseId"));
                output_line_when(out, "lease ends", control_int(claim, "leaseExpiresAt"), now_ms);
                output_line_when(out, "seal by", control_int(claim, "awaitingUntil"), now_ms);
        }
        if (control_int(job, "sealAttempts") > 0)
                buf_printf(out, "%-12s%lld\n", "unsealed", (long long)control_int(job, "sealAttempts"));
        output_line(out, "offered to", control_text(job, "reofferTo"));
        json_each (runner, refused)
                output_line(out, runner == json_first(refused) ? "refused by" : "", control_value(runner));
}

int run_job_show(struct cli *cli)
{
        _cleanup_(buf_done) struct buf path = {0};
        struct control_answer answer;
        struct buf out = {0};
        int code;

        buf_text(&path, "/jobs/show");
        control_query(&path, "site", cli->args[0]);
        control_query(&path, "job", cli->args[1]);
        if (buf_failed(&path) < 0)
                return cli_fail_nomem(cli);
        code = control_get(cli, path.p, &answer);
        if (code != CLI_EXIT_OK)
                return code;
        if (cli->json)
                return control_print(cli, &answer);
        write_job(&out, json_member_named(answer.root, "job"), clock_now_ms(clock_wall()));
        return output_print(cli, &out);
}

int run_job_cancel(struct cli *cli)
{
        struct control_answer answer;
        int code = control_post_texts(cli, "/jobs/cancel", &answer, "siteId", cli->args[0], "jobId",
                                      cli->args[1], NULL);

        if (code != CLI_EXIT_OK)
                return code;
        return control_report(cli, &answer, "job %s is withdrawn", cli->args[1]);
}
