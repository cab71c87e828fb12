/* SPDX-License-Identifier: MIT */
#include "routing/order.h"

#include <assert.h>

/* The finaliser of SplitMix64: every bit of the sequence number moves every bit of the rank. */
static uint64_t rank(const struct order_rules *rules, const struct order_node *node)
{
        uint64_t x = node->seq ^ rules->salt;

        x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
        x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
        return x ^ (x >> 31);
}

/*
 * A tree that keeps nothing up to date on the way back is changed on the way down: every claim and every
 * result moves a job from one to another, and most go to the end of a long one.
 */

/* Everything below `seq` goes left, the rest right. */
static void split_down(struct order_node *root, uint64_t seq, struct order_node **left,
                       struct order_node **right)
{
        while (root != NULL) {
                if (root->seq < seq) {
                        *left = root;
                        left = &root->right;
                        root = root->right;
                } else {
                        *right = root;
                        right = &root->left;
                        root = root->left;
                }
        }
        *left = *right = NULL;
}

static void merge_down(const struct order_rules *rules, struct order_node *left, struct order_node *right,
                       struct order_node **at)
{
        while (left != NULL && right != NULL) {
                if (rank(rules, left) > rank(rules, right)) {
                        *at = left;
                        at = &left->right;
                        left = left->right;
                } else {
                        *at = right;
                        at = &right->left;
                        right = right->left;
                }
        }
        *at = left != NULL ? left : right;
}

static void add_down(struct order_tree *t, struct order_node *node)
{
        uint64_t own = rank(t->rules, node);
        struct order_node **at = &t->root;

        while (*at != NULL && own <= rank(t->rules, *at))
                at = node->seq < (*at)->seq ? &(*at)->left : &(*at)->right;
        split_down(*at, node->seq, &node->left, &node->right);
        *at = node;
}

static void drop_down(struct order_tree *t, struct order_node *node)
{
        struct order_node **at = &t->root;

        while (*at != node)
                at = node->seq < (*at)->seq ? &(*at)->left : &(*at)->right;
        merge_down(t->rules, node->left, node->right, at);
}

/* The same with `update` of every node whose subtree changed, from the bottom up. */

static void split(const struct order_rules *rules, struct order_node *root, uint64_t seq,
                  struct order_node **ret_left, struct order_node **ret_right)
{
        if (root == NULL) {
                *ret_left = *ret_right = NULL;
                return;
        }
        if (root->seq < seq) {
                split(rules, root->right, seq, &root->right, ret_right);
                *ret_left = root;
        } else {
                split(rules, root->left, seq, ret_left, &root->left);
                *ret_right = root;
        }
        rules->update(root);
}

static struct order_node *merge(const struct order_rules *rules, struct order_node *left,
                                struct order_node *right)
{
        struct order_node *root;

        if (left == NULL)
                return right;
        if (right == NULL)
                return left;
        if (rank(rules, left) > rank(rules, right)) {
                root = left;
                root->right = merge(rules, left->right, right);
        } else {
                root = right;
                root->left = merge(rules, left, right->left);
        }
        rules->update(root);
        return root;
}

static struct order_node *add(const struct order_rules *rules, struct order_node *root,
                              struct order_node *node)
{
        if (root == NULL || rank(rules, node) > rank(rules, root)) {
                split(rules, root, node->seq, &node->left, &node->right);
                root = node;
        } else if (node->seq < root->seq) {
                root->left = add(rules, root->left, node);
        } else {
                root->right = add(rules, root->right, node);
        }
        rules->update(root);
        return root;
}

static struct order_node *drop(const struct order_rules *rules, struct order_node *root,
                               struct order_node *node)
{
        if (root == node)
                return merge(rules, node->left, node->right);
        if (node->seq < root->seq)
                root->left = drop(rules, root->left, node);
        else
                root->right = drop(rules, root->right, node);
        rules->update(root);
        return root;
}

void order_add(struct order_tree *t, struct order_node *node)
{
        if (t->rules->update == NULL)
                add_down(t, node);
        else
                t->root = add(t->rules, t->root, node);
}

void order_remove(struct order_tree *t, struct order_node *node)
{
        if (t->rules->update == NULL)
                drop_down(t, node);
        else
                t->root = drop(t->rules, t->root, node);
        node->left = node->right = NULL;
}

struct order_node *order_after(const struct order_tree *t, uint64_t seq)
{
        struct order_node *best = NULL;

        for (struct order_node *node = t->root; node != NULL;) {
                if (node->seq > seq) {
                        best = node;
                        node = node->left;
                } else {
                        node = node->right;
                }
        }
        return best;
}

bool order_has(const struct order_tree *t, const struct order_node *node)
{
        return order_after(t, node->seq - 1) == node;
}

static size_t check(const struct order_rules *rules, const struct order_node *node, uint64_t low,
                    uint64_t high)
{
        if (node == NULL)
                return 0;
        assert(node->seq >= low && node->seq <= high);
        assert(node->left == NULL || rank(rules, node->left) <= rank(rules, node));
        assert(node->right == NULL || rank(rules, node->right) <= rank(rules, node));
        return 1 + check(rules, node->left, low, node->seq - 1) +
               check(rules, node->right, node->seq + 1, high);
}

size_t order_check(const struct order_tree *t)
{
        return check(t->rules, t->root, 1, UINT64_MAX);
}
