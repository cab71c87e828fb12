/* SPDX-License-Identifier: MIT */
#include <string.h>

#include "bench.h"
#include "exchange.h"
#include "lessor/error.h"
#include "life.h"
#include "machine.h"
#include "traffic.h"

/* How much memory the largest envelope takes on its way. */

#define ENVELOPE_BYTES 6291456 /* MAX_ENVELOPE_BYTES */
#define N_JOBS         3       /* the first may find a heap that has never been so large */

struct peaks {
        struct series
                steps[LIFE_STEPS + 1]; /* growth of the resident set over its size before, in envelopes */
};

static int watched(struct subject *subject, struct traffic *traffic, struct lessor_slice request,
                   struct buf *body, struct series *growth)
{
        struct process_memory before, after;
        int e = process_reset_peak(subject->pid);

        if (e == 0)
                e = process_memory(subject->pid, &before);
        if (e == 0)
                e = exchange(traffic, request, body, NULL);
        if (e == 0)
                e = process_memory(subject->pid, &after);
        if (e == 0)
                series_add(growth, memory_growth(before.rss_bytes, after.peak_bytes) / ENVELOPE_BYTES);
        return e;
}

static int one_life(struct subject *subject, struct traffic *traffic, struct life *life, struct peaks *peaks)
{
        const struct party *site = &life->world->sites[life->device->site];
        _cleanup_(buf_done) struct buf body = {0};
        int e;

        do {
                enum life_step step = life->step;

                e = life_next(life);
                if (e == 0)
                        e = watched(subject, traffic, buf_view(&life->request), &body, &peaks->steps[step]);
                if (e == 0)
                        e = life_answered(life, 200, buf_view(&body));
        } while (e == 0 && life->step != LIFE_ENQUEUE);
        if (e < 0)
                return e;
        buf_clear(&life->request);
        e = party_request(site, REQUEST_PLANE_SITE, "results", (struct lessor_slice){NULL, 0},
                          &life->request);
        if (e == 0)
                e = watched(subject, traffic, buf_view(&life->request), &body, &peaks->steps[LIFE_STEPS]);
        if (e == 0 && body.n < ENVELOPE_BYTES - 100)
                return LESSOR_E_PROTOCOL;
        return e;
}

static double highest(const struct series *series)
{
        double most = 0;

        for (size_t i = 0; i < series->n; i++)
                most = series->values[i] > most ? series->values[i] : most;
        return most;
}

static int measure_store(struct bench *bench, const char *store, const struct world *world)
{
        _cleanup_(subject_freep) struct subject *subject = NULL;
        _cleanup_(traffic_freep) struct traffic *traffic = NULL;
        struct peaks peaks = {0};
        double most = 0;
        int e = bench_start(bench, store, world, &subject);

        if (e == 0)
                e = traffic_open(subject->port, 1, &traffic);
        for (unsigned i = 0; i < N_JOBS && e == 0; i++) {
                struct life life;

                /* Each at a site of its own, so that `results` has one to tell. */
                e = life_init_sized(&life, world, i, "large", ENVELOPE_BYTES);
                if (e == 0)
                        e = one_life(subject, traffic, &life, &peaks);
                life_done(&life);
        }
        for (unsigned i = LIFE_PAYLOAD; i <= LIFE_STEPS && e == 0; i++) {
                double growth = highest(&peaks.steps[i]);

                most = growth > most ? growth : most;
                e = report_value(&bench->report, growth, "x", "%s, %s",
                                 i == LIFE_STEPS ? "results" : life_step_names[i], store);
        }
        /* "A small constant": body, parsed tree, text to keep, the copy that is kept; a database's as many
         * again. */
        return e < 0 ? e : report_target(&bench->report, most, "x", REPORT_AT_MOST, 8, "largest, %s", store);
}

int bench_envelope(struct bench *bench)
{
        _cleanup_(world_freep) struct world *world = NULL;
        int e;

        e = report_section(
                &bench->report, "envelope", "A 6 MiB envelope",
                "One envelope of exactly the largest size goes through payload, fetch, result and "
                "results. Before each request the peak of the resident set is reset; told is by how "
                "much it then grew, in multiples of the envelope's size, the largest of three "
                "lives. What is kept of the envelope is part of it.");
        if (e == 0)
                e = world_new(N_JOBS, N_JOBS, &world);
        for (const char *const *store = bench_stores(bench); e == 0 && *store != NULL; store++)
                e = measure_store(bench, *store, world);
        return e < 0 ? bench_failed(e, "envelope") : 0;
}
