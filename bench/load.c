/* SPDX-License-Identifier: MIT */
#include <getopt.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/file.h"
#include "bench.h"
#include "lessor/error.h"
#include "machine.h"

/* The benchmark: starts what it measures, loads it, tells the figures. `load --help` lists the options. */

static const struct {
        const char *name;
        int (*run)(struct bench *bench);
        const char *help;
} measurements[] = {
        {"claims", bench_claims, "signed claims a second on one core, over raw verification"},
        {"lifecycles", bench_lifecycles, "whole lives of jobs a second; memory, sqlite, the peer"},
        {"depth", bench_depth, "claim latency and memory with many jobs queued"},
        {"idle", bench_idle, "memory and CPU time of idle connections"},
        {"envelope", bench_envelope, "memory that a 6 MiB envelope takes"},
        {"lease-lives", bench_lease_lives, "lives of leases a second in the sqlite store, over bare SQLite"},
        {"lease-claims", bench_lease_claims, "what a claim costs beside leases that it may not have"},
        {"pickup", bench_pickup, "from a new lease to the machine that waits for it"},
        {"parked", bench_parked, "memory and CPU time of racks that wait, and of waking one"},
        {"bytes", bench_bytes, "objects out and in, over nginx or sendfile and sha256sum"},
};

int bench_failed(int error, const char *what)
{
        fprintf(stderr, "load: %s: %s\n", what, lessor_error_text(error));
        return error;
}

const char *const *bench_stores(const struct bench *bench)
{
        static const char *const all[] = {"memory", "sqlite", NULL};
        static const char *one[2];

        if (bench->only_store == NULL)
                return all;
        one[0] = bench->only_store;
        return one;
}

int bench_start(const struct bench *bench, const char *store, const struct world *world,
                struct subject **ret_subject)
{
        const char *const arguments[] = {bench->lessord,
                                         "--listen",
                                         "127.0.0.1:0",
                                         "--data",
                                         "@DIR/data",
                                         "--store",
                                         store,
                                         "--projection",
                                         "@DIR/projection.json",
                                         "--threads",
                                         "1",
                                         "--log-level",
                                         bench->log_level,
                                         NULL};
        _cleanup_(buf_done) struct buf projection = {0};
        int e = world_projection(world, &projection);

        return e < 0 ? e : subject_start(arguments, buf_view(&projection), ret_subject);
}

enum {
        OPTION_LESSORD = 256,
        OPTION_ONLY,
        OPTION_STORE,
        OPTION_ROUNDS,
        OPTION_SECONDS,
        OPTION_LANES,
        OPTION_DEVICES,
        OPTION_HELD,
        OPTION_JOBS,
        OPTION_CONNECTIONS,
        OPTION_QUICK,
        OPTION_PEER,
        OPTION_PEER_SCRIPT,
        OPTION_NODE,
        OPTION_LOG_LEVEL,
        OPTION_PROFILE,
        OPTION_JSON,
        OPTION_PAGE,
        OPTION_COMMAND,
        OPTION_HELP,
};

static const struct option options[] = {
        {"lessord", required_argument, NULL, OPTION_LESSORD},
        {"only", required_argument, NULL, OPTION_ONLY},
        {"store", required_argument, NULL, OPTION_STORE},
        {"rounds", required_argument, NULL, OPTION_ROUNDS},
        {"seconds", required_argument, NULL, OPTION_SECONDS},
        {"lanes", required_argument, NULL, OPTION_LANES},
        {"devices", required_argument, NULL, OPTION_DEVICES},
        {"held", required_argument, NULL, OPTION_HELD},
        {"jobs", required_argument, NULL, OPTION_JOBS},
        {"connections", required_argument, NULL, OPTION_CONNECTIONS},
        {"quick", no_argument, NULL, OPTION_QUICK},
        {"peer", required_argument, NULL, OPTION_PEER},
        {"peer-script", required_argument, NULL, OPTION_PEER_SCRIPT},
        {"node", required_argument, NULL, OPTION_NODE},
        {"log-level", required_argument, NULL, OPTION_LOG_LEVEL},
        {"profile", required_argument, NULL, OPTION_PROFILE},
        {"json", required_argument, NULL, OPTION_JSON},
        {"page", required_argument, NULL, OPTION_PAGE},
        {"command", required_argument, NULL, OPTION_COMMAND},
        {"help", no_argument, NULL, OPTION_HELP},
        {NULL, 0, NULL, 0},
};

static const char help[] =
        "Usage: load [OPTION...]\n\n"
        "Measures lessord and prints a table.\n\n"
        "  --lessord PROGRAM    the server (default build/lessord)\n"
        "  --only NAME,...      some of the measurements, see below\n"
        "  --store NAME         memory or sqlite alone\n"
        "  --quick              small and short, to see that it works\n"
        "  --rounds N           of each measurement that is repeated (default 5)\n"
        "  --seconds N          one round of lifecycles (default 5)\n"
        "  --lanes N            connections of the throughput measurements (default 64)\n"
        "  --devices N          that claim (default 16000)\n"
        "  --held N             jobs held during the second run of lifecycles (default 10000)\n"
        "  --jobs N             queued, in the deep queue and beside claims of leases (default 1000000)\n"
        "  --connections N      that idle, and racks that wait (default 10000)\n"
        "  --peer URL           a reference relay to compare lifecycles with; takes POST /test/project\n"
        "  --peer-script FILE   or the script that node runs to serve one\n"
        "  --node PROGRAM       (default node)\n"
        "  --log-level LEVEL    of lessord (default warning)\n"
        "  --profile DIR        let perf watch the server; slows it down\n"
        "  --json FILE          also write the figures as JSON\n"
        "  --page FILE          and as Markdown\n"
        "  --command TEXT       what made it, for the report\n\n"
        "Measurements:\n";

/* The command line, besides what struct bench has. Texts are borrowed. */
struct request {
        const char *only, *json, *page, *command;
        bool help;
};

static void be_quick(struct bench *bench)
{
        bench->rounds = 1;
        bench->seconds = 1;
        bench->devices = 2000;
        bench->held = 1000;
        bench->jobs = 50000;
        bench->connections = 1000;
}

static bool positive(const char *text, unsigned *ret_number)
{
        char *end;
        unsigned long number = strtoul(text, &end, 10);

        if (*text < '0' || *text > '9' || *end != '\0' || number == 0 || number > 100000000)
                return false;
        *ret_number = (unsigned)number;
        return true;
}

static bool read_options(int argc, char **argv, struct bench *bench, struct request *request)
{
        bool good = true;
        int option;

        while (good && (option = getopt_long(argc, argv, "", options, NULL)) != -1) {
                switch (option) {
                case OPTION_LESSORD:
                        bench->lessord = optarg;
                        break;
                case OPTION_ONLY:
                        request->only = optarg;
                        break;
                case OPTION_STORE:
                        bench->only_store = optarg;
                        break;
                case OPTION_ROUNDS:
                        good = positive(optarg, &bench->rounds);
                        break;
                case OPTION_SECONDS:
                        bench->seconds = strtod(optarg, NULL);
                        good = bench->seconds > 0;
                        break;
                case OPTION_LANES:
                        good = positive(optarg, &bench->lanes);
                        break;
                case OPTION_DEVICES:
                        good = positive(optarg, &bench->devices);
                        break;
                case OPTION_HELD:
                        good = positive(optarg, &bench->held);
                        break;
                case OPTION_JOBS:
                        good = positive(optarg, &bench->jobs);
                        break;
                case OPTION_CONNECTIONS:
                        good = positive(optarg, &bench->connections);
                        break;
                case OPTION_QUICK:
                        be_quick(bench);
                        break;
                case OPTION_PEER:
                        bench->peer_url = optarg;
                        break;
                case OPTION_PEER_SCRIPT:
                        bench->peer_script = optarg;
                        break;
                case OPTION_NODE:
                        bench->node = optarg;
                        break;
                case OPTION_LOG_LEVEL:
                        bench->log_level = optarg;
                        break;
                case OPTION_PROFILE:
                        bench->profile = optarg;
                        break;
                case OPTION_JSON:
                        request->json = optarg;
                        break;
                case OPTION_PAGE:
                        request->page = optarg;
                        break;
                case OPTION_COMMAND:
                        request->command = optarg;
                        break;
                case OPTION_HELP:
                        request->help = true;
                        break;
                default:
                        good = false;
                        break;
                }
        }
        return good && optind == argc;
}

static bool is_wanted(const char *only, const char *name)
{
        size_t n = strlen(name);

        if (only == NULL)
                return true;
        for (const char *at = only; at != NULL && *at != '\0'; at = strchr(at, ',')) {
                at += *at == ',';
                if (strncmp(at, name, n) == 0 && (at[n] == ',' || at[n] == '\0'))
                        return true;
        }
        return false;
}

static int describe_run(struct report *report, int argc, char **argv, const char *command)
{
        char day[16];
        time_t now = time(NULL);
        struct tm tm;

        strftime(day, sizeof(day), "%Y-%m-%d", gmtime_r(&now, &tm));
        buf_text(&report->when, day);
        machine_facts(&report->machine);
        if (command != NULL) {
                buf_text(&report->command, command);
        } else {
                for (int i = 0; i < argc; i++)
                        buf_printf(&report->command, "%s%s", i == 0 ? "" : " ", argv[i]);
        }
        return buf_failed(&report->command) < 0 || buf_failed(&report->machine) < 0 ? LESSOR_E_NOMEM : 0;
}

static int write_file(const struct report *report, int (*render)(const struct report *, struct buf *),
                      const char *path)
{
        _cleanup_(buf_done) struct buf text = {0};
        int e;

        if (path == NULL)
                return 0;
        e = render(report, &text);
        if (e == 0)
                e = file_replace(path, buf_view(&text), 0644);
        return e < 0 ? bench_failed(e, path) : 0;
}

static int run(struct bench *bench, const struct request *request)
{
        _cleanup_(buf_done) struct buf table = {0};
        bool any = false;
        int e = 0;

        for (size_t i = 0; i < ARRAY_SIZE(measurements) && e == 0; i++)
                if (is_wanted(request->only, measurements[i].name)) {
                        any = true;
                        e = measurements[i].run(bench);
                }
        if (!any) {
                fprintf(stderr, "load: no such measurement: %s\n", request->only);
                return LESSOR_E_INVALID;
        }
        if (e == 0)
                e = report_table(&bench->report, &table);
        if (e < 0)
                return e;
        fwrite(table.p, 1, table.n, stdout);
        e = write_file(&bench->report, report_json, request->json);
        return e < 0 ? e : write_file(&bench->report, report_page, request->page);
}

/* Exits with 0 whether or not the targets are met: the table tells. 1 when a measurement failed, 2 for usage.
 */
int main(int argc, char **argv)
{
        struct bench bench = {.lessord = "build/lessord",
                              .node = "node",
                              .log_level = "warning",
                              .rounds = 5,
                              .lanes = 64,
                              .seconds = 5,
                              .devices = 16000,
                              .held = 10000,
                              .jobs = 1000000,
                              .connections = 10000};
        struct request request = {0};
        int e;

        if (!read_options(argc, argv, &bench, &request)) {
                fputs("load: see --help\n", stderr);
                return 2;
        }
        if (request.help) {
                fputs(help, stdout);
                for (size_t i = 0; i < ARRAY_SIZE(measurements); i++)
                        printf("  %-20s %s\n", measurements[i].name, measurements[i].help);
                return 0;
        }
        if (sodium_init() < 0)
                return 1;
        pin_to_core(CORE_GENERATOR);
        (void)raise_open_files(bench.connections + 1000);
        e = describe_run(&bench.report, argc, argv, request.command);
        if (e == 0)
                e = run(&bench, &request);
        report_done(&bench.report);
        return e < 0 ? 1 : 0;
}
