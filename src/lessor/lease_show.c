/* SPDX-License-Identifier: MIT */
#include "lessor/lease_show.h"

#include <string.h>

#include "base/macro.h"
#include "lessor/control_client.h"
#include "lessor/error.h"
#include "lessor/exit_code.h"
#include "lessor/list.h"

DEFINE_CLEANUP(struct output_table, output_table_free)

int lease_append_state(struct buf *out, const struct json *lease)
{
        const struct json *verdict = json_member_named(lease, "verdict");
        const char *view = control_text(lease, "view");

        buf_text(out, verdict == NULL ? view : control_text(verdict, "state"));
        /* A claim whose deadline has passed waits for another rack, and may still be completed by this one.
         */
        if (strcmp(control_text(lease, "status"), "claimed") == 0 && strcmp(view, "pending") == 0)
                buf_text(out, " again");
        return buf_failed(out);
}

enum output_colour lease_colour(const struct json *lease)
{
        const struct json *verdict = json_member_named(lease, "verdict");
        const char *view = control_text(lease, "view");

        if (verdict != NULL)
                return strcmp(control_text(verdict, "state"), "success") == 0 ? COLOUR_GREEN : COLOUR_RED;
        if (strcmp(view, "claimed") == 0)
                return COLOUR_YELLOW;
        if (strcmp(view, "pending") == 0)
                return COLOUR_NONE;
        return strcmp(view, "superseded") == 0 || strcmp(view, "cancelled") == 0 ? COLOUR_DIM : COLOUR_RED;
}

bool lease_is_over(const struct json *lease)
{
        const char *status = control_text(lease, "status");

        return strcmp(status, "pending") != 0 && strcmp(status, "claimed") != 0;
}

int lease_exit_code(const struct json *lease)
{
        const struct json *verdict = json_member_named(lease, "verdict");

        return verdict != NULL && strcmp(control_text(verdict, "state"), "success") == 0
                       ? CLI_EXIT_OK
                       : CLI_EXIT_JOB_FAILED;
}

static void write_verdict(struct buf *out, const struct json *verdict)
{
        const struct json *exit_code = json_member_named(verdict, "exitCode");

        if (exit_code != NULL)
                output_line_int(out, "exit code", control_int(verdict, "exitCode"));
        output_line(out, "error", control_text(verdict, "error"));
        output_line(out, "output", control_text(verdict, "outputHash"));
        if (json_member_named(verdict, "peakBytes") != NULL) {
                _cleanup_(buf_done) struct buf peak = {0};

                output_bytes(&peak, control_int(verdict, "peakBytes"));
                output_line(out, "peak memory", peak.p == NULL ? "" : peak.p);
        }
}

int lease_write(struct buf *out, const struct json *lease, int64_t now_ms)
{
        _cleanup_(buf_done) struct buf state = {0}, tries = {0};

        lease_append_state(&state, lease);
        buf_int(&tries, control_int(lease, "attemptsSpent"));
        if (control_int(lease, "attemptLimit") > 0)
                buf_printf(&tries, " of %lld", (long long)control_int(lease, "attemptLimit"));
        output_line_int(out, "number", control_int(lease, "number"));
        output_line(out, "lease", control_text(lease, "leaseId"));
        output_line(out, "repo", control_text(lease, "repo"));
        output_line(out, "state", state.p == NULL ? "" : state.p);
        output_line(out, "cause", control_text(lease, "cause"));
        write_verdict(out, json_member_named(lease, "verdict"));
        output_line(out, "task", control_text(lease, "taskName"));
        output_line(out, "workspace", control_text(lease, "workspace"));
        output_line(out, "mode", control_text(lease, "mode"));
        output_line(out, "tier", control_text(lease, "tier"));
        output_line(out, "size", control_text(lease, "computeSize"));
        output_line(out, "needs e3", control_text(lease, "e3Version"));
        output_line(out, "environment", control_text(lease, "environment"));
        output_line(out, "run", control_text(lease, "run"));
        output_line(out, "owner", control_text(lease, "owner"));
        output_line_when(out, "created", control_int(lease, "createdAt"), now_ms);
        output_line_when(out, "expires", control_int(lease, "expiresAt"), now_ms);
        output_line(out, "rack", control_text(lease, "claimedBy"));
        output_line_when(out, "claimed", control_int(lease, "claimedAt"), now_ms);
        if (control_true(lease, "held"))
                output_line_when(out, "deadline", control_int(lease, "deadlineAt"), now_ms);
        output_line_when(out, "ended", control_int(lease, "endedAt"), now_ms);
        output_line(out, "tries", tries.p == NULL ? "" : tries.p);
        return buf_failed(out);
}

static void put_attempt(struct output_table *t, const struct json *attempt, int64_t now_ms)
{
        const char *state = control_text(attempt, "state");
        struct buf cell = {0};

        list_number(t, control_int(attempt, "number"), COLOUR_NONE);
        output_cell(t, lessor_slice_of(state),
                    strcmp(state, "success") == 0   ? COLOUR_GREEN
                    : strcmp(state, "running") == 0 ? COLOUR_YELLOW
                                                    : COLOUR_RED);
        list_text(t, attempt, "rackId");
        list_when(t, control_int(attempt, "startedAt"), now_ms, COLOUR_DIM);
        if (control_int(attempt, "endedAt") > 0)
                output_span(&cell, control_int(attempt, "endedAt") - control_int(attempt, "startedAt"));
        output_cell(t, cell.n == 0 ? LESSOR_SLICE("-") : buf_view(&cell), COLOUR_NONE);
        buf_done(&cell);
        list_text(t, attempt, "cause");
        list_text(t, attempt, "reason");
        list_text(t, attempt, "executionId");
}

int lease_write_attempts(const struct json *attempts, int64_t now_ms, struct buf *out)
{
        static const char *const titles[] = {">ATTEMPT", "STATE", "RACK",   "STARTED",
                                             "TOOK",     "CAUSE", "REASON", "EXECUTION"};
        _cleanup_(output_table_freep) struct output_table *t = NULL;

        if (json_count(attempts) == 0)
                return 0;
        t = output_table_new(titles, ARRAY_SIZE(titles));
        if (t == NULL)
                return LESSOR_E_NOMEM;
        json_each (attempt, attempts)
                put_attempt(t, attempt, now_ms);
        buf_char(out, '\n');
        return output_table_write(t, output_has_colour(stdout), out);
}
