/* SPDX-License-Identifier: MIT */
#ifndef ROUTING_ENGINE_H
#define ROUTING_ENGINE_H

#include "lessor/routing_store.h"

/*
 * The rules of the routing store (relay-protocol 10), and the only place in C where they live.
 *
 * Pure: no I/O, no locks, no clock, no randomness. Every call is (engine, command, now, fresh ids) ->
 * outcome, and leaves behind the records that changed and the events that happened for the store to take. A
 * store gives it a clock, a lock and a memory. One thread at a time.
 *
 * Cost. No call costs more with the number of jobs that it does not touch: see queue.h for how a claim finds
 * its jobs, and sweep looks only at what is due.
 *
 * Failure. A call that returns LESSOR_E_NOMEM has changed nothing, except that claim may have swept.
 * Everything that takes memory comes before the first change. A sweep without a report needs no memory at
 * all.
 *
 * Results are rendered into the caller's arena; slices passed in are borrowed for the call.
 */
struct engine;

/* A job inside the engine. A pointer to one is good until the engine's next call that changes anything. */
struct job;

#define ENGINE_HASH_KEY_BYTES 16

/*
 * hash_key         keys the hash tables, so that nobody outside can choose ids that collide; copied. The
 * engine's answers do not depend on it free_attachment  frees what job_attach hung on a job, when the job's
 * memory goes; NULL if nothing ever is
 *
 * Returns 0 or LESSOR_E_NOMEM.
 */
int engine_new(const unsigned char hash_key[ENGINE_HASH_KEY_BYTES], void (*free_attachment)(void *attachment),
               struct engine **ret_engine);

/* Takes NULL, returns NULL. */
struct engine *engine_free(struct engine *e);

/*
 * The engine holds no envelope bytes; a job only knows whether it has them. Where they are is the store's
 * business: keyed by job_seq() on disk, or hung on the job itself, in the one pointer that it keeps for the
 * store.
 */
void job_attach(struct job *job, void *attachment);
void *job_attachment(const struct job *job);

/* The job's place in the enqueue order: from 1, unique for the life of the data, never reused. */
uint64_t job_seq(const struct job *job);

/* Everything about a job but its envelopes, copied into the arena. Returns 0 or LESSOR_E_NOMEM. */
int job_render(const struct job *job, struct lessor_arena *arena, struct lessor_job *ret_job);

/* --- The operations, as in lessor/routing_store.h --- */

/* `ret_job` and `ret_new` (may be NULL) are written on success. */
int engine_enqueue(struct engine *e, struct lessor_slice site_id, const struct lessor_stub *stub,
                   int64_t now_ms, struct lessor_arena *arena, struct lessor_job *ret_job, bool *ret_new);

/* Returns the job of this site, or NULL. Lets a store refuse new work while it still answers for known ids.
 */
struct job *engine_find(const struct engine *e, struct lessor_slice site_id, struct lessor_slice job_id);

int engine_job(const struct engine *e, struct lessor_slice site_id, struct lessor_slice job_id,
               struct lessor_arena *arena, struct lessor_job *ret_job);

int engine_jobs(const struct engine *e, const struct lessor_slice *site_id, size_t max,
                struct lessor_arena *arena, struct lessor_job_list *ret_jobs);

int engine_awaiting(const struct engine *e, struct lessor_slice site_id, size_t max,
                    struct lessor_arena *arena, struct lessor_job_list *ret_jobs);

/*
 * The site's first finished job whose seq is above `after_seq` (0: its first), or NULL. A store walks the
 * results with this and job_seq, and stops when it has enough.
 */
struct job *engine_finished_next(const struct engine *e, struct lessor_slice site_id, uint64_t after_seq);

/*
 * lease_ids  `claim->max` fresh ids, each unique for ever; those of jobs granted are copied, in order
 *
 * Returns 0; LESSOR_E_INVALID when max is 0 or above LIMIT_CLAIM_MAX or lease_ms is not positive;
 * LESSOR_E_NOMEM.
 */
int engine_claim(struct engine *e, const struct lessor_claim *claim, int64_t now_ms,
                 const struct lessor_slice *lease_ids, struct lessor_arena *arena,
                 struct lessor_job_list *ret_granted);

/*
 * takePayload in two steps, so that a store can fetch the bytes between the decision and the change, under
 * one lock: engine_payload_holder decides and changes nothing, engine_run notes that the job now runs (and
 * changes nothing if it does already). Refusals as lessor_routing_take_payload.
 */
int engine_payload_holder(const struct engine *e, struct lessor_slice runner_id,
                          const struct lessor_lease_ref *lease, struct job **ret_job);
void engine_run(struct engine *e, struct job *job);

/*
 * `ret_job` is the job, whose result is now (or, with *ret_duplicate, was already) the store's to keep. Its
 * payload's bytes are needed no longer.
 */
int engine_complete(struct engine *e, struct lessor_slice runner_id, const struct lessor_lease_ref *lease,
                    enum lessor_disposition disposition, struct job **ret_job, bool *ret_duplicate);

int engine_release_leases(struct engine *e, const struct lessor_release *release, int64_t now_ms,
                          struct lessor_arena *arena, struct lessor_lease_ref_list *ret_released);

/* `ret_job` is the job whose payload is now the store's to keep; `ret_was` as lessor_routing_seal. */
int engine_seal(struct engine *e, struct lessor_slice site_id, struct lessor_slice job_id,
                struct job **ret_job, enum lessor_job_state *ret_was);

int engine_cancel(struct engine *e, struct lessor_slice site_id, struct lessor_slice job_id);

int engine_cancel_requests(const struct engine *e, struct lessor_slice runner_id, struct lessor_arena *arena,
                           struct lessor_lease_ref_list *ret_leases);

int engine_renew_leases(struct engine *e, struct lessor_slice runner_id,
                        const struct lessor_lease_ref *leases, size_t n_leases, int64_t lease_ms,
                        int64_t now_ms, struct lessor_arena *arena, struct lessor_renewal_list *ret_renewals);

int engine_ack(struct engine *e, struct lessor_slice site_id, const struct lessor_slice *job_ids,
               size_t n_job_ids, struct lessor_arena *arena, struct lessor_slice **ret_acked,
               size_t *ret_n_acked);

int engine_seen(struct engine *e, const struct lessor_presence *presence, int64_t now_ms);

int engine_presence(const struct engine *e, struct lessor_slice runner_id, struct lessor_arena *arena,
                    struct lessor_presence *ret_presence);

int engine_everyone(const struct engine *e, struct lessor_arena *arena,
                    struct lessor_presence_list *ret_everyone);

/*
 * Does what is due at `now_ms`, job by job in enqueue order. With `ret_swept` NULL (then `arena` may be NULL)
 * it cannot fail.
 */
int engine_sweep(struct engine *e, int64_t now_ms, struct lessor_arena *arena,
                 struct lessor_swept *ret_swept);

/* When the next sweep has something to do; INT64_MAX: never, as things are. */
int64_t engine_next_due_ms(const struct engine *e);

/* n_set_aside is left 0: only a store can know. */
void engine_stats(const struct engine *e, struct lessor_routing_stats *ret_stats);

/* --- What changed: for stores that write --- */

/* The until_ms of a refusal: this runner is never offered the job again. */
#define ENGINE_BAR_FOREVER INT64_MAX

/* One runner that may not have the job until some time. */
struct engine_bar {
        struct lessor_slice runner_id;
        int64_t until_ms; /* epoch ms, or ENGINE_BAR_FOREVER */
        void *runner;     /* the engine's own; ignored in a row to restore */
};

/* A job as a row. From the engine every slice is borrowed from it, until its next call that changes anything.
 */
struct engine_row {
        uint64_t seq;
        struct lessor_job job; /* refused_by and retry_after are left out here: they are in `bars` */
        const struct engine_bar *bars;
        size_t n_bars;
};

struct engine_change {
        enum {
                ENGINE_JOB_PUT,      /* insert or replace the row of row.seq */
                ENGINE_JOB_REMOVED,  /* delete it and its envelopes; row.seq, site_id and stub.id are valid */
                ENGINE_PRESENCE_PUT, /* insert or replace; order is its place among the presences, from 1 */
        } what;
        struct engine_row row;
        /*
         * With JOB_PUT: whether the bytes themselves changed since the change was last dropped. They are to
         * be kept exactly while keep_payload (the job is ready or running) and row.job.has_result say so. A
         * done job's has_payload may still be true, since it decides an answer, while its bytes are gone.
         */
        bool payload_changed;
        bool result_changed;
        bool keep_payload;
        struct job *handle; /* for job_attachment; NULL for a presence */
        struct lessor_presence presence;
        uint64_t order;
};

/*
 * The oldest change that was not dropped yet, as the record is now (several changes of one record are one).
 * False when there is none. Needs no memory. A store looks at it, notes what it has to write, and drops it;
 * one that cannot note it leaves it for the next time.
 *
 * Changes come in the order in which their records first changed, so that a removed job always comes before a
 * new one of the same (site, id).
 */
bool engine_change(const struct engine *e, struct engine_change *ret_change);
/* Whether there is a change and the oldest is a job's: what engine_change() would tell, without telling it.
 */
bool engine_change_is_job(const struct engine *e);
/*
 * The same for a store that keeps no rows: the job of the oldest change, whose bytes of a payload are to go;
 * NULL if it is not about a job, or if they are not. False when there is no change.
 */
bool engine_change_drops_payload(const struct engine *e, struct job **ret_job);

/* Returns whether there was one. */
bool engine_change_drop(struct engine *e);

/* --- What happened: for the listener --- */

struct engine_event {
        enum { ENGINE_EVENT_AWAITING, ENGINE_EVENT_FINISHED, ENGINE_EVENT_CHURN } what;
        struct lessor_slice site_id;
        struct lessor_churn churn; /* with CHURN */
        void *held;                /* the engine's own */
};

/*
 * Takes the oldest event; false when there is none. Events of one site and kind that nobody has taken yet are
 * one. The slices stay good, whatever happens to the engine's jobs and in whatever thread they are read,
 * until engine_event_done, which, like every call, needs the engine to itself.
 */
bool engine_event_take(struct engine *e, struct engine_event *ret_event);
void engine_event_done(struct engine *e, struct engine_event *event);

/* --- Starting from rows --- */

/*
 * Puts a job back as its row has it; rows may come in any order. Nothing is noted as changed. Claims, bars
 * and deadlines that are over by now are restored as they are: the next sweep deals with them.
 *
 * Churn notes are not kept over a restart.
 *
 * Returns 0; LESSOR_E_NOMEM; LESSOR_E_EXISTS (the (site, id), the seq or the lease id is there already);
 * LESSOR_E_INVALID (the row contradicts itself: a state that needs a claim has none or the other way round,
 * an awaiting job without its window, seq 0…). Nothing changed then.
 */
int engine_restore_job(struct engine *e, const struct engine_row *row);

/*
 * Never gives a new job this seq or a lower one, nor a new presence this order or a lower one (0: no matter):
 * a store has rows there that the engine has not heard of.
 */
void engine_reserve(struct engine *e, uint64_t seq, uint64_t order);

/* `order` as in ENGINE_PRESENCE_PUT; presence->last_seen_ms counts. Returns as engine_restore_job. */
int engine_restore_presence(struct engine *e, const struct lessor_presence *presence, uint64_t order);

/* Asserts the invariants that engine_internal.h numbers. For tests: it looks at everything. */
void engine_check(const struct engine *e);

#endif
