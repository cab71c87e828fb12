/* SPDX-License-Identifier: MIT */
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "exchange.h"
#include "lessor/error.h"
#include "life.h"
#include "machine.h"
#include "profile.h"
#include "traffic.h"

/* Whole lives of jobs a second: over the stores of lessord, and beside the reference relay. */

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
        struct series rate, cpu_us, generator;
        struct percentiles steps[LIFE_STEPS];
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

static int tell(struct report *report, const struct contestant *c)
{
        int e = report_value(report, series_median(&c->rate), "/s", "lifecycles, %s", c->name);

        if (e == 0 && series_median(&c->cpu_us) > 0)
                e = report_value(report, series_median(&c->cpu_us), "us", "server CPU time of one, %s",
                                 c->name);
        if (e == 0)
                e = report_value(report, series_median(&c->generator) * 100, "%",
                                 "generator's core in use, %s", c->name);
        for (unsigned i = 0; i < LIFE_STEPS && e == 0; i++) {
                e = report_value(report, (double)percentiles_at(&c->steps[i], 0.5) / 1e3, "us", "%s p50, %s",
                                 life_step_names[i], c->name);
                if (e == 0)
                        e = report_value(report, (double)percentiles_at(&c->steps[i], 0.99) / 1e3, "us",
                                         "%s p99, %s", life_step_names[i], c->name);
        }
        return e;
}

/* The median of the rounds' own ratios: both sides of one were measured within seconds of each other. */
static double ratio(const struct series *a, const struct series *b)
{
        struct series ratios = {0};

        for (size_t i = 0; i < a->n && i < b->n; i++)
                series_add(&ratios, a->values[i] / b->values[i]);
        return series_median(&ratios);
}

/* One comparison, by the clock and by the CPU time of the servers. */
static int compare_two(struct report *report, const struct contestant *a, const struct contestant *b,
                       double target)
{
        int e;

        if (a->rate.n == 0 || b->rate.n == 0)
                return 0;
        e = report_target(report, ratio(&a->rate, &b->rate), "", REPORT_AT_LEAST, target,
                          "lifecycles, %s over %s", a->name, b->name);
        if (e < 0 || series_median(&a->cpu_us) == 0 || series_median(&b->cpu_us) == 0)
                return e;
        return report_value(report, ratio(&b->cpu_us, &a->cpu_us), "", "the same per CPU second");
}

static int compare(struct report *report, const struct contestant *contestants)
{
        int e = compare_two(report, &contestants[SQLITE], &contestants[MEMORY], 0.6);

        if (e == 0)
                e = compare_two(report, &contestants[SQLITE], &contestants[PEER], 20);
        return e < 0 ? e : compare_two(report, &contestants[MEMORY], &contestants[PEER], 20);
}

static bool takes_part(const struct bench *bench, const struct contestant *contestant)
{
        if (contestant->store == NULL)
                return bench->peer_script != NULL || bench->peer_url != NULL;
        return bench->only_store == NULL || strcmp(bench->only_store, contestant->store) == 0;
}

static int run_all(struct bench *bench, const struct world *world, struct contestant *contestants)
{
        int e = 0;

        for (unsigned round = 0; round < bench->rounds && e == 0; round++)
                for (unsigned i = 0; i < N_CONTESTANTS && e == 0; i++)
                        if (takes_part(bench, &contestants[i]))
                                e = one_round(bench, world, &contestants[i]);
        for (unsigned i = 0; i < N_CONTESTANTS && e == 0; i++)
                if (contestants[i].rate.n > 0)
                        e = tell(&bench->report, &contestants[i]);
        return e < 0 ? e : compare(&bench->report, contestants);
}

int bench_lifecycles(struct bench *bench)
{
        _cleanup_(world_freep) struct world *world = NULL;
        struct contestant *contestants = calloc(N_CONTESTANTS, sizeof(*contestants));
        int e;

        if (contestants == NULL)
                return bench_failed(LESSOR_E_NOMEM, "lifecycles");
        contestants[MEMORY].name = contestants[MEMORY].store = "memory";
        contestants[SQLITE].name = contestants[SQLITE].store = "sqlite";
        contestants[PEER].name = "reference relay";
        e = report_section(
                &bench->report, "lifecycles", "Whole lives of jobs",
                "Every connection plays a site and a device by turns: enqueue, claim, payload, fetch, "
                "result, "
                "then the next job. Payload and result are 1 kB of text, sealed (2.5 kB on the wire). "
                "Requests "
                "are signed as they go, on the generator's core; where that core is nearly all in use, the "
                "generator was the bottleneck. The servers take turns, each started anew for every round, "
                "and "
                "nothing is acknowledged, so results pile up as they would at a site that never asks. The "
                "reference relay is npm @byollm/relay 0.1.1, in memory, behind node's HTTP server.");
        if (e == 0)
                e = world_new(N_SITES, bench->lanes, &world);
        if (e == 0)
                e = run_all(bench, world, contestants);
        free(contestants);
        return e < 0 ? bench_failed(e, "lifecycles") : 0;
}
