/* SPDX-License-Identifier: MIT */
/* Registrations, boots and the security policy (rack-protocol sections 2, 3 and 6). */
#include <stdlib.h>

#include "leasing/engine_internal.h"

int rack_by_order(const struct sorted_node *a, const struct sorted_node *b)
{
        uint64_t x = container_of(a, struct rack, order_node)->order,
                 y = container_of(b, struct rack, order_node)->order;

        return (x > y) - (x < y);
}

/* --- questions --- */

static bool word_is(const struct word *w, struct lessor_slice text)
{
        return w != NULL && text.p != NULL && lessor_slice_equal(w->text, text);
}

static bool is_old(const struct rack *rack)
{
        return lessor_agent_version_cmp(rack->version->text, LESSOR_SLICE(LESSOR_AGENT_FLOOR)) < 0;
}

enum lessor_lease_bar rack_bar(const struct lease_engine *e, const struct rack *rack,
                               struct lessor_slice boot, int64_t now_ms)
{
        if (is_old(rack))
                return LESSOR_BAR_OLD; /* R043, R044 */
        if (e->require_start_approval && !word_is(rack->approved_boot, boot))
                return LESSOR_BAR_QUARANTINE; /* R031, R032: the boot of this very poll */
        if (rack->draining)
                return LESSOR_BAR_DRAINING;
        if (e->options.heed_health && !rack->healthy)
                return LESSOR_BAR_UNHEALTHY;
        if (time_later(rack->last_seen_ms, e->options.healthy_ms) < now_ms)
                return LESSOR_BAR_UNSEEN;
        return LESSOR_BAR_NONE;
}

/* Words are shared, so the same text is the same word. */
static bool is_pending(const struct lease_engine *e, const struct rack *rack)
{
        return e->require_start_approval && rack->last_boot != rack->approved_boot;
}

void rack_borrow(const struct lease_engine *e, const struct rack *rack, int64_t now_ms,
                 struct lessor_rack *ret_rack)
{
        *ret_rack = (struct lessor_rack){
                .rack_id = rack->id,
                .label = word_text(rack->label),
                .n_tiers = rack->n_tiers,
                .capacity = rack->capacity,
                .agent_version = word_text(rack->version),
                .healthy = rack->healthy,
                .last_boot = word_text(rack->last_boot),
                .approved_boot = word_text(rack->approved_boot),
                .enrolled_ms = rack->enrolled_ms,
                .last_seen_ms = rack->last_seen_ms,
                .last_poll_ms = rack->last_poll_ms,
                .last_beat_ms = rack->last_beat_ms,
                .draining = rack->draining,
                .n_leases = rack->n_claimed,
        };
        if (!rack->registered)
                return;
        ret_rack->pending = is_pending(e, rack);
        ret_rack->fit = !ret_rack->pending && rack->healthy && !rack->draining && !is_old(rack) &&
                        time_later(rack->last_seen_ms, e->options.healthy_ms) >= now_ms;
}

int rack_render(const struct lease_engine *e, const struct rack *rack, int64_t now_ms,
                struct lessor_arena *arena, struct lessor_rack *ret_rack)
{
        struct lessor_rack out;

        rack_borrow(e, rack, now_ms, &out);

        struct lessor_slice *const texts[] = {&out.rack_id, &out.label, &out.agent_version, &out.last_boot,
                                              &out.approved_boot};
        for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
                int r = lessor_arena_copy(arena, *texts[i], texts[i]);

                if (r < 0)
                        return r;
        }
        out.tiers = lessor_arena_array(arena, rack->n_tiers, sizeof(*out.tiers));
        if (out.tiers == NULL)
                return LESSOR_E_NOMEM;
        for (size_t i = 0; i < rack->n_tiers; i++) {
                int r = lessor_arena_copy(arena, rack->tiers[i]->text, &out.tiers[i]);

                if (r < 0)
                        return r;
        }
        *ret_rack = out;
        return 0;
}

int lease_engine_rack(const struct lease_engine *e, struct lessor_slice rack_id, int64_t now_ms,
                      struct lessor_arena *arena, struct lessor_rack *ret_rack)
{
        const struct rack *rack = rack_registered(e, rack_id);

        return rack == NULL ? LESSOR_E_NOT_FOUND : rack_render(e, rack, now_ms, arena, ret_rack);
}

int lease_engine_racks(const struct lease_engine *e, int64_t now_ms, struct lessor_arena *arena,
                       struct lessor_rack_list *ret_racks)
{
        struct lessor_rack_list list = {lessor_arena_array(arena, e->n_registered, sizeof(*list.items)), 0};

        if (list.items == NULL)
                return LESSOR_E_NOMEM;
        for (struct sorted_node *n = sorted_first(&e->all_racks); n != NULL;
             n = sorted_next(&e->all_racks, n)) {
                int r = rack_render(e, container_of(n, struct rack, order_node), now_ms, arena,
                                    &list.items[list.n]);

                if (r < 0)
                        return r;
                list.n++;
        }
        *ret_racks = list;
        return 0;
}

/* --- registering --- */

static void words_unref(struct lease_engine *e, struct word **words, size_t n)
{
        for (size_t i = 0; i < n; i++)
                word_unref(e, words[i]);
        free(words);
}

static int words_get(struct lease_engine *e, const struct lessor_slice *texts, size_t n,
                     struct word ***ret_words)
{
        struct word **words = calloc(n == 0 ? 1 : n, sizeof(struct word *));

        if (words == NULL)
                return LESSOR_E_NOMEM;
        for (size_t i = 0; i < n; i++) {
                words[i] = word_get(e, texts[i]);
                if (words[i] == NULL) {
                        words_unref(e, words, i);
                        return LESSOR_E_NOMEM;
                }
        }
        *ret_words = words;
        return 0;
}

static void rack_register(struct lease_engine *e, struct rack *rack)
{
        rack->registered = true;
        sorted_add(&e->all_racks, &rack->order_node, next_rank(e));
        rack->expiry.seq = e->next_timer++;
        if (e->options.rack_expiry_ms > 0)
                timer_set(&e->rack_ends, &rack->expiry,
                          time_later(time_later(rack->last_seen_ms, e->options.rack_expiry_ms), 1));
        e->n_registered++;
}

static bool order_is_behind(const struct sorted_node *node, const void *probe)
{
        return container_of(node, struct rack, order_node)->order >= *(const uint64_t *)probe;
}

int lease_engine_restore_rack(struct lease_engine *e, const struct lessor_rack *from, uint64_t order)
{
        const struct sorted_node *there = sorted_behind(&e->all_racks, &order, order_is_behind);
        struct rack *rack;
        int r;

        if (order == 0 || order == UINT64_MAX)
                return LESSOR_E_INVALID;
        if (rack_registered(e, from->rack_id) != NULL ||
            (there != NULL && container_of(there, struct rack, order_node)->order == order))
                return LESSOR_E_EXISTS;
        r = timer_heap_reserve(&e->rack_ends, e->n_registered + 1);
        if (r < 0)
                return r;
        rack = rack_get(e, from->rack_id);
        if (rack == NULL)
                return LESSOR_E_NOMEM;
        rack->label = word_get(e, from->label);
        rack->version = word_get(e, from->agent_version);
        r = words_get(e, from->tiers, from->n_tiers, &rack->tiers);
        if (r == 0)
                rack->n_tiers = from->n_tiers;
        if (r < 0 || rack->label == NULL || rack->version == NULL ||
            !word_get_if(e, from->last_boot, &rack->last_boot) ||
            !word_get_if(e, from->approved_boot, &rack->approved_boot)) {
                rack_forget_facts(e, rack);
                rack_unref(e, rack);
                return LESSOR_E_NOMEM;
        }
        rack->order = order;
        rack->healthy = from->healthy;
        rack->draining = from->draining;
        rack->capacity = from->capacity;
        rack->enrolled_ms = from->enrolled_ms;
        rack->last_seen_ms = from->last_seen_ms;
        rack->last_poll_ms = from->last_poll_ms;
        rack->last_beat_ms = from->last_beat_ms;
        rack_register(e, rack);
        if (order >= e->next_rack)
                e->next_rack = order + 1;
        return 0;
}

/* Of one that is registered no longer, only its id is left, for as long as leases name it. */
void rack_forget_facts(struct lease_engine *e, struct rack *rack)
{
        rack->label = word_unref(e, rack->label);
        rack->version = word_unref(e, rack->version);
        rack->last_boot = word_unref(e, rack->last_boot);
        rack->approved_boot = word_unref(e, rack->approved_boot);
        words_unref(e, rack->tiers, rack->n_tiers);
        rack->tiers = NULL;
        rack->n_tiers = 0;
}

void rack_discard(struct lease_engine *e, struct rack *rack)
{
        sorted_remove(&e->all_racks, &rack->order_node);
        timer_unset(&e->rack_ends, &rack->expiry);
        e->n_registered--;
        rack->registered = false;
        rack_forget_facts(e, rack);
        rack_unref(e, rack);
}

/* --- the rack's own calls --- */

static bool same_tiers(const struct rack *rack, const struct lessor_slice *tiers, size_t n)
{
        if (rack->n_tiers != n)
                return false;
        for (size_t i = 0; i < n; i++)
                if (!lessor_slice_equal(rack->tiers[i]->text, tiers[i]))
                        return false;
        return true;
}

/* Notes a change that may wait, unless a harder one waits already. */
static void note_seen(struct lease_engine *e, struct rack *rack)
{
        bool hard = rack->hard;

        note_change(e, &rack->change);
        rack->hard = hard;
}

int lease_engine_poll(struct lease_engine *e, struct lessor_slice rack_id, const struct lessor_slice *tiers,
                      size_t n_tiers, int64_t now_ms)
{
        struct rack *rack = rack_registered(e, rack_id);
        struct word **words;
        int r;

        if (rack == NULL)
                return LESSOR_E_NOT_FOUND; /* R011, R012 */
        if (same_tiers(rack, tiers, n_tiers)) {
                note_seen(e, rack);
        } else {
                r = words_get(e, tiers, n_tiers, &words);
                if (r < 0)
                        return r;
                words_unref(e, rack->tiers, rack->n_tiers);
                rack->tiers = words; /* R042 */
                rack->n_tiers = n_tiers;
                note_change(e, &rack->change);
        }
        rack->last_seen_ms = rack->last_poll_ms = now_ms;
        return 0;
}

/* Whether this beat draws a successor, and the unused one that it replaces. R020, R021, R025 to R028 */
static bool successor_is_due(const struct lease_engine *e, const struct rack *rack,
                             const struct lessor_rack_beat *beat, int64_t now_ms,
                             struct rack_token **ret_stale)
{
        const struct rack_token *token = rack_token_find(e, beat->token_hash);

        *ret_stale = NULL;
        if (beat->token_status != LESSOR_TOKEN_CURRENT || token == NULL || token->rack != rack ||
            token->status != LESSOR_TOKEN_CURRENT ||
            time_later(token->issued_ms, e->options.rotation_ms) >= now_ms)
                return false;
        for (struct rack_token *t = rack->tokens; t != NULL; t = t->next)
                if (t->status == LESSOR_TOKEN_PENDING)
                        *ret_stale = t;
        return *ret_stale == NULL || time_later((*ret_stale)->issued_ms, e->options.reoffer_ms) < now_ms;
}

/* What a beat needs before anything changes. */
struct beat_plan {
        struct word *version, *boot;
        struct rack_token *successor, *stale;
        struct lessor_rack_beaten beaten;
};

static int plan_beat(struct lease_engine *e, struct rack *rack, const struct lessor_rack_beat *beat,
                     int64_t now_ms, struct lessor_arena *arena, struct beat_plan *p)
{
        int r;

        r = lease_engine_must_stop(e, beat->rack_id, beat->running, beat->n_running, now_ms, arena,
                                   &p->beaten.stop);
        if (r < 0)
                return r;
        p->version = word_get(e, beat->agent_version);
        p->boot = word_get(e, beat->boot_id);
        if (p->version == NULL || p->boot == NULL)
                return LESSOR_E_NOMEM;
        if (!successor_is_due(e, rack, beat, now_ms, &p->stale))
                return 0;
        if (rack_token_find(e, beat->successor_hash) != NULL)
                return LESSOR_E_EXISTS;
        r = rack_token_reserve(e);
        if (r < 0)
                return r;
        return rack_token_new(beat->successor_hash, &p->successor);
}

static void note_beat(struct lease_engine *e, struct rack *rack, const struct lessor_rack_beat *beat,
                      struct beat_plan *p, int64_t now_ms)
{
        bool first = rack->last_boot == NULL && rack->approved_boot == NULL;
        bool changed =
                rack->healthy != beat->healthy || rack->version != p->version || rack->last_boot != p->boot;

        if (first)
                rack->approved_boot =
                        word_ref(p->boot); /* R030: adopted, since minting its token authorised it */
        word_unref(e, rack->version);
        word_unref(e, rack->last_boot);
        rack->version = TAKE(p->version);
        rack->last_boot = TAKE(p->boot);
        rack->healthy = beat->healthy;
        rack->last_seen_ms = rack->last_beat_ms = now_ms;
        if (first || changed)
                note_change(e, &rack->change);
        else
                note_seen(e, rack);
        if (changed)
                note_event(e, &rack->event, LESSOR_EVENT_RACK);
}

static void offer(struct lease_engine *e, struct rack *rack, struct beat_plan *p, int64_t now_ms)
{
        if (p->successor == NULL)
                return;
        if (p->stale != NULL)
                rack_token_remove(e, p->stale);
        p->successor->status = LESSOR_TOKEN_PENDING;
        p->successor->issued_ms = now_ms;
        rack_token_install(e, rack, p->successor);
        note_change(e, &p->successor->change);
        p->beaten.offered = true;
}

int lease_engine_heartbeat(struct lease_engine *e, const struct lessor_rack_beat *beat, int64_t now_ms,
                           struct lessor_arena *arena, struct lessor_rack_beaten *ret_beaten)
{
        struct rack *rack = rack_registered(e, beat->rack_id);
        struct beat_plan p = {0};
        int r;

        if (rack == NULL)
                return LESSOR_E_NOT_FOUND; /* R013 */
        r = plan_beat(e, rack, beat, now_ms, arena, &p);
        if (r < 0) {
                word_unref(e, p.version);
                word_unref(e, p.boot);
                return r;
        }
        note_beat(e, rack, beat, &p, now_ms);
        /* R033: after its own update */
        p.beaten.pending_approval = e->require_start_approval && !word_is(rack->approved_boot, beat->boot_id);
        offer(e, rack, &p, now_ms);
        *ret_beaten = p.beaten;
        return 0;
}

/* --- the operator's --- */

int lease_engine_approve(struct lease_engine *e, struct lessor_slice rack_id, struct lessor_slice boot_id)
{
        struct rack *rack = rack_registered(e, rack_id);

        if (rack == NULL)
                return LESSOR_E_NOT_FOUND;
        if (!word_is(rack->last_boot, boot_id))
                return LESSOR_E_BOOT_CHANGED; /* R035 */
        if (rack->approved_boot == rack->last_boot)
                return 0;
        word_unref(e, rack->approved_boot);
        rack->approved_boot = word_ref(rack->last_boot);
        note_change(e, &rack->change);
        note_event(e, &rack->event, LESSOR_EVENT_RACK); /* R034 */
        return 0;
}

int lease_engine_drain(struct lease_engine *e, struct lessor_slice rack_id, bool draining)
{
        struct rack *rack = rack_registered(e, rack_id);

        if (rack == NULL)
                return LESSOR_E_NOT_FOUND;
        if (rack->draining == draining)
                return 0;
        rack->draining = draining;
        note_change(e, &rack->change);
        note_event(e, &rack->event, LESSOR_EVENT_RACK);
        return 0;
}

/* R011: the registration first, then the tokens, then the leases. */
size_t rack_deregister(struct lease_engine *e, struct rack *rack, int64_t now_ms)
{
        struct sorted_node *n;
        size_t n_leases = 0;

        note_change(e, &rack->change);
        note_event(e, &rack->event, LESSOR_EVENT_RACK);
        while (rack->tokens != NULL)
                rack_token_remove(e, rack->tokens);
        while ((n = sorted_first(&rack->claimed)) != NULL) {
                lease_end(e, container_of(n, struct lease, claimed_node), LESSOR_LEASE_SUPERSEDED,
                          LESSOR_CAUSE_DEREGISTERED, NULL, now_ms);
                n_leases++;
        }
        rack_discard(e, rack);
        return n_leases;
}

int lease_engine_deregister(struct lease_engine *e, struct lessor_slice rack_id, int64_t now_ms,
                            size_t *ret_n_leases)
{
        struct rack *rack = rack_registered(e, rack_id);
        size_t n;

        if (rack == NULL)
                return LESSOR_E_NOT_FOUND;
        settle(e, now_ms);
        n = rack_deregister(e, rack, now_ms);
        if (ret_n_leases != NULL)
                *ret_n_leases = n;
        return 0;
}

bool lease_engine_policy(const struct lease_engine *e)
{
        return e->require_start_approval;
}

void lease_engine_set_policy(struct lease_engine *e, bool require_start_approval)
{
        if (e->require_start_approval == require_start_approval)
                return;
        e->require_start_approval = require_start_approval;
        note_change(e, &e->policy_change);
        note_event(e, &e->policy_event, LESSOR_EVENT_POLICY);
}

void lease_engine_restore_policy(struct lease_engine *e, bool require_start_approval)
{
        e->require_start_approval = require_start_approval;
}
