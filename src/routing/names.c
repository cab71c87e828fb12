/* SPDX-License-Identifier: MIT */
#include <stdlib.h>

#include "base/size.h"
#include "routing/engine_internal.h"

/* A struct of `size` bytes with `n` more behind it, zeroed; NULL when memory is short. */
static void *new_with_text(size_t size, size_t n)
{
        size_t total;

        return size_add(size, n, &total) ? calloc(1, total) : NULL;
}

/* Copies text behind a struct and moves on. */
static struct lessor_slice put_text(char **at, struct lessor_slice text)
{
        struct lessor_slice copy = {*at, text.n};

        if (text.n > 0)
                memcpy(*at, text.p, text.n);
        *at += text.n;
        return copy;
}

/* --- texts --- */

struct atom *atom_get(struct engine *e, struct lessor_slice text)
{
        uint64_t hash = table_hash(&e->atoms, text);
        struct atom *a;
        char *at;

        for (struct table_node *n = table_first(&e->atoms, hash); n != NULL; n = table_next(n)) {
                a = container_of(n, struct atom, node);
                if (lessor_slice_equal(a->text, text)) {
                        a->refs++;
                        return a;
                }
        }
        a = new_with_text(sizeof(*a), text.n);
        if (a == NULL)
                return NULL;
        at = (char *)(a + 1);
        a->text = put_text(&at, text);
        a->refs = 1;
        table_add(&e->atoms, &a->node, hash);
        return a;
}

struct atom *atom_unref(struct engine *e, struct atom *a)
{
        if (a != NULL && --a->refs == 0) {
                table_remove(&e->atoms, &a->node);
                free(a);
        }
        return NULL;
}

/* --- devices --- */

bool device_has_keys(const struct device *d, const struct lessor_public_identity *keys)
{
        return lessor_slice_equal(d->keys.identity, keys->identity) &&
               lessor_slice_equal(d->keys.encryption, keys->encryption) &&
               lessor_slice_equal(d->keys.encryption_sig, keys->encryption_sig);
}

struct device *device_get(struct engine *e, const struct lessor_public_identity *keys)
{
        uint64_t hash = table_hash_pair(&e->devices, keys->identity, keys->encryption_sig);
        struct device *d;
        size_t n_text;
        char *at;

        for (struct table_node *n = table_first(&e->devices, hash); n != NULL; n = table_next(n)) {
                d = container_of(n, struct device, node);
                if (device_has_keys(d, keys)) {
                        d->refs++;
                        return d;
                }
        }
        if (!size_add(keys->identity.n, keys->encryption.n, &n_text) ||
            !size_add(n_text, keys->encryption_sig.n, &n_text))
                return NULL;
        d = new_with_text(sizeof(*d), n_text);
        if (d == NULL)
                return NULL;
        at = (char *)(d + 1);
        d->keys.identity = put_text(&at, keys->identity);
        d->keys.encryption = put_text(&at, keys->encryption);
        d->keys.encryption_sig = put_text(&at, keys->encryption_sig);
        d->refs = 1;
        table_add(&e->devices, &d->node, hash);
        return d;
}

struct device *device_unref(struct engine *e, struct device *d)
{
        if (d != NULL && --d->refs == 0) {
                table_remove(&e->devices, &d->node);
                free(d);
        }
        return NULL;
}

/* --- runners --- */

static struct runner *runner_lookup(const struct engine *e, struct lessor_slice id, uint64_t hash)
{
        for (struct table_node *n = table_first(&e->runners, hash); n != NULL; n = table_next(n)) {
                struct runner *r = container_of(n, struct runner, node);

                if (lessor_slice_equal(r->id, id))
                        return r;
        }
        return NULL;
}

struct runner *runner_find(const struct engine *e, struct lessor_slice id)
{
        return runner_lookup(e, id, table_hash(&e->runners, id));
}

struct runner *runner_get(struct engine *e, struct lessor_slice id)
{
        uint64_t hash = table_hash(&e->runners, id);
        struct runner *r = runner_lookup(e, id, hash);
        char *at;

        if (r != NULL) {
                r->refs++;
                return r;
        }
        r = new_with_text(sizeof(*r), id.n);
        if (r == NULL)
                return NULL;
        at = (char *)(r + 1);
        r->id = put_text(&at, id);
        r->refs = 1;
        r->cancelled.rules = &e->plain_rules;
        table_add(&e->runners, &r->node, hash);
        return r;
}

struct runner *runner_unref(struct engine *e, struct runner *r)
{
        if (r != NULL && --r->refs == 0) {
                table_remove(&e->runners, &r->node);
                free(r);
        }
        return NULL;
}

/* --- sites --- */

static struct site *site_lookup(const struct engine *e, struct lessor_slice id, uint64_t hash)
{
        for (struct table_node *n = table_first(&e->sites, hash); n != NULL; n = table_next(n)) {
                struct site *s = container_of(n, struct site, node);

                if (lessor_slice_equal(s->id, id))
                        return s;
        }
        return NULL;
}

struct site *site_find(const struct engine *e, struct lessor_slice id)
{
        return site_lookup(e, id, table_hash(&e->sites, id));
}

struct site *site_get(struct engine *e, struct lessor_slice id)
{
        uint64_t hash = table_hash(&e->sites, id);
        struct site *s = site_lookup(e, id, hash);
        char *at;

        if (s != NULL) {
                s->refs++;
                return s;
        }
        s = new_with_text(sizeof(*s), id.n);
        if (s == NULL)
                return NULL;
        at = (char *)(s + 1);
        s->id = put_text(&at, id);
        s->refs = 1;
        s->jobs.rules = s->awaiting.rules = s->finished.rules = &e->plain_rules;
        table_add(&e->sites, &s->node, hash);
        return s;
}

struct site *site_unref(struct engine *e, struct site *s)
{
        if (s != NULL && --s->refs == 0) {
                table_remove(&e->sites, &s->node);
                free(s);
        }
        return NULL;
}

/* --- pairs --- */

static struct pair *pair_lookup(const struct engine *e, struct lessor_slice site_id,
                                struct lessor_slice owner, uint64_t hash)
{
        for (struct table_node *n = table_first(&e->pairs, hash); n != NULL; n = table_next(n)) {
                struct pair *p = container_of(n, struct pair, node);

                if (lessor_slice_equal(p->site->id, site_id) && lessor_slice_equal(p->owner->text, owner))
                        return p;
        }
        return NULL;
}

struct pair *pair_find(const struct engine *e, struct lessor_slice site_id, struct lessor_slice owner)
{
        return pair_lookup(e, site_id, owner, table_hash_pair(&e->pairs, site_id, owner));
}

struct pair *pair_get(struct engine *e, struct lessor_slice site_id, struct lessor_slice owner)
{
        uint64_t hash = table_hash_pair(&e->pairs, site_id, owner);
        struct pair *p = pair_lookup(e, site_id, owner, hash);

        if (p != NULL) {
                p->refs++;
                return p;
        }
        p = calloc(1, sizeof(*p));
        if (p == NULL)
                return NULL;
        p->site = site_get(e, site_id);
        p->owner = atom_get(e, owner);
        if (p->site == NULL || p->owner == NULL) {
                site_unref(e, p->site);
                atom_unref(e, p->owner);
                free(p);
                return NULL;
        }
        for (size_t i = 0; i < N_LANES; i++)
                p->lanes[i].rules = &e->queue_rules;
        p->refs = 1;
        table_add(&e->pairs, &p->node, hash);
        return p;
}

struct pair *pair_unref(struct engine *e, struct pair *p)
{
        if (p != NULL && --p->refs == 0) {
                table_remove(&e->pairs, &p->node);
                site_unref(e, p->site);
                atom_unref(e, p->owner);
                free(p);
        }
        return NULL;
}

/* --- berths --- */

static uint64_t berth_hash(const struct engine *e, const struct pair *p, const struct runner *r)
{
        const void *both[2] = {p, r};

        return table_hash(&e->berths, (struct lessor_slice){(const char *)both, sizeof(both)});
}

struct berth *berth_find(const struct engine *e, const struct pair *p, const struct runner *r)
{
        for (struct table_node *n = table_first(&e->berths, berth_hash(e, p, r)); n != NULL;
             n = table_next(n)) {
                struct berth *b = container_of(n, struct berth, node);

                if (b->pair == p && b->runner == r)
                        return b;
        }
        return NULL;
}

struct berth *berth_get(struct engine *e, struct pair *p, struct runner *r)
{
        struct berth *b = p->n_berths == 0 ? NULL : berth_find(e, p, r);

        if (b != NULL) {
                b->refs++;
                return b;
        }
        b = calloc(1, sizeof(*b));
        if (b == NULL)
                return NULL;
        b->pair = p;
        b->runner = r;
        r->refs++;
        b->refs = 1;
        for (size_t i = 0; i < N_LANES; i++)
                b->lanes[i].rules = &e->queue_rules;
        p->n_berths++;
        table_add(&e->berths, &b->node, berth_hash(e, p, r));
        return b;
}

struct berth *berth_unref(struct engine *e, struct berth *b)
{
        if (b != NULL && --b->refs == 0) {
                table_remove(&e->berths, &b->node);
                b->pair->n_berths--;
                runner_unref(e, b->runner);
                free(b);
        }
        return NULL;
}
