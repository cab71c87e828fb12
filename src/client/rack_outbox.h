/* SPDX-License-Identifier: MIT */
#ifndef CLIENT_RACK_OUTBOX_H
#define CLIENT_RACK_OUTBOX_H

#include "base/buf.h"
#include "lessor/arena.h"
#include "lessor/error.h"

/*
 * Results that are still to be delivered, a file each, named by a number that only grows:
 *
 *   version     1
 *   rackId      whose it is: a rack that enrolled anew has none of these leases
 *   repo, leaseId
 *   attempt     absent: the grant named none
 *   taskName    for people
 *   result      what is said of it, as JSON in a text
 *
 * A file is on disk before the result is sent for the first time, and is removed once the server has answered
 * it, whatever it answered: doing either again is harmless (rack-protocol 6.5).
 */

struct rack_outbox_item {
        struct lessor_slice rack_id;
        struct lessor_slice repo;
        struct lessor_slice lease_id;
        struct lessor_slice attempt; /* absent: none */
        struct lessor_slice task_name;
        struct lessor_slice result;
};

/* Makes the directory (0700) if there is none. Returns 0, LESSOR_E_IO or LESSOR_E_PERMISSION. */
int rack_outbox_make(const char *dir);

/*
 * Keeps an item. Returns 0, with its path, to be freed with free(); what file_create can fail with;
 * LESSOR_E_NOMEM. Thread-safe.
 */
int rack_outbox_put(const char *dir, const struct rack_outbox_item *item, char **ret_path);

/* Removes an item. What cannot be removed is sent again by the next start. */
void rack_outbox_remove(const char *path);

/*
 * Calls `each` for every item, in the order in which they were kept; what it is given is its arena's. Files
 * that cannot be read are passed over and counted, and stay where they are.
 *
 * each   takes the path, to be freed with free(), and the arena. Returns 0 or a code that ends the walk
 * Returns 0; what `each` says; LESSOR_E_IO; LESSOR_E_NOMEM.
 */
int rack_outbox_each(const char *dir,
                     int (*each)(void *context, char *path, struct lessor_arena *arena,
                                 const struct rack_outbox_item *item),
                     void *context, size_t *ret_n_unreadable);

#endif
