/* SPDX-License-Identifier: MIT */
#include "client/tree_node.h"

#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "base/macro.h"
#include "base/size.h"

/* What an entry takes besides its path, at most: its members' names, a hash, a size. */
#define ENTRY_BYTES 140

const struct tree_room tree_room_good = {.entries = 4096, .bytes = 1u << 20, .split_least = 256};
/* Escapes make a text up to six times as long as it counts here; that many of them are refused when written.
 */
const struct tree_room tree_room_most = {
        .entries = LIMIT_TREE_ENTRIES, .bytes = (size_t)LIMIT_TREE_BYTES / 16 * 15, .split_least = 2};

void tree_node_done(struct tree_node *node)
{
        for (size_t i = 0; i < node->n; i++)
                tree_node_done(&node->children[i]);
        free(node->children);
        free(node->name);
        free(node->target);
        *node = (struct tree_node){.n = 0};
}

int tree_node_add(struct tree_node *dir, struct lessor_slice name, struct tree_node **ret_child)
{
        struct tree_node *child;
        char *copy;

        if (dir->n == dir->cap) {
                size_t cap = dir->cap == 0 ? 8 : dir->cap, bytes;
                struct tree_node *grown;

                if (!size_mul(cap, 2, &cap) || !size_mul(cap, sizeof(*grown), &bytes))
                        return LESSOR_E_NOMEM;
                grown = realloc(dir->children, bytes);
                if (grown == NULL)
                        return LESSOR_E_NOMEM;
                dir->children = grown;
                dir->cap = cap;
        }
        copy = strndup(name.p, name.n);
        if (copy == NULL)
                return LESSOR_E_NOMEM;
        child = &dir->children[dir->n++];
        *child = (struct tree_node){.name = copy, .name_len = name.n, .type = TREE_DIRECTORY};
        *ret_child = child;
        return 0;
}

struct tree_node *tree_node_child(const struct tree_node *dir, struct lessor_slice name)
{
        for (size_t i = 0; i < dir->n; i++)
                if (lessor_slice_equal(tree_node_name(&dir->children[i]), name))
                        return &dir->children[i];
        return NULL;
}

static int by_name(const void *a, const void *b)
{
        return lessor_slice_cmp(tree_node_name(a), tree_node_name(b));
}

void tree_node_sort(struct tree_node *dir)
{
        if (dir->n > 1)
                qsort(dir->children, dir->n, sizeof(*dir->children), by_name);
}

/* --- Settling --- */

/* The levels that a link goes up. */
static size_t ups_of(const char *target)
{
        size_t n = 0;

        while (strncmp(target, "..", 2) == 0 && (target[2] == '/' || target[2] == '\0')) {
                n++;
                target += target[2] == '/' ? 3 : 2;
        }
        return n;
}

static void count(struct tree_node *dir)
{
        dir->n_entries = dir->n_bytes = dir->escape = 0;
        for (size_t i = 0; i < dir->n; i++) {
                const struct tree_node *child = &dir->children[i];
                size_t up = 0;

                if (child->type == TREE_DIRECTORY && child->n > 0) {
                        dir->n_entries += child->n_entries;
                        dir->n_bytes += child->n_bytes + child->n_entries * (child->name_len + 1);
                        up = child->escape > 0 ? child->escape - 1 : 0;
                } else {
                        dir->n_entries++;
                        dir->n_bytes += ENTRY_BYTES + child->name_len;
                }
                if (child->type == TREE_LINK) {
                        dir->n_bytes += strlen(child->target);
                        up = ups_of(child->target);
                }
                if (up > dir->escape)
                        dir->escape = up;
        }
}

static bool fits(const struct tree_node *dir, const struct tree_room *room)
{
        return dir->n_entries <= room->entries && dir->n_bytes <= room->bytes;
}

/* The largest first; of two alike the first by name. */
static int by_size(const void *a, const void *b)
{
        const struct tree_node *x = *(struct tree_node *const *)a, *y = *(struct tree_node *const *)b;

        if (x->n_entries != y->n_entries)
                return x->n_entries < y->n_entries ? 1 : -1;
        if (x->n_bytes != y->n_bytes)
                return x->n_bytes < y->n_bytes ? 1 : -1;
        return by_name(x, y);
}

int tree_node_settle(struct tree_node *dir, const struct tree_room *room,
                     int (*make_tree)(void *context, struct tree_node *dir), void *context)
{
        struct tree_node **large;
        size_t n = 0;
        int r = 0;

        count(dir);
        if (fits(dir, room))
                return 0;
        large = calloc(dir->n, sizeof(struct tree_node *));
        if (large == NULL)
                return LESSOR_E_NOMEM;
        for (size_t i = 0; i < dir->n; i++) {
                struct tree_node *child = &dir->children[i];

                if (child->type == TREE_DIRECTORY && child->escape == 0 &&
                    child->n_entries >= room->split_least)
                        large[n++] = child;
        }
        qsort(large, n, sizeof(struct tree_node *), by_size);
        for (size_t i = 0; r == 0 && i < n && !fits(dir, room); i++) {
                size_t entries = large[i]->n_entries;
                size_t bytes = large[i]->n_bytes + entries * (large[i]->name_len + 1);

                r = make_tree(context, large[i]);
                dir->n_entries -= entries - 1;
                dir->n_bytes -= bytes - ENTRY_BYTES - large[i]->name_len;
        }
        free(large);
        if (r == 0)
                count(dir);
        return r;
}

void tree_node_became_tree(struct tree_node *dir, const char hash[SHA256_HEX_LEN + 1], int64_t size)
{
        for (size_t i = 0; i < dir->n; i++)
                tree_node_done(&dir->children[i]);
        free(dir->children);
        dir->children = NULL;
        dir->n = dir->cap = 0;
        dir->type = TREE_TREE;
        dir->size = size;
        memcpy(dir->hash, hash, sizeof(dir->hash));
}

/* --- Entries --- */

static int add_entry(const struct tree_node *node, struct lessor_slice path, struct lessor_arena *arena,
                     struct tree *tree)
{
        struct tree_entry *e = &tree->entries[tree->n_entries++];

        *e = (struct tree_entry){.type = node->type};
        if (node->type == TREE_FILE)
                e->mode = node->mode;
        if (node->type == TREE_FILE || node->type == TREE_TREE) {
                int r = lessor_arena_copy(arena, (struct lessor_slice){node->hash, sizeof(node->hash)},
                                          &e->hash);

                if (r < 0)
                        return r;
                e->size = node->size;
        }
        if (node->type == TREE_LINK) {
                int r = lessor_arena_copy(arena, lessor_slice_of(node->target), &e->target);

                if (r < 0)
                        return r;
        }
        return lessor_arena_copy(arena, path, &e->path);
}

/* `path` holds the way to the directory, and does so again afterwards. */
static int add_entries(const struct tree_node *dir, struct buf *path, struct lessor_arena *arena,
                       struct tree *tree)
{
        size_t above = path->n;
        int r = 0;

        for (size_t i = 0; r == 0 && i < dir->n; i++) {
                const struct tree_node *child = &dir->children[i];

                if (above > 0)
                        buf_char(path, '/');
                r = buf_slice(path, tree_node_name(child));
                if (r == 0 && child->type == TREE_DIRECTORY && child->n > 0)
                        r = add_entries(child, path, arena, tree);
                else if (r == 0)
                        r = add_entry(child, buf_view(path), arena, tree);
                if (path->p != NULL)
                        path->p[above] = '\0';
                path->n = above;
        }
        return r;
}

int tree_node_entries(const struct tree_node *dir, struct lessor_arena *arena, struct tree *ret_tree)
{
        _cleanup_(buf_done) struct buf path = {0};
        struct tree tree = {.entries = lessor_arena_array(arena, dir->n_entries, sizeof(struct tree_entry))};
        int r;

        if (tree.entries == NULL)
                return LESSOR_E_NOMEM;
        r = add_entries(dir, &path, arena, &tree);
        if (r == 0)
                *ret_tree = tree;
        return r;
}
