/* SPDX-License-Identifier: MIT */
#include "leasing/memory.h"

#include <pthread.h>
#include <sodium.h>
#include <stdlib.h>

#include "base/macro.h"
#include "base/uuid.h"
#include "leasing/engine_store.h"

struct memory_store {
        struct engine_store store;
        pthread_mutex_t lock; /* guards the engine and all that hangs on its leases */
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
        return container_of(s, struct memory_store, store.base);
}

static int memory_enter(struct engine_store *s)
{
        pthread_mutex_lock(&container_of(s, struct memory_store, store)->lock);
        return 0;
}

/* Ends an operation: gives the lock back and then tells the listener, which must hear with no lock held. */
static int memory_leave(struct engine_store *s, struct lessor_ticket *ticket, int result)
{
        struct memory_store *m = container_of(s, struct memory_store, store);
        const struct lessor_lease_listener *l = &m->store.base.listener;
        struct lease_engine_event event;

        while (lease_engine_change_drop(m->store.engine))
                ;
        while (lease_engine_event_take(m->store.engine, &event)) {
                if (l->happened != NULL) {
                        pthread_mutex_unlock(&m->lock);
                        l->happened(l->context, &event.event);
                        pthread_mutex_lock(&m->lock);
                }
                lease_engine_event_done(m->store.engine, &event);
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
        int r = lease_render(m->store.engine, lease, clock_now_ms(m->store.clock), arena, ret_lease);

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
        (void)memory_enter(&m->store);
        now_ms = clock_now_ms(m->store.clock);
        uuid_v7(now_ms, uuid);
        r = lease_engine_create(m->store.engine, submission, now_ms,
                                (struct lessor_slice){uuid, UUID_TEXT_LEN}, true, arena, &lease, ret_lease,
                                &created);
        if (r == 0 && created)
                lease_attach(lease, TAKE(held));
        if (r == 0 && ret_created != NULL)
                *ret_created = created;
        return memory_leave(&m->store, ticket, r);
}

static int memory_get(struct lessor_lease_store *s, const struct lessor_lease_name *name, unsigned parts,
                      struct lessor_arena *arena, struct lessor_lease *ret_lease,
                      struct lessor_ticket *ticket)
{
        struct memory_store *m = store_of(s);
        struct lease *lease;
        int r = LESSOR_E_NOT_FOUND;

        (void)memory_enter(&m->store);
        lease = lease_engine_find_lease(m->store.engine, name);
        if (lease != NULL)
                r = render(m, lease, parts, arena, ret_lease);
        return memory_leave(&m->store, ticket, r);
}

static int memory_find(struct lessor_lease_store *s, struct lessor_slice repo, struct lessor_slice task_hash,
                       struct lessor_slice inputs_hash, unsigned parts, struct lessor_arena *arena,
                       struct lessor_lease *ret_lease, struct lessor_ticket *ticket)
{
        struct memory_store *m = store_of(s);
        struct lease *lease;
        int r;

        (void)memory_enter(&m->store);
        r = lease_engine_find_task(m->store.engine, repo, task_hash, inputs_hash, &lease);
        if (r == 0)
                r = render(m, lease, parts, arena, ret_lease);
        return memory_leave(&m->store, ticket, r);
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

        (void)memory_enter(&m->store);
        now_ms = clock_now_ms(m->store.clock);
        uuid_v7(now_ms, uuid);
        r = lease_engine_claim(m->store.engine, claim, now_ms, (struct lessor_slice){uuid, UUID_TEXT_LEN},
                               arena, &lease, ret_grant);
        if (r == 0 && ret_grant->granted) {
                r = fill(lease, LESSOR_WITH_EVENT, arena, &ret_grant->lease);
                if (r < 0) /* nobody has heard of it */
                        lease_engine_undeliver(m->store.engine, &ret_grant->lease.name,
                                               ret_grant->lease.claim_number, now_ms);
        }
        return memory_leave(&m->store, ticket, r);
}

static int memory_candidates(struct lessor_lease_store *s, const struct lessor_lease_claim *claim, size_t max,
                             struct lessor_arena *arena, struct lessor_lease_list *ret_leases,
                             struct lessor_ticket *ticket)
{
        struct memory_store *m = store_of(s);
        struct lease **leases;
        int r;

        (void)memory_enter(&m->store);
        r = lease_engine_candidates(m->store.engine, claim, max, clock_now_ms(m->store.clock), arena, &leases,
                                    ret_leases);
        for (size_t i = 0; r == 0 && i < ret_leases->n; i++)
                r = fill(leases[i], LESSOR_WITH_EVENT, arena, &ret_leases->items[i]);
        return memory_leave(&m->store, ticket, r);
}

static int memory_hold(struct lessor_lease_store *s, const struct lessor_lease_holder *holder, unsigned parts,
                       struct lessor_arena *arena, struct lessor_lease *ret_lease,
                       struct lessor_ticket *ticket)
{
        struct memory_store *m = store_of(s);
        struct lease *lease;
        int r;

        (void)memory_enter(&m->store);
        r = lease_engine_hold(m->store.engine, holder, clock_now_ms(m->store.clock), &lease);
        if (r == 0)
                r = render(m, lease, parts, arena, ret_lease);
        return memory_leave(&m->store, ticket, r);
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
        (void)memory_enter(&m->store);
        now_ms = clock_now_ms(m->store.clock);
        r = lease_engine_complete(m->store.engine, completion, now_ms, &lease, ret_how);
        if (r == 0 && *ret_how == LESSOR_COMPLETED_RECORDED) {
                struct texts *held = lease_attachment(lease);

                held->result = TAKE(result);
                held->result_len = completion->result.n;
        }
        if (r == 0 && lease != NULL && ret_lease != NULL)
                r = lease_render(m->store.engine, lease, now_ms, arena, ret_lease);
        return memory_leave(&m->store, ticket, r);
}

static int memory_stats(struct lessor_lease_store *s, struct lessor_lease_stats *ret_stats)
{
        struct memory_store *m = store_of(s);

        (void)memory_enter(&m->store);
        lease_engine_stats(m->store.engine, ret_stats);
        return memory_leave(&m->store, NULL, 0);
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

static struct lessor_lease_store *memory_free(struct lessor_lease_store *s)
{
        struct memory_store *m = store_of(s);

        lease_engine_free(m->store.engine);
        pthread_mutex_destroy(&m->lock);
        free(m);
        return NULL;
}

static const struct lessor_lease_store_ops memory_ops = {
        ENGINE_STORE_OPS,      .create = memory_create,
        .get = memory_get,     .find = memory_find,
        .claim = memory_claim, .candidates = memory_candidates,
        .hold = memory_hold,   .complete = memory_complete,
        .stats = memory_stats, .when_durable = memory_when_durable,
        .check = memory_check, .backup = memory_backup,
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
        r = lease_engine_new(options == NULL ? &usual : options, hash_key, texts_free, &m->store.engine);
        if (r < 0) {
                free(m);
                return r;
        }
        pthread_mutex_init(&m->lock, NULL);
        m->store.base.ops = &memory_ops;
        m->store.enter = memory_enter;
        m->store.leave = memory_leave;
        if (listener != NULL)
                m->store.base.listener = *listener;
        m->store.clock = clock;
        *ret_store = &m->store.base;
        return 0;
}
