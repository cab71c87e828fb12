/* SPDX-License-Identifier: MIT */
#ifndef ROUTING_SQLITE_INTERNAL_H
#define ROUTING_SQLITE_INTERNAL_H

#include <sqlite3.h>
#include <stdatomic.h>

#include "base/table.h"
#include "database/committer.h"
#include "database/data_lock.h"
#include "database/late.h"
#include "database/readers.h"
#include "routing/engine.h"
#include "routing/sqlite.h"

/*
 * The insides of the SQLite store, for src/routing/sqlite*.c alone.
 *
 * Who may touch what is said in database/committer.h; the store's own state is under the committer's lock.
 * And: an envelope's bytes are in `held` from the decision to the commit, and on disk afterwards, so that at
 * any moment a reader finds them in one of the two.
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

/* --- The store --- */

struct sqlite_store {
        struct lessor_routing_store base;
        struct sqlite_store_options options;
        struct clock *clock;
        char *dir;
        char *path;
        struct data_lock *data_lock;

        struct committer committer; /* its lock guards what follows */
        struct engine *engine;
        struct asides asides;
        struct table held;
        uint64_t n_held_bytes;
        uint64_t next_envelope;
        struct table holders;
        uint64_t next_holder;
        uint64_t noted_seq;      /* highest job whose row was noted */
        uint64_t noted_presence; /* highest order of a presence that was noted */
        struct late_rows late;   /* presences, of which only last_seen has changed */
        int64_t late_due_ms;     /* monotonic; valid while there are any */
        bool check_wanted;

        struct readers readers;
        bool readers_open;

        /* the committer's thread's own */
        sqlite3_stmt *statements[N_WRITE_KINDS];
        struct batch batch;
};

extern const struct lessor_routing_store_ops sqlite_store_ops;

/* Ends a store, or what there is of one. */
struct lessor_routing_store *store_free(struct sqlite_store *s);

/* Of committer_ops; has_changes puts off on the way what may be late. */
bool store_has_changes(void *store);
int64_t store_late_ms(const void *store);
int batch_collect(void *store);
int batch_write(void *store);
void batch_clear(void *store);

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

int batch_prepare(struct sqlite_store *s, struct buf *ret_problem);
void batch_finalize(struct sqlite_store *s);

/* Rebuilds the engine from the rows. Returns as sqlite_store_new. */
int store_load(struct sqlite_store *s, struct buf *ret_problem);

/* --- Texts of the enums in the rows: see sqlite_load.c --- */

extern const char *const row_kind[LESSOR_N_KINDS];
extern const char *const row_audience[2];
extern const char *const row_size_class[4];
extern const char *const row_state[5];
extern const char *const row_disposition[3];

#endif
