/* SPDX-License-Identifier: MIT */
#ifndef LESSOR_ROUTING_STORE_H
#define LESSOR_ROUTING_STORE_H

#include "lessor/arena.h"
#include "lessor/error.h"
#include "lessor/relay_types.h"
#include "lessor/ticket.h"

/*
 * The routing store: what the relay needs from a place that remembers jobs and presence (relay-protocol 10).
 *
 * Every operation is a decision and its write in one step. None is a read that a caller follows with a write:
 * whoever would have to look, decide and write back has the operation in the wrong place.
 *
 * What an implementation guarantees, and lessor_routing_contract() proves as far as one process can:
 *  1. claim is atomic: no job is ever granted to two (CLAIM_ATOMIC).
 *  2. enqueue is idempotent by (site, id): a known job comes back untouched.
 *  3. complete is idempotent: the same operation that would write decides that it already did.
 *  4. Operations on a lease name the grant, not just the runner, and find a job by its lease id, else among
 * the runner's own claims, else not at all: a bare id never reveals another site's job.
 *  5. now() is the only clock: every deadline is stamped and enforced by it.
 *
 * Durability. An answer must not reveal a state that a crash could undo. Operations decide at once and return
 * a ticket: the moment at which everything that the answer rests on is on disk. A caller passes `ticket` and
 * waits with lessor_routing_when_durable() before it tells anybody, or passes NULL, and then the call itself
 * waits.
 *
 * Everything is thread-safe. All slices passed in are borrowed for the call; all that come back are in
 * `arena`.
 *
 * Every operation may return LESSOR_E_NOMEM (nothing changed) and LESSOR_E_UNAVAILABLE (the store cannot be
 * reached or cannot write; what was asked may or may not have happened, and asking again is safe).
 */
struct lessor_routing_store;

/* Timings of relay-protocol section 10. */
#define LESSOR_AWAITING_PAYLOAD_MS 10000
#define LESSOR_RETRY_AFTER_MS      30000
#define LESSOR_LEASE_DEFAULT_MS    60000
#define LESSOR_CHURN_EXPIRIES      6
#define LESSOR_CHURN_WINDOW_MS     300000
#define LESSOR_CHURN_QUIET_MS      3600000

/* A runner that is not offered a job again until some time (relay-protocol 10, retryAfter). */
struct lessor_retry_after {
        struct lessor_slice runner_id;
        int64_t until_ms; /* store clock, epoch ms */
};

/* A job as the store holds it. Envelopes are not part of it; operations that hand one over say so. */
struct lessor_job {
        struct lessor_slice site_id;
        struct lessor_stub stub; /* stub.id is the job's id */
        enum lessor_job_state state;
        bool claimed; /* the five fields below are valid; done jobs keep their claim */
        struct lessor_slice runner_id;
        struct lessor_slice runner_owner;
        struct lessor_public_identity device;
        struct lessor_slice lease_id;
        int64_t lease_expires_ms;
        int64_t awaiting_until_ms;      /* 0 unless awaiting */
        unsigned seal_attempts;         /* unsealed windows since the last seal */
        struct lessor_slice reoffer_to; /* absent: offered to anybody */
        struct lessor_slice *refused_by;
        size_t n_refused_by;
        struct lessor_retry_after *retry_after; /* those that are over may be missing */
        size_t n_retry_after;
        bool cancelled;
        bool has_payload;
        bool has_result;
        enum lessor_disposition disposition; /* valid with has_result */
        int64_t enqueued_ms;
};

struct lessor_job_list {
        struct lessor_job *items;
        size_t n;
};

/* A finished job with what goes home. */
struct lessor_result {
        struct lessor_job job;
        struct lessor_envelope envelope;
};

struct lessor_result_list {
        struct lessor_result *items;
        size_t n;
        bool more; /* stopped at max_bytes */
};

struct lessor_claim {
        struct lessor_slice runner_id;
        struct lessor_slice owner; /* the device's */
        struct lessor_public_identity device;
        const struct lessor_route *routes; /* whose work it may do; any order, no duplicates needed */
        size_t n_routes;
        unsigned kinds; /* LESSOR_KIND_BITs */
        unsigned max;   /* 1..64 */
        int64_t lease_ms;
};

/* Says why a lease-scoped release happens. */
struct lessor_release {
        struct lessor_slice runner_id;
        const struct lessor_lease_ref *leases;
        size_t n_leases;
        bool refused;           /* this runner is never offered these jobs again */
        int64_t retry_after_ms; /* epoch ms until which this runner is not offered them; 0: no bar */
};

struct lessor_renewal {
        struct lessor_lease_ref ref;
        int64_t expires_ms;
};

struct lessor_renewal_list {
        struct lessor_renewal *renewed; /* in request order */
        size_t n_renewed;
        struct lessor_lease_ref *lost; /* in request order */
        size_t n_lost;
};

struct lessor_lease_ref_list {
        struct lessor_lease_ref *items;
        size_t n;
};

/* A device that has been seen. `capabilities` and `withheld` are JSON texts, opaque to the store. */
struct lessor_presence {
        struct lessor_slice runner_id;
        struct lessor_slice owner;
        struct lessor_public_identity device;
        int64_t last_seen_ms;
        struct lessor_slice capabilities; /* JSON array */
        struct lessor_slice withheld;     /* JSON array */
};

struct lessor_presence_list {
        struct lessor_presence *items;
        size_t n;
};

/* (site id, job id), in the order in which the sweep met them. */
struct lessor_swept {
        struct lessor_job *requeued;
        size_t n_requeued;
        struct lessor_job *removed;
        size_t n_removed;
};

/* A pair whose site lets its windows pass unsealed again and again (relay-protocol 10, churn report). */
struct lessor_churn {
        struct lessor_slice site_id;
        struct lessor_slice owner;
        unsigned expiries;
        int64_t window_ms;
};

/*
 * Told about what happens, after it is durable and with no lock held, from any thread. Any member may be
 * NULL. A listener must not call the store and must be quick.
 */
struct lessor_routing_listener {
        void *context;
        void (*awaiting)(void *context,
                         struct lessor_slice site_id); /* a job of this site awaits its payload */
        void (*finished)(void *context, struct lessor_slice site_id); /* a job of this site has a result */
        void (*churn)(void *context, const struct lessor_churn *churn);
};

/* Figures for status and metrics, exact at one instant. */
struct lessor_routing_stats {
        uint64_t n_jobs[5]; /* by state */
        uint64_t n_presence;
        uint64_t n_set_aside; /* rows that could not be read and are left alone */
};

/* The operations of a store. See the functions of the same names below. */
struct lessor_routing_store_ops {
        int (*now)(struct lessor_routing_store *s, int64_t *ret_now_ms);
        int (*enqueue)(struct lessor_routing_store *s, struct lessor_slice site_id,
                       const struct lessor_stub *stub, struct lessor_arena *arena, struct lessor_job *ret_job,
                       struct lessor_ticket *ticket);
        int (*job)(struct lessor_routing_store *s, struct lessor_slice site_id, struct lessor_slice job_id,
                   struct lessor_arena *arena, struct lessor_job *ret_job, struct lessor_ticket *ticket);
        int (*jobs)(struct lessor_routing_store *s, const struct lessor_slice *site_id, size_t max,
                    struct lessor_arena *arena, struct lessor_job_list *ret_jobs,
                    struct lessor_ticket *ticket);
        int (*awaiting)(struct lessor_routing_store *s, struct lessor_slice site_id, size_t max,
                        struct lessor_arena *arena, struct lessor_job_list *ret_jobs,
                        struct lessor_ticket *ticket);
        int (*finished)(struct lessor_routing_store *s, struct lessor_slice site_id, size_t max_bytes,
                        struct lessor_arena *arena, struct lessor_result_list *ret_results,
                        struct lessor_ticket *ticket);
        int (*claim)(struct lessor_routing_store *s, const struct lessor_claim *claim,
                     struct lessor_arena *arena, struct lessor_job_list *ret_granted,
                     struct lessor_ticket *ticket);
        int (*take_payload)(struct lessor_routing_store *s, struct lessor_slice runner_id,
                            const struct lessor_lease_ref *lease, struct lessor_arena *arena,
                            struct lessor_envelope *ret_envelope, struct lessor_ticket *ticket);
        int (*complete)(struct lessor_routing_store *s, struct lessor_slice runner_id,
                        const struct lessor_lease_ref *lease, const struct lessor_envelope *envelope,
                        enum lessor_disposition disposition, bool *ret_duplicate,
                        struct lessor_ticket *ticket);
        int (*release_leases)(struct lessor_routing_store *s, const struct lessor_release *release,
                              struct lessor_arena *arena, struct lessor_lease_ref_list *ret_released,
                              struct lessor_ticket *ticket);
        int (*seal)(struct lessor_routing_store *s, struct lessor_slice site_id, struct lessor_slice job_id,
                    const struct lessor_envelope *envelope, enum lessor_job_state *ret_was,
                    struct lessor_ticket *ticket);
        int (*cancel)(struct lessor_routing_store *s, struct lessor_slice site_id, struct lessor_slice job_id,
                      struct lessor_ticket *ticket);
        int (*cancel_requests)(struct lessor_routing_store *s, struct lessor_slice runner_id,
                               struct lessor_arena *arena, struct lessor_lease_ref_list *ret_leases,
                               struct lessor_ticket *ticket);
        int (*renew_leases)(struct lessor_routing_store *s, struct lessor_slice runner_id,
                            const struct lessor_lease_ref *leases, size_t n_leases, int64_t lease_ms,
                            struct lessor_arena *arena, struct lessor_renewal_list *ret_renewals,
                            struct lessor_ticket *ticket);
        int (*ack)(struct lessor_routing_store *s, struct lessor_slice site_id,
                   const struct lessor_slice *job_ids, size_t n_job_ids, struct lessor_arena *arena,
                   struct lessor_slice **ret_acked, size_t *ret_n_acked, struct lessor_ticket *ticket);
        int (*seen)(struct lessor_routing_store *s, const struct lessor_presence *presence,
                    struct lessor_ticket *ticket);
        int (*presence)(struct lessor_routing_store *s, struct lessor_slice runner_id,
                        struct lessor_arena *arena, struct lessor_presence *ret_presence,
                        struct lessor_ticket *ticket);
        int (*everyone)(struct lessor_routing_store *s, struct lessor_arena *arena,
                        struct lessor_presence_list *ret_everyone, struct lessor_ticket *ticket);
        int (*sweep)(struct lessor_routing_store *s, struct lessor_arena *arena,
                     struct lessor_swept *ret_swept, struct lessor_ticket *ticket);
        int (*when_durable)(struct lessor_routing_store *s, struct lessor_ticket ticket,
                            void (*told)(void *context, int result), void *context);
        int (*stats)(struct lessor_routing_store *s, struct lessor_routing_stats *ret_stats);
        int (*check)(struct lessor_routing_store *s);
        int (*backup)(struct lessor_routing_store *s, const char *path);
        struct lessor_routing_store *(*free)(struct lessor_routing_store *s);
};

/* The base of every store; an implementation embeds it first. */
struct lessor_routing_store {
        const struct lessor_routing_store_ops *ops;
        struct lessor_routing_listener listener; /* set before the first operation, constant afterwards */
};

/* The store's clock, epoch ms. */
int lessor_routing_now(struct lessor_routing_store *s, int64_t *ret_now_ms);

/*
 * Takes a stub for routing, at the end of the order. A job that this site already has under this id comes
 * back as it is, whatever the new stub says, and in whatever state.
 *
 * Returns 0; LESSOR_E_LOW_SPACE (a new job is refused, a known one still comes back).
 */
int lessor_routing_enqueue(struct lessor_routing_store *s, struct lessor_slice site_id,
                           const struct lessor_stub *stub, struct lessor_arena *arena,
                           struct lessor_job *ret_job, struct lessor_ticket *ticket);

/* One job. Returns 0 or LESSOR_E_NOT_FOUND. */
int lessor_routing_job(struct lessor_routing_store *s, struct lessor_slice site_id,
                       struct lessor_slice job_id, struct lessor_arena *arena, struct lessor_job *ret_job,
                       struct lessor_ticket *ticket);

/*
 * Jobs in enqueue order, for operators: of one site, or of all when `site_id` is NULL; at most `max`, the
 * oldest first.
 */
int lessor_routing_jobs(struct lessor_routing_store *s, const struct lessor_slice *site_id, size_t max,
                        struct lessor_arena *arena, struct lessor_job_list *ret_jobs,
                        struct lessor_ticket *ticket);

/* The jobs that a site must seal for right now, in enqueue order, at most `max`. Does not sweep. */
int lessor_routing_awaiting(struct lessor_routing_store *s, struct lessor_slice site_id, size_t max,
                            struct lessor_arena *arena, struct lessor_job_list *ret_jobs,
                            struct lessor_ticket *ticket);

/*
 * The results that wait to go home, in enqueue order, as many as fit into `max_bytes` of envelope text, but
 * one at least. Nothing is consumed. Does not sweep.
 */
int lessor_routing_finished(struct lessor_routing_store *s, struct lessor_slice site_id, size_t max_bytes,
                            struct lessor_arena *arena, struct lessor_result_list *ret_results,
                            struct lessor_ticket *ticket);

/*
 * Sweeps, then grants queued jobs to one device, in enqueue order, at most `max` of them.
 *
 * One operation, because it has to be: a caller that looked first and wrote afterwards could hand one job to
 * two devices. Everything that the decision needs travels in `claim`, the routes included, so that the store
 * never learns about consent. An empty list is no error.
 */
int lessor_routing_claim(struct lessor_routing_store *s, const struct lessor_claim *claim,
                         struct lessor_arena *arena, struct lessor_job_list *ret_granted,
                         struct lessor_ticket *ticket);

/*
 * Hands the sealed payload to the device that holds the lease, and notes that it runs. Repeatable.
 *
 * Returns 0; LESSOR_E_NOT_FOUND; LESSOR_E_NOT_HOLDER; LESSOR_E_STALE_LEASE; LESSOR_E_NOT_READY;
 * LESSOR_E_TERMINAL.
 */
int lessor_routing_take_payload(struct lessor_routing_store *s, struct lessor_slice runner_id,
                                const struct lessor_lease_ref *lease, struct lessor_arena *arena,
                                struct lessor_envelope *ret_envelope, struct lessor_ticket *ticket);

/*
 * Records a result. A second one under the same lease changes nothing and sets `ret_duplicate`.
 *
 * Returns 0; LESSOR_E_NOT_FOUND; LESSOR_E_NOT_HOLDER; LESSOR_E_STALE_LEASE.
 */
int lessor_routing_complete(struct lessor_routing_store *s, struct lessor_slice runner_id,
                            const struct lessor_lease_ref *lease, const struct lessor_envelope *envelope,
                            enum lessor_disposition disposition, bool *ret_duplicate,
                            struct lessor_ticket *ticket);

/*
 * Gives back the leases that the runner really holds and that are not done; the others are passed over.
 * `ret_released` names those given back, in request order.
 */
int lessor_routing_release_leases(struct lessor_routing_store *s, const struct lessor_release *release,
                                  struct lessor_arena *arena, struct lessor_lease_ref_list *ret_released,
                                  struct lessor_ticket *ticket);

/*
 * Takes a site's payload for a claimed job.
 *
 * ret_was  the state that the job was in, written with LESSOR_E_TOO_LATE
 *
 * Returns 0; LESSOR_E_NOT_FOUND; LESSOR_E_TOO_LATE (the job is not awaiting a payload).
 */
int lessor_routing_seal(struct lessor_routing_store *s, struct lessor_slice site_id,
                        struct lessor_slice job_id, const struct lessor_envelope *envelope,
                        enum lessor_job_state *ret_was, struct lessor_ticket *ticket);

/* The site withdraws a job, in whatever state. Returns 0 or LESSOR_E_NOT_FOUND. */
int lessor_routing_cancel(struct lessor_routing_store *s, struct lessor_slice site_id,
                          struct lessor_slice job_id, struct lessor_ticket *ticket);

/* The withdrawn jobs that this runner has a claim on, done ones included, in enqueue order. */
int lessor_routing_cancel_requests(struct lessor_routing_store *s, struct lessor_slice runner_id,
                                   struct lessor_arena *arena, struct lessor_lease_ref_list *ret_leases,
                                   struct lessor_ticket *ticket);

/* Extends the leases that the runner still holds to now + lease_ms, and names those that it does not. */
int lessor_routing_renew_leases(struct lessor_routing_store *s, struct lessor_slice runner_id,
                                const struct lessor_lease_ref *leases, size_t n_leases, int64_t lease_ms,
                                struct lessor_arena *arena, struct lessor_renewal_list *ret_renewals,
                                struct lessor_ticket *ticket);

/*
 * Forgets done jobs of a site whose results it has stored (our own addition to the protocol). Ids that are
 * unknown, another site's or not done are passed over alike. `ret_acked` names the forgotten, in request
 * order; the array is in the arena.
 */
int lessor_routing_ack(struct lessor_routing_store *s, struct lessor_slice site_id,
                       const struct lessor_slice *job_ids, size_t n_job_ids, struct lessor_arena *arena,
                       struct lessor_slice **ret_acked, size_t *ret_n_acked, struct lessor_ticket *ticket);

/*
 * Notes that a device is there; the store stamps when (presence->last_seen_ms is ignored). Of a runner that
 * is known only the capabilities, what it withholds and the time change: its keys and owner stay.
 */
int lessor_routing_seen(struct lessor_routing_store *s, const struct lessor_presence *presence,
                        struct lessor_ticket *ticket);

/* One device. Returns 0 or LESSOR_E_NOT_FOUND. */
int lessor_routing_presence(struct lessor_routing_store *s, struct lessor_slice runner_id,
                            struct lessor_arena *arena, struct lessor_presence *ret_presence,
                            struct lessor_ticket *ticket);

/* Every device ever seen, in the order of first sight. */
int lessor_routing_everyone(struct lessor_routing_store *s, struct lessor_arena *arena,
                            struct lessor_presence_list *ret_everyone, struct lessor_ticket *ticket);

/* Does whatever the clock says is due: deadlines, unsealed windows, leases. `ret_swept` may be NULL. */
int lessor_routing_sweep(struct lessor_routing_store *s, struct lessor_arena *arena,
                         struct lessor_swept *ret_swept, struct lessor_ticket *ticket);

/*
 * Asks to be told when a ticket's moment has come.
 *
 * Returns 1 when it has come already, and `told` is not called. Returns 0 when `told(context, result)` will
 * be called exactly once, from a thread of the store and with no lock held; result is 0, or
 * LESSOR_E_UNAVAILABLE when the writes could not be made, in which case the answer must not be given. Never
 * fails.
 */
int lessor_routing_when_durable(struct lessor_routing_store *s, struct lessor_ticket ticket,
                                void (*told)(void *context, int result), void *context);

int lessor_routing_stats(struct lessor_routing_store *s, struct lessor_routing_stats *ret_stats);

/* Whether the store can be written right now, by writing. Returns 0, LESSOR_E_UNAVAILABLE or
 * LESSOR_E_LOW_SPACE. */
int lessor_routing_check(struct lessor_routing_store *s);

/*
 * Writes a consistent copy of everything the store holds to a new file while it serves.
 * Returns 0; LESSOR_E_EXISTS; LESSOR_E_IO; LESSOR_E_INVALID when this kind of store has nothing on disk.
 */
int lessor_routing_backup(struct lessor_routing_store *s, const char *path);

/* Ends the store; what was answered is on disk. Nobody may be using it. Takes NULL, returns NULL. */
struct lessor_routing_store *lessor_routing_store_free(struct lessor_routing_store *s);

#endif
