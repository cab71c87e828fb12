/* SPDX-License-Identifier: MIT */
#include "objects/object_graph.h"

#include <sodium.h>
#include <stdlib.h>

#include "base/buf.h"
#include "base/limits.h"
#include "base/macro.h"
#include "base/table.h"
#include "objects/io.h"
#include "wire/task_objects.h"

/* How an object is looked at. The same bytes can be a file here and a tree there. */
enum kind {
        KIND_LEAF, /* named as a file: whatever is in it names nothing */
        KIND_ANY,  /* the root: what its first bytes say */
        KIND_TREE, /* named as a tree, so it must be one */
};

struct node {
        struct table_node in_seen;
        struct node *next; /* in the queue */
        enum kind kind;
        unsigned depth;
        int64_t size;
        char hash[64];
};

struct walk {
        struct lessor_object_store *store;
        struct lessor_slice repo;
        const struct object_graph_visitor *visitor;
        struct lessor_arena *arena; /* of the nodes */
        struct table seen;
        struct node *first, **last;
};

static struct lessor_slice hash_of(const struct node *node)
{
        return (struct lessor_slice){node->hash, sizeof(node->hash)};
}

static int reach(struct walk *w, struct lessor_slice hash, enum kind kind, int64_t size, unsigned depth)
{
        char kind_text = (char)('0' + kind);
        uint64_t key = table_hash_pair(&w->seen, hash, (struct lessor_slice){&kind_text, 1});
        struct node *node;

        for (struct table_node *t = table_first(&w->seen, key); t != NULL; t = table_next(t)) {
                node = container_of(t, struct node, in_seen);
                if (node->kind == kind && node->size == size && lessor_slice_equal(hash_of(node), hash))
                        return 0;
        }
        if (w->seen.n >= LIMIT_GRAPH_OBJECTS || depth > LIMIT_GRAPH_DEPTH)
                return LESSOR_E_TOO_LARGE;
        node = lessor_arena_alloc(w->arena, sizeof(*node));
        if (node == NULL)
                return LESSOR_E_NOMEM;
        node->kind = kind;
        node->depth = depth;
        node->size = size;
        memcpy(node->hash, hash.p, sizeof(node->hash));
        table_add(&w->seen, &node->in_seen, key);
        *w->last = node;
        w->last = &node->next;
        return 0;
}

static int reach_entries(struct walk *w, const struct tree_entry *entries, size_t n, unsigned depth)
{
        int r = 0;

        for (size_t i = 0; r == 0 && i < n; i++)
                if (entries[i].type == TREE_FILE || entries[i].type == TREE_TREE)
                        r = reach(w, entries[i].hash, entries[i].type == TREE_TREE ? KIND_TREE : KIND_LEAF,
                                  entries[i].size, depth);
        return r;
}

/* --- The formats. Each reads an object and reaches what it names; `problem` as in task_objects.h. --- */

static int walk_tree(struct walk *w, struct lessor_slice bytes, unsigned depth, struct lessor_arena *arena,
                     int *ret_code, const char **problem)
{
        struct tree tree;

        *ret_code = tree_read(bytes, arena, &tree, problem);
        return *ret_code < 0 ? 0 : reach_entries(w, tree.entries, tree.n_entries, depth);
}

static int walk_task(struct walk *w, struct lessor_slice bytes, unsigned depth, struct lessor_arena *arena,
                     int *ret_code, const char **problem)
{
        struct task task;

        *ret_code = task_read(bytes, arena, &task, problem);
        return *ret_code < 0 ? 0 : reach_entries(w, task.inputs, task.n_inputs, depth);
}

struct format {
        enum kind kind; /* as which it may be named, besides as a root */
        const struct lessor_slice *prefix;
        size_t limit; /* bytes */
        /*
         * ret_code  whether the object could be read: 0 or a code, with LESSOR_E_INVALID the problem
         * Returns 0, or what reaching says.
         */
        int (*walk)(struct walk *w, struct lessor_slice bytes, unsigned depth, struct lessor_arena *arena,
                    int *ret_code, const char **problem);
};

static const struct format formats[] = {
        {KIND_TREE, &tree_prefix, LIMIT_TREE_BYTES, walk_tree},
        {KIND_ANY, &task_prefix, LIMIT_TASK_BYTES, walk_task},
};

/* --- Walking --- */

/* The format that an open object has by its first bytes; NULL: none that may be here. */
static int format_of(int fd, enum kind kind, const struct format **ret_format)
{
        char head[64];
        size_t n;
        int r = object_io_read(fd, head, sizeof(head), 0, &n);

        *ret_format = NULL;
        for (size_t i = 0; r == 0 && i < ARRAY_SIZE(formats); i++) {
                const struct format *f = &formats[i];

                if ((kind == KIND_ANY || kind == f->kind) && n >= f->prefix->n &&
                    memcmp(head, f->prefix->p, f->prefix->n) == 0)
                        *ret_format = f;
        }
        return r;
}

static int read_whole(int fd, size_t size, struct buf *out)
{
        int r = buf_reserve(out, size);

        if (r == 0)
                r = object_io_read(fd, out->p, size, 0, &out->n);
        return r;
}

static int unreadable(const struct walk *w, const struct node *node, int code, const char *problem)
{
        /* What says nothing about the object. */
        if (code == LESSOR_E_NOMEM || code == LESSOR_E_IO)
                return code;
        return w->visitor->unreadable(w->visitor->context, hash_of(node), code,
                                      problem == NULL ? lessor_error_text(code) : problem);
}

static int read_node(struct walk *w, const struct node *node, const struct format *format, int fd,
                     size_t size)
{
        struct lessor_arena *arena = lessor_arena_new();
        const char *problem = NULL;
        struct buf bytes;
        int code = 0;
        int r;

        buf_init(&bytes);
        r = arena == NULL ? LESSOR_E_NOMEM : read_whole(fd, size, &bytes);
        if (r == 0)
                r = format->walk(w, buf_view(&bytes), node->depth + 1, arena, &code, &problem);
        if (r == 0 && code < 0)
                r = unreadable(w, node, code, problem);
        buf_done(&bytes);
        lessor_arena_free(arena);
        return r;
}

static int look_into(struct walk *w, const struct node *node)
{
        _cleanup_(object_io_close) int fd = -1;
        const struct format *format = NULL;
        int64_t size;
        int r;

        if (node->kind == KIND_LEAF)
                return 0;
        r = lessor_object_open(w->store, w->repo, hash_of(node), &fd, &size);
        if (r == LESSOR_E_NOT_FOUND)
                return 0;
        if (r == 0)
                r = format_of(fd, node->kind, &format);
        if (r < 0)
                return r;
        if (format == NULL)
                return node->kind == KIND_ANY ? 0 : unreadable(w, node, LESSOR_E_INVALID, "it is no tree");
        if (size > (int64_t)format->limit)
                return unreadable(w, node, LESSOR_E_TOO_LARGE, NULL);
        return read_node(w, node, format, fd, (size_t)size);
}

int object_graph_walk(struct lessor_object_store *s, struct lessor_slice repo, struct lessor_slice root,
                      const struct object_graph_visitor *visitor)
{
        struct walk w = {.store = s, .repo = repo, .visitor = visitor, .last = &w.first};
        unsigned char key[16];
        int r;

        if (!lessor_object_repo_valid(repo) || !lessor_object_hash_valid(root))
                return LESSOR_E_INVALID;
        if (sodium_init() < 0)
                return LESSOR_E_IO;
        randombytes_buf(key, sizeof(key));
        r = table_init(&w.seen, key);
        if (r < 0)
                return r;
        w.arena = lessor_arena_new();
        r = w.arena == NULL ? LESSOR_E_NOMEM : reach(&w, root, KIND_ANY, -1, 0);
        for (const struct node *node = w.first; r == 0 && node != NULL; node = node->next) {
                r = visitor->object(visitor->context, hash_of(node), node->size);
                if (r == 0)
                        r = look_into(&w, node);
                else if (r > 0)
                        r = 0;
        }
        table_done(&w.seen);
        lessor_arena_free(w.arena);
        return r;
}

/* --- What is made of it --- */

struct completion {
        struct lessor_object_store *store;
        struct lessor_slice repo;
        struct lessor_arena *arena;
        struct object_graph_gap gap;
        struct buf *hashes; /* NULL: not asked for */
};

static int gap_at(struct completion *c, struct lessor_slice hash, const char *problem, int code)
{
        struct lessor_slice text;

        if (lessor_arena_copy(c->arena, hash, &c->gap.hash) < 0 ||
            lessor_arena_copy(c->arena, lessor_slice_of(problem), &text) < 0)
                return LESSOR_E_NOMEM;
        c->gap.problem = text.p;
        return code;
}

static int complete_object(void *context, struct lessor_slice hash, int64_t size)
{
        struct completion *c = context;
        int64_t is;
        int r = lessor_object_touch(c->store, c->repo, &hash, 1, &is);

        if (r < 0)
                return r;
        if (is < 0)
                return gap_at(c, hash, "it is not in the store", LESSOR_E_NOT_FOUND);
        if (size >= 0 && is != size)
                return gap_at(c, hash, "it has another size than what names it says", LESSOR_E_INVALID);
        return c->hashes == NULL ? 0 : buf_slice(c->hashes, hash);
}

static int complete_unreadable(void *context, struct lessor_slice hash, int code, const char *problem)
{
        (void)code;
        return gap_at(context, hash, problem, LESSOR_E_INVALID);
}

static int complete(struct lessor_object_store *s, struct lessor_slice repo, struct lessor_slice root,
                    struct lessor_arena *arena, struct buf *hashes, struct object_graph_gap *ret_gap)
{
        struct completion c = {.store = s, .repo = repo, .arena = arena, .hashes = hashes};
        const struct object_graph_visitor visitor = {complete_object, complete_unreadable, &c};
        int r = object_graph_walk(s, repo, root, &visitor);

        if (r < 0 && c.gap.problem != NULL && ret_gap != NULL)
                *ret_gap = c.gap;
        return r;
}

int object_graph_complete(struct lessor_object_store *s, struct lessor_slice repo, struct lessor_slice root,
                          struct lessor_arena *arena, struct object_graph_gap *ret_gap)
{
        return complete(s, repo, root, arena, NULL, ret_gap);
}

static int slice_cmp(const void *a, const void *b)
{
        return lessor_slice_cmp(*(const struct lessor_slice *)a, *(const struct lessor_slice *)b);
}

/* Hashes one behind the other, as a sorted list of distinct ones. */
static int sorted_hashes(struct lessor_slice all, struct lessor_arena *arena,
                         struct lessor_slice **ret_hashes, size_t *ret_n)
{
        size_t n = all.n / 64, distinct = 0;
        struct lessor_slice *hashes = lessor_arena_array(arena, n, sizeof(*hashes));
        struct lessor_slice copy;

        if (hashes == NULL || lessor_arena_copy(arena, all, &copy) < 0)
                return LESSOR_E_NOMEM;
        for (size_t i = 0; i < n; i++)
                hashes[i] = (struct lessor_slice){copy.p + i * 64, 64};
        if (n > 0)
                qsort(hashes, n, sizeof(*hashes), slice_cmp);
        for (size_t i = 0; i < n; i++)
                if (i == 0 || !lessor_slice_equal(hashes[i], hashes[distinct - 1]))
                        hashes[distinct++] = hashes[i];
        *ret_hashes = hashes;
        *ret_n = distinct;
        return 0;
}

int object_graph_closure(struct lessor_object_store *s, struct lessor_slice repo, struct lessor_slice root,
                         struct lessor_arena *arena, struct lessor_slice **ret_hashes, size_t *ret_n,
                         struct object_graph_gap *ret_gap)
{
        _cleanup_(buf_done) struct buf all;
        int r;

        buf_init(&all);
        r = complete(s, repo, root, arena, &all, ret_gap);
        return r < 0 ? r : sorted_hashes(buf_view(&all), arena, ret_hashes, ret_n);
}
