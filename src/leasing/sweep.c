/* SPDX-License-Identifier: MIT */
/* What comes due. None of it needs memory, so none of it can fail half way. */
#include "leasing/engine_internal.h"

/* The deadline has passed, and others may claim it from now on; its claimant may still extend or complete. */
static void lapse(struct lease_engine *e, struct lease *lease)
{
        lease_leave(e, lease);
        lease->lapsed = true;
        lease_enter(e, lease);
        if (lease->queued)
                note_event(e, &lease->event, LESSOR_EVENT_CLAIMABLE);
}

static size_t settle_lapses(struct lease_engine *e, int64_t now_ms)
{
        struct timer *t;
        size_t n = 0;

        while ((t = timer_due(&e->lapses, now_ms)) != NULL) {
                lapse(e, container_of(t, struct lease, timer));
                n++;
        }
        return n;
}

static size_t settle_ttls(struct lease_engine *e, int64_t now_ms)
{
        struct timer *t;
        size_t n = 0;

        while ((t = timer_due(&e->ttls, now_ms)) != NULL) {
                struct lease *lease = container_of(t, struct lease, ttl);

                lease_end(e, lease, LESSOR_LEASE_EXPIRED,
                          lease->lapsed ? LESSOR_CAUSE_LOST : LESSOR_CAUSE_NONE, NULL, now_ms);
                n++;
        }
        return n;
}

void settle(struct lease_engine *e, int64_t now_ms)
{
        settle_lapses(e, now_ms);
        settle_ttls(e, now_ms);
}

/*
 * Nobody has taken it up for as long again as its claim was good for. Without an attempt limit it is the
 * host's to decide what becomes of the work (section 18, sweep); with one, it is ours.
 */
static void lose(struct lease_engine *e, struct lease *lease, int64_t now_ms)
{
        note_event(e, &lease->event, LESSOR_EVENT_LOST);
        if (lease->attempt_limit == 0)
                lease_end(e, lease, LESSOR_LEASE_SUPERSEDED, LESSOR_CAUSE_LOST, NULL, now_ms);
        else if (lease->attempts_spent < lease->attempt_limit)
                lease_requeue(e, lease, LESSOR_CAUSE_LOST, now_ms);
        else
                lease_end(e, lease, LESSOR_LEASE_POISONED, LESSOR_CAUSE_LOST, NULL, now_ms);
}

static void sweep_ends(struct lease_engine *e, int64_t now_ms, struct lessor_lease_swept *swept)
{
        struct timer *t;

        while ((t = timer_due(&e->ends, now_ms)) != NULL) {
                struct lease *lease = container_of(t, struct lease, timer);

                if (lease->status == LESSOR_LEASE_CLAIMED) {
                        lose(e, lease, now_ms);
                        swept->n_lost++;
                } else {
                        lease_remove(e, lease);
                        swept->n_forgotten++;
                }
        }
}

static void sweep_racks(struct lease_engine *e, int64_t now_ms, struct lessor_lease_swept *swept)
{
        struct timer *t;

        while ((t = timer_due(&e->rack_ends, now_ms)) != NULL) {
                struct rack *rack = container_of(t, struct rack, expiry);
                int64_t end_ms = time_later(time_later(rack->last_seen_ms, e->options.rack_expiry_ms), 1);

                /* The timer does not follow every beat; it is set on when it rings. */
                if (end_ms > now_ms) {
                        timer_set(&e->rack_ends, &rack->expiry, end_ms);
                } else {
                        rack_deregister(e, rack, now_ms);
                        swept->n_racks++;
                }
        }
}

static void sweep_credentials(struct lease_engine *e, int64_t now_ms, struct lessor_lease_swept *swept)
{
        struct timer *t;

        while ((t = timer_due(&e->graces, now_ms)) != NULL) {
                rack_token_remove(e, container_of(t, struct rack_token, grace));
                swept->n_dropped++;
        }
        while ((t = timer_due(&e->enrolment_ends, now_ms)) != NULL) {
                enrolment_remove(e, container_of(t, struct enrolment, expiry));
                swept->n_dropped++;
        }
        while ((t = timer_due(&e->capability_ends, now_ms)) != NULL) {
                capability_remove(e, container_of(t, struct capability, expiry));
                swept->n_dropped++;
        }
}

void lease_engine_sweep(struct lease_engine *e, int64_t now_ms, struct lessor_lease_swept *ret_swept)
{
        struct lessor_lease_swept swept = {0};

        swept.n_lapsed = settle_lapses(e, now_ms);
        swept.n_expired = settle_ttls(e, now_ms);
        sweep_racks(e, now_ms, &swept);
        sweep_ends(e, now_ms, &swept);
        sweep_credentials(e, now_ms, &swept);
        if (ret_swept != NULL)
                *ret_swept = swept;
}

int64_t lease_engine_next_due_ms(const struct lease_engine *e)
{
        const struct timer_heap *const heaps[] = {&e->lapses,         &e->ends,      &e->ttls,
                                                  &e->graces,         &e->rack_ends, &e->enrolment_ends,
                                                  &e->capability_ends};
        int64_t due_ms = INT64_MAX;

        for (size_t i = 0; i < ARRAY_SIZE(heaps); i++) {
                const struct timer *t = timer_first(heaps[i]);

                if (t != NULL && t->at_ms < due_ms)
                        due_ms = t->at_ms;
        }
        return due_ms;
}
