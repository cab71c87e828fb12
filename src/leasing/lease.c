/* SPDX-License-Identifier: MIT */
#include <stdlib.h>

#include "base/size.h"
#include "leasing/engine_internal.h"

void lease_attach(struct lease *lease, void *attachment)
{
        lease->attachment = attachment;
}

void *lease_attachment(const struct lease *lease)
{
        return lease->attachment;
}

uint64_t lease_seq(const struct lease *lease)
{
        return lease->seq;
}

/* --- orders --- */

static int seq_cmp(uint64_t a, uint64_t b)
{
        return (a > b) - (a < b);
}

int lease_by_status(const struct sorted_node *a, const struct sorted_node *b)
{
        return seq_cmp(container_of(a, struct lease, status_node)->seq,
                       container_of(b, struct lease, status_node)->seq);
}

int lease_by_run(const struct sorted_node *a, const struct sorted_node *b)
{
        return seq_cmp(container_of(a, struct lease, run_node)->seq,
                       container_of(b, struct lease, run_node)->seq);
}

int lease_by_claimed(const struct sorted_node *a, const struct sorted_node *b)
{
        return seq_cmp(container_of(a, struct lease, claimed_node)->seq,
                       container_of(b, struct lease, claimed_node)->seq);
}

int lease_by_task(const struct sorted_node *a, const struct sorted_node *b)
{
        return lease_cmp_age(container_of(a, struct lease, task_node),
                             container_of(b, struct lease, task_node));
}

int lease_by_recent(const struct sorted_node *a, const struct sorted_node *b)
{
        const struct lease *x = container_of(a, struct lease, recent_node);
        const struct lease *y = container_of(b, struct lease, recent_node);

        if (x->latest->started_ms != y->latest->started_ms)
                return x->latest->started_ms < y->latest->started_ms ? -1 : 1;
        return seq_cmp(x->seq, y->seq);
}

/* --- making and freeing --- */

/* taskHash#inputsHash#uuid */
static int id_of(const struct lessor_lease_submission *from, struct lessor_slice uuid, char **ret_id,
                 size_t *ret_n)
{
        size_t n;
        char *id;

        if (!size_add(from->task_hash.n, from->inputs_hash.n, &n) || !size_add(n, uuid.n, &n) ||
            !size_add(n, 2, &n))
                return LESSOR_E_NOMEM;
        id = malloc(n);
        if (id == NULL)
                return LESSOR_E_NOMEM;
        *ret_id = id;
        *ret_n = n;
        if (from->task_hash.n > 0)
                memcpy(id, from->task_hash.p, from->task_hash.n);
        id += from->task_hash.n;
        *id++ = '#';
        if (from->inputs_hash.n > 0)
                memcpy(id, from->inputs_hash.p, from->inputs_hash.n);
        id += from->inputs_hash.n;
        *id++ = '#';
        if (uuid.n > 0)
                memcpy(id, uuid.p, uuid.n);
        return 0;
}

static bool name_parts(struct lease_engine *e, struct lease *lease,
                       const struct lessor_lease_submission *from)
{
        struct lessor_slice prefix = {lease->id.p, from->task_hash.n + 1 + from->inputs_hash.n};
        struct word *floor = NULL, *size = NULL;
        bool named;

        lease->repo = word_get(e, from->repo);
        lease->workspace = word_get(e, from->workspace);
        lease->task_name = word_get(e, from->task_name);
        lease->owner = word_get(e, from->owner);
        named = lease->repo != NULL && lease->workspace != NULL && lease->task_name != NULL &&
                lease->owner != NULL && word_get_if(e, from->environment, &lease->environment) &&
                word_get_if(e, from->floor, &floor) && word_get_if(e, from->compute_size, &size);
        if (named) {
                lease->task = task_get(e, lease->repo, prefix);
                lease->lane = lane_get(e, from->tier, lease->repo, from->owner, floor, size);
                if (from->run.p != NULL)
                        lease->run = run_get(e, from->run);
                named = lease->task != NULL && lease->lane != NULL &&
                        (from->run.p == NULL || lease->run != NULL);
        }
        word_unref(e, floor);
        word_unref(e, size);
        return named;
}

int lease_new(struct lease_engine *e, const struct lessor_lease_submission *from, struct lessor_slice uuid,
              struct lease **ret_lease)
{
        struct lessor_slice id, copy;
        struct lease *lease;
        char *text;
        int r;

        r = id_of(from, uuid, &text, &id.n);
        if (r < 0)
                return r;
        id.p = text;
        lease = alloc_with_text(sizeof(*lease), id, &copy);
        free(text);
        if (lease == NULL)
                return LESSOR_E_NOMEM;
        lease->id = copy;
        lease->task_len = (unsigned)from->task_hash.n;
        lease->change.kind = lease->event.kind = RECORD_LEASE;
        lease->targets_end = &lease->targets;
        lease->mode = from->mode;
        lease->own = from->own;
        lease->event_version = from->event_version;
        lease->attempt_limit = from->attempt_limit;
        if (!name_parts(e, lease, from)) {
                lease_free(e, lease);
                return LESSOR_E_NOMEM;
        }
        *ret_lease = lease;
        return 0;
}

void lease_free(struct lease_engine *e, struct lease *lease)
{
        if (lease == NULL)
                return;
        if (lease->attachment != NULL && e->free_attachment != NULL)
                e->free_attachment(lease->attachment);
        for (size_t i = 0; i < lease->n_attempts; i++)
                attempt_free(e, lease->attempts[i]);
        free(lease->attempts);
        lane_unref(e, lease->lane);
        task_unref(e, lease->task);
        run_unref(e, lease->run);
        word_unref(e, lease->repo);
        word_unref(e, lease->workspace);
        word_unref(e, lease->task_name);
        word_unref(e, lease->environment);
        word_unref(e, lease->owner);
        free(lease);
}

void lease_ref(struct lease *lease)
{
        lease->refs++;
}

void lease_unref(struct lease_engine *e, struct lease *lease)
{
        if (--lease->refs == 0)
                lease_free(e, lease);
}

/* --- its place in the indexes --- */

bool lease_is_open(const struct lease *lease)
{
        return lease->status == LESSOR_LEASE_PENDING || lease->status == LESSOR_LEASE_CLAIMED;
}

static bool may_be_granted(const struct lease *lease)
{
        return lease->event_version == LESSOR_EVENT_VERSION && /* R046 */
               (lease->attempt_limit == 0 || lease->attempts_spent < lease->attempt_limit);
}

void lease_enter(struct lease_engine *e, struct lease *lease)
{
        bool waits = lease->status == LESSOR_LEASE_PENDING || lease->lapsed;

        e->n_by_status[lease->status]++;
        sorted_add(&e->by_status[lease->status], &lease->status_node, next_rank(e));
        if (waits) {
                if (may_be_granted(lease))
                        queue_lease(e, lease);
                if (lease->expires_ms != 0)
                        timer_set(&e->ttls, &lease->ttl, lease->expires_ms);
        }
        if (lease->status == LESSOR_LEASE_CLAIMED) {
                struct rack *rack = lease->current->rack;

                sorted_add(&rack->claimed, &lease->claimed_node, next_rank(e));
                rack->n_claimed++;
                if (lease->lapsed) {
                        e->n_lapsed++;
                        timer_set(&e->ends, &lease->timer,
                                  time_later(time_later(lease->deadline_ms, e->options.visibility_ms), 1));
                } else {
                        timer_set(&e->lapses, &lease->timer,
                                  time_later(lease->deadline_ms, 1)); /* R053: strictly */
                }
        } else if (lease->status != LESSOR_LEASE_PENDING) {
                timer_set(&e->ends, &lease->timer, time_later(lease->ended_ms, e->options.retention_ms));
        }
}

void lease_leave(struct lease_engine *e, struct lease *lease)
{
        e->n_by_status[lease->status]--;
        sorted_remove(&e->by_status[lease->status], &lease->status_node);
        if (lease->queued)
                unqueue_lease(e, lease);
        timer_unset(&e->ttls, &lease->ttl);
        if (lease->status == LESSOR_LEASE_CLAIMED) {
                struct rack *rack = lease->current->rack;

                sorted_remove(&rack->claimed, &lease->claimed_node);
                rack->n_claimed--;
                if (lease->lapsed)
                        e->n_lapsed--;
        }
        timer_unset(lease->status == LESSOR_LEASE_CLAIMED && !lease->lapsed ? &e->lapses : &e->ends,
                    &lease->timer);
}

int lease_reserve(struct lease_engine *e)
{
        struct timer_heap *const heaps[] = {&e->lapses, &e->ends, &e->ttls};

        for (size_t i = 0; i < ARRAY_SIZE(heaps); i++) {
                int r = timer_heap_reserve(heaps[i], e->n_leases + 1);

                if (r < 0)
                        return r;
        }
        return 0;
}

void lease_install(struct lease_engine *e, struct lease *lease)
{
        lease->refs = 1;
        lease->timer.seq = lease->ttl.seq = lease->seq;
        e->n_leases++;
        table_add(&e->leases, &lease->node, table_hash_pair(&e->leases, lease->repo->text, lease->id));
        sorted_add(&lease->task->leases, &lease->task_node, next_rank(e));
        if (lease->run != NULL)
                sorted_add(&lease->run->leases, &lease->run_node, next_rank(e));
        lease_enter(e, lease);
}

void lease_remove(struct lease_engine *e, struct lease *lease)
{
        struct key *key;
        struct target *target;

        lease_leave(e, lease);
        capabilities_end(e, lease);
        table_remove(&e->leases, &lease->node);
        sorted_remove(&lease->task->leases, &lease->task_node);
        if (lease->run != NULL)
                sorted_remove(&lease->run->leases, &lease->run_node);
        if (lease->latest != NULL)
                sorted_remove(&lease->latest->rack->recent, &lease->recent_node);
        for (size_t i = 0; i < lease->n_attempts; i++)
                forget_change(e, &lease->attempts[i]->change);
        while ((key = lease->keys) != NULL) {
                lease->keys = key->next;
                forget_change(e, &key->change);
                table_remove(&e->keys, &key->node);
                free(key);
        }
        while ((target = lease->targets) != NULL) {
                lease->targets = target->next;
                target_remove(e, target);
        }
        e->n_leases--;
        lease->removed = true;
        note_change(e, &lease->change);
        note_event(e, &lease->event, LESSOR_EVENT_FORGOTTEN);
        lease_unref(e, lease);
}

/* --- questions --- */

bool lease_is_held_by(const struct lease *lease, struct lessor_slice rack_id, struct lessor_slice attempt)
{
        const struct attempt *a = lease->current;

        if (lease->status != LESSOR_LEASE_CLAIMED || !lessor_slice_equal(a->rack->id, rack_id))
                return false;
        if (attempt.p == NULL)
                return !a->must_name;
        return a->execution_id.p != NULL && lessor_slice_equal(a->execution_id, attempt);
}

static enum lessor_lease_view view_of(const struct lease_engine *e, const struct lease *lease, int64_t now_ms)
{
        static const enum lessor_lease_view views[LESSOR_N_LEASE_STATUSES] = {
                [LESSOR_LEASE_PENDING] = LESSOR_VIEW_PENDING,
                [LESSOR_LEASE_CLAIMED] = LESSOR_VIEW_CLAIMED,
                [LESSOR_LEASE_COMPLETED] = LESSOR_VIEW_COMPLETED,
                [LESSOR_LEASE_SUPERSEDED] = LESSOR_VIEW_SUPERSEDED,
                [LESSOR_LEASE_CANCELLED] = LESSOR_VIEW_CANCELLED,
                [LESSOR_LEASE_POISONED] = LESSOR_VIEW_POISONED,
                [LESSOR_LEASE_EXPIRED] = LESSOR_VIEW_EXPIRED,
        };

        if (lease->status == LESSOR_LEASE_CLAIMED && lease->deadline_ms < now_ms)
                return time_later(lease->deadline_ms, e->options.visibility_ms) < now_ms
                               ? LESSOR_VIEW_LOST
                               : LESSOR_VIEW_PENDING;
        return views[lease->status];
}

static void borrow_claim(const struct lease *lease, struct lessor_lease *l)
{
        const struct attempt *a = lease->current;

        if (a == NULL)
                return;
        l->claimed_by = a->rack->id;
        l->claimed_ms = a->started_ms;
        l->claim_number = a->number;
        l->attempt = a->execution_id;
        if (lease->status != LESSOR_LEASE_COMPLETED)
                return;
        l->verdict = (struct lessor_verdict){
                .success = lease->success,
                .error = lease->error,
                .cancelled = lease->cancelled,
                .output_hash = word_text(a->output_hash),
                .message = word_text(a->reason),
                .has_exit_code = a->has_exit_code,
                .exit_code = a->exit_code,
                .has_peak_bytes = a->has_peak_bytes,
                .peak_bytes = a->peak_bytes,
        };
}

void lease_borrow(const struct lease_engine *e, const struct lease *lease, int64_t now_ms,
                  struct lessor_lease *ret_lease)
{
        *ret_lease = (struct lessor_lease){
                .seq = lease->seq,
                .name = {lease->repo->text, lease->id},
                .workspace = lease->workspace->text,
                .task_name = lease->task_name->text,
                .task_hash = {lease->id.p, lease->task_len},
                .inputs_hash = {lease->id.p + lease->task_len + 1,
                                lease->task->prefix.n - lease->task_len - 1},
                .tier = lease->lane->of_tier->scope->tier->text,
                .compute_size = word_text(lease->lane->size),
                .floor = word_text(lease->lane->floor),
                .environment = word_text(lease->environment),
                .run = lease->run == NULL ? (struct lessor_slice){0} : lease->run->name,
                .owner = lease->owner->text,
                .mode = lease->mode,
                .own = lease->own,
                .event_version = lease->event_version,
                .status = lease->status,
                .view = view_of(e, lease, now_ms),
                .held = lease->status == LESSOR_LEASE_PENDING ||
                        (lease->status == LESSOR_LEASE_CLAIMED && lease->deadline_ms >= now_ms),
                .created_ms = lease->created_ms,
                .expires_ms = lease->expires_ms,
                .attempt_limit = lease->attempt_limit,
                .attempts_spent = lease->attempts_spent,
                .deadline_ms = lease->deadline_ms,
                .ended_ms = lease->ended_ms,
                .cause = lease->cause,
                .n_targets = lease->n_targets,
        };
        borrow_claim(lease, ret_lease);
}

int lease_render(const struct lease_engine *e, const struct lease *lease, int64_t now_ms,
                 struct lessor_arena *arena, struct lessor_lease *ret_lease)
{
        struct lessor_lease l;

        lease_borrow(e, lease, now_ms, &l);

        struct lessor_slice *const texts[] = {
                &l.name.repo,
                &l.name.lease_id,
                &l.workspace,
                &l.task_name,
                &l.tier,
                &l.compute_size,
                &l.floor,
                &l.environment,
                &l.run,
                &l.owner,
                &l.claimed_by,
                &l.attempt,
                &l.verdict.output_hash,
                &l.verdict.message,
        };
        for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
                int r = lessor_arena_copy(arena, *texts[i], texts[i]);

                if (r < 0)
                        return r;
        }
        l.task_hash.p = l.name.lease_id.p;
        l.inputs_hash.p = l.name.lease_id.p + l.task_hash.n + 1;
        *ret_lease = l;
        return 0;
}

int lease_list_render(const struct lease_engine *e, struct lease *const *leases, size_t n, int64_t now_ms,
                      struct lessor_arena *arena, struct lessor_lease_list *ret_leases)
{
        struct lessor_lease *items = lessor_arena_array(arena, n, sizeof(*items));

        if (items == NULL)
                return LESSOR_E_NOMEM;
        for (size_t i = 0; i < n; i++) {
                int r = lease_render(e, leases[i], now_ms, arena, &items[i]);

                if (r < 0)
                        return r;
        }
        *ret_leases = (struct lessor_lease_list){items, n};
        return 0;
}

/* --- transitions --- */

void lease_end(struct lease_engine *e, struct lease *lease, enum lessor_lease_status status,
               enum lessor_cause cause, struct word *reason, int64_t now_ms)
{
        static const enum lessor_lease_event_kind kinds[LESSOR_N_LEASE_STATUSES] = {
                [LESSOR_LEASE_COMPLETED] = LESSOR_EVENT_COMPLETED,
                [LESSOR_LEASE_SUPERSEDED] = LESSOR_EVENT_SUPERSEDED,
                [LESSOR_LEASE_CANCELLED] = LESSOR_EVENT_CANCELLED,
                [LESSOR_LEASE_POISONED] = LESSOR_EVENT_POISONED,
                [LESSOR_LEASE_EXPIRED] = LESSOR_EVENT_EXPIRED,
        };

        lease_leave(e, lease);
        attempt_end(e, lease->current,
                    status == LESSOR_LEASE_CANCELLED ? LESSOR_ATTEMPT_CANCELLED : LESSOR_ATTEMPT_INTERRUPTED,
                    cause, reason, now_ms);
        capabilities_end(e, lease);
        lease->status = status;
        lease->cause = cause;
        lease->lapsed = false;
        lease->ended_ms = now_ms;
        lease_enter(e, lease);
        note_change(e, &lease->change);
        note_event(e, &lease->event, kinds[status]);
}

void lease_requeue(struct lease_engine *e, struct lease *lease, enum lessor_cause cause, int64_t now_ms)
{
        lease_leave(e, lease);
        attempt_end(e, lease->current, LESSOR_ATTEMPT_INTERRUPTED, cause, NULL, now_ms);
        capabilities_end(e, lease);
        lease->current = NULL;
        lease->status = LESSOR_LEASE_PENDING;
        lease->cause = LESSOR_CAUSE_NONE;
        lease->lapsed = false;
        lease->deadline_ms = lease->ended_ms = 0;
        lease_enter(e, lease);
        note_change(e, &lease->change);
        if (lease->queued)
                note_event(e, &lease->event, LESSOR_EVENT_CLAIMABLE);
}

/* --- keys --- */

struct key *key_find(const struct lease_engine *e, struct lessor_slice owner, struct lessor_slice text)
{
        uint64_t hash = table_hash_pair(&e->keys, owner, text);

        for (struct table_node *n = table_first(&e->keys, hash); n != NULL; n = table_next(n)) {
                struct key *key = container_of(n, struct key, node);

                if (lessor_slice_equal(key->text, text) && lessor_slice_equal(key->lease->owner->text, owner))
                        return key;
        }
        return NULL;
}

struct key *key_new(struct lessor_slice text)
{
        struct lessor_slice copy;
        struct key *key = alloc_with_text(sizeof(*key), text, &copy);

        if (key == NULL)
                return NULL;
        key->text = copy;
        key->change.kind = RECORD_KEY;
        return key;
}

void key_install(struct lease_engine *e, struct lease *lease, struct key *key)
{
        key->lease = lease;
        key->next = lease->keys;
        lease->keys = key;
        table_add(&e->keys, &key->node, table_hash_pair(&e->keys, lease->owner->text, key->text));
}
