/* SPDX-License-Identifier: MIT */
#include "mirror.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
/* cmocka wants those before it */
#include <cmocka.h>

/* One row: the change that put it, with its texts copied. */
struct mirrored {
        struct mirrored *next;
        struct lease_change c;
};

void mirror_init(struct mirror *m)
{
        *m = (struct mirror){.arena = lessor_arena_new()};
        assert_non_null(m->arena);
}

void mirror_done(struct mirror *m)
{
        while (m->rows != NULL) {
                struct mirrored *row = m->rows;

                m->rows = row->next;
                free(row);
        }
        lessor_arena_free(m->arena);
}

/* The kind of row that a change is about, and the text that names it within that kind and lease. */
static int kind_of(const struct lease_change *c)
{
        switch (c->what) {
        case LEASE_CHANGE_REMOVED:
                return LEASE_CHANGE_PUT;
        case LEASE_CHANGE_CAPABILITY_REMOVED:
                return LEASE_CHANGE_CAPABILITY_PUT;
        case LEASE_CHANGE_RACK_REMOVED:
                return LEASE_CHANGE_RACK_PUT;
        case LEASE_CHANGE_TOKEN_REMOVED:
                return LEASE_CHANGE_TOKEN_PUT;
        case LEASE_CHANGE_ENROLMENT_REMOVED:
                return LEASE_CHANGE_ENROLMENT_PUT;
        case LEASE_CHANGE_ENVIRONMENT_REMOVED:
                return LEASE_CHANGE_ENVIRONMENT_PUT;
        default:
                return (int)c->what;
        }
}

static struct lessor_slice name_of(const struct lease_change *c)
{
        switch (kind_of(c)) {
        case LEASE_CHANGE_KEY_PUT:
                return c->key.key;
        case LEASE_CHANGE_TARGET_PUT:
                return c->target;
        case LEASE_CHANGE_CAPABILITY_PUT:
                return c->capability.id;
        case LEASE_CHANGE_RACK_PUT:
                return c->rack.rack_id;
        case LEASE_CHANGE_TOKEN_PUT:
                return c->token.hash;
        case LEASE_CHANGE_ENROLMENT_PUT:
                return c->enrolment.hash;
        case LEASE_CHANGE_ENVIRONMENT_PUT:
                return c->environment.e3_version; /* the tests publish one hash */
        default:
                return LESSOR_SLICE("");
        }
}

static bool is_removal(const struct lease_change *c)
{
        return kind_of(c) != (int)c->what;
}

static bool is_same_row(const struct lease_change *a, const struct lease_change *b)
{
        return kind_of(a) == kind_of(b) && a->seq == b->seq &&
               a->attempt.attempt.number == b->attempt.attempt.number &&
               lessor_slice_equal(name_of(a), name_of(b));
}

static void copy_texts(struct mirror *m, struct lease_change *c)
{
        struct lessor_slice *const texts[] = {
                &c->lease.name.repo,
                &c->lease.name.lease_id,
                &c->lease.workspace,
                &c->lease.task_name,
                &c->lease.task_hash,
                &c->lease.inputs_hash,
                &c->lease.tier,
                &c->lease.compute_size,
                &c->lease.floor,
                &c->lease.environment,
                &c->lease.run,
                &c->lease.owner,
                &c->attempt.attempt.execution_id,
                &c->attempt.attempt.rack_id,
                &c->attempt.attempt.boot_id,
                &c->attempt.attempt.reason,
                &c->attempt.attempt.output_hash,
                &c->key.owner,
                &c->key.key,
                &c->target,
                &c->capability.id,
                &c->capability.name.repo,
                &c->capability.name.lease_id,
                &c->capability.hash,
                &c->capability.receipt,
                &c->rack.rack_id,
                &c->rack.label,
                &c->rack.agent_version,
                &c->rack.last_boot,
                &c->rack.approved_boot,
                &c->token.hash,
                &c->token.rack_id,
                &c->enrolment.hash,
                &c->enrolment.label,
                &c->environment.env_hash,
                &c->environment.e3_version,
                &c->environment.base_image,
                &c->environment.base_tier,
                &c->environment.manifest_key,
                &c->environment.manifest,
        };

        for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
                assert_int_equal(lessor_arena_copy(m->arena, *texts[i], texts[i]), 0);
        if (c->what != LEASE_CHANGE_RACK_PUT)
                return;
        struct lessor_slice *tiers = lessor_arena_array(m->arena, c->n_rack_tiers, sizeof(*tiers));

        assert_non_null(tiers);
        for (size_t i = 0; i < c->n_rack_tiers; i++)
                assert_int_equal(lessor_arena_copy(m->arena, lease_change_tier(c, i), &tiers[i]), 0);
        c->rack.tiers = tiers;
        c->rack.n_tiers = c->n_rack_tiers;
}

/* Drops the rows that a change replaces or removes: of a removed lease, all that belong to it. */
static void drop_rows(struct mirror *m, const struct lease_change *c)
{
        struct mirrored **at = &m->rows;

        while (*at != NULL) {
                struct mirrored *row = *at;

                if (is_same_row(&row->c, c) || (c->what == LEASE_CHANGE_REMOVED && row->c.seq == c->seq)) {
                        *at = row->next;
                        free(row);
                } else {
                        at = &row->next;
                }
        }
}

void mirror_take(struct mirror *m, struct lease_engine *e)
{
        struct lease_change c;

        while (lease_engine_change(e, &c)) {
                if (c.what == LEASE_CHANGE_POLICY_PUT) {
                        m->require_start_approval = c.require_start_approval;
                } else if (c.what == LEASE_CHANGE_TURN_PUT) {
                        assert_int_equal(lessor_arena_copy(m->arena, c.turn, &m->turn), 0);
                } else {
                        copy_texts(m, &c);
                        if (c.seq > m->last_seq)
                                m->last_seq = c.seq;
                        drop_rows(m, &c);
                        if (!is_removal(&c)) {
                                struct mirrored *row = calloc(1, sizeof(*row));

                                assert_non_null(row);
                                row->c = c;
                                row->next = m->rows;
                                m->rows = row;
                        }
                }
                assert_true(lease_engine_change_drop(e));
        }
}

/* --- back --- */

#define MOST 64

static void restore_lease(struct mirror *m, struct lease_engine *e, const struct lease_change *lease)
{
        static struct lease_attempt_row attempts[1024];
        struct lease_key_row keys[MOST];
        struct lessor_slice targets[MOST];
        struct lessor_capability capabilities[MOST];
        struct lease_row row = {.lease = lease->lease,
                                .attempts = attempts,
                                .keys = keys,
                                .targets = targets,
                                .capabilities = capabilities};

        for (const struct mirrored *at = m->rows; at != NULL; at = at->next) {
                if (at->c.seq != lease->seq)
                        continue;
                if (at->c.what == LEASE_CHANGE_ATTEMPT_PUT) {
                        assert_in_range(at->c.attempt.attempt.number, 1, 1024);
                        attempts[at->c.attempt.attempt.number - 1] = at->c.attempt;
                        row.n_attempts++;
                } else if (at->c.what == LEASE_CHANGE_KEY_PUT) {
                        keys[row.n_keys++] = at->c.key;
                } else if (at->c.what == LEASE_CHANGE_TARGET_PUT) {
                        targets[at->c.order - 1] = at->c.target;
                        row.n_targets++;
                } else if (at->c.what == LEASE_CHANGE_CAPABILITY_PUT) {
                        capabilities[row.n_capabilities++] = at->c.capability;
                }
        }
        assert_int_equal(lease_engine_restore_lease(e, &row), 0);
        assert_int_equal(lease_engine_restore_lease(e, &row), LESSOR_E_EXISTS);
}

void mirror_restore(struct mirror *m, struct lease_engine *e)
{
        struct lease_change c;

        lease_engine_restore_policy(e, m->require_start_approval);
        lease_engine_reserve(e, m->last_seq, 0, 0);
        if (m->turn.p != NULL)
                assert_int_equal(lease_engine_restore_turn(e, m->turn), 0);
        for (const struct mirrored *at = m->rows; at != NULL; at = at->next) {
                if (at->c.what == LEASE_CHANGE_RACK_PUT)
                        assert_int_equal(lease_engine_restore_rack(e, &at->c.rack, at->c.order), 0);
                else if (at->c.what == LEASE_CHANGE_ENROLMENT_PUT)
                        assert_int_equal(lease_engine_restore_enrolment(e, &at->c.enrolment), 0);
                else if (at->c.what == LEASE_CHANGE_ENVIRONMENT_PUT)
                        assert_int_equal(lease_engine_restore_environment(e, &at->c.environment, at->c.order),
                                         0);
        }
        for (const struct mirrored *at = m->rows; at != NULL; at = at->next) {
                if (at->c.what == LEASE_CHANGE_TOKEN_PUT)
                        assert_int_equal(lease_engine_restore_token(e, &at->c.token), 0);
                else if (at->c.what == LEASE_CHANGE_PUT)
                        restore_lease(m, e, &at->c);
        }
        assert_false(lease_engine_change(e, &c));
}
