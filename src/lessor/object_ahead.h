/* SPDX-License-Identifier: MIT */
#ifndef LESSOR_OBJECT_AHEAD_H
#define LESSOR_OBJECT_AHEAD_H

#include "lessor/object_link.h"

/*
 * The source of tree_unpack() for trees of many small files: fetches several of them at once, ahead of their
 * turn. What is large, or fails, is fetched by itself when its turn comes. One thread at a time.
 */
struct object_ahead;

/* `download` is borrowed, and fetches and counts as ever. Returns 0 or LESSOR_E_NOMEM. */
int object_ahead_new(struct object_download *download, struct object_ahead **ret_ahead);

/* Takes NULL, returns NULL. */
struct object_ahead *object_ahead_free(struct object_ahead *ahead);
DEFINE_CLEANUP(struct object_ahead, object_ahead_free)

struct tree_source object_ahead_source(struct object_ahead *ahead);

#endif
