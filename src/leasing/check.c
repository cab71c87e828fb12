/* SPDX-License-Identifier: MIT */
/* Asserts the invariants that engine_internal.h numbers, by looking at everything. */
#include <assert.h>

#include "leasing/engine_internal.h"

/* What a look at all leases adds up to. */
struct sums {
        const struct lease_engine *e;
        size_t n_leases, n_lapsed, n_capabilities, n_queued, n_tokens, n_in_lanes;
};

static void check_queued(const struct lease *lease)
{
        bool waits = lease->status == LESSOR_LEASE_PENDING || lease->lapsed;
        bool may = lease->event_version == LESSOR_EVENT_VERSION &&
                   (lease->attempt_limit == 0 || lease->attempts_spent < lease->attempt_limit);

        assert(lease->queued == (waits && may)); /* 2 */
        if (!lease->queued)
                return;
        assert(lease->queued_used == (lease->latest != NULL));
        assert(sorted_has(lease->queued_used ? &lease->lane->used : &lease->lane->fresh, &lease->queue_node));
        assert(lease->lane->linked); /* 3 */
        assert(sorted_has(&lease->lane->of_tier->lanes, &lease->lane->in_tier));
        assert(sorted_has(&lease->lane->of_repo->lanes, &lease->lane->in_repo));
        assert(lease->lane->of_tier->linked && lease->lane->of_repo->linked);
        assert(sorted_has(&lease->lane->of_tier->scope->groups, &lease->lane->of_tier->in_scope));
        assert(sorted_has(&lease->lane->of_repo->scope->groups, &lease->lane->of_repo->in_scope));
}

static void check_attempts(const struct lease *lease)
{
        const struct attempt *last = NULL;

        for (size_t i = 0; i < lease->n_attempts; i++) {
                const struct attempt *a = lease->attempts[i];

                assert(a->number == i + 1 && a->lease == lease);
                assert((a->state == LESSOR_ATTEMPT_RUNNING) ==
                       (lease->status == LESSOR_LEASE_CLAIMED && a == lease->current)); /* 4 */
                if (a->counts)
                        last = a;
        }
        assert(lease->latest == last); /* 5 */
        assert(last == NULL || sorted_has(&last->rack->recent, &lease->recent_node));
        assert(lease->status != LESSOR_LEASE_PENDING || lease->current == NULL);
        assert(lease->status != LESSOR_LEASE_COMPLETED || lease->current != NULL);
        if (lease->status == LESSOR_LEASE_CLAIMED)
                assert(sorted_has(&lease->current->rack->claimed, &lease->claimed_node));
}

static void check_timers(const struct lease_engine *e, const struct lease *lease)
{
        bool waits = lease->status == LESSOR_LEASE_PENDING || lease->lapsed;
        int64_t at_ms = 0;

        if (lease->status == LESSOR_LEASE_CLAIMED)
                at_ms = lease->lapsed
                                ? time_later(time_later(lease->deadline_ms, e->options.visibility_ms), 1)
                                : time_later(lease->deadline_ms, 1);
        else if (lease->status != LESSOR_LEASE_PENDING)
                at_ms = time_later(lease->ended_ms, e->options.retention_ms);
        assert(timer_is_set(&lease->timer) == (lease->status != LESSOR_LEASE_PENDING)); /* 6 */
        assert(at_ms == 0 || lease->timer.at_ms == at_ms);
        assert(timer_is_set(&lease->ttl) == (waits && lease->expires_ms != 0)); /* 7 */
}

static void check_lease(struct table_node *node, void *context)
{
        const struct lease *lease = container_of(node, struct lease, node);
        struct sums *sums = context;
        size_t n_targets = 0;

        assert(!lease->removed && lease->refs > 0);
        assert(sorted_has(&sums->e->by_status[lease->status], &lease->status_node)); /* 1 */
        assert(sorted_has(&lease->task->leases, &lease->task_node));
        assert(lease->run == NULL || sorted_has(&lease->run->leases, &lease->run_node));
        assert(!lease->lapsed || lease->status == LESSOR_LEASE_CLAIMED);
        check_queued(lease);
        check_attempts(lease);
        check_timers(sums->e, lease);
        for (const struct capability *c = lease->capabilities; c != NULL; c = c->next) {
                assert(lease->status == LESSOR_LEASE_CLAIMED &&
                       c->claim_number == lease->current->number); /* 8 */
                assert(capability_find(sums->e, (struct lessor_slice){c->id, 64}) == c);
                sums->n_capabilities++;
        }
        for (const struct target *t = lease->targets; t != NULL; t = t->next)
                n_targets++;
        assert(n_targets == lease->n_targets); /* 11 */
        sums->n_leases++;
        sums->n_lapsed += lease->lapsed;
        sums->n_queued += lease->queued;
}

static void check_rack(struct table_node *node, void *context)
{
        const struct rack *rack = container_of(node, struct rack, node);
        struct sums *sums = context;
        size_t n_pending = 0;

        assert(rack->refs > 0 && rack->n_claimed == sorted_check(&rack->claimed));
        sorted_check(&rack->recent);
        for (const struct rack_token *t = rack->tokens; t != NULL; t = t->next) {
                assert(rack->registered && !t->removed); /* 9 */
                n_pending += t->status == LESSOR_TOKEN_PENDING;
                assert(timer_is_set(&t->grace) == (t->status == LESSOR_TOKEN_GRACE));
                assert((t->grace_until_ms != 0) == (t->status == LESSOR_TOKEN_GRACE));
                sums->n_tokens++;
        }
        assert(n_pending <= 1);
        assert(rack->registered == sorted_has(&sums->e->all_racks, &rack->order_node));
}

static void check_lane(struct table_node *node, void *context)
{
        const struct lane *l = container_of(node, struct lane, node);
        size_t n = sorted_check(&l->fresh) + sorted_check(&l->used);

        assert(l->linked == (n > 0)); /* 3 */
        ((struct sums *)context)->n_in_lanes += n;
}

static void check_group(struct table_node *node, void *context)
{
        const struct group *g = container_of(node, struct group, node);

        (void)context;
        assert(g->linked == (sorted_check(&g->lanes) > 0)); /* 3 */
}

void lease_engine_check(const struct lease_engine *e)
{
        struct sums sums = {.e = e};
        size_t n = 0;

        table_each(&e->leases, check_lease, &sums);
        table_each(&e->racks, check_rack, &sums);
        table_each(&e->lanes, check_lane, &sums);
        table_each(&e->groups, check_group, &sums);
        for (size_t i = 0; i < LESSOR_N_LEASE_STATUSES; i++) {
                assert(sorted_check(&e->by_status[i]) == e->n_by_status[i]); /* 11 */
                n += e->n_by_status[i];
        }
        assert(n == e->n_leases && sums.n_leases == n && e->leases.n == n);
        assert(sums.n_lapsed == e->n_lapsed && sums.n_in_lanes == sums.n_queued);
        assert(sums.n_capabilities == e->n_capabilities && e->capabilities.n == e->n_capabilities &&
               e->bindings.n == e->n_capabilities);
        assert(sums.n_tokens == e->n_tokens && e->tokens.n == e->n_tokens);
        assert(sorted_check(&e->all_racks) == e->n_registered);
        assert(sorted_check(&e->all_environments) == e->n_environments);
        assert(e->enrolments.n == e->n_enrolments && e->enrolment_ends.n == e->n_enrolments);
        assert(e->lapses.cap >= e->n_leases && e->ends.cap >= e->n_leases &&
               e->ttls.cap >= e->n_leases); /* 10 */
        assert(e->graces.cap >= e->n_tokens);
}
