/* SPDX-License-Identifier: MIT */
#ifndef LESSORD_RACKS_H
#define LESSORD_RACKS_H

#include "base/buf.h"
#include "base/clock.h"
#include "lessord/options.h"
#include "plane/housekeeper.h"
#include "plane/rack.h"

/*
 * The parts of the rack plane in a running server: the lease store (leases.db with `--store sqlite`), objects
 * and logs as files in either case, and the plane over them. Nothing of it is there with `--no-rack`.
 */
struct racks {
        struct rack_events *events;
        struct lessor_lease_store *store;
        struct lessor_object_store *objects;
        struct log_files *logs;
        struct log_watch *log_watch;
        struct rack_plane *plane; /* NULL: there are none */
        struct housekeeper *house;
        int64_t next_sweep_ms; /* monotonic */
};

/*
 * Opens them in the data directory, which is there.
 *
 * racks        zeroed; for racks_done, on failure too
 * clock        borrowed; must outlive them
 * arena        owns the plane's options
 * ret_problem  a sentence for people, on failure
 */
int racks_open(struct racks *racks, const struct options *options, struct clock *clock,
               struct lessor_arena *arena, struct buf *ret_problem);

/* Ends the housekeeping and the lease store, which tells every answer that waits for it. The HTTP server must
 * be drained. */
void racks_close_store(struct racks *racks);

/* Ends the rest; whoever listened to events is gone. */
void racks_done(struct racks *racks);

/* Whether leases can be written: the plane's part of readiness. Returns 0 or why not. */
int racks_check(void *racks);

/* Does what is due by the store's clock. */
void racks_sweep(void *racks);

/*
 * Sweeps if it is time, for a caller who comes by every `most_ms` or sooner. Returns in how many ms the next
 * thing will be due, at most `most_ms`.
 */
int64_t racks_tick(struct racks *racks, int64_t most_ms);

#endif
