/* SPDX-License-Identifier: MIT */
#ifndef DIRECTORY_INTERNAL_H
#define DIRECTORY_INTERNAL_H

#include <pthread.h>

#include "routing/directory/directory.h"
#include "routing/directory/sql.h"

/* The insides of the directory, for directory*.c alone. */

struct directory {
        pthread_mutex_t lock; /* recursive; guards all below, and the order in which snapshots are put */
        bool batching;        /* whoever has the lock is within directory_batch */
        int batch_error;      /* what the whole batch fails with: a change of it could not be undone */
        struct sql sql;
        struct projection_cell *projections; /* may be NULL */
        struct policy_cell *policies;        /* may be NULL */
};

/*
 * A change is `r = directory_change(d); if (r == 0) r = …; return directory_settle(d, r);`. The first takes
 * the lock and begins a transaction. The second rolls back what failed, or makes the snapshots that follow
 * from the new tables, commits and puts them, in this order, so that a change is never half there; then it
 * gives the lock back.
 */
int directory_change(struct directory *d);
int directory_settle(struct directory *d, int r);

/* 0 for a text that may be an id: not empty, UTF-8, no control characters, at most LIMIT_ID_BYTES. */
int directory_check_id(struct lessor_slice id);
/* As an id, but may be empty. */
int directory_check_label(struct lessor_slice label);

/* LESSOR_E_NOT_FOUND where nothing was changed. */
static inline int found(int r, int64_t n_changed)
{
        return r == 0 && n_changed == 0 ? LESSOR_E_NOT_FOUND : r;
}

/* LESSOR_E_NOT_FOUND if there is no such site. */
int directory_need_site(struct directory *d, struct lessor_slice site_id);

/* An array in the arena with a place for each row of a table, and how many there are now. */
int directory_rows(struct sql *s, const char *count_query, size_t size, struct lessor_arena *arena,
                   void *ret_items, size_t *ret_n);

/* The lists, read with the lock held. */
int read_sites(struct sql *s, struct lessor_arena *arena, struct directory_site_list *ret_sites);
int read_consents(struct sql *s, struct lessor_slice owner, struct lessor_arena *arena,
                  struct directory_consent_list *ret_consents);
/* Removed devices come last; only with `removed` at all. */
int read_devices(struct sql *s, bool removed, struct lessor_arena *arena,
                 struct directory_device_list *ret_devices);
int read_rosters(struct sql *s, struct lessor_arena *arena, struct directory_roster_list *ret_rosters);

/*
 * What follows from the tables, which are read once for both. Either result may be asked for or not (NULL).
 */
int directory_snapshots(struct sql *s, struct lessor_arena *arena, struct projection **ret_projection,
                        struct policy **ret_policy);

#endif
