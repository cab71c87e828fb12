/* SPDX-License-Identifier: MIT */
#include "lease_store_kinds.h"

#include <stdio.h>

#include "base/macro.h"
#include "leasing/memory.h"
#include "leasing/sqlite.h"
#include "scratch.h"

static int make_memory(const struct lessor_lease_options *options, struct clock *clock,
                       const struct lessor_lease_listener *listener, const char *directory,
                       struct lessor_lease_store **ret_store)
{
        (void)directory;
        return lease_memory_store_new(options, clock, listener, ret_store);
}

static int make_sqlite(const struct lessor_lease_options *options, struct clock *clock,
                       const struct lessor_lease_listener *listener, const char *directory,
                       struct lessor_lease_store **ret_store)
{
        /* When racks were seen is written at once, so that a crash loses nothing that a test can see. */
        const struct lease_sqlite_options disk = {.seen_ms = -1};
        struct buf problem;
        int r;

        buf_init(&problem);
        r = lease_sqlite_store_new(directory, options, clock, listener, &disk, ret_store, &problem);
        if (r < 0)
                fprintf(stderr, "sqlite: %.*s\n", (int)problem.n, problem.p == NULL ? "" : problem.p);
        buf_done(&problem);
        return r;
}

static int crash_sqlite(const struct lessor_lease_options *options, struct clock *clock,
                        const char *directory, struct lessor_lease_store **store)
{
        char *image = scratch_dir_new("crash");
        int r = image == NULL ? LESSOR_E_IO : lessor_lease_check(*store);

        if (r == 0)
                copy_database(directory, image, LEASE_SQLITE_FILE);
        *store = lessor_lease_store_free(*store);
        if (r == 0) {
                copy_database(image, directory, LEASE_SQLITE_FILE);
                r = make_sqlite(options, clock, NULL, directory, store);
        }
        scratch_dir_free(image);
        return r;
}

const struct lease_store_kind lease_store_kinds[] = {
        {.name = "memory", .make = make_memory},
        {.name = "sqlite", .durable = true, .make = make_sqlite, .crash = crash_sqlite},
};
const size_t n_lease_store_kinds = ARRAY_SIZE(lease_store_kinds);

const struct lease_store_kind *lease_store_kind_named(const char *name)
{
        for (size_t i = 0; i < n_lease_store_kinds; i++)
                if (strcmp(lease_store_kinds[i].name, name) == 0)
                        return &lease_store_kinds[i];
        return NULL;
}
