/* SPDX-License-Identifier: MIT */
#ifndef LESSOR_LEASE_STORE_H
#define LESSOR_LEASE_STORE_H

#include "lessor/arena.h"
#include "lessor/error.h"
#include "lessor/lease_types.h"
#include "lessor/ticket.h"

/*
 * The lease store: what the rack plane needs from a place that remembers leases, attempts, racks and their
 * tokens, capabilities and published environments. The operations on racks are in lessor/rack_registry.h,
 * those on objects' transfer in lessor/lease_transfer.h; whoever writes a store fills the table of
 * lessor/lease_store_ops.h.
 *
 * It is one store because a claim, a deregistration and the death of a capability must be one step. Every
 * operation is a decision and its write. Where a plane has to do something in between (verify an output, read
 * a closure), it asks with lessor_lease_hold() whether that is worth its while, and the writing operation
 * decides again.
 *
 * What an implementation guarantees, and lessor_lease_contract() proves as far as one process can:
 *  1. claim is atomic: no lease is granted to two, and all gates are judged in the same step.
 *  2. create is idempotent by (owner, key) for as long as the lease lives.
 *  3. complete is idempotent; completed wins over everything that comes later.
 *  4. With a lease's transition go, in the same step, the end of its attempt and of its capabilities.
 *  5. now() is the only clock.
 *
 * Durability is as in lessor/routing_store.h: pass `ticket` and wait with lessor_lease_when_durable() before
 * anybody is told, or pass NULL and the call waits. Everything is thread-safe. Slices passed in are borrowed
 * for the call; what comes back is in `arena`, an independent copy.
 *
 * Every operation may return LESSOR_E_NOMEM (nothing changed, but for what was due) and LESSOR_E_UNAVAILABLE
 * (it may or may not have happened, and asking again is safe). Of a lease that does not exist every operation
 * that names one says LESSOR_E_NOT_FOUND unless it says otherwise below.
 */
struct lessor_lease_store;

/* Windows and ages; sections 2, 6, 7, 8 and 9. LESSOR_LEASE_OPTIONS has the protocol's. All in ms, 0 only
 * where said. */
struct lessor_lease_options {
        int64_t visibility_ms;   /* per claim or extension */
        int64_t healthy_ms;      /* since it was last seen, for a rack to count as fit */
        int64_t rotation_ms;     /* age from which a token draws a successor */
        int64_t reoffer_ms;      /* age from which an unused successor is replaced */
        int64_t grace_ms;        /* life of a replaced token */
        int64_t capability_ms;   /* life of a capability URL */
        int64_t retention_ms;    /* of ended leases */
        int64_t rack_expiry_ms;  /* racks unseen for longer are deregistered; 0: never */
        size_t max_open;         /* leases that have not ended; create says FULL beyond it */
        size_t max_capabilities; /* alive at one time */
        bool interleave;         /* across owners, as section 9 has it; else oldest first */
        bool heed_health;        /* racks that report themselves unhealthy are granted nothing */
};

#define LESSOR_LEASE_OPTIONS                                                                                 \
        {                                                                                                    \
                .visibility_ms = 60000, .healthy_ms = 45000, .rotation_ms = 86400000, .reoffer_ms = 3600000, \
                .grace_ms = 900000, .capability_ms = 900000, .retention_ms = 900000, .max_open = 4194304,    \
                .max_capabilities = 1048576, .interleave = true, .heed_health = true                         \
        }

/* --- Leases, from the host's side --- */

/* A new lease. The host imposes repo, workspace and floor, and has validated the event in full (section 18).
 */
struct lessor_lease_submission {
        struct lessor_slice repo; /* not "@rack" */
        struct lessor_slice workspace;
        struct lessor_slice task_name;
        struct lessor_slice task_hash;
        struct lessor_slice inputs_hash; /* lessor_lease_inputs_hash() */
        struct lessor_slice tier;
        struct lessor_slice compute_size; /* absent: none named */
        struct lessor_slice floor;        /* absent: none */
        struct lessor_slice environment;  /* absent: none */
        struct lessor_slice run;          /* absent: none */
        struct lessor_slice owner;        /* may be empty */
        enum lessor_lease_mode mode;
        bool own;
        int64_t event_version;     /* anything but 2 is never granted (R046) */
        struct lessor_slice event; /* JSON */
        int64_t ttl_ms;            /* 0: none. A claim that stands at its end may still finish */
        unsigned attempt_limit;    /* 0: none */
        /*
         * Idempotency key, within the owner; absent: none. It names a subscriber too: work shared by `share`
         * is cancelled when the last key that asked for it has left.
         */
        struct lessor_slice key;
        /*
         * Take up a lease of this owner and the same (repo, task, inputs, floor) that has not ended and was
         * made with a key. Needs a key.
         */
        bool share;
};

/*
 * Adds a pending lease, or comes back with the one that this key has made or shares.
 *
 * lease_id     minted by the store: taskHash#inputsHash#uuidv7
 * ret_created  may be NULL
 *
 * Returns 0; LESSOR_E_EXISTS (the key belongs to other work: another repo, task or inputs); LESSOR_E_INVALID
 * (the repo is "@rack", a negative time to live, a `#` in a hash, share without a key); LESSOR_E_FULL;
 * LESSOR_E_LOW_SPACE.
 */
int lessor_lease_create(struct lessor_lease_store *s, const struct lessor_lease_submission *submission,
                        struct lessor_arena *arena, struct lessor_lease *ret_lease, bool *ret_created,
                        struct lessor_ticket *ticket);

/* Which of the long texts an answer carries. */
enum lessor_lease_parts { LESSOR_WITH_EVENT = 1, LESSOR_WITH_RESULT = 2 };

/* One lease. Returns 0 or LESSOR_E_NOT_FOUND. */
int lessor_lease_get(struct lessor_lease_store *s, const struct lessor_lease_name *name, unsigned parts,
                     struct lessor_arena *arena, struct lessor_lease *ret_lease,
                     struct lessor_ticket *ticket);

/*
 * The newest lease of a task identity that was not superseded, cancelled, poisoned or expired: how a planner
 * that comes back attaches again (section 8, findByTask). Returns 0 or LESSOR_E_NOT_FOUND.
 */
int lessor_lease_find(struct lessor_lease_store *s, struct lessor_slice repo, struct lessor_slice task_hash,
                      struct lessor_slice inputs_hash, unsigned parts, struct lessor_arena *arena,
                      struct lessor_lease *ret_lease, struct lessor_ticket *ticket);

/* Absent slices and 0 ask for everything. */
struct lessor_lease_query {
        unsigned statuses; /* bits 1 << lessor_lease_status; 0: all */
        struct lessor_slice run;
        struct lessor_slice rack_id; /* claimed by it now */
        uint64_t after;              /* seq of the last one of the page before; 0: from the first */
        size_t max;                  /* at least 1 */
};

/* Leases in the order of creation, without their long texts. */
int lessor_lease_list(struct lessor_lease_store *s, const struct lessor_lease_query *query,
                      struct lessor_arena *arena, struct lessor_lease_list *ret_leases,
                      struct lessor_ticket *ticket);

/* The leases whose latest claimant a rack is, newest claim first (section 8, listRecentByRack). */
int lessor_lease_recent(struct lessor_lease_store *s, struct lessor_slice rack_id, size_t max,
                        struct lessor_arena *arena, struct lessor_lease_list *ret_leases,
                        struct lessor_ticket *ticket);

/* All attempts of a lease, the first first. Of a function: its claims, without execution ids. */
int lessor_lease_attempts(struct lessor_lease_store *s, const struct lessor_lease_name *name,
                          struct lessor_arena *arena, struct lessor_attempt_list *ret_attempts,
                          struct lessor_ticket *ticket);

/*
 * The hashes ever issued for writing on a lease, in the order of declaration. With the closure in the event
 * and the output hashes of its attempts, what a collection of objects must spare.
 */
int lessor_lease_targets(struct lessor_lease_store *s, const struct lessor_lease_name *name,
                         struct lessor_arena *arena, struct lessor_slice **ret_hashes, size_t *ret_n,
                         struct lessor_ticket *ticket);

enum lessor_lease_ending { LESSOR_END_CANCEL, LESSOR_END_SUPERSEDE };

/*
 * Cancels or supersedes a lease that is pending or claimed, ends its attempt and kills its capabilities. One
 * that has ended comes back as it is: completed wins (R091).
 *
 * key     with LESSOR_END_CANCEL: the subscriber that leaves (of the lease's owner); the lease ends with its
 * last. Absent: for everybody reason  words for the attempt; absent: none
 *
 * Returns 0 or LESSOR_E_NOT_FOUND.
 */
int lessor_lease_end(struct lessor_lease_store *s, const struct lessor_lease_name *name,
                     enum lessor_lease_ending ending, struct lessor_slice key, struct lessor_slice reason,
                     struct lessor_arena *arena, struct lessor_lease *ret_lease,
                     struct lessor_ticket *ticket);

/* Cancels every lease of a run that has not ended; a run that nobody knows has none. */
int lessor_lease_cancel_run(struct lessor_lease_store *s, struct lessor_slice run, struct lessor_slice reason,
                            size_t *ret_n, struct lessor_ticket *ticket);

/*
 * Queues a poisoned or expired lease again, at its old place, with all its attempts to come and without its
 * time to live. Its earlier attempts stay on record. Returns 0; LESSOR_E_NOT_FOUND; LESSOR_E_TERMINAL (it
 * ended otherwise, or has not ended).
 */
int lessor_lease_replay(struct lessor_lease_store *s, const struct lessor_lease_name *name,
                        struct lessor_arena *arena, struct lessor_lease *ret_lease,
                        struct lessor_ticket *ticket);

/* Why a rack is not granted a lease; the first that holds, in this order. */
enum lessor_lease_bar {
        LESSOR_BAR_NONE,       /* nothing: the next poll may have it */
        LESSOR_BAR_STATUS,     /* it is not claimable: held, ended or past its time to live */
        LESSOR_BAR_SPENT,      /* its attempts are spent */
        LESSOR_BAR_EVENT,      /* its event's version is not 2 */
        LESSOR_BAR_TIER,       /* the rack does not poll for its tier */
        LESSOR_BAR_OLD,        /* the agent is older than 0.5.0 */
        LESSOR_BAR_QUARANTINE, /* the boot is not approved */
        LESSOR_BAR_DRAINING,
        LESSOR_BAR_UNHEALTHY, /* says so itself */
        LESSOR_BAR_UNSEEN,    /* for longer than the healthy window */
        LESSOR_BAR_FLOOR,     /* the bundled e3 is below the lease's floor, or cannot be read */
        LESSOR_BAR_CLAIMED,   /* claimed it before, and could not be told from its earlier self */
        LESSOR_BAR_FILTER,    /* the host's filter */
};

struct lessor_lease_why {
        struct lessor_slice rack_id;
        enum lessor_lease_bar bar;
};

struct lessor_lease_why_list {
        struct lessor_lease_why *items;
        size_t n;
};

/*
 * Says for every rack why it is not granted the lease, as of its last poll and beat. LESSOR_BAR_CLAIMED is
 * judged as for an agent that does not name its attempts.
 */
int lessor_lease_explain(struct lessor_lease_store *s, const struct lessor_lease_name *name,
                         struct lessor_arena *arena, struct lessor_lease_why_list *ret_why,
                         struct lessor_ticket *ticket);

/* --- Leases, from a rack's side --- */

/* The host's own gate, as data. Each empty list admits everything. */
struct lessor_lease_filter {
        const struct lessor_slice *repos;
        size_t n_repos;
        const struct lessor_slice *compute_sizes; /* a lease without one is "serverless" */
        size_t n_compute_sizes;
        /* Only these, in this order of preference instead of the queue's; NULL: no such list. */
        const struct lessor_lease_name *only;
        size_t n_only;
};

/* One check of one poll. */
struct lessor_lease_claim {
        struct lessor_slice rack_id;
        struct lessor_slice boot_id; /* as in the poll */
        const struct lessor_slice *tiers;
        size_t n_tiers;
        bool names_attempts; /* the agent says in each call which attempt it means (section 19) */
        struct lessor_lease_filter filter;
};

/* The answer of a check. */
struct lessor_lease_grant {
        bool granted;
        struct lessor_lease lease; /* with its event, if granted */
        /*
         * Not granted: why this rack is granted nothing at all (OLD does not occur), or LESSOR_BAR_NONE, when
         * its queue is empty, or LESSOR_BAR_CLAIMED, FLOOR or FILTER when there is claimable work in its
         * tiers, all of which those kept from it: somebody else may be able to have it. Repos that the filter
         * leaves out are not looked at.
         */
        enum lessor_lease_bar bar;
};

/*
 * One check of a poll (section 6.2 step 4): judges the rack afresh, picks the first lease that it may have,
 * and claims it until now + visibility with a new attempt, which is running from then on; an earlier attempt
 * ends as interrupted and its capabilities die. All of that or nothing.
 *
 * Order: the next owner's in turn, and within an owner oldest first (section 9); every gate comes before the
 * choice, so leases that a rack may not have keep nothing from it.
 *
 * A rack that claimed a lease before is barred from it, except: an agent that does not name its attempts may
 * have it under another boot than any it claimed it under; one that does name them may have it at once, and
 * then must name the attempt in every call about this lease.
 *
 * Returns 0; LESSOR_E_NOT_FOUND (the rack is gone: 401); LESSOR_E_AGENT_TOO_OLD.
 */
int lessor_lease_claim(struct lessor_lease_store *s, const struct lessor_lease_claim *claim,
                       struct lessor_arena *arena, struct lessor_lease_grant *ret_grant,
                       struct lessor_ticket *ticket);

/*
 * The first leases that a claim like this could have now, in the order of the queue, at most `max`, with
 * their events, for a host that judges them by code of its own and then claims `only` what it likes. Grants
 * nothing. Returns as claim.
 */
int lessor_lease_candidates(struct lessor_lease_store *s, const struct lessor_lease_claim *claim, size_t max,
                            struct lessor_arena *arena, struct lessor_lease_list *ret_leases,
                            struct lessor_ticket *ticket);

/*
 * Takes back a grant whose answer could not be delivered, if it still stands: the lease is pending again at
 * its old place, and the claim spends no attempt and bars nobody. Returns 0; LESSOR_E_NOT_HELD (it stands no
 * longer).
 */
int lessor_lease_undeliver(struct lessor_lease_store *s, const struct lessor_lease_name *name,
                           unsigned claim_number, struct lessor_ticket *ticket);

/* Who speaks about which lease. */
struct lessor_lease_holder {
        struct lessor_lease_name name;
        struct lessor_slice rack_id;
        struct lessor_slice attempt; /* section 19; absent: not named */
};

/*
 * Moves the deadline to now + visibility if the caller holds the lease, past the deadline too. Returns 0, or
 * LESSOR_E_NOT_HELD, also when there is no such lease: the answer is false.
 */
int lessor_lease_extend(struct lessor_lease_store *s, const struct lessor_lease_holder *holder,
                        int64_t *ret_deadline_ms, struct lessor_ticket *ticket);

/*
 * The lease if the caller holds it: for what a plane does on the strength of that, and for the execution id
 * under which its log lines go. Returns 0, or LESSOR_E_NOT_HELD, also when there is no such lease.
 */
int lessor_lease_hold(struct lessor_lease_store *s, const struct lessor_lease_holder *holder, unsigned parts,
                      struct lessor_arena *arena, struct lessor_lease *ret_lease,
                      struct lessor_ticket *ticket);

/* Numbers of entries in a request, in its order. */
struct lessor_index_list {
        size_t *items;
        size_t n;
};

/*
 * Which of these a rack must stop (section 6.3): those that are unknown, were ended otherwise than by
 * completion, or are claimed by another rack.
 */
int lessor_lease_must_stop(struct lessor_lease_store *s, struct lessor_slice rack_id,
                           const struct lessor_lease_name *names, size_t n_names, struct lessor_arena *arena,
                           struct lessor_index_list *ret_stop, struct lessor_ticket *ticket);

struct lessor_lease_completion {
        struct lessor_lease_holder holder;
        struct lessor_verdict verdict;
        struct lessor_slice result;    /* JSON, kept whole */
        struct lessor_slice upload_id; /* staged output that was taken in; absent: none */
};

enum lessor_completed { LESSOR_COMPLETED_RECORDED, LESSOR_COMPLETED_IDEMPOTENT, LESSOR_COMPLETED_DISCARDED };

/*
 * Records a result (section 6.5 steps 4, 6 and 7): the attempt's outcome, the transition and the end of the
 * capabilities are one. The plane has stored and verified the output and flushed the logs before. An unknown
 * lease is discarded. A task or unit that succeeds without an output hash is LESSOR_E_INVALID if held (R087).
 *
 * ret_lease  may be NULL; with recorded and idempotent, the lease as it now is
 */
int lessor_lease_complete(struct lessor_lease_store *s, const struct lessor_lease_completion *completion,
                          struct lessor_arena *arena, enum lessor_completed *ret_how,
                          struct lessor_lease *ret_lease, struct lessor_ticket *ticket);

/* --- The whole --- */

/* What a sweep did. */
struct lessor_lease_swept {
        size_t n_lapsed;  /* deadlines that passed */
        size_t n_lost;    /* superseded, queued again or poisoned */
        size_t n_expired; /* times to live */
        size_t n_forgotten;
        size_t n_racks;   /* deregistered, unseen for too long */
        size_t n_dropped; /* tokens and capabilities */
};

/*
 * Does what the clock says is due, as claim and the others do by themselves where it matters to them.
 * `ret_swept` may be NULL. ret_next_ms: when there will be something to do next, INT64_MAX if never; may be
 * NULL.
 */
int lessor_lease_sweep(struct lessor_lease_store *s, struct lessor_lease_swept *ret_swept,
                       int64_t *ret_next_ms, struct lessor_ticket *ticket);

/* Figures for status and metrics, exact at one instant. */
struct lessor_lease_stats {
        uint64_t n_leases[LESSOR_N_LEASE_STATUSES]; /* by status */
        uint64_t n_lapsed;                          /* claimed, and claimable again */
        uint64_t n_racks;
        uint64_t n_capabilities;
        uint64_t n_environments;
        uint64_t n_set_aside; /* rows that could not be read and are left alone */
};
int lessor_lease_stats(struct lessor_lease_store *s, struct lessor_lease_stats *ret_stats);

int lessor_lease_now(struct lessor_lease_store *s, int64_t *ret_now_ms);

/* As lessor_routing_when_durable(). */
int lessor_lease_when_durable(struct lessor_lease_store *s, struct lessor_ticket ticket,
                              void (*told)(void *context, int result), void *context);

/* As lessor_routing_check() and lessor_routing_backup(). */
int lessor_lease_check(struct lessor_lease_store *s);
int lessor_lease_backup(struct lessor_lease_store *s, const char *path);

/* Ends the store; what was answered is on disk. Nobody may be using it. Takes NULL, returns NULL. */
struct lessor_lease_store *lessor_lease_store_free(struct lessor_lease_store *s);

/* --- What happens --- */

enum lessor_lease_event_kind {
        LESSOR_EVENT_CLAIMABLE, /* there is new work in this tier of this repo: by creation, lapse, return or
                                   replay */
        LESSOR_EVENT_CLAIMED,
        LESSOR_EVENT_EXTENDED,
        LESSOR_EVENT_COMPLETED, /* recorded; the other dispositions change nothing */
        LESSOR_EVENT_LOST, /* the deadline and as much again passed; SUPERSEDED, CLAIMABLE or POISONED says to
                              what end */
        LESSOR_EVENT_CANCELLED,
        LESSOR_EVENT_SUPERSEDED,
        LESSOR_EVENT_POISONED,
        LESSOR_EVENT_EXPIRED,
        LESSOR_EVENT_FORGOTTEN, /* an ended lease and its attempts are gone from the store: so may be their
                                   logs */
        LESSOR_EVENT_ATTEMPT_ENDED, /* interrupted or cancelled: stderr gains its line (section 10) */
        LESSOR_EVENT_DISCARDED, /* an upload that was stored and never committed may be deleted: its receipt
                                 */
        LESSOR_EVENT_RACK,      /* a registration, its approval or its draining changed; or it is gone */
        LESSOR_EVENT_POLICY,
};

/* Which members are set depends on the kind: those of a lease for leases and attempts, rack_id for racks. */
struct lessor_lease_event {
        enum lessor_lease_event_kind kind;
        struct lessor_lease_name name;
        struct lessor_slice tier;
        struct lessor_slice run; /* absent: none */
        struct lessor_slice owner;
        struct lessor_slice task_hash; /* with the three below, where its logs are */
        struct lessor_slice inputs_hash;
        struct lessor_slice
                execution_id; /* of the attempt that ended, else of the claim that stands; absent: none */
        unsigned claim_number;
        enum lessor_cause cause;
        struct lessor_slice reason;
        struct lessor_slice rack_id; /* the claimant's, or the rack's own */
        bool gone;                   /* with RACK: deregistered */
        struct lessor_slice receipt; /* with DISCARDED */
};

/*
 * Told about what happens, after it is durable and with no lock held, from any thread. What happened to one
 * record several times before anybody was told may be told once. A listener must not call the store and must
 * be quick. FORGOTTEN comes once for each attempt that has an execution id, and once at least.
 */
struct lessor_lease_listener {
        void *context;
        void (*happened)(void *context, const struct lessor_lease_event *event); /* NULL: nobody listens */
};

/* --- Rules that are no store's own --- */

/*
 * The inputs hash of section 8: SHA-256 of the inputs joined by one NUL byte, as 64 hex digits and a NUL.
 */
void lessor_lease_inputs_hash(const struct lessor_slice *inputs, size_t n, char ret_hex[65]);

/* Compares versions as section 6.2 has it: <0, 0 or >0. */
int lessor_agent_version_cmp(struct lessor_slice a, struct lessor_slice b);

/* The bundled e3 of an agent version (section 9), as a part of it; absent when it has none. */
struct lessor_slice lessor_agent_bundled_e3(struct lessor_slice agent_version);

#define LESSOR_AGENT_FLOOR   "0.5.0"
#define LESSOR_EVENT_VERSION 2

#endif
