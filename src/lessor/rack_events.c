/* SPDX-License-Identifier: MIT */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/json_write.h"
#include "lessor/output.h"
#include "lessor/rack_here.h"

#define BAR_CELLS 24

static const struct {
        const char *name;
        enum output_colour colour;
} words[LESSOR_N_RACK_EVENTS] = {
        [LESSOR_RACK_ONLINE] = {"online", COLOUR_GREEN},   [LESSOR_RACK_TROUBLE] = {"trouble", COLOUR_YELLOW},
        [LESSOR_RACK_NOTICE] = {"notice", COLOUR_BOLD},    [LESSOR_RACK_DRAINING] = {"draining", COLOUR_BOLD},
        [LESSOR_RACK_STOPPED] = {"stopped", COLOUR_BOLD},  [LESSOR_RACK_GRANTED] = {"granted", COLOUR_NONE},
        [LESSOR_RACK_FETCHING] = {"fetching", COLOUR_DIM}, [LESSOR_RACK_RUNNING] = {"running", COLOUR_NONE},
        [LESSOR_RACK_SENDING] = {"sending", COLOUR_DIM},   [LESSOR_RACK_DONE] = {"done", COLOUR_GREEN},
        [LESSOR_RACK_KEPT] = {"kept", COLOUR_YELLOW},      [LESSOR_RACK_DROPPED] = {"dropped", COLOUR_YELLOW},
};

static bool is_transfer(const struct lessor_rack_event *e)
{
        return e->type == LESSOR_RACK_FETCHING || e->type == LESSOR_RACK_SENDING;
}

void rack_narrator_init(struct rack_narrator *n, bool json)
{
        const char *term = getenv("TERM");

        *n = (struct rack_narrator){.json = json, .colour = output_has_colour(stderr)};
        n->live = !json && isatty(STDERR_FILENO) == 1 && term != NULL && strcmp(term, "dumb") != 0;
}

static void write_json(const struct lessor_rack_event *e, struct buf *out)
{
        struct json_writer w;

        json_writer_init(&w, out);
        json_open_object(&w);
        json_member_cstr(&w, "event", words[e->type].name);
        json_member_text(&w, "taskName", e->task_name);
        json_member_text(&w, "repo", e->repo);
        json_member_text(&w, "leaseId", e->lease_id);
        json_member_text(&w, "attempt", e->attempt);
        json_member_cstr(&w, "state", e->state);
        if (e->has_exit_code)
                json_member_int(&w, "exitCode", e->exit_code);
        json_member_cstr(&w, "recorded", e->recorded);
        if (e->type == LESSOR_RACK_DONE)
                json_member_int(&w, "durationMs", e->duration_ms);
        if (is_transfer(e)) {
                json_member_int(&w, "doneBytes", e->done_bytes);
                json_member_int(&w, "totalBytes", e->total_bytes);
        }
        json_member_cstr(&w, "workPath", e->work_path);
        if (e->error < 0)
                json_member_cstr(&w, "error", lessor_error_name(e->error));
        json_member_cstr(&w, "message", e->message);
        json_close_object(&w);
        buf_char(out, '\n');
}

/* A lease's id is two hashes and a time: its attempt is what people can tell it by. */
static void write_about(const struct lessor_rack_event *e, struct buf *out)
{
        if (e->lease_id.n == 0)
                return;
        buf_char(out, ' ');
        output_safe(out, e->task_name);
        buf_text(out, " (");
        output_safe(out, e->attempt.n > 0 ? e->attempt : e->lease_id);
        buf_char(out, ')');
}

static void write_done(const struct lessor_rack_event *e, struct buf *out)
{
        if (e->state == NULL)
                return;
        buf_printf(out, ": %s", e->state);
        if (e->has_exit_code && e->exit_code > 0)
                buf_printf(out, " %d", e->exit_code);
        buf_printf(out, " in %lld.%03lld s", (long long)(e->duration_ms / 1000),
                   (long long)(e->duration_ms % 1000));
        if (e->recorded != NULL && strcmp(e->recorded, "recorded") != 0)
                buf_printf(out, ", %s by the server", e->recorded);
}

/* "[####----]  12.0 MiB of 24.0 MiB" */
static void write_transfer(const struct lessor_rack_event *e, struct buf *out)
{
        int64_t full = e->total_bytes <= 0 ? 0 : e->done_bytes * BAR_CELLS / e->total_bytes;

        buf_text(out, ": ");
        if (e->total_bytes > 0) {
                buf_char(out, '[');
                for (int64_t i = 0; i < BAR_CELLS; i++)
                        buf_char(out, i < full ? '#' : '-');
                buf_text(out, "] ");
        }
        output_bytes(out, e->done_bytes);
        if (e->total_bytes > 0) {
                buf_text(out, " of ");
                output_bytes(out, e->total_bytes);
        }
}

static void write_text(const struct lessor_rack_event *e, bool colour, struct buf *out)
{
        static const char *const codes[] = {"", "\033[1m", "\033[2m", "\033[31m", "\033[32m", "\033[33m"};
        bool failed = e->type == LESSOR_RACK_DONE && e->state != NULL && strcmp(e->state, "success") != 0;
        const char *code = colour ? codes[failed ? COLOUR_RED : words[e->type].colour] : "";
        const char *why = e->message;

        if (why == NULL && e->error < 0)
                why = lessor_error_text(e->error);
        buf_printf(out, "%s%-*s%s", code, e->lease_id.n > 0 || why != NULL ? 9 : 0, words[e->type].name,
                   code[0] != '\0' ? "\033[0m" : "");
        write_about(e, out);
        write_done(e, out);
        if (is_transfer(e))
                write_transfer(e, out);
        if (why != NULL) {
                buf_text(out, e->lease_id.n > 0 ? ": " : " ");
                output_safe(out, lessor_slice_of(why));
        }
}

void rack_narrate(void *context, const struct lessor_rack_event *event)
{
        struct rack_narrator *n = context;
        FILE *stream = n->json ? stdout : stderr;
        bool stays = n->live && is_transfer(event);
        struct buf out = {0};

        if (is_transfer(event) && !n->live && !n->json)
                return;
        if (n->open)
                buf_text(&out, "\r\033[K");
        if (n->json)
                write_json(event, &out);
        else
                write_text(event, n->colour, &out);
        if (!stays && !n->json)
                buf_char(&out, '\n');
        n->open = stays;
        if (buf_failed(&out) == 0) {
                fwrite(out.p, 1, out.n, stream);
                fflush(stream);
        }
        buf_done(&out);
}
