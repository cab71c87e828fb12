/* SPDX-License-Identifier: MIT */
#include "leasing/sorted.h"

#include <assert.h>

/* What is smaller than `node` goes left, the rest right. */
static void split(sorted_cmp *cmp, struct sorted_node *root, const struct sorted_node *node,
                  struct sorted_node **ret_left, struct sorted_node **ret_right)
{
        if (root == NULL) {
                *ret_left = *ret_right = NULL;
        } else if (cmp(root, node) < 0) {
                split(cmp, root->right, node, &root->right, ret_right);
                *ret_left = root;
        } else {
                split(cmp, root->left, node, ret_left, &root->left);
                *ret_right = root;
        }
}

static struct sorted_node *merge(struct sorted_node *left, struct sorted_node *right)
{
        if (left == NULL)
                return right;
        if (right == NULL)
                return left;
        if (left->rank > right->rank) {
                left->right = merge(left->right, right);
                return left;
        }
        right->left = merge(left, right->left);
        return right;
}

void sorted_add(struct sorted *t, struct sorted_node *node, uint64_t rank)
{
        struct sorted_node **at = &t->root;

        node->rank = rank;
        while (*at != NULL && (*at)->rank >= rank)
                at = t->cmp(node, *at) < 0 ? &(*at)->left : &(*at)->right;
        split(t->cmp, *at, node, &node->left, &node->right);
        *at = node;
}

void sorted_remove(struct sorted *t, struct sorted_node *node)
{
        struct sorted_node **at = &t->root;

        while (*at != node)
                at = t->cmp(node, *at) < 0 ? &(*at)->left : &(*at)->right;
        *at = merge(node->left, node->right);
        node->left = node->right = NULL;
}

struct sorted_node *sorted_first(const struct sorted *t)
{
        struct sorted_node *node = t->root;

        while (node != NULL && node->left != NULL)
                node = node->left;
        return node;
}

struct sorted_node *sorted_last(const struct sorted *t)
{
        struct sorted_node *node = t->root;

        while (node != NULL && node->right != NULL)
                node = node->right;
        return node;
}

struct sorted_node *sorted_next(const struct sorted *t, const struct sorted_node *node)
{
        struct sorted_node *best = NULL, *at = t->root;

        while (at != NULL) {
                if (t->cmp(at, node) > 0) {
                        best = at;
                        at = at->left;
                } else {
                        at = at->right;
                }
        }
        return best;
}

struct sorted_node *sorted_previous(const struct sorted *t, const struct sorted_node *node)
{
        struct sorted_node *best = NULL, *at = t->root;

        while (at != NULL) {
                if (t->cmp(at, node) < 0) {
                        best = at;
                        at = at->right;
                } else {
                        at = at->left;
                }
        }
        return best;
}

struct sorted_node *sorted_behind(const struct sorted *t, const void *probe,
                                  bool (*after)(const struct sorted_node *node, const void *probe))
{
        struct sorted_node *best = NULL, *at = t->root;

        while (at != NULL) {
                if (after(at, probe)) {
                        best = at;
                        at = at->left;
                } else {
                        at = at->right;
                }
        }
        return best;
}

bool sorted_has(const struct sorted *t, const struct sorted_node *node)
{
        const struct sorted_node *at = t->root;

        while (at != NULL && at != node)
                at = t->cmp(node, at) < 0 ? at->left : at->right;
        return at == node;
}

static size_t check(const struct sorted *t, const struct sorted_node *node)
{
        if (node == NULL)
                return 0;
        assert(node->left == NULL || (t->cmp(node->left, node) < 0 && node->left->rank <= node->rank));
        assert(node->right == NULL || (t->cmp(node->right, node) > 0 && node->right->rank <= node->rank));
        return 1 + check(t, node->left) + check(t, node->right);
}

size_t sorted_check(const struct sorted *t)
{
        const struct sorted_node *last = NULL;

        for (const struct sorted_node *node = sorted_first(t); node != NULL; node = sorted_next(t, node)) {
                assert(last == NULL || t->cmp(last, node) < 0);
                last = node;
        }
        return check(t, t->root);
}
