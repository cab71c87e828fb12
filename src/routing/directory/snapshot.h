/* SPDX-License-Identifier: MIT */
#ifndef DIRECTORY_SNAPSHOT_H
#define DIRECTORY_SNAPSHOT_H

#include <pthread.h>
#include <stdatomic.h>

/*
 * An immutable value that many threads read while somebody replaces it: readers hold a reference for as long
 * as they read, and the last one to let go frees it. What a snapshot embeds first; projection.h and policy.h
 * are the two kinds there are, with typed functions over these.
 */
struct snapshot {
        atomic_uint refs;
        void (*free)(struct snapshot *snapshot);
};

/* A new snapshot has one reference, its maker's. */
void snapshot_init(struct snapshot *s, void (*free_fn)(struct snapshot *snapshot));
void snapshot_ref(struct snapshot *s);
void snapshot_unref(struct snapshot *s);

/*
 * The place where the current snapshot is found. Thread-safe. The lock is held for the few instructions that
 * copy the pointer and count the reference, never while anything is built, read or freed.
 */
struct snapshot_cell {
        pthread_mutex_t lock;
        struct snapshot *current; /* one reference is the cell's; NULL until the first put */
};

void snapshot_cell_init(struct snapshot_cell *cell);
void snapshot_cell_done(struct snapshot_cell *cell);

/* The current snapshot with a reference for the caller, or NULL. */
struct snapshot *snapshot_cell_get(struct snapshot_cell *cell);

/* Makes `next` current. Takes the caller's reference to it. */
void snapshot_cell_put(struct snapshot_cell *cell, struct snapshot *next);

#endif
