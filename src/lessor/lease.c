/* SPDX-License-Identifier: MIT */
#include <string.h>

#include "base/clock.h"
#include "base/limits.h"
#include "base/macro.h"
#include "lessor/args.h"
#include "lessor/commands.h"
#include "lessor/control_client.h"
#include "lessor/input.h"
#include "lessor/lease_name.h"
#include "lessor/lease_show.h"
#include "lessor/list.h"
#include "lessor/rack_name.h"

/* Leases, as the host of the work sees them. */

/* --- Looking --- */

static void put_row(struct output_table *t, const struct json *lease, int64_t now_ms)
{
        struct buf cell = {0};

        list_number(t, control_int(lease, "number"), COLOUR_NONE);
        list_text(t, lease, "repo");
        list_text(t, lease, "taskName");
        list_text(t, lease, "tier");
        lease_append_state(&cell, lease);
        output_cell(t, buf_view(&cell), lease_colour(lease));
        buf_clear(&cell);
        buf_int(&cell, control_int(lease, "attemptsSpent"));
        if (control_int(lease, "attemptLimit") > 0)
                buf_printf(&cell, "/%lld", (long long)control_int(lease, "attemptLimit"));
        output_cell(t, buf_view(&cell), COLOUR_NONE);
        buf_done(&cell);
        list_text(t, lease, "claimedBy");
        list_text(t, lease, "run");
        list_text(t, lease, "owner");
        list_when(t, control_int(lease, "createdAt"), now_ms, COLOUR_DIM);
}

int run_lease_ls(struct cli *cli)
{
        static const char *const titles[] = {">LEASE", "REPO", "TASK", "TIER",  "STATE",
                                             "TRIES",  "RACK", "RUN",  "OWNER", "CREATED"};
        static const char *const filters[] = {"run", "status", "repo", "owner", "after", "limit"};
        const char *limit = cli_option(cli, "limit"), *rack_name = cli_option(cli, "rack");
        _cleanup_(buf_done) struct buf path = {0};
        const struct json *rack;
        struct list list = {.member = "leases",
                            .titles = titles,
                            .n_titles = 10,
                            .none = "no such leases",
                            .more = "--limit shows them, --after LEASE goes on behind one, --run, --status, "
                                    "--rack, --repo and --owner choose",
                            .row = put_row};

        if (limit != NULL && args_number(limit, 1, LIMIT_CONTROL_LEASES, &(int64_t){0}) < 0)
                return cli_misuse(cli, "--limit: \"%s\" is no number from 1 to %d", limit,
                                  (int)LIMIT_CONTROL_LEASES);
        buf_text(&path, "/leases");
        for (size_t i = 0; i < ARRAY_SIZE(filters); i++)
                control_query(&path, filters[i], cli_option(cli, filters[i]));
        if (rack_name != NULL) {
                int code = rack_resolve(cli, rack_name, &rack);

                if (code != CLI_EXIT_OK)
                        return code;
                control_query(&path, "rack", control_text(rack, "rackId"));
        }
        if (buf_failed(&path) < 0)
                return cli_fail_nomem(cli);
        list.path = path.p;
        return list_show(cli, &list);
}

/* Asks about the lease that the arguments name. */
static int get(struct cli *cli, const char *endpoint, struct control_answer *ret_answer)
{
        _cleanup_(buf_done) struct buf path = {0};
        int code;

        buf_text(&path, endpoint);
        code = lease_name_query(cli, &path);
        return code == CLI_EXIT_OK ? control_get(cli, path.p, ret_answer) : code;
}

int run_lease_show(struct cli *cli)
{
        struct control_answer answer;
        struct buf out = {0};
        int64_t now_ms = clock_now_ms(clock_wall());
        int code = get(cli, "/leases", &answer);

        if (code != CLI_EXIT_OK)
                return code;
        if (cli->json)
                return control_print(cli, &answer);
        lease_write(&out, json_member_named(answer.root, "lease"), now_ms);
        code = lease_write_attempts(json_member_named(answer.root, "attempts"), now_ms, &out);
        if (code < 0) {
                buf_done(&out);
                return cli_fail_nomem(cli);
        }
        return output_print(cli, &out);
}

static void put_why(struct output_table *t, const struct json *rack)
{
        output_cell(t, control_slice(rack, "rackId"), COLOUR_NONE);
        list_text(t, rack, "label");
        output_cell(t, control_slice(rack, "reason"),
                    strcmp(control_text(rack, "bar"), "none") == 0 ? COLOUR_GREEN : COLOUR_YELLOW);
}

DEFINE_CLEANUP(struct output_table, output_table_free)

int run_lease_why(struct cli *cli)
{
        static const char *const titles[] = {"RACK", "LABEL", "WHY IT DOES NOT HAVE IT"};
        _cleanup_(output_table_freep) struct output_table *t = NULL;
        struct control_answer answer;
        struct buf out = {0};
        int code = get(cli, "/leases/explain", &answer);

        if (code != CLI_EXIT_OK)
                return code;
        if (cli->json)
                return control_print(cli, &answer);
        output_safe(&out, control_slice(answer.root, "summary"));
        buf_char(&out, '\n');
        t = output_table_new(titles, ARRAY_SIZE(titles));
        json_each (rack, json_member_named(answer.root, "racks"))
                if (t != NULL)
                        put_why(t, rack);
        if (t == NULL || output_table_write(t, output_has_colour(stdout), &out) < 0) {
                buf_done(&out);
                return cli_fail_nomem(cli);
        }
        return output_print(cli, &out);
}

/* --- Ending --- */

/* Posts the name of the lease, with what options say. */
static int post(struct cli *cli, const char *path, bool with_key, bool with_reason,
                struct control_answer *ret_answer)
{
        _cleanup_(buf_done) struct buf body = {0};
        struct json_writer w;
        int code;

        json_writer_init(&w, &body);
        json_open_object(&w);
        code = lease_name_put(cli, &w);
        if (code != CLI_EXIT_OK)
                return code;
        if (with_key)
                json_member_cstr(&w, "key", cli_option(cli, "key"));
        if (with_reason)
                json_member_cstr(&w, "reason", cli_option(cli, "reason"));
        json_close_object(&w);
        return control_post(cli, path, &body, ret_answer);
}

/* Completed wins over what comes later, so what it came to is said. */
static int report(struct cli *cli, const struct control_answer *answer)
{
        const struct json *lease = json_member_named(answer->root, "lease");
        _cleanup_(buf_done) struct buf state = {0};

        lease_append_state(&state, lease);
        return control_report(cli, answer, "%s is %s", lease_name_text(cli), state.p == NULL ? "" : state.p);
}

int run_lease_cancel(struct cli *cli)
{
        struct control_answer answer;
        int code = post(cli, "/leases/cancel", true, true, &answer);

        return code == CLI_EXIT_OK ? report(cli, &answer) : code;
}

int run_lease_supersede(struct cli *cli)
{
        struct control_answer answer;
        int code = post(cli, "/leases/supersede", false, true, &answer);

        return code == CLI_EXIT_OK ? report(cli, &answer) : code;
}

int run_lease_replay(struct cli *cli)
{
        struct control_answer answer;
        int code = post(cli, "/leases/replay", false, false, &answer);

        return code == CLI_EXIT_OK ? report(cli, &answer) : code;
}

/* --- Submitting --- */

/* --ttl and --timeout. */
static int put_span(struct cli *cli, struct json_writer *w, const char *option, const char *member)
{
        const char *text = cli_option(cli, option);
        int64_t ms;

        if (text == NULL)
                return CLI_EXIT_OK;
        if (args_duration(text, &ms) < 0 || ms < 1)
                return cli_misuse(cli, "--%s: \"%s\" is no time, such as 90s or 2h", option, text);
        json_member_int(w, member, ms);
        return CLI_EXIT_OK;
}

static int put_terms(struct cli *cli, struct json_writer *w)
{
        static const struct {
                const char *option, *member;
        } texts[] = {{"repo", "repo"},
                     {"tier", "tier"},
                     {"workspace", "workspace"},
                     {"name", "taskName"},
                     {"size", "computeSize"},
                     {"bundled", "e3Version"},
                     {"environment", "environment"},
                     {"task", "task"},
                     {"owner", "owner"},
                     {"run", "run"},
                     {"key", "key"}};
        const char *attempts = cli_option(cli, "attempts");
        int64_t limit = 0;
        int code;

        for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
                json_member_cstr(w, texts[i].member, cli_option(cli, texts[i].option));
        if (cli_switch(cli, "share"))
                json_member_bool(w, "share", true);
        if (attempts != NULL && args_number(attempts, 1, LIMIT_LEASE_ATTEMPTS, &limit) < 0)
                return cli_misuse(cli, "--attempts: \"%s\" is no number from 1 to %d", attempts,
                                  LIMIT_LEASE_ATTEMPTS);
        if (attempts != NULL)
                json_member_int(w, "attemptLimit", limit);
        code = put_span(cli, w, "ttl", "ttlMs");
        return code == CLI_EXIT_OK ? put_span(cli, w, "timeout", "timeoutMs") : code;
}

/* The event goes as it is spelled in its file. */
static int put_event(struct cli *cli, struct json_writer *w, const char *path)
{
        _cleanup_(buf_done) struct buf text = {0};
        const char *problem = NULL;
        struct json *event;
        int code = input_read(cli, path, LIMIT_BODY_LEASE, &text);

        if (code != CLI_EXIT_OK)
                return code;
        if (json_read_file_text(buf_view(&text), cli->arena, &event, &problem) < 0 ||
            !json_is(event, JSON_OBJECT))
                return cli_fail(cli, CLI_EXIT_FAILED, "%s: no JSON object%s%s", path,
                                problem == NULL ? "" : ": ", problem == NULL ? "" : problem);
        json_member_raw(w, "event", buf_view(&text));
        return CLI_EXIT_OK;
}

int run_lease_create(struct cli *cli)
{
        const char *event = cli_option(cli, "event"), *task = cli_option(cli, "task");
        _cleanup_(buf_done) struct buf body = {0};
        struct control_answer answer;
        const struct json *lease;
        struct json_writer w;
        int code;

        if (cli_option(cli, "repo") == NULL || cli_option(cli, "tier") == NULL)
                return cli_misuse(cli, "give --repo REPO and --tier TIER");
        if ((event == NULL) == (task == NULL))
                return cli_misuse(cli, "give either --task HASH or --event FILE");
        if (task == NULL && cli_option(cli, "timeout") != NULL)
                return cli_misuse(cli, "--timeout goes with --task: an event has its own");
        if (cli_switch(cli, "share") && cli_option(cli, "key") == NULL)
                return cli_misuse(cli, "--share goes with --key");
        json_writer_init(&w, &body);
        json_open_object(&w);
        code = put_terms(cli, &w);
        if (code == CLI_EXIT_OK && event != NULL)
                code = put_event(cli, &w, event);
        if (code != CLI_EXIT_OK)
                return code;
        json_close_object(&w);
        code = control_post(cli, "/leases/create", &body, &answer);
        if (code != CLI_EXIT_OK)
                return code;
        lease = json_member_named(answer.root, "lease");
        return control_report(cli, &answer, "lease %lld %s: %s", (long long)control_int(lease, "number"),
                              control_true(answer.root, "created") ? "waits for a rack" : "was there already",
                              control_text(lease, "leaseId"));
}
