/* SPDX-License-Identifier: MIT */
#include <sodium.h>
#include <stdlib.h>

#include "leasing/engine_internal.h"

static bool is_writing(const struct capability *c)
{
        return c->kind == LESSOR_CAPABILITY_PUT || c->kind == LESSOR_CAPABILITY_PUT_STAGED;
}

/* --- one capability --- */

static uint64_t binding_hash(const struct lease_engine *e, const struct lease *lease,
                             enum lessor_capability_kind kind, struct lessor_slice hash)
{
        const uint64_t key[2] = {lease->seq, (uint64_t)kind};

        return table_hash_pair(&e->bindings, (struct lessor_slice){(const char *)key, sizeof(key)}, hash);
}

static struct capability *binding_find(const struct lease_engine *e, const struct lease *lease,
                                       enum lessor_capability_kind kind, struct lessor_slice hash)
{
        uint64_t h = binding_hash(e, lease, kind, hash);

        for (struct table_node *n = table_first(&e->bindings, h); n != NULL; n = table_next(n)) {
                struct capability *c = container_of(n, struct capability, by_binding);

                if (c->lease == lease && c->kind == kind && lessor_slice_equal(c->hash, hash))
                        return c;
        }
        return NULL;
}

struct capability *capability_find(const struct lease_engine *e, struct lessor_slice id)
{
        uint64_t hash = table_hash(&e->capabilities, id);

        for (struct table_node *n = table_first(&e->capabilities, hash); n != NULL; n = table_next(n)) {
                struct capability *c = container_of(n, struct capability, by_id);

                if (id.n == 64 && sodium_memcmp(c->id, id.p, 64) == 0)
                        return c;
        }
        return NULL;
}

static struct capability *receipt_find(const struct lease_engine *e, struct lessor_slice receipt)
{
        uint64_t hash = table_hash(&e->receipts, receipt);

        for (struct table_node *n = table_first(&e->receipts, hash); n != NULL; n = table_next(n)) {
                struct capability *c = container_of(n, struct capability, by_receipt);

                if (lessor_slice_equal(c->receipt->text, receipt))
                        return c;
        }
        return NULL;
}

int capability_new(struct lease *lease, struct lessor_slice hash, struct capability **ret_capability)
{
        struct lessor_slice copy;
        struct capability *c = alloc_with_text(sizeof(*c), hash, &copy);

        if (c == NULL)
                return LESSOR_E_NOMEM;
        c->change.kind = c->event.kind = RECORD_CAPABILITY;
        c->lease = lease;
        c->hash = copy;
        c->size = -1;
        *ret_capability = c;
        return 0;
}

void capability_install(struct lease_engine *e, struct capability *c)
{
        struct lease *lease = c->lease;

        lease_ref(lease);
        c->claim_number = lease->current->number;
        c->next = lease->capabilities;
        if (c->next != NULL)
                c->next->previous = c;
        lease->capabilities = c;
        c->expiry.seq = e->next_timer++;
        table_add(&e->capabilities, &c->by_id,
                  table_hash(&e->capabilities, (struct lessor_slice){c->id, 64}));
        table_add(&e->bindings, &c->by_binding, binding_hash(e, lease, c->kind, c->hash));
        if (!is_writing(c))
                timer_set(&e->capability_ends, &c->expiry, c->expires_ms);
        e->n_capabilities++;
}

void capability_give_receipt(struct lease_engine *e, struct capability *c, struct word *receipt)
{
        c->receipt = receipt;
        table_add(&e->receipts, &c->by_receipt, table_hash(&e->receipts, receipt->text));
}

void capability_remove(struct lease_engine *e, struct capability *c)
{
        struct lease *lease = c->lease;

        *(c->previous == NULL ? &lease->capabilities : &c->previous->next) = c->next;
        if (c->next != NULL)
                c->next->previous = c->previous;
        timer_unset(&e->capability_ends, &c->expiry);
        table_remove(&e->capabilities, &c->by_id);
        table_remove(&e->bindings, &c->by_binding);
        if (c->receipt != NULL)
                table_remove(&e->receipts, &c->by_receipt);
        e->n_capabilities--;
        c->removed = true;
        note_change(e, &c->change);
        if (c->receipt != NULL && !c->committed)
                note_event(e, &c->event, LESSOR_EVENT_DISCARDED);
}

/* Frees one that was removed, when nobody has yet to hear of it. */
void capability_free(struct lease_engine *e, struct capability *c)
{
        if (!c->removed || c->change.queued || c->event.queued)
                return;
        word_unref(e, c->receipt);
        lease_unref(e, c->lease);
        sodium_memzero(c->id, sizeof(c->id));
        free(c);
}

void capabilities_end(struct lease_engine *e, struct lease *lease)
{
        while (lease->capabilities != NULL)
                capability_remove(e, lease->capabilities);
}

void capability_borrow(const struct capability *c, struct lessor_capability *ret_capability)
{
        *ret_capability = (struct lessor_capability){
                .id = {c->id, 64},
                .kind = c->kind,
                .name = {c->lease->repo->text, c->lease->id},
                .claim_number = c->claim_number,
                .hash = c->hash,
                .size = c->size,
                .expires_ms = c->expires_ms,
                .receipt = word_text(c->receipt),
                .committed = c->committed,
        };
}

static int capability_render(const struct capability *c, struct lessor_arena *arena,
                             struct lessor_capability *ret_capability)
{
        struct lessor_capability cap;

        capability_borrow(c, &cap);

        struct lessor_slice *const texts[] = {&cap.id, &cap.name.repo, &cap.name.lease_id, &cap.hash,
                                              &cap.receipt};
        for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
                int r = lessor_arena_copy(arena, *texts[i], texts[i]);

                if (r < 0)
                        return r;
        }
        *ret_capability = cap;
        return 0;
}

/* --- targets --- */

static uint64_t target_hash(const struct lease_engine *e, const struct lease *lease, struct lessor_slice hash)
{
        return table_hash_pair(&e->targets,
                               (struct lessor_slice){(const char *)&lease->seq, sizeof(lease->seq)}, hash);
}

struct target *target_find(const struct lease_engine *e, const struct lease *lease, struct lessor_slice hash)
{
        uint64_t h = target_hash(e, lease, hash);

        for (struct table_node *n = table_first(&e->targets, h); n != NULL; n = table_next(n)) {
                struct target *t = container_of(n, struct target, node);

                if (t->lease == lease && lessor_slice_equal(t->hash, hash))
                        return t;
        }
        return NULL;
}

int target_new(struct lease *lease, struct lessor_slice hash, struct target **ret_target)
{
        struct lessor_slice copy;
        struct target *t = alloc_with_text(sizeof(*t), hash, &copy);

        if (t == NULL)
                return LESSOR_E_NOMEM;
        t->change.kind = RECORD_TARGET;
        t->lease = lease;
        t->hash = copy;
        *ret_target = t;
        return 0;
}

void target_install(struct lease_engine *e, struct target *t)
{
        struct lease *lease = t->lease;

        t->order = ++lease->n_targets;
        *lease->targets_end = t;
        lease->targets_end = &t->next;
        table_add(&e->targets, &t->node, target_hash(e, lease, t->hash));
}

void target_remove(struct lease_engine *e, struct target *t)
{
        forget_change(e, &t->change);
        table_remove(&e->targets, &t->node);
        free(t);
}

/* --- a storage request --- */

/* One transfer under way: what it will need, made before anything changes. */
struct plan {
        struct lease_engine *e;
        struct lease *lease;
        const struct lessor_transfer_request *request;
        int64_t now_ms;
        const unsigned char *seed;
        uint64_t n_ids;
        struct capability **spare; /* one place for each entry that may need one */
        size_t n_spare;            /* places used */
        size_t n_new;              /* of them filled */
        struct target **targets;
        size_t n_targets;
        struct lessor_transfer_answer answer;
};

static bool is_hash(struct lessor_slice text)
{
        if (text.n != 64)
                return false;
        for (size_t i = 0; i < text.n; i++)
                if (!((text.p[i] >= '0' && text.p[i] <= '9') || (text.p[i] >= 'a' && text.p[i] <= 'f')))
                        return false;
        return true;
}

static bool is_sound(const struct lessor_object_size *o)
{
        return is_hash(o->hash) && o->size >= 0 && o->size <= LIMIT_RACK_OBJECT_BYTES;
}

/* R103, R104, R107, and the declarations that contradict each other */
static int judge(const struct plan *p)
{
        const struct lessor_transfer_request *q = p->request;

        if (p->lease->event_version != LESSOR_EVENT_VERSION)
                return LESSOR_E_PERMISSION;
        if (p->lease->mode == LESSOR_LEASE_FUNCTION &&
            (q->staged != NULL || q->n_outputs > 0 || q->n_commits > 0))
                return LESSOR_E_PERMISSION; /* R107 */
        if (q->n_outputs > LIMIT_RACK_TRANSFERS || q->n_commits > LIMIT_RACK_TRANSFERS)
                return LESSOR_E_TOO_LARGE; /* R103 */
        if (q->staged != NULL && !is_sound(q->staged))
                return LESSOR_E_INVALID;
        for (size_t i = 0; i < q->n_outputs; i++)
                if (!is_sound(&q->outputs[i].object))
                        return LESSOR_E_INVALID; /* R104 */
        for (size_t i = 0; i < q->n_commits; i++)
                if (!is_sound(&q->commits[i].object))
                        return LESSOR_E_INVALID;
        return 0;
}

static int judge_sizes(const struct plan *p)
{
        const struct lessor_transfer_request *q = p->request;
        const struct capability *bound;

        if (q->staged != NULL) {
                bound = binding_find(p->e, p->lease, LESSOR_CAPABILITY_PUT_STAGED, q->staged->hash);
                if (bound != NULL && bound->size != q->staged->size)
                        return LESSOR_E_SIZE_CHANGED;
        }
        for (size_t i = 0; i < q->n_outputs; i++) {
                const struct lessor_transfer_output *out = &q->outputs[i];

                if (out->stored && out->stored_size != out->object.size)
                        return LESSOR_E_SIZE_CHANGED;
                bound = binding_find(p->e, p->lease, LESSOR_CAPABILITY_PUT, out->object.hash);
                if (bound != NULL && bound->size != out->object.size)
                        return LESSOR_E_SIZE_CHANGED;
                for (size_t j = 0; j < i; j++)
                        if (q->outputs[j].object.size != out->object.size &&
                            lessor_slice_equal(q->outputs[j].object.hash, out->object.hash))
                                return LESSOR_E_SIZE_CHANGED;
        }
        return 0;
}

static bool seen_before(const struct lessor_transfer_output *outputs, size_t i)
{
        for (size_t j = 0; j < i; j++)
                if (lessor_slice_equal(outputs[j].object.hash, outputs[i].object.hash))
                        return true;
        return false;
}

/* R105, R106 */
static int plan_targets(struct plan *p)
{
        const struct lessor_transfer_request *q = p->request;

        for (size_t i = 0; i < q->n_outputs; i++) {
                int r;

                if (target_find(p->e, p->lease, q->outputs[i].object.hash) != NULL ||
                    seen_before(q->outputs, i))
                        continue;
                if (p->lease->n_targets + p->n_targets >= LIMIT_RACK_TARGETS)
                        return LESSOR_E_TARGET_LIMIT;
                r = target_new(p->lease, q->outputs[i].object.hash, &p->targets[p->n_targets]);
                if (r < 0)
                        return r;
                p->n_targets++;
        }
        return 0;
}

static void make_id(struct plan *p, char ret_id[65])
{
        unsigned char out[32];
        const uint64_t number = p->n_ids++;

        crypto_generichash(out, sizeof(out), (const unsigned char *)&number, sizeof(number), p->seed,
                           LEASE_ENGINE_SEED_BYTES);
        sodium_bin2hex(ret_id, 65, out, sizeof(out));
        sodium_memzero(out, sizeof(out));
}

/* Reading URLs are replaced when they have expired; writing ones go on, since what they wrote does. */
static bool can_serve(const struct capability *c, int64_t now_ms)
{
        return c != NULL && (is_writing(c) || c->expires_ms > now_ms);
}

/* Makes a spare capability for an entry, unless a bound one will do. */
static int plan_one(struct plan *p, enum lessor_capability_kind kind, struct lessor_slice hash, int64_t size)
{
        struct capability **at = &p->spare[p->n_spare++];
        int r;

        if (can_serve(binding_find(p->e, p->lease, kind, hash), p->now_ms))
                return 0;
        r = capability_new(p->lease, hash, at);
        if (r < 0)
                return r;
        (*at)->kind = kind;
        (*at)->size = size;
        make_id(p, (*at)->id);
        p->n_new++;
        return 0;
}

static enum lessor_capability_kind kind_of(const struct lessor_transfer_need *need)
{
        return need->layer ? LESSOR_CAPABILITY_GET_LAYER : LESSOR_CAPABILITY_GET;
}

static int plan_capabilities(struct plan *p)
{
        const struct lessor_transfer_request *q = p->request;
        int r = 0;

        for (size_t i = 0; r == 0 && i < q->n_needs; i++)
                r = plan_one(p, kind_of(&q->needs[i]), q->needs[i].hash, -1);
        if (r == 0 && q->staged != NULL)
                r = plan_one(p, LESSOR_CAPABILITY_PUT_STAGED, q->staged->hash, q->staged->size);
        for (size_t i = 0; r == 0 && i < q->n_outputs; i++)
                if (!q->outputs[i].stored)
                        r = plan_one(p, LESSOR_CAPABILITY_PUT, q->outputs[i].object.hash,
                                     q->outputs[i].object.size);
        if (r < 0)
                return r;
        if (p->n_new > p->e->options.max_capabilities ||
            p->e->n_capabilities > p->e->options.max_capabilities - p->n_new)
                return LESSOR_E_FULL;
        return timer_heap_reserve(&p->e->capability_ends, p->e->n_capabilities + p->n_new);
}

/* A place for an id in the answer. */
static int plan_id(struct lessor_arena *arena, struct lessor_slice *ret_id)
{
        char *text = lessor_arena_alloc(arena, 65);

        if (text == NULL)
                return LESSOR_E_NOMEM;
        *ret_id = (struct lessor_slice){text, 64};
        return 0;
}

static int plan_answer(struct plan *p, struct lessor_arena *arena)
{
        const struct lessor_transfer_request *q = p->request;
        size_t n = q->n_needs + q->n_outputs + 1;
        int r = 0;

        p->spare = lessor_arena_array(arena, n, sizeof(struct capability *));
        p->targets = lessor_arena_array(arena, q->n_outputs, sizeof(struct target *));
        p->answer.need_ids = lessor_arena_array(arena, q->n_needs, sizeof(struct lessor_slice));
        p->answer.output_ids = lessor_arena_array(arena, q->n_outputs, sizeof(struct lessor_slice));
        p->answer.committed = lessor_arena_array(arena, q->n_commits, sizeof(bool));
        if (p->spare == NULL || p->targets == NULL || p->answer.need_ids == NULL ||
            p->answer.output_ids == NULL || p->answer.committed == NULL)
                return LESSOR_E_NOMEM;
        for (size_t i = 0; r == 0 && i < q->n_needs; i++)
                r = plan_id(arena, &p->answer.need_ids[i]);
        if (r == 0 && q->staged != NULL)
                r = plan_id(arena, &p->answer.staged_id);
        for (size_t i = 0; r == 0 && i < q->n_outputs; i++)
                if (!q->outputs[i].stored)
                        r = plan_id(arena, &p->answer.output_ids[i]);
        return r;
}

/* The bound capability, or the spare one, which is bound then. */
static void issue(struct plan *p, enum lessor_capability_kind kind, struct lessor_slice hash,
                  struct lessor_slice id)
{
        struct capability *spare = p->spare[p->n_spare];
        struct capability *c = binding_find(p->e, p->lease, kind, hash);

        p->spare[p->n_spare++] = NULL;
        if (c != NULL && !can_serve(c, p->now_ms)) {
                capability_remove(p->e, c);
                c = NULL;
        }
        if (c == NULL) {
                c = TAKE(spare);
                c->expires_ms = time_later(p->now_ms, p->e->options.capability_ms);
                capability_install(p->e, c);
                note_change(p->e, &c->change);
        } else if (c->expires_ms <= p->now_ms) {
                c->expires_ms = time_later(p->now_ms, p->e->options.capability_ms);
                note_change(p->e, &c->change);
        }
        free(spare);
        memcpy((char *)id.p, c->id, 64);
}

/* R112, R113, R114 */
static bool commit(struct plan *p, const struct lessor_transfer_commit *commit)
{
        struct capability *c = binding_find(p->e, p->lease, LESSOR_CAPABILITY_PUT, commit->object.hash);

        if (c == NULL || c->receipt == NULL || c->size != commit->object.size ||
            !lessor_slice_equal(c->receipt->text, commit->version))
                return false;
        if (!c->committed) {
                c->committed = true;
                note_change(p->e, &c->change);
        }
        return true;
}

static void carry_out(struct plan *p)
{
        const struct lessor_transfer_request *q = p->request;

        for (size_t i = 0; i < p->n_targets; i++) {
                target_install(p->e, p->targets[i]);
                note_change(p->e, &p->targets[i]->change);
        }
        p->n_spare = 0;
        for (size_t i = 0; i < q->n_needs; i++)
                issue(p, kind_of(&q->needs[i]), q->needs[i].hash, p->answer.need_ids[i]);
        if (q->staged != NULL)
                issue(p, LESSOR_CAPABILITY_PUT_STAGED, q->staged->hash, p->answer.staged_id);
        for (size_t i = 0; i < q->n_outputs; i++)
                if (!q->outputs[i].stored)
                        issue(p, LESSOR_CAPABILITY_PUT, q->outputs[i].object.hash, p->answer.output_ids[i]);
        for (size_t i = 0; i < q->n_commits; i++)
                p->answer.committed[i] = commit(p, &q->commits[i]);
}

int lease_engine_transfer(struct lease_engine *e, const struct lessor_transfer_request *request,
                          int64_t now_ms, const unsigned char seed[LEASE_ENGINE_SEED_BYTES],
                          struct lessor_arena *arena, struct lessor_transfer_answer *ret_answer)
{
        struct plan p = {.e = e, .request = request, .now_ms = now_ms, .seed = seed};
        int r;

        r = lease_engine_hold(e, &request->holder, now_ms, &p.lease); /* R095 */
        if (r == 0)
                r = judge(&p);
        if (r == 0)
                r = judge_sizes(&p);
        if (r == 0)
                r = plan_answer(&p, arena);
        if (r == 0)
                r = plan_targets(&p);
        if (r == 0)
                r = plan_capabilities(&p);
        if (r < 0) {
                for (size_t i = 0; i < p.n_targets; i++)
                        free(p.targets[i]);
                for (size_t i = 0; i < p.n_spare; i++)
                        free(p.spare[i]);
                return r;
        }
        carry_out(&p);
        *ret_answer = p.answer;
        return 0;
}

/* --- the data plane --- */

int lease_engine_open(const struct lease_engine *e, struct lessor_slice id, bool write, int64_t now_ms,
                      struct lessor_arena *arena, struct lessor_capability *ret_capability)
{
        const struct capability *c = capability_find(e, id);

        /* R117, R118: dead at its very end, and of the other direction as if it were not there. */
        if (c == NULL || c->expires_ms <= now_ms || is_writing(c) != write)
                return LESSOR_E_NOT_FOUND;
        return capability_render(c, arena, ret_capability);
}

int lease_engine_stored(struct lease_engine *e, struct lessor_slice id, struct lessor_slice receipt,
                        int64_t now_ms, struct lessor_arena *arena, struct lessor_slice *ret_receipt)
{
        struct capability *c = capability_find(e, id);
        struct word *kept;
        int r;

        if (c == NULL || !is_writing(c) || c->expires_ms <= now_ms)
                return LESSOR_E_NOT_FOUND;
        if (c->receipt != NULL) /* R110 */
                return lessor_arena_copy(arena, c->receipt->text, ret_receipt);
        if (receipt.p == NULL || receipt.n == 0)
                return LESSOR_E_INVALID; /* R109 */
        if (receipt_find(e, receipt) != NULL)
                return LESSOR_E_EXISTS;
        kept = word_get(e, receipt);
        if (kept == NULL)
                return LESSOR_E_NOMEM;
        r = lessor_arena_copy(arena, receipt, ret_receipt);
        if (r < 0) {
                word_unref(e, kept);
                return r;
        }
        capability_give_receipt(e, c, kept);
        note_change(e, &c->change);
        return 0;
}

int lease_engine_staged(struct lease_engine *e, const struct lessor_lease_holder *holder,
                        struct lessor_slice upload_id, int64_t now_ms, struct lessor_arena *arena,
                        struct lessor_capability *ret_capability)
{
        const struct capability *c;
        struct lease *lease;
        int r;

        r = lease_engine_hold(e, holder, now_ms, &lease);
        if (r < 0)
                return r;
        c = capability_find(e, upload_id);
        if (c == NULL || c->lease != lease || c->kind != LESSOR_CAPABILITY_PUT_STAGED || c->receipt == NULL ||
            c->expires_ms <= now_ms)
                return LESSOR_E_NOT_FOUND;
        return capability_render(c, arena, ret_capability);
}

bool lease_engine_wants(const struct lease_engine *e, struct lessor_slice receipt)
{
        return receipt_find(e, receipt) != NULL;
}
