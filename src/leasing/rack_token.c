/* SPDX-License-Identifier: MIT */
/* Credentials (rack-protocol section 2), as hashes. */
#include <stdlib.h>

#include "leasing/engine_internal.h"

/* --- rack tokens --- */

struct rack_token *rack_token_find(const struct lease_engine *e, struct lessor_slice hash)
{
        uint64_t h = table_hash(&e->tokens, hash);

        for (struct table_node *n = table_first(&e->tokens, h); n != NULL; n = table_next(n)) {
                struct rack_token *t = container_of(n, struct rack_token, node);

                if (lessor_slice_equal(t->hash, hash))
                        return t;
        }
        return NULL;
}

int rack_token_new(struct lessor_slice hash, struct rack_token **ret_token)
{
        struct lessor_slice copy;
        struct rack_token *t = alloc_with_text(sizeof(*t), hash, &copy);

        if (t == NULL)
                return LESSOR_E_NOMEM;
        t->hash = copy;
        t->change.kind = RECORD_TOKEN;
        *ret_token = t;
        return 0;
}

int rack_token_reserve(struct lease_engine *e)
{
        return timer_heap_reserve(&e->graces, e->n_tokens + 1);
}

void rack_token_install(struct lease_engine *e, struct rack *rack, struct rack_token *token)
{
        token->rack = rack;
        rack->refs++;
        token->next = rack->tokens;
        rack->tokens = token;
        token->grace.seq = e->next_timer++;
        table_add(&e->tokens, &token->node, table_hash(&e->tokens, token->hash));
        if (token->status == LESSOR_TOKEN_GRACE)
                timer_set(&e->graces, &token->grace, token->grace_until_ms);
        e->n_tokens++;
}

void rack_token_remove(struct lease_engine *e, struct rack_token *token)
{
        struct rack_token **at = &token->rack->tokens;

        while (*at != token)
                at = &(*at)->next;
        *at = token->next;
        timer_unset(&e->graces, &token->grace);
        table_remove(&e->tokens, &token->node);
        e->n_tokens--;
        token->removed = true;
        note_change(e, &token->change);
}

/* R023, R024, R029 */
static void promote(struct lease_engine *e, struct rack_token *token, int64_t now_ms)
{
        token->status = LESSOR_TOKEN_CURRENT;
        note_change(e, &token->change);
        for (struct rack_token *t = token->rack->tokens; t != NULL; t = t->next) {
                if (t == token || t->status == LESSOR_TOKEN_GRACE)
                        continue;
                t->status = LESSOR_TOKEN_GRACE;
                t->grace_until_ms = time_later(now_ms, e->options.grace_ms);
                timer_set(&e->graces, &t->grace, t->grace_until_ms);
                note_change(e, &t->change);
        }
}

int lease_engine_authenticate(struct lease_engine *e, struct lessor_slice token_hash, int64_t now_ms,
                              struct lessor_arena *arena, struct lessor_rack_caller *ret_caller)
{
        struct rack_token *token = rack_token_find(e, token_hash);
        struct lessor_rack_caller caller;
        int r;

        if (token == NULL || (token->status == LESSOR_TOKEN_GRACE && token->grace_until_ms <= now_ms))
                return LESSOR_E_NOT_FOUND; /* R009, R010, R024 */
        r = rack_render(e, token->rack, now_ms, arena, &caller.rack);
        if (r == 0)
                r = lessor_arena_copy(arena, token_hash, &caller.token_hash);
        if (r < 0)
                return r;
        caller.issued_ms = token->issued_ms;
        caller.status = token->status;
        if (token->status == LESSOR_TOKEN_PENDING)
                promote(e, token, now_ms);
        *ret_caller = caller;
        return 0;
}

/* --- enrolment tokens --- */

static struct enrolment *enrolment_find(const struct lease_engine *e, struct lessor_slice hash)
{
        uint64_t h = table_hash(&e->enrolments, hash);

        for (struct table_node *n = table_first(&e->enrolments, h); n != NULL; n = table_next(n)) {
                struct enrolment *t = container_of(n, struct enrolment, node);

                if (lessor_slice_equal(t->hash, hash))
                        return t;
        }
        return NULL;
}

/* One that can still be used: `now < expiry` (R004). */
static struct enrolment *enrolment_usable(const struct lease_engine *e, struct lessor_slice hash,
                                          int64_t now_ms)
{
        struct enrolment *t = enrolment_find(e, hash);

        return t != NULL && now_ms < t->expiry.at_ms ? t : NULL;
}

void enrolment_free(struct lease_engine *e, struct enrolment *t)
{
        word_unref(e, t->label);
        free(t);
}

void enrolment_remove(struct lease_engine *e, struct enrolment *t)
{
        timer_unset(&e->enrolment_ends, &t->expiry);
        table_remove(&e->enrolments, &t->node);
        e->n_enrolments--;
        t->removed = true;
        note_change(e, &t->change);
}

int lease_engine_restore_enrolment(struct lease_engine *e, const struct lessor_enrolment *from)
{
        struct lessor_slice copy;
        struct enrolment *t;
        int r;

        if (enrolment_find(e, from->hash) != NULL)
                return LESSOR_E_EXISTS;
        r = timer_heap_reserve(&e->enrolment_ends, e->n_enrolments + 1);
        if (r < 0)
                return r;
        t = alloc_with_text(sizeof(*t), from->hash, &copy);
        if (t == NULL)
                return LESSOR_E_NOMEM;
        t->hash = copy;
        t->label = word_get(e, from->label);
        if (t->label == NULL) {
                free(t);
                return LESSOR_E_NOMEM;
        }
        t->change.kind = RECORD_ENROLMENT;
        t->minted_ms = from->minted_ms;
        t->expiry.seq = e->next_timer++;
        timer_set(&e->enrolment_ends, &t->expiry, from->expires_ms);
        table_add(&e->enrolments, &t->node, table_hash(&e->enrolments, t->hash));
        e->n_enrolments++;
        return 0;
}

int lease_engine_mint_enrolment(struct lease_engine *e, struct lessor_slice token_hash,
                                struct lessor_slice label, int64_t ttl_ms, int64_t now_ms,
                                int64_t *ret_expires_ms)
{
        struct lessor_enrolment enrolment = {token_hash, label, now_ms, time_later(now_ms, ttl_ms)};
        int r;

        if (ttl_ms < 1)
                return LESSOR_E_INVALID;
        r = lease_engine_restore_enrolment(e, &enrolment);
        if (r < 0)
                return r;
        note_change(e, &enrolment_find(e, token_hash)->change);
        *ret_expires_ms = enrolment.expires_ms;
        return 0;
}

struct gather {
        struct lessor_enrolment *items;
        size_t n, cap;
        int64_t now_ms;
};

static void gather_enrolment(struct table_node *node, void *context)
{
        const struct enrolment *t = container_of(node, struct enrolment, node);
        struct gather *g = context;
        size_t i = g->n;

        if (t->expiry.at_ms <= g->now_ms)
                return;
        while (i > 0 && g->items[i - 1].expires_ms > t->expiry.at_ms) {
                g->items[i] = g->items[i - 1];
                i--;
        }
        g->items[i] = (struct lessor_enrolment){t->hash, t->label->text, t->minted_ms, t->expiry.at_ms};
        g->n++;
}

int lease_engine_enrolments(const struct lease_engine *e, int64_t now_ms, struct lessor_arena *arena,
                            struct lessor_enrolment_list *ret_enrolments)
{
        struct gather g = {.cap = e->n_enrolments, .now_ms = now_ms};

        g.items = lessor_arena_array(arena, g.cap, sizeof(*g.items));
        if (g.items == NULL)
                return LESSOR_E_NOMEM;
        table_each(&e->enrolments, gather_enrolment, &g);
        for (size_t i = 0; i < g.n; i++) {
                int r = lessor_arena_copy(arena, g.items[i].hash, &g.items[i].hash);

                if (r == 0)
                        r = lessor_arena_copy(arena, g.items[i].label, &g.items[i].label);
                if (r < 0)
                        return r;
        }
        *ret_enrolments = (struct lessor_enrolment_list){g.items, g.n};
        return 0;
}

int lease_engine_revoke_enrolment(struct lease_engine *e, struct lessor_slice token_hash, int64_t now_ms)
{
        struct enrolment *t = enrolment_usable(e, token_hash, now_ms);

        if (t == NULL)
                return LESSOR_E_NOT_FOUND;
        enrolment_remove(e, t);
        return 0;
}

/* A registration as an enrolment makes it. */
static struct lessor_rack registration(const struct lessor_host_info *host, struct lessor_slice rack_id,
                                       int64_t now_ms)
{
        return (struct lessor_rack){
                .rack_id = rack_id,
                .label = host->label,
                .tiers = (struct lessor_slice *)host->tiers,
                .n_tiers = host->n_tiers,
                .capacity = host->capacity,
                .agent_version = host->agent_version,
                .healthy = true,
                .enrolled_ms = now_ms,
                .last_seen_ms = now_ms,
        };
}

int lease_engine_enroll(struct lease_engine *e, struct lessor_slice enrolment_hash,
                        const struct lessor_host_info *host, struct lessor_slice rack_id,
                        struct lessor_slice rack_token_hash, int64_t now_ms, struct lessor_arena *arena,
                        struct lessor_rack *ret_rack)
{
        struct enrolment *enrolment = enrolment_usable(e, enrolment_hash, now_ms);
        struct lessor_rack from = registration(host, rack_id, now_ms);
        struct rack_token *token;
        struct rack *rack;
        int r;

        if (enrolment == NULL)
                return LESSOR_E_NOT_FOUND; /* R002, R004 */
        if (rack_token_find(e, rack_token_hash) != NULL)
                return LESSOR_E_EXISTS;
        r = rack_token_reserve(e);
        if (r < 0)
                return r;
        r = rack_token_new(rack_token_hash, &token);
        if (r < 0)
                return r;
        r = lease_engine_restore_rack(e, &from, e->next_rack);
        if (r < 0) {
                free(token);
                return r;
        }
        rack = rack_registered(e, rack_id);
        r = rack_render(e, rack, now_ms, arena, ret_rack);
        if (r < 0) {
                free(token);
                rack_discard(e, rack);
                return r;
        }
        enrolment_remove(e, enrolment);
        token->status = LESSOR_TOKEN_CURRENT;
        token->issued_ms = now_ms;
        note_change(e, &rack->change);
        note_event(e, &rack->event, LESSOR_EVENT_RACK);
        rack_token_install(e, rack, token);
        note_change(e, &token->change);
        return 0;
}
