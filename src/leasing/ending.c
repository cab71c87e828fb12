/* SPDX-License-Identifier: MIT */
/* How a host ends leases, starts them again, and asks why they wait. */
#include "leasing/engine_internal.h"

/* A subscriber leaves; whether it was the last. */
static bool leave(struct lease_engine *e, struct lease *lease, struct lessor_slice text)
{
        struct key *key = key_find(e, lease->owner->text, text);

        if (key == NULL || key->lease != lease)
                return false;
        if (!key->left) {
                key->left = true;
                note_change(e, &key->change);
        }
        for (key = lease->keys; key != NULL; key = key->next)
                if (!key->left)
                        return false;
        return true;
}

int lease_engine_end(struct lease_engine *e, const struct lessor_lease_name *name,
                     enum lessor_lease_ending ending, struct lessor_slice key, struct lessor_slice reason,
                     int64_t now_ms, struct lessor_arena *arena, struct lessor_lease *ret_lease)
{
        struct lease *lease = lease_engine_find_lease(e, name);
        struct word *word = NULL;
        int r;

        if (lease == NULL)
                return LESSOR_E_NOT_FOUND;
        settle(e, now_ms);
        if (!word_get_if(e, reason, &word))
                return LESSOR_E_NOMEM;
        /* The texts first, since a copy can fail; the rest of it afterwards, when it is what it will be. */
        r = lease_render(e, lease, now_ms, arena, ret_lease);
        if (r < 0) {
                word_unref(e, word);
                return r;
        }
        if (!lease_is_open(lease) ||
            (key.p != NULL && ending == LESSOR_END_CANCEL && !leave(e, lease, key))) {
                word_unref(e, word); /* R091 */
                return 0;
        }
        if (ending == LESSOR_END_CANCEL)
                lease_end(e, lease, LESSOR_LEASE_CANCELLED, LESSOR_CAUSE_CANCELLED, word, now_ms);
        else
                lease_end(e, lease, LESSOR_LEASE_SUPERSEDED, LESSOR_CAUSE_SUPERSEDED, word, now_ms);
        ret_lease->status = lease->status;
        ret_lease->view = ending == LESSOR_END_CANCEL ? LESSOR_VIEW_CANCELLED : LESSOR_VIEW_SUPERSEDED;
        ret_lease->held = false;
        ret_lease->cause = lease->cause;
        ret_lease->ended_ms = lease->ended_ms;
        return 0;
}

int lease_engine_cancel_run(struct lease_engine *e, struct lessor_slice run_name, struct lessor_slice reason,
                            int64_t now_ms, size_t *ret_n)
{
        struct run *run = run_find(e, run_name);
        struct word *word = NULL;
        size_t n = 0;

        settle(e, now_ms);
        if (!word_get_if(e, reason, &word))
                return LESSOR_E_NOMEM;
        for (struct sorted_node *at = run == NULL ? NULL : sorted_first(&run->leases); at != NULL;
             at = sorted_next(&run->leases, at)) {
                struct lease *lease = container_of(at, struct lease, run_node);

                if (!lease_is_open(lease))
                        continue;
                lease_end(e, lease, LESSOR_LEASE_CANCELLED, LESSOR_CAUSE_CANCELLED, word_ref(word), now_ms);
                n++;
        }
        word_unref(e, word);
        *ret_n = n;
        return 0;
}

int lease_engine_replay(struct lease_engine *e, const struct lessor_lease_name *name, int64_t now_ms,
                        struct lessor_arena *arena, struct lessor_lease *ret_lease)
{
        struct lease *lease = lease_engine_find_lease(e, name);
        int r;

        if (lease == NULL)
                return LESSOR_E_NOT_FOUND;
        settle(e, now_ms);
        if (lease->status != LESSOR_LEASE_POISONED && lease->status != LESSOR_LEASE_EXPIRED)
                return LESSOR_E_TERMINAL;
        r = lease_render(e, lease, now_ms, arena, ret_lease);
        if (r < 0)
                return r;
        lease->attempts_spent = 0;
        lease->expires_ms = 0;
        lease_requeue(e, lease, LESSOR_CAUSE_NONE, now_ms);
        ret_lease->status = LESSOR_LEASE_PENDING;
        ret_lease->view = LESSOR_VIEW_PENDING;
        ret_lease->held = true;
        ret_lease->cause = LESSOR_CAUSE_NONE;
        ret_lease->attempts_spent = ret_lease->claim_number = 0;
        ret_lease->expires_ms = ret_lease->ended_ms = ret_lease->deadline_ms = ret_lease->claimed_ms = 0;
        ret_lease->claimed_by = ret_lease->attempt = (struct lessor_slice){0};
        return 0;
}

/* --- why --- */

static bool polls_for(const struct rack *rack, const struct word *tier)
{
        for (size_t i = 0; i < rack->n_tiers; i++)
                if (rack->tiers[i] == tier)
                        return true;
        return false;
}

static enum lessor_lease_bar explain_lease(const struct lease *lease, int64_t now_ms)
{
        if (!lease_is_open(lease) || (lease->status == LESSOR_LEASE_CLAIMED && lease->deadline_ms >= now_ms))
                return LESSOR_BAR_STATUS;
        if (lease->event_version != LESSOR_EVENT_VERSION)
                return LESSOR_BAR_EVENT;
        return lease->queued ? LESSOR_BAR_NONE : LESSOR_BAR_SPENT;
}

static enum lessor_lease_bar explain(const struct lease_engine *e, const struct lease *lease,
                                     const struct rack *rack, int64_t now_ms)
{
        struct lessor_slice boot = word_text(rack->last_boot);
        struct lessor_lease_claim claim = {.rack_id = rack->id,
                                           .boot_id = boot.p == NULL ? LESSOR_SLICE("") : boot};
        struct asking ask = {
                .claim = &claim, .rack = rack, .bundled = lessor_agent_bundled_e3(rack->version->text)};
        enum lessor_lease_bar bar = explain_lease(lease, now_ms);

        if (bar == LESSOR_BAR_NONE && !polls_for(rack, lease->lane->of_tier->scope->tier))
                bar = LESSOR_BAR_TIER;
        if (bar == LESSOR_BAR_NONE)
                bar = rack_bar(e, rack, boot, now_ms);
        if (bar == LESSOR_BAR_NONE)
                bar = lane_bar(lease->lane, &ask);
        return bar == LESSOR_BAR_NONE ? lease_bar(lease, &ask) : bar;
}

int lease_engine_explain(struct lease_engine *e, const struct lessor_lease_name *name, int64_t now_ms,
                         struct lessor_arena *arena, struct lessor_lease_why_list *ret_why)
{
        const struct lease *lease = lease_engine_find_lease(e, name);
        struct lessor_lease_why_list list = {lessor_arena_array(arena, e->n_registered, sizeof(*list.items)),
                                             0};

        if (lease == NULL)
                return LESSOR_E_NOT_FOUND;
        if (list.items == NULL)
                return LESSOR_E_NOMEM;
        settle(e, now_ms);
        for (struct sorted_node *n = sorted_first(&e->all_racks); n != NULL;
             n = sorted_next(&e->all_racks, n)) {
                const struct rack *rack = container_of(n, struct rack, order_node);
                struct lessor_lease_why *why = &list.items[list.n++];
                int r = lessor_arena_copy(arena, rack->id, &why->rack_id);

                if (r < 0)
                        return r;
                why->bar = explain(e, lease, rack, now_ms);
        }
        *ret_why = list;
        return 0;
}
