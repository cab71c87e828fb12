/* SPDX-License-Identifier: MIT */
#include "routing/directory/policy.h"

#include <stdlib.h>

#include "base/limits.h"
#include "lessor/arena.h"
#include "lessor/error.h"
#include "routing/directory/text_index.h"

/* What one user has mapped at one site: theirs alone, so it is short, and a claim asks about one pair at a
 * time. */
struct consent {
        bool paused;
        struct policy_mapping *mappings;
        size_t n_mappings;
};

/*
 * Invariants: nothing changes after policy_new, and all of it is in the arena.
 */
struct policy {
        struct snapshot snapshot;
        struct lessor_arena *arena;
        bool unavailable;
        bool has_advertised;
        struct consent *consents;
        struct text_index pairs;      /* (site id, user) -> consents */
        struct text_index members;    /* (owner, user) */
        struct text_index declaring;  /* site ids that have said */
        struct text_index declared;   /* (site id, purpose) */
        struct text_index advertised; /* (owner, service) */
};

/* --- Making one --- */

static bool put_copy(struct policy *p, struct text_index *x, struct lessor_slice a, struct lessor_slice b,
                     size_t value)
{
        struct lessor_slice key_a;
        struct lessor_slice key_b;

        if (lessor_arena_copy(p->arena, a, &key_a) < 0 || lessor_arena_copy(p->arena, b, &key_b) < 0)
                return false;
        (void)text_index_put(x, key_a, key_b, (uint32_t)value);
        return true;
}

static int copy_mappings(struct policy *p, const struct policy_consent *from, struct consent *to)
{
        to->mappings = lessor_arena_array(p->arena, from->n_mappings, sizeof(*to->mappings));
        if (to->mappings == NULL)
                return LESSOR_E_NOMEM;
        for (size_t i = 0; i < from->n_mappings; i++) {
                const struct policy_mapping *m = &from->mappings[i];
                struct policy_mapping *copy = &to->mappings[i];

                copy->kind = m->kind;
                if (lessor_arena_copy(p->arena, m->purpose, &copy->purpose) < 0 ||
                    lessor_arena_copy(p->arena, m->service, &copy->service) < 0 ||
                    lessor_arena_copy(p->arena, m->owner, &copy->owner) < 0)
                        return LESSOR_E_NOMEM;
        }
        to->n_mappings = from->n_mappings;
        return 0;
}

static int fill_consents(struct policy *p, const struct relay_policy *d)
{
        int r = text_index_init(&p->pairs, p->arena, d->n_consents);

        if (r < 0)
                return r;
        p->consents = lessor_arena_array(p->arena, d->n_consents, sizeof(*p->consents));
        if (p->consents == NULL)
                return LESSOR_E_NOMEM;
        for (size_t i = 0; i < d->n_consents; i++) {
                const struct policy_consent *c = &d->consents[i];

                p->consents[i].paused = c->paused;
                if (!put_copy(p, &p->pairs, c->site_id, c->user, i) ||
                    copy_mappings(p, c, &p->consents[i]) < 0)
                        return LESSOR_E_NOMEM;
        }
        return 0;
}

static int fill_members(struct policy *p, const struct relay_policy *d)
{
        int r = text_index_init(&p->members, p->arena, d->n_members);

        for (size_t i = 0; r == 0 && i < d->n_members; i++) {
                if (!put_copy(p, &p->members, d->members[i].owner, d->members[i].user, i))
                        r = LESSOR_E_NOMEM;
        }
        return r;
}

static int fill_declared(struct policy *p, const struct relay_policy *d)
{
        size_t n_purposes = 0;
        int r;

        for (size_t i = 0; i < d->n_declares; i++)
                n_purposes += d->declares[i].n_purposes;
        if ((r = text_index_init(&p->declaring, p->arena, d->n_declares)) < 0 ||
            (r = text_index_init(&p->declared, p->arena, n_purposes)) < 0)
                return r;
        for (size_t i = 0; i < d->n_declares; i++) {
                const struct policy_declaration *said = &d->declares[i];
                uint32_t first;

                if (!put_copy(p, &p->declaring, said->site_id, TEXT_INDEX_NO_PAIR, i))
                        return LESSOR_E_NOMEM;
                if (!text_index_find(&p->declaring, said->site_id, TEXT_INDEX_NO_PAIR, &first) || first != i)
                        continue; /* of two declarations of one site the first counts */
                for (size_t j = 0; j < said->n_purposes; j++) {
                        if (!put_copy(p, &p->declared, said->site_id, said->purposes[j], i))
                                return LESSOR_E_NOMEM;
                }
        }
        return 0;
}

static int fill_advertised(struct policy *p, const struct relay_policy *d)
{
        int r = text_index_init(&p->advertised, p->arena, d->n_advertising);

        p->has_advertised = d->advertising != NULL;
        for (size_t i = 0; r == 0 && p->has_advertised && i < d->n_advertising; i++) {
                if (!put_copy(p, &p->advertised, d->advertising[i].owner, d->advertising[i].service, i))
                        r = LESSOR_E_NOMEM;
        }
        return r;
}

static void policy_free(struct snapshot *snapshot)
{
        struct policy *p = container_of(snapshot, struct policy, snapshot);

        lessor_arena_free(p->arena);
        free(p);
}

int policy_new(const struct relay_policy *document, struct policy **ret_policy)
{
        _cleanup_(policy_unrefp) struct policy *p = NULL;
        int r;

        if (document->n_consents > LIMIT_PROJECTION_RECORDS ||
            document->n_members > LIMIT_PROJECTION_RECORDS ||
            document->n_declares > LIMIT_PROJECTION_RECORDS ||
            document->n_advertising > LIMIT_PROJECTION_RECORDS)
                return LESSOR_E_TOO_LARGE;
        p = calloc(1, sizeof(*p));
        if (p == NULL)
                return LESSOR_E_NOMEM;
        snapshot_init(&p->snapshot, policy_free);
        p->arena = lessor_arena_new();
        if (p->arena == NULL)
                return LESSOR_E_NOMEM;
        p->unavailable = document->unavailable;
        if ((r = fill_consents(p, document)) < 0 || (r = fill_members(p, document)) < 0 ||
            (r = fill_declared(p, document)) < 0 || (r = fill_advertised(p, document)) < 0)
                return r;
        *ret_policy = TAKE(p);
        return 0;
}

struct policy *policy_ref(struct policy *p)
{
        snapshot_ref(&p->snapshot);
        return p;
}

struct policy *policy_unref(struct policy *p)
{
        if (p != NULL)
                snapshot_unref(&p->snapshot);
        return NULL;
}

void policy_cell_init(struct policy_cell *cell)
{
        snapshot_cell_init(&cell->cell);
}

void policy_cell_done(struct policy_cell *cell)
{
        snapshot_cell_done(&cell->cell);
}

struct policy *policy_cell_get(struct policy_cell *cell)
{
        struct snapshot *s = snapshot_cell_get(&cell->cell);

        return s == NULL ? NULL : container_of(s, struct policy, snapshot);
}

void policy_cell_put(struct policy_cell *cell, struct policy *next)
{
        snapshot_cell_put(&cell->cell, &next->snapshot);
}

/* --- The questions --- */

static struct lessor_slice purpose_or_default(struct lessor_slice purpose)
{
        return purpose.p == NULL ? POLICY_DEFAULT_PURPOSE : purpose;
}

static const struct consent *find_consent(const struct policy *p, struct lessor_slice site_id,
                                          struct lessor_slice user)
{
        uint32_t i;

        return text_index_find(&p->pairs, site_id, user, &i) ? &p->consents[i] : NULL;
}

static bool mapping_answers(const struct policy_mapping *m, struct lessor_slice purpose,
                            enum lessor_kind kind)
{
        return m->kind == kind && lessor_slice_equal(m->purpose, purpose);
}

static struct lessor_slice mapping_owner(const struct policy_mapping *m, struct lessor_slice user)
{
        return m->owner.p == NULL ? user : m->owner;
}

/* Whether the claiming device serves what was mapped; another's job needs a service that is offered to the
 * team. */
static bool device_serves(const struct policy_question *q, struct lessor_slice service)
{
        bool own = lessor_slice_equal(q->user, q->owner);

        for (size_t i = 0; i < q->n_capabilities; i++) {
                const struct lessor_device_capability *c = &q->capabilities[i];

                if (c->kind == q->kind && lessor_slice_equal(c->service, service) &&
                    (own || c->offer_scope == LESSOR_OFFER_TEAM))
                        return true;
        }
        return false;
}

enum policy_decline policy_decide(const struct policy *p, const struct policy_question *question,
                                  struct lessor_slice *ret_service)
{
        struct lessor_slice purpose = purpose_or_default(question->purpose);
        const struct policy_mapping *mapping = NULL;
        const struct consent *consent;
        uint32_t found;

        if (p == NULL || p->unavailable)
                return POLICY_STORE_UNAVAILABLE;
        consent = find_consent(p, question->site_id, question->user);
        if (consent == NULL)
                return POLICY_NOT_CONSENTED;
        if (consent->paused)
                return POLICY_CONSENT_PAUSED;
        /* Membership is never asked for the owner's own work (relay-protocol 11). */
        if (!lessor_slice_equal(question->user, question->owner) &&
            !text_index_find(&p->members, question->owner, question->user, &found))
                return POLICY_NOT_A_MEMBER;
        for (size_t i = 0; mapping == NULL && i < consent->n_mappings; i++) {
                if (mapping_answers(&consent->mappings[i], purpose, question->kind))
                        mapping = &consent->mappings[i];
        }
        if (mapping == NULL)
                return POLICY_UNMAPPED;
        if (!lessor_slice_equal(mapping_owner(mapping, question->user), question->owner) ||
            !device_serves(question, mapping->service))
                return POLICY_RESOLVED_ELSEWHERE;
        *ret_service = mapping->service;
        return POLICY_GRANTED;
}

int policy_satisfiable(const struct policy *p, struct lessor_slice site_id, struct lessor_slice user,
                       struct lessor_slice purpose, enum lessor_kind kind,
                       enum policy_satisfiable *ret_verdict)
{
        const struct consent *consent;
        bool mapped = false;
        uint32_t found;

        if (p == NULL || p->unavailable)
                return LESSOR_E_UNAVAILABLE;
        purpose = purpose_or_default(purpose);
        if (text_index_find(&p->declaring, site_id, TEXT_INDEX_NO_PAIR, &found) &&
            !text_index_find(&p->declared, site_id, purpose, &found)) {
                *ret_verdict = POLICY_NOT_DECLARED;
                return 0;
        }
        consent = find_consent(p, site_id, user);
        for (size_t i = 0; consent != NULL && i < consent->n_mappings; i++) {
                const struct policy_mapping *m = &consent->mappings[i];

                if (!mapping_answers(m, purpose, kind))
                        continue;
                mapped = true;
                if (!p->has_advertised ||
                    text_index_find(&p->advertised, mapping_owner(m, user), m->service, &found)) {
                        *ret_verdict = POLICY_SATISFIABLE;
                        return 0;
                }
        }
        *ret_verdict = mapped ? POLICY_WAITING : POLICY_NOT_MAPPED;
        return 0;
}

bool policy_decline_permanent(enum policy_decline decline)
{
        return decline == POLICY_NOT_CONSENTED || decline == POLICY_NOT_A_MEMBER;
}

const char *policy_decline_name(enum policy_decline decline)
{
        switch (decline) {
        case POLICY_GRANTED:
                return "granted";
        case POLICY_STORE_UNAVAILABLE:
                return "store-unavailable";
        case POLICY_NOT_CONSENTED:
                return "not-consented";
        case POLICY_CONSENT_PAUSED:
                return "consent-paused";
        case POLICY_NOT_A_MEMBER:
                return "not-a-member";
        case POLICY_UNMAPPED:
                return "unmapped";
        case POLICY_RESOLVED_ELSEWHERE:
                return "resolved-elsewhere";
        }
        return "unknown";
}
