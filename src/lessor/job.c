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
        struct list list = {
                .member = "jobs", .titles = titles, .n_titles = 8, .none = "no jobs", .row = put_row};

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

static void line(struct buf *out, const char *title, const char *text)
{
        if (text[0] == '\0')
                return;
        buf_printf(out, "%-12s", title);
        output_safe(out, lessor_slice_of(text));
        buf_char(out, '\n');
}

static void line_when(struct buf *out, const char *title, int64_t at_ms, int64_t now_ms)
{
        if (at_ms == 0)
                return;
        buf_printf(out, "%-12s", title);
        output_when(out, at_ms, now_ms);
        buf_char(out, '\n');
}

static void write_job(struct buf *out, const struct json *job, int64_t now_ms)
{
        const struct json *claim = json_member_named(job, "claim"),
                          *refused = json_member_named(job, "refusedBy");
        struct buf state = {0};

        append_state(&state, job);
        line(out, "job", control_text(job, "jobId"));
        line(out, "site", control_text(job, "siteId"));
        line(out, "state", state.p == NULL ? "" : state.p);
        buf_done(&state);
        line(out, "kind", control_text(job, "kind"));
        line(out, "purpose", control_text(job, "purpose"));
        line(out, "owner", control_text(job, "owner"));
        line(out, "audience", control_text(job, "audience"));
        line(out, "size", control_text(job, "sizeClass"));
        line_when(out, "enqueued", control_int(job, "enqueuedAt"), now_ms);
        line_when(out, "deadline", control_int(job, "deadlineAt"), now_ms);
        if (claim != NULL) {
                line(out, "device", control_text(claim, "runnerId"));
                line(out, "device of", control_text(claim, "owner"));
                line(out, "device key", control_text(claim, "keyId"));
                line(out, "lease", control_text(claim, "leaseId"));
                line_when(out, "lease ends", control_int(claim, "leaseExpiresAt"), now_ms);
                line_when(out, "seal by", control_int(claim, "awaitingUntil"), now_ms);
        }
        if (control_int(job, "sealAttempts") > 0)
                buf_printf(out, "%-12s%lld\n", "unsealed", (long long)control_int(job, "sealAttempts"));
        line(out, "offered to", control_text(job, "reofferTo"));
        json_each (runner, refused)
                line(out, runner == json_first(refused) ? "refused by" : "", control_value(runner));
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
