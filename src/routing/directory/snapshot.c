/* SPDX-License-Identifier: MIT */
#include "routing/directory/snapshot.h"

#include <stddef.h>

void snapshot_init(struct snapshot *s, void (*free_fn)(struct snapshot *snapshot))
{
        atomic_init(&s->refs, 1);
        s->free = free_fn;
}

void snapshot_ref(struct snapshot *s)
{
        atomic_fetch_add_explicit(&s->refs, 1, memory_order_relaxed);
}

void snapshot_unref(struct snapshot *s)
{
        /* Acquire and release: whoever frees has seen what the other readers did last. */
        if (atomic_fetch_sub_explicit(&s->refs, 1, memory_order_acq_rel) == 1)
                s->free(s);
}

void snapshot_cell_init(struct snapshot_cell *cell)
{
        pthread_mutex_init(&cell->lock, NULL);
        cell->current = NULL;
}

void snapshot_cell_done(struct snapshot_cell *cell)
{
        if (cell->current != NULL)
                snapshot_unref(cell->current);
        cell->current = NULL;
        pthread_mutex_destroy(&cell->lock);
}

struct snapshot *snapshot_cell_get(struct snapshot_cell *cell)
{
        struct snapshot *s;

        pthread_mutex_lock(&cell->lock);
        s = cell->current;
        if (s != NULL)
                snapshot_ref(s);
        pthread_mutex_unlock(&cell->lock);
        return s;
}

void snapshot_cell_put(struct snapshot_cell *cell, struct snapshot *next)
{
        struct snapshot *last;

        pthread_mutex_lock(&cell->lock);
        last = cell->current;
        cell->current = next;
        pthread_mutex_unlock(&cell->lock);
        /* Outside the lock: this may free a large projection. */
        if (last != NULL)
                snapshot_unref(last);
}
