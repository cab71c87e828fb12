/* SPDX-License-Identifier: MIT */
#include "leasing/engine_store.h"

#include <sodium.h>

#include "base/macro.h"
#include "base/uuid.h"

static struct engine_store *store_of(struct lessor_lease_store *s)
{
        return container_of(s, struct engine_store, base);
}

int engine_store_list(struct lessor_lease_store *s, const struct lessor_lease_query *query,
                      struct lessor_arena *arena, struct lessor_lease_list *ret_leases,
                      struct lessor_ticket *ticket)
{
        struct engine_store *q = store_of(s);
        int r = q->enter(q);

        if (r < 0)
                return r;
        return q->leave(q, ticket,
                        lease_engine_list(q->engine, query, clock_now_ms(q->clock), arena, ret_leases));
}

int engine_store_recent(struct lessor_lease_store *s, struct lessor_slice rack_id, size_t max,
                        struct lessor_arena *arena, struct lessor_lease_list *ret_leases,
                        struct lessor_ticket *ticket)
{
        struct engine_store *q = store_of(s);
        int r = q->enter(q);

        if (r < 0)
                return r;
        return q->leave(
                q, ticket,
                lease_engine_recent(q->engine, rack_id, max, clock_now_ms(q->clock), arena, ret_leases));
}

int engine_store_attempts(struct lessor_lease_store *s, const struct lessor_lease_name *name,
                          struct lessor_arena *arena, struct lessor_attempt_list *ret_attempts,
                          struct lessor_ticket *ticket)
{
        struct engine_store *q = store_of(s);
        int r = q->enter(q);

        if (r < 0)
                return r;
        return q->leave(q, ticket, lease_engine_attempts(q->engine, name, arena, ret_attempts));
}

int engine_store_targets(struct lessor_lease_store *s, const struct lessor_lease_name *name,
                         struct lessor_arena *arena, struct lessor_slice **ret_hashes, size_t *ret_n,
                         struct lessor_ticket *ticket)
{
        struct engine_store *q = store_of(s);
        int r = q->enter(q);

        if (r < 0)
                return r;
        return q->leave(q, ticket, lease_engine_targets(q->engine, name, arena, ret_hashes, ret_n));
}

int engine_store_end(struct lessor_lease_store *s, const struct lessor_lease_name *name,
                     enum lessor_lease_ending ending, struct lessor_slice key, struct lessor_slice reason,
                     struct lessor_arena *arena, struct lessor_lease *ret_lease, struct lessor_ticket *ticket)
{
        struct engine_store *q = store_of(s);
        int r = q->enter(q);

        if (r < 0)
                return r;
        return q->leave(q, ticket,
                        lease_engine_end(q->engine, name, ending, key, reason, clock_now_ms(q->clock), arena,
                                         ret_lease));
}

int engine_store_cancel_run(struct lessor_lease_store *s, struct lessor_slice run, struct lessor_slice reason,
                            size_t *ret_n, struct lessor_ticket *ticket)
{
        struct engine_store *q = store_of(s);
        int r = q->enter(q);

        if (r < 0)
                return r;
        return q->leave(q, ticket,
                        lease_engine_cancel_run(q->engine, run, reason, clock_now_ms(q->clock), ret_n));
}

int engine_store_replay(struct lessor_lease_store *s, const struct lessor_lease_name *name,
                        struct lessor_arena *arena, struct lessor_lease *ret_lease,
                        struct lessor_ticket *ticket)
{
        struct engine_store *q = store_of(s);
        int r = q->enter(q);

        if (r < 0)
                return r;
        return q->leave(q, ticket,
                        lease_engine_replay(q->engine, name, clock_now_ms(q->clock), arena, ret_lease));
}

int engine_store_explain(struct lessor_lease_store *s, const struct lessor_lease_name *name,
                         struct lessor_arena *arena, struct lessor_lease_why_list *ret_why,
                         struct lessor_ticket *ticket)
{
        struct engine_store *q = store_of(s);
        int r = q->enter(q);

        if (r < 0)
                return r;
        return q->leave(q, ticket,
                        lease_engine_explain(q->engine, name, clock_now_ms(q->clock), arena, ret_why));
}

int engine_store_undeliver(struct lessor_lease_store *s, const struct lessor_lease_name *name,
                           unsigned claim_number, struct lessor_ticket *ticket)
{
        struct engine_store *q = store_of(s);
        int r = q->enter(q);

        if (r < 0)
                return r;
        return q->leave(q, ticket,
                        lease_engine_undeliver(q->engine, name, claim_number, clock_now_ms(q->clock)));
}

int engine_store_extend(struct lessor_lease_store *s, const struct lessor_lease_holder *holder,
                        int64_t *ret_deadline_ms, struct lessor_ticket *ticket)
{
        struct engine_store *q = store_of(s);
        int r = q->enter(q);

        if (r < 0)
                return r;
        return q->leave(q, ticket,
                        lease_engine_extend(q->engine, holder, clock_now_ms(q->clock), ret_deadline_ms));
}

int engine_store_must_stop(struct lessor_lease_store *s, struct lessor_slice rack_id,
                           const struct lessor_lease_name *names, size_t n_names, struct lessor_arena *arena,
                           struct lessor_index_list *ret_stop, struct lessor_ticket *ticket)
{
        struct engine_store *q = store_of(s);
        int r = q->enter(q);

        if (r < 0)
                return r;
        return q->leave(q, ticket,
                        lease_engine_must_stop(q->engine, rack_id, names, n_names, clock_now_ms(q->clock),
                                               arena, ret_stop));
}

int engine_store_sweep(struct lessor_lease_store *s, struct lessor_lease_swept *ret_swept,
                       int64_t *ret_next_ms, struct lessor_ticket *ticket)
{
        struct engine_store *q = store_of(s);
        int r = q->enter(q);

        if (r < 0)
                return r;
        lease_engine_sweep(q->engine, clock_now_ms(q->clock), ret_swept);
        if (ret_next_ms != NULL)
                *ret_next_ms = lease_engine_next_due_ms(q->engine);
        return q->leave(q, ticket, 0);
}

int engine_store_now(struct lessor_lease_store *s, int64_t *ret_now_ms)
{
        *ret_now_ms = clock_now_ms(store_of(s)->clock);
        return 0;
}

int engine_store_rack_mint_enrolment(struct lessor_lease_store *s, struct lessor_slice token_hash,
                                     struct lessor_slice label, int64_t ttl_ms, int64_t *ret_expires_ms,
                                     struct lessor_ticket *ticket)
{
        struct engine_store *q = store_of(s);
        int r = q->enter(q);

        if (r < 0)
                return r;
        return q->leave(q, ticket,
                        lease_engine_mint_enrolment(q->engine, token_hash, label, ttl_ms,
                                                    clock_now_ms(q->clock), ret_expires_ms));
}

int engine_store_rack_enrolments(struct lessor_lease_store *s, struct lessor_arena *arena,
                                 struct lessor_enrolment_list *ret_enrolments, struct lessor_ticket *ticket)
{
        struct engine_store *q = store_of(s);
        int r = q->enter(q);

        if (r < 0)
                return r;
        return q->leave(q, ticket,
                        lease_engine_enrolments(q->engine, clock_now_ms(q->clock), arena, ret_enrolments));
}

int engine_store_rack_revoke_enrolment(struct lessor_lease_store *s, struct lessor_slice token_hash,
                                       struct lessor_ticket *ticket)
{
        struct engine_store *q = store_of(s);
        int r = q->enter(q);

        if (r < 0)
                return r;
        return q->leave(q, ticket,
                        lease_engine_revoke_enrolment(q->engine, token_hash, clock_now_ms(q->clock)));
}

int engine_store_rack_enroll(struct lessor_lease_store *s, struct lessor_slice enrolment_hash,
                             const struct lessor_host_info *host, struct lessor_slice rack_token_hash,
                             struct lessor_arena *arena, struct lessor_rack *ret_rack,
                             struct lessor_ticket *ticket)
{
        struct engine_store *q = store_of(s);
        char uuid[UUID_TEXT_LEN + 1];
        int64_t now_ms;
        int r;

        r = q->enter(q);
        if (r < 0)
                return r;
        now_ms = clock_now_ms(q->clock);
        uuid_v7(now_ms, uuid);
        r = lease_engine_enroll(q->engine, enrolment_hash, host, (struct lessor_slice){uuid, UUID_TEXT_LEN},
                                rack_token_hash, now_ms, arena, ret_rack);
        return q->leave(q, ticket, r);
}

int engine_store_rack_authenticate(struct lessor_lease_store *s, struct lessor_slice token_hash,
                                   struct lessor_arena *arena, struct lessor_rack_caller *ret_caller,
                                   struct lessor_ticket *ticket)
{
        struct engine_store *q = store_of(s);
        int r = q->enter(q);

        if (r < 0)
                return r;
        return q->leave(
                q, ticket,
                lease_engine_authenticate(q->engine, token_hash, clock_now_ms(q->clock), arena, ret_caller));
}

int engine_store_rack_poll(struct lessor_lease_store *s, struct lessor_slice rack_id,
                           const struct lessor_slice *tiers, size_t n_tiers, struct lessor_ticket *ticket)
{
        struct engine_store *q = store_of(s);
        int r = q->enter(q);

        if (r < 0)
                return r;
        return q->leave(q, ticket,
                        lease_engine_poll(q->engine, rack_id, tiers, n_tiers, clock_now_ms(q->clock)));
}

int engine_store_rack_heartbeat(struct lessor_lease_store *s, const struct lessor_rack_beat *beat,
                                struct lessor_arena *arena, struct lessor_rack_beaten *ret_beaten,
                                struct lessor_ticket *ticket)
{
        struct engine_store *q = store_of(s);
        int r = q->enter(q);

        if (r < 0)
                return r;
        return q->leave(q, ticket,
                        lease_engine_heartbeat(q->engine, beat, clock_now_ms(q->clock), arena, ret_beaten));
}

int engine_store_rack_get(struct lessor_lease_store *s, struct lessor_slice rack_id,
                          struct lessor_arena *arena, struct lessor_rack *ret_rack,
                          struct lessor_ticket *ticket)
{
        struct engine_store *q = store_of(s);
        int r = q->enter(q);

        if (r < 0)
                return r;
        return q->leave(q, ticket,
                        lease_engine_rack(q->engine, rack_id, clock_now_ms(q->clock), arena, ret_rack));
}

int engine_store_rack_list(struct lessor_lease_store *s, struct lessor_arena *arena,
                           struct lessor_rack_list *ret_racks, struct lessor_ticket *ticket)
{
        struct engine_store *q = store_of(s);
        int r = q->enter(q);

        if (r < 0)
                return r;
        return q->leave(q, ticket, lease_engine_racks(q->engine, clock_now_ms(q->clock), arena, ret_racks));
}

int engine_store_rack_approve(struct lessor_lease_store *s, struct lessor_slice rack_id,
                              struct lessor_slice boot_id, struct lessor_ticket *ticket)
{
        struct engine_store *q = store_of(s);
        int r = q->enter(q);

        if (r < 0)
                return r;
        return q->leave(q, ticket, lease_engine_approve(q->engine, rack_id, boot_id));
}

int engine_store_rack_drain(struct lessor_lease_store *s, struct lessor_slice rack_id, bool draining,
                            struct lessor_ticket *ticket)
{
        struct engine_store *q = store_of(s);
        int r = q->enter(q);

        if (r < 0)
                return r;
        return q->leave(q, ticket, lease_engine_drain(q->engine, rack_id, draining));
}

int engine_store_rack_deregister(struct lessor_lease_store *s, struct lessor_slice rack_id,
                                 size_t *ret_n_leases, struct lessor_ticket *ticket)
{
        struct engine_store *q = store_of(s);
        int r = q->enter(q);

        if (r < 0)
                return r;
        return q->leave(q, ticket,
                        lease_engine_deregister(q->engine, rack_id, clock_now_ms(q->clock), ret_n_leases));
}

int engine_store_rack_policy(struct lessor_lease_store *s, bool *ret_require_start_approval,
                             struct lessor_ticket *ticket)
{
        struct engine_store *q = store_of(s);
        int r = q->enter(q);

        if (r < 0)
                return r;
        *ret_require_start_approval = lease_engine_policy(q->engine);
        return q->leave(q, ticket, 0);
}

int engine_store_rack_set_policy(struct lessor_lease_store *s, bool require_start_approval,
                                 struct lessor_ticket *ticket)
{
        struct engine_store *q = store_of(s);
        int r = q->enter(q);

        if (r < 0)
                return r;
        lease_engine_set_policy(q->engine, require_start_approval);
        return q->leave(q, ticket, 0);
}

int engine_store_environment_publish(struct lessor_lease_store *s,
                                     const struct lessor_environment *environment,
                                     struct lessor_ticket *ticket)
{
        struct engine_store *q = store_of(s);
        int r = q->enter(q);

        if (r < 0)
                return r;
        return q->leave(q, ticket, lease_engine_publish(q->engine, environment, clock_now_ms(q->clock)));
}

int engine_store_environment_resolve(struct lessor_lease_store *s, struct lessor_slice env_hash,
                                     struct lessor_slice e3_version, struct lessor_arena *arena,
                                     struct lessor_environment *ret_environment, struct lessor_ticket *ticket)
{
        struct engine_store *q = store_of(s);
        int r = q->enter(q);

        if (r < 0)
                return r;
        return q->leave(q, ticket,
                        lease_engine_resolve(q->engine, env_hash, e3_version, arena, ret_environment));
}

int engine_store_environment_list(struct lessor_lease_store *s, struct lessor_arena *arena,
                                  struct lessor_environment_list *ret_environments,
                                  struct lessor_ticket *ticket)
{
        struct engine_store *q = store_of(s);
        int r = q->enter(q);

        if (r < 0)
                return r;
        return q->leave(q, ticket, lease_engine_environments(q->engine, arena, ret_environments));
}

int engine_store_environment_remove(struct lessor_lease_store *s, struct lessor_slice env_hash,
                                    struct lessor_slice e3_version, struct lessor_ticket *ticket)
{
        struct engine_store *q = store_of(s);
        int r = q->enter(q);

        if (r < 0)
                return r;
        return q->leave(q, ticket, lease_engine_unpublish(q->engine, env_hash, e3_version));
}

int engine_store_transfer(struct lessor_lease_store *s, const struct lessor_transfer_request *request,
                          struct lessor_arena *arena, struct lessor_transfer_answer *ret_answer,
                          struct lessor_ticket *ticket)
{
        struct engine_store *q = store_of(s);
        unsigned char seed[LEASE_ENGINE_SEED_BYTES];
        int r;

        randombytes_buf(seed, sizeof(seed));
        r = q->enter(q);
        if (r == 0)
                r = q->leave(q, ticket,
                             lease_engine_transfer(q->engine, request, clock_now_ms(q->clock), seed, arena,
                                                   ret_answer));
        sodium_memzero(seed, sizeof(seed));
        return r;
}

int engine_store_capability_open(struct lessor_lease_store *s, struct lessor_slice id, bool write,
                                 struct lessor_arena *arena, struct lessor_capability *ret_capability,
                                 struct lessor_ticket *ticket)
{
        struct engine_store *q = store_of(s);
        int r = q->enter(q);

        if (r < 0)
                return r;
        return q->leave(
                q, ticket,
                lease_engine_open(q->engine, id, write, clock_now_ms(q->clock), arena, ret_capability));
}

int engine_store_capability_stored(struct lessor_lease_store *s, struct lessor_slice id,
                                   struct lessor_slice receipt, struct lessor_arena *arena,
                                   struct lessor_slice *ret_receipt, struct lessor_ticket *ticket)
{
        struct engine_store *q = store_of(s);
        int r = q->enter(q);

        if (r < 0)
                return r;
        return q->leave(
                q, ticket,
                lease_engine_stored(q->engine, id, receipt, clock_now_ms(q->clock), arena, ret_receipt));
}

int engine_store_staged(struct lessor_lease_store *s, const struct lessor_lease_holder *holder,
                        struct lessor_slice upload_id, struct lessor_arena *arena,
                        struct lessor_capability *ret_capability, struct lessor_ticket *ticket)
{
        struct engine_store *q = store_of(s);
        int r = q->enter(q);

        if (r < 0)
                return r;
        return q->leave(q, ticket,
                        lease_engine_staged(q->engine, holder, upload_id, clock_now_ms(q->clock), arena,
                                            ret_capability));
}

int engine_store_capability_wants(struct lessor_lease_store *s, struct lessor_slice receipt, bool *ret_wants,
                                  struct lessor_ticket *ticket)
{
        struct engine_store *q = store_of(s);
        int r = q->enter(q);

        if (r < 0)
                return r;
        *ret_wants = lease_engine_wants(q->engine, receipt);
        return q->leave(q, ticket, 0);
}
