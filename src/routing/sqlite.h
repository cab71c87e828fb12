/* SPDX-License-Identifier: MIT */
#ifndef ROUTING_SQLITE_H
#define ROUTING_SQLITE_H

#include "base/buf.h"
#include "base/clock.h"
#include "lessor/routing_store.h"

/* The one file of a data directory that holds everything transactional. */
#define SQLITE_STORE_FILE "lessor.db"

/* Zeroed fields take the default that is named. Only tests have a reason to set more than the first. */
struct sqlite_store_options {
        uint64_t low_space_bytes;  /* below this much free, new jobs are refused; default 64 MiB */
        uint64_t max_held_bytes;   /* envelopes that may wait for the disk at once; default 256 MiB */
        unsigned n_readers;        /* connections that read envelopes; default 4, at most 64 */
        unsigned checkpoint_pages; /* size of the log at which it is folded back; default 4000 */
        int64_t presence_ms;       /* longest time that a last_seen may be unwritten; default 5000 */
        int64_t retry_ms;          /* first pause after a failed write, doubled up to 5 s; default 100 */
        const char *vfs;           /* SQLite's name of a VFS, borrowed; default its own default */
        uint64_t (*free_bytes)(void *context); /* default: what statvfs says of the data directory */
        void *free_context;
};

/*
 * A routing store that outlives its process: the engine in memory, and every record that it changes written
 * to `DIR/lessor.db` (SQLite, WAL, synchronous=FULL) before anyone hears of the change. Envelopes stay on
 * disk.
 *
 * Only one process at a time may use a data directory; the store holds a lock on it, and gives it back when
 * it ends, however it ends. Other code of the same process may keep tables of its own in the same file,
 * through connections opened with sqlite_db_open (database/sqlite_db.h) and in short transactions.
 *
 * data_dir     copied; made (mode 0700) if it is not there, its parent must be
 * clock        borrowed; must outlive the store
 * listener     copied; NULL for none. Called from the writer thread
 * options      borrowed for the call; NULL: all defaults
 * ret_store    written on success; end it with lessor_routing_store_free, which writes what is unwritten
 * ret_problem  initialised; on failure a sentence for people that names the file and the way out is appended
 *
 * Returns 0; LESSOR_E_BUSY (another server has it, the problem says who); LESSOR_E_NEWER; LESSOR_E_CORRUPT;
 * LESSOR_E_PERMISSION; LESSOR_E_INVALID (no directory, or a database that is not ours); LESSOR_E_IO;
 * LESSOR_E_NOMEM.
 */
int sqlite_store_new(const char *data_dir, struct clock *clock,
                     const struct lessor_routing_listener *listener,
                     const struct sqlite_store_options *options, struct lessor_routing_store **ret_store,
                     struct buf *ret_problem);

#endif
