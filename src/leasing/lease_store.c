/* SPDX-License-Identifier: MIT */
/* The public face of every lease store: each function is the store's own operation of that name. */
#include "lessor/lease_store_ops.h"

int lessor_lease_create(struct lessor_lease_store *s, const struct lessor_lease_submission *submission,
                        struct lessor_arena *arena, struct lessor_lease *ret_lease, bool *ret_created,
                        struct lessor_ticket *ticket)
{
        return s->ops->create(s, submission, arena, ret_lease, ret_created, ticket);
}

int lessor_lease_get(struct lessor_lease_store *s, const struct lessor_lease_name *name, unsigned parts,
                     struct lessor_arena *arena, struct lessor_lease *ret_lease, struct lessor_ticket *ticket)
{
        return s->ops->get(s, name, parts, arena, ret_lease, ticket);
}

int lessor_lease_find(struct lessor_lease_store *s, struct lessor_slice repo, struct lessor_slice task_hash,
                      struct lessor_slice inputs_hash, unsigned parts, struct lessor_arena *arena,
                      struct lessor_lease *ret_lease, struct lessor_ticket *ticket)
{
        return s->ops->find(s, repo, task_hash, inputs_hash, parts, arena, ret_lease, ticket);
}

int lessor_lease_list(struct lessor_lease_store *s, const struct lessor_lease_query *query,
                      struct lessor_arena *arena, struct lessor_lease_list *ret_leases,
                      struct lessor_ticket *ticket)
{
        return s->ops->list(s, query, arena, ret_leases, ticket);
}

int lessor_lease_recent(struct lessor_lease_store *s, struct lessor_slice rack_id, size_t max,
                        struct lessor_arena *arena, struct lessor_lease_list *ret_leases,
                        struct lessor_ticket *ticket)
{
        return s->ops->recent(s, rack_id, max, arena, ret_leases, ticket);
}

int lessor_lease_attempts(struct lessor_lease_store *s, const struct lessor_lease_name *name,
                          struct lessor_arena *arena, struct lessor_attempt_list *ret_attempts,
                          struct lessor_ticket *ticket)
{
        return s->ops->attempts(s, name, arena, ret_attempts, ticket);
}

int lessor_lease_targets(struct lessor_lease_store *s, const struct lessor_lease_name *name,
                         struct lessor_arena *arena, struct lessor_slice **ret_hashes, size_t *ret_n,
                         struct lessor_ticket *ticket)
{
        return s->ops->targets(s, name, arena, ret_hashes, ret_n, ticket);
}

int lessor_lease_end(struct lessor_lease_store *s, const struct lessor_lease_name *name,
                     enum lessor_lease_ending ending, struct lessor_slice key, struct lessor_slice reason,
                     struct lessor_arena *arena, struct lessor_lease *ret_lease, struct lessor_ticket *ticket)
{
        return s->ops->end(s, name, ending, key, reason, arena, ret_lease, ticket);
}

int lessor_lease_cancel_run(struct lessor_lease_store *s, struct lessor_slice run, struct lessor_slice reason,
                            size_t *ret_n, struct lessor_ticket *ticket)
{
        return s->ops->cancel_run(s, run, reason, ret_n, ticket);
}

int lessor_lease_replay(struct lessor_lease_store *s, const struct lessor_lease_name *name,
                        struct lessor_arena *arena, struct lessor_lease *ret_lease,
                        struct lessor_ticket *ticket)
{
        return s->ops->replay(s, name, arena, ret_lease, ticket);
}

int lessor_lease_explain(struct lessor_lease_store *s, const struct lessor_lease_name *name,
                         struct lessor_arena *arena, struct lessor_lease_why_list *ret_why,
                         struct lessor_ticket *ticket)
{
        return s->ops->explain(s, name, arena, ret_why, ticket);
}

int lessor_lease_claim(struct lessor_lease_store *s, const struct lessor_lease_claim *claim,
                       struct lessor_arena *arena, struct lessor_lease_grant *ret_grant,
                       struct lessor_ticket *ticket)
{
        return s->ops->claim(s, claim, arena, ret_grant, ticket);
}

int lessor_lease_candidates(struct lessor_lease_store *s, const struct lessor_lease_claim *claim, size_t max,
                            struct lessor_arena *arena, struct lessor_lease_list *ret_leases,
                            struct lessor_ticket *ticket)
{
        return s->ops->candidates(s, claim, max, arena, ret_leases, ticket);
}

int lessor_lease_undeliver(struct lessor_lease_store *s, const struct lessor_lease_name *name,
                           unsigned claim_number, struct lessor_ticket *ticket)
{
        return s->ops->undeliver(s, name, claim_number, ticket);
}

int lessor_lease_extend(struct lessor_lease_store *s, const struct lessor_lease_holder *holder,
                        int64_t *ret_deadline_ms, struct lessor_ticket *ticket)
{
        return s->ops->extend(s, holder, ret_deadline_ms, ticket);
}

int lessor_lease_hold(struct lessor_lease_store *s, const struct lessor_lease_holder *holder, unsigned parts,
                      struct lessor_arena *arena, struct lessor_lease *ret_lease,
                      struct lessor_ticket *ticket)
{
        return s->ops->hold(s, holder, parts, arena, ret_lease, ticket);
}

int lessor_lease_must_stop(struct lessor_lease_store *s, struct lessor_slice rack_id,
                           const struct lessor_lease_name *names, size_t n_names, struct lessor_arena *arena,
                           struct lessor_index_list *ret_stop, struct lessor_ticket *ticket)
{
        return s->ops->must_stop(s, rack_id, names, n_names, arena, ret_stop, ticket);
}

int lessor_lease_complete(struct lessor_lease_store *s, const struct lessor_lease_completion *completion,
                          struct lessor_arena *arena, enum lessor_completed *ret_how,
                          struct lessor_lease *ret_lease, struct lessor_ticket *ticket)
{
        return s->ops->complete(s, completion, arena, ret_how, ret_lease, ticket);
}

int lessor_lease_sweep(struct lessor_lease_store *s, struct lessor_lease_swept *ret_swept,
                       int64_t *ret_next_ms, struct lessor_ticket *ticket)
{
        return s->ops->sweep(s, ret_swept, ret_next_ms, ticket);
}

int lessor_lease_stats(struct lessor_lease_store *s, struct lessor_lease_stats *ret_stats)
{
        return s->ops->stats(s, ret_stats);
}

int lessor_lease_now(struct lessor_lease_store *s, int64_t *ret_now_ms)
{
        return s->ops->now(s, ret_now_ms);
}

int lessor_lease_when_durable(struct lessor_lease_store *s, struct lessor_ticket ticket,
                              void (*told)(void *context, int result), void *context)
{
        return s->ops->when_durable(s, ticket, told, context);
}

int lessor_lease_check(struct lessor_lease_store *s)
{
        return s->ops->check(s);
}

int lessor_lease_backup(struct lessor_lease_store *s, const char *path)
{
        return s->ops->backup(s, path);
}

int lessor_rack_mint_enrolment(struct lessor_lease_store *s, struct lessor_slice token_hash,
                               struct lessor_slice label, int64_t ttl_ms, int64_t *ret_expires_ms,
                               struct lessor_ticket *ticket)
{
        return s->ops->rack_mint_enrolment(s, token_hash, label, ttl_ms, ret_expires_ms, ticket);
}

int lessor_rack_enrolments(struct lessor_lease_store *s, struct lessor_arena *arena,
                           struct lessor_enrolment_list *ret_enrolments, struct lessor_ticket *ticket)
{
        return s->ops->rack_enrolments(s, arena, ret_enrolments, ticket);
}

int lessor_rack_revoke_enrolment(struct lessor_lease_store *s, struct lessor_slice token_hash,
                                 struct lessor_ticket *ticket)
{
        return s->ops->rack_revoke_enrolment(s, token_hash, ticket);
}

int lessor_rack_enroll(struct lessor_lease_store *s, struct lessor_slice enrolment_hash,
                       const struct lessor_host_info *host, struct lessor_slice rack_token_hash,
                       struct lessor_arena *arena, struct lessor_rack *ret_rack, struct lessor_ticket *ticket)
{
        return s->ops->rack_enroll(s, enrolment_hash, host, rack_token_hash, arena, ret_rack, ticket);
}

int lessor_rack_authenticate(struct lessor_lease_store *s, struct lessor_slice token_hash,
                             struct lessor_arena *arena, struct lessor_rack_caller *ret_caller,
                             struct lessor_ticket *ticket)
{
        return s->ops->rack_authenticate(s, token_hash, arena, ret_caller, ticket);
}

int lessor_rack_poll(struct lessor_lease_store *s, struct lessor_slice rack_id,
                     const struct lessor_slice *tiers, size_t n_tiers, struct lessor_ticket *ticket)
{
        return s->ops->rack_poll(s, rack_id, tiers, n_tiers, ticket);
}

int lessor_rack_heartbeat(struct lessor_lease_store *s, const struct lessor_rack_beat *beat,
                          struct lessor_arena *arena, struct lessor_rack_beaten *ret_beaten,
                          struct lessor_ticket *ticket)
{
        return s->ops->rack_heartbeat(s, beat, arena, ret_beaten, ticket);
}

int lessor_rack_get(struct lessor_lease_store *s, struct lessor_slice rack_id, struct lessor_arena *arena,
                    struct lessor_rack *ret_rack, struct lessor_ticket *ticket)
{
        return s->ops->rack_get(s, rack_id, arena, ret_rack, ticket);
}

int lessor_rack_list(struct lessor_lease_store *s, struct lessor_arena *arena,
                     struct lessor_rack_list *ret_racks, struct lessor_ticket *ticket)
{
        return s->ops->rack_list(s, arena, ret_racks, ticket);
}

int lessor_rack_approve(struct lessor_lease_store *s, struct lessor_slice rack_id,
                        struct lessor_slice boot_id, struct lessor_ticket *ticket)
{
        return s->ops->rack_approve(s, rack_id, boot_id, ticket);
}

int lessor_rack_drain(struct lessor_lease_store *s, struct lessor_slice rack_id, bool draining,
                      struct lessor_ticket *ticket)
{
        return s->ops->rack_drain(s, rack_id, draining, ticket);
}

int lessor_rack_deregister(struct lessor_lease_store *s, struct lessor_slice rack_id, size_t *ret_n_leases,
                           struct lessor_ticket *ticket)
{
        return s->ops->rack_deregister(s, rack_id, ret_n_leases, ticket);
}

int lessor_rack_policy(struct lessor_lease_store *s, bool *ret_require_start_approval,
                       struct lessor_ticket *ticket)
{
        return s->ops->rack_policy(s, ret_require_start_approval, ticket);
}

int lessor_rack_set_policy(struct lessor_lease_store *s, bool require_start_approval,
                           struct lessor_ticket *ticket)
{
        return s->ops->rack_set_policy(s, require_start_approval, ticket);
}

int lessor_environment_publish(struct lessor_lease_store *s, const struct lessor_environment *environment,
                               struct lessor_ticket *ticket)
{
        return s->ops->environment_publish(s, environment, ticket);
}

int lessor_environment_resolve(struct lessor_lease_store *s, struct lessor_slice env_hash,
                               struct lessor_slice e3_version, struct lessor_arena *arena,
                               struct lessor_environment *ret_environment, struct lessor_ticket *ticket)
{
        return s->ops->environment_resolve(s, env_hash, e3_version, arena, ret_environment, ticket);
}

int lessor_environment_list(struct lessor_lease_store *s, struct lessor_arena *arena,
                            struct lessor_environment_list *ret_environments, struct lessor_ticket *ticket)
{
        return s->ops->environment_list(s, arena, ret_environments, ticket);
}

int lessor_environment_remove(struct lessor_lease_store *s, struct lessor_slice env_hash,
                              struct lessor_slice e3_version, struct lessor_ticket *ticket)
{
        return s->ops->environment_remove(s, env_hash, e3_version, ticket);
}

int lessor_lease_transfer(struct lessor_lease_store *s, const struct lessor_transfer_request *request,
                          struct lessor_arena *arena, struct lessor_transfer_answer *ret_answer,
                          struct lessor_ticket *ticket)
{
        return s->ops->transfer(s, request, arena, ret_answer, ticket);
}

int lessor_capability_open(struct lessor_lease_store *s, struct lessor_slice id, bool write,
                           struct lessor_arena *arena, struct lessor_capability *ret_capability,
                           struct lessor_ticket *ticket)
{
        return s->ops->capability_open(s, id, write, arena, ret_capability, ticket);
}

int lessor_capability_stored(struct lessor_lease_store *s, struct lessor_slice id,
                             struct lessor_slice receipt, struct lessor_arena *arena,
                             struct lessor_slice *ret_receipt, struct lessor_ticket *ticket)
{
        return s->ops->capability_stored(s, id, receipt, arena, ret_receipt, ticket);
}

int lessor_lease_staged(struct lessor_lease_store *s, const struct lessor_lease_holder *holder,
                        struct lessor_slice upload_id, struct lessor_arena *arena,
                        struct lessor_capability *ret_capability, struct lessor_ticket *ticket)
{
        return s->ops->staged(s, holder, upload_id, arena, ret_capability, ticket);
}

int lessor_capability_wants(struct lessor_lease_store *s, struct lessor_slice receipt, bool *ret_wants,
                            struct lessor_ticket *ticket)
{
        return s->ops->capability_wants(s, receipt, ret_wants, ticket);
}

struct lessor_lease_store *lessor_lease_store_free(struct lessor_lease_store *s)
{
        return s == NULL ? NULL : s->ops->free(s);
}
