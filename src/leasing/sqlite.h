/* SPDX-License-Identifier: MIT */
#ifndef LEASING_SQLITE_H
#define LEASING_SQLITE_H

#include "base/buf.h"
#include "base/clock.h"
#include "lessor/lease_store.h"

/* The one file of a data directory that holds leases, racks and environments. */
#define LEASE_SQLITE_FILE "leases.db"

/* Zeroed fields take the default that is named. Only tests have a reason to set more than the first. */
struct lease_sqlite_options {
        uint64_t low_space_bytes;  /* below this much free, new leases are refused; default 64 MiB */
        uint64_t max_held_bytes;   /* events and results that may wait for the disk; default 256 MiB */
        uint64_t max_late_bytes;   /* of them that stay in memory once they are written; default 16 MiB */
        unsigned n_readers;        /* connections that read events and results; default 4, at most 64 */
        unsigned checkpoint_pages; /* size of the log at which it is folded back; default 4000 */
        int64_t seen_ms;           /* longest time that "last seen" may be unwritten; default 30000 */
        int64_t retry_ms;          /* first pause after a failed write, doubled up to 5 s; default 100 */
        const char *vfs;           /* SQLite's name of a VFS, borrowed; default its own default */
        uint64_t (*free_bytes)(void *context); /* default: what statvfs says of the data directory */
        void *free_context;
};

/*
 * A lease store that outlives its process: the engine in memory, and every record that it changes written to
 * `DIR/leases.db` (SQLite, WAL, synchronous=FULL) before anyone hears of the change. Events and results stay
 * on disk, and are read when they are asked for.
 *
 * Only one process at a time may use a data directory; the store holds a lock on it, which it shares with
 * other stores of the same process that keep other files there.
 *
 * Credentials that cannot be read count for nothing, and a policy that cannot be read asks for approval.
 * Other rows that cannot be read are left alone, logged, and counted in n_set_aside; nothing of them is ever
 * granted.
 *
 * data_dir     copied; made (mode 0700) if it is not there, its parent must be
 * options      copied; NULL for the protocol's
 * clock        borrowed; must outlive the store
 * listener     copied; NULL for none. Called from the writer thread
 * disk         borrowed for the call; NULL: all defaults
 * ret_store    written on success; end it with lessor_lease_store_free, which writes what is unwritten
 * ret_problem  initialised; on failure a sentence for people that names the file and the way out is appended
 *
 * Returns 0; LESSOR_E_BUSY (another server has it, the problem says who); LESSOR_E_NEWER; LESSOR_E_CORRUPT;
 * LESSOR_E_PERMISSION; LESSOR_E_INVALID (no directory, a database that is not ours, or an option out of its
 * range); LESSOR_E_IO; LESSOR_E_NOMEM.
 */
int lease_sqlite_store_new(const char *data_dir, const struct lessor_lease_options *options,
                           struct clock *clock, const struct lessor_lease_listener *listener,
                           const struct lease_sqlite_options *disk, struct lessor_lease_store **ret_store,
                           struct buf *ret_problem);

#endif
