/* SPDX-License-Identifier: MIT */
/* How an engine is rebuilt from the rows that a store kept. */
#include <stdlib.h>

#include "leasing/engine_internal.h"

/* --- is it sound? --- */

static bool attempts_are_sound(const struct lease_row *row)
{
        const struct lessor_lease *l = &row->lease;

        for (size_t i = 0; i < row->n_attempts; i++) {
                const struct lessor_attempt *a = &row->attempts[i].attempt;
                bool stands = l->status == LESSOR_LEASE_CLAIMED && a->number == l->claim_number;

                if (a->number != i + 1 || a->state > LESSOR_ATTEMPT_CANCELLED ||
                    a->cause > LESSOR_CAUSE_UNDELIVERED || (a->state == LESSOR_ATTEMPT_RUNNING) != stands ||
                    (stands && !a->counts) ||
                    (a->execution_id.p == NULL) != (l->mode == LESSOR_LEASE_FUNCTION))
                        return false;
        }
        return true;
}

/* taskHash#inputsHash#rest */
static bool id_is_sound(const struct lessor_lease *l)
{
        struct lessor_slice id = l->name.lease_id, task = l->task_hash, inputs = l->inputs_hash;

        return id.n >= task.n + 2 && id.n - task.n - 2 >= inputs.n && task.n <= UINT32_MAX &&
               lessor_slice_equal((struct lessor_slice){id.p, task.n}, task) && id.p[task.n] == '#' &&
               lessor_slice_equal((struct lessor_slice){id.p + task.n + 1, inputs.n}, inputs) &&
               id.p[task.n + 1 + inputs.n] == '#' && (task.n == 0 || memchr(task.p, '#', task.n) == NULL) &&
               (inputs.n == 0 || memchr(inputs.p, '#', inputs.n) == NULL);
}

static bool row_is_sound(const struct lease_row *row)
{
        const struct lessor_lease *l = &row->lease;
        bool claimed = l->status == LESSOR_LEASE_CLAIMED;
        bool open = claimed || l->status == LESSOR_LEASE_PENDING;

        return l->seq > 0 && l->seq < UINT64_MAX && (unsigned)l->status < LESSOR_N_LEASE_STATUSES &&
               l->mode <= LESSOR_LEASE_FUNCTION && l->cause <= LESSOR_CAUSE_UNDELIVERED && id_is_sound(l) &&
               l->claim_number <= row->n_attempts && (!claimed || l->claim_number > 0) &&
               (l->status != LESSOR_LEASE_PENDING || l->claim_number == 0) &&
               (l->status != LESSOR_LEASE_COMPLETED || l->claim_number > 0) && (l->ended_ms != 0) == !open &&
               row->n_targets <= LIMIT_RACK_TARGETS && (claimed || row->n_capabilities == 0) &&
               attempts_are_sound(row);
}

/* --- its parts --- */

static int restore_attempts(struct lease_engine *e, struct lease *lease, const struct lease_row *row)
{
        for (size_t i = 0; i < row->n_attempts; i++) {
                const struct lessor_attempt *from = &row->attempts[i].attempt;
                struct attempt *a;
                int r = attempt_reserve(lease);

                if (r < 0)
                        return r;
                r = attempt_new(e, lease, from->rack_id, from->boot_id, from->execution_id, &a);
                if (r < 0)
                        return r;
                a->must_name = row->attempts[i].must_name;
                a->counts = from->counts;
                a->state = from->state;
                a->cause = from->cause;
                a->started_ms = from->started_ms;
                a->ended_ms = from->ended_ms;
                a->has_exit_code = from->has_exit_code;
                a->exit_code = from->exit_code;
                a->has_peak_bytes = from->has_peak_bytes;
                a->peak_bytes = from->peak_bytes;
                attempt_append(a);
                if (!word_get_if(e, from->reason, &a->reason) ||
                    !word_get_if(e, from->output_hash, &a->output_hash))
                        return LESSOR_E_NOMEM;
        }
        if (row->lease.claim_number > 0)
                lease->current = lease->attempts[row->lease.claim_number - 1];
        return 0;
}

/* What belongs to a lease, made before any of it is put where it can be found. */
struct parts {
        struct key *keys;
        struct target **targets;
        struct capability **capabilities;
        struct word **receipts;
        size_t n_targets, n_capabilities;
};

static void parts_free(struct lease_engine *e, struct parts *p)
{
        while (p->keys != NULL) {
                struct key *key = p->keys;

                p->keys = key->next;
                free(key);
        }
        for (size_t i = 0; i < p->n_targets; i++)
                free(p->targets[i]);
        for (size_t i = 0; i < p->n_capabilities; i++) {
                free(p->capabilities[i]);
                word_unref(e, p->receipts[i]);
        }
        free(p->targets);
        free(p->capabilities);
        free(p->receipts);
}

static int make_keys(struct lease_engine *e, const struct lease_row *row, struct parts *p)
{
        for (size_t i = 0; i < row->n_keys; i++) {
                struct key *key;

                if (key_find(e, row->lease.owner, row->keys[i].key) != NULL)
                        return LESSOR_E_EXISTS;
                key = key_new(row->keys[i].key);
                if (key == NULL)
                        return LESSOR_E_NOMEM;
                key->left = row->keys[i].left;
                key->next = p->keys;
                p->keys = key;
        }
        return 0;
}

static int make_capability(struct lease_engine *e, struct lease *lease, const struct lessor_capability *from,
                           struct parts *p)
{
        struct capability *c;
        int r;

        if (from->id.n != 64 || from->kind > LESSOR_CAPABILITY_PUT_STAGED ||
            from->claim_number != lease->current->number)
                return LESSOR_E_INVALID;
        if (capability_find(e, from->id) != NULL)
                return LESSOR_E_EXISTS;
        if (!word_get_if(e, from->receipt, &p->receipts[p->n_capabilities]))
                return LESSOR_E_NOMEM;
        r = capability_new(lease, from->hash, &c);
        if (r < 0) {
                word_unref(e, p->receipts[p->n_capabilities]);
                return r;
        }
        memcpy(c->id, from->id.p, 64);
        c->kind = from->kind;
        c->size = from->size;
        c->expires_ms = from->expires_ms;
        c->committed = from->committed;
        p->capabilities[p->n_capabilities++] = c;
        return 0;
}

static int make_parts(struct lease_engine *e, struct lease *lease, const struct lease_row *row,
                      struct parts *p)
{
        int r;

        p->targets = calloc(row->n_targets + 1, sizeof(struct target *));
        p->capabilities = calloc(row->n_capabilities + 1, sizeof(struct capability *));
        p->receipts = calloc(row->n_capabilities + 1, sizeof(struct word *));
        if (p->targets == NULL || p->capabilities == NULL || p->receipts == NULL)
                return LESSOR_E_NOMEM;
        r = make_keys(e, row, p);
        for (size_t i = 0; r == 0 && i < row->n_targets; i++) {
                r = target_new(lease, row->targets[i], &p->targets[i]);
                if (r == 0)
                        p->n_targets++;
        }
        for (size_t i = 0; r == 0 && i < row->n_capabilities; i++)
                r = make_capability(e, lease, &row->capabilities[i], p);
        if (r == 0)
                r = timer_heap_reserve(&e->capability_ends, e->n_capabilities + p->n_capabilities);
        return r;
}

static void install_parts(struct lease_engine *e, struct lease *lease, struct parts *p)
{
        while (p->keys != NULL) {
                struct key *key = p->keys;

                p->keys = key->next;
                key_install(e, lease, key);
        }
        for (size_t i = 0; i < p->n_targets; i++)
                target_install(e, p->targets[i]);
        for (size_t i = 0; i < p->n_capabilities; i++) {
                capability_install(e, p->capabilities[i]);
                if (p->receipts[i] != NULL)
                        capability_give_receipt(e, p->capabilities[i], TAKE(p->receipts[i]));
        }
        p->n_targets = p->n_capabilities = 0;
}

/* --- the lease --- */

static void take_facts(struct lease *lease, const struct lessor_lease *l)
{
        lease->seq = l->seq;
        lease->status = l->status;
        lease->cause = l->cause;
        lease->created_ms = l->created_ms;
        lease->expires_ms = l->expires_ms;
        lease->attempts_spent = l->attempts_spent;
        lease->deadline_ms = l->deadline_ms;
        lease->ended_ms = l->ended_ms;
        lease->success = l->verdict.success;
        lease->error = l->verdict.error;
        lease->cancelled = l->verdict.cancelled;
}

static bool seq_is_behind(const struct sorted_node *n, const void *probe)
{
        return container_of(n, struct lease, status_node)->seq >= *(const uint64_t *)probe;
}

static bool seq_is_taken(const struct lease_engine *e, uint64_t seq)
{
        for (size_t i = 0; i < LESSOR_N_LEASE_STATUSES; i++) {
                const struct sorted_node *n = sorted_behind(&e->by_status[i], &seq, seq_is_behind);

                if (n != NULL && container_of(n, struct lease, status_node)->seq == seq)
                        return true;
        }
        return false;
}

static int new_from(struct lease_engine *e, const struct lessor_lease *l, struct lease **ret_lease)
{
        size_t prefix_n = l->task_hash.n + l->inputs_hash.n + 2;
        struct lessor_slice rest = {l->name.lease_id.p + prefix_n, l->name.lease_id.n - prefix_n};
        struct lessor_lease_submission from = {
                .repo = l->name.repo,
                .workspace = l->workspace,
                .task_name = l->task_name,
                .task_hash = l->task_hash,
                .inputs_hash = l->inputs_hash,
                .tier = l->tier,
                .compute_size = l->compute_size,
                .floor = l->floor,
                .environment = l->environment,
                .run = l->run,
                .owner = l->owner,
                .mode = l->mode,
                .own = l->own,
                .event_version = l->event_version,
                .attempt_limit = l->attempt_limit,
        };

        return lease_new(e, &from, rest, ret_lease);
}

int lease_engine_restore_lease(struct lease_engine *e, const struct lease_row *row)
{
        struct parts parts = {0};
        struct lease *lease;
        int r;

        if (!row_is_sound(row))
                return LESSOR_E_INVALID;
        if (lease_engine_find_lease(e, &row->lease.name) != NULL || seq_is_taken(e, row->lease.seq))
                return LESSOR_E_EXISTS;
        r = lease_reserve(e);
        if (r < 0)
                return r;
        r = new_from(e, &row->lease, &lease);
        if (r < 0)
                return r;
        take_facts(lease, &row->lease);
        r = restore_attempts(e, lease, row);
        if (r == 0)
                r = make_parts(e, lease, row, &parts);
        if (r < 0) {
                parts_free(e, &parts);
                lease_free(e, lease);
                return r;
        }
        lease_place_recent(e, lease);
        lease_install(e, lease);
        install_parts(e, lease, &parts);
        parts_free(e, &parts);
        if (lease->seq >= e->next_seq)
                e->next_seq = lease->seq + 1;
        return 0;
}

static void reserve(uint64_t taken, uint64_t *next)
{
        if (taken >= *next && taken < UINT64_MAX)
                *next = taken + 1;
}

void lease_engine_reserve(struct lease_engine *e, uint64_t seq, uint64_t rack, uint64_t environment)
{
        reserve(seq, &e->next_seq);
        reserve(rack, &e->next_rack);
        reserve(environment, &e->next_environment);
}

int lease_engine_restore_turn(struct lease_engine *e, struct lessor_slice owner)
{
        struct word *turn = word_get(e, owner);

        if (turn == NULL)
                return LESSOR_E_NOMEM;
        word_unref(e, e->turn);
        e->turn = turn;
        return 0;
}

int lease_engine_restore_token(struct lease_engine *e, const struct rack_token_row *row)
{
        struct rack *rack = rack_registered(e, row->rack_id);
        struct rack_token *token;
        int r;

        if (rack == NULL || row->status > LESSOR_TOKEN_GRACE ||
            (row->grace_until_ms != 0) != (row->status == LESSOR_TOKEN_GRACE))
                return LESSOR_E_INVALID;
        if (rack_token_find(e, row->hash) != NULL)
                return LESSOR_E_EXISTS;
        for (token = rack->tokens; token != NULL; token = token->next)
                if (row->status == LESSOR_TOKEN_PENDING && token->status == LESSOR_TOKEN_PENDING)
                        return LESSOR_E_INVALID;
        r = rack_token_reserve(e);
        if (r < 0)
                return r;
        r = rack_token_new(row->hash, &token);
        if (r < 0)
                return r;
        token->status = row->status;
        token->issued_ms = row->issued_ms;
        token->grace_until_ms = row->grace_until_ms;
        rack_token_install(e, rack, token);
        return 0;
}
