/* SPDX-License-Identifier: MIT */
#include <stdlib.h>
#include <string.h>

#include "base/macro.h"
#include "lessor/args.h"
#include "lessor/commands.h"
#include "lessor/rack_here.h"
#include "lessor/signals.h"

#define SLOTS_MAX     64
#define PROCESSES_MAX 4194304

DEFINE_CLEANUP(struct lessor_rack_agent, lessor_rack_agent_free)

static void free_text(char **text)
{
        free(*text);
}

/* Each leaves what the option is not given for as it is. Return an enum cli_exit. */
static int read_bytes(struct cli *cli, const char *name, int64_t *value)
{
        const char *text = cli_option(cli, name);

        if (text != NULL && (args_bytes(text, value) < 0 || *value == 0))
                return cli_misuse(cli, "--%s: \"%s\" is no amount of bytes, such as 512M or 10G", name, text);
        return CLI_EXIT_OK;
}

static int read_time(struct cli *cli, const char *name, int64_t *value)
{
        const char *text = cli_option(cli, name);

        if (text != NULL && args_duration(text, value) < 0)
                return cli_misuse(cli, "--%s: \"%s\" is no time, such as 30s or 2h", name, text);
        return CLI_EXIT_OK;
}

static int read_number(struct cli *cli, const char *name, int64_t most, int64_t *value)
{
        const char *text = cli_option(cli, name);

        if (text != NULL && args_number(text, 1, most, value) < 0)
                return cli_misuse(cli, "--%s: \"%s\" is no number from 1 to %lld", name, text,
                                  (long long)most);
        return CLI_EXIT_OK;
}

static int read_limits(struct cli *cli, struct lessor_rack_agent_options *options)
{
        int code = read_bytes(cli, "cache-bytes", &options->cache_bytes);

        if (code == CLI_EXIT_OK)
                code = read_time(cli, "time-limit", &options->limits.time_ms);
        if (code == CLI_EXIT_OK)
                code = read_bytes(cli, "memory", &options->limits.memory_bytes);
        if (code == CLI_EXIT_OK)
                code = read_bytes(cli, "disk", &options->limits.disk_bytes);
        if (code == CLI_EXIT_OK)
                code = read_number(cli, "processes", PROCESSES_MAX, &options->limits.processes);
        if (code == CLI_EXIT_OK)
                code = read_bytes(cli, "log-bytes", &options->limits.log_bytes);
        if (code == CLI_EXIT_OK)
                code = read_time(cli, "grace", &options->grace_ms);
        if (cli_option(cli, "grace") != NULL && options->grace_ms == 0)
                options->grace_ms = -1; /* none at all; 0 is the default */
        return code;
}

static int read_options(struct cli *cli, struct lessor_rack_agent_options *options)
{
        int64_t slots = 1;
        int code = read_number(cli, "slots", SLOTS_MAX, &slots);

        if (code == CLI_EXIT_OK)
                code = read_limits(cli, options);
        if (code != CLI_EXIT_OK)
                return code;
        options->dir = rack_here_dir(cli);
        options->slots = (size_t)slots;
        options->ca_file = cli_option(cli, "ca");
        options->proxy = cli_option(cli, "proxy");
        options->cache_dir = cli_option(cli, "cache-dir");
        options->work_dir = cli_option(cli, "work-dir");
        options->no_sandbox = cli_switch(cli, "no-sandbox");
        options->allow_network = cli_switch(cli, "allow-network");
        options->once = cli_switch(cli, "once");
        if (rack_here_list(cli, "tier", &options->tiers, &options->n_tiers) < 0 ||
            rack_here_list(cli, "share", &options->shares, &options->n_shares) < 0 ||
            rack_here_list(cli, "device", &options->devices, &options->n_devices) < 0)
                return cli_fail_nomem(cli);
        if (options->n_tiers == 0)
                return cli_misuse(cli, "give --tier TIER, such as shell: what this machine works for");
        return CLI_EXIT_OK;
}

/* What the operator has to know, whatever stderr is. */
static void warn(const struct lessor_rack_agent_options *options, const struct lessor_rack_agent_info *info)
{
        if (options->no_sandbox)
                fputs("lessor: warning: there is no sandbox: tasks can read and change whatever your user "
                      "can, "
                      "this rack's token included\n",
                      stderr);
        if (info->limits_note != NULL)
                fprintf(stderr, "lessor: note: %s\n", info->limits_note);
        if (info->n_kept > 0)
                fprintf(stderr, "lessor: note: %zu results of an earlier run are still to be delivered\n",
                        info->n_kept);
}

static void stop_agent(void *agent)
{
        lessor_rack_agent_stop(agent);
}

static int serve(struct cli *cli, struct lessor_rack_agent *agent)
{
        int e;

        signals_watch(stop_agent, agent);
        e = lessor_rack_agent_run(agent);
        signals_watch(NULL, NULL);
        switch (e) {
        case 0:
                return CLI_EXIT_OK;
        case LESSOR_E_PERMISSION:
                return cli_fail(cli, CLI_EXIT_REFUSED,
                                "the server does not know this rack any more: join again, with --replace");
        case LESSOR_E_AGENT_TOO_OLD:
                return cli_fail(cli, CLI_EXIT_REFUSED, "the server gives no work to this version: update it");
        default:
                return cli_fail_error(cli, e, "the rack stopped", NULL);
        }
}

int run_rack_run(struct cli *cli)
{
        _cleanup_(lessor_rack_agent_freep) struct lessor_rack_agent *agent = NULL;
        _cleanup_(free_text) char *problem = NULL;
        struct lessor_rack_agent_options options = {0};
        struct lessor_rack_agent_info info;
        struct rack_narrator narrator;
        int code = read_options(cli, &options), e;

        if (code != CLI_EXIT_OK)
                return code;
        rack_narrator_init(&narrator, cli->json);
        e = lessor_rack_agent_new(&options, rack_narrate, &narrator, &agent, &problem);
        if (e == LESSOR_E_NOT_FOUND && problem != NULL && strstr(problem, "rack.json") != NULL)
                return cli_fail(cli, CLI_EXIT_NOT_FOUND,
                                "%s holds no rack: `lessor rack join` makes this machine one", options.dir);
        if (e < 0)
                return cli_fail_error(cli, e, "the rack cannot start", problem);
        lessor_rack_agent_info(agent, &info);
        warn(&options, &info);
        if (!cli->json)
                fprintf(stderr, "rack %s works for %s\n", info.rack_id, info.url);
        return serve(cli, agent);
}
