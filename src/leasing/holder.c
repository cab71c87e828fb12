/* SPDX-License-Identifier: MIT */
/* Leases from a rack's side: claim, hold, extend, complete. */
#include <stdlib.h>

#include "leasing/engine_internal.h"

/* --- claiming --- */

/* Judges the rack as a whole. Returns 0 and its bar, or an error that says it all. */
static int judge_rack(const struct lease_engine *e, const struct lessor_lease_claim *claim, int64_t now_ms,
                      struct asking *ret_ask)
{
        const struct rack *rack = rack_registered(e, claim->rack_id);

        if (rack == NULL)
                return LESSOR_E_NOT_FOUND; /* R012 */
        *ret_ask = (struct asking){
                .claim = claim,
                .rack = rack,
                .bundled = lessor_agent_bundled_e3(rack->version->text),
                .bar = rack_bar(e, rack, claim->boot_id, now_ms),
        };
        return ret_ask->bar == LESSOR_BAR_OLD ? LESSOR_E_AGENT_TOO_OLD : 0; /* R043 */
}

static void grant(struct lease_engine *e, struct lease *lease, struct attempt *a, int64_t now_ms)
{
        lease_leave(e, lease);
        if (lease->current != NULL) { /* R054 */
                attempt_end(e, lease->current, LESSOR_ATTEMPT_INTERRUPTED, LESSOR_CAUSE_RECLAIMED, NULL,
                            now_ms);
                capabilities_end(e, lease);
        }
        attempt_append(a);
        lease->current = a;
        lease_place_recent(e, lease);
        lease->status = LESSOR_LEASE_CLAIMED;
        lease->lapsed = false;
        lease->deadline_ms = time_later(now_ms, e->options.visibility_ms); /* R051 */
        lease->attempts_spent++;
        lease_enter(e, lease);
        note_change(e, &lease->change);
        note_change(e, &a->change);
        if (e->turn != lease->lane->of_tier->owner) {
                word_unref(e, e->turn);
                e->turn = word_ref(lease->lane->of_tier->owner);
                note_change(e, &e->turn_change);
        }
        note_event(e, &lease->event, LESSOR_EVENT_CLAIMED);
}

/* What the answer says of a lease that is about to be granted. */
static int render_grant(struct lease_engine *e, const struct lease *lease, const struct attempt *a,
                        int64_t now_ms, struct lessor_arena *arena, struct lessor_lease *ret_lease)
{
        int r = lease_render(e, lease, now_ms, arena, ret_lease);

        if (r == 0)
                r = lessor_arena_copy(arena, a->rack->id, &ret_lease->claimed_by);
        if (r == 0)
                r = lessor_arena_copy(arena, a->execution_id, &ret_lease->attempt);
        if (r < 0)
                return r;
        ret_lease->status = LESSOR_LEASE_CLAIMED;
        ret_lease->view = LESSOR_VIEW_CLAIMED;
        ret_lease->held = true;
        ret_lease->claimed_ms = now_ms;
        ret_lease->claim_number = (unsigned)lease->n_attempts + 1;
        ret_lease->deadline_ms = time_later(now_ms, e->options.visibility_ms);
        ret_lease->attempts_spent++;
        return 0;
}

static int grant_lease(struct lease_engine *e, struct lease *lease, const struct asking *ask,
                       struct lessor_slice execution_id, int64_t now_ms, struct lessor_arena *arena,
                       struct lessor_lease *ret_lease)
{
        const struct lessor_lease_claim *c = ask->claim;
        struct attempt *a;
        int r;

        if (lease->mode == LESSOR_LEASE_FUNCTION)
                execution_id = (struct lessor_slice){0}; /* R052 */
        r = attempt_reserve(lease);
        if (r < 0)
                return r;
        r = attempt_new(e, lease, c->rack_id, c->boot_id, execution_id, &a);
        if (r < 0)
                return r;
        a->started_ms = now_ms;
        /* Its earlier self under the same boot may still be talking. */
        a->must_name = c->names_attempts && lease_was_claimed_by(lease, ask->rack, c->boot_id);
        r = render_grant(e, lease, a, now_ms, arena, ret_lease);
        if (r < 0) {
                attempt_free(e, a);
                return r;
        }
        grant(e, lease, a, now_ms);
        return 0;
}

int lease_engine_claim(struct lease_engine *e, const struct lessor_lease_claim *claim, int64_t now_ms,
                       struct lessor_slice execution_id, struct lessor_arena *arena,
                       struct lease **ret_handle, struct lessor_lease_grant *ret_grant)
{
        struct asking ask;
        struct lease *lease;
        int r;

        settle(e, now_ms);
        r = judge_rack(e, claim, now_ms, &ask);
        if (r < 0)
                return r;
        lease = ask.bar == LESSOR_BAR_NONE ? queue_pick(e, &ask, e->turn) : NULL;
        if (lease == NULL) {
                *ret_grant = (struct lessor_lease_grant){.bar = ask.bar};
                return 0;
        }
        *ret_grant = (struct lessor_lease_grant){.granted = true};
        r = grant_lease(e, lease, &ask, execution_id, now_ms, arena, &ret_grant->lease);
        if (r == 0)
                *ret_handle = lease;
        return r;
}

int lease_engine_candidates(struct lease_engine *e, const struct lessor_lease_claim *claim, size_t max,
                            int64_t now_ms, struct lessor_arena *arena, struct lease ***ret_handles,
                            struct lessor_lease_list *ret_leases)
{
        const struct word *turn = e->turn;
        size_t cap = max < e->n_leases ? max : e->n_leases, n = 0;
        struct lease **found = lessor_arena_array(arena, cap, sizeof(struct lease *));
        struct asking ask;
        int r;

        if (found == NULL)
                return LESSOR_E_NOMEM;
        settle(e, now_ms);
        r = judge_rack(e, claim, now_ms, &ask);
        if (r < 0)
                return r;
        /* 0 says that a lease was never listed. */
        ask.skip = ++e->n_listings == 0 ? ++e->n_listings : e->n_listings;
        while (ask.bar == LESSOR_BAR_NONE && n < cap) {
                struct lease *lease = queue_pick(e, &ask, turn);

                if (lease == NULL)
                        break;
                lease->seen_by = ask.skip;
                turn = lease->lane->of_tier->owner;
                found[n++] = lease;
                ask.bar = LESSOR_BAR_NONE;
        }
        *ret_handles = found;
        return lease_list_render(e, found, n, now_ms, arena, ret_leases);
}

int lease_engine_undeliver(struct lease_engine *e, const struct lessor_lease_name *name,
                           unsigned claim_number, int64_t now_ms)
{
        struct lease *lease = lease_engine_find_lease(e, name);

        settle(e, now_ms);
        if (lease == NULL || lease->status != LESSOR_LEASE_CLAIMED || lease->current->number != claim_number)
                return LESSOR_E_NOT_HELD;
        /* Out of the queue and the recent ones while what they are sorted by changes. */
        lease->current->counts = false;
        if (lease->attempts_spent > 0)
                lease->attempts_spent--;
        note_change(e, &lease->current->change);
        lease_place_recent(e, lease);
        lease_requeue(e, lease, LESSOR_CAUSE_UNDELIVERED, now_ms);
        return 0;
}

/* --- holding --- */

int lease_engine_hold(struct lease_engine *e, const struct lessor_lease_holder *holder, int64_t now_ms,
                      struct lease **ret_handle)
{
        struct lease *lease = lease_engine_find_lease(e, &holder->name);

        settle(e, now_ms);
        if (lease == NULL || !lease_is_held_by(lease, holder->rack_id, holder->attempt))
                return LESSOR_E_NOT_HELD;
        *ret_handle = lease;
        return 0;
}

int lease_engine_extend(struct lease_engine *e, const struct lessor_lease_holder *holder, int64_t now_ms,
                        int64_t *ret_deadline_ms)
{
        struct lease *lease;
        int r = lease_engine_hold(e, holder, now_ms, &lease);

        if (r < 0)
                return r; /* R065 */
        lease_leave(e, lease);
        lease->lapsed = false; /* R066 */
        lease->deadline_ms = time_later(now_ms, e->options.visibility_ms);
        lease_enter(e, lease);
        note_change(e, &lease->change);
        note_event(e, &lease->event, LESSOR_EVENT_EXTENDED);
        *ret_deadline_ms = lease->deadline_ms;
        return 0;
}

/* R057 to R062 */
static bool must_stop(const struct lease *lease, struct lessor_slice rack_id)
{
        if (lease == NULL)
                return true;
        switch (lease->status) {
        case LESSOR_LEASE_PENDING:
        case LESSOR_LEASE_COMPLETED:
                return false;
        case LESSOR_LEASE_CLAIMED:
                return !lessor_slice_equal(lease->current->rack->id, rack_id);
        case LESSOR_LEASE_SUPERSEDED:
        case LESSOR_LEASE_CANCELLED:
        case LESSOR_LEASE_POISONED:
        case LESSOR_LEASE_EXPIRED:
                return true;
        }
        return true;
}

int lease_engine_must_stop(struct lease_engine *e, struct lessor_slice rack_id,
                           const struct lessor_lease_name *names, size_t n_names, int64_t now_ms,
                           struct lessor_arena *arena, struct lessor_index_list *ret_stop)
{
        struct lessor_index_list list = {lessor_arena_array(arena, n_names, sizeof(*list.items)), 0};

        if (list.items == NULL)
                return LESSOR_E_NOMEM;
        settle(e, now_ms);
        for (size_t i = 0; i < n_names; i++) /* R063 */
                if (must_stop(lease_engine_find_lease(e, &names[i]), rack_id))
                        list.items[list.n++] = i;
        *ret_stop = list;
        return 0;
}

/* --- completing --- */

/* Section 10's table, from its top. */
static enum lessor_attempt_state outcome(const struct lessor_verdict *v)
{
        if (v->cancelled)
                return LESSOR_ATTEMPT_CANCELLED; /* R093 */
        if (v->error)
                return LESSOR_ATTEMPT_ERROR;
        return v->success ? LESSOR_ATTEMPT_SUCCESS : LESSOR_ATTEMPT_FAILED;
}

static void record(struct lease_engine *e, struct lease *lease, const struct lessor_verdict *v,
                   struct word *message, struct word *output_hash, int64_t now_ms)
{
        struct attempt *a = lease->current;

        lease->success = v->success;
        lease->error = v->error;
        lease->cancelled = v->cancelled;
        a->has_peak_bytes = v->has_peak_bytes;
        a->peak_bytes = v->peak_bytes;
        a->has_exit_code = v->has_exit_code || outcome(v) == LESSOR_ATTEMPT_FAILED; /* R094 */
        a->exit_code = v->has_exit_code ? v->exit_code : a->has_exit_code ? -1 : 0;
        a->output_hash = output_hash;
        attempt_end(e, a, outcome(v), LESSOR_CAUSE_NONE, message, now_ms);
        lease->result_changed = true;
        lease_end(e, lease, LESSOR_LEASE_COMPLETED, LESSOR_CAUSE_NONE, NULL, now_ms);
}

/* The staged output is no longer one to be discarded. */
static int take_upload(struct lease_engine *e, const struct lease *lease, struct lessor_slice upload_id,
                       int64_t now_ms, struct capability **ret_upload)
{
        struct capability *c;

        *ret_upload = NULL;
        if (upload_id.p == NULL)
                return 0;
        c = capability_find(e, upload_id);
        if (c == NULL || c->lease != lease || c->kind != LESSOR_CAPABILITY_PUT_STAGED || c->receipt == NULL ||
            c->expires_ms <= now_ms)
                return LESSOR_E_NOT_FOUND;
        *ret_upload = c;
        return 0;
}

int lease_engine_complete(struct lease_engine *e, const struct lessor_lease_completion *completion,
                          int64_t now_ms, struct lease **ret_handle, enum lessor_completed *ret_how)
{
        const struct lessor_verdict *v = &completion->verdict;
        struct lease *lease = lease_engine_find_lease(e, &completion->holder.name);
        struct word *message = NULL, *output_hash = NULL;
        struct capability *upload = NULL;
        int r;

        settle(e, now_ms);
        if (lease != NULL && lease->status == LESSOR_LEASE_COMPLETED) { /* R068, R069: whoever asks */
                *ret_handle = lease;
                *ret_how = LESSOR_COMPLETED_IDEMPOTENT;
                return 0;
        }
        if (lease == NULL ||
            !lease_is_held_by(lease, completion->holder.rack_id, completion->holder.attempt)) {
                *ret_handle = NULL; /* R070, R071, R072 */
                *ret_how = LESSOR_COMPLETED_DISCARDED;
                return 0;
        }
        if (v->success && lease->mode != LESSOR_LEASE_FUNCTION && v->output_hash.p == NULL)
                return LESSOR_E_INVALID; /* R087 */
        if (v->success) {
                r = take_upload(e, lease, completion->upload_id, now_ms, &upload);
                if (r < 0)
                        return r;
        }
        if (!word_get_if(e, v->message, &message) || !word_get_if(e, v->output_hash, &output_hash)) {
                word_unref(e, message);
                return LESSOR_E_NOMEM;
        }
        if (upload != NULL)
                upload->committed = true;
        record(e, lease, v, message, output_hash, now_ms);
        *ret_handle = lease;
        *ret_how = LESSOR_COMPLETED_RECORDED;
        return 0;
}
