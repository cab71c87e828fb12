/* SPDX-License-Identifier: MIT */
#ifndef LEASING_ENGINE_STORE_H
#define LEASING_ENGINE_STORE_H

#include "base/clock.h"
#include "leasing/engine.h"

/*
 * What every store over the engine is, and those of its operations that are one decision of the engine's
 * between taking the store and giving it back. The others handle long texts, or are the store's own.
 */
struct engine_store {
        struct lessor_lease_store base;
        struct clock *clock;
        struct lease_engine *engine;
        /* Takes the store for one operation. Returns 0, or an error: then it was not taken. */
        int (*enter)(struct engine_store *s);
        /* Gives it back and says when the answer may be told, or waits. Returns `result`, or an error. */
        int (*leave)(struct engine_store *s, struct lessor_ticket *ticket, int result);
};

/* Each is the operation of its name. */
int engine_store_list(struct lessor_lease_store *s, const struct lessor_lease_query *query,
                      struct lessor_arena *arena, struct lessor_lease_list *ret_leases,
                      struct lessor_ticket *ticket);
int engine_store_recent(struct lessor_lease_store *s, struct lessor_slice rack_id, size_t max,
                        struct lessor_arena *arena, struct lessor_lease_list *ret_leases,
                        struct lessor_ticket *ticket);
int engine_store_attempts(struct lessor_lease_store *s, const struct lessor_lease_name *name,
                          struct lessor_arena *arena, struct lessor_attempt_list *ret_attempts,
                          struct lessor_ticket *ticket);
int engine_store_targets(struct lessor_lease_store *s, const struct lessor_lease_name *name,
                         struct lessor_arena *arena, struct lessor_slice **ret_hashes, size_t *ret_n,
                         struct lessor_ticket *ticket);
int engine_store_end(struct lessor_lease_store *s, const struct lessor_lease_name *name,
                     enum lessor_lease_ending ending, struct lessor_slice key, struct lessor_slice reason,
                     struct lessor_arena *arena, struct lessor_lease *ret_lease,
                     struct lessor_ticket *ticket);
int engine_store_cancel_run(struct lessor_lease_store *s, struct lessor_slice run, struct lessor_slice reason,
                            size_t *ret_n, struct lessor_ticket *ticket);
int engine_store_replay(struct lessor_lease_store *s, const struct lessor_lease_name *name,
                        struct lessor_arena *arena, struct lessor_lease *ret_lease,
                        struct lessor_ticket *ticket);
int engine_store_explain(struct lessor_lease_store *s, const struct lessor_lease_name *name,
                         struct lessor_arena *arena, struct lessor_lease_why_list *ret_why,
                         struct lessor_ticket *ticket);
int engine_store_undeliver(struct lessor_lease_store *s, const struct lessor_lease_name *name,
                           unsigned claim_number, struct lessor_ticket *ticket);
int engine_store_extend(struct lessor_lease_store *s, const struct lessor_lease_holder *holder,
                        int64_t *ret_deadline_ms, struct lessor_ticket *ticket);
int engine_store_must_stop(struct lessor_lease_store *s, struct lessor_slice rack_id,
                           const struct lessor_lease_name *names, size_t n_names, struct lessor_arena *arena,
                           struct lessor_index_list *ret_stop, struct lessor_ticket *ticket);
int engine_store_sweep(struct lessor_lease_store *s, struct lessor_lease_swept *ret_swept,
                       int64_t *ret_next_ms, struct lessor_ticket *ticket);
int engine_store_now(struct lessor_lease_store *s, int64_t *ret_now_ms);
int engine_store_rack_mint_enrolment(struct lessor_lease_store *s, struct lessor_slice token_hash,
                                     struct lessor_slice label, int64_t ttl_ms, int64_t *ret_expires_ms,
                                     struct lessor_ticket *ticket);
int engine_store_rack_enrolments(struct lessor_lease_store *s, struct lessor_arena *arena,
                                 struct lessor_enrolment_list *ret_enrolments, struct lessor_ticket *ticket);
int engine_store_rack_revoke_enrolment(struct lessor_lease_store *s, struct lessor_slice token_hash,
                                       struct lessor_ticket *ticket);
int engine_store_rack_enroll(struct lessor_lease_store *s, struct lessor_slice enrolment_hash,
                             const struct lessor_host_info *host, struct lessor_slice rack_token_hash,
                             struct lessor_arena *arena, struct lessor_rack *ret_rack,
                             struct lessor_ticket *ticket);
int engine_store_rack_authenticate(struct lessor_lease_store *s, struct lessor_slice token_hash,
                                   struct lessor_arena *arena, struct lessor_rack_caller *ret_caller,
                                   struct lessor_ticket *ticket);
int engine_store_rack_poll(struct lessor_lease_store *s, struct lessor_slice rack_id,
                           const struct lessor_slice *tiers, size_t n_tiers, struct lessor_ticket *ticket);
int engine_store_rack_heartbeat(struct lessor_lease_store *s, const struct lessor_rack_beat *beat,
                                struct lessor_arena *arena, struct lessor_rack_beaten *ret_beaten,
                                struct lessor_ticket *ticket);
int engine_store_rack_get(struct lessor_lease_store *s, struct lessor_slice rack_id,
                          struct lessor_arena *arena, struct lessor_rack *ret_rack,
                          struct lessor_ticket *ticket);
int engine_store_rack_list(struct lessor_lease_store *s, struct lessor_arena *arena,
                           struct lessor_rack_list *ret_racks, struct lessor_ticket *ticket);
int engine_store_rack_approve(struct lessor_lease_store *s, struct lessor_slice rack_id,
                              struct lessor_slice boot_id, struct lessor_ticket *ticket);
int engine_store_rack_drain(struct lessor_lease_store *s, struct lessor_slice rack_id, bool draining,
                            struct lessor_ticket *ticket);
int engine_store_rack_deregister(struct lessor_lease_store *s, struct lessor_slice rack_id,
                                 size_t *ret_n_leases, struct lessor_ticket *ticket);
int engine_store_rack_policy(struct lessor_lease_store *s, bool *ret_require_start_approval,
                             struct lessor_ticket *ticket);
int engine_store_rack_set_policy(struct lessor_lease_store *s, bool require_start_approval,
                                 struct lessor_ticket *ticket);
int engine_store_environment_publish(struct lessor_lease_store *s,
                                     const struct lessor_environment *environment,
                                     struct lessor_ticket *ticket);
int engine_store_environment_resolve(struct lessor_lease_store *s, struct lessor_slice env_hash,
                                     struct lessor_slice e3_version, struct lessor_arena *arena,
                                     struct lessor_environment *ret_environment,
                                     struct lessor_ticket *ticket);
int engine_store_environment_list(struct lessor_lease_store *s, struct lessor_arena *arena,
                                  struct lessor_environment_list *ret_environments,
                                  struct lessor_ticket *ticket);
int engine_store_environment_remove(struct lessor_lease_store *s, struct lessor_slice env_hash,
                                    struct lessor_slice e3_version, struct lessor_ticket *ticket);
int engine_store_transfer(struct lessor_lease_store *s, const struct lessor_transfer_request *request,
                          struct lessor_arena *arena, struct lessor_transfer_answer *ret_answer,
                          struct lessor_ticket *ticket);
int engine_store_capability_open(struct lessor_lease_store *s, struct lessor_slice id, bool write,
                                 struct lessor_arena *arena, struct lessor_capability *ret_capability,
                                 struct lessor_ticket *ticket);
int engine_store_capability_stored(struct lessor_lease_store *s, struct lessor_slice id,
                                   struct lessor_slice receipt, struct lessor_arena *arena,
                                   struct lessor_slice *ret_receipt, struct lessor_ticket *ticket);
int engine_store_staged(struct lessor_lease_store *s, const struct lessor_lease_holder *holder,
                        struct lessor_slice upload_id, struct lessor_arena *arena,
                        struct lessor_capability *ret_capability, struct lessor_ticket *ticket);
int engine_store_capability_wants(struct lessor_lease_store *s, struct lessor_slice receipt, bool *ret_wants,
                                  struct lessor_ticket *ticket);

#define ENGINE_STORE_OPS                                                                                     \
        .list = engine_store_list, .recent = engine_store_recent, .attempts = engine_store_attempts,         \
        .targets = engine_store_targets, .end = engine_store_end, .cancel_run = engine_store_cancel_run,     \
        .replay = engine_store_replay, .explain = engine_store_explain, .undeliver = engine_store_undeliver, \
        .extend = engine_store_extend, .must_stop = engine_store_must_stop, .sweep = engine_store_sweep,     \
        .now = engine_store_now, .rack_mint_enrolment = engine_store_rack_mint_enrolment,                    \
        .rack_enrolments = engine_store_rack_enrolments,                                                     \
        .rack_revoke_enrolment = engine_store_rack_revoke_enrolment,                                         \
        .rack_enroll = engine_store_rack_enroll, .rack_authenticate = engine_store_rack_authenticate,        \
        .rack_poll = engine_store_rack_poll, .rack_heartbeat = engine_store_rack_heartbeat,                  \
        .rack_get = engine_store_rack_get, .rack_list = engine_store_rack_list,                              \
        .rack_approve = engine_store_rack_approve, .rack_drain = engine_store_rack_drain,                    \
        .rack_deregister = engine_store_rack_deregister, .rack_policy = engine_store_rack_policy,            \
        .rack_set_policy = engine_store_rack_set_policy,                                                     \
        .environment_publish = engine_store_environment_publish,                                             \
        .environment_resolve = engine_store_environment_resolve,                                             \
        .environment_list = engine_store_environment_list,                                                   \
        .environment_remove = engine_store_environment_remove, .transfer = engine_store_transfer,            \
        .capability_open = engine_store_capability_open,                                                     \
        .capability_stored = engine_store_capability_stored, .staged = engine_store_staged,                  \
        .capability_wants = engine_store_capability_wants

#endif
