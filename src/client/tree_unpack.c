/* SPDX-License-Identifier: MIT */
#include "client/tree_unpack.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/limits.h"
#include "base/macro.h"
#include "client/tree_place.h"
#include "crypto/sha256.h"

#define READ_STEP  262144
#define HOLE_LEAST 4096 /* bytes of zeros that are worth a hole */

DEFINE_CLEANUP(struct lessor_arena, lessor_arena_free)

/* One object on its way: into a file, or into memory. */
struct tree_taker {
        int file; /* -1: into `text` */
        struct buf *text;
        int64_t size; /* as announced */
        int64_t taken;
        bool verified; /* whoever gave it vouches for it */
        struct sha256 hash;
        int64_t told; /* bytes at the last report */
        struct unpacker *unpacker;
};

/* A tree whose turn is still to come. */
struct pending {
        struct pending *next;
        char hash[SHA256_HEX_LEN];
        int64_t size; /* -1: not said */
        unsigned depth;
        size_t path_len;
        char path[]; /* NUL-terminated; "" is the top */
};

struct unpacker {
        const struct tree_source *source;
        struct buf *problem;
        int top;
        struct pending *pending; /* the next one first */
        int64_t n_placed;        /* entries of all kinds */
        struct tree_unpacked unpacked;
        struct lessor_slice base; /* of the entries that are being placed, for messages */
        int above;                /* directory of the entry placed last; -1: none yet */
        struct buf above_path;
};

static int explain(struct unpacker *u, int error, struct lessor_slice path, const char *what)
{
        if (u->problem->n > 0)
                return error;
        if (u->base.n > 0) {
                tree_place_show(u->problem, u->base);
                if (path.n > 0)
                        buf_char(u->problem, '/');
        }
        if (path.n > 0 || u->base.n == 0)
                tree_place_show(u->problem, path);
        buf_printf(u->problem, ": %s", what);
        return error;
}

static int progress(struct unpacker *u, int64_t n_bytes_of_file)
{
        return u->source->progress == NULL ? 0
                                           : u->source->progress(u->source->context, u->unpacked.n_files,
                                                                 u->unpacked.n_bytes + n_bytes_of_file);
}

/* --- Taking an object --- */

static bool all_zero(struct lessor_slice bytes)
{
        return bytes.p[0] == 0 && memcmp(bytes.p, bytes.p + 1, bytes.n - 1) == 0;
}

static int write_all(int file, struct lessor_slice bytes, int64_t at)
{
        while (bytes.n > 0) {
                ssize_t n = pwrite(file, bytes.p, bytes.n, at);

                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0)
                        return tree_place_error(errno);
                bytes.p += n;
                bytes.n -= (size_t)n;
                at += n;
        }
        return 0;
}

/* Writes a piece, but not its blocks of zeros: what is never written reads as zeros. */
static int write_piece(int file, struct lessor_slice bytes, int64_t at)
{
        while (bytes.n > 0) {
                size_t n = bytes.n < READ_STEP / 8 ? bytes.n : READ_STEP / 8;
                struct lessor_slice part = {bytes.p, n};
                int r = part.n >= HOLE_LEAST && all_zero(part) ? 0 : write_all(file, part, at);

                if (r < 0)
                        return r;
                bytes.p += n;
                bytes.n -= n;
                at += (int64_t)n;
        }
        return 0;
}

int tree_take(struct tree_taker *t, struct lessor_slice bytes)
{
        int r;

        if (bytes.n > (uint64_t)(t->size - t->taken))
                return LESSOR_E_MISMATCH;
        if (!t->verified)
                sha256_add(&t->hash, bytes);
        r = t->file < 0 ? buf_slice(t->text, bytes) : write_piece(t->file, bytes, t->taken);
        if (r < 0)
                return r;
        t->taken += (int64_t)bytes.n;
        if (t->file >= 0 && t->taken - t->told >= READ_STEP) {
                t->told = t->taken;
                return progress(t->unpacker, t->taken);
        }
        return 0;
}

static int take_pieces(struct tree_taker *t, int file)
{
        char *piece = malloc(READ_STEP);
        int64_t at = 0;
        int r = piece == NULL ? LESSOR_E_NOMEM : 0;

        while (r == 0) {
                ssize_t n = pread(file, piece, READ_STEP, at);

                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0)
                        r = tree_place_error(errno);
                if (n <= 0)
                        break;
                at += n;
                r = tree_take(t, (struct lessor_slice){piece, (size_t)n});
        }
        free(piece);
        return r;
}

int tree_take_file(struct tree_taker *t, int file, bool verified)
{
        t->verified = verified;
        if (verified && t->file >= 0 && t->taken == 0 && ioctl(t->file, FICLONE, file) == 0) {
                t->taken = t->size;
                return 0;
        }
        return take_pieces(t, file);
}

static int taker_end(struct tree_taker *t, struct lessor_slice hash)
{
        char hex[SHA256_HEX_LEN + 1];

        if (t->taken != t->size)
                return LESSOR_E_MISMATCH;
        if (!t->verified) {
                sha256_end_hex(&t->hash, hex);
                if (memcmp(hex, hash.p, SHA256_HEX_LEN) != 0)
                        return LESSOR_E_MISMATCH;
        }
        /* What ends with zeros ends with a hole. */
        if (t->file >= 0 && ftruncate(t->file, t->size) < 0)
                return tree_place_error(errno);
        return 0;
}

static const char *what_failed(int error)
{
        if (error == LESSOR_E_NOT_FOUND)
                return "its object is missing";
        if (error == LESSOR_E_MISMATCH)
                return "its object has other bytes than its name or its size says";
        return lessor_error_text(error);
}

static int take_object(struct unpacker *u, struct lessor_slice hash, struct tree_taker *t,
                       struct lessor_slice path)
{
        int r;

        t->unpacker = u;
        sha256_start(&t->hash);
        r = u->source->object(u->source->context, hash, t->size, t);
        if (r == 0)
                r = taker_end(t, hash);
        return r < 0 ? explain(u, r, path, what_failed(r)) : r;
}

/* --- Entries --- */

/* The directory of an entry, made if it has to be, and the last name of its path. */
static int open_above(struct unpacker *u, int base, struct lessor_slice path, const char **ret_last)
{
        const char *slash = memrchr(path.p, '/', path.n);
        struct lessor_slice above = {path.p, slash == NULL ? 0 : (size_t)(slash - path.p)};
        const char *last;
        int r;

        *ret_last = slash == NULL ? path.p : slash + 1;
        if (u->above >= 0 && lessor_slice_equal(buf_view(&u->above_path), above))
                return 0;
        tree_place_close(&u->above);
        buf_clear(&u->above_path);
        r = buf_slice(&u->above_path, above);
        if (r == 0)
                r = tree_place_above(base, path.p, true, &u->above, &last);
        return r;
}

static int place_file(struct unpacker *u, const struct tree_entry *e, const char *name)
{
        _cleanup_(tree_place_close) int file =
                openat(u->above, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
                       e->mode == TREE_MODE_755 ? 0755 : 0644);
        struct tree_taker taker = {.file = file, .size = e->size};
        int r;

        if (file < 0)
                return tree_place_error(errno);
        r = take_object(u, e->hash, &taker, e->path);
        if (r != 0) {
                unlinkat(u->above, name, 0);
                return r;
        }
        u->unpacked.n_files++;
        u->unpacked.n_bytes += e->size;
        return progress(u, 0);
}

static int place_link(struct unpacker *u, const struct tree_entry *e, const char *name)
{
        char *target = strndup(e->target.p, e->target.n);
        int r;

        if (target == NULL)
                return LESSOR_E_NOMEM;
        r = symlinkat(target, u->above, name) < 0 ? tree_place_error(errno) : 0;
        free(target);
        return r;
}

static int make_directory(struct unpacker *u, int base, const char *path)
{
        _cleanup_(tree_place_close) int made = -1;

        (void)u;
        return tree_place_directory(base, path, true, &made);
}

static int add_pending(struct unpacker *u, const struct tree_entry *e, unsigned depth)
{
        size_t len = u->base.n + (u->base.n > 0) + e->path.n;
        struct pending *p = malloc(sizeof(*p) + len + 1);

        if (p == NULL)
                return LESSOR_E_NOMEM;
        memcpy(p->hash, e->hash.p, sizeof(p->hash));
        p->size = e->size;
        p->depth = depth;
        p->path_len = len;
        memcpy(p->path, u->base.p == NULL ? "" : u->base.p, u->base.n);
        if (u->base.n > 0)
                p->path[u->base.n] = '/';
        memcpy(p->path + len - e->path.n, e->path.p, e->path.n);
        p->path[len] = '\0';
        p->next = u->pending;
        u->pending = p;
        return 0;
}

/* `path` is that of the entry with a NUL behind it. */
static int place_entry(struct unpacker *u, int base, const struct tree_entry *e, unsigned depth)
{
        const char *name;
        int r;

        if (u->n_placed++ == LIMIT_TREE_PLACED)
                return explain(u, LESSOR_E_TOO_LARGE, e->path, "the tree has more than 4194304 entries");
        switch (e->type) {
        case TREE_DIRECTORY:
                r = make_directory(u, base, e->path.p);
                break;
        case TREE_TREE:
                r = make_directory(u, base, e->path.p);
                if (r == 0)
                        r = add_pending(u, e, depth + 1);
                break;
        default:
                r = open_above(u, base, e->path, &name);
                if (r == 0)
                        r = e->type == TREE_LINK ? place_link(u, e, name) : place_file(u, e, name);
        }
        if (r == LESSOR_E_EXISTS)
                return explain(u, r, e->path, "there is something at this place");
        if (r == LESSOR_E_PERMISSION)
                return explain(u, r, e->path, "a link or a file is in the way, or there is no permission");
        return r < 0 && r != LESSOR_E_NOMEM ? explain(u, r, e->path, lessor_error_text(r)) : r;
}

/* Entries whose texts are not NUL-terminated are copied one by one. */
static int place_entries(struct unpacker *u, int base, const struct tree_entry *entries, size_t n,
                         unsigned depth)
{
        int r = 0;

        if (u->source->expect != NULL)
                r = u->source->expect(u->source->context, entries, n);
        for (size_t i = 0; r == 0 && i < n; i++) {
                struct tree_entry e = entries[i];
                char *path = strndup(e.path.p, e.path.n);

                if (path == NULL)
                        return LESSOR_E_NOMEM;
                e.path.p = path;
                r = place_entry(u, base, &e, depth);
                free(path);
        }
        tree_place_close(&u->above);
        buf_clear(&u->above_path);
        return r;
}

/* --- Trees --- */

static int refuse_tree(struct unpacker *u, int error, const char *problem)
{
        char text[160];

        snprintf(text, sizeof(text), "this tree is not valid: %s",
                 problem == NULL ? lessor_error_text(error) : problem);
        return explain(u, error, LESSOR_SLICE(""), text);
}

static int place_tree_text(struct unpacker *u, const struct pending *p, struct lessor_slice text)
{
        _cleanup_(lessor_arena_freep) struct lessor_arena *arena = lessor_arena_new();
        _cleanup_(tree_place_close) int base = -1;
        const char *problem = NULL;
        struct tree tree;
        int r = arena == NULL ? LESSOR_E_NOMEM : tree_read(text, arena, &tree, &problem);

        if (r < 0)
                return r == LESSOR_E_NOMEM ? r : refuse_tree(u, r, problem);
        if (p->path_len == 0)
                base = openat(u->top, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        else
                r = tree_place_directory(u->top, p->path, false, &base);
        if (base < 0)
                return explain(u, r < 0 ? r : tree_place_error(errno), LESSOR_SLICE(""),
                               "its directory cannot be opened");
        return place_entries(u, base, tree.entries, tree.n_entries, p->depth);
}

static int place_tree(struct unpacker *u, const struct pending *p)
{
        _cleanup_(buf_done) struct buf text = {0};
        struct tree_taker taker = {.file = -1, .text = &text, .size = p->size};
        struct lessor_slice hash = {p->hash, sizeof(p->hash)};
        int r;

        u->base = (struct lessor_slice){p->path, p->path_len};
        if (p->depth >= LIMIT_GRAPH_DEPTH)
                return explain(u, LESSOR_E_TOO_LARGE, LESSOR_SLICE(""), "more than 32 trees in one another");
        if (p->size > LIMIT_TREE_BYTES)
                return explain(u, LESSOR_E_TOO_LARGE, LESSOR_SLICE(""), "larger than a tree can be");
        r = take_object(u, hash, &taker, LESSOR_SLICE(""));
        return r != 0 ? r : place_tree_text(u, p, buf_view(&text));
}

static int unpacker_run(struct unpacker *u, struct tree_unpacked *ret_unpacked)
{
        int r = 0;

        while (r == 0 && u->pending != NULL) {
                struct pending *p = u->pending;

                u->pending = p->next;
                r = place_tree(u, p);
                u->base = (struct lessor_slice){0};
                free(p);
        }
        if (r == 0 && ret_unpacked != NULL)
                *ret_unpacked = u->unpacked;
        return r;
}

static void unpacker_done(struct unpacker *u)
{
        while (u->pending != NULL) {
                struct pending *next = u->pending->next;

                free(u->pending);
                u->pending = next;
        }
        tree_place_close(&u->above);
        buf_done(&u->above_path);
}

int tree_unpack(struct lessor_slice hash, int64_t size, int dir, const struct tree_source *source,
                struct tree_unpacked *ret_unpacked, struct buf *ret_problem)
{
        _cleanup_(unpacker_done) struct unpacker u = {
                .source = source, .problem = ret_problem, .top = dir, .above = -1};
        const struct tree_entry top = {.hash = hash, .size = size, .path = LESSOR_SLICE("")};
        int r;

        buf_clear(ret_problem);
        if (hash.n != SHA256_HEX_LEN)
                return LESSOR_E_INVALID;
        r = add_pending(&u, &top, 0);
        return r < 0 ? r : unpacker_run(&u, ret_unpacked);
}

int tree_unpack_entries(const struct tree_entry *entries, size_t n, int dir, const struct tree_source *source,
                        struct tree_unpacked *ret_unpacked, struct buf *ret_problem)
{
        _cleanup_(unpacker_done) struct unpacker u = {
                .source = source, .problem = ret_problem, .top = dir, .above = -1};
        int r;

        buf_clear(ret_problem);
        r = place_entries(&u, dir, entries, n, 0);
        return r != 0 ? r : unpacker_run(&u, ret_unpacked);
}
