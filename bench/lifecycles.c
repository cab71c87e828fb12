/* SPDX-License-Identifier: MIT */
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "exchange.h"
#include "filling.h"
#include "lessor/error.h"
#include "life.h"
#include "machine.h"
#include "profile.h"
#include "traffic.h"
#include "verification.h"

/*
 * Whole lives of jobs a second: over the stores of lessord, and beside the reference relay; from empty, and
 * while other jobs are held.
 */

#define N_SITES    8
#define TEXT_BYTES 1024
#define WARM_UP_NS 1000000000u /* node compiles what it finds to be hot */

struct run {
        struct life *lives; /* one a lane */
        unsigned n_lives;
        uint64_t end_ns; /* no new job afterwards */
        uint64_t n_done;
        struct percentiles *steps; /* LIFE_STEPS */
};

static int next(void *context, unsigned lane, struct lessor_slice *ret_request)
{
        struct run *run = context;
        struct life *life = &run->lives[lane];
        int e;

        if (life->step == LIFE_ENQUEUE && now_ns() >= run->end_ns)
                return 0;
        e = life_next(life);
        *ret_request = buf_view(&life->request);
        return e < 0 ? e : 1;
}

static int answered(void *context, unsigned lane, const struct traffic_answer *answer)
{
        struct run *run = context;
        struct life *life = &run->lives[lane];
        int e;

        percentiles_add(&run->steps[life->step], answer->elapsed_ns);
        e = life_answered(life, answer->status, answer->body);
        if (e < 0)
                fprintf(stderr, "load: %s\n", life->why);
        else if (life->step == LIFE_ENQUEUE)
                run->n_done++;
        return e;
}

enum { MEMORY, SQLITE, PEER, N_CONTESTANTS };

/* What is compared, with its figures over all rounds. */
struct contestant {
        const char *name;  /* for people */
        const char *store; /* of lessord; NULL: the reference relay */
        unsigned n_held;   /* other jobs that it holds, queued before the time is taken */
        struct series rate, cpu_us, generator;
        struct percentiles steps[LIFE_STEPS];
};

/* All that are compared with each other. */
struct match {
        char label[48]; /* for people: what they hold */
        struct contestant contestants[N_CONTESTANTS];
};

static int start_peer(const struct bench *bench, const struct world *world, struct subject **ret_subject)
{
        const char *const arguments[] = {bench->node, bench->peer_script,     "--port", "0",
                                         "--fixture", "@DIR/projection.json", NULL};
        _cleanup_(buf_done) struct buf projection = {0}, request = {0};
        _cleanup_(traffic_freep) struct traffic *traffic = NULL;
        _cleanup_(subject_freep) struct subject *subject = NULL;
        const char *colon;
        int e = world_projection(world, &projection);

        if (e < 0)
                return e;
        if (bench->peer_url == NULL)
                return subject_start(arguments, buf_view(&projection), ret_subject);
        subject = calloc(1, sizeof(*subject));
        if (subject == NULL)
                return LESSOR_E_NOMEM;
        subject->out = -1;
        colon = strrchr(bench->peer_url, ':');
        subject->port = colon == NULL ? 0 : (unsigned)strtoul(colon + 1, NULL, 10);
        buf_printf(&request,
                   "POST /test/project HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
                   "Content-Length: %zu\r\n\r\n",
                   projection.n);
        e = buf_slice(&request, buf_view(&projection));
        if (e == 0)
                e = traffic_open(subject->port, 1, &traffic);
        if (e == 0)
                e = exchange(traffic, buf_view(&request), NULL, NULL);
        if (e == 0)
                *ret_subject = TAKE(subject);
        return e;
}

static int drive(struct bench *bench, struct subject *subject, struct run *run, struct contestant *contestant)
{
        const struct traffic_plan plan = {.next = next, .answered = answered, .context = run};
        _cleanup_(traffic_freep) struct traffic *traffic = NULL;
        uint64_t begin_ns, cpu_ns = 0, cpu_after_ns = 0, own_ns;
        pid_t perf;
        int e = traffic_open(subject->port, run->n_lives, &traffic);

        run->end_ns = now_ns() + WARM_UP_NS;
        if (e == 0)
                e = traffic_run(traffic, &plan);
        if (e < 0)
                return e;
        run->n_done = 0;
        run->steps = contestant->steps;
        perf = profile_begin(bench->profile, contestant->name, subject->pid);
        if (subject->pid > 0)
                (void)process_cpu_ns(subject->pid, &cpu_ns);
        own_ns = own_cpu_ns();
        begin_ns = now_ns();
        run->end_ns = begin_ns + (uint64_t)(bench->seconds * 1e9);
        e = traffic_run(traffic, &plan);
        begin_ns = now_ns() - begin_ns;
        own_ns = own_cpu_ns() - own_ns;
        if (subject->pid > 0)
                (void)process_cpu_ns(subject->pid, &cpu_after_ns);
        profile_end(perf);
        if (e < 0)
                return e;
        series_add(&contestant->rate, (double)run->n_done * 1e9 / (double)begin_ns);
        series_add(&contestant->cpu_us, (double)(cpu_after_ns - cpu_ns) / 1e3 / (double)run->n_done);
        series_add(&contestant->generator, (double)own_ns / (double)begin_ns);
        return 0;
}

static int one_round(struct bench *bench, const struct world *world, struct contestant *contestant)
{
        _cleanup_(subject_freep) struct subject *subject = NULL;
        struct percentiles *warm_up = calloc(LIFE_STEPS, sizeof(*warm_up));
        struct run run = {.n_lives = bench->lanes, .steps = warm_up};
        char tag[24];
        int e;

        snprintf(tag, sizeof(tag), "%lld", (long long)wall_ms());
        run.lives = calloc(run.n_lives, sizeof(*run.lives));
        if (run.lives == NULL || warm_up == NULL) {
                free(run.lives);
                free(warm_up);
                return LESSOR_E_NOMEM;
        }
        e = contestant->store == NULL ? start_peer(bench, world, &subject)
                                      : bench_start(bench, contestant->store, world, &subject);
        if (e == 0 && contestant->n_held > 0)
                e = filling_run(world, subject->port, contestant->n_held, filling_stranger);
        for (unsigned i = 0; i < run.n_lives && e == 0; i++)
                e = life_init(&run.lives[i], world, i, tag, TEXT_BYTES);
        if (e == 0)
                e = drive(bench, subject, &run, contestant);
        for (unsigned i = 0; i < run.n_lives; i++)
                life_done(&run.lives[i]);
        free(run.lives);
        free(warm_up);
        return e;
}

static int tell_steps(struct report *report, const struct contestant *c, const char *label)
{
        int e = 0;

        for (unsigned i = 0; i < LIFE_STEPS && e == 0; i++) {
                e = report_value(report, (double)percentiles_at(&c->steps[i], 0.5) / 1e3, "us",
                                 "%s p50, %s, %s", life_step_names[i], c->name, label);
                if (e == 0)
                        e = report_value(report, (double)percentiles_at(&c->steps[i], 0.99) / 1e3, "us",
                                         "%s p99, %s, %s", life_step_names[i], c->name, label);
        }
        return e;
}

static int tell(struct report *report, const struct contestant *c, const char *label)
{
        int e = report_value(report, series_median(&c->rate), "/s", "lifecycles, %s, %s", c->name, label);

        if (e == 0 && series_median(&c->cpu_us) > 0)
                e = report_value(report, series_median(&c->cpu_us), "us", "server CPU time of one, %s",
                                 c->name);
        if (e == 0)
                e = report_value(report, series_median(&c->generator) * 100, "%",
                                 "generator's core in use, %s", c->name);
        /* Latencies as an operator meets them, which is never from empty. */
        return e < 0 || c->n_held == 0 ? e : tell_steps(report, c, label);
}

/* The median of the rounds' own ratios: both sides of one were measured within seconds of each other. */
static double ratio(const struct series *a, const struct series *b)
{
        struct series ratios = {0};

        for (size_t i = 0; i < a->n && i < b->n; i++)
                series_add(&ratios, a->values[i] / b->values[i]);
        return series_median(&ratios);
}

/* One comparison, by the clock and by the CPU time of the servers. Target 0: none. */
static int compare_two(struct report *report, const struct match *match, unsigned one, unsigned other,
                       double target)
{
        const struct contestant *a = &match->contestants[one], *b = &match->contestants[other];
        int e;

        if (a->rate.n == 0 || b->rate.n == 0)
                return 0;
        e = report_target(report, ratio(&a->rate, &b->rate), "",
                          target > 0 ? REPORT_AT_LEAST : REPORT_NO_TARGET, target,
                          "lifecycles, %s over %s, %s", a->name, b->name, match->label);
        if (e < 0 || series_median(&a->cpu_us) == 0 || series_median(&b->cpu_us) == 0)
                return e;
        return report_value(report, ratio(&b->cpu_us, &a->cpu_us), "", "the same per CPU second");
}

/*
 * The reference relay looks at every job that it holds in each call, so what it needs depends on what it
 * holds; the target is judged where both hold the same.
 */
static int compare(struct report *report, const struct match *match)
{
        double target = match->contestants[PEER].n_held > 0 ? 20 : 0;
        int e = compare_two(report, match, SQLITE, MEMORY, 0.6);

        if (e == 0)
                e = compare_two(report, match, SQLITE, PEER, target);
        return e < 0 ? e : compare_two(report, match, MEMORY, PEER, target);
}

/* How many times the reference relay's rate a server could have that did nothing but check signatures. */
static int tell_bound(struct report *report, const struct match *match, const struct series *verify_us)
{
        double five_us = series_median(verify_us) * LIFE_STEPS;
        const struct contestant *peer = &match->contestants[PEER];
        int e = report_value(report, five_us, "us", "CPU time of the %d verifications of one life",
                             LIFE_STEPS);

        if (e < 0 || series_median(&peer->cpu_us) == 0)
                return e;
        return report_value(report, series_median(&peer->cpu_us) / five_us, "",
                            "most that a server could reach that only verified, over %s, %s", peer->name,
                            match->label);
}

static bool takes_part(const struct bench *bench, const struct contestant *contestant)
{
        if (contestant->store == NULL)
                return bench->peer_script != NULL || bench->peer_url != NULL;
        return bench->only_store == NULL || strcmp(bench->only_store, contestant->store) == 0;
}

static int run_match(struct bench *bench, const struct world *world, struct match *match)
{
        struct series verify_us = {0};
        int e = 0;

        for (unsigned round = 0; round < bench->rounds && e == 0; round++) {
                struct rate rate = {0};

                for (unsigned i = 0; i < N_CONTESTANTS && e == 0; i++)
                        if (takes_part(bench, &match->contestants[i]))
                                e = one_round(bench, world, &match->contestants[i]);
                if (e == 0)
                        e = verification_measure(&rate);
                if (e == 0)
                        series_add(&verify_us, 1e6 / rate.cpu);
        }
        for (unsigned i = 0; i < N_CONTESTANTS && e == 0; i++)
                if (match->contestants[i].rate.n > 0)
                        e = tell(&bench->report, &match->contestants[i], match->label);
        if (e == 0)
                e = compare(&bench->report, match);
        return e < 0 ? e : tell_bound(&bench->report, match, &verify_us);
}

static int hold_match(struct bench *bench, const struct world *world, unsigned n_held)
{
        struct match *match = calloc(1, sizeof(*match));
        int e;

        if (match == NULL)
                return LESSOR_E_NOMEM;
        if (n_held == 0)
                snprintf(match->label, sizeof(match->label), "from empty");
        else
                snprintf(match->label, sizeof(match->label), "holding %u jobs", n_held);
        match->contestants[MEMORY].name = match->contestants[MEMORY].store = "memory";
        match->contestants[SQLITE].name = match->contestants[SQLITE].store = "sqlite";
        match->contestants[PEER].name = "reference relay";
        for (unsigned i = 0; i < N_CONTESTANTS; i++)
                match->contestants[i].n_held = n_held;
        e = run_match(bench, world, match);
        free(match);
        return e;
}

int bench_lifecycles(struct bench *bench)
{
        _cleanup_(world_freep) struct world *world = NULL;
        int e;

        e = report_section(
                &bench->report, "lifecycles", "Whole lives of jobs",
                "Every connection plays a site and a device by turns: enqueue, claim, payload, fetch, "
                "result, then the next job. Payload and result are 1 kB of text, sealed (2.5 kB on the "
                "wire). Requests are signed as they go, on the generator's core; where that core is nearly "
                "all in use, the generator was the bottleneck. The servers take turns, each started anew for "
                "every round, and nothing is acknowledged, so results pile up as they would at a site that "
                "never asks. The reference relay is npm @byollm/relay 0.1.1, in memory, behind node's HTTP "
                "server.\n\n"
                "They run twice: from empty, and as an operator has them, while they hold other jobs, whose "
                "owners have no device, and which the same generator queued before the time was taken. The "
                "reference relay looks at every job that it holds in each call; lessord looks at those that "
                "the call is about. From empty the comparison says little else than what a signature costs: "
                "a life is five requests, each has to be verified, and a server that did nothing but that "
                "would be faster than the reference relay by the factor in the last row. So the target is "
                "judged where jobs are held, and the ratio from empty stands beside it.");
        if (e == 0)
                e = world_new(N_SITES, bench->lanes, &world);
        if (e == 0)
                e = hold_match(bench, world, 0);
        if (e == 0)
                e = hold_match(bench, world, bench->held);
        return e < 0 ? bench_failed(e, "lifecycles") : 0;
}
