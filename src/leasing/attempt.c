/* SPDX-License-Identifier: MIT */
/* One claim of a lease. Functions have them too, without an execution id: who claimed counts for them as
 * well. */
#include <stdlib.h>

#include "base/size.h"
#include "leasing/engine_internal.h"

int attempt_new(struct lease_engine *e, struct lease *lease, struct lessor_slice rack_id,
                struct lessor_slice boot, struct lessor_slice execution_id, struct attempt **ret_attempt)
{
        struct lessor_slice copy;
        struct attempt *a = alloc_with_text(sizeof(*a), execution_id, &copy);

        if (a == NULL)
                return LESSOR_E_NOMEM;
        if (execution_id.p != NULL)
                a->execution_id = copy;
        a->change.kind = a->event.kind = RECORD_ATTEMPT;
        a->lease = lease;
        a->rack = rack_get(e, rack_id);
        a->boot = word_get(e, boot);
        a->counts = true;
        if (a->rack == NULL || a->boot == NULL) {
                attempt_free(e, a);
                return LESSOR_E_NOMEM;
        }
        *ret_attempt = a;
        return 0;
}

struct attempt *attempt_free(struct lease_engine *e, struct attempt *a)
{
        if (a == NULL)
                return NULL;
        rack_unref(e, a->rack);
        word_unref(e, a->boot);
        word_unref(e, a->reason);
        word_unref(e, a->output_hash);
        free(a);
        return NULL;
}

int attempt_reserve(struct lease *lease)
{
        size_t cap, bytes;
        struct attempt **more;

        if (lease->n_attempts < lease->attempts_cap)
                return 0;
        if (lease->n_attempts >= UINT32_MAX)
                return LESSOR_E_NOMEM;
        if (!size_mul(lease->attempts_cap == 0 ? 1 : lease->attempts_cap, 2, &cap) ||
            !size_mul(cap, sizeof(struct attempt *), &bytes))
                return LESSOR_E_NOMEM;
        more = realloc(lease->attempts, bytes);
        if (more == NULL)
                return LESSOR_E_NOMEM;
        lease->attempts = more;
        lease->attempts_cap = cap;
        return 0;
}

void attempt_append(struct attempt *a)
{
        struct lease *lease = a->lease;

        a->number = (unsigned)lease->n_attempts + 1;
        lease->attempts[lease->n_attempts++] = a;
}

void attempt_end(struct lease_engine *e, struct attempt *a, enum lessor_attempt_state state,
                 enum lessor_cause cause, struct word *reason, int64_t now_ms)
{
        if (a == NULL || a->state != LESSOR_ATTEMPT_RUNNING) {
                word_unref(e, reason);
                return;
        }
        a->state = state;
        a->cause = cause;
        a->reason = reason;
        a->ended_ms = now_ms;
        note_change(e, &a->change);
        if (a->execution_id.p != NULL && cause != LESSOR_CAUSE_NONE)
                note_event(e, &a->event, LESSOR_EVENT_ATTEMPT_ENDED);
}

bool lease_was_claimed_by(const struct lease *lease, const struct rack *rack, struct lessor_slice boot)
{
        for (size_t i = 0; i < lease->n_attempts; i++) {
                const struct attempt *a = lease->attempts[i];

                if (a->counts && a->rack == rack &&
                    (boot.p == NULL || lessor_slice_equal(a->boot->text, boot)))
                        return true;
        }
        return false;
}

void lease_place_recent(struct lease_engine *e, struct lease *lease)
{
        struct attempt *last = NULL;

        for (size_t i = lease->n_attempts; i > 0 && last == NULL; i--)
                if (lease->attempts[i - 1]->counts)
                        last = lease->attempts[i - 1];
        if (lease->latest != NULL)
                sorted_remove(&lease->latest->rack->recent, &lease->recent_node);
        lease->latest = last;
        if (last != NULL)
                sorted_add(&last->rack->recent, &lease->recent_node, next_rank(e));
}

void attempt_borrow(const struct attempt *a, struct lessor_attempt *ret_attempt)
{
        *ret_attempt = (struct lessor_attempt){
                .number = a->number,
                .execution_id = a->execution_id,
                .rack_id = a->rack->id,
                .boot_id = a->boot->text,
                .started_ms = a->started_ms,
                .ended_ms = a->ended_ms,
                .state = a->state,
                .cause = a->cause,
                .reason = word_text(a->reason),
                .output_hash = word_text(a->output_hash),
                .has_exit_code = a->has_exit_code,
                .exit_code = a->exit_code,
                .has_peak_bytes = a->has_peak_bytes,
                .peak_bytes = a->peak_bytes,
                .counts = a->counts,
        };
}
