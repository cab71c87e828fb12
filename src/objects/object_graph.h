/* SPDX-License-Identifier: MIT */
#ifndef OBJECTS_OBJECT_GRAPH_H
#define OBJECTS_OBJECT_GRAPH_H

#include "lessor/object_store.h"

/*
 * What an object names, and what that names, and so on (rack-protocol sections 6.5 and 20, docs/objects.md).
 * Which formats are known is the table in object_graph.c; everything else is a leaf.
 */

/* Told of every object that is reached, once (twice if it is named both as a file and as a tree). */
struct object_graph_visitor {
        /*
         * size  what the naming object says; -1: the root
         * Returns 0; 1: do not look into it; or the error that ends the walk.
         */
        int (*object)(void *context, struct lessor_slice hash, int64_t size);
        /*
         * An object that should be of a known format and is not readable as that: code and what is wrong with
         * it. Returns 0 to take it as a leaf, or the error that ends the walk.
         */
        int (*unreadable)(void *context, struct lessor_slice hash, int code, const char *problem);
        void *context;
};

/*
 * Walks from a root. Returns 0; LESSOR_E_TOO_LARGE (deeper than LIMIT_GRAPH_DEPTH or more than
 * LIMIT_GRAPH_OBJECTS); what the visitor or the store says; LESSOR_E_NOMEM. That an object is missing is for
 * the visitor to find out: one that cannot be opened is not looked into.
 */
int object_graph_walk(struct lessor_object_store *s, struct lessor_slice repo, struct lessor_slice root,
                      const struct object_graph_visitor *visitor);

/* Why a graph is not whole. */
struct object_graph_gap {
        struct lessor_slice hash;
        const char *problem; /* for people, static or in the arena */
};

/*
 * Checks that everything a root names is in the store, with the size that is said of it, and references it
 * all again.
 *
 * ret_gap  may be NULL; on the first two failures, what is at fault; in the arena
 *
 * Returns 0; LESSOR_E_NOT_FOUND (an object is missing); LESSOR_E_INVALID (an object is malformed or of
 * another size); as object_graph_walk.
 */
int object_graph_complete(struct lessor_object_store *s, struct lessor_slice repo, struct lessor_slice root,
                          struct lessor_arena *arena, struct object_graph_gap *ret_gap);

/*
 * The closure of a root: it and all that it names, sorted and distinct, complete and referenced again. As
 * object_graph_complete.
 */
int object_graph_closure(struct lessor_object_store *s, struct lessor_slice repo, struct lessor_slice root,
                         struct lessor_arena *arena, struct lessor_slice **ret_hashes, size_t *ret_n,
                         struct object_graph_gap *ret_gap);

#endif
