/* SPDX-License-Identifier: MIT */
#include <string.h>

#include "base/clock.h"
#include "base/limits.h"
#include "base/macro.h"
#include "lessor/args.h"
#include "lessor/commands.h"
#include "lessor/control_client.h"
#include "lessor/input.h"
#include "lessor/list.h"
#include "lessor/rack_name.h"

/* Racks: the machines that work on leases. What they do themselves is in rack_run.c. */

/* --- Which rack --- */

static bool begins_with(const char *text, const char *beginning)
{
        return strncmp(text, beginning, strlen(beginning)) == 0;
}

/* Its whole id or label counts before a beginning of its id. */
static const struct json *find(const struct json *racks, const char *name, size_t *ret_n)
{
        const struct json *found = NULL;
        size_t n = 0;

        json_each (rack, racks)
                if (strcmp(control_text(rack, "rackId"), name) == 0) {
                        *ret_n = 1;
                        return rack;
                }
        json_each (rack, racks)
                if (strcmp(control_text(rack, "label"), name) == 0) {
                        found = rack;
                        n++;
                }
        for (const struct json *rack = n > 0 ? NULL : json_first(racks); rack != NULL; rack = rack->next)
                if (begins_with(control_text(rack, "rackId"), name)) {
                        found = rack;
                        n++;
                }
        *ret_n = n;
        return found;
}

int rack_resolve(struct cli *cli, const char *name, const struct json **ret_rack)
{
        struct control_answer answer;
        const struct json *found;
        size_t n = 0;
        int code = control_get(cli, "/racks", &answer);

        if (code != CLI_EXIT_OK)
                return code;
        found = find(json_member_named(answer.root, "racks"), name, &n);
        if (n == 0)
                return cli_fail(cli, CLI_EXIT_NOT_FOUND,
                                "there is no rack \"%s\"; `lessor rack ls` lists them", name);
        if (n > 1)
                return cli_fail(cli, CLI_EXIT_REFUSED, "\"%s\" may be any of %zu racks: give more of its id",
                                name, n);
        *ret_rack = found;
        return CLI_EXIT_OK;
}

/* How a rack is called in sentences: by its label, if it has one. */
static const char *called(const struct json *rack)
{
        const char *label = control_text(rack, "label");

        return label[0] == '\0' ? control_text(rack, "rackId") : label;
}

/* --- Looking --- */

static enum output_colour state_colour(const char *state)
{
        if (strcmp(state, "ready") == 0 || strcmp(state, "busy") == 0)
                return COLOUR_GREEN;
        if (strcmp(state, "new") == 0 || strcmp(state, "draining") == 0 ||
            strcmp(state, "awaiting-approval") == 0)
                return COLOUR_YELLOW;
        return COLOUR_RED;
}

static void append_tiers(struct buf *out, const struct json *rack)
{
        const struct json *tiers = json_member_named(rack, "tiers");

        json_each (tier, tiers)
                buf_printf(out, "%s%s", tier == json_first(tiers) ? "" : ", ", control_value(tier));
}

static void put_rack(struct output_table *t, const struct json *rack, int64_t now_ms)
{
        struct lessor_slice state = control_slice(rack, "state");
        struct buf cell = {0};

        output_cell(t, control_slice(rack, "rackId"), COLOUR_NONE);
        list_text(t, rack, "label");
        output_cell(t, state, state_colour(control_text(rack, "state")));
        append_tiers(&cell, rack);
        output_cell(t, cell.n == 0 ? LESSOR_SLICE("-") : buf_view(&cell), COLOUR_NONE);
        buf_clear(&cell);
        buf_printf(&cell, "%lld/%lld", (long long)control_int(rack, "leases"),
                   (long long)control_int(rack, "capacity"));
        output_cell(t, buf_view(&cell), COLOUR_NONE);
        buf_done(&cell);
        /* Apart, since a rack whose heart beats and that asks for nothing looks well otherwise. */
        list_when(t, control_int(rack, "lastPollAt"), now_ms, COLOUR_NONE);
        list_when(t, control_int(rack, "lastBeatAt"), now_ms, COLOUR_NONE);
        list_text(t, rack, "agentVersion");
}

int run_rack_ls(struct cli *cli)
{
        static const char *const titles[] = {"RACK",    "LABEL",     "STATE",     "TIERS",
                                             ">LEASES", "LAST POLL", "LAST BEAT", "AGENT"};
        const struct list list = {
                .path = "/racks",
                .member = "racks",
                .titles = titles,
                .n_titles = 8,
                .none = "no racks yet; `lessor rack token` mints a token for one to join with",
                .row = put_rack};

        return list_show(cli, &list);
}

static void write_rack(struct buf *out, const struct json *rack, int64_t now_ms)
{
        _cleanup_(buf_done) struct buf tiers = {0};

        append_tiers(&tiers, rack);
        output_line(out, "rack", control_text(rack, "rackId"));
        output_line(out, "label", control_text(rack, "label"));
        output_line(out, "state", control_text(rack, "state"));
        output_line(out, "tiers", tiers.p == NULL ? "" : tiers.p);
        output_line_int(out, "capacity", control_int(rack, "capacity"));
        output_line_int(out, "leases", control_int(rack, "leases"));
        output_line(out, "agent", control_text(rack, "agentVersion"));
        output_line(out, "bundled e3", control_text(rack, "e3Version"));
        output_line(out, "healthy", control_true(rack, "healthy") ? "yes" : "no: it says so itself");
        output_line(out, "draining", control_true(rack, "draining") ? "yes" : "");
        output_line(out, "boot", control_text(rack, "lastBoot"));
        output_line(out, "approved", control_text(rack, "approvedBoot"));
        output_line_when(out, "enrolled", control_int(rack, "enrolledAt"), now_ms);
        output_line_when(out, "last poll", control_int(rack, "lastPollAt"), now_ms);
        output_line_when(out, "last beat", control_int(rack, "lastBeatAt"), now_ms);
}

/* The server's answer about one rack, for --json. */
static int get_rack(struct cli *cli, const char *id, struct control_answer *ret_answer)
{
        _cleanup_(buf_done) struct buf path = {0};

        buf_text(&path, "/racks");
        control_query(&path, "rack", id);
        if (buf_failed(&path) < 0)
                return cli_fail_nomem(cli);
        return control_get(cli, path.p, ret_answer);
}

int run_rack_show(struct cli *cli)
{
        struct control_answer answer = {0};
        const struct json *rack = NULL;
        struct buf out = {0};
        int code = rack_resolve(cli, cli->args[0], &rack);

        if (code == CLI_EXIT_OK)
                code = get_rack(cli, control_text(rack, "rackId"), &answer);
        if (code != CLI_EXIT_OK)
                return code;
        if (cli->json)
                return control_print(cli, &answer);
        write_rack(&out, json_first(json_member_named(answer.root, "racks")), clock_now_ms(clock_wall()));
        return output_print(cli, &out);
}

static void put_activity(struct output_table *t, const struct json *entry, int64_t now_ms)
{
        const char *outcome = control_text(entry, "outcome");

        list_number(t, control_int(entry, "number"), COLOUR_NONE);
        list_text(t, entry, "repo");
        list_text(t, entry, "taskName");
        list_text(t, entry, "tier");
        output_cell(t, control_slice(entry, outcome[0] == '\0' ? "status" : "outcome"),
                    strcmp(outcome, "success") == 0 ? COLOUR_GREEN
                    : outcome[0] != '\0'            ? COLOUR_RED
                                                    : COLOUR_NONE);
        list_when(t, control_int(entry, "claimedAt"), now_ms, COLOUR_DIM);
        list_when(t, control_int(entry, "completedAt"), now_ms, COLOUR_DIM);
        list_text(t, entry, "error");
}

int run_rack_activity(struct cli *cli)
{
        static const char *const titles[] = {">LEASE",  "REPO",    "TASK",  "TIER",
                                             "OUTCOME", "CLAIMED", "ENDED", "ERROR"};
        const char *limit = cli_option(cli, "limit");
        _cleanup_(buf_done) struct buf path = {0};
        const struct json *rack = NULL;
        struct list list = {.member = "activity",
                            .titles = titles,
                            .n_titles = 8,
                            .none = "this rack has claimed nothing that is still remembered",
                            .row = put_activity};
        int code;

        if (limit != NULL && args_number(limit, 1, LIMIT_CONTROL_LEASES, &(int64_t){0}) < 0)
                return cli_misuse(cli, "--limit: \"%s\" is no number from 1 to %d", limit,
                                  (int)LIMIT_CONTROL_LEASES);
        code = rack_resolve(cli, cli->args[0], &rack);
        if (code != CLI_EXIT_OK)
                return code;
        buf_text(&path, "/racks/activity");
        control_query(&path, "rack", control_text(rack, "rackId"));
        control_query(&path, "limit", limit);
        if (buf_failed(&path) < 0)
                return cli_fail_nomem(cli);
        list.path = path.p;
        return list_show(cli, &list);
}

/* --- Changing --- */

/* Asks on a terminal, unless --yes. */
static int confirm(struct cli *cli, const char *question)
{
        _cleanup_(buf_done) struct buf shown = {0};

        if (cli_switch(cli, "yes") || !input_is_terminal())
                return CLI_EXIT_OK;
        if (output_safe(&shown, lessor_slice_of(question)) < 0)
                return cli_fail_nomem(cli);
        return input_confirm(shown.p) ? CLI_EXIT_OK : cli_fail(cli, CLI_EXIT_REFUSED, "nothing was changed");
}

/*
 * What is approved is the start that the operator has seen, so that one which comes in between is not: the
 * boot of --boot, or the one that is there now.
 */
int run_rack_approve(struct cli *cli)
{
        _cleanup_(buf_done) struct buf question = {0};
        const char *boot = cli_option(cli, "boot");
        struct control_answer answer;
        const struct json *rack = NULL;
        int code = rack_resolve(cli, cli->args[0], &rack);

        if (code != CLI_EXIT_OK)
                return code;
        if (boot == NULL) {
                if (json_member_named(rack, "lastBoot") == NULL)
                        return cli_fail(cli, CLI_EXIT_REFUSED,
                                        "rack %s has not been heard of yet, so there is no start to approve",
                                        called(rack));
                boot = control_text(rack, "lastBoot");
                buf_printf(&question, "rack %s, agent %s, started as boot %s: approve it?", called(rack),
                           control_text(rack, "agentVersion"), boot);
                if (buf_failed(&question) < 0)
                        return cli_fail_nomem(cli);
                code = confirm(cli, question.p);
        }
        if (code == CLI_EXIT_OK)
                code = control_post_texts(cli, "/racks/approve", &answer, "rackId",
                                          control_text(rack, "rackId"), "bootId", boot, NULL);
        if (code != CLI_EXIT_OK)
                return code;
        return control_report(cli, &answer, "boot %s of rack %s is approved", boot, called(rack));
}

static int drain(struct cli *cli, bool draining, const char *done)
{
        _cleanup_(buf_done) struct buf body = {0};
        struct control_answer answer;
        const struct json *rack = NULL;
        struct json_writer w;
        int code = rack_resolve(cli, cli->args[0], &rack);

        if (code != CLI_EXIT_OK)
                return code;
        json_writer_init(&w, &body);
        json_open_object(&w);
        json_member_cstr(&w, "rackId", control_text(rack, "rackId"));
        json_member_bool(&w, "draining", draining);
        json_close_object(&w);
        code = control_post(cli, "/racks/drain", &body, &answer);
        if (code != CLI_EXIT_OK)
                return code;
        return control_report(cli, &answer, "rack %s %s", called(rack), done);
}

int run_rack_drain(struct cli *cli)
{
        return drain(cli, true, "is draining: it keeps its leases, and is given no more");
}

int run_rack_undrain(struct cli *cli)
{
        return drain(cli, false, "is given leases again");
}

int run_rack_rm(struct cli *cli)
{
        _cleanup_(buf_done) struct buf question = {0};
        struct control_answer answer;
        const struct json *rack = NULL;
        long long n;
        int code = rack_resolve(cli, cli->args[0], &rack);

        if (code != CLI_EXIT_OK)
                return code;
        n = (long long)control_int(rack, "leases");
        buf_printf(&question, "rack %s (%s) holds %lld lease%s, which end%s with it: remove it?",
                   called(rack), control_text(rack, "rackId"), n, n == 1 ? "" : "s", n == 1 ? "s" : "");
        if (buf_failed(&question) < 0)
                return cli_fail_nomem(cli);
        code = confirm(cli, question.p);
        if (code == CLI_EXIT_OK)
                code = control_post_texts(cli, "/racks/remove", &answer, "rackId",
                                          control_text(rack, "rackId"), NULL);
        if (code != CLI_EXIT_OK)
                return code;
        n = (long long)control_int(answer.root, "superseded");
        return control_report(cli, &answer, "rack %s is gone, and its token dead; %lld lease%s superseded",
                              called(rack), n, n == 1 ? " was" : "s were");
}

int run_rack_policy(struct cli *cli)
{
        struct control_answer answer;
        struct buf body = {0};
        bool wanted;
        int code;

        if (cli->n_args == 0) {
                code = control_get(cli, "/racks/policy", &answer);
        } else {
                wanted = strcmp(cli->args[0], "approval") == 0;
                if (!wanted && strcmp(cli->args[0], "open") != 0)
                        return cli_misuse(cli, "\"%s\" is neither open nor approval", cli->args[0]);
                buf_printf(&body, "{\"requireStartApproval\":%s}", wanted ? "true" : "false");
                code = control_put(cli, "/racks/policy", &body, &answer);
                buf_done(&body);
        }
        if (code != CLI_EXIT_OK)
                return code;
        return control_report(cli, &answer, "%s",
                              control_true(answer.root, "requireStartApproval")
                                      ? "approval: each start of a rack has to be approved, but for its first"
                                      : "open: racks start without being approved");
}
