/* SPDX-License-Identifier: MIT */
#ifndef ROUTING_ORDER_H
#define ROUTING_ORDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Things in enqueue order: a treap over nodes that are members of the caller's own structs, keyed by sequence
 * number. Adding and removing take no memory and cannot fail; both, and finding what comes next, cost O(log
 * n).
 *
 * A list would do where jobs only ever joined at the end. They do not: a requeued job gets its old place
 * back. The shape hangs on a salted mix of the sequence numbers, so that nobody can bring it out of balance
 * by choosing which jobs to withdraw.
 */
struct order_node {
        struct order_node *left;
        struct order_node *right;
        uint64_t seq; /* from 1 */
};

/* What all trees of one kind share. */
struct order_rules {
        uint64_t salt;
        /* Called for a node whose children have changed, children first; NULL: nothing to keep up to date. */
        void (*update)(struct order_node *node);
};

struct order_tree {
        struct order_node *root;
        const struct order_rules *rules; /* borrowed */
};

/* Adds a node whose seq is set and not in the tree. */
void order_add(struct order_tree *t, struct order_node *node);

/* Removes a node, which must be in the tree. */
void order_remove(struct order_tree *t, struct order_node *node);

/* The first node with a seq above `seq`, or NULL. */
struct order_node *order_after(const struct order_tree *t, uint64_t seq);

/* Whether this very node is in the tree. */
bool order_has(const struct order_tree *t, const struct order_node *node);

/* Asserts order and heap shape; returns the number of nodes. For tests. */
size_t order_check(const struct order_tree *t);

#endif
