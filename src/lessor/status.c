/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/limits.h"
#include "base/macro.h"
#include "lessor/commands.h"
#include "lessor/control_client.h"
#include "lessor/input.h"
#include "lessor/output.h"

/* The server as a whole. */

static void title(struct buf *out, const char *text)
{
        buf_printf(out, "%-12s", text);
}

static void write_jobs(struct buf *out, const struct json *store)
{
        static const char *const states[] = {"queued", "awaiting-payload", "ready", "running", "done"};
        const struct json *jobs = json_member_named(store, "jobs");

        title(out, "jobs");
        for (size_t i = 0; i < 5; i++)
                buf_printf(out, "%s%lld %s", i > 0 ? ", " : "", (long long)control_int(jobs, states[i]),
                           states[i]);
        buf_char(out, '\n');
}

static void write_source(struct buf *out, const char *name, const struct json *source)
{
        title(out, name);
        if (strcmp(control_text(source, "source"), "file") == 0)
                output_safe(out, control_slice(source, "file"));
        else
                buf_text(out, "built-in tables");
}

/* What is not nothing: "3 ready, 1 draining". */
static void write_counts(struct buf *out, const struct json *counts)
{
        const char *between = "";

        json_each (count, counts) {
                int64_t n;

                if (!json_int(count, &n) || n == 0)
                        continue;
                buf_printf(out, "%s%lld %.*s", between, (long long)n, (int)count->key.n, count->key.p);
                between = ", ";
        }
        buf_text(out, between[0] == '\0' ? "none" : "");
}

static void write_racks(struct buf *out, const struct json *plane)
{
        title(out, "leases");
        write_counts(out, json_member_named(plane, "leases"));
        if (control_int(plane, "lapsed") > 0)
                buf_printf(out, ", %lld of the claimed past their deadline",
                           (long long)control_int(plane, "lapsed"));
        if (!control_true(plane, "writable"))
                buf_printf(out, "; the store is NOT WRITABLE: %s", control_text(plane, "problem"));
        if (control_int(plane, "setAside") > 0)
                buf_printf(out, ", %lld rows set aside", (long long)control_int(plane, "setAside"));
        buf_char(out, '\n');
        title(out, "racks");
        write_counts(out, json_member_named(plane, "racks"));
        buf_char(out, '\n');
}

static void write_status(struct buf *out, const struct json *s)
{
        const struct json *store = json_member_named(s, "store"), *http = json_member_named(s, "http");
        const struct json *projection = json_member_named(s, "projection"),
                          *process = json_member_named(s, "process");
        const struct json *listeners = json_member_named(http, "listeners");

        title(out, "lessord");
        buf_printf(out, "%s, up ", control_text(s, "version"));
        output_span(out, control_int(s, "uptimeMs"));
        buf_printf(out, ", process %lld, ", (long long)control_int(process, "pid"));
        output_bytes(out, control_int(process, "rssBytes"));
        buf_char(out, '\n');
        json_each (listener, listeners) {
                title(out, listener == json_first(listeners) ? "listening" : "");
                buf_printf(out, "%s\n", control_value(listener));
        }
        title(out, "store");
        buf_printf(out, "%s in %s%s%s", control_text(store, "kind"), control_text(store, "data"),
                   control_true(store, "writable") ? "" : ": NOT WRITABLE: ",
                   control_true(store, "writable") ? "" : control_text(store, "problem"));
        if (control_int(store, "setAside") > 0)
                buf_printf(out, ", %lld rows set aside", (long long)control_int(store, "setAside"));
        buf_char(out, '\n');
        write_jobs(out, store);
        title(out, "devices");
        buf_printf(out, "%lld approved, %lld ever seen\n", (long long)control_int(projection, "devices"),
                   (long long)control_int(store, "devicesSeen"));
        write_source(out, "projection", projection);
        buf_printf(out, ": %lld sites, %lld consents, %lld rosters\n",
                   (long long)control_int(projection, "sites"),
                   (long long)control_int(projection, "consents"),
                   (long long)control_int(projection, "rosters"));
        write_source(out, "policy", json_member_named(s, "policy"));
        buf_char(out, '\n');
        if (json_member_named(s, "rackPlane") != NULL)
                write_racks(out, json_member_named(s, "rackPlane"));
        title(out, "http");
        buf_printf(out, "%lld connections, %lld requests under way, %lld of them waiting\n",
                   (long long)control_int(http, "connections"), (long long)control_int(http, "requests"),
                   (long long)control_int(http, "parked"));
}

int run_status(struct cli *cli)
{
        struct control_answer answer;
        struct buf out = {0};
        int code = control_get(cli, "/status", &answer);

        if (code != CLI_EXIT_OK)
                return code;
        if (cli->json)
                return control_print(cli, &answer);
        write_status(&out, answer.root);
        return output_print(cli, &out);
}

int run_metrics(struct cli *cli)
{
        struct control_answer answer;
        int code = control_get_text(cli, "/metrics", &answer);

        return code == CLI_EXIT_OK ? control_print(cli, &answer) : code;
}

static bool is_level(const char *text)
{
        static const char *const levels[] = {"debug", "info", "warning", "error"};

        for (size_t i = 0; i < ARRAY_SIZE(levels); i++)
                if (strcmp(text, levels[i]) == 0)
                        return true;
        return false;
}

int run_log_level(struct cli *cli)
{
        _cleanup_(buf_done) struct buf body = {0};
        struct control_answer answer;
        struct json_writer w;
        int code;

        if (cli->n_args > 0 && !is_level(cli->args[0]))
                return cli_misuse(cli, "\"%s\" is not debug, info, warning or error", cli->args[0]);
        if (cli->n_args == 0) {
                code = control_get(cli, "/log-level", &answer);
        } else {
                json_writer_init(&w, &body);
                json_open_object(&w);
                json_member_cstr(&w, "level", cli->args[0]);
                json_close_object(&w);
                code = control_put(cli, "/log-level", &body, &answer);
        }
        if (code != CLI_EXIT_OK)
                return code;
        return control_report(cli, &answer, "%s", control_text(answer.root, "level"));
}

/* The server writes the file, so it wants a path that means the same in its own working directory. */
static int whole_path(struct cli *cli, const char *path, struct buf *out)
{
        char *here;

        if (path[0] != '/') {
                here = getcwd(NULL, 0);
                if (here == NULL)
                        return cli_fail(cli, CLI_EXIT_FAILED, "cannot tell the working directory: %s",
                                        strerror(errno));
                buf_printf(out, "%s/", strcmp(here, "/") == 0 ? "" : here);
                free(here);
        }
        buf_text(out, path);
        return buf_failed(out) < 0 ? cli_fail_nomem(cli) : CLI_EXIT_OK;
}

int run_backup(struct cli *cli)
{
        _cleanup_(buf_done) struct buf path = {0}, leases = {0};
        const char *wanted = cli_option(cli, "leases");
        struct control_answer answer;
        int code = whole_path(cli, cli->args[0], &path);

        if (code == CLI_EXIT_OK && wanted != NULL)
                code = whole_path(cli, wanted, &leases);
        if (code == CLI_EXIT_OK)
                code = control_post_texts(cli, "/backup", &answer, "path", path.p, "leasesPath", leases.p,
                                          NULL);
        if (code != CLI_EXIT_OK)
                return code;
        if (wanted == NULL)
                return control_report(cli, &answer, "the database is copied to %s", path.p);
        return control_report(cli, &answer, "the database is copied to %s, that of leases to %s", path.p,
                              leases.p);
}

int run_projection_show(struct cli *cli)
{
        struct control_answer answer;
        int code = control_get(cli, "/projection", &answer);

        return code == CLI_EXIT_OK ? control_print(cli, &answer) : code;
}

int run_projection_put(struct cli *cli)
{
        _cleanup_(buf_done) struct buf body = {0};
        struct control_answer answer;
        int code = input_read(cli, cli->args[0], LIMIT_FILE_BYTES, &body);

        if (code == CLI_EXIT_OK)
                code = control_put(cli, "/projection", &body, &answer);
        if (code != CLI_EXIT_OK)
                return code;
        return control_report(cli, &answer, "the projection is replaced");
}

int run_version(struct cli *cli)
{
        struct buf out = {0};

        buf_text(&out, cli->json ? "{\"version\":\"" LESSOR_VERSION "\"}\n" : "lessor " LESSOR_VERSION "\n");
        return output_print(cli, &out);
}
