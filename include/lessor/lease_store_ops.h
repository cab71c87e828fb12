/* SPDX-License-Identifier: MIT */
#ifndef LESSOR_LEASE_STORE_OPS_H
#define LESSOR_LEASE_STORE_OPS_H

#include "lessor/lease_store.h"
#include "lessor/lease_transfer.h"
#include "lessor/rack_registry.h"

/* The operations of a lease store, for whoever writes one. Each is the function of its name, whose contract
 * is there. */
struct lessor_lease_store_ops {
        int (*create)(struct lessor_lease_store *s, const struct lessor_lease_submission *submission,
                      struct lessor_arena *arena, struct lessor_lease *ret_lease, bool *ret_created,
                      struct lessor_ticket *ticket);
        int (*get)(struct lessor_lease_store *s, const struct lessor_lease_name *name, unsigned parts,
                   struct lessor_arena *arena, struct lessor_lease *ret_lease, struct lessor_ticket *ticket);
        int (*find)(struct lessor_lease_store *s, struct lessor_slice repo, struct lessor_slice task_hash,
                    struct lessor_slice inputs_hash, unsigned parts, struct lessor_arena *arena,
                    struct lessor_lease *ret_lease, struct lessor_ticket *ticket);
        int (*list)(struct lessor_lease_store *s, const struct lessor_lease_query *query,
                    struct lessor_arena *arena, struct lessor_lease_list *ret_leases,
                    struct lessor_ticket *ticket);
        int (*recent)(struct lessor_lease_store *s, struct lessor_slice rack_id, size_t max,
                      struct lessor_arena *arena, struct lessor_lease_list *ret_leases,
                      struct lessor_ticket *ticket);
        int (*attempts)(struct lessor_lease_store *s, const struct lessor_lease_name *name,
                        struct lessor_arena *arena, struct lessor_attempt_list *ret_attempts,
                        struct lessor_ticket *ticket);
        int (*targets)(struct lessor_lease_store *s, const struct lessor_lease_name *name,
                       struct lessor_arena *arena, struct lessor_slice **ret_hashes, size_t *ret_n,
                       struct lessor_ticket *ticket);
        int (*end)(struct lessor_lease_store *s, const struct lessor_lease_name *name,
                   enum lessor_lease_ending ending, struct lessor_slice key, struct lessor_slice reason,
                   struct lessor_arena *arena, struct lessor_lease *ret_lease, struct lessor_ticket *ticket);
        int (*cancel_run)(struct lessor_lease_store *s, struct lessor_slice run, struct lessor_slice reason,
                          size_t *ret_n, struct lessor_ticket *ticket);
        int (*replay)(struct lessor_lease_store *s, const struct lessor_lease_name *name,
                      struct lessor_arena *arena, struct lessor_lease *ret_lease,
                      struct lessor_ticket *ticket);
        int (*explain)(struct lessor_lease_store *s, const struct lessor_lease_name *name,
                       struct lessor_arena *arena, struct lessor_lease_why_list *ret_why,
                       struct lessor_ticket *ticket);
        int (*claim)(struct lessor_lease_store *s, const struct lessor_lease_claim *claim,
                     struct lessor_arena *arena, struct lessor_lease_grant *ret_grant,
                     struct lessor_ticket *ticket);
        int (*candidates)(struct lessor_lease_store *s, const struct lessor_lease_claim *claim, size_t max,
                          struct lessor_arena *arena, struct lessor_lease_list *ret_leases,
                          struct lessor_ticket *ticket);
        int (*undeliver)(struct lessor_lease_store *s, const struct lessor_lease_name *name,
                         unsigned claim_number, struct lessor_ticket *ticket);
        int (*extend)(struct lessor_lease_store *s, const struct lessor_lease_holder *holder,
                      int64_t *ret_deadline_ms, struct lessor_ticket *ticket);
        int (*hold)(struct lessor_lease_store *s, const struct lessor_lease_holder *holder, unsigned parts,
                    struct lessor_arena *arena, struct lessor_lease *ret_lease, struct lessor_ticket *ticket);
        int (*must_stop)(struct lessor_lease_store *s, struct lessor_slice rack_id,
                         const struct lessor_lease_name *names, size_t n_names, struct lessor_arena *arena,
                         struct lessor_index_list *ret_stop, struct lessor_ticket *ticket);
        int (*complete)(struct lessor_lease_store *s, const struct lessor_lease_completion *completion,
                        struct lessor_arena *arena, enum lessor_completed *ret_how,
                        struct lessor_lease *ret_lease, struct lessor_ticket *ticket);
        int (*sweep)(struct lessor_lease_store *s, struct lessor_lease_swept *ret_swept, int64_t *ret_next_ms,
                     struct lessor_ticket *ticket);
        int (*stats)(struct lessor_lease_store *s, struct lessor_lease_stats *ret_stats);
        int (*now)(struct lessor_lease_store *s, int64_t *ret_now_ms);
        int (*when_durable)(struct lessor_lease_store *s, struct lessor_ticket ticket,
                            void (*told)(void *context, int result), void *context);
        int (*check)(struct lessor_lease_store *s);
        int (*backup)(struct lessor_lease_store *s, const char *path);

        /* racks, lessor/rack_registry.h */
        int (*rack_mint_enrolment)(struct lessor_lease_store *s, struct lessor_slice token_hash,
                                   struct lessor_slice label, int64_t ttl_ms, int64_t *ret_expires_ms,
                                   struct lessor_ticket *ticket);
        int (*rack_enrolments)(struct lessor_lease_store *s, struct lessor_arena *arena,
                               struct lessor_enrolment_list *ret_enrolments, struct lessor_ticket *ticket);
        int (*rack_revoke_enrolment)(struct lessor_lease_store *s, struct lessor_slice token_hash,
                                     struct lessor_ticket *ticket);
        int (*rack_enroll)(struct lessor_lease_store *s, struct lessor_slice enrolment_hash,
                           const struct lessor_host_info *host, struct lessor_slice rack_token_hash,
                           struct lessor_arena *arena, struct lessor_rack *ret_rack,
                           struct lessor_ticket *ticket);
        int (*rack_authenticate)(struct lessor_lease_store *s, struct lessor_slice token_hash,
                                 struct lessor_arena *arena, struct lessor_rack_caller *ret_caller,
                                 struct lessor_ticket *ticket);
        int (*rack_poll)(struct lessor_lease_store *s, struct lessor_slice rack_id,
                         const struct lessor_slice *tiers, size_t n_tiers, struct lessor_ticket *ticket);
        int (*rack_heartbeat)(struct lessor_lease_store *s, const struct lessor_rack_beat *beat,
                              struct lessor_arena *arena, struct lessor_rack_beaten *ret_beaten,
                              struct lessor_ticket *ticket);
        int (*rack_get)(struct lessor_lease_store *s, struct lessor_slice rack_id, struct lessor_arena *arena,
                        struct lessor_rack *ret_rack, struct lessor_ticket *ticket);
        int (*rack_list)(struct lessor_lease_store *s, struct lessor_arena *arena,
                         struct lessor_rack_list *ret_racks, struct lessor_ticket *ticket);
        int (*rack_approve)(struct lessor_lease_store *s, struct lessor_slice rack_id,
                            struct lessor_slice boot_id, struct lessor_ticket *ticket);
        int (*rack_drain)(struct lessor_lease_store *s, struct lessor_slice rack_id, bool draining,
                          struct lessor_ticket *ticket);
        int (*rack_deregister)(struct lessor_lease_store *s, struct lessor_slice rack_id,
                               size_t *ret_n_leases, struct lessor_ticket *ticket);
        int (*rack_policy)(struct lessor_lease_store *s, bool *ret_require_start_approval,
                           struct lessor_ticket *ticket);
        int (*rack_set_policy)(struct lessor_lease_store *s, bool require_start_approval,
                               struct lessor_ticket *ticket);
        int (*environment_publish)(struct lessor_lease_store *s, const struct lessor_environment *environment,
                                   struct lessor_ticket *ticket);
        int (*environment_resolve)(struct lessor_lease_store *s, struct lessor_slice env_hash,
                                   struct lessor_slice e3_version, struct lessor_arena *arena,
                                   struct lessor_environment *ret_environment, struct lessor_ticket *ticket);
        int (*environment_list)(struct lessor_lease_store *s, struct lessor_arena *arena,
                                struct lessor_environment_list *ret_environments,
                                struct lessor_ticket *ticket);
        int (*environment_remove)(struct lessor_lease_store *s, struct lessor_slice env_hash,
                                  struct lessor_slice e3_version, struct lessor_ticket *ticket);

        /* transfer, lessor/lease_transfer.h */
        int (*transfer)(struct lessor_lease_store *s, const struct lessor_transfer_request *request,
                        struct lessor_arena *arena, struct lessor_transfer_answer *ret_answer,
                        struct lessor_ticket *ticket);
        int (*capability_open)(struct lessor_lease_store *s, struct lessor_slice id, bool write,
                               struct lessor_arena *arena, struct lessor_capability *ret_capability,
                               struct lessor_ticket *ticket);
        int (*capability_stored)(struct lessor_lease_store *s, struct lessor_slice id,
                                 struct lessor_slice receipt, struct lessor_arena *arena,
                                 struct lessor_slice *ret_receipt, struct lessor_ticket *ticket);
        int (*staged)(struct lessor_lease_store *s, const struct lessor_lease_holder *holder,
                      struct lessor_slice upload_id, struct lessor_arena *arena,
                      struct lessor_capability *ret_capability, struct lessor_ticket *ticket);
        int (*capability_wants)(struct lessor_lease_store *s, struct lessor_slice receipt, bool *ret_wants,
                                struct lessor_ticket *ticket);

        struct lessor_lease_store *(*free)(struct lessor_lease_store *s);
};

/* The base of every store; an implementation embeds it first. */
struct lessor_lease_store {
        const struct lessor_lease_store_ops *ops;
        struct lessor_lease_listener listener; /* set before the first operation, constant afterwards */
};

#endif
