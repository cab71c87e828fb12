/* SPDX-License-Identifier: MIT */
#include <stdlib.h>

#include "base/size.h"
#include "leasing/engine_internal.h"

/* SplitMix64 over a salted counter: no outsider knows where a node will stand in its tree. */
uint64_t next_rank(struct lease_engine *e)
{
        uint64_t x = e->salt + ++e->n_ranks * UINT64_C(0x9e3779b97f4a7c15);

        x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
        x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
        return x ^ (x >> 31);
}

void *alloc_with_text(size_t n, struct lessor_slice text, struct lessor_slice *ret_text)
{
        size_t bytes;
        char *p;

        if (!size_add(n, text.n, &bytes))
                return NULL;
        p = calloc(1, bytes == 0 ? 1 : bytes);
        if (p == NULL)
                return NULL;
        if (text.n > 0)
                memcpy(p + n, text.p, text.n);
        *ret_text = (struct lessor_slice){p + n, text.n};
        return p;
}

/* --- words --- */

struct word *word_get(struct lease_engine *e, struct lessor_slice text)
{
        uint64_t hash = table_hash(&e->words, text);
        struct lessor_slice copy;
        struct word *w;

        for (struct table_node *n = table_first(&e->words, hash); n != NULL; n = table_next(n)) {
                w = container_of(n, struct word, node);
                if (lessor_slice_equal(w->text, text))
                        return word_ref(w);
        }
        w = alloc_with_text(sizeof(*w), text, &copy);
        if (w == NULL)
                return NULL;
        w->refs = 1;
        w->text = copy;
        table_add(&e->words, &w->node, hash);
        return w;
}

struct word *word_ref(struct word *w)
{
        if (w != NULL)
                w->refs++;
        return w;
}

struct word *word_unref(struct lease_engine *e, struct word *w)
{
        if (w == NULL || --w->refs > 0)
                return NULL;
        table_remove(&e->words, &w->node);
        free(w);
        return NULL;
}

bool word_get_if(struct lease_engine *e, struct lessor_slice text, struct word **ret_word)
{
        struct word *w = NULL;

        if (text.p != NULL) {
                w = word_get(e, text);
                if (w == NULL)
                        return false;
        }
        *ret_word = w;
        return true;
}

/* --- tasks --- */

struct task *task_find(const struct lease_engine *e, struct lessor_slice repo, struct lessor_slice prefix)
{
        uint64_t hash = table_hash_pair(&e->tasks, repo, prefix);

        for (struct table_node *n = table_first(&e->tasks, hash); n != NULL; n = table_next(n)) {
                struct task *t = container_of(n, struct task, node);

                if (lessor_slice_equal(t->prefix, prefix) && lessor_slice_equal(t->repo->text, repo))
                        return t;
        }
        return NULL;
}

struct task *task_get(struct lease_engine *e, struct word *repo, struct lessor_slice prefix)
{
        struct task *t = task_find(e, repo->text, prefix);
        struct lessor_slice copy;

        if (t != NULL) {
                t->refs++;
                return t;
        }
        t = alloc_with_text(sizeof(*t), prefix, &copy);
        if (t == NULL)
                return NULL;
        t->refs = 1;
        t->prefix = copy;
        t->repo = word_ref(repo);
        t->leases.cmp = lease_by_task;
        table_add(&e->tasks, &t->node, table_hash_pair(&e->tasks, repo->text, prefix));
        return t;
}

struct task *task_unref(struct lease_engine *e, struct task *t)
{
        if (t == NULL || --t->refs > 0)
                return NULL;
        table_remove(&e->tasks, &t->node);
        word_unref(e, t->repo);
        free(t);
        return NULL;
}

/* --- runs --- */

struct run *run_find(const struct lease_engine *e, struct lessor_slice name)
{
        uint64_t hash = table_hash(&e->runs, name);

        for (struct table_node *n = table_first(&e->runs, hash); n != NULL; n = table_next(n)) {
                struct run *r = container_of(n, struct run, node);

                if (lessor_slice_equal(r->name, name))
                        return r;
        }
        return NULL;
}

struct run *run_get(struct lease_engine *e, struct lessor_slice name)
{
        struct run *r = run_find(e, name);
        struct lessor_slice copy;

        if (r != NULL) {
                r->refs++;
                return r;
        }
        r = alloc_with_text(sizeof(*r), name, &copy);
        if (r == NULL)
                return NULL;
        r->refs = 1;
        r->name = copy;
        r->leases.cmp = lease_by_run;
        table_add(&e->runs, &r->node, table_hash(&e->runs, name));
        return r;
}

struct run *run_unref(struct lease_engine *e, struct run *r)
{
        if (r == NULL || --r->refs > 0)
                return NULL;
        table_remove(&e->runs, &r->node);
        free(r);
        return NULL;
}

/* --- racks --- */

struct rack *rack_find(const struct lease_engine *e, struct lessor_slice id)
{
        uint64_t hash = table_hash(&e->racks, id);

        for (struct table_node *n = table_first(&e->racks, hash); n != NULL; n = table_next(n)) {
                struct rack *r = container_of(n, struct rack, node);

                if (lessor_slice_equal(r->id, id))
                        return r;
        }
        return NULL;
}

struct rack *rack_registered(const struct lease_engine *e, struct lessor_slice id)
{
        struct rack *r = rack_find(e, id);

        return r != NULL && r->registered ? r : NULL;
}

struct rack *rack_get(struct lease_engine *e, struct lessor_slice id)
{
        struct rack *r = rack_find(e, id);
        struct lessor_slice copy;

        if (r != NULL) {
                r->refs++;
                return r;
        }
        r = alloc_with_text(sizeof(*r), id, &copy);
        if (r == NULL)
                return NULL;
        r->refs = 1;
        r->id = copy;
        r->change.kind = r->event.kind = RECORD_RACK;
        r->claimed.cmp = lease_by_claimed;
        r->recent.cmp = lease_by_recent;
        table_add(&e->racks, &r->node, table_hash(&e->racks, id));
        return r;
}

struct rack *rack_unref(struct lease_engine *e, struct rack *r)
{
        if (r == NULL || --r->refs > 0)
                return NULL;
        table_remove(&e->racks, &r->node);
        word_unref(e, r->label);
        word_unref(e, r->version);
        word_unref(e, r->last_boot);
        word_unref(e, r->approved_boot);
        for (size_t i = 0; i < r->n_tiers; i++)
                word_unref(e, r->tiers[i]);
        free(r->tiers);
        free(r);
        return NULL;
}
