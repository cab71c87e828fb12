/* SPDX-License-Identifier: MIT */
#include <poll.h>
#include <stdlib.h>

#include "bench.h"
#include "lessor/error.h"
#include "machine.h"
#include "profile.h"
#include "rack_world.h"

/* What racks cost whose polls are parked, and what it costs to wake one of them. */

#define WINDOW_MS 29000 /* the longest there is, so that nobody has to ask again meanwhile */
#define IDLE_MS   5000
#define N_FEW     10
#define N_WAKES   200

struct park {
        struct rack_world *world;
        struct wire **wires; /* one a rack, from the first on */
        unsigned n;
        uint64_t cpu_ns; /* of the server, for all wakes */
        struct percentiles latencies;
};

static int ask(struct park *park, unsigned rack)
{
        _cleanup_(buf_done) struct buf asks = {0};
        int e = rack_world_poll(park->world, rack, &asks);

        return e < 0 ? e : wire_send(park->wires[rack], buf_view(&asks));
}

static int park_up_to(struct park *park, unsigned n)
{
        int e = 0;

        for (; park->n < n && e == 0; park->n++) {
                e = wire_open(park->world->subject->port, &park->wires[park->n]);
                if (e == 0)
                        e = ask(park, park->n);
        }
        return e < 0 ? e : rack_world_until_parked(park->world, n);
}

/* Creates a lease for one of them; it is granted, and the rack waits again. */
static int wake(struct park *park, unsigned rack)
{
        struct lessor_slice create, body;
        uint64_t begin_ns;
        int status, e = rack_world_create(park->world, rack, NULL, &create);

        begin_ns = now_ns();
        if (e == 0)
                e = wire_send(park->world->control, create);
        if (e == 0)
                e = wire_answer(park->wires[rack], &status, &body);
        percentiles_add(&park->latencies, now_ns() - begin_ns);
        if (e == 0 && status != 200)
                e = LESSOR_E_NOT_FOUND;
        if (e == 0)
                e = wire_answer(park->world->control, &status, &body);
        return e < 0 ? e : ask(park, rack);
}

static int wake_many(const struct bench *bench, struct park *park)
{
        uint64_t before_ns, after_ns;
        int e;
        pid_t perf = profile_begin(bench->profile, park->n > N_FEW ? "parked" : "few-parked",
                                   park->world->subject->pid);

        park->latencies = (struct percentiles){0};
        e = process_cpu_ns(park->world->subject->pid, &before_ns);
        for (unsigned i = 0; i < N_WAKES && e == 0; i++)
                e = wake(park, i % N_FEW);
        if (e == 0)
                e = process_cpu_ns(park->world->subject->pid, &after_ns);
        profile_end(perf);
        if (e == 0)
                park->cpu_ns = after_ns - before_ns;
        return e;
}

static int tell_idle(struct bench *bench, const struct park *park, uint64_t before_bytes)
{
        struct report *r = &bench->report;
        struct process_memory memory;
        uint64_t before_ns, after_ns;
        int e = process_cpu_ns(park->world->subject->pid, &before_ns);

        (void)poll(NULL, 0, IDLE_MS);
        if (e == 0)
                e = process_cpu_ns(park->world->subject->pid, &after_ns);
        if (e == 0)
                e = process_memory(park->world->subject->pid, &memory);
        if (e == 0)
                e = report_value(r, (double)before_bytes / 1e6, "MB",
                                 "memory of the server before they park");
        if (e == 0)
                e = report_target(r, (double)memory.rss_bytes / 1e6, "MB", REPORT_AT_MOST, 250,
                                  "memory of the server with %u racks parked", park->n);
        return e < 0 ? e
                     : report_target(r, (double)(after_ns - before_ns) / (IDLE_MS * 1e6) * 100, "% of a core",
                                     REPORT_AT_MOST, 1, "CPU time while %u racks wait", park->n);
}

static int tell_wakes(struct bench *bench, const struct park *few, const struct park *many)
{
        struct report *r = &bench->report;
        double with_few = (double)few->cpu_ns / N_WAKES / 1e3,
               with_many = (double)many->cpu_ns / N_WAKES / 1e3;
        int e = report_value(r, (double)percentiles_at(&few->latencies, 0.5) / 1e3, "us",
                             "create to grant with %u parked, p50", N_FEW);

        if (e == 0)
                e = report_value(r, (double)percentiles_at(&many->latencies, 0.5) / 1e3, "us",
                                 "create to grant with %u parked, p50", many->n);
        if (e == 0)
                e = report_value(r, with_few, "us",
                                 "CPU time of the server, create, grant and poll, %u parked", N_FEW);
        if (e == 0)
                e = report_value(r, with_many, "us",
                                 "CPU time of the server, create, grant and poll, %u parked", many->n);
        /* No more is what was asked for; the clock of the kernel's accounting is not finer than this. */
        return e < 0 ? e
                     : report_target(r, with_many / with_few, "", REPORT_AT_MOST, 1.1,
                                     "%u parked / %u parked", many->n, N_FEW);
}

static int measure(struct bench *bench, struct park *park)
{
        struct process_memory before;
        struct park *few = calloc(1, sizeof(*few));
        int e = few == NULL ? LESSOR_E_NOMEM : process_memory(park->world->subject->pid, &before);

        if (e == 0)
                e = park_up_to(park, N_FEW);
        if (e == 0)
                e = wake_many(bench, park);
        if (e == 0) {
                *few = *park;
                e = park_up_to(park, bench->connections);
        }
        if (e == 0)
                e = tell_idle(bench, park, before.rss_bytes);
        if (e == 0)
                e = wake_many(bench, park);
        if (e == 0)
                e = tell_wakes(bench, few, park);
        free(few);
        return e;
}

int bench_parked(struct bench *bench)
{
        _cleanup_(rack_world_freep) struct rack_world *world = NULL;
        struct park *park = calloc(1, sizeof(*park));
        unsigned n = bench->connections < 2 * N_FEW ? 2 * N_FEW : bench->connections;
        int e = park == NULL ? LESSOR_E_NOMEM : 0;

        bench->connections = n;
        if (e == 0)
                e = report_section(
                        &bench->report, "parked", "Racks that wait",
                        "Enrolled racks, each with a connection of its own on which its poll is parked, "
                        "with a window of 29 s, so that none has to ask again while it is measured: the "
                        "server's whole resident memory, and its CPU time in 5 s. Then 200 leases, each "
                        "for one rack alone, which is granted it and asks again; first with 10 parked, "
                        "then with all. The memory store, so that the disk is not what is measured.");
        if (e == 0 && raise_open_files(n + 100) < n + 100)
                e = LESSOR_E_PERMISSION;
        if (e == 0) {
                park->wires = calloc(n, sizeof(struct wire *));
                e = park->wires == NULL ? LESSOR_E_NOMEM
                                        : rack_world_new(bench, "memory", WINDOW_MS, n, &world);
        }
        if (e == 0) {
                park->world = world;
                e = measure(bench, park);
        }
        for (unsigned i = 0; park != NULL && park->wires != NULL && i < n; i++)
                wire_free(park->wires[i]);
        if (park != NULL)
                free(park->wires);
        free(park);
        return e < 0 ? bench_failed(e, "parked") : 0;
}
