/* SPDX-License-Identifier: MIT */
#include "client/tree_pack.h"

#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/limits.h"
#include "base/macro.h"
#include "base/table.h"
#include "base/utf8.h"
#include "client/tree_node.h"
#include "client/tree_place.h"

/* Files up to so many bytes are read once and given to the sink from memory. */
#define SMALL_FILE 65536
#define READ_STEP  262144

/* A task has a text of its own around its inputs, and no more than LIMIT_TASK_BYTES. */
static const struct tree_room room_of_task = {
        .entries = 2048, .bytes = LIMIT_TASK_BYTES / 2, .split_least = 2};

DEFINE_CLEANUP(struct lessor_arena, lessor_arena_free)

/* A hash that the sink has had. */
struct seen {
        struct table_node node;
        struct seen *next;
        char hash[SHA256_HEX_LEN];
};

struct packer {
        const struct tree_sink *sink;
        struct buf *problem;
        struct buf path; /* of what is looked at, within the tree */
        struct table seen;
        struct seen *all_seen;
        bool has_table;
        char *step; /* READ_STEP bytes to read into */
        struct tree_packed packed;
};

/* --- What went wrong --- */

static int explain(struct packer *p, int error, const char *what)
{
        if (p->problem->n > 0)
                return error;
        tree_place_show(p->problem, buf_view(&p->path));
        buf_printf(p->problem, ": %s", what);
        return error;
}

static int explain_errno(struct packer *p, int number)
{
        return explain(p, tree_place_error(number), strerror(number));
}

static int progress(struct packer *p, int64_t n_bytes_of_file)
{
        return p->sink->progress == NULL ? 0
                                         : p->sink->progress(p->sink->context, p->packed.n_files,
                                                             p->packed.n_bytes + n_bytes_of_file);
}

/* --- Objects --- */

static bool was_seen(struct packer *p, const char *hash, uint64_t place)
{
        for (struct table_node *node = table_first(&p->seen, place); node != NULL; node = table_next(node))
                if (memcmp(container_of(node, struct seen, node)->hash, hash, SHA256_HEX_LEN) == 0)
                        return true;
        return false;
}

/* Gives an object to the sink, unless it has had it. */
static int give(struct packer *p, const struct tree_object *object)
{
        uint64_t place = table_hash(&p->seen, object->hash);
        struct seen *seen;

        if (was_seen(p, object->hash.p, place))
                return 0;
        if (p->packed.n_objects == LIMIT_GRAPH_OBJECTS)
                return explain(p, LESSOR_E_TOO_LARGE, "a tree names at most 1000000 objects");
        seen = calloc(1, sizeof(*seen));
        if (seen == NULL)
                return LESSOR_E_NOMEM;
        memcpy(seen->hash, object->hash.p, SHA256_HEX_LEN);
        seen->next = p->all_seen;
        p->all_seen = seen;
        table_add(&p->seen, &seen->node, place);
        p->packed.n_objects++;
        return p->sink->object == NULL ? 0 : p->sink->object(p->sink->context, object);
}

static struct lessor_slice hash_view(const char *hash)
{
        return (struct lessor_slice){hash, SHA256_HEX_LEN};
}

/* Writes a directory as a tree, and gives that to the sink. */
static int write_tree(struct packer *p, struct tree_node *dir, char ret_hash[SHA256_HEX_LEN + 1],
                      int64_t *ret_size)
{
        _cleanup_(lessor_arena_freep) struct lessor_arena *arena = lessor_arena_new();
        _cleanup_(buf_done) struct buf text = {0};
        struct tree_object object = {.is_tree = true, .fd = -1, .path = buf_view(&p->path)};
        const char *problem = NULL;
        struct tree tree;
        int r = arena == NULL ? LESSOR_E_NOMEM : 0;

        if (r == 0 && dir->n_entries > LIMIT_TREE_ENTRIES)
                return explain(p, LESSOR_E_TOO_LARGE, "more than 65536 entries, which no tree can hold");
        if (r == 0)
                r = tree_node_entries(dir, arena, &tree);
        if (r == 0)
                r = tree_write(&tree, &text, &problem);
        if (r < 0)
                return r == LESSOR_E_NOMEM ? r : explain(p, r, problem == NULL ? "it is too large" : problem);
        sha256_hex_of(buf_view(&text), ret_hash);
        *ret_size = (int64_t)text.n;
        object.hash = hash_view(ret_hash);
        object.size = (int64_t)text.n;
        object.bytes = buf_view(&text);
        return give(p, &object);
}

static int make_tree(void *context, struct tree_node *dir)
{
        struct packer *p = context;
        char hash[SHA256_HEX_LEN + 1];
        size_t above = tree_place_enter(&p->path, tree_node_name(dir));
        int64_t size;
        int r = write_tree(p, dir, hash, &size);

        tree_place_leave(&p->path, above);
        if (r == 0)
                tree_node_became_tree(dir, hash, size);
        return r;
}

/* --- Files --- */

/* Hashes what `file` holds, which should be `size` bytes. What is appended meanwhile does not count. */
static int hash_file(int file, int64_t size, char *step, struct packer *p, char ret_hash[SHA256_HEX_LEN + 1])
{
        struct sha256 h;
        int64_t at = 0;

        sha256_start(&h);
        while (at < size) {
                size_t most = size - at < READ_STEP ? (size_t)(size - at) : READ_STEP;
                ssize_t n = pread(file, step, most, at);

                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0)
                        return tree_place_error(errno);
                if (n == 0)
                        return LESSOR_E_MISMATCH;
                sha256_add(&h, (struct lessor_slice){step, (size_t)n});
                at += n;
                if (p != NULL && size > READ_STEP) {
                        int r = progress(p, at);

                        if (r != 0)
                                return r;
                }
        }
        sha256_end_hex(&h, ret_hash);
        return 0;
}

int tree_hash_file(int file, char ret_hash[SHA256_HEX_LEN + 1], int64_t *ret_size)
{
        struct stat st;
        char *step;
        int r;

        if (fstat(file, &st) < 0)
                return tree_place_error(errno);
        if (!S_ISREG(st.st_mode))
                return LESSOR_E_INVALID;
        if (st.st_size > LIMIT_OBJECT_BYTES)
                return LESSOR_E_TOO_LARGE;
        step = malloc(READ_STEP);
        if (step == NULL)
                return LESSOR_E_NOMEM;
        r = hash_file(file, st.st_size, step, NULL, ret_hash);
        free(step);
        if (r == 0)
                *ret_size = st.st_size;
        return r;
}

/* An open file, which the caller closes. */
static int pack_open_file(struct packer *p, int file, const struct stat *st, struct tree_node *node)
{
        char hash[SHA256_HEX_LEN + 1] = "";
        struct tree_object object = {
                .hash = hash_view(hash), .size = st->st_size, .fd = file, .path = buf_view(&p->path)};
        int r;

        if (st->st_size > LIMIT_OBJECT_BYTES)
                return explain(p, LESSOR_E_TOO_LARGE, "larger than 5 GiB, which no object can be");
        r = hash_file(file, st->st_size, p->step, p, hash);
        if (r == LESSOR_E_MISMATCH)
                return explain(p, r, "it got shorter while it was read");
        if (r != 0)
                return r == LESSOR_E_IO || r == LESSOR_E_PERMISSION ? explain(p, r, lessor_error_text(r)) : r;
        if (st->st_size <= SMALL_FILE) {
                object.bytes = (struct lessor_slice){p->step, (size_t)st->st_size};
                object.fd = -1;
        }
        node->type = TREE_FILE;
        node->mode = (st->st_mode & S_IXUSR) != 0 ? TREE_MODE_755 : TREE_MODE_644;
        node->size = st->st_size;
        memcpy(node->hash, hash, sizeof(node->hash));
        r = give(p, &object);
        if (r != 0)
                return r;
        p->packed.n_files++;
        p->packed.n_bytes += st->st_size;
        return progress(p, 0);
}

/* `flags` has O_NOFOLLOW unless the name is the user's own. O_NONBLOCK, lest a pipe that took its place
 * waits. */
static int pack_file(struct packer *p, int dir, const char *name, int flags, struct tree_node *node)
{
        _cleanup_(tree_place_close) int file =
                openat(dir, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | flags);
        struct stat st;

        if (file < 0 || fstat(file, &st) < 0)
                return explain_errno(p, errno);
        if (!S_ISREG(st.st_mode))
                return explain(p, LESSOR_E_MISMATCH, "it changed while it was read");
        return pack_open_file(p, file, &st, node);
}

static int pack_link(struct packer *p, int dir, const char *name, struct tree_node *node)
{
        char target[LIMIT_TREE_PATH + 1];
        ssize_t n = readlinkat(dir, name, target, sizeof(target));

        if (n < 0)
                return explain_errno(p, errno);
        if ((size_t)n == sizeof(target))
                return explain(p, LESSOR_E_INVALID, "its target is too long");
        if (!tree_target_valid(buf_view(&p->path), (struct lessor_slice){target, (size_t)n}))
                return explain(p, LESSOR_E_INVALID,
                               "this link leads out of the tree, or by way of something that may be a link; "
                               "only files, directories and links within the tree can be taken");
        node->type = TREE_LINK;
        node->target = strndup(target, (size_t)n);
        return node->target == NULL ? LESSOR_E_NOMEM : 0;
}

static int refuse_kind(struct packer *p, mode_t mode)
{
        const char *what = "this is a device, which no tree can hold";

        if (S_ISFIFO(mode))
                what = "this is a named pipe, which no tree can hold";
        if (S_ISSOCK(mode))
                what = "this is a socket, which no tree can hold";
        return explain(p, LESSOR_E_INVALID, what);
}

/* --- Directories --- */

static int pack_directory(struct packer *p, struct tree_place *place, struct tree_node *dir);

/* Anything but what is in a directory: its children come later. */
static int pack_entry(struct packer *p, int dir, const char *name, struct tree_node *node)
{
        struct stat st;

        if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
                return explain_errno(p, errno);
        if (S_ISREG(st.st_mode))
                return pack_file(p, dir, name, O_NOFOLLOW, node);
        if (S_ISLNK(st.st_mode))
                return pack_link(p, dir, name, node);
        if (S_ISDIR(st.st_mode)) {
                node->type = TREE_DIRECTORY;
                return 0;
        }
        return refuse_kind(p, st.st_mode);
}

static int check_name(struct packer *p, struct lessor_slice name)
{
        if (!utf8_valid(name))
                return explain(p, LESSOR_E_INVALID, "its name is no UTF-8, so no tree can hold it");
        if (p->path.n > LIMIT_TREE_PATH)
                return explain(p, LESSOR_E_INVALID, "its path is longer than 3072 bytes");
        return 0;
}

static int pack_files_of(struct packer *p, int fd, struct tree_node *dir)
{
        int r = 0;

        for (size_t i = 0; r == 0 && i < dir->n; i++) {
                struct tree_node *child = &dir->children[i];
                size_t above = tree_place_enter(&p->path, tree_node_name(child));

                r = buf_failed(&p->path);
                if (r == 0)
                        r = check_name(p, tree_node_name(child));
                if (r == 0)
                        r = pack_entry(p, fd, child->name, child);
                tree_place_leave(&p->path, above);
        }
        return r;
}

static int pack_directories_of(struct packer *p, struct tree_place *place, struct tree_node *dir)
{
        int r = 0;

        for (size_t i = 0; r == 0 && i < dir->n; i++) {
                struct tree_node *child = &dir->children[i];
                struct tree_place below = {.up = place, .name = child->name, .fd = -1};
                size_t above;

                if (child->type != TREE_DIRECTORY)
                        continue;
                above = tree_place_enter(&p->path, tree_node_name(child));
                r = buf_failed(&p->path);
                if (r == 0)
                        r = pack_directory(p, &below, child);
                tree_place_leave(&p->path, above);
        }
        return r;
}

static int add_name(void *context, struct lessor_slice name)
{
        struct tree_node *child;

        return tree_node_add(context, name, &child);
}

static int pack_directory(struct packer *p, struct tree_place *place, struct tree_node *dir)
{
        int r = tree_place_open(place);

        if (r == 0)
                r = tree_place_names(place->fd, add_name, dir);
        if (r < 0)
                return r == LESSOR_E_NOMEM ? r : explain(p, r, lessor_error_text(r));
        tree_node_sort(dir);
        r = pack_files_of(p, place->fd, dir);
        if (r == 0)
                r = pack_directories_of(p, place, dir);
        tree_place_close(&place->fd);
        if (r == 0)
                r = tree_node_settle(dir, &tree_room_good, make_tree, p);
        if (r == 0)
                r = tree_node_settle(dir, &tree_room_most, make_tree, p);
        return r;
}

/* --- Roots --- */

static int refuse_root(struct packer *p, int error)
{
        return explain(p, error,
                       error == LESSOR_E_PERMISSION ? "a link or a file is in the way, or it may not be read"
                                                    : lessor_error_text(error));
}

/* What `root` names, opened as far as that can be: whatever it is lands in `node`. */
static int pack_found(struct packer *p, int dir, const char *name, const struct tree_root *root,
                      struct tree_node *node)
{
        struct tree_place place = {.fd = -1};
        int follow = root->within ? AT_SYMLINK_NOFOLLOW : 0;
        struct stat st;
        int r;

        if (fstatat(dir, name, &st, follow) < 0)
                return explain_errno(p, errno);
        if (S_ISDIR(st.st_mode)) {
                place.fd = openat(dir, name,
                                  O_RDONLY | O_DIRECTORY | O_CLOEXEC | (root->within ? O_NOFOLLOW : 0));
                if (place.fd < 0)
                        return explain_errno(p, errno);
                node->type = TREE_DIRECTORY;
                r = pack_directory(p, &place, node);
                tree_place_close(&place.fd);
                return r;
        }
        if (root->at.p == NULL)
                return explain(p, LESSOR_E_INVALID, "this is no directory");
        if (S_ISREG(st.st_mode))
                return pack_file(p, dir, name, root->within ? O_NOFOLLOW : 0, node);
        if (S_ISLNK(st.st_mode))
                return pack_link(p, dir, name, node);
        return refuse_kind(p, st.st_mode);
}

static int pack_root(struct packer *p, const struct tree_root *root, struct tree_node *node)
{
        _cleanup_(tree_place_close) int above = -1;
        const char *last = root->from;

        if (root->within && strcmp(root->from, ".") != 0) {
                int r;

                if (!tree_path_valid(lessor_slice_of(root->from)))
                        return refuse_root(p, LESSOR_E_INVALID);
                r = tree_place_above(root->dir, root->from, false, &above, &last);
                if (r < 0)
                        return refuse_root(p, r);
        }
        return pack_found(p, above >= 0 ? above : root->dir, last, root, node);
}

/* The node at a path, with the directories on the way to it. */
static int node_at(struct tree_node *top, struct lessor_slice at, struct tree_node **ret_node)
{
        struct tree_node *node = top;

        while (at.n > 0) {
                const char *slash = memchr(at.p, '/', at.n);
                struct lessor_slice name = {at.p, slash == NULL ? at.n : (size_t)(slash - at.p)};
                struct tree_node *child = tree_node_child(node, name);
                int r = child == NULL ? tree_node_add(node, name, &child) : 0;

                if (r < 0)
                        return r;
                node = child;
                at.p += name.n + (slash != NULL);
                at.n -= name.n + (slash != NULL);
        }
        *ret_node = node;
        return 0;
}

static int pack_one(struct packer *p, const struct tree_root *root, struct tree_node *top)
{
        struct tree_node found = {.type = TREE_DIRECTORY}, *node;
        int r;

        tree_place_leave(&p->path, 0);
        if (root->at.p != NULL && !tree_path_valid(root->at)) {
                tree_place_show(p->problem, root->at);
                buf_text(p->problem, ": this is no path of a tree");
                return LESSOR_E_INVALID;
        }
        if (root->at.p != NULL && buf_slice(&p->path, root->at) < 0)
                return LESSOR_E_NOMEM;
        r = pack_root(p, root, &found);
        if (r == LESSOR_E_NOT_FOUND && root->optional) {
                buf_clear(p->problem);
                r = 0;
        } else if (r == 0 && root->at.p == NULL) {
                *top = found;
                return 0;
        } else if (r == 0) {
                r = node_at(top, root->at, &node);
                if (r == 0) {
                        found.name = TAKE(node->name);
                        found.name_len = node->name_len;
                        tree_node_done(node);
                        *node = found;
                        return 0;
                }
        }
        tree_node_done(&found);
        return r;
}

/* Directories that are only on the way to a root have not been settled yet. */
static int settle(struct packer *p, struct tree_node *dir)
{
        int r = 0;

        tree_node_sort(dir);
        for (size_t i = 0; r == 0 && i < dir->n; i++) {
                struct tree_node *child = &dir->children[i];
                size_t above = tree_place_enter(&p->path, tree_node_name(child));

                if (child->type == TREE_DIRECTORY && child->n > 0 && child->n_entries == 0)
                        r = settle(p, child);
                tree_place_leave(&p->path, above);
        }
        if (r == 0)
                r = tree_node_settle(dir, &tree_room_good, make_tree, p);
        return r == 0 ? tree_node_settle(dir, &tree_room_most, make_tree, p) : r;
}

static bool one_is_within(struct lessor_slice a, struct lessor_slice b)
{
        size_t n = a.n < b.n ? a.n : b.n;
        struct lessor_slice longer = a.n < b.n ? b : a;

        return memcmp(a.p, b.p, n) == 0 && (a.n == b.n || longer.p[n] == '/');
}

static int check_roots(const struct tree_root *roots, size_t n, struct buf *problem)
{
        for (size_t i = 0; i < n; i++) {
                if (roots[i].at.p == NULL && n > 1)
                        return LESSOR_E_INVALID;
                for (size_t j = 0; j < i; j++) {
                        if (!one_is_within(roots[i].at, roots[j].at))
                                continue;
                        tree_place_show(problem, roots[i].at);
                        buf_text(problem, roots[i].at.n == roots[j].at.n
                                                  ? ": there are two of these"
                                                  : ": it lies within another, or another "
                                                    "within it");
                        return LESSOR_E_INVALID;
                }
        }
        return 0;
}

static int packer_init(struct packer *p)
{
        unsigned char key[16];

        randombytes_buf(key, sizeof(key));
        p->step = malloc(READ_STEP);
        if (p->step == NULL || table_init(&p->seen, key) < 0)
                return LESSOR_E_NOMEM;
        p->has_table = true;
        return 0;
}

static void packer_done(struct packer *p)
{
        while (p->all_seen != NULL) {
                struct seen *next = p->all_seen->next;

                free(p->all_seen);
                p->all_seen = next;
        }
        if (p->has_table)
                table_done(&p->seen);
        free(p->step);
        buf_done(&p->path);
}

/* Everything up to the top tree, which stays as nodes. */
static int pack_all(struct packer *p, const struct tree_root *roots, size_t n_roots, struct tree_node *top)
{
        int r;

        buf_clear(p->problem);
        r = check_roots(roots, n_roots, p->problem);
        if (r == 0)
                r = packer_init(p);
        for (size_t i = 0; r == 0 && i < n_roots; i++)
                r = pack_one(p, &roots[i], top);
        tree_place_leave(&p->path, 0);
        if (r == 0)
                r = settle(p, top);
        return r;
}

int tree_pack(const struct tree_root *roots, size_t n_roots, const struct tree_sink *sink,
              struct tree_packed *ret_packed, struct buf *ret_problem)
{
        _cleanup_(packer_done) struct packer p = {.sink = sink, .problem = ret_problem};
        _cleanup_(tree_node_done) struct tree_node top = {.type = TREE_DIRECTORY};
        int r = pack_all(&p, roots, n_roots, &top);

        if (r == 0)
                r = write_tree(&p, &top, p.packed.hash, &p.packed.size);
        if (r == 0)
                *ret_packed = p.packed;
        return r;
}

int tree_pack_entries(const struct tree_root *roots, size_t n_roots, const struct tree_sink *sink,
                      struct lessor_arena *arena, struct tree *ret_tree, struct tree_packed *ret_packed,
                      struct buf *ret_problem)
{
        _cleanup_(packer_done) struct packer p = {.sink = sink, .problem = ret_problem};
        _cleanup_(tree_node_done) struct tree_node top = {.type = TREE_DIRECTORY};
        int r = pack_all(&p, roots, n_roots, &top);

        if (r == 0)
                r = tree_node_settle(&top, &room_of_task, make_tree, &p);
        if (r == 0 && (top.n_entries > room_of_task.entries || top.n_bytes > room_of_task.bytes))
                r = explain(&p, LESSOR_E_TOO_LARGE, "too many names for one task; put them into a directory");
        if (r == 0)
                r = tree_node_entries(&top, arena, ret_tree);
        if (r == 0)
                *ret_packed = p.packed;
        return r;
}
