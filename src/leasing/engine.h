/* SPDX-License-Identifier: MIT */
#ifndef LEASING_ENGINE_H
#define LEASING_ENGINE_H

#include "lessor/lease_store_ops.h"

/*
 * The rules of the lease store, and the only place in C where they live. Pure: no I/O, no locks, no clock, no
 * randomness. Every call is (engine, command, now, fresh ids) -> outcome, and leaves behind the records that
 * changed and the events that happened for the store to take. One thread at a time.
 *
 * Cost. No call costs more with the number of leases that it does not touch: see queue.c for how a claim
 * finds its lease. A call that judges leases first does what has come due for them (lapsed deadlines, times
 * to live), and no more; what a sweep does is left to the sweep.
 *
 * Failure. A call that returns LESSOR_E_NOMEM has changed nothing but what was due. All that takes memory
 * comes before the first change; what is due and the sweep need none.
 *
 * The engine holds no event or result text: a lease carries one pointer of the store's, its attachment.
 * Everything else that an answer has is rendered into the caller's arena; the store fills in the texts.
 */
struct lease_engine;

/* A lease inside the engine. A pointer to one is good until the engine's next call that changes anything. */
struct lease;

#define LEASE_ENGINE_HASH_KEY_BYTES 16
#define LEASE_ENGINE_SEED_BYTES     32

/*
 * hash_key         keys the hash tables and shapes the trees, so that nobody outside can choose ids that
 * collide; copied. Answers do not depend on it free_attachment  frees what lease_attach hung on a lease, when
 * the lease's memory goes; NULL if nothing ever is
 *
 * Returns 0, LESSOR_E_NOMEM or LESSOR_E_INVALID (an option is out of its range).
 */
int lease_engine_new(const struct lessor_lease_options *options,
                     const unsigned char hash_key[LEASE_ENGINE_HASH_KEY_BYTES],
                     void (*free_attachment)(void *attachment), struct lease_engine **ret_engine);

/* Takes NULL, returns NULL. */
struct lease_engine *lease_engine_free(struct lease_engine *e);

void lease_attach(struct lease *lease, void *attachment);
void *lease_attachment(const struct lease *lease);
uint64_t lease_seq(const struct lease *lease);

/* --- Leases, as in lessor/lease_store.h --- */

/* The lease of that name, or NULL. */
struct lease *lease_engine_find_lease(const struct lease_engine *e, const struct lessor_lease_name *name);

/* Everything about a lease but its texts, copied into the arena. Returns 0 or LESSOR_E_NOMEM. */
int lease_render(const struct lease_engine *e, const struct lease *lease, int64_t now_ms,
                 struct lessor_arena *arena, struct lessor_lease *ret_lease);

/*
 * lease_uuid  fresh, a UUIDv7; the last part of the new lease's id
 * accept_new  false: a store that is short of space takes up what is there and says LESSOR_E_LOW_SPACE to new
 * work ret_handle  the lease, for its attachment
 */
int lease_engine_create(struct lease_engine *e, const struct lessor_lease_submission *submission,
                        int64_t now_ms, struct lessor_slice lease_uuid, bool accept_new,
                        struct lessor_arena *arena, struct lease **ret_handle, struct lessor_lease *ret_lease,
                        bool *ret_created);
int lease_engine_find_task(struct lease_engine *e, struct lessor_slice repo, struct lessor_slice task_hash,
                           struct lessor_slice inputs_hash, struct lease **ret_handle);
int lease_engine_list(struct lease_engine *e, const struct lessor_lease_query *query, int64_t now_ms,
                      struct lessor_arena *arena, struct lessor_lease_list *ret_leases);
int lease_engine_recent(struct lease_engine *e, struct lessor_slice rack_id, size_t max, int64_t now_ms,
                        struct lessor_arena *arena, struct lessor_lease_list *ret_leases);
int lease_engine_attempts(const struct lease_engine *e, const struct lessor_lease_name *name,
                          struct lessor_arena *arena, struct lessor_attempt_list *ret_attempts);
int lease_engine_targets(const struct lease_engine *e, const struct lessor_lease_name *name,
                         struct lessor_arena *arena, struct lessor_slice **ret_hashes, size_t *ret_n);
int lease_engine_end(struct lease_engine *e, const struct lessor_lease_name *name,
                     enum lessor_lease_ending ending, struct lessor_slice key, struct lessor_slice reason,
                     int64_t now_ms, struct lessor_arena *arena, struct lessor_lease *ret_lease);
int lease_engine_cancel_run(struct lease_engine *e, struct lessor_slice run, struct lessor_slice reason,
                            int64_t now_ms, size_t *ret_n);
int lease_engine_replay(struct lease_engine *e, const struct lessor_lease_name *name, int64_t now_ms,
                        struct lessor_arena *arena, struct lessor_lease *ret_lease);
int lease_engine_explain(struct lease_engine *e, const struct lessor_lease_name *name, int64_t now_ms,
                         struct lessor_arena *arena, struct lessor_lease_why_list *ret_why);

/*
 * execution_id  fresh, a UUIDv7; of the attempt, if the lease has one
 * ret_handle    the lease granted, for its event; written if granted
 */
int lease_engine_claim(struct lease_engine *e, const struct lessor_lease_claim *claim, int64_t now_ms,
                       struct lessor_slice execution_id, struct lessor_arena *arena,
                       struct lease **ret_handle, struct lessor_lease_grant *ret_grant);

/* ret_handles: as many as ret_leases has, in the arena. */
int lease_engine_candidates(struct lease_engine *e, const struct lessor_lease_claim *claim, size_t max,
                            int64_t now_ms, struct lessor_arena *arena, struct lease ***ret_handles,
                            struct lessor_lease_list *ret_leases);
int lease_engine_undeliver(struct lease_engine *e, const struct lessor_lease_name *name,
                           unsigned claim_number, int64_t now_ms);
int lease_engine_extend(struct lease_engine *e, const struct lessor_lease_holder *holder, int64_t now_ms,
                        int64_t *ret_deadline_ms);
int lease_engine_hold(struct lease_engine *e, const struct lessor_lease_holder *holder, int64_t now_ms,
                      struct lease **ret_handle);
int lease_engine_must_stop(struct lease_engine *e, struct lessor_slice rack_id,
                           const struct lessor_lease_name *names, size_t n_names, int64_t now_ms,
                           struct lessor_arena *arena, struct lessor_index_list *ret_stop);

/* ret_handle: with recorded, the lease whose result is now the store's to keep; with idempotent, the lease.
 */
int lease_engine_complete(struct lease_engine *e, const struct lessor_lease_completion *completion,
                          int64_t now_ms, struct lease **ret_handle, enum lessor_completed *ret_how);

/* Cannot fail. */
void lease_engine_sweep(struct lease_engine *e, int64_t now_ms, struct lessor_lease_swept *ret_swept);

/* When the next sweep has something to do; INT64_MAX: never, as things are. */
int64_t lease_engine_next_due_ms(const struct lease_engine *e);

/* n_set_aside is left 0: only a store can know. */
void lease_engine_stats(const struct lease_engine *e, struct lessor_lease_stats *ret_stats);

/* --- Racks, as in lessor/rack_registry.h --- */

int lease_engine_mint_enrolment(struct lease_engine *e, struct lessor_slice token_hash,
                                struct lessor_slice label, int64_t ttl_ms, int64_t now_ms,
                                int64_t *ret_expires_ms);
int lease_engine_enrolments(const struct lease_engine *e, int64_t now_ms, struct lessor_arena *arena,
                            struct lessor_enrolment_list *ret_enrolments);
int lease_engine_revoke_enrolment(struct lease_engine *e, struct lessor_slice token_hash, int64_t now_ms);
int lease_engine_enroll(struct lease_engine *e, struct lessor_slice enrolment_hash,
                        const struct lessor_host_info *host, struct lessor_slice rack_id,
                        struct lessor_slice rack_token_hash, int64_t now_ms, struct lessor_arena *arena,
                        struct lessor_rack *ret_rack);
int lease_engine_authenticate(struct lease_engine *e, struct lessor_slice token_hash, int64_t now_ms,
                              struct lessor_arena *arena, struct lessor_rack_caller *ret_caller);
int lease_engine_poll(struct lease_engine *e, struct lessor_slice rack_id, const struct lessor_slice *tiers,
                      size_t n_tiers, int64_t now_ms);
int lease_engine_heartbeat(struct lease_engine *e, const struct lessor_rack_beat *beat, int64_t now_ms,
                           struct lessor_arena *arena, struct lessor_rack_beaten *ret_beaten);
int lease_engine_rack(const struct lease_engine *e, struct lessor_slice rack_id, int64_t now_ms,
                      struct lessor_arena *arena, struct lessor_rack *ret_rack);
int lease_engine_racks(const struct lease_engine *e, int64_t now_ms, struct lessor_arena *arena,
                       struct lessor_rack_list *ret_racks);
int lease_engine_approve(struct lease_engine *e, struct lessor_slice rack_id, struct lessor_slice boot_id);
int lease_engine_drain(struct lease_engine *e, struct lessor_slice rack_id, bool draining);
int lease_engine_deregister(struct lease_engine *e, struct lessor_slice rack_id, int64_t now_ms,
                            size_t *ret_n_leases);
bool lease_engine_policy(const struct lease_engine *e);
void lease_engine_set_policy(struct lease_engine *e, bool require_start_approval);

int lease_engine_publish(struct lease_engine *e, const struct lessor_environment *environment,
                         int64_t now_ms);
int lease_engine_resolve(const struct lease_engine *e, struct lessor_slice env_hash,
                         struct lessor_slice e3_version, struct lessor_arena *arena,
                         struct lessor_environment *ret_environment);
int lease_engine_environments(const struct lease_engine *e, struct lessor_arena *arena,
                              struct lessor_environment_list *ret_environments);
int lease_engine_unpublish(struct lease_engine *e, struct lessor_slice env_hash,
                           struct lessor_slice e3_version);

/* --- Transfer, as in lessor/lease_transfer.h --- */

/* seed: fresh random bytes, from which the ids of new capabilities are made; no two calls may have the same.
 */
int lease_engine_transfer(struct lease_engine *e, const struct lessor_transfer_request *request,
                          int64_t now_ms, const unsigned char seed[LEASE_ENGINE_SEED_BYTES],
                          struct lessor_arena *arena, struct lessor_transfer_answer *ret_answer);
int lease_engine_open(const struct lease_engine *e, struct lessor_slice id, bool write, int64_t now_ms,
                      struct lessor_arena *arena, struct lessor_capability *ret_capability);
int lease_engine_stored(struct lease_engine *e, struct lessor_slice id, struct lessor_slice receipt,
                        int64_t now_ms, struct lessor_arena *arena, struct lessor_slice *ret_receipt);
int lease_engine_staged(struct lease_engine *e, const struct lessor_lease_holder *holder,
                        struct lessor_slice upload_id, int64_t now_ms, struct lessor_arena *arena,
                        struct lessor_capability *ret_capability);
bool lease_engine_wants(const struct lease_engine *e, struct lessor_slice receipt);

/* --- What changed: for stores that write --- */

/* Rows. From the engine every slice is borrowed from it, until its next call that changes anything. */
struct lease_attempt_row {
        struct lessor_attempt attempt;
        bool must_name; /* calls about it count only if they name it */
};

struct lease_key_row {
        struct lessor_slice owner; /* the lease's */
        struct lessor_slice key;
        bool left; /* its subscriber has left */
};

struct rack_token_row {
        struct lessor_slice hash;
        struct lessor_slice rack_id;
        enum lessor_token_status status;
        int64_t issued_ms;
        int64_t grace_until_ms; /* 0 unless in grace */
};

struct lease_change {
        enum {
                LEASE_CHANGE_PUT,     /* insert or replace the row of lease.seq; view, held and n_targets are
                                         derived */
                LEASE_CHANGE_REMOVED, /* delete it and all rows of its seq below; lease.seq and name are valid
                                       */
                LEASE_CHANGE_ATTEMPT_PUT,    /* (seq, attempt.number) */
                LEASE_CHANGE_KEY_PUT,        /* (seq, key) */
                LEASE_CHANGE_TARGET_PUT,     /* (seq, target); order is its place, from 1 */
                LEASE_CHANGE_CAPABILITY_PUT, /* capability.id, of seq */
                LEASE_CHANGE_CAPABILITY_REMOVED,
                LEASE_CHANGE_RACK_PUT, /* rack.rack_id; order is its place among the racks, from 1 */
                LEASE_CHANGE_RACK_REMOVED,
                LEASE_CHANGE_TOKEN_PUT, /* token.hash */
                LEASE_CHANGE_TOKEN_REMOVED,
                LEASE_CHANGE_ENROLMENT_PUT, /* enrolment.hash */
                LEASE_CHANGE_ENROLMENT_REMOVED,
                LEASE_CHANGE_ENVIRONMENT_PUT, /* (env_hash, e3_version); order as with racks */
                LEASE_CHANGE_ENVIRONMENT_REMOVED,
                LEASE_CHANGE_POLICY_PUT,
                LEASE_CHANGE_TURN_PUT, /* turn; there is one at most */
        } what;
        uint64_t seq;         /* of the lease, with all that belong to one */
        struct lease *handle; /* likewise, for the attachment */
        bool is_new;          /* with LEASE_CHANGE_PUT: its event is to be written */
        bool result_changed;  /* with LEASE_CHANGE_PUT: its result is to be written */
        bool soft; /* with LEASE_CHANGE_RACK_PUT: only when it was seen has changed; may wait up to 30 s */
        uint64_t order;
        struct lessor_lease lease;
        struct lease_attempt_row attempt;
        struct lease_key_row key;
        struct lessor_slice target;
        struct lessor_capability capability;
        struct lessor_rack rack; /* pending, fit and n_leases are derived; tiers are in rack_tiers */
        size_t n_rack_tiers;     /* see lease_change_tier() */
        struct rack_token_row token;
        struct lessor_enrolment enrolment;
        struct lessor_environment environment;
        bool require_start_approval;
        struct lessor_slice turn; /* the owner whose lease was granted last */
        void *held;               /* the engine's own */
};

/*
 * The oldest change that was not dropped yet, as the record is now (several changes of one record are one).
 * False when there is none. Needs no memory. Changes come in the order in which their records first changed,
 * so that what is removed comes before what takes its name, and a lease before what belongs to it.
 */
bool lease_engine_change(const struct lease_engine *e, struct lease_change *ret_change);
/* The i-th tier of a rack that was put. */
struct lessor_slice lease_change_tier(const struct lease_change *change, size_t i);
/* Returns whether there was one. */
bool lease_engine_change_drop(struct lease_engine *e);

/* Whether there is an event to take. Something may happen without a record changing. */
bool lease_engine_has_event(const struct lease_engine *e);

/* --- What happened: for the listener --- */

struct lease_engine_event {
        struct lessor_lease_event event;
        void *held; /* the engine's own */
        int held_as;
};

/*
 * Takes the oldest event; false when there is none. Its slices stay good, whatever happens to the engine's
 * records and in whatever thread they are read, until lease_engine_event_done, which, like every call, needs
 * the engine to itself.
 */
bool lease_engine_event_take(struct lease_engine *e, struct lease_engine_event *ret_event);
void lease_engine_event_done(struct lease_engine *e, struct lease_engine_event *event);

/* --- Starting from rows --- */

struct lease_row {
        struct lessor_lease lease;
        const struct lease_attempt_row *attempts; /* in the order of their numbers, from 1, none missing */
        size_t n_attempts;
        const struct lease_key_row *keys;
        size_t n_keys;
        const struct lessor_slice *targets; /* in their order */
        size_t n_targets;
        const struct lessor_capability
                *capabilities; /* those of a claim that stands no longer are left out */
        size_t n_capabilities;
};

/*
 * Put records back as their rows have them; rows of one kind may come in any order. Nothing is noted as
 * changed. What is over by now is restored as it is: the next call deals with it. Racks come before their
 * tokens.
 *
 * Return 0; LESSOR_E_NOMEM; LESSOR_E_EXISTS (its name or its order is there already); LESSOR_E_INVALID (the
 * row contradicts itself or what is there). Nothing changed then.
 */
int lease_engine_restore_lease(struct lease_engine *e, const struct lease_row *row);
int lease_engine_restore_rack(struct lease_engine *e, const struct lessor_rack *from, uint64_t order);
int lease_engine_restore_token(struct lease_engine *e, const struct rack_token_row *row);
int lease_engine_restore_enrolment(struct lease_engine *e, const struct lessor_enrolment *from);
int lease_engine_restore_environment(struct lease_engine *e, const struct lessor_environment *from,
                                     uint64_t order);
void lease_engine_restore_policy(struct lease_engine *e, bool require_start_approval);
int lease_engine_restore_turn(struct lease_engine *e, struct lessor_slice owner);

/*
 * Never gives a new lease this seq, or a new rack or environment this order, or a lower one. A store keeps
 * the highest seq that it ever saw, since the lease that had it may be forgotten, and pages of a list are
 * named by it; of the others those of rows that could not be restored.
 */
void lease_engine_reserve(struct lease_engine *e, uint64_t seq, uint64_t rack, uint64_t environment);

/* Asserts the invariants that engine_internal.h numbers. For tests: it looks at everything. */
void lease_engine_check(const struct lease_engine *e);

#endif
