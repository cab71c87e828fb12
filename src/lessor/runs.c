/* SPDX-License-Identifier: MIT */
#include "base/clock.h"
#include "base/macro.h"
#include "lessor/commands.h"
#include "lessor/control_client.h"
#include "lessor/input.h"
#include "lessor/list.h"
#include "lessor/run_show.h"

/* Runs: leases that belong together. */

static const char *const verdicts[] = {"success", "failed", "error", "cancelled"};
static const char *const ends[] = {"superseded", "cancelled", "poisoned", "expired"};

static int64_t n_open(const struct json *run)
{
        const struct json *statuses = json_member_named(run, "statuses");

        return control_int(statuses, "pending") + control_int(statuses, "claimed");
}

/* "2 success, 1 poisoned": what is not nothing. */
static void append_counts(struct buf *out, const struct json *counts, const char *const *names, size_t n,
                          const char **between)
{
        for (size_t i = 0; i < n; i++)
                if (control_int(counts, names[i]) > 0) {
                        buf_printf(out, "%s%lld %s", *between, (long long)control_int(counts, names[i]),
                                   names[i]);
                        *between = ", ";
                }
}

void run_describe(struct buf *out, const struct json *run)
{
        static const char *const open[] = {"claimed", "pending"};
        const struct json *statuses = json_member_named(run, "statuses");
        int64_t n = control_int(run, "leases"), n_ended = n - n_open(run);
        const char *between = ": ";

        buf_printf(out, "%lld of %lld ended", (long long)n_ended, (long long)n);
        append_counts(out, json_member_named(run, "verdicts"), verdicts, ARRAY_SIZE(verdicts), &between);
        append_counts(out, statuses, ends, ARRAY_SIZE(ends), &between);
        between = "; ";
        append_counts(out, statuses, open, ARRAY_SIZE(open), &between);
}

bool run_is_over(const struct json *run)
{
        return control_true(run, "ended");
}

int run_exit_code(const struct json *run)
{
        return control_int(json_member_named(run, "verdicts"), "success") == control_int(run, "leases")
                       ? CLI_EXIT_OK
                       : CLI_EXIT_JOB_FAILED;
}

static void put_row(struct output_table *t, const struct json *run, int64_t now_ms)
{
        struct buf cell = {0};

        output_cell(t, control_slice(run, "run"), COLOUR_NONE);
        list_number(t, control_int(run, "leases"), COLOUR_NONE);
        run_describe(&cell, run);
        output_cell(t, buf_view(&cell),
                    !run_is_over(run)                   ? COLOUR_YELLOW
                    : run_exit_code(run) == CLI_EXIT_OK ? COLOUR_GREEN
                                                        : COLOUR_RED);
        buf_done(&cell);
        list_when(t, control_int(run, "createdAt"), now_ms, COLOUR_DIM);
        list_when(t, control_int(run, "endedAt"), now_ms, COLOUR_DIM);
}

int run_runs_ls(struct cli *cli)
{
        static const char *const titles[] = {"RUN", ">LEASES", "STATE", "BEGAN", "ENDED"};
        const struct list list = {.path = "/runs",
                                  .member = "runs",
                                  .titles = titles,
                                  .n_titles = 5,
                                  .none = "no runs; a lease belongs to one if it was submitted with --run",
                                  .more = "`lessor runs show` shows each",
                                  .row = put_row};

        return list_show(cli, &list);
}

static int write_run(struct buf *out, const struct json *run, int64_t now_ms)
{
        _cleanup_(buf_done) struct buf state = {0};

        run_describe(&state, run);
        output_line(out, "run", control_text(run, "run"));
        output_line(out, "state", state.p == NULL ? "" : state.p);
        output_line_when(out, "began", control_int(run, "createdAt"), now_ms);
        output_line_when(out, "ended", control_int(run, "endedAt"), now_ms);
        return buf_failed(&state);
}

int run_runs_show(struct cli *cli)
{
        _cleanup_(buf_done) struct buf path = {0};
        struct control_answer answer;
        struct buf out = {0};
        int code;

        buf_text(&path, "/runs");
        control_query(&path, "run", cli->args[0]);
        if (buf_failed(&path) < 0)
                return cli_fail_nomem(cli);
        code = control_get(cli, path.p, &answer);
        if (code != CLI_EXIT_OK)
                return code;
        if (cli->json)
                return control_print(cli, &answer);
        if (write_run(&out, json_member_named(answer.root, "run"), clock_now_ms(clock_wall())) < 0) {
                buf_done(&out);
                return cli_fail_nomem(cli);
        }
        return output_print(cli, &out);
}

int run_runs_cancel(struct cli *cli)
{
        struct control_answer answer;
        long long n;
        int code = control_post_texts(cli, "/runs/cancel", &answer, "run", cli->args[0], "reason",
                                      cli_option(cli, "reason"), NULL);

        if (code != CLI_EXIT_OK)
                return code;
        n = (long long)control_int(answer.root, "cancelled");
        return control_report(cli, &answer, "%lld lease%s of run %s %s cancelled", n, n == 1 ? "" : "s",
                              cli->args[0], n == 1 ? "is" : "are");
}
