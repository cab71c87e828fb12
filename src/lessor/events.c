/* SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/macro.h"
#include "lessor/commands.h"
#include "lessor/control_client.h"
#include "lessor/control_link.h"
#include "lessor/event_reader.h"
#include "lessor/output.h"

/*
 * What happens at the server, a line an event, until somebody stops it. A stream that breaks off goes on
 * where it was, as long as the server comes back soon.
 */

#define STALL_MS    60000 /* the server says something every 15 s, if only that it is there */
#define PATIENCE_MS 60000
#define RETRY_MS    500
#define WAIT_MS     60000

DEFINE_CLEANUP(struct lessor_arena, lessor_arena_free)

struct events {
        struct cli *cli;
        struct event_reader reader;
        bool begun; /* the stream is there */
        bool failed_to_write;
};

static void put_time(struct buf *out, int64_t at_ms)
{
        time_t seconds = (time_t)(at_ms / 1000);
        struct tm tm;
        char text[32] = "";

        if (localtime_r(&seconds, &tm) != NULL)
                strftime(text, sizeof(text), "%H:%M:%S", &tm);
        buf_text(out, text);
}

static void put_member(struct buf *out, const struct json *event, const char *key, const char *before)
{
        const char *text = control_text(event, key);

        if (text[0] != '\0') {
                buf_text(out, before);
                output_safe(out, lessor_slice_of(text));
        }
}

/* "12:00:00 lease.completed lab TASK#INPUTS#ID, run nightly, rack R (reclaimed: words)" */
static void put_event(struct buf *out, const struct json *event, const char *name)
{
        put_time(out, control_int(event, "at"));
        buf_printf(out, " %-16s", name);
        put_member(out, event, "repo", " ");
        put_member(out, event, "lease", " ");
        put_member(out, event, "run", ", run ");
        put_member(out, event, "rack", control_text(event, "repo")[0] == '\0' ? " " : ", rack ");
        put_member(out, event, "cause", ", ");
        put_member(out, event, "reason", ": ");
        buf_char(out, '\n');
}

static int say_gap(void)
{
        fflush(stdout);
        fputs("lessor: some events were missed: the server was started anew, or they came faster than they "
              "could "
              "be read\n",
              stderr);
        return 0;
}

static int print_event(struct events *e, const struct event_reader *reader, struct lessor_slice data,
                       struct lessor_arena *arena, struct buf *line)
{
        struct json *event;
        int r;

        if (e->cli->json) {
                buf_slice(line, data);
                return buf_char(line, '\n');
        }
        r = json_read_copy(data, arena, &event);
        if (r == 0 && event->type != JSON_OBJECT)
                r = LESSOR_E_PROTOCOL;
        if (r == 0)
                put_event(line, event, reader->event);
        return r < 0 ? r : buf_failed(line);
}

static int take_event(void *context, const struct event_reader *reader, struct lessor_slice data)
{
        struct events *e = context;
        _cleanup_(lessor_arena_freep) struct lessor_arena *arena = lessor_arena_new();
        _cleanup_(buf_done) struct buf line = {0};
        int r = LESSOR_E_NOMEM;

        if (strcmp(reader->event, "gap") == 0)
                return say_gap();
        if (arena != NULL)
                r = print_event(e, reader, data, arena, &line);
        if (r == 0 && (fwrite(line.p, 1, line.n, stdout) != line.n || fflush(stdout) != 0)) {
                e->failed_to_write = true;
                r = LESSOR_E_IO;
        }
        return r;
}

static int take(void *context, long status, struct lessor_slice bytes)
{
        struct events *e = context;

        (void)status;
        e->begun = true;
        return event_reader_take(&e->reader, bytes);
}

static int ask(struct events *e, struct control_link *link, struct http_transfer **ret_transfer)
{
        _cleanup_(buf_done) struct buf path = {0};
        char last_id[80];
        const char *headers[] = {"Accept: text/event-stream", last_id};
        struct http_request request = {.method = "GET",
                                       .headers = headers,
                                       .n_headers = 1,
                                       .stall_ms = STALL_MS,
                                       .take = take,
                                       .context = e};

        buf_text(&path, "/events");
        control_query(&path, "repo", cli_option(e->cli, "repo"));
        control_query(&path, "lease", cli_option(e->cli, "lease"));
        control_query(&path, "run", cli_option(e->cli, "run"));
        control_query(&path, "rack", cli_option(e->cli, "rack"));
        control_query(&path, "types", cli_option(e->cli, "types"));
        control_query(&path, "after", cli_option(e->cli, "after"));
        if (buf_failed(&path) < 0)
                return LESSOR_E_NOMEM;
        if (e->reader.id[0] != '\0') {
                snprintf(last_id, sizeof(last_id), "Last-Event-ID: %s", e->reader.id);
                request.n_headers = 2;
        }
        request.url = path.p;
        return control_link_call(link, &request, NULL, ret_transfer);
}

static void rest(void)
{
        const struct timespec while_it_starts = {.tv_nsec = RETRY_MS * 1000000L};

        nanosleep(&while_it_starts, NULL);
}

/* Whether it is worth asking again: the server went away, after it was there. */
static bool may_come_back(const struct events *e, int error, const struct http_transfer *transfer)
{
        if (e->reader.id[0] == '\0' && !e->begun)
                return false;
        return error == LESSOR_E_LATER || (error == 0 && (http_transfer_status(transfer) == 200 ||
                                                          http_transfer_status(transfer) == 503));
}

int run_events(struct cli *cli)
{
        _cleanup_(control_link_freep) struct control_link *link = NULL;
        struct events e = {.cli = cli, .reader = {.take = take_event}};
        int64_t until_ms = 0;
        int code = control_link_open(cli, &link);

        e.reader.context = &e;
        while (code == CLI_EXIT_OK) {
                _cleanup_(http_transfer_freep) struct http_transfer *transfer = NULL;
                int64_t began_ms = clock_monotonic_ms();
                int r = ask(&e, link, &transfer);

                if (until_ms == 0 || clock_monotonic_ms() - began_ms > PATIENCE_MS)
                        until_ms = clock_monotonic_ms() + PATIENCE_MS;
                if (e.failed_to_write)
                        code = cli_fail(cli, CLI_EXIT_FAILED, "cannot write to stdout");
                else if (!may_come_back(&e, r, transfer) || clock_monotonic_ms() > until_ms)
                        code = control_link_fail(link, r, transfer);
                else
                        rest();
        }
        event_reader_done(&e.reader);
        return code;
}
