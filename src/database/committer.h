/* SPDX-License-Identifier: MIT */
#ifndef DATABASE_COMMITTER_H
#define DATABASE_COMMITTER_H

#include <pthread.h>
#include <sqlite3.h>
#include <stdatomic.h>
#include <stdint.h>

#include "base/buf.h"
#include "database/checkpointer.h"
#include "lessor/ticket.h"

/*
 * What makes decisions that were taken in memory last: one lock, under which a store decides, and one thread,
 * which takes all that was decided while the last commit was under way as the next batch, commits it, and
 * then tells those who waited for it (docs/decisions/0008-tickets-and-group-commit.md).
 *
 * When a batch cannot be written, everybody who waits is told that it could not, and the store refuses
 * everything until the same batch has been written after all: it is kept and tried again, after a pause that
 * doubles, or as soon as somebody asks for something. So nothing that was decided is ever forgotten or
 * reordered, and nothing that was not written is ever told.
 *
 * Who may touch what:
 *  1. `lock` guards all of the store's state and what is listed under it below. It is never held while
 * anything is read, written, or told to a caller.
 *  2. The committer's thread alone touches `db`, from committer_start on, and the batch under way.
 *  3. A record is written as it is when its batch is collected; whatever changes afterwards goes into the
 * next batch. So a batch, once collected, needs nothing from the store and can be tried again as it is.
 *  4. A ticket is the number of a batch: `open_seq` for what is not yet collected, one less for what is under
 * way. At most one batch is under way.
 */

/* What a store does for its committer. */
struct committer_ops {
        /* Whether there is something that a batch must take. Lock held. */
        bool (*has_changes)(void *store);
        /* When what may be late must be taken, monotonic; INT64_MAX: there is nothing. Lock held. */
        int64_t (*late_ms)(const void *store);
        /*
         * Collects everything that is to be written into the batch, which is empty, half collected or whole.
         * Lock held. Returns 0, and is not called again before `clear`; LESSOR_E_NOMEM: what was collected
         * stays, and the next call goes on.
         */
        int (*collect)(void *store);
        /* Writes the batch, inside a transaction. No lock. Returns SQLITE_OK or SQLite's code. */
        int (*write)(void *store);
        /* The batch is on disk: tells those who listen. No lock. */
        void (*tell)(void *store);
        /* Empties the batch. Lock held. */
        void (*clear)(void *store);
};

/* See the stores' options of the same names; none of those may be 0. Texts are borrowed. */
struct committer_options {
        uint64_t low_space_bytes;
        unsigned checkpoint_pages;
        int64_t retry_ms;
        /* After a commit that a crowd waited for, the next one begins so much later, or three times
         * so much while more come. */
        int64_t gather_us;
        const char *vfs;
        uint64_t (*free_bytes)(void *context); /* NULL: what statvfs says of dir */
        void *free_context;
};

struct waiter;

struct waiters {
        struct waiter *first, **end;
        size_t n;
};

struct committer {
        const struct committer_ops *ops;
        void *store;
        struct committer_options options;
        const char *dir, *path;

        pthread_mutex_t lock;
        pthread_cond_t work; /* for the thread: there is something to do, or to try again */

        /* under the lock */
        uint64_t open_seq; /* the batch that takes what is decided now */
        bool collected;    /* the batch is whole */
        bool writing;      /* batch open_seq - 1 is under way */
        bool failing;      /* and could not be written; it will be tried again */
        bool kicked;       /* somebody asked: try again now */
        bool idle;         /* the thread sleeps */
        bool stopping;
        struct waiters open_waiters, flight_waiters;
        struct waiter *spare_waiters;

        atomic_uint_fast64_t durable; /* the newest batch on disk */
        atomic_bool low_space;

        pthread_t thread;
        bool is_running;
        struct checkpointer checkpointer;

        /* the thread's own */
        sqlite3 *db;
        sqlite3_stmt *begin, *commit, *rollback;
        int wal_pages;   /* in the log after the last commit */
        int wal_folded;  /* of which were folded back when it was last done */
        size_t crowd;    /* how many waited for the last commit */
        int64_t told_us; /* monotonic; when they were told */
};

/* Makes it, and its lock. `ops` is borrowed. */
void committer_init(struct committer *c, const struct committer_ops *ops, void *store);

/*
 * Opens the file for writing, and makes c->db, which is the caller's until committer_start. dir and path are
 * borrowed. Returns as sqlite_db_open.
 */
int committer_open(struct committer *c, const char *dir, const char *path,
                   const struct committer_options *options, struct buf *ret_problem);

/* Starts to write. Returns as sqlite_db_open. */
int committer_start(struct committer *c, struct buf *ret_problem);

/* Writes what is unwritten, if the disk lets it, and ends the thread; afterwards c->db is the caller's again.
 */
void committer_stop(struct committer *c);

/* Closes the file and frees what there is. Every statement of the caller's is finalised, its lock is free. */
void committer_done(struct committer *c);

/*
 * Begins an operation: takes the lock. While the disk refuses, so does the store: LESSOR_E_UNAVAILABLE,
 * without the lock, and the writer is told to try again.
 */
int committer_enter(struct committer *c);

/* Ends an operation: gives the lock back, and hands out the ticket of everything decided so far, or waits for
 * it where `ticket` is NULL. Refusals wait too: they tell. Returns `result` or LESSOR_E_UNAVAILABLE. */
int committer_leave(struct committer *c, struct lessor_ticket *ticket, int result);

/* The two halves of committer_leave, for what has something to do between them. */
struct lessor_ticket committer_part(struct committer *c);
int committer_wait(struct committer *c, struct lessor_ticket own, struct lessor_ticket *ticket, int result);

/* As lessor_routing_when_durable. No lock held. */
int committer_when_durable(struct committer *c, struct lessor_ticket ticket,
                           void (*told)(void *context, int result), void *context);

/* Makes the thread look whether there is something to do. Lock held. */
void committer_wake(struct committer *c);

/* Whether there is too little space for new work. */
bool committer_is_low(const struct committer *c);

#endif
