/* SPDX-License-Identifier: MIT */
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "bench.h"
#include "lease_world.h"
#include "leasing/memory.h"
#include "leasing/sqlite.h"
#include "lessor/error.h"
#include "machine.h"

/* What a claim costs beside many leases that it may not have. */

#define N_CLAIMS    2000
#define N_FEW       1000
#define EVENT_BYTES 64 /* so that a million of them fit in memory */
#define DAY_MS      INT64_C(86400000)

/* Half of them of another tier, half of other repositories, over a few of each. */
static int fill(const struct lease_world *world, struct lessor_lease_store *store, unsigned n,
                struct lessor_arena *arena)
{
        int e = 0;

        for (unsigned i = 0; i < n && e == 0; i++) {
                struct lessor_lease_submission from = lease_world_submission(world);
                struct lessor_ticket ticket;
                struct lessor_lease lease;
                char text[32];
                struct lessor_slice name = {text, (size_t)snprintf(text, sizeof(text), "other-%u", i % 64)};

                if (i % 2 == 0)
                        from.tier = name;
                else
                        from.repo = name;
                do
                        e = lessor_lease_create(store, &from, arena, &lease, NULL, &ticket);
                while (e == LESSOR_E_UNAVAILABLE && lessor_lease_check(store) == 0); /* much is unwritten */
                if (i % 1024 == 0) {
                        lessor_arena_clear(arena);
                        if (e == 0)
                                e = lessor_lease_check(store);
                }
        }
        return e < 0 ? e : lessor_lease_check(store);
}

/* Leases that the rack may have, and then a claim of each, which is what counts. */
static int claim_all(const struct lease_world *world, struct lessor_lease_store *store,
                     struct lessor_slice rack_id, struct lessor_arena *arena, struct percentiles *costs)
{
        const struct lessor_lease_submission from = lease_world_submission(world);
        const struct lessor_lease_claim claim = {.rack_id = rack_id,
                                                 .boot_id = LEASE_WORLD_BOOT,
                                                 .tiers = &from.tier,
                                                 .n_tiers = 1,
                                                 .names_attempts = true,
                                                 .filter = {.repos = &from.repo, .n_repos = 1}};
        struct lessor_ticket ticket;
        int e = 0;

        for (unsigned i = 0; i < N_CLAIMS && e == 0; i++) {
                struct lessor_lease lease;

                e = lessor_lease_create(store, &from, arena, &lease, NULL, &ticket);
        }
        if (e == 0)
                e = lessor_lease_check(store); /* what is written now does not get into the way */
        for (unsigned i = 0; i < N_CLAIMS && e == 0; i++) {
                struct lessor_lease_grant grant;
                uint64_t begin_ns = now_ns();

                e = lessor_lease_claim(store, &claim, arena, &grant, &ticket);
                percentiles_add(costs, now_ns() - begin_ns);
                if (e == 0 && !grant.granted)
                        e = LESSOR_E_NOT_FOUND;
        }
        return e;
}

static int open_store(const char *kind, const char *dir, struct lessor_lease_store **ret_store)
{
        struct lessor_lease_options options = LESSOR_LEASE_OPTIONS;
        struct buf problem;
        int e;

        options.visibility_ms = options.healthy_ms = DAY_MS;
        if (strcmp(kind, "memory") == 0)
                return lease_memory_store_new(&options, clock_steady(), NULL, ret_store);
        buf_init(&problem);
        e = lease_sqlite_store_new(dir, &options, clock_steady(), NULL, NULL, ret_store, &problem);
        buf_done(&problem);
        return e;
}

static int measure(const struct lease_world *world, const char *kind, unsigned n_others,
                   struct percentiles *costs)
{
        char dir[] = "/tmp/lessor-bench-XXXXXX";
        _cleanup_(buf_done) struct buf path = {0};
        struct lessor_lease_store *store = NULL;
        struct lessor_arena *arena = lessor_arena_new();
        struct lessor_slice rack_id;
        int e = arena == NULL ? LESSOR_E_NOMEM : 0;

        if (mkdtemp(dir) == NULL)
                e = LESSOR_E_IO;
        buf_printf(&path, "%s/%s", dir, LEASE_SQLITE_FILE);
        if (e == 0)
                e = open_store(kind, dir, &store);
        if (e == 0)
                e = fill(world, store, n_others, arena);
        if (e == 0)
                e = lease_world_rack(world, store, 0, &rack_id);
        if (e == 0)
                e = claim_all(world, store, rack_id, arena, costs);
        lessor_lease_store_free(store);
        lessor_arena_free(arena);
        if (buf_failed(&path) == 0)
                (void)unlink(path.p);
        (void)rmdir(dir);
        return e;
}

static int compare(struct bench *bench, const struct lease_world *world, const char *kind)
{
        struct percentiles *costs = calloc(2, sizeof(*costs));
        double few, many;
        int e = costs == NULL ? LESSOR_E_NOMEM : measure(world, kind, N_FEW, &costs[0]);

        if (e == 0)
                e = measure(world, kind, bench->jobs, &costs[1]);
        few = e < 0 ? 0 : (double)percentiles_at(&costs[0], 0.5) / 1e3;
        many = e < 0 ? 0 : (double)percentiles_at(&costs[1], 0.5) / 1e3;
        free(costs);
        if (e == 0)
                e = report_value(&bench->report, few, "us", "%s, beside %u", kind, N_FEW);
        if (e == 0)
                e = report_value(&bench->report, many, "us", "%s, beside %u", kind, bench->jobs);
        if (e == 0)
                e = report_target(&bench->report, many / few, "", REPORT_AT_MOST, 1.5,
                                  "%s, beside %u / beside %u", kind, bench->jobs, N_FEW);
        return e;
}

int bench_lease_claims(struct bench *bench)
{
        _cleanup_(lease_world_freep) struct lease_world *world = NULL;
        const char *const *kind = bench_stores(bench);
        int e;

        e = report_section(
                &bench->report, "lease-claims", "A claim beside leases that it may not have",
                "Pending leases, half of other tiers and half of other repositories; then 2,000 that a rack "
                "may "
                "have, and a claim of each. The figure is the median time of the claim call itself, in the "
                "store, up to the decision and with its event, without waiting for the disk.");
        if (e == 0)
                e = lease_world_new(EVENT_BYTES, EVENT_BYTES, &world);
        for (; *kind != NULL && e == 0; kind++)
                e = compare(bench, world, *kind);
        return e < 0 ? bench_failed(e, "lease-claims") : 0;
}
