/* SPDX-License-Identifier: MIT */
#ifndef ROUTING_SQLITE_INTERNAL_H
#define ROUTING_SQLITE_INTERNAL_H

#include <pthread.h>
#include <sqlite3.h>
#include <stdatomic.h>

#include "base/table.h"
#include "routing/engine.h"
#include "routing/sqlite.h"

/*
 * The insides of the SQLite store, for src/routing/sqlite*.c alone.
 *
 * Who may touch what:
 *  1. `lock` guards the engine and everything in the store that no comment claims for somebody else. It is
 * never held while anything is read, written, or told to a caller.
 *  2. The writer thread alone touches `db` and the batch under way.
 *  3. A record is written as it is when its batch is collected; whatever changes afterwards goes into the
 * next batch. So a batch, once collected, needs nothing from the engine and can be tried again as it is.
 *  4. A ticket is the number of a batch: `open_seq` for what is not yet collected, one less for what is under
 *     way. At most one batch is under way.
 *  5. An envelope's bytes are in `held` from the decision to the commit, and on disk afterwards: at any
 * moment a reader finds them in one of the two.
 */

/* --- Envelopes on their way to the disk --- */

struct held {
        struct table_node node; /* in store->held, by id */
        struct held *next;      /* in its batch */
        atomic_uint refs;
        uint64_t id;
        uint64_t seq;
        size_t n;
        char bytes[];
};

/* A copy of an envelope's text with one reference, or NULL when memory is short. */
struct held *held_new(struct lessor_slice bytes);
struct held *held_ref(struct held *h);
/* Takes NULL, returns NULL. */
struct held *held_unref(struct held *h);

/* What the store hangs on a job that has or had envelopes or bars. Ids are of routing_envelope, 0: none. */
struct sealed {
        uint64_t payload, result; /* as decided */
        uint64_t payload_bytes, result_bytes;
        uint64_t noted_payload, noted_result; /* as noted in a batch, or on disk */
        uint64_t noted_bars;                  /* digest of the bars that were noted; 0: none */
};

/* --- Rows that cannot be read: see sqlite_aside.c --- */

struct aside {
        struct table_node node; /* by (site, id) */
        struct aside *dirty_next;
        uint64_t seq;
        struct lessor_job job; /* what could be read of it, as queued; the rest empty */
        int64_t deadline_ms;   /* INT64_MAX: could not be read */
        bool removed;
        bool cancel_unwritten;
        bool remove_unwritten;
        bool dirty;
};

struct asides {
        struct lessor_arena *arena;
        struct table by_id;
        struct aside **items; /* by seq, removed ones included */
        size_t n, cap;
        size_t n_there; /* not removed */
        int64_t due_ms; /* the earliest deadline */
        struct aside *dirty;
        uint64_t n_nameless; /* rows that could not even be named: counted, never touched */
};

int asides_init(struct asides *a, const unsigned char key[ENGINE_HASH_KEY_BYTES]);
void asides_done(struct asides *a);
/* Copies what `job` says. Rows come in order of seq. Returns 0, LESSOR_E_NOMEM. */
int asides_add(struct asides *a, uint64_t seq, const struct lessor_job *job, int64_t deadline_ms);
struct aside *asides_find(const struct asides *a, struct lessor_slice site_id, struct lessor_slice job_id);
int aside_render(const struct aside *aside, struct lessor_arena *arena, struct lessor_job *ret_job);
void asides_cancel(struct asides *a, struct aside *aside);
void asides_expire(struct asides *a, int64_t now_ms);
/* Puts those of the site (NULL: of all) among the jobs of `list`, by enqueued_ms, and keeps it at `max`. */
int asides_merge(const struct asides *a, const struct lessor_slice *site_id, size_t max,
                 struct lessor_arena *arena, struct lessor_job_list *list);

/* --- Batches: see sqlite_batch.c and sqlite_write.c --- */

enum write_kind {
        WRITE_HOLDER,
        WRITE_JOB,
        WRITE_JOB_GONE,
        WRITE_STATE,
        WRITE_STATE_GONE,
        WRITE_BAR,
        WRITE_BARS_GONE,
        WRITE_ENVELOPE,
        WRITE_ENVELOPE_GONE,
        WRITE_PRESENCE,
        WRITE_ASIDE_CANCELLED,
        WRITE_CHECK,
        N_WRITE_KINDS
};

/* One statement to run. All slices are in the batch's arena. */
struct write {
        struct write *next;
        enum write_kind kind;
        uint64_t seq; /* the row's key: a job's seq, an envelope's or holder's id, a presence's order */
        union {
                struct {
                        struct lessor_slice site_id;
                        struct lessor_stub stub;
                        int64_t enqueued_ms;
                } job;
                struct {
                        enum lessor_job_state state;
                        uint64_t holder; /* 0: none */
                        struct lessor_slice lease_id;
                        int64_t lease_expires_ms;
                        int64_t awaiting_until_ms;
                        unsigned seal_attempts;
                        struct lessor_slice reoffer_to;
                        bool cancelled, sealed, has_result;
                        uint64_t payload, payload_bytes;
                        uint64_t result, result_bytes;
                        enum lessor_disposition disposition;
                } state;
                struct {
                        struct lessor_slice runner_id;
                        int64_t until_ms;
                } bar;
                struct {
                        struct held *held; /* the batch's `held` has the reference */
                        bool is_result;
                } envelope;
                struct lessor_presence presence; /* a holder's too */
                int64_t check_ms;
        };
};

struct batch_event {
        struct batch_event *next;
        struct engine_event event;
};

struct batch {
        uint64_t seq; /* 0: there is none */
        bool collected;
        struct lessor_arena *arena;
        struct write *writes, **writes_end;
        struct held *held;
        struct batch_event *events, **events_end;
};

/* A device with its keys as it claimed; the row in routing_holder. */
struct holder {
        struct table_node node; /* by what it says */
        uint64_t id;
        bool used;                  /* while loading */
        struct lessor_presence who; /* runner_id, owner and device; the bytes follow the struct */
};

/* A device whose last_seen has changed and need not be written at once. */
struct lazy {
        struct table_node node; /* by order */
        struct lazy *next;
        uint64_t order;
        struct lessor_slice runner_id; /* the bytes follow the struct */
};

struct waiter {
        struct waiter *next;
        void (*told)(void *context, int result);
        void *context;
        bool on_heap;
};

struct waiters {
        struct waiter *first, **end;
};

/* --- Readers: see sqlite_reader.c --- */

struct reader {
        struct reader *next;
        sqlite3 *db;
        sqlite3_stmt *small;
};

struct readers {
        pthread_mutex_t lock;
        pthread_cond_t back;
        struct reader *idle;
        unsigned n_open, max;
        const char *path; /* borrowed from the store */
        const char *vfs;
};

int readers_init(struct readers *p, const char *path, const char *vfs, unsigned max);
void readers_done(struct readers *p);
/*
 * Reads an envelope of `n` bytes that was committed. Returns 0; LESSOR_E_NOT_FOUND (no such row now);
 * LESSOR_E_NOMEM; LESSOR_E_CORRUPT; LESSOR_E_UNAVAILABLE.
 */
int readers_envelope(struct readers *p, uint64_t id, uint64_t n, struct lessor_arena *arena,
                     struct lessor_slice *ret_json);

/* --- Checkpoints: see sqlite_checkpoint.c --- */

struct checkpointer {
        pthread_t thread;
        pthread_mutex_t lock;
        pthread_cond_t wake;
        sqlite3 *db;
        bool running, wanted, stopping;
        atomic_bool copied; /* most of the log is in the database: the rest is quick work */
};

int checkpointer_start(struct checkpointer *c, const char *path, const char *vfs, struct buf *ret_problem);
void checkpointer_stop(struct checkpointer *c);
void checkpointer_want(struct checkpointer *c);

/* --- The store --- */

struct sqlite_store {
        struct lessor_routing_store base;
        struct sqlite_store_options options;
        struct clock *clock;
        char *dir;
        char *path;
        int lock_fd;

        pthread_mutex_t lock;
        pthread_cond_t work; /* for the writer: there is something to do, or to try again */
        struct engine *engine;
        struct asides asides;
        struct table held;
        uint64_t n_held_bytes;
        uint64_t next_envelope;
        struct table holders;
        uint64_t next_holder;
        uint64_t noted_seq;      /* highest job whose row was noted */
        uint64_t noted_presence; /* highest order of a presence that was noted */
        struct table lazy;
        struct lazy *lazy_first, **lazy_end;
        int64_t lazy_due_ms; /* monotonic; valid while lazy_first is there */

        uint64_t open_seq;            /* the batch that takes what is decided now */
        atomic_uint_fast64_t durable; /* the newest batch on disk */
        bool writing;                 /* batch open_seq - 1 is under way */
        bool failing;                 /* and could not be written; it will be tried again */
        bool kicked;                  /* somebody asked: try again now */
        bool idle;                    /* the writer sleeps */
        bool check_wanted;
        bool stopping;
        struct waiters open_waiters, flight_waiters;
        struct waiter *spare_waiters;
        atomic_bool low_space;

        pthread_t writer;
        bool writer_running;
        struct readers readers;
        bool readers_open;
        struct checkpointer checkpointer;

        /* the writer thread's own */
        sqlite3 *db;
        sqlite3_stmt *statements[N_WRITE_KINDS];
        sqlite3_stmt *begin, *commit, *rollback;
        struct batch batch;
        int wal_pages;   /* in the log after the last commit */
        int wal_folded;  /* of which were folded back when it was last done */
        size_t crowd;    /* how many waited for the last commit */
        int64_t told_us; /* monotonic; when they were told */
};

extern const struct lessor_routing_store_ops sqlite_store_ops;

/* Ends a store, or what there is of one. */
struct lessor_routing_store *store_free(struct sqlite_store *s);

/* Whether there is something that a batch must take. Notes lazily written presences on the way. */
bool store_has_changes(struct sqlite_store *s);

/* Drops the bytes of an envelope that was never noted. Lock held. */
void store_drop_held(struct sqlite_store *s, uint64_t id);

/* Finds or makes the holder of these keys; `ret_new` tells which. Returns 0 or LESSOR_E_NOMEM. */
int store_holder(struct sqlite_store *s, const struct lessor_presence *who, struct holder **ret_holder,
                 bool *ret_new);
/* A holder with a given id, from its row. */
int store_holder_add(struct sqlite_store *s, uint64_t id, const struct lessor_presence *who,
                     struct holder **ret_holder);
/* Stands for a set of bars. Never 0. */
uint64_t store_bars_digest(const struct sqlite_store *s, const struct engine_bar *bars, size_t n);
void store_free_notes(struct sqlite_store *s);

/*
 * Collects everything that is to be written into the store's batch, which must be empty or half collected.
 * Lock held. Returns 0; LESSOR_E_NOMEM: what was collected stays, and the next call goes on.
 */
int batch_collect(struct sqlite_store *s, int64_t monotonic_ms, int64_t now_ms);

/* Writes the batch in one transaction. No lock held; writer thread. Returns 0 or a negative code. */
int batch_write(struct sqlite_store *s);
int batch_prepare(struct sqlite_store *s, struct buf *ret_problem);
void batch_finalize(struct sqlite_store *s);

/* Empties it, after its commit: the bytes it held are on disk. Lock held. */
void batch_clear(struct sqlite_store *s);

/* Rebuilds the engine from the rows. Returns as sqlite_store_new. */
int store_load(struct sqlite_store *s, struct buf *ret_problem);

/* The writer thread's body; its argument is the store. */
void *writer_run(void *store);

/* Asks the writer to begin, if it sleeps. Lock held. */
void writer_wake(struct sqlite_store *s);

/* Looks whether the disk is nearly full, at most once a second. No lock held; writer thread, or before it
 * runs. */
void writer_check_space(struct sqlite_store *s);

/* Waits for a ticket. No lock held. Returns 0 or LESSOR_E_UNAVAILABLE. */
int writer_wait(struct sqlite_store *s, struct lessor_ticket ticket);
int writer_when_durable(struct sqlite_store *s, struct lessor_ticket ticket,
                        void (*told)(void *context, int result), void *context);

/* Copies the whole database to a new file. No lock held. Returns as lessor_routing_backup. */
int store_backup(const struct sqlite_store *s, const char *path);

/* --- Texts of the enums in the rows: see sqlite_load.c --- */

extern const char *const row_kind[LESSOR_N_KINDS];
extern const char *const row_audience[2];
extern const char *const row_size_class[4];
extern const char *const row_state[5];
extern const char *const row_disposition[3];

#endif
