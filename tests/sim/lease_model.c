/* SPDX-License-Identifier: MIT */
#include "lease_model.h"

#include <stddef.h>

#define VISIBILITY_MS INT64_C(60000)
#define HEALTHY_MS    INT64_C(45000)
#define RETENTION_MS  INT64_C(900000)

const struct lease_model_version lease_model_versions[LEASE_MODEL_VERSIONS] = {
        {"0.5.0+e3.1.0.85", false, 85},
        {"1.2.3-rc.4+e3.1.0.100", false, 100},
        {"0.6.0", false, 0},
        {"0.4.99+e3.1.0.85", true, 85},
};

static bool is_open(const struct lease_model_lease *l)
{
        return l->there && (l->status == LESSOR_LEASE_PENDING || l->status == LESSOR_LEASE_CLAIMED);
}

static void stop_attempt(struct lease_model_lease *l, enum lessor_attempt_state state,
                         enum lessor_cause cause)
{
        if (l->current >= 0 && l->attempts[l->current].state == LESSOR_ATTEMPT_RUNNING) {
                l->attempts[l->current].state = state;
                l->attempts[l->current].cause = cause;
        }
}

static void finish(struct lease_model_lease *l, enum lessor_lease_status status, enum lessor_cause cause,
                   int64_t now_ms)
{
        stop_attempt(l,
                     status == LESSOR_LEASE_CANCELLED ? LESSOR_ATTEMPT_CANCELLED : LESSOR_ATTEMPT_INTERRUPTED,
                     cause);
        l->status = status;
        l->cause = cause;
        l->ended_ms = now_ms;
}

static void back_to_queue(struct lease_model_lease *l)
{
        l->status = LESSOR_LEASE_PENDING;
        l->cause = LESSOR_CAUSE_NONE;
        l->current = -1;
        l->deadline_ms = l->ended_ms = 0;
}

void lease_model_settle(struct lease_model *m, int64_t now_ms)
{
        for (int i = 0; i < m->n_leases; i++) {
                struct lease_model_lease *l = &m->leases[i];

                if (!is_open(l) || l->expires_ms == 0 || l->expires_ms > now_ms)
                        continue;
                if (l->status == LESSOR_LEASE_PENDING)
                        finish(l, LESSOR_LEASE_EXPIRED, LESSOR_CAUSE_NONE, now_ms);
                else if (l->deadline_ms < now_ms)
                        finish(l, LESSOR_LEASE_EXPIRED, LESSOR_CAUSE_LOST, now_ms);
        }
}

void lease_model_sweep(struct lease_model *m, int64_t now_ms)
{
        for (int i = 0; i < m->n_leases; i++) {
                struct lease_model_lease *l = &m->leases[i];

                if (!l->there)
                        continue;
                if (!is_open(l)) {
                        if (l->ended_ms + RETENTION_MS <= now_ms)
                                l->there = false;
                        continue;
                }
                if (l->status == LESSOR_LEASE_PENDING || l->deadline_ms + VISIBILITY_MS >= now_ms)
                        continue;
                if (l->limit == 0) {
                        finish(l, LESSOR_LEASE_SUPERSEDED, LESSOR_CAUSE_LOST, now_ms);
                } else if (l->spent >= l->limit) {
                        finish(l, LESSOR_LEASE_POISONED, LESSOR_CAUSE_LOST, now_ms);
                } else {
                        stop_attempt(l, LESSOR_ATTEMPT_INTERRUPTED, LESSOR_CAUSE_LOST);
                        back_to_queue(l);
                }
        }
}

static struct lease_model_lease *lease_at(struct lease_model *m, int i)
{
        return i >= 0 && i < m->n_leases && m->leases[i].there ? &m->leases[i] : NULL;
}

static int key_of(const struct lease_model_lease *l, int key)
{
        for (int i = 0; i < l->n_keys; i++)
                if (l->keys[i] == key)
                        return i;
        return -1;
}

static void add_key(struct lease_model_lease *l, int key)
{
        l->keys[l->n_keys] = key;
        l->left[l->n_keys++] = false;
}

int lease_model_create(struct lease_model *m, const struct lease_model_submission *from, int64_t now_ms,
                       int *ret_lease)
{
        struct lease_model_lease *l;

        for (int i = 0; from->key >= 0 && i < m->n_leases; i++) {
                l = &m->leases[i];
                if (!l->there || l->owner != from->owner || key_of(l, from->key) < 0)
                        continue;
                if (l->repo != from->repo || l->task != from->task)
                        return LESSOR_E_EXISTS;
                if (is_open(l))
                        l->left[key_of(l, from->key)] = false;
                *ret_lease = i;
                return 0;
        }
        for (int i = m->n_leases - 1; from->share && i >= 0; i--) {
                l = &m->leases[i];
                if (!is_open(l) || l->owner != from->owner || l->n_keys == 0 || l->repo != from->repo ||
                    l->task != from->task || l->floor != from->floor)
                        continue;
                add_key(l, from->key);
                *ret_lease = i;
                return 0;
        }
        l = &m->leases[m->n_leases];
        *l = (struct lease_model_lease){
                .there = true,
                .repo = from->repo,
                .task = from->task,
                .tier = from->tier,
                .owner = from->owner,
                .run = from->run,
                .function = from->function,
                .version = from->version,
                .floor = from->floor,
                .limit = from->limit,
                .created_ms = now_ms,
                .expires_ms = from->ttl_ms == 0 ? 0 : now_ms + from->ttl_ms,
                .status = LESSOR_LEASE_PENDING,
                .current = -1,
        };
        if (from->key >= 0)
                add_key(l, from->key);
        *ret_lease = m->n_leases++;
        return 0;
}

/* --- claims --- */

static bool has_claimed(const struct lease_model_lease *l, int rack, int boot)
{
        for (int i = 0; i < l->n_attempts; i++)
                if (l->attempts[i].counts && l->attempts[i].rack == rack && l->attempts[i].boot == boot)
                        return true;
        return false;
}

/* Whether it could go to somebody in these tiers and this repo. */
static bool is_claimable(const struct lease_model_lease *l, const struct lease_model_claim *c, int64_t now_ms)
{
        return is_open(l) && (l->status == LESSOR_LEASE_PENDING || l->deadline_ms < now_ms) &&
               l->version == 2 && (l->limit == 0 || l->spent < l->limit) && c->tiers[l->tier] &&
               (c->repo < 0 || c->repo == l->repo);
}

static bool is_for(const struct lease_model *m, const struct lease_model_lease *l,
                   const struct lease_model_claim *c)
{
        const struct lease_model_version *v = &lease_model_versions[m->racks[c->rack].version];

        if (l->floor != 0 && v->bundled < l->floor)
                return false;
        return (c->names && !l->function) || !has_claimed(l, c->rack, c->boot);
}

/* Round the owners from the one behind the turn; then by creation time and id, which begins with the task. */
static bool comes_before(const struct lease_model *m, int a, int b)
{
        const struct lease_model_lease *x = &m->leases[a], *y = &m->leases[b];
        bool x_wraps = m->turn >= 0 && x->owner <= m->turn, y_wraps = m->turn >= 0 && y->owner <= m->turn;

        if (x_wraps != y_wraps)
                return !x_wraps;
        if (x->owner != y->owner)
                return x->owner < y->owner;
        if (x->created_ms != y->created_ms)
                return x->created_ms < y->created_ms;
        if (x->task != y->task)
                return x->task < y->task;
        return a < b;
}

static void grant(struct lease_model *m, int i, const struct lease_model_claim *c, int64_t now_ms)
{
        struct lease_model_lease *l = &m->leases[i];
        bool again = has_claimed(l, c->rack, c->boot);

        stop_attempt(l, LESSOR_ATTEMPT_INTERRUPTED, LESSOR_CAUSE_RECLAIMED);
        l->current = l->n_attempts++;
        l->attempts[l->current] = (struct lease_model_attempt){
                .rack = c->rack, .boot = c->boot, .counts = true, .must_name = c->names && again};
        l->spent++;
        l->status = LESSOR_LEASE_CLAIMED;
        l->deadline_ms = now_ms + VISIBILITY_MS;
        m->turn = l->owner;
}

int lease_model_claim(struct lease_model *m, const struct lease_model_claim *c, int64_t now_ms,
                      int *ret_lease, bool *ret_kept)
{
        const struct lease_model_rack *r = &m->racks[c->rack];
        int best = -1;

        if (!r->registered)
                return LESSOR_E_NOT_FOUND;
        if (lease_model_versions[r->version].old)
                return LESSOR_E_AGENT_TOO_OLD;
        *ret_lease = -1;
        *ret_kept = true;
        if ((m->policy && r->approved_boot != c->boot) || r->draining || !r->healthy ||
            r->seen_ms + HEALTHY_MS < now_ms)
                return 0;
        *ret_kept = false;
        for (int i = 0; i < m->n_leases; i++) {
                if (!is_claimable(&m->leases[i], c, now_ms))
                        continue;
                *ret_kept = true;
                if (is_for(m, &m->leases[i], c) && (best < 0 || comes_before(m, i, best)))
                        best = i;
        }
        if (best >= 0)
                grant(m, best, c, now_ms);
        *ret_lease = best;
        return 0;
}

/* --- holding --- */

bool lease_model_holds(const struct lease_model *m, int lease, int rack, int attempt)
{
        const struct lease_model_lease *l = &m->leases[lease];

        if (!l->there || l->status != LESSOR_LEASE_CLAIMED || l->attempts[l->current].rack != rack)
                return false;
        if (attempt == 0)
                return !l->attempts[l->current].must_name;
        return !l->function && attempt == l->current + 1;
}

int lease_model_extend(struct lease_model *m, int lease, int rack, int attempt, int64_t now_ms)
{
        if (lease < 0 || !lease_model_holds(m, lease, rack, attempt))
                return LESSOR_E_NOT_HELD;
        m->leases[lease].deadline_ms = now_ms + VISIBILITY_MS;
        return 0;
}

enum lessor_completed lease_model_complete(struct lease_model *m, int lease, int rack, int attempt,
                                           enum lessor_attempt_state state, int64_t now_ms)
{
        struct lease_model_lease *l = lease_at(m, lease);

        if (l != NULL && l->status == LESSOR_LEASE_COMPLETED)
                return LESSOR_COMPLETED_IDEMPOTENT;
        if (l == NULL || !lease_model_holds(m, lease, rack, attempt))
                return LESSOR_COMPLETED_DISCARDED;
        stop_attempt(l, state, LESSOR_CAUSE_NONE);
        finish(l, LESSOR_LEASE_COMPLETED, LESSOR_CAUSE_NONE, now_ms);
        return LESSOR_COMPLETED_RECORDED;
}

int lease_model_end(struct lease_model *m, int lease, enum lessor_lease_ending ending, int key,
                    int64_t now_ms)
{
        struct lease_model_lease *l = lease_at(m, lease);

        if (l == NULL)
                return LESSOR_E_NOT_FOUND;
        if (!is_open(l))
                return 0;
        if (key >= 0 && ending == LESSOR_END_CANCEL) {
                if (key_of(l, key) < 0)
                        return 0;
                l->left[key_of(l, key)] = true;
                for (int i = 0; i < l->n_keys; i++)
                        if (!l->left[i])
                                return 0;
        }
        if (ending == LESSOR_END_CANCEL)
                finish(l, LESSOR_LEASE_CANCELLED, LESSOR_CAUSE_CANCELLED, now_ms);
        else
                finish(l, LESSOR_LEASE_SUPERSEDED, LESSOR_CAUSE_SUPERSEDED, now_ms);
        return 0;
}

int lease_model_undeliver(struct lease_model *m, int lease, int attempt, int64_t now_ms)
{
        struct lease_model_lease *l = lease_at(m, lease);

        (void)now_ms;
        if (l == NULL || l->status != LESSOR_LEASE_CLAIMED || l->current + 1 != attempt)
                return LESSOR_E_NOT_HELD;
        l->attempts[l->current].counts = false;
        stop_attempt(l, LESSOR_ATTEMPT_INTERRUPTED, LESSOR_CAUSE_UNDELIVERED);
        if (l->spent > 0)
                l->spent--;
        back_to_queue(l);
        return 0;
}

int lease_model_replay(struct lease_model *m, int lease)
{
        struct lease_model_lease *l = lease_at(m, lease);

        if (l == NULL)
                return LESSOR_E_NOT_FOUND;
        if (l->status != LESSOR_LEASE_POISONED && l->status != LESSOR_LEASE_EXPIRED)
                return LESSOR_E_TERMINAL;
        back_to_queue(l);
        l->spent = 0;
        l->expires_ms = 0;
        return 0;
}

bool lease_model_must_stop(const struct lease_model *m, int lease, int rack)
{
        const struct lease_model_lease *l = &m->leases[lease < 0 ? 0 : lease];

        if (lease < 0 || !l->there)
                return true;
        if (l->status == LESSOR_LEASE_CLAIMED)
                return l->attempts[l->current].rack != rack;
        return l->status != LESSOR_LEASE_PENDING && l->status != LESSOR_LEASE_COMPLETED;
}

int lease_model_deregister(struct lease_model *m, int rack, int64_t now_ms)
{
        if (!m->racks[rack].registered)
                return LESSOR_E_NOT_FOUND;
        m->racks[rack].registered = false;
        for (int i = 0; i < m->n_leases; i++) {
                struct lease_model_lease *l = &m->leases[i];

                if (l->there && l->status == LESSOR_LEASE_CLAIMED && l->attempts[l->current].rack == rack)
                        finish(l, LESSOR_LEASE_SUPERSEDED, LESSOR_CAUSE_DEREGISTERED, now_ms);
        }
        return 0;
}

enum lessor_lease_view lease_model_view(const struct lease_model_lease *l, int64_t now_ms)
{
        switch (l->status) {
        case LESSOR_LEASE_PENDING:
                return LESSOR_VIEW_PENDING;
        case LESSOR_LEASE_CLAIMED:
                if (l->deadline_ms + VISIBILITY_MS < now_ms)
                        return LESSOR_VIEW_LOST;
                return l->deadline_ms < now_ms ? LESSOR_VIEW_PENDING : LESSOR_VIEW_CLAIMED;
        case LESSOR_LEASE_COMPLETED:
                return LESSOR_VIEW_COMPLETED;
        case LESSOR_LEASE_SUPERSEDED:
                return LESSOR_VIEW_SUPERSEDED;
        case LESSOR_LEASE_CANCELLED:
                return LESSOR_VIEW_CANCELLED;
        case LESSOR_LEASE_POISONED:
                return LESSOR_VIEW_POISONED;
        case LESSOR_LEASE_EXPIRED:
                return LESSOR_VIEW_EXPIRED;
        }
        return LESSOR_VIEW_PENDING;
}
