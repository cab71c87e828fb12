/* SPDX-License-Identifier: MIT */
#include "leasing/memory.h"

#include <pthread.h>
#include <sodium.h>
#include <stdlib.h>

#include "base/macro.h"
#include "base/uuid.h"
#include "leasing/engine.h"

struct memory_store {
        struct lessor_lease_store base;
        struct clock *clock;
        pthread_mutex_t lock; /* guards the engine and all that hangs on its leases */
        struct lease_engine *engine;
};

/* A lease's long texts, hung on it. From malloc. */
struct texts {
        char *event;
        size_t event_len;
        char *result; /* NULL: none yet */
        size_t result_len;
};

static void freep(char **text)
{
        free(*text);
}

static void texts_free(void *object)
{
        struct texts *held = object;

        if (held == NULL)
                return;
        free(held->event);
        free(held->result);
        free(held);
}

static void texts_freep(struct texts **held)
{
        texts_free(*held);
}

static int copy_text(struct lessor_slice from, char **ret_copy)
{
        char *copy = malloc(from.n == 0 ? 1 : from.n);

        if (copy == NULL)
                return LESSOR_E_NOMEM;
        if (from.n > 0)
                memcpy(copy, from.p, from.n);
        *ret_copy = copy;
        return 0;
}

static int texts_new(struct lessor_slice event, struct texts **ret_texts)
{
        _cleanup_(texts_freep) struct texts *held = calloc(1, sizeof(*held));

        if (held == NULL || copy_text(event, &held->event) < 0)
                return LESSOR_E_NOMEM;
        held->event_len = event.n;
        *ret_texts = TAKE(held);
        return 0;
}

static struct memory_store *store_of(struct lessor_lease_store *s)
{
        return container_of(s, struct memory_store, base);
}

static void enter(struct memory_store *m)
{
        pthread_mutex_lock(&m->lock);
}

/* Ends an operation: gives the lock back and then tells the listener, which must hear with no lock held. */
static int leave(struct memory_store *m, struct lessor_ticket *ticket, int result)
{
        const struct lessor_lease_listener *l = &m->base.listener;
        struct lease_engine_event event;

        while (lease_engine_change_drop(m->engine))
                ;
        while (lease_engine_event_take(m->engine, &event)) {
                if (l->happened != NULL) {
                        pthread_mutex_unlock(&m->lock);
                        l->happened(l->context, &event.event);
                        pthread_mutex_lock(&m->lock);
                }
                lease_engine_event_done(m->engine, &event);
        }
        pthread_mutex_unlock(&m->lock);
        if (ticket != NULL)
                ticket->seq = 0;
        return result;
}

/* Adds the long texts that were asked for. */
static int fill(const struct lease *lease, unsigned parts, struct lessor_arena *arena,
                struct lessor_lease *ret_lease)
{
        const struct texts *held = lease_attachment(lease);
        int r = 0;

        if ((parts & LESSOR_WITH_EVENT) != 0) {
                r = lessor_arena_copy(arena, (struct lessor_slice){held->event, held->event_len},
                                      &ret_lease->event);
                ret_lease->has_event = r == 0;
        }
        if (r == 0 && (parts & LESSOR_WITH_RESULT) != 0 && held->result != NULL)
                r = lessor_arena_copy(arena, (struct lessor_slice){held->result, held->result_len},
                                      &ret_lease->result);
        return r;
}

static int render(struct memory_store *m, const struct lease *lease, unsigned parts,
                  struct lessor_arena *arena, struct lessor_lease *ret_lease)
{
        int r = lease_render(m->engine, lease, clock_now_ms(m->clock), arena, ret_lease);

        return r < 0 ? r : fill(lease, parts, arena, ret_lease);
}

/* --- the operations --- */

static int memory_create(struct lessor_lease_store *s, const struct lessor_lease_submission *submission,
                         struct lessor_arena *arena, struct lessor_lease *ret_lease, bool *ret_created,
                         struct lessor_ticket *ticket)
{
        struct memory_store *m = store_of(s);
        _cleanup_(texts_freep) struct texts *held = NULL;
        char uuid[UUID_TEXT_LEN + 1];
        int64_t now_ms;
        bool created = false;
        struct lease *lease;
        int r;

        r = texts_new(submission->event, &held);
        if (r < 0)
                return r;
        enter(m);
        now_ms = clock_now_ms(m->clock);
        uuid_v7(now_ms, uuid);
        r = lease_engine_create(m->engine, submission, now_ms, (struct lessor_slice){uuid, UUID_TEXT_LEN},
                                true, arena, &lease, ret_lease, &created);
        if (r == 0 && created)
                lease_attach(lease, TAKE(held));
        if (r == 0 && ret_created != NULL)
                *ret_created = created;
        return leave(m, ticket, r);
}

static int memory_get(struct lessor_lease_store *s, const struct lessor_lease_name *name, unsigned parts,
                      struct lessor_arena *arena, struct lessor_lease *ret_lease,
                      struct lessor_ticket *ticket)
{
        struct memory_store *m = store_of(s);
        struct lease *lease;
        int r = LESSOR_E_NOT_FOUND;

        enter(m);
        lease = lease_engine_find_lease(m->engine, name);
        if (lease != NULL)
                r = render(m, lease, parts, arena, ret_lease);
        return leave(m, ticket, r);
}

static int memory_find(struct lessor_lease_store *s, struct lessor_slice repo, struct lessor_slice task_hash,
                       struct lessor_slice inputs_hash, unsigned parts, struct lessor_arena *arena,
                       struct lessor_lease *ret_lease, struct lessor_ticket *ticket)
{
        struct memory_store *m = store_of(s);
        struct lease *lease;
        int r;

        enter(m);
        r = lease_engine_find_task(m->engine, repo, task_hash, inputs_hash, &lease);
        if (r == 0)
                r = render(m, lease, parts, arena, ret_lease);
        return leave(m, ticket, r);
}

static int memory_list(struct lessor_lease_store *s, const struct lessor_lease_query *query,
                       struct lessor_arena *arena, struct lessor_lease_list *ret_leases,
                       struct lessor_ticket *ticket)
{
        struct memory_store *m = store_of(s);

        enter(m);
        return leave(m, ticket,
                     lease_engine_list(m->engine, query, clock_now_ms(m->clock), arena, ret_leases));
}

static int memory_recent(struct lessor_lease_store *s, struct lessor_slice rack_id, size_t max,
                         struct lessor_arena *arena, struct lessor_lease_list *ret_leases,
                         struct lessor_ticket *ticket)
{
        struct memory_store *m = store_of(s);

        enter(m);
        return leave(m, ticket,
                     lease_engine_recent(m->engine, rack_id, max, clock_now_ms(m->clock), arena, ret_leases));
}

static int memory_attempts(struct lessor_lease_store *s, const struct lessor_lease_name *name,
                           struct lessor_arena *arena, struct lessor_attempt_list *ret_attempts,
                           struct lessor_ticket *ticket)
{
        struct memory_store *m = store_of(s);

        enter(m);
        return leave(m, ticket, lease_engine_attempts(m->engine, name, arena, ret_attempts));
}

static int memory_targets(struct lessor_lease_store *s, const struct lessor_lease_name *name,
                          struct lessor_arena *arena, struct lessor_slice **ret_hashes, size_t *ret_n,
                          struct lessor_ticket *ticket)
{
        struct memory_store *m = store_of(s);

        enter(m);
        return leave(m, ticket, lease_engine_targets(m->engine, name, arena, ret_hashes, ret_n));
}

static int memory_end(struct lessor_lease_store *s, const struct lessor_lease_name *name,
                      enum lessor_lease_ending ending, struct lessor_slice key, struct lessor_slice reason,
                      struct lessor_arena *arena, struct lessor_lease *ret_lease,
                      struct lessor_ticket *ticket)
{
        struct memory_store *m = store_of(s);

        enter(m);
        return leave(m, ticket,
                     lease_engine_end(m->engine, name, ending, key, reason, clock_now_ms(m->clock), arena,
                                      ret_lease));
}

static int memory_cancel_run(struct lessor_lease_store *s, struct lessor_slice run,
                             struct lessor_slice reason, size_t *ret_n, struct lessor_ticket *ticket)
{
        struct memory_store *m = store_of(s);

        enter(m);
        return leave(m, ticket,
                     lease_engine_cancel_run(m->engine, run, reason, clock_now_ms(m->clock), ret_n));
}

static int memory_replay(struct lessor_lease_store *s, const struct lessor_lease_name *name,
                         struct lessor_arena *arena, struct lessor_lease *ret_lease,
                         struct lessor_ticket *ticket)
{
        struct memory_store *m = store_of(s);

        enter(m);
        return leave(m, ticket,
                     lease_engine_replay(m->engine, name, clock_now_ms(m->clock), arena, ret_lease));
}

static int memory_explain(struct lessor_lease_store *s, const struct lessor_lease_name *name,
                          struct lessor_arena *arena, struct lessor_lease_why_list *ret_why,
                          struct lessor_ticket *ticket)
{
        struct memory_store *m = store_of(s);

        enter(m);
        return leave(m, ticket,
                     lease_engine_explain(m->engine, name, clock_now_ms(m->clock), arena, ret_why));
}

static int memory_claim(struct lessor_lease_store *s, const struct lessor_lease_claim *claim,
                        struct lessor_arena *arena, struct lessor_lease_grant *ret_grant,
                        struct lessor_ticket *ticket)
{
        struct memory_store *m = store_of(s);
        char uuid[UUID_TEXT_LEN + 1];
        int64_t now_ms;
        struct lease *lease;
        int r;

        enter(m);
        now_ms = clock_now_ms(m->clock);
        uuid_v7(now_ms, uuid);
        r = lease_engine_claim(m->engine, claim, now_ms, (struct lessor_slice){uuid, UUID_TEXT_LEN}, arena,
                               &lease, ret_grant);
        if (r == 0 && ret_grant->granted) {
                r = fill(lease, LESSOR_WITH_EVENT, arena, &ret_grant->lease);
                if (r < 0) /* nobody has heard of it */
                        lease_engine_undeliver(m->engine, &ret_grant->lease.name,
                                               ret_grant->lease.claim_number, now_ms);
        }
        return leave(m, ticket, r);
}

static int memory_candidates(struct lessor_lease_store *s, const struct lessor_lease_claim *claim, size_t max,
                             struct lessor_arena *arena, struct lessor_lease_list *ret_leases,
                             struct lessor_ticket *ticket)
{
        struct memory_store *m = store_of(s);
        struct lease **leases;
        int r;

        enter(m);
        r = lease_engine_candidates(m->engine, claim, max, clock_now_ms(m->clock), arena, &leases,
                                    ret_leases);
        for (size_t i = 0; r == 0 && i < ret_leases->n; i++)
                r = fill(leases[i], LESSOR_WITH_EVENT, arena, &ret_leases->items[i]);
        return leave(m, ticket, r);
}

static int memory_undeliver(struct lessor_lease_store *s, const struct lessor_lease_name *name,
                            unsigned claim_number, struct lessor_ticket *ticket)
{
        struct memory_store *m = store_of(s);

        enter(m);
        return leave(m, ticket,
                     lease_engine_undeliver(m->engine, name, claim_number, clock_now_ms(m->clock)));
}

static int memory_extend(struct lessor_lease_store *s, const struct lessor_lease_holder *holder,
                         int64_t *ret_deadline_ms, struct lessor_ticket *ticket)
{
        struct memory_store *m = store_of(s);

        enter(m);
        return leave(m, ticket,
                     lease_engine_extend(m->engine, holder, clock_now_ms(m->clock), ret_deadline_ms));
}

static int memory_hold(struct lessor_lease_store *s, const struct lessor_lease_holder *holder, unsigned parts,
                       struct lessor_arena *arena, struct lessor_lease *ret_lease,
                       struct lessor_ticket *ticket)
{
        struct memory_store *m = store_of(s);
        struct lease *lease;
        int r;

        enter(m);
        r = lease_engine_hold(m->engine, holder, clock_now_ms(m->clock), &lease);
        if (r == 0)
                r = render(m, lease, parts, arena, ret_lease);
        return leave(m, ticket, r);
}

static int memory_must_stop(struct lessor_lease_store *s, struct lessor_slice rack_id,
                            const struct lessor_lease_name *names, size_t n_names, struct lessor_arena *arena,
                            struct lessor_index_list *ret_stop, struct lessor_ticket *ticket)
{
        struct memory_store *m = store_of(s);

        enter(m);
        return leave(m, ticket,
                     lease_engine_must_stop(m->engine, rack_id, names, n_names, clock_now_ms(m->clock), arena,
                                            ret_stop));
}

static int memory_complete(struct lessor_lease_store *s, const struct lessor_lease_completion *completion,
                           struct lessor_arena *arena, enum lessor_completed *ret_how,
                           struct lessor_lease *ret_lease, struct lessor_ticket *ticket)
{
        struct memory_store *m = store_of(s);
        _cleanup_(freep) char *result = NULL;
        int64_t now_ms;
        struct lease *lease;
        int r;

        r = copy_text(completion->result, &result);
        if (r < 0)
                return r;
        enter(m);
        now_ms = clock_now_ms(m->clock);
        r = lease_engine_complete(m->engine, completion, now_ms, &lease, ret_how);
        if (r == 0 && *ret_how == LESSOR_COMPLETED_RECORDED) {
                struct texts *held = lease_attachment(lease);

                held->result = TAKE(result);
                held->result_len = completion->result.n;
        }
        if (r == 0 && lease != NULL && ret_lease != NULL)
                r = lease_render(m->engine, lease, now_ms, arena, ret_lease);
        return leave(m, ticket, r);
}

static int memory_sweep(struct lessor_lease_store *s, struct lessor_lease_swept *ret_swept,
                        int64_t *ret_next_ms, struct lessor_ticket *ticket)
{
        struct memory_store *m = store_of(s);

        enter(m);
        lease_engine_sweep(m->engine, clock_now_ms(m->clock), ret_swept);
        if (ret_next_ms != NULL)
                *ret_next_ms = lease_engine_next_due_ms(m->engine);
        return leave(m, ticket, 0);
}

static int memory_stats(struct lessor_lease_store *s, struct lessor_lease_stats *ret_stats)
{
        struct memory_store *m = store_of(s);

        enter(m);
        lease_engine_stats(m->engine, ret_stats);
        return leave(m, NULL, 0);
}

static int memory_now(struct lessor_lease_store *s, int64_t *ret_now_ms)
{
        *ret_now_ms = clock_now_ms(store_of(s)->clock);
        return 0;
}

static int memory_when_durable(struct lessor_lease_store *s, struct lessor_ticket ticket,
                               void (*told)(void *context, int result), void *context)
{
        (void)s, (void)ticket, (void)told, (void)context;
        return 1;
}

static int memory_check(struct lessor_lease_store *s)
{
        (void)s;
        return 0;
}

static int memory_backup(struct lessor_lease_store *s, const char *path)
{
        (void)s, (void)path;
        return LESSOR_E_INVALID;
}

static int memory_rack_mint_enrolment(struct lessor_lease_store *s, struct lessor_slice token_hash,
                                      struct lessor_slice label, int64_t ttl_ms, int64_t *ret_expires_ms,
                                      struct lessor_ticket *ticket)
{
        struct memory_store *m = store_of(s);

        enter(m);
        return leave(m, ticket,
                     lease_engine_mint_enrolment(m->engine, token_hash, label, ttl_ms, clock_now_ms(m->clock),
                                                 ret_expires_ms));
}

static int memory_rack_enrolments(struct lessor_lease_store *s, struct lessor_arena *arena,
                                  struct lessor_enrolment_list *ret_enrolments, struct lessor_ticket *ticket)
{
        struct memory_store *m = store_of(s);

        enter(m);
        return leave(m, ticket,
                     lease_engine_enrolments(m->engine, clock_now_ms(m->clock), arena, ret_enrolments));
}

static int memory_rack_revoke_enrolment(struct lessor_lease_store *s, struct lessor_slice token_hash,
                                        struct lessor_ticket *ticket)
{
        struct memory_store *m = store_of(s);

        enter(m);
        return leave(m, ticket, lease_engine_revoke_enrolment(m->engine, token_hash, clock_now_ms(m->clock)));
}

static int memory_rack_enroll(struct lessor_lease_store *s, struct lessor_slice enrolment_hash,
                              const struct lessor_host_info *host, struct lessor_slice rack_token_hash,
                              struct lessor_arena *arena, struct lessor_rack *ret_rack,
                              struct lessor_ticket *ticket)
{
        struct memory_store *m = store_of(s);
        char uuid[UUID_TEXT_LEN + 1];
        int64_t now_ms;
        int r;

        enter(m);
        now_ms = clock_now_ms(m->clock);
        uuid_v7(now_ms, uuid);
        r = lease_engine_enroll(m->engine, enrolment_hash, host, (struct lessor_slice){uuid, UUID_TEXT_LEN},
                                rack_token_hash, now_ms, arena, ret_rack);
        return leave(m, ticket, r);
}

static int memory_rack_authenticate(struct lessor_lease_store *s, struct lessor_slice token_hash,
                                    struct lessor_arena *arena, struct lessor_rack_caller *ret_caller,
                                    struct lessor_ticket *ticket)
{
        struct memory_store *m = store_of(s);

        enter(m);
        return leave(
                m, ticket,
                lease_engine_authenticate(m->engine, token_hash, clock_now_ms(m->clock), arena, ret_caller));
}

static int memory_rack_poll(struct lessor_lease_store *s, struct lessor_slice rack_id,
                            const struct lessor_slice *tiers, size_t n_tiers, struct lessor_ticket *ticket)
{
        struct memory_store *m = store_of(s);

        enter(m);
        return leave(m, ticket,
                     lease_engine_poll(m->engine, rack_id, tiers, n_tiers, clock_now_ms(m->clock)));
}

static int memory_rack_heartbeat(struct lessor_lease_store *s, const struct lessor_rack_beat *beat,
                                 struct lessor_arena *arena, struct lessor_rack_beaten *ret_beaten,
                                 struct lessor_ticket *ticket)
{
        struct memory_store *m = store_of(s);

        enter(m);
        return leave(m, ticket,
                     lease_engine_heartbeat(m->engine, beat, clock_now_ms(m->clock), arena, ret_beaten));
}

static int memory_rack_get(struct lessor_lease_store *s, struct lessor_slice rack_id,
                           struct lessor_arena *arena, struct lessor_rack *ret_rack,
                           struct lessor_ticket *ticket)
{
        struct memory_store *m = store_of(s);

        enter(m);
        return leave(m, ticket,
                     lease_engine_rack(m->engine, rack_id, clock_now_ms(m->clock), arena, ret_rack));
}

static int memory_rack_list(struct lessor_lease_store *s, struct lessor_arena *arena,
                            struct lessor_rack_list *ret_racks, struct lessor_ticket *ticket)
{
        struct memory_store *m = store_of(s);

        enter(m);
        return leave(m, ticket, lease_engine_racks(m->engine, clock_now_ms(m->clock), arena, ret_racks));
}

static int memory_rack_approve(struct lessor_lease_store *s, struct lessor_slice rack_id,
                               struct lessor_slice boot_id, struct lessor_ticket *ticket)
{
        struct memory_store *m = store_of(s);

        enter(m);
        return leave(m, ticket, lease_engine_approve(m->engine, rack_id, boot_id));
}

static int memory_rack_drain(struct lessor_lease_store *s, struct lessor_slice rack_id, bool draining,
                             struct lessor_ticket *ticket)
{
        struct memory_store *m = store_of(s);

        enter(m);
        return leave(m, ticket, lease_engine_drain(m->engine, rack_id, draining));
}

static int memory_rack_deregister(struct lessor_lease_store *s, struct lessor_slice rack_id,
                                  size_t *ret_n_leases, struct lessor_ticket *ticket)
{
        struct memory_store *m = store_of(s);

        enter(m);
        return leave(m, ticket,
                     lease_engine_deregister(m->engine, rack_id, clock_now_ms(m->clock), ret_n_leases));
}

static int memory_rack_policy(struct lessor_lease_store *s, bool *ret_require_start_approval,
                              struct lessor_ticket *ticket)
{
        struct memory_store *m = store_of(s);

        enter(m);
        *ret_require_start_approval = lease_engine_policy(m->engine);
        return leave(m, ticket, 0);
}

static int memory_rack_set_policy(struct lessor_lease_store *s, bool require_start_approval,
                                  struct lessor_ticket *ticket)
{
        struct memory_store *m = store_of(s);

        enter(m);
        lease_engine_set_policy(m->engine, require_start_approval);
        return leave(m, ticket, 0);
}

static int memory_environment_publish(struct lessor_lease_store *s,
                                      const struct lessor_environment *environment,
                                      struct lessor_ticket *ticket)
{
        struct memory_store *m = store_of(s);

        enter(m);
        return leave(m, ticket, lease_engine_publish(m->engine, environment, clock_now_ms(m->clock)));
}

static int memory_environment_resolve(struct lessor_lease_store *s, struct lessor_slice env_hash,
                                      struct lessor_slice e3_version, struct lessor_arena *arena,
                                      struct lessor_environment *ret_environment,
                                      struct lessor_ticket *ticket)
{
        struct memory_store *m = store_of(s);

        enter(m);
        return leave(m, ticket,
                     lease_engine_resolve(m->engine, env_hash, e3_version, arena, ret_environment));
}

static int memory_environment_list(struct lessor_lease_store *s, struct lessor_arena *arena,
                                   struct lessor_environment_list *ret_environments,
                                   struct lessor_ticket *ticket)
{
        struct memory_store *m = store_of(s);

        enter(m);
        return leave(m, ticket, lease_engine_environments(m->engine, arena, ret_environments));
}

static int memory_environment_remove(struct lessor_lease_store *s, struct lessor_slice env_hash,
                                     struct lessor_slice e3_version, struct lessor_ticket *ticket)
{
        struct memory_store *m = store_of(s);

        enter(m);
        return leave(m, ticket, lease_engine_unpublish(m->engine, env_hash, e3_version));
}

static int memory_transfer(struct lessor_lease_store *s, const struct lessor_transfer_request *request,
                           struct lessor_arena *arena, struct lessor_transfer_answer *ret_answer,
                           struct lessor_ticket *ticket)
{
        struct memory_store *m = store_of(s);
        unsigned char seed[LEASE_ENGINE_SEED_BYTES];
        int r;

        randombytes_buf(seed, sizeof(seed));
        enter(m);
        r = lease_engine_transfer(m->engine, request, clock_now_ms(m->clock), seed, arena, ret_answer);
        sodium_memzero(seed, sizeof(seed));
        return leave(m, ticket, r);
}

static int memory_capability_open(struct lessor_lease_store *s, struct lessor_slice id, bool write,
                                  struct lessor_arena *arena, struct lessor_capability *ret_capability,
                                  struct lessor_ticket *ticket)
{
        struct memory_store *m = store_of(s);

        enter(m);
        return leave(m, ticket,
                     lease_engine_open(m->engine, id, write, clock_now_ms(m->clock), arena, ret_capability));
}

static int memory_capability_stored(struct lessor_lease_store *s, struct lessor_slice id,
                                    struct lessor_slice receipt, struct lessor_arena *arena,
                                    struct lessor_slice *ret_receipt, struct lessor_ticket *ticket)
{
        struct memory_store *m = store_of(s);

        enter(m);
        return leave(m, ticket,
                     lease_engine_stored(m->engine, id, receipt, clock_now_ms(m->clock), arena, ret_receipt));
}

static int memory_staged(struct lessor_lease_store *s, const struct lessor_lease_holder *holder,
                         struct lessor_slice upload_id, struct lessor_arena *arena,
                         struct lessor_capability *ret_capability, struct lessor_ticket *ticket)
{
        struct memory_store *m = store_of(s);

        enter(m);
        return leave(m, ticket,
                     lease_engine_staged(m->engine, holder, upload_id, clock_now_ms(m->clock), arena,
                                         ret_capability));
}

static int memory_capability_wants(struct lessor_lease_store *s, struct lessor_slice receipt, bool *ret_wants,
                                   struct lessor_ticket *ticket)
{
        struct memory_store *m = store_of(s);

        enter(m);
        *ret_wants = lease_engine_wants(m->engine, receipt);
        return leave(m, ticket, 0);
}

static struct lessor_lease_store *memory_free(struct lessor_lease_store *s)
{
        struct memory_store *m = store_of(s);

        lease_engine_free(m->engine);
        pthread_mutex_destroy(&m->lock);
        free(m);
        return NULL;
}

static const struct lessor_lease_store_ops memory_ops = {
        .create = memory_create,
        .get = memory_get,
        .find = memory_find,
        .list = memory_list,
        .recent = memory_recent,
        .attempts = memory_attempts,
        .targets = memory_targets,
        .end = memory_end,
        .cancel_run = memory_cancel_run,
        .replay = memory_replay,
        .explain = memory_explain,
        .claim = memory_claim,
        .candidates = memory_candidates,
        .undeliver = memory_undeliver,
        .extend = memory_extend,
        .hold = memory_hold,
        .must_stop = memory_must_stop,
        .complete = memory_complete,
        .sweep = memory_sweep,
        .stats = memory_stats,
        .now = memory_now,
        .when_durable = memory_when_durable,
        .check = memory_check,
        .backup = memory_backup,
        .rack_mint_enrolment = memory_rack_mint_enrolment,
        .rack_enrolments = memory_rack_enrolments,
        .rack_revoke_enrolment = memory_rack_revoke_enrolment,
        .rack_enroll = memory_rack_enroll,
        .rack_authenticate = memory_rack_authenticate,
        .rack_poll = memory_rack_poll,
        .rack_heartbeat = memory_rack_heartbeat,
        .rack_get = memory_rack_get,
        .rack_list = memory_rack_list,
        .rack_approve = memory_rack_approve,
        .rack_drain = memory_rack_drain,
        .rack_deregister = memory_rack_deregister,
        .rack_policy = memory_rack_policy,
        .rack_set_policy = memory_rack_set_policy,
        .environment_publish = memory_environment_publish,
        .environment_resolve = memory_environment_resolve,
        .environment_list = memory_environment_list,
        .environment_remove = memory_environment_remove,
        .transfer = memory_transfer,
        .capability_open = memory_capability_open,
        .capability_stored = memory_capability_stored,
        .staged = memory_staged,
        .capability_wants = memory_capability_wants,
        .free = memory_free,
};

int lease_memory_store_new(const struct lessor_lease_options *options, struct clock *clock,
                           const struct lessor_lease_listener *listener,
                           struct lessor_lease_store **ret_store)
{
        static const struct lessor_lease_options usual = LESSOR_LEASE_OPTIONS;
        unsigned char hash_key[LEASE_ENGINE_HASH_KEY_BYTES];
        struct memory_store *m = calloc(1, sizeof(*m));
        int r;

        if (m == NULL)
                return LESSOR_E_NOMEM;
        randombytes_buf(hash_key, sizeof(hash_key));
        r = lease_engine_new(options == NULL ? &usual : options, hash_key, texts_free, &m->engine);
        if (r < 0) {
                free(m);
                return r;
        }
        pthread_mutex_init(&m->lock, NULL);
        m->base.ops = &memory_ops;
        if (listener != NULL)
                m->base.listener = *listener;
        m->clock = clock;
        *ret_store = &m->base;
        return 0;
}
