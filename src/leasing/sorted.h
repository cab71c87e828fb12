/* SPDX-License-Identifier: MIT */
#ifndef LEASING_SORTED_H
#define LEASING_SORTED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * A set in the order of the caller's comparison: a treap over nodes that are members of the caller's own
 * structs. Adding and removing take no memory and cannot fail; they, and every step through the set, cost
 * O(log n).
 *
 * The shape hangs on the ranks that the caller hands in; they must be none that an outsider can foresee.
 */
struct sorted_node {
        struct sorted_node *left;
        struct sorted_node *right;
        uint64_t rank;
};

/* <0, 0 or >0; 0 only for a node and itself. */
typedef int sorted_cmp(const struct sorted_node *a, const struct sorted_node *b);

struct sorted {
        struct sorted_node *root;
        sorted_cmp *cmp;
};

/* What comes first is smallest. The node must not be in a set. */
void sorted_add(struct sorted *t, struct sorted_node *node, uint64_t rank);

/* The node must be in this set, and what it is compared by must be as it was when it was added. */
void sorted_remove(struct sorted *t, struct sorted_node *node);

struct sorted_node *sorted_first(const struct sorted *t);
struct sorted_node *sorted_last(const struct sorted *t);

/* The neighbours of a node that is, or could be, in the set; NULL: none. */
struct sorted_node *sorted_next(const struct sorted *t, const struct sorted_node *node);
struct sorted_node *sorted_previous(const struct sorted *t, const struct sorted_node *node);

/* The first node that `after` says is behind the probe, which must be monotone; NULL: none. */
struct sorted_node *sorted_behind(const struct sorted *t, const void *probe,
                                  bool (*after)(const struct sorted_node *node, const void *probe));

/* Whether this very node is in the set. */
bool sorted_has(const struct sorted *t, const struct sorted_node *node);

/* Asserts order and shape; returns the number of nodes. For tests. */
size_t sorted_check(const struct sorted *t);

#endif
