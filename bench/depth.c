/* SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "exchange.h"
#include "filling.h"
#include "lessor/error.h"
#include "machine.h"
#include "requests.h"
#include "traffic.h"

/* Whether a claim feels how many jobs are queued that it cannot have, and what each of them weighs. */

#define N_SITES   16
#define N_DEVICES 16 /* that claim, in turn */
#define SHALLOW   1000
#define CLAIMS    1000 /* timed, a server and round */

enum in_the_way { OTHER_PAIRS, OTHER_KIND, REFUSED, N_WAYS };

static int own_job(const struct world *world, unsigned index, const char *kind, struct buf *out)
{
        const struct party *device = &world->devices[index % world->n_devices];
        char id[32];

        snprintf(id, sizeof(id), "job-%u", index);
        return request_enqueue(world, device->site, device->owner, id, kind, out);
}

static int job_of_other_kind(const struct world *world, unsigned index, struct buf *out)
{
        return own_job(world, index, JOB_OTHER_KIND, out);
}

static int job_to_refuse(const struct world *world, unsigned index, struct buf *out)
{
        return own_job(world, index, JOB_KIND, out);
}

/* The deep queue of each has jobs / divisor jobs: a refusal takes a claim and a release. */
static const struct {
        const char *name;
        unsigned divisor;
        filling_job *job;
} ways[N_WAYS] = {
        [OTHER_PAIRS] = {"at other pairs", 1, filling_stranger},
        [OTHER_KIND] = {"of another kind at the same pairs", 10, job_of_other_kind},
        [REFUSED] = {"refused by the same device", 100, job_to_refuse},
};

struct queue {
        struct subject *subject;
        struct traffic *traffic; /* one lane, while it is used: idle ones are closed by the server */
        unsigned n_jobs;
        struct series p50;
        struct percentiles latencies;
};

/* --- Claiming --- */

struct claimer {
        const struct party *device;
        struct buf request, answer, body;
};

/* Appends every job of a claim's answer as a GrantRef. Returns how many. */
static unsigned append_leases(struct lessor_slice answer, struct buf *out)
{
        unsigned n = 0;

        for (;;) {
                struct lessor_slice job = text_after(answer, "{\"id\":\"job-");
                struct lessor_slice lease = text_after(answer, "\"lease\":{\"id\":\"");

                if (job.p == NULL || lease.p == NULL)
                        return n;
                buf_printf(out, "%s{\"jobId\":\"job-%.*s\",\"leaseId\":\"%.*s\"}", n++ == 0 ? "" : ",",
                           (int)job.n, job.p, (int)lease.n, lease.p);
                answer.n -= (size_t)(lease.p + lease.n - answer.p);
                answer.p = lease.p + lease.n;
        }
}

/* Claims and gives back what it got. */
static int claim_and_release(struct queue *queue, struct claimer *c, unsigned max, const char *reason,
                             unsigned *ret_n, uint64_t *ret_ns)
{
        int e;

        buf_clear(&c->request);
        e = request_claim(c->device, max, &c->request);
        if (e == 0)
                e = exchange(queue->traffic, buf_view(&c->request), &c->answer, ret_ns);
        if (e < 0)
                return e;
        buf_clear(&c->body);
        buf_printf(&c->body, "{\"protocolVersion\":\"2\",\"runnerId\":\"%s\",\"reason\":\"%s\",\"leases\":[",
                   c->device->id, reason);
        *ret_n = append_leases(buf_view(&c->answer), &c->body);
        buf_text(&c->body, "]}");
        if (*ret_n == 0)
                return buf_failed(&c->body);
        buf_clear(&c->request);
        e = party_request(c->device, REQUEST_PLANE_DEVICE, "release", buf_view(&c->body), &c->request);
        return e < 0 ? e : exchange(queue->traffic, buf_view(&c->request), NULL, NULL);
}

static void claimer_done(struct claimer *c)
{
        buf_done(&c->request);
        buf_done(&c->answer);
        buf_done(&c->body);
}

static int refuse_all(struct queue *queue, const struct world *world)
{
        unsigned n_refused = 0, n;
        int e = 0;

        for (unsigned i = 0; i < N_DEVICES && e == 0; i++) {
                struct claimer c = {.device = &world->devices[i]};
                uint64_t ns;

                do {
                        e = claim_and_release(queue, &c, 2, "refused", &n, &ns);
                        n_refused += n;
                } while (e == 0 && n > 0);
                claimer_done(&c);
        }
        return e == 0 && n_refused != queue->n_jobs ? LESSOR_E_PROTOCOL : e;
}

/* One job for each device, behind all others. */
static int enqueue_wanted(struct queue *queue, const struct world *world)
{
        _cleanup_(buf_done) struct buf request = {0};
        char id[32];
        int e = 0;

        for (unsigned i = 0; i < N_DEVICES && e == 0; i++) {
                const struct party *device = &world->devices[i];

                snprintf(id, sizeof(id), "job-wanted-%u", i);
                buf_clear(&request);
                e = request_enqueue(world, device->site, device->owner, id, JOB_KIND, &request);
                if (e == 0)
                        e = exchange(queue->traffic, buf_view(&request), NULL, NULL);
        }
        return e;
}

static int time_claims(struct queue *queue, const struct world *world)
{
        struct percentiles *latencies = calloc(1, sizeof(*latencies));
        struct claimer c = {0};
        int e = latencies == NULL ? LESSOR_E_NOMEM : traffic_open(queue->subject->port, 1, &queue->traffic);

        for (unsigned i = 0; i < CLAIMS && e == 0; i++) {
                uint64_t ns;
                unsigned n;

                c.device = &world->devices[i % N_DEVICES];
                e = claim_and_release(queue, &c, 1, "shutdown", &n, &ns);
                if (e == 0 && n != 1)
                        e = LESSOR_E_PROTOCOL;
                if (e == 0)
                        percentiles_add(latencies, ns);
        }
        if (e == 0) {
                series_add(&queue->p50, (double)percentiles_at(latencies, 0.5) / 1e3);
                percentiles_merge(&queue->latencies, latencies);
        }
        queue->traffic = traffic_free(queue->traffic);
        claimer_done(&c);
        free(latencies);
        return e;
}

/* --- Measuring --- */

static int prepare(struct bench *bench, const char *store, const struct world *world, enum in_the_way way,
                   struct queue *queue, double *ret_bytes_a_job)
{
        struct process_memory before, after;
        int e = bench_start(bench, store, world, &queue->subject);

        if (e == 0)
                e = process_memory(queue->subject->pid, &before);
        if (e == 0)
                e = filling_run(world, queue->subject->port, queue->n_jobs, ways[way].job);
        if (e == 0)
                e = process_memory(queue->subject->pid, &after);
        if (e == 0)
                *ret_bytes_a_job = memory_growth(before.rss_bytes, after.rss_bytes) / queue->n_jobs;
        if (e == 0)
                e = traffic_open(queue->subject->port, 1, &queue->traffic);
        if (e == 0 && way == REFUSED)
                e = refuse_all(queue, world);
        if (e == 0)
                e = enqueue_wanted(queue, world);
        queue->traffic = traffic_free(queue->traffic);
        return e;
}

static int tell(struct report *report, const char *store, enum in_the_way way, const struct queue *shallow,
                const struct queue *deep)
{
        struct series ratios = {0};
        int e;

        for (size_t i = 0; i < deep->p50.n; i++)
                series_add(&ratios, deep->p50.values[i] / shallow->p50.values[i]);
        e = report_value(report, series_median(&shallow->p50), "us", "claim p50, %u jobs %s, %s",
                         shallow->n_jobs, ways[way].name, store);
        if (e == 0)
                e = report_value(report, series_median(&deep->p50), "us", "claim p50, %u jobs %s, %s",
                                 deep->n_jobs, ways[way].name, store);
        if (e == 0)
                e = report_target(report, series_median(&ratios), "", REPORT_AT_MOST, 1.5,
                                  "claim p50, deep over shallow, %s, %s", ways[way].name, store);
        return e;
}

static int measure(struct bench *bench, const char *store, const struct world *world, enum in_the_way way)
{
        struct queue *queues = calloc(2, sizeof(*queues));
        struct queue *shallow = &queues[0], *deep = &queues[1];
        double bytes_a_job = 0;
        int e;

        if (queues == NULL)
                return LESSOR_E_NOMEM;
        deep->n_jobs = bench->jobs / ways[way].divisor;
        shallow->n_jobs = SHALLOW < deep->n_jobs ? SHALLOW : deep->n_jobs;
        e = prepare(bench, store, world, way, shallow, &bytes_a_job);
        if (e == 0)
                e = prepare(bench, store, world, way, deep, &bytes_a_job);
        for (unsigned i = 0; i < bench->rounds && e == 0; i++) {
                e = time_claims(shallow, world);
                if (e == 0)
                        e = time_claims(deep, world);
        }
        if (e == 0)
                e = tell(&bench->report, store, way, shallow, deep);
        if (e == 0 && way == OTHER_PAIRS)
                e = report_target(&bench->report, bytes_a_job, "bytes", REPORT_AT_MOST, 1200,
                                  "memory of a queued job, %s", store);
        for (unsigned i = 0; i < 2; i++)
                subject_free(queues[i].subject);
        free(queues);
        return e;
}

int bench_depth(struct bench *bench)
{
        _cleanup_(world_freep) struct world *world = NULL;
        int e;

        e = report_section(
                &bench->report, "depth", "Deep queues",
                "Two servers side by side, one with few and one with many jobs queued that the claiming "
                "device cannot have: jobs of other owners, jobs of a kind it does not offer, jobs it has "
                "refused. Behind them all is one job that it can have. On one connection it claims that and "
                "gives it back, over and over; told is the latency of the claim alone. (Jobs that stick to "
                "another device are not measured: a pair gains at most two of them in ten seconds.) The "
                "memory of a job is the growth of the server's resident set while the deep queue was "
                "filled.");
        if (e == 0)
                e = world_new(N_SITES, N_DEVICES, &world);
        for (const char *const *store = bench_stores(bench); e == 0 && *store != NULL; store++)
                for (unsigned way = 0; way < N_WAYS && e == 0; way++)
                        e = measure(bench, *store, world, way);
        return e < 0 ? bench_failed(e, "depth") : 0;
}
