/* SPDX-License-Identifier: MIT */
/* The public face of every store: each function is the store's own operation of that name. */
#include "lessor/routing_store.h"

int lessor_routing_now(struct lessor_routing_store *s, int64_t *ret_now_ms)
{
        return s->ops->now(s, ret_now_ms);
}

int lessor_routing_enqueue(struct lessor_routing_store *s, struct lessor_slice site_id,
                           const struct lessor_stub *stub, struct lessor_arena *arena,
                           struct lessor_job *ret_job, struct lessor_ticket *ticket)
{
        return s->ops->enqueue(s, site_id, stub, arena, ret_job, ticket);
}

int lessor_routing_job(struct lessor_routing_store *s, struct lessor_slice site_id,
                       struct lessor_slice job_id, struct lessor_arena *arena, struct lessor_job *ret_job,
                       struct lessor_ticket *ticket)
{
        return s->ops->job(s, site_id, job_id, arena, ret_job, ticket);
}

int lessor_routing_jobs(struct lessor_routing_store *s, const struct lessor_slice *site_id, size_t max,
                        struct lessor_arena *arena, struct lessor_job_list *ret_jobs,
                        struct lessor_ticket *ticket)
{
        return s->ops->jobs(s, site_id, max, arena, ret_jobs, ticket);
}

int lessor_routing_awaiting(struct lessor_routing_store *s, struct lessor_slice site_id, size_t max,
                            struct lessor_arena *arena, struct lessor_job_list *ret_jobs,
                            struct lessor_ticket *ticket)
{
        return s->ops->awaiting(s, site_id, max, arena, ret_jobs, ticket);
}

int lessor_routing_finished(struct lessor_routing_store *s, struct lessor_slice site_id, size_t max_bytes,
                            struct lessor_arena *arena, struct lessor_result_list *ret_results,
                            struct lessor_ticket *ticket)
{
        return s->ops->finished(s, site_id, max_bytes, arena, ret_results, ticket);
}

int lessor_routing_claim(struct lessor_routing_store *s, const struct lessor_claim *claim,
                         struct lessor_arena *arena, struct lessor_job_list *ret_granted,
                         struct lessor_ticket *ticket)
{
        return s->ops->claim(s, claim, arena, ret_granted, ticket);
}

int lessor_routing_take_payload(struct lessor_routing_store *s, struct lessor_slice runner_id,
                                const struct lessor_lease_ref *lease, struct lessor_arena *arena,
                                struct lessor_envelope *ret_envelope, struct lessor_ticket *ticket)
{
        return s->ops->take_payload(s, runner_id, lease, arena, ret_envelope, ticket);
}

int lessor_routing_complete(struct lessor_routing_store *s, struct lessor_slice runner_id,
                            const struct lessor_lease_ref *lease, const struct lessor_envelope *envelope,
                            enum lessor_disposition disposition, bool *ret_duplicate,
                            struct lessor_ticket *ticket)
{
        return s->ops->complete(s, runner_id, lease, envelope, disposition, ret_duplicate, ticket);
}

int lessor_routing_release_leases(struct lessor_routing_store *s, const struct lessor_release *release,
                                  struct lessor_arena *arena, struct lessor_lease_ref_list *ret_released,
                                  struct lessor_ticket *ticket)
{
        return s->ops->release_leases(s, release, arena, ret_released, ticket);
}

int lessor_routing_seal(struct lessor_routing_store *s, struct lessor_slice site_id,
                        struct lessor_slice job_id, const struct lessor_envelope *envelope,
                        enum lessor_job_state *ret_was, struct lessor_ticket *ticket)
{
        return s->ops->seal(s, site_id, job_id, envelope, ret_was, ticket);
}

int lessor_routing_cancel(struct lessor_routing_store *s, struct lessor_slice site_id,
                          struct lessor_slice job_id, struct lessor_ticket *ticket)
{
        return s->ops->cancel(s, site_id, job_id, ticket);
}

int lessor_routing_cancel_requests(struct lessor_routing_store *s, struct lessor_slice runner_id,
                                   struct lessor_arena *arena, struct lessor_lease_ref_list *ret_leases,
                                   struct lessor_ticket *ticket)
{
        return s->ops->cancel_requests(s, runner_id, arena, ret_leases, ticket);
}

int lessor_routing_renew_leases(struct lessor_routing_store *s, struct lessor_slice runner_id,
                                const struct lessor_lease_ref *leases, size_t n_leases, int64_t lease_ms,
                                struct lessor_arena *arena, struct lessor_renewal_list *ret_renewals,
                                struct lessor_ticket *ticket)
{
        return s->ops->renew_leases(s, runner_id, leases, n_leases, lease_ms, arena, ret_renewals, ticket);
}

int lessor_routing_ack(struct lessor_routing_store *s, struct lessor_slice site_id,
                       const struct lessor_slice *job_ids, size_t n_job_ids, struct lessor_arena *arena,
                       struct lessor_slice **ret_acked, size_t *ret_n_acked, struct lessor_ticket *ticket)
{
        return s->ops->ack(s, site_id, job_ids, n_job_ids, arena, ret_acked, ret_n_acked, ticket);
}

int lessor_routing_seen(struct lessor_routing_store *s, const struct lessor_presence *presence,
                        struct lessor_ticket *ticket)
{
        return s->ops->seen(s, presence, ticket);
}

int lessor_routing_presence(struct lessor_routing_store *s, struct lessor_slice runner_id,
                            struct lessor_arena *arena, struct lessor_presence *ret_presence,
                            struct lessor_ticket *ticket)
{
        return s->ops->presence(s, runner_id, arena, ret_presence, ticket);
}

int lessor_routing_everyone(struct lessor_routing_store *s, struct lessor_arena *arena,
                            struct lessor_presence_list *ret_everyone, struct lessor_ticket *ticket)
{
        return s->ops->everyone(s, arena, ret_everyone, ticket);
}

int lessor_routing_sweep(struct lessor_routing_store *s, struct lessor_arena *arena,
                         struct lessor_swept *ret_swept, struct lessor_ticket *ticket)
{
        return s->ops->sweep(s, arena, ret_swept, ticket);
}

int lessor_routing_when_durable(struct lessor_routing_store *s, struct lessor_ticket ticket,
                                void (*told)(void *context, int result), void *context)
{
        return s->ops->when_durable(s, ticket, told, context);
}

int lessor_routing_stats(struct lessor_routing_store *s, struct lessor_routing_stats *ret_stats)
{
        return s->ops->stats(s, ret_stats);
}

int lessor_routing_check(struct lessor_routing_store *s)
{
        return s->ops->check(s);
}

int lessor_routing_backup(struct lessor_routing_store *s, const char *path)
{
        return s->ops->backup(s, path);
}

struct lessor_routing_store *lessor_routing_store_free(struct lessor_routing_store *s)
{
        return s == NULL ? NULL : s->ops->free(s);
}
