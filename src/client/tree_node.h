/* SPDX-License-Identifier: MIT */
#ifndef CLIENT_TREE_NODE_H
#define CLIENT_TREE_NODE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "crypto/sha256.h"
#include "lessor/error.h"
#include "wire/task_objects.h"

/*
 * A tree under construction (tree_pack.h): what is in a directory, as nodes, until it is written as a
 * lessor.tree/1. Directories that are small stay part of the tree above them; large ones become trees of
 * their own.
 */
struct tree_node {
        char *name; /* NUL-terminated; NULL at the top */
        size_t name_len;
        enum tree_entry_type type;
        enum tree_mode mode;
        char hash[SHA256_HEX_LEN];
        int64_t size;
        char *target; /* of a link */
        /* Of a TREE_DIRECTORY: */
        struct tree_node *children;
        size_t n, cap;
        /* Once it is settled: what it adds to the tree above, */
        size_t n_entries;
        size_t n_bytes; /* about */
        /* and how far above itself a link in it leads. Only 0 can be a tree of its own. */
        size_t escape;
};

void tree_node_done(struct tree_node *node);

static inline struct lessor_slice tree_node_name(const struct tree_node *node)
{
        return (struct lessor_slice){node->name, node->name_len};
}

/*
 * Adds a child of no type yet. Other children may move in memory.
 *
 * Returns 0 or LESSOR_E_NOMEM.
 */
int tree_node_add(struct tree_node *dir, struct lessor_slice name, struct tree_node **ret_child);

/* The child of that name, or NULL. */
struct tree_node *tree_node_child(const struct tree_node *dir, struct lessor_slice name);

/* Puts the children in the order of a tree. */
void tree_node_sort(struct tree_node *dir);

/* How much one tree may hold. */
struct tree_room {
        size_t entries;
        size_t bytes;
        size_t split_least; /* a directory of fewer entries is not worth a tree of its own */
};

/* What a tree should hold, so that not all of it changes with each file; and what it can. */
extern const struct tree_room tree_room_good, tree_room_most;

/*
 * Settles a directory whose children are settled: counts what it holds, and while that is more than `room`,
 * makes trees of its directories, the largest first. It may hold more afterwards.
 *
 * make_tree  writes a child as a tree: tree_node_write, and tree_node_became_tree
 */
int tree_node_settle(struct tree_node *dir, const struct tree_room *room,
                     int (*make_tree)(void *context, struct tree_node *dir), void *context);

void tree_node_became_tree(struct tree_node *dir, const char hash[SHA256_HEX_LEN + 1], int64_t size);

/* The entries of a tree: what is below `dir`, as far as it is no tree of its own. In the arena. */
int tree_node_entries(const struct tree_node *dir, struct lessor_arena *arena, struct tree *ret_tree);

#endif
