/* SPDX-License-Identifier: MIT */
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "lessor/error.h"
#include "machine.h"
#include "profile.h"
#include "requests.h"
#include "traffic.h"
#include "verification.h"

/* Signed claims a second on one core, beside what verifying signatures alone costs there. */

#define N_SITES         64
#define JOBS_PER_DEVICE 2 /* UNSEALED_PER_PAIR: more would not be granted before they are sealed */

static int make_claims(const struct world *world, unsigned per_device, struct request_list *list)
{
        int e = 0;

        request_list_clear(list);
        for (unsigned k = 0; k < per_device && e == 0; k++)
                for (unsigned i = 0; i < world->n_devices && e == 0; i++) {
                        e = request_claim(&world->devices[i], 1, &list->text);
                        if (e == 0)
                                e = request_list_close(list);
                }
        return e;
}

static int make_jobs(const struct world *world, struct request_list *list)
{
        char id[48];
        int e = 0;

        request_list_clear(list);
        for (unsigned k = 0; k < JOBS_PER_DEVICE && e == 0; k++)
                for (unsigned i = 0; i < world->n_devices && e == 0; i++) {
                        snprintf(id, sizeof(id), "job-%u-%u", i, k);
                        e = request_enqueue(world, world->devices[i].site, world->devices[i].owner, id,
                                            JOB_KIND, &list->text);
                        if (e == 0)
                                e = request_list_close(list);
                }
        return e;
}

/* The figures of one kind of request over all rounds. */
struct kind {
        struct series wall, cpu;             /* requests a second */
        struct series wall_ratio, cpu_ratio; /* of raw verifications */
        struct series generator;             /* share of its core that the generator used */
        struct percentiles latencies;
};

struct round {
        struct subject *subject;
        struct traffic *traffic;
        struct request_list list;
        struct series *raw_wall, *raw_cpu; /* of verifying alone, over all rounds */
        const char *profile;               /* directory for profiles, or NULL */
};

/* Sends the round's list while the server is watched. */
static int send_watched(struct round *round, const char *name, struct request_outcome *outcome,
                        struct rate *ret_rate, double *ret_generator)
{
        uint64_t cpu_ns, cpu_after_ns, own_ns;
        pid_t perf;
        int e;

        perf = profile_begin(round->profile, name, round->subject->pid);
        own_ns = own_cpu_ns();
        e = process_cpu_ns(round->subject->pid, &cpu_ns);
        if (e == 0)
                e = request_list_send(&round->list, round->traffic, outcome);
        own_ns = own_cpu_ns() - own_ns;
        if (e == 0)
                e = process_cpu_ns(round->subject->pid, &cpu_after_ns);
        profile_end(perf);
        if (e < 0)
                return e;
        ret_rate->wall = (double)round->list.n * 1e9 / (double)outcome->elapsed_ns;
        ret_rate->cpu = (double)round->list.n * 1e9 / (double)(cpu_after_ns - cpu_ns);
        *ret_generator = (double)own_ns / (double)outcome->elapsed_ns;
        return 0;
}

/* Sends the list between two measurements of verifying alone, and notes how it went. */
static int timed(struct round *round, struct kind *kind, const char *name, size_t *ret_n_empty)
{
        struct request_outcome *outcome = malloc(sizeof(*outcome));
        struct rate before, after, rate;
        double generator;
        int e;

        if (outcome == NULL)
                return LESSOR_E_NOMEM;
        e = verification_measure(&before);
        if (e == 0)
                e = send_watched(round, name, outcome, &rate, &generator);
        if (e == 0)
                e = verification_measure(&after);
        if (e == 0) {
                struct rate raw = {(before.wall + after.wall) / 2, (before.cpu + after.cpu) / 2};

                series_add(round->raw_wall, raw.wall);
                series_add(round->raw_cpu, raw.cpu);
                series_add(&kind->wall, rate.wall);
                series_add(&kind->cpu, rate.cpu);
                series_add(&kind->wall_ratio, rate.wall / raw.wall);
                series_add(&kind->cpu_ratio, rate.cpu / raw.cpu);
                series_add(&kind->generator, generator);
                percentiles_merge(&kind->latencies, &outcome->latencies);
                *ret_n_empty = outcome->n_empty;
        }
        free(outcome);
        return e;
}

enum { EMPTY, ENQUEUE, GRANTING, N_KINDS };

static int run_round(const struct world *world, struct round *round, struct kind *kinds)
{
        static struct kind warm_up; /* makes every device known; its figures are not used */
        size_t n_empty;
        int e;

        e = make_claims(world, 1, &round->list);
        if (e == 0)
                e = timed(round, &warm_up, "warm-up", &n_empty);
        if (e == 0)
                e = make_claims(world, 1, &round->list);
        if (e == 0)
                e = timed(round, &kinds[EMPTY], "empty-claims", &n_empty);
        if (e == 0)
                e = make_jobs(world, &round->list);
        if (e == 0)
                e = timed(round, &kinds[ENQUEUE], "enqueues", &n_empty);
        if (e == 0)
                e = make_claims(world, JOBS_PER_DEVICE, &round->list);
        if (e == 0)
                e = timed(round, &kinds[GRANTING], "granting-claims", &n_empty);
        if (e == 0 && n_empty > 0) {
                fprintf(stderr, "load: %zu of %zu claims were granted nothing\n", n_empty, round->list.n);
                return LESSOR_E_PROTOCOL;
        }
        return e;
}

static int one_round(struct bench *bench, const char *store, const struct world *world, struct kind *kinds,
                     struct series *raw_wall, struct series *raw_cpu)
{
        struct round round = {.raw_wall = raw_wall, .raw_cpu = raw_cpu, .profile = bench->profile};
        int e = bench_start(bench, store, world, &round.subject);

        if (e == 0)
                e = traffic_open(round.subject->port, bench->lanes, &round.traffic);
        if (e == 0)
                e = run_round(world, &round, kinds);
        traffic_free(round.traffic);
        subject_free(round.subject);
        request_list_done(&round.list);
        return e;
}

static int tell(struct report *report, const char *store, const struct kind *kind, const char *what)
{
        int e = report_value(report, series_median(&kind->wall), "/s", "%s, %s", what, store);

        if (e == 0)
                e = report_value(report, 1e6 / series_median(&kind->cpu), "us", "server CPU time of one, %s",
                                 store);
        return e;
}

static int measure_store(struct bench *bench, const char *store, const struct world *world)
{
        double target = strcmp(store, "memory") == 0 ? 0.80 : 0.65;
        struct report *report = &bench->report;
        struct kind *kinds = calloc(N_KINDS, sizeof(*kinds));
        struct series raw = {0}, raw_cpu = {0};
        int e = 0;

        if (kinds == NULL)
                return LESSOR_E_NOMEM;
        for (unsigned i = 0; i < bench->rounds && e == 0; i++)
                e = one_round(bench, store, world, kinds, &raw, &raw_cpu);
        if (e == 0)
                e = report_value(report, series_median(&raw), "/s", "crypto_sign_verify_detached alone");
        if (e == 0)
                e = report_value(report, 1e6 / series_median(&raw_cpu), "us", "CPU time of one");
        if (e == 0)
                e = tell(report, store, &kinds[GRANTING], "claims, each granted one job");
        if (e == 0)
                e = report_target(report, series_median(&kinds[GRANTING].wall_ratio), "", REPORT_AT_LEAST,
                                  target, "granting claims over verifications, %s", store);
        if (e == 0)
                e = report_value(report, series_median(&kinds[GRANTING].cpu_ratio), "",
                                 "the same per CPU second, %s", store);
        if (e == 0)
                e = report_latencies(report, &kinds[GRANTING].latencies, store);
        if (e == 0)
                e = tell(report, store, &kinds[EMPTY], "claims that find nothing");
        if (e == 0)
                e = report_value(report, series_median(&kinds[EMPTY].wall_ratio), "",
                                 "empty claims over verifications, %s", store);
        if (e == 0)
                e = tell(report, store, &kinds[ENQUEUE], "enqueues");
        if (e == 0)
                e = report_value(report, series_median(&kinds[GRANTING].generator) * 100, "%",
                                 "generator's core in use, %s", store);
        free(kinds);
        return e;
}

int bench_claims(struct bench *bench)
{
        _cleanup_(world_freep) struct world *world = NULL;
        int e;

        e = report_section(
                &bench->report, "claims", "Signed claims on one core",
                "Devices, each with an owner of its own, claim over keep-alive connections; every claim is "
                "signed ahead by its device and asks for one job. First nothing is queued, then two jobs "
                "wait for each device (the most that one pair of site and owner may have unsealed), and "
                "every claim is granted one. Verifying alone is measured just before and just after "
                "on the server's core, while the generator sleeps: a thousand messages of 128 bytes, each by "
                "a key of its own. The "
                "generator looks for answers every 200 us instead of being woken, which on loopback the "
                "server "
                "would pay for. The "
                "ratio is taken by the clock; \"per CPU second\" divides both by the CPU time they used, "
                "which other programs on the machine disturb less.");
        if (e == 0)
                e = world_new(N_SITES, bench->devices, &world);
        for (const char *const *store = bench_stores(bench); e == 0 && *store != NULL; store++)
                e = measure_store(bench, *store, world);
        return e < 0 ? bench_failed(e, "claims") : 0;
}
