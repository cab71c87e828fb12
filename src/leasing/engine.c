/* SPDX-License-Identifier: MIT */
/* The engine as a whole, and leases from the host's side. */
#include "leasing/engine.h"

#include <stdlib.h>

#include "leasing/engine_internal.h"

static bool options_are_sound(const struct lessor_lease_options *o)
{
        const int64_t spans[] = {o->visibility_ms, o->healthy_ms,    o->rotation_ms, o->reoffer_ms,
                                 o->grace_ms,      o->capability_ms, o->retention_ms};

        for (size_t i = 0; i < ARRAY_SIZE(spans); i++)
                if (spans[i] <= 0)
                        return false;
        return o->rack_expiry_ms >= 0 && o->max_open > 0 && o->max_capabilities > 0;
}

static int tables_init(struct lease_engine *e, const unsigned char *hash_key)
{
        struct table *const tables[] = {
                &e->words,        &e->leases,       &e->tasks,    &e->runs,     &e->keys,   &e->targets,
                &e->scopes,       &e->groups,       &e->lanes,    &e->racks,    &e->tokens, &e->enrolments,
                &e->environments, &e->capabilities, &e->bindings, &e->receipts,
        };

        for (size_t i = 0; i < ARRAY_SIZE(tables); i++) {
                if (table_init(tables[i], hash_key) == 0)
                        continue;
                while (i-- > 0)
                        table_done(tables[i]);
                return LESSOR_E_NOMEM;
        }
        return 0;
}

int lease_engine_new(const struct lessor_lease_options *options,
                     const unsigned char hash_key[LEASE_ENGINE_HASH_KEY_BYTES],
                     void (*free_attachment)(void *attachment), struct lease_engine **ret_engine)
{
        struct lease_engine *e;

        if (!options_are_sound(options))
                return LESSOR_E_INVALID;
        e = calloc(1, sizeof(*e));
        if (e == NULL)
                return LESSOR_E_NOMEM;
        if (tables_init(e, hash_key) < 0) {
                free(e);
                return LESSOR_E_NOMEM;
        }
        e->options = *options;
        e->salt = table_hash(&e->words, LESSOR_SLICE("ranks"));
        for (size_t i = 0; i < LESSOR_N_LEASE_STATUSES; i++)
                e->by_status[i].cmp = lease_by_status;
        e->all_racks.cmp = rack_by_order;
        e->all_environments.cmp = environment_by_order;
        e->next_seq = e->next_rack = e->next_environment = e->next_timer = 1;
        e->policy_change.kind = e->policy_event.kind = RECORD_POLICY;
        e->turn_change.kind = RECORD_TURN;
        e->events_end = &e->events;
        e->free_attachment = free_attachment;
        *ret_engine = e;
        return 0;
}

/* Leaves nothing for a store to hear: drops what there is. */
static void drop_all(struct lease_engine *e)
{
        struct lease_engine_event event;

        while (lease_engine_event_take(e, &event))
                lease_engine_event_done(e, &event);
        while (lease_engine_change_drop(e))
                ;
}

struct lease_engine *lease_engine_free(struct lease_engine *e)
{
        struct sorted_node *n;
        struct timer *t;

        if (e == NULL)
                return NULL;
        for (size_t i = 0; i < LESSOR_N_LEASE_STATUSES; i++) {
                while ((n = sorted_first(&e->by_status[i])) != NULL) {
                        lease_remove(e, container_of(n, struct lease, status_node));
                        drop_all(e);
                }
        }
        while ((n = sorted_first(&e->all_racks)) != NULL) {
                rack_deregister(e, container_of(n, struct rack, order_node), 0);
                drop_all(e);
        }
        while ((n = sorted_first(&e->all_environments)) != NULL) {
                const struct environment *env = container_of(n, struct environment, order_node);

                lease_engine_unpublish(e, env->env_hash, env->e3_version);
                drop_all(e);
        }
        while ((t = timer_first(&e->enrolment_ends)) != NULL)
                enrolment_remove(e, container_of(t, struct enrolment, expiry));
        drop_all(e);
        word_unref(e, e->turn);

        struct table *const tables[] = {
                &e->words,        &e->leases,       &e->tasks,    &e->runs,     &e->keys,   &e->targets,
                &e->scopes,       &e->groups,       &e->lanes,    &e->racks,    &e->tokens, &e->enrolments,
                &e->environments, &e->capabilities, &e->bindings, &e->receipts,
        };
        for (size_t i = 0; i < ARRAY_SIZE(tables); i++)
                table_done(tables[i]);

        struct timer_heap *const heaps[] = {&e->lapses,    &e->ends,           &e->ttls,           &e->graces,
                                            &e->rack_ends, &e->enrolment_ends, &e->capability_ends};
        for (size_t i = 0; i < ARRAY_SIZE(heaps); i++)
                timer_heap_done(heaps[i]);
        free(e);
        return NULL;
}

struct lease *lease_engine_find_lease(const struct lease_engine *e, const struct lessor_lease_name *name)
{
        uint64_t hash = table_hash_pair(&e->leases, name->repo, name->lease_id);

        for (struct table_node *n = table_first(&e->leases, hash); n != NULL; n = table_next(n)) {
                struct lease *lease = container_of(n, struct lease, node);

                if (lessor_slice_equal(lease->id, name->lease_id) &&
                    lessor_slice_equal(lease->repo->text, name->repo))
                        return lease;
        }
        return NULL;
}

/* --- creating --- */

static bool has_hash_sign(struct lessor_slice text)
{
        return text.n > 0 && memchr(text.p, '#', text.n) != NULL;
}

static bool submission_is_sound(const struct lessor_lease_submission *from)
{
        /* "@rack" is the fence of registrations (section 9). */
        return !lessor_slice_equal(from->repo, LESSOR_SLICE("@rack")) && from->ttl_ms >= 0 &&
               (!from->share || from->key.p != NULL) && !has_hash_sign(from->task_hash) &&
               !has_hash_sign(from->inputs_hash) && from->task_hash.n <= UINT32_MAX &&
               from->mode <= LESSOR_LEASE_FUNCTION;
}

/* Whether a lease is of the submission's task. */
static bool is_same_work(const struct lease *lease, const struct lessor_lease_submission *from)
{
        struct lessor_slice task = {lease->id.p, lease->task_len};
        struct lessor_slice inputs = {lease->id.p + lease->task_len + 1,
                                      lease->task->prefix.n - lease->task_len - 1};

        return lessor_slice_equal(lease->repo->text, from->repo) &&
               lessor_slice_equal(task, from->task_hash) && lessor_slice_equal(inputs, from->inputs_hash);
}

static struct task *task_of(const struct lease_engine *e, struct lessor_slice repo,
                            struct lessor_slice task_hash, struct lessor_slice inputs_hash)
{
        char on_stack[256];
        size_t n = task_hash.n + inputs_hash.n + 1;
        char *prefix = on_stack;
        struct task *t;

        if (n < task_hash.n)
                return NULL;
        if (n > sizeof(on_stack)) {
                prefix = malloc(n);
                if (prefix == NULL)
                        return NULL;
        }
        if (task_hash.n > 0)
                memcpy(prefix, task_hash.p, task_hash.n);
        prefix[task_hash.n] = '#';
        if (inputs_hash.n > 0)
                memcpy(prefix + task_hash.n + 1, inputs_hash.p, inputs_hash.n);
        t = task_find(e, repo, (struct lessor_slice){prefix, n});
        if (prefix != on_stack)
                free(prefix);
        return t;
}

static bool is_same_floor(const struct lease *lease, struct lessor_slice floor)
{
        const struct word *w = lease->lane->floor;

        return w == NULL || floor.p == NULL ? w == NULL && floor.p == NULL
                                            : lessor_slice_equal(w->text, floor);
}

/* The lease whose work a submission may share: of the same task and floor, and not ended. */
static struct lease *shared_lease(const struct lease_engine *e, const struct lessor_lease_submission *from)
{
        const struct task *t =
                from->share ? task_of(e, from->repo, from->task_hash, from->inputs_hash) : NULL;

        if (t == NULL)
                return NULL;
        for (struct sorted_node *n = sorted_last(&t->leases); n != NULL; n = sorted_previous(&t->leases, n)) {
                struct lease *lease = container_of(n, struct lease, task_node);

                /* One without a key has a subscriber that can never leave: it is not for sharing. */
                if (lease_is_open(lease) && lease->keys != NULL && is_same_floor(lease, from->floor) &&
                    lessor_slice_equal(lease->owner->text, from->owner))
                        return lease;
        }
        return NULL;
}

static void keep_key(struct lease_engine *e, struct lease *lease, struct key *key)
{
        if (key == NULL)
                return;
        key_install(e, lease, key);
        note_change(e, &key->change);
}

/* The key's own lease; a subscriber that asks again has not left. */
static int take_up(struct lease_engine *e, struct key *key, const struct lessor_lease_submission *from,
                   int64_t now_ms, struct lessor_arena *arena, struct lease **ret_handle,
                   struct lessor_lease *ret_lease)
{
        int r;

        if (!is_same_work(key->lease, from))
                return LESSOR_E_EXISTS;
        r = lease_render(e, key->lease, now_ms, arena, ret_lease);
        if (r < 0)
                return r;
        if (key->left && lease_is_open(key->lease)) {
                key->left = false;
                note_change(e, &key->change);
        }
        *ret_handle = key->lease;
        return 0;
}

static int add_new(struct lease_engine *e, const struct lessor_lease_submission *from, int64_t now_ms,
                   struct lessor_slice uuid, struct key *key, struct lessor_arena *arena,
                   struct lease **ret_handle, struct lessor_lease *ret_lease)
{
        struct lease *lease;
        int r;

        if (e->n_by_status[LESSOR_LEASE_PENDING] + e->n_by_status[LESSOR_LEASE_CLAIMED] >=
            e->options.max_open)
                return LESSOR_E_FULL;
        r = lease_reserve(e);
        if (r < 0)
                return r;
        r = lease_new(e, from, uuid, &lease);
        if (r < 0)
                return r;
        lease->seq = e->next_seq;
        lease->created_ms = now_ms;
        lease->expires_ms = from->ttl_ms == 0 ? 0 : time_later(now_ms, from->ttl_ms);
        r = lease_engine_find_lease(e, &(struct lessor_lease_name){from->repo, lease->id}) != NULL
                    ? LESSOR_E_EXISTS
                    : lease_render(e, lease, now_ms, arena, ret_lease);
        if (r < 0) {
                lease_free(e, lease);
                return r;
        }
        e->next_seq++;
        lease_install(e, lease);
        lease->is_new = true;
        note_change(e, &lease->change);
        if (lease->queued)
                note_event(e, &lease->event, LESSOR_EVENT_CLAIMABLE);
        keep_key(e, lease, key);
        *ret_handle = lease;
        return 0;
}

int lease_engine_create(struct lease_engine *e, const struct lessor_lease_submission *submission,
                        int64_t now_ms, struct lessor_slice lease_uuid, bool accept_new,
                        struct lessor_arena *arena, struct lease **ret_handle, struct lessor_lease *ret_lease,
                        bool *ret_created)
{
        struct key *key = NULL;
        struct lease *lease;
        int r;

        if (!submission_is_sound(submission))
                return LESSOR_E_INVALID;
        settle(e, now_ms);
        if (submission->key.p != NULL) {
                key = key_find(e, submission->owner, submission->key);
                if (key != NULL) {
                        *ret_created = false;
                        return take_up(e, key, submission, now_ms, arena, ret_handle, ret_lease);
                }
                key = key_new(submission->key);
                if (key == NULL)
                        return LESSOR_E_NOMEM;
        }
        lease = shared_lease(e, submission);
        if (lease != NULL) {
                r = lease_render(e, lease, now_ms, arena, ret_lease);
                if (r == 0) {
                        keep_key(e, lease, key);
                        *ret_handle = lease;
                }
        } else {
                r = accept_new ? add_new(e, submission, now_ms, lease_uuid, key, arena, ret_handle, ret_lease)
                               : LESSOR_E_LOW_SPACE;
        }
        if (r < 0) {
                free(key);
                return r;
        }
        *ret_created = lease == NULL;
        return 0;
}

/* --- looking --- */

int lease_engine_find_task(struct lease_engine *e, struct lessor_slice repo, struct lessor_slice task_hash,
                           struct lessor_slice inputs_hash, struct lease **ret_handle)
{
        const struct task *t = task_of(e, repo, task_hash, inputs_hash);

        if (t == NULL)
                return LESSOR_E_NOT_FOUND;
        for (struct sorted_node *n = sorted_last(&t->leases); n != NULL; n = sorted_previous(&t->leases, n)) {
                struct lease *lease = container_of(n, struct lease, task_node);

                if (lease_is_open(lease) || lease->status == LESSOR_LEASE_COMPLETED) {
                        *ret_handle = lease;
                        return 0;
                }
        }
        return LESSOR_E_NOT_FOUND;
}

static bool status_is_behind(const struct sorted_node *n, const void *after)
{
        return container_of(n, struct lease, status_node)->seq > *(const uint64_t *)after;
}

static bool run_is_behind(const struct sorted_node *n, const void *after)
{
        return container_of(n, struct lease, run_node)->seq > *(const uint64_t *)after;
}

static bool claimed_is_behind(const struct sorted_node *n, const void *after)
{
        return container_of(n, struct lease, claimed_node)->seq > *(const uint64_t *)after;
}

/* The next lease with a seq above `after` in the narrowest index that the query names. */
static struct lease *next_listed(const struct lease_engine *e, const struct lessor_lease_query *q,
                                 const struct rack *rack, const struct run *run, uint64_t after)
{
        struct lease *best = NULL;
        struct sorted_node *n;

        if (q->rack_id.p != NULL) {
                n = rack == NULL ? NULL : sorted_behind(&rack->claimed, &after, claimed_is_behind);
                return n == NULL ? NULL : container_of(n, struct lease, claimed_node);
        }
        if (q->run.p != NULL) {
                n = run == NULL ? NULL : sorted_behind(&run->leases, &after, run_is_behind);
                return n == NULL ? NULL : container_of(n, struct lease, run_node);
        }
        for (unsigned i = 0; i < LESSOR_N_LEASE_STATUSES; i++) {
                struct lease *lease;

                if (q->statuses != 0 && (q->statuses & 1u << i) == 0)
                        continue;
                n = sorted_behind(&e->by_status[i], &after, status_is_behind);
                lease = n == NULL ? NULL : container_of(n, struct lease, status_node);
                if (lease != NULL && (best == NULL || lease->seq < best->seq))
                        best = lease;
        }
        return best;
}

static bool is_listed(const struct lease *lease, const struct lessor_lease_query *q, const struct run *run)
{
        return (q->statuses == 0 || (q->statuses & 1u << lease->status) != 0) &&
               (q->run.p == NULL || lease->run == run);
}

int lease_engine_list(struct lease_engine *e, const struct lessor_lease_query *query, int64_t now_ms,
                      struct lessor_arena *arena, struct lessor_lease_list *ret_leases)
{
        const struct rack *rack = query->rack_id.p == NULL ? NULL : rack_find(e, query->rack_id);
        const struct run *run = query->run.p == NULL ? NULL : run_find(e, query->run);
        size_t cap = query->max < e->n_leases ? query->max : e->n_leases;
        struct lease **found = lessor_arena_array(arena, cap, sizeof(struct lease *));
        uint64_t after = query->after;
        struct lease *lease;
        size_t n = 0;

        if (query->max == 0)
                return LESSOR_E_INVALID;
        if (found == NULL)
                return LESSOR_E_NOMEM;
        while (n < cap && (lease = next_listed(e, query, rack, run, after)) != NULL) {
                if (is_listed(lease, query, run))
                        found[n++] = lease;
                after = lease->seq;
        }
        return lease_list_render(e, found, n, now_ms, arena, ret_leases);
}

int lease_engine_recent(struct lease_engine *e, struct lessor_slice rack_id, size_t max, int64_t now_ms,
                        struct lessor_arena *arena, struct lessor_lease_list *ret_leases)
{
        const struct rack *rack = rack_find(e, rack_id);
        size_t cap = max < e->n_leases ? max : e->n_leases, n = 0;
        struct lease **found = lessor_arena_array(arena, cap, sizeof(struct lease *));
        struct sorted_node *at;

        if (found == NULL)
                return LESSOR_E_NOMEM;
        at = rack == NULL ? NULL : sorted_last(&rack->recent);
        while (at != NULL && n < cap) {
                found[n++] = container_of(at, struct lease, recent_node);
                at = sorted_previous(&rack->recent, at);
        }
        return lease_list_render(e, found, n, now_ms, arena, ret_leases);
}

int lease_engine_attempts(const struct lease_engine *e, const struct lessor_lease_name *name,
                          struct lessor_arena *arena, struct lessor_attempt_list *ret_attempts)
{
        const struct lease *lease = lease_engine_find_lease(e, name);
        struct lessor_attempt *items;

        if (lease == NULL)
                return LESSOR_E_NOT_FOUND;
        items = lessor_arena_array(arena, lease->n_attempts, sizeof(*items));
        if (items == NULL)
                return LESSOR_E_NOMEM;
        for (size_t i = 0; i < lease->n_attempts; i++) {
                struct lessor_attempt *a = &items[i];

                attempt_borrow(lease->attempts[i], a);

                struct lessor_slice *const texts[] = {&a->execution_id, &a->rack_id, &a->boot_id, &a->reason,
                                                      &a->output_hash};
                for (size_t j = 0; j < ARRAY_SIZE(texts); j++) {
                        int r = lessor_arena_copy(arena, *texts[j], texts[j]);

                        if (r < 0)
                                return r;
                }
        }
        *ret_attempts = (struct lessor_attempt_list){items, lease->n_attempts};
        return 0;
}

int lease_engine_targets(const struct lease_engine *e, const struct lessor_lease_name *name,
                         struct lessor_arena *arena, struct lessor_slice **ret_hashes, size_t *ret_n)
{
        const struct lease *lease = lease_engine_find_lease(e, name);
        struct lessor_slice *hashes;
        size_t n = 0;

        if (lease == NULL)
                return LESSOR_E_NOT_FOUND;
        hashes = lessor_arena_array(arena, lease->n_targets, sizeof(*hashes));
        if (hashes == NULL)
                return LESSOR_E_NOMEM;
        for (const struct target *t = lease->targets; t != NULL; t = t->next) {
                int r = lessor_arena_copy(arena, t->hash, &hashes[n++]);

                if (r < 0)
                        return r;
        }
        *ret_hashes = hashes;
        *ret_n = n;
        return 0;
}

void lease_engine_stats(const struct lease_engine *e, struct lessor_lease_stats *ret_stats)
{
        *ret_stats = (struct lessor_lease_stats){
                .n_lapsed = e->n_lapsed,
                .n_racks = e->n_registered,
                .n_capabilities = e->n_capabilities,
                .n_environments = e->n_environments,
        };
        for (size_t i = 0; i < LESSOR_N_LEASE_STATUSES; i++)
                ret_stats->n_leases[i] = e->n_by_status[i];
}
