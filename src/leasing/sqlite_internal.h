/* SPDX-License-Identifier: MIT */
#ifndef LEASING_SQLITE_INTERNAL_H
#define LEASING_SQLITE_INTERNAL_H

#include <sqlite3.h>
#include <stdatomic.h>

#include "database/committer.h"
#include "database/data_lock.h"
#include "database/late.h"
#include "database/readers.h"
#include "leasing/engine_store.h"
#include "leasing/sqlite.h"

/*
 * The insides of the SQLite store of leases, for src/leasing/sqlite*.c alone.
 *
 * Who may touch what is said in database/committer.h; the store's own state is under the committer's lock.
 * And: an event's or a result's bytes are held in memory from the decision to the commit, and are on disk
 * afterwards, so that at any moment a reader finds them in one of the two. The latest stay in memory for a
 * while beyond that, since a lease is mostly granted, and its result fetched, soon after it came.
 */

/* --- Long texts --- */

enum text_kind { TEXT_EVENT, TEXT_RESULT, N_TEXT_KINDS };

/* A text on its way to the disk, or lately written. */
struct held_text {
        atomic_uint refs;
        struct kept *of; /* whose it is, and the two beside it among those lately written. Lock held */
        struct held_text *older, *newer;
        bool is_written;
        enum text_kind kind;
        size_t n;
        char bytes[];
};

/* A copy with one reference, or NULL when memory is short. */
struct held_text *held_text_new(struct lessor_slice bytes);
struct held_text *held_text_ref(struct held_text *h);
/* Takes NULL, returns NULL. */
struct held_text *held_text_unref(struct held_text *h);

/* Tables in which a lease may have rows, beside leasing_lease and leasing_event. */
enum lease_rows {
        ROWS_LEASE = 1, /* its own two: it was noted at all */
        ROWS_STATE = 2,
        ROWS_RESULT = 4,
        ROWS_ATTEMPTS = 8,
        ROWS_KEYS = 16,
        ROWS_TARGETS = 32,
        ROWS_CAPABILITIES = 64,
};

/* What the store hangs on every lease. Lock held, whoever touches it. */
struct kept {
        size_t refs; /* the lease's; those of batches */
        struct lease_sqlite_store *of;
        struct held_text *held[N_TEXT_KINDS]; /* NULL: on disk, or none */
        uint64_t bytes[N_TEXT_KINDS];
        bool has_result;
        unsigned rows; /* of lease_rows, as noted or on disk */
};

/* Returns 0 or LESSOR_E_NOMEM. */
int kept_new(struct lease_sqlite_store *s, struct kept **ret_kept);
void kept_hold(struct kept *kept, enum text_kind kind, struct held_text *h);
void kept_unref(struct kept *kept);

/* --- Batches: see sqlite_batch.c and sqlite_write.c --- */

enum write_kind {
        WRITE_LEASE,
        WRITE_STATE,
        WRITE_EVENT,
        WRITE_RESULT,
        WRITE_ATTEMPT,
        WRITE_KEY,
        WRITE_TARGET,
        WRITE_CAPABILITY,
        WRITE_CAPABILITY_GONE,
        WRITE_LEASE_GONE,
        WRITE_EVENT_GONE,
        WRITE_STATE_GONE,
        WRITE_RESULT_GONE,
        WRITE_ATTEMPTS_GONE,
        WRITE_KEYS_GONE,
        WRITE_TARGETS_GONE,
        WRITE_CAPABILITIES_GONE,
        WRITE_RACK,
        WRITE_RACK_TIER,
        WRITE_RACK_SEEN,
        WRITE_RACK_GONE,
        WRITE_RACK_TIERS_GONE,
        WRITE_RACK_SEEN_GONE,
        WRITE_TOKEN,
        WRITE_TOKEN_GONE,
        WRITE_ENROLMENT,
        WRITE_ENROLMENT_GONE,
        WRITE_ENVIRONMENT,
        WRITE_ENVIRONMENT_GONE,
        WRITE_META_INT,
        WRITE_META_TEXT,
        N_WRITE_KINDS
};

/* One statement to run. All slices are in the batch's arena. */
struct write {
        struct write *next;
        enum write_kind kind;
        uint64_t key; /* of the row: a lease's seq, an order; 0 where it is a text */
        union {
                struct lessor_lease lease; /* its static part, or where it is */
                struct lease_attempt_row attempt;
                struct lease_key_row key_row;
                struct {
                        uint64_t order;
                        struct lessor_slice hash;
                } target;
                struct lessor_capability capability;
                struct held_text *text; /* the batch has the reference */
                struct lessor_rack rack;
                struct {
                        uint64_t place;
                        struct lessor_slice tier;
                } tier;
                struct rack_token_row token;
                struct lessor_enrolment enrolment;
                struct lessor_environment environment;
                struct {
                        const char *name;
                        int64_t number;
                        struct lessor_slice text;
                } meta;
        };
        uint64_t bytes; /* of the event or the result */
        bool has_result;
};

/* A text in a batch. */
struct batch_text {
        struct batch_text *next;
        struct kept *kept;      /* a reference */
        struct held_text *held; /* a reference */
        enum text_kind kind;
};

struct batch_event {
        struct batch_event *next;
        struct lease_engine_event event;
};

struct batch {
        struct lessor_arena *arena;
        struct write *writes, **writes_end;
        struct batch_text *texts;
        struct batch_event *events, **events_end;
};

/* --- The store --- */

struct lease_sqlite_store {
        struct engine_store store;
        struct lease_sqlite_options options;
        char *dir;
        char *path;
        struct data_lock *data_lock;

        struct committer committer;        /* its lock guards the engine and what follows */
        uint64_t n_held_bytes;             /* that wait for the disk */
        uint64_t n_late_bytes;             /* lately written */
        struct held_text *oldest, *newest; /* of those */
        uint64_t n_set_aside;
        uint64_t noted_seq;    /* the highest seq that was ever noted, or is on disk */
        struct late_rows late; /* racks, of which only when they were seen has changed */
        int64_t late_due_ms;   /* monotonic; valid while there are any */
        bool check_wanted;

        struct readers readers;
        bool readers_open;

        /* the committer's thread's own */
        sqlite3_stmt *statements[N_WRITE_KINDS];
        struct batch batch;
};

extern const struct lessor_lease_store_ops lease_sqlite_ops;
extern const struct text_column lease_text_columns[N_TEXT_KINDS];

/* Of struct engine_store. */
int lease_sqlite_enter(struct engine_store *s);
int lease_sqlite_leave(struct engine_store *s, struct lessor_ticket *ticket, int result);

/* Ends a store, or what there is of one. */
struct lessor_lease_store *lease_sqlite_free(struct lease_sqlite_store *s);

/* Of committer_ops; has_changes puts off on the way what may be late. */
bool lease_has_changes(void *store);
int64_t lease_late_ms(const void *store);
int lease_batch_collect(void *store);
int lease_batch_write(void *store);
void lease_batch_tell(void *store);
void lease_batch_clear(void *store);

int lease_batch_prepare(struct lease_sqlite_store *s, struct buf *ret_problem);
void lease_batch_finalize(struct lease_sqlite_store *s);

/* Rebuilds the engine from the rows. Returns as lease_sqlite_store_new. */
int lease_sqlite_load(struct lease_sqlite_store *s, struct buf *ret_problem);

/* --- Texts of the enums in the rows: see sqlite_load.c --- */

#define N_ROW_MODES            3
#define N_ROW_CAUSES           7
#define N_ROW_ATTEMPT_STATES   6
#define N_ROW_CAPABILITY_KINDS 4
#define N_ROW_TOKEN_STATUSES   3
extern const char *const row_mode[N_ROW_MODES];
extern const char *const row_status[LESSOR_N_LEASE_STATUSES];
extern const char *const row_cause[N_ROW_CAUSES];
extern const char *const row_attempt_state[N_ROW_ATTEMPT_STATES];
extern const char *const row_capability_kind[N_ROW_CAPABILITY_KINDS];
extern const char *const row_token_status[N_ROW_TOKEN_STATUSES];

#endif
