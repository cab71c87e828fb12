/* SPDX-License-Identifier: MIT */
#include <poll.h>
#include <stdlib.h>

#include "bench.h"
#include "lessor/error.h"
#include "machine.h"
#include "rack_world.h"

/* From the producer's request to the grant at a machine that waits for it, or that comes to ask. */

#define N_PICKUPS        500
#define N_POLLED         60
#define WINDOW_MS        20000
#define POLL_INTERVAL_NS 250000000u

/* The grant is there; the producer's answer too. Returns LESSOR_E_NOT_FOUND when nothing was granted. */
static int take_grant(struct rack_world *world, struct wire *machine, uint64_t *ret_ns)
{
        struct lessor_slice body;
        int status, e = wire_answer(machine, &status, &body);

        *ret_ns = now_ns();
        if (e == 0 && status != 200)
                e = LESSOR_E_NOT_FOUND;
        if (e == 0)
                e = wire_answer(world->control, &status, &body);
        return e < 0 ? e : status == 200 ? 0 : LESSOR_E_REFUSED;
}

static int wait_for_it(struct rack_world *world, struct wire *machine, struct percentiles *latencies)
{
        _cleanup_(buf_done) struct buf asks = {0};
        struct lessor_slice create;
        uint64_t begin_ns, end_ns;
        int e = rack_world_poll(world, 0, &asks);

        if (e == 0)
                e = wire_send(machine, buf_view(&asks));
        if (e == 0)
                e = rack_world_until_parked(world, 1);
        if (e == 0)
                e = rack_world_create(world, 0, NULL, &create);
        begin_ns = now_ns();
        if (e == 0)
                e = wire_send(world->control, create);
        if (e == 0)
                e = take_grant(world, machine, &end_ns);
        if (e == 0)
                percentiles_add(latencies, end_ns - begin_ns);
        return e;
}

/* Asks every quarter of a second; work comes at any time in between. */
static int come_and_ask(struct rack_world *world, struct wire *machine, struct percentiles *latencies)
{
        _cleanup_(buf_done) struct buf asks = {0};
        uint64_t phase_ns = (uint64_t)rand() % POLL_INTERVAL_NS; /* NOLINT(cert-msc30-c,cert-msc50-cpp) */
        uint64_t begin_ns, end_ns, next_ns = now_ns() + POLL_INTERVAL_NS;
        struct lessor_slice create, body;
        int status, e = rack_world_create(world, 0, NULL, &create);

        (void)poll(NULL, 0, (int)(phase_ns / 1000000));
        begin_ns = now_ns();
        if (e == 0)
                e = wire_ask(world->control, create, &body);
        if (e == 0)
                e = rack_world_poll(world, 0, &asks);
        do {
                if (e < 0)
                        return e;
                while (now_ns() < next_ns)
                        (void)poll(NULL, 0, 1);
                next_ns += POLL_INTERVAL_NS;
                e = wire_send(machine, buf_view(&asks));
                if (e == 0)
                        e = wire_answer(machine, &status, &body);
                end_ns = now_ns();
        } while (e == 0 && status == 204);
        if (e == 0)
                percentiles_add(latencies, end_ns - begin_ns);
        return e;
}

static int measure(const struct bench *bench, const char *store, bool waits, struct percentiles *latencies)
{
        _cleanup_(rack_world_freep) struct rack_world *world = NULL;
        _cleanup_(wire_freep) struct wire *machine = NULL;
        unsigned n = waits ? N_PICKUPS * bench->rounds : bench->rounds > 1 ? N_POLLED : 8;
        int e = rack_world_new(bench, store, waits ? WINDOW_MS : 1, 1, &world);

        if (e == 0)
                e = wire_open(world->subject->port, &machine);
        for (unsigned i = 0; i < n && e == 0; i++)
                e = waits ? wait_for_it(world, machine, latencies) : come_and_ask(world, machine, latencies);
        return e;
}

int bench_pickup(struct bench *bench)
{
        struct percentiles *latencies = calloc(2, sizeof(*latencies));
        struct report *r = &bench->report;
        const char *const *store = bench_stores(bench);
        int e = latencies == NULL ? LESSOR_E_NOMEM : 0;

        if (e == 0)
                e = report_section(
                        r, "pickup", "From a new lease to the machine that waits for it",
                        "A rack's poll is parked; a producer creates a lease that it may have, over the "
                        "control socket; the time from the first byte of that request to the last byte "
                        "of the grant at the rack, on the default store with each on disk before it is "
                        "told. Beside it a rack that comes every 250 ms to ask, while leases come at any "
                        "time in between.");
        while (e == 0 && store[1] != NULL)
                store++; /* the last: sqlite, unless memory alone was asked for */
        if (e == 0)
                e = measure(bench, *store, true, &latencies[0]);
        if (e == 0)
                e = measure(bench, *store, false, &latencies[1]);
        if (e == 0)
                e = report_latencies(r, &latencies[0], "create to grant");
        if (e == 0)
                e = report_target(r, (double)percentiles_at(&latencies[0], 0.99) / 1e6, "ms", REPORT_AT_MOST,
                                  5, "create to grant, p99");
        if (e == 0)
                e = report_latencies(r, &latencies[1], "the same, asked for every 250 ms");
        if (e == 0)
                e = report_target(r,
                                  (double)percentiles_at(&latencies[0], 0.5) /
                                          (double)percentiles_at(&latencies[1], 0.5),
                                  "", REPORT_AT_MOST, 0.1, "waiting / asking every 250 ms, p50");
        free(latencies);
        return e < 0 ? bench_failed(e, "pickup") : 0;
}
