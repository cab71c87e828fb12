/* SPDX-License-Identifier: MIT */
/*
 * How a claim finds its lease. Leases between which no gate makes a difference form a lane. The lanes of one
 * owner form a group, ordered by the lease in front, and the groups of a tier a scope, ordered by owner. A
 * claim goes round the owners, looks at the lanes of each, oldest in front first, and takes the first lease
 * that no earlier claim keeps from the rack. What a claim passes over is lanes, never the leases in them.
 */
#include <stdlib.h>

#include "leasing/engine_internal.h"

static const struct lessor_slice serverless = {"serverless", 10};

int lease_cmp_age(const struct lease *a, const struct lease *b)
{
        if (a->created_ms != b->created_ms)
                return a->created_ms < b->created_ms ? -1 : 1;
        if (a == b)
                return 0;
        /* Ids are unique within a repo only. */
        int order = lessor_slice_cmp(a->id, b->id);

        return order != 0 ? order : lessor_slice_cmp(a->repo->text, b->repo->text);
}

int lease_by_queue(const struct sorted_node *a, const struct sorted_node *b)
{
        return lease_cmp_age(container_of(a, struct lease, queue_node),
                             container_of(b, struct lease, queue_node));
}

/* --- scopes, groups, lanes --- */

struct scope *scope_find(const struct lease_engine *e, struct lessor_slice tier,
                         const struct lessor_slice *repo)
{
        uint64_t hash = table_hash_pair(&e->scopes, tier, repo == NULL ? (struct lessor_slice){0} : *repo);

        for (struct table_node *n = table_first(&e->scopes, hash); n != NULL; n = table_next(n)) {
                struct scope *s = container_of(n, struct scope, node);

                if (lessor_slice_equal(s->tier->text, tier) && (s->repo == NULL) == (repo == NULL) &&
                    (repo == NULL || lessor_slice_equal(s->repo->text, *repo)))
                        return s;
        }
        return NULL;
}

static int group_cmp(const struct sorted_node *a, const struct sorted_node *b)
{
        return lessor_slice_cmp(container_of(a, struct group, in_scope)->owner->text,
                                container_of(b, struct group, in_scope)->owner->text);
}

static struct scope *scope_unref(struct lease_engine *e, struct scope *s)
{
        if (s == NULL || --s->refs > 0)
                return NULL;
        table_remove(&e->scopes, &s->node);
        word_unref(e, s->tier);
        word_unref(e, s->repo);
        free(s);
        return NULL;
}

static struct scope *scope_get(struct lease_engine *e, struct lessor_slice tier, struct word *repo)
{
        struct lessor_slice repo_text = word_text(repo);
        struct scope *s = scope_find(e, tier, repo == NULL ? NULL : &repo_text);

        if (s != NULL) {
                s->refs++;
                return s;
        }
        s = calloc(1, sizeof(*s));
        if (s == NULL)
                return NULL;
        s->tier = word_get(e, tier);
        if (s->tier == NULL) {
                free(s);
                return NULL;
        }
        s->repo = word_ref(repo);
        s->refs = 1;
        s->groups.cmp = group_cmp;
        table_add(&e->scopes, &s->node, table_hash_pair(&e->scopes, tier, repo_text));
        return s;
}

static struct lease *lane_front(const struct lane *l)
{
        struct sorted_node *fresh = sorted_first(&l->fresh), *used = sorted_first(&l->used);

        if (fresh == NULL || (used != NULL && lease_by_queue(used, fresh) < 0))
                fresh = used;
        return fresh == NULL ? NULL : container_of(fresh, struct lease, queue_node);
}

static int lane_by_tier(const struct sorted_node *a, const struct sorted_node *b)
{
        return lease_cmp_age(lane_front(container_of(a, struct lane, in_tier)),
                             lane_front(container_of(b, struct lane, in_tier)));
}

static int lane_by_repo(const struct sorted_node *a, const struct sorted_node *b)
{
        return lease_cmp_age(lane_front(container_of(a, struct lane, in_repo)),
                             lane_front(container_of(b, struct lane, in_repo)));
}

static uint64_t hash_pointers(const struct table *t, const void *a, const void *b, const void *c)
{
        const void *const key[3] = {a, b, c};

        return table_hash(t, (struct lessor_slice){(const char *)key, sizeof(key)});
}

static struct group *group_unref(struct lease_engine *e, struct group *g)
{
        if (g == NULL || --g->refs > 0)
                return NULL;
        table_remove(&e->groups, &g->node);
        scope_unref(e, g->scope);
        word_unref(e, g->owner);
        free(g);
        return NULL;
}

static struct group *group_get(struct lease_engine *e, struct lessor_slice tier, struct word *repo,
                               struct word *owner)
{
        struct scope *s = scope_get(e, tier, repo);
        struct group *g;
        uint64_t hash;

        if (s == NULL)
                return NULL;
        hash = hash_pointers(&e->groups, s, owner, NULL);
        for (struct table_node *n = table_first(&e->groups, hash); n != NULL; n = table_next(n)) {
                g = container_of(n, struct group, node);
                if (g->scope == s && g->owner == owner) {
                        scope_unref(e, s);
                        g->refs++;
                        return g;
                }
        }
        g = calloc(1, sizeof(*g));
        if (g == NULL) {
                scope_unref(e, s);
                return NULL;
        }
        g->refs = 1;
        g->scope = s;
        g->owner = word_ref(owner);
        g->lanes.cmp = repo == NULL ? lane_by_tier : lane_by_repo;
        table_add(&e->groups, &g->node, hash);
        return g;
}

struct lane *lane_unref(struct lease_engine *e, struct lane *l)
{
        if (l == NULL || --l->refs > 0)
                return NULL;
        table_remove(&e->lanes, &l->node);
        group_unref(e, l->of_tier);
        group_unref(e, l->of_repo);
        word_unref(e, l->floor);
        word_unref(e, l->size);
        free(l);
        return NULL;
}

/* The lane of these groups, made if need be. Takes the references to the groups. */
static struct lane *lane_of_groups(struct lease_engine *e, struct group *of_tier, struct group *of_repo,
                                   struct word *floor, struct word *size)
{
        /* A repo's group is of one tier and owner, and so says all that the other group says. */
        uint64_t hash = hash_pointers(&e->lanes, of_repo, floor, size);
        struct lane *l;

        for (struct table_node *n = table_first(&e->lanes, hash); n != NULL; n = table_next(n)) {
                l = container_of(n, struct lane, node);
                if (l->of_repo == of_repo && l->floor == floor && l->size == size) {
                        group_unref(e, of_tier);
                        group_unref(e, of_repo);
                        l->refs++;
                        return l;
                }
        }
        l = calloc(1, sizeof(*l));
        if (l == NULL) {
                group_unref(e, of_tier);
                group_unref(e, of_repo);
                return NULL;
        }
        l->refs = 1;
        l->of_tier = of_tier;
        l->of_repo = of_repo;
        l->floor = word_ref(floor);
        l->size = word_ref(size);
        l->fresh.cmp = l->used.cmp = lease_by_queue;
        table_add(&e->lanes, &l->node, hash);
        return l;
}

struct lane *lane_get(struct lease_engine *e, struct lessor_slice tier, struct word *repo,
                      struct lessor_slice owner, struct word *floor, struct word *size)
{
        /* Without turns all work is one owner's. */
        struct word *whose = word_get(e, e->options.interleave ? owner : LESSOR_SLICE(""));
        struct group *of_tier, *of_repo;

        if (whose == NULL)
                return NULL;
        of_tier = group_get(e, tier, NULL, whose);
        of_repo = group_get(e, tier, repo, whose);
        word_unref(e, whose);
        if (of_tier == NULL || of_repo == NULL) {
                group_unref(e, of_tier);
                group_unref(e, of_repo);
                return NULL;
        }
        return lane_of_groups(e, of_tier, of_repo, floor, size);
}

/* --- in and out --- */

static void group_link(struct lease_engine *e, struct group *g, struct sorted_node *lane)
{
        sorted_add(&g->lanes, lane, next_rank(e));
        if (!g->linked) {
                sorted_add(&g->scope->groups, &g->in_scope, next_rank(e));
                g->linked = true;
        }
}

static void group_unlink(struct group *g, struct sorted_node *lane)
{
        sorted_remove(&g->lanes, lane);
        if (g->lanes.root == NULL) {
                sorted_remove(&g->scope->groups, &g->in_scope);
                g->linked = false;
        }
}

/* A lane stands by the lease in front of it, so it leaves its groups before that may change. */
static void lane_unlink(struct lane *l)
{
        if (!l->linked)
                return;
        group_unlink(l->of_tier, &l->in_tier);
        group_unlink(l->of_repo, &l->in_repo);
        l->linked = false;
}

static void lane_link(struct lease_engine *e, struct lane *l)
{
        if (l->linked || (l->fresh.root == NULL && l->used.root == NULL))
                return;
        group_link(e, l->of_tier, &l->in_tier);
        group_link(e, l->of_repo, &l->in_repo);
        l->linked = true;
}

void queue_lease(struct lease_engine *e, struct lease *lease)
{
        struct lane *l = lease->lane;
        const struct lease *front = lane_front(l);
        bool moves = front == NULL || lease_cmp_age(lease, front) < 0;

        if (moves)
                lane_unlink(l);
        lease->queued_used = lease->latest != NULL;
        sorted_add(lease->queued_used ? &l->used : &l->fresh, &lease->queue_node, next_rank(e));
        lease->queued = true;
        if (moves)
                lane_link(e, l);
}

void unqueue_lease(struct lease_engine *e, struct lease *lease)
{
        struct lane *l = lease->lane;
        bool moves = lane_front(l) == lease;

        if (moves)
                lane_unlink(l);
        sorted_remove(lease->queued_used ? &l->used : &l->fresh, &lease->queue_node);
        lease->queued = false;
        if (moves)
                lane_link(e, l);
}

/* --- picking --- */

static bool list_has(const struct lessor_slice *items, size_t n, struct lessor_slice text)
{
        for (size_t i = 0; i < n; i++)
                if (lessor_slice_equal(items[i], text))
                        return true;
        return false;
}

enum lessor_lease_bar lane_bar(const struct lane *lane, const struct asking *ask)
{
        const struct lessor_lease_filter *f = &ask->claim->filter;

        if (lane->floor != NULL &&
            (ask->bundled.p == NULL || lessor_agent_version_cmp(ask->bundled, lane->floor->text) < 0))
                return LESSOR_BAR_FLOOR;
        if (f->n_compute_sizes > 0 && !list_has(f->compute_sizes, f->n_compute_sizes,
                                                lane->size == NULL ? serverless : lane->size->text))
                return LESSOR_BAR_FILTER;
        return LESSOR_BAR_NONE;
}

enum lessor_lease_bar lease_bar(const struct lease *lease, const struct asking *ask)
{
        /* A function's calls cannot be told apart: it has no attempt to name (section 20). */
        if (ask->claim->names_attempts && lease->mode != LESSOR_LEASE_FUNCTION)
                return LESSOR_BAR_NONE;
        return lease_was_claimed_by(lease, ask->rack, ask->claim->boot_id) ? LESSOR_BAR_CLAIMED
                                                                           : LESSOR_BAR_NONE;
}

/* The first in a set that this rack may have, older than `than` (NULL: no matter). */
static struct lease *set_pick(const struct sorted *set, struct asking *ask, const struct lease *than)
{
        for (struct sorted_node *n = sorted_first(set); n != NULL; n = sorted_next(set, n)) {
                struct lease *lease = container_of(n, struct lease, queue_node);
                enum lessor_lease_bar bar;

                if (than != NULL && lease_cmp_age(lease, than) > 0)
                        return NULL;
                if (ask->skip != 0 && lease->seen_by == ask->skip)
                        continue;
                bar = lease_bar(lease, ask);
                if (bar == LESSOR_BAR_NONE)
                        return lease;
                ask->bar = bar;
        }
        return NULL;
}

/* The oldest lease of one owner that this rack may have. */
static struct lease *group_pick(const struct group *g, struct asking *ask)
{
        bool by_repo = g->scope->repo != NULL;
        struct lease *best = NULL;

        for (struct sorted_node *n = sorted_first(&g->lanes); n != NULL; n = sorted_next(&g->lanes, n)) {
                const struct lane *l = by_repo ? container_of(n, struct lane, in_repo)
                                               : container_of(n, struct lane, in_tier);
                enum lessor_lease_bar bar = lane_bar(l, ask);
                struct lease *lease;

                if (best != NULL && lease_cmp_age(lane_front(l), best) > 0)
                        break;
                if (bar != LESSOR_BAR_NONE) {
                        ask->bar = bar;
                        continue;
                }
                lease = set_pick(&l->fresh, ask, best);
                if (lease != NULL)
                        best = lease;
                lease = set_pick(&l->used, ask, best);
                if (lease != NULL)
                        best = lease;
        }
        return best;
}

static bool owner_is_behind(const struct sorted_node *node, const void *turn)
{
        return lessor_slice_cmp(container_of(node, struct group, in_scope)->owner->text,
                                ((const struct word *)turn)->text) > 0;
}

/* The scope's next owner's lease, round the ring from `turn`. */
static struct lease *scope_pick(const struct scope *s, struct asking *ask, const struct word *turn)
{
        struct sorted_node *first = turn == NULL ? NULL : sorted_behind(&s->groups, turn, owner_is_behind);
        struct sorted_node *n = first != NULL ? first : sorted_first(&s->groups);
        struct sorted_node *const begin = n;

        while (n != NULL) {
                struct lease *lease = group_pick(container_of(n, struct group, in_scope), ask);

                if (lease != NULL)
                        return lease;
                n = sorted_next(&s->groups, n);
                if (n == NULL)
                        n = sorted_first(&s->groups);
                if (n == begin)
                        break;
        }
        return NULL;
}

/* Whether owner `a` comes before owner `b` on the way round from `turn`. <0, 0 or >0. */
static int turn_cmp(struct lessor_slice a, struct lessor_slice b, const struct word *turn)
{
        if (turn != NULL) {
                bool a_wraps = lessor_slice_cmp(a, turn->text) <= 0,
                     b_wraps = lessor_slice_cmp(b, turn->text) <= 0;

                if (a_wraps != b_wraps)
                        return a_wraps ? 1 : -1;
        }
        return lessor_slice_cmp(a, b);
}

/* Keeps the one whose turn it is. */
static void offer(struct lease **best, struct lease *lease, const struct word *turn)
{
        int order;

        if (lease == NULL)
                return;
        if (*best == NULL) {
                *best = lease;
                return;
        }
        order = turn_cmp(lease->lane->of_tier->owner->text, (*best)->lane->of_tier->owner->text, turn);
        if (order < 0 || (order == 0 && lease_cmp_age(lease, *best) < 0))
                *best = lease;
}

/* The host's own list, in its order. */
static struct lease *list_pick(const struct lease_engine *e, struct asking *ask)
{
        const struct lessor_lease_claim *c = ask->claim;

        for (size_t i = 0; i < c->filter.n_only; i++) {
                struct lease *lease = lease_engine_find_lease(e, &c->filter.only[i]);

                if (lease == NULL || !lease->queued || (ask->skip != 0 && lease->seen_by == ask->skip) ||
                    !list_has(c->tiers, c->n_tiers, lease->lane->of_tier->scope->tier->text) ||
                    (c->filter.n_repos > 0 &&
                     !list_has(c->filter.repos, c->filter.n_repos, lease->repo->text)))
                        continue;
                ask->bar = lane_bar(lease->lane, ask);
                if (ask->bar == LESSOR_BAR_NONE)
                        ask->bar = lease_bar(lease, ask);
                if (ask->bar == LESSOR_BAR_NONE)
                        return lease;
        }
        return NULL;
}

struct lease *queue_pick(const struct lease_engine *e, struct asking *ask, const struct word *turn)
{
        const struct lessor_lease_claim *c = ask->claim;
        struct lease *best = NULL;

        if (c->filter.only != NULL)
                return list_pick(e, ask);
        for (size_t i = 0; i < c->n_tiers; i++) {
                for (size_t j = 0; j < c->filter.n_repos; j++) {
                        const struct scope *s = scope_find(e, c->tiers[i], &c->filter.repos[j]);

                        if (s != NULL)
                                offer(&best, scope_pick(s, ask, turn), turn);
                }
                if (c->filter.n_repos == 0) {
                        const struct scope *s = scope_find(e, c->tiers[i], NULL);

                        if (s != NULL)
                                offer(&best, scope_pick(s, ask, turn), turn);
                }
        }
        return best;
}
