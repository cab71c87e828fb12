/* SPDX-License-Identifier: MIT */
#include "objects/fs.h"

#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdlib.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/encode.h"
#include "base/file.h"
#include "objects/fs_internal.h"

#define DEFAULT_LOW_SPACE_BYTES INT64_C(67108864)

static const struct lessor_slice format_line = LESSOR_SLICE("lessor.objects/1\n");

/* Makes a directory in one whose fd is given, on disk when it returns. One that is there is as good. */
static int make_directory(const struct fs *fs, int dir, const char *name)
{
        if (fs->io->mkdirat(dir, name, 0700) < 0 && errno != EEXIST)
                return object_io_error(errno);
        return fs_sync(fs, dir);
}

/* A repository is made aside and moved in whole, so that later nobody needs to make, or sync, a shard. */
static int fill_repo(struct fs *fs, int dir)
{
        _cleanup_(object_io_close) int objects = -1;
        int r = make_directory(fs, dir, "staged");

        if (r == 0)
                r = make_directory(fs, dir, "damaged");
        if (r == 0)
                r = make_directory(fs, dir, "objects");
        if (r < 0)
                return r;
        objects = openat(dir, "objects", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (objects < 0)
                return object_io_error(errno);
        for (unsigned i = 0; i < FS_SHARDS; i++) {
                static const char digits[] = "0123456789abcdef";
                const char name[3] = {digits[i >> 4], digits[i & 15], '\0'};

                if (fs->io->mkdirat(objects, name, 0700) < 0)
                        return object_io_error(errno);
        }
        return fs_sync(fs, objects);
}

static int move_repo_in(struct fs *fs, const char *temporary, struct lessor_slice repo)
{
        _cleanup_(object_io_close) int repos = -1;
        _cleanup_(buf_done) struct buf name;
        int r;

        buf_init(&name);
        r = buf_slice(&name, repo);
        if (r == 0)
                r = fs_directory(fs, &repos, "repos");
        if (r < 0)
                return r;
        /* Somebody else may have been quicker. */
        if (fs->io->renameat(fs->tmp, temporary, repos, name.p) < 0 && errno != ENOTEMPTY && errno != EEXIST)
                return object_io_error(errno);
        return fs_sync(fs, repos);
}

int fs_make_repo(struct fs *fs, struct lessor_slice repo)
{
        struct fs_temporary name = fs_temporary_name(fs);
        int fd = -1;
        int r = fs_directory(fs, &fd, "repos/%.*s", (int)repo.n, repo.p);

        if (r == 0)
                close(fd);
        if (r != LESSOR_E_NOT_FOUND)
                return r;
        if (fs->io->mkdirat(fs->tmp, name.text, 0700) < 0)
                return object_io_error(errno);
        fd = openat(fs->tmp, name.text, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        r = fd < 0 ? object_io_error(errno) : fill_repo(fs, fd);
        object_io_close(&fd);
        if (r == 0)
                r = move_repo_in(fs, name.text, repo);
        fs_remove_tree(fs->tmp, name.text);
        return r;
}

/* --- Reading --- */

static int fs_open(struct lessor_object_store *s, struct lessor_slice repo, struct lessor_slice hash,
                   int *ret_fd, int64_t *ret_size)
{
        _cleanup_(object_io_close) int shard = -1;
        struct fs_name name = fs_name_of(hash);
        struct stat st;
        int fd;
        int r = fs_shard(fs_of(s), repo, hash, &shard);

        if (r < 0)
                return r;
        fd = openat(shard, name.text, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
        if (fd < 0)
                return object_io_error(errno);
        if (fstat(fd, &st) < 0) {
                close(fd);
                return LESSOR_E_IO;
        }
        *ret_fd = fd;
        if (ret_size != NULL)
                *ret_size = st.st_size;
        return 0;
}

static int fs_stat(struct lessor_object_store *s, struct lessor_slice repo, struct lessor_slice hash,
                   struct lessor_object_info *ret_info)
{
        _cleanup_(object_io_close) int shard = -1;
        struct fs_name name = fs_name_of(hash);
        struct stat st;
        int r = fs_shard(fs_of(s), repo, hash, &shard);

        if (r < 0)
                return r;
        if (fstatat(shard, name.text, &st, AT_SYMLINK_NOFOLLOW) < 0)
                return object_io_error(errno);
        *ret_info = (struct lessor_object_info){hash, st.st_size, fs_stamp_of(&st)};
        return 0;
}

/* The size of one object, referenced again if asked. */
static int look_at(const struct fs *fs, struct lessor_slice repo, struct lessor_slice hash, bool touch,
                   int64_t *ret_size)
{
        _cleanup_(object_io_close) int shard = -1;
        struct fs_name name = fs_name_of(hash);
        struct stat st;
        int r = fs_shard(fs, repo, hash, &shard);

        if (r == 0 && touch)
                r = fs_lock(shard, false);
        if (r == 0 && fstatat(shard, name.text, &st, AT_SYMLINK_NOFOLLOW) < 0)
                r = object_io_error(errno);
        if (r == 0 && touch)
                r = fs_stamp(fs, shard, name.text);
        if (r == 0)
                *ret_size = st.st_size;
        return r;
}

static int fs_look(struct lessor_object_store *s, struct lessor_slice repo, const struct lessor_slice *hashes,
                   size_t n, bool touch, int64_t *ret_sizes)
{
        for (size_t i = 0; i < n; i++) {
                int r = lessor_object_hash_valid(hashes[i])
                                ? look_at(fs_of(s), repo, hashes[i], touch, &ret_sizes[i])
                                : LESSOR_E_NOT_FOUND;

                if (r == LESSOR_E_NOT_FOUND)
                        ret_sizes[i] = -1;
                else if (r < 0)
                        return r;
        }
        return 0;
}

/* Adds the objects of one shard after `after` to a list that has room for `max`. */
static int list_shard(const struct fs *fs, struct lessor_slice repo, unsigned shard_number,
                      struct lessor_slice after, size_t max, struct lessor_arena *arena,
                      struct lessor_object_info_list *list)
{
        _cleanup_(object_io_close) int shard = -1;
        struct lessor_slice *names;
        size_t n;
        int r = fs_directory(fs, &shard, "repos/%.*s/objects/%02x", (int)repo.n, repo.p, shard_number);

        if (r == 0)
                r = fs_sorted(shard, SHA256_HEX_LEN - 2, arena, &names, &n);
        for (size_t i = 0; r == 0 && i < n && list->n < max; i++) {
                _cleanup_(buf_done) struct buf hash;
                struct lessor_object_info *info = &list->items[list->n];
                struct stat st;

                buf_init(&hash);
                buf_printf(&hash, "%02x%.*s", shard_number, (int)names[i].n, names[i].p);
                if (buf_failed(&hash) < 0)
                        return LESSOR_E_NOMEM;
                if (!lessor_object_hash_valid(buf_view(&hash)) ||
                    (after.p != NULL && lessor_slice_cmp(buf_view(&hash), after) <= 0) ||
                    fstatat(shard, hash.p + 2, &st, AT_SYMLINK_NOFOLLOW) < 0)
                        continue;
                r = lessor_arena_copy(arena, buf_view(&hash), &info->hash);
                info->size = st.st_size;
                info->touched_ms = fs_stamp_of(&st);
                list->n += r == 0;
        }
        return r;
}

static int fs_list(struct lessor_object_store *s, struct lessor_slice repo, struct lessor_slice after,
                   size_t max, struct lessor_arena *arena, struct lessor_object_info_list *ret_list)
{
        struct lessor_object_info_list list = {.n = 0};
        unsigned shard = 0;
        uint8_t first;
        int r = 0;

        list.items = lessor_arena_array(arena, max, sizeof(*list.items));
        if (list.items == NULL)
                return LESSOR_E_NOMEM;
        if (after.p != NULL && hex_read((struct lessor_slice){after.p, 2}, &first, 1))
                shard = first;
        for (; r == 0 && shard < FS_SHARDS && list.n < max; shard++)
                r = list_shard(fs_of(s), repo, shard, after, max, arena, &list);
        if (r < 0 && r != LESSOR_E_NOT_FOUND)
                return r;
        *ret_list = list;
        return 0;
}

static int repo_cmp(const void *a, const void *b)
{
        return lessor_slice_cmp(*(const struct lessor_slice *)a, *(const struct lessor_slice *)b);
}

static int fs_repos(struct lessor_object_store *s, struct lessor_arena *arena,
                    struct lessor_slice **ret_repos, size_t *ret_n)
{
        _cleanup_(object_io_close) int repos = -1;
        _cleanup_(fs_entries_close) DIR *entries = NULL;
        struct lessor_slice *list = NULL;
        const char *entry;
        size_t n = 0, cap = 0;
        int r = fs_directory(fs_of(s), &repos, "repos");

        if (r == 0)
                r = fs_entries(repos, &entries);
        while (r == 0 && (entry = fs_each(entries)) != NULL) {
                if (!lessor_object_repo_valid(lessor_slice_of(entry)))
                        continue;
                if (n == cap) {
                        size_t grown = cap == 0 ? 16 : cap * 2;
                        struct lessor_slice *copy = lessor_arena_array(arena, grown, sizeof(*copy));

                        if (copy == NULL)
                                return LESSOR_E_NOMEM;
                        if (n > 0)
                                memcpy(copy, list, n * sizeof(*copy));
                        list = copy;
                        cap = grown;
                }
                r = lessor_arena_copy(arena, lessor_slice_of(entry), &list[n]);
                n += r == 0;
        }
        if (r < 0)
                return r;
        if (n > 0)
                qsort(list, n, sizeof(*list), repo_cmp);
        *ret_repos = list;
        *ret_n = n;
        return 0;
}

/* --- Opening and closing --- */

/* Removes what processes left that are no more: their directories are not locked. */
static int remove_stale(const struct fs *fs)
{
        _cleanup_(object_io_close) int tmp = -1;
        _cleanup_(fs_entries_close) DIR *entries = NULL;
        const char *entry;
        int r = fs_directory(fs, &tmp, "tmp");

        if (r == 0)
                r = fs_entries(tmp, &entries);
        while (r == 0 && (entry = fs_each(entries)) != NULL) {
                _cleanup_(object_io_close) int theirs =
                        openat(tmp, entry, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);

                if (theirs < 0 || flock(theirs, LOCK_EX | LOCK_NB) == 0)
                        fs_remove_tree(tmp, entry);
        }
        return r;
}

/* Makes and locks the directory of this process. */
static int make_own(struct fs *fs)
{
        struct buf name;
        struct stat st = {.st_nlink = 0};
        int r = 0;

        /* Between its making and its locking somebody may take it for a dead one's and remove it. */
        while (r == 0 && st.st_nlink == 0) {
                uint8_t random[8];

                randombytes_buf(random, sizeof(random));
                object_io_close(&fs->tmp);
                fs->tmp = -1;
                free(fs->tmp_name);
                buf_init(&name);
                buf_text(&name, "tmp/");
                hex_append(&name, random, sizeof(random));
                fs->tmp_name = name.p;
                if (buf_failed(&name) < 0)
                        return LESSOR_E_NOMEM;
                if (fs->io->mkdirat(fs->root, name.p, 0700) < 0)
                        return object_io_error(errno);
                r = fs_directory(fs, &fs->tmp, "%s", name.p);
                if (r == LESSOR_E_NOT_FOUND) {
                        r = 0;
                        continue;
                }
                if (r == 0)
                        r = fs_lock(fs->tmp, true);
                if (r == 0 && fstat(fs->tmp, &st) < 0)
                        r = LESSOR_E_IO;
        }
        return r;
}

/* Reads which format the directory has. A new one gets its mark last, when all else is there. */
static int check_format(const struct fs *fs, const char *path)
{
        _cleanup_(buf_done) struct buf name, line;
        int r;

        buf_init(&name);
        buf_init(&line);
        r = buf_printf(&name, "%s/format", path);
        if (r == 0)
                r = file_read(name.p, 64, &line);
        if (r == LESSOR_E_NOT_FOUND) {
                r = make_directory(fs, fs->root, "tmp");
                if (r == 0)
                        r = make_directory(fs, fs->root, "repos");
                if (r == 0)
                        r = file_replace(name.p, format_line, 0600);
                return r;
        }
        if (r == LESSOR_E_TOO_LARGE || r == LESSOR_E_INVALID)
                return LESSOR_E_CORRUPT;
        if (r < 0 || lessor_slice_equal(buf_view(&line), format_line))
                return r;
        return strncmp(buf_view(&line).p, "lessor.objects/", strlen("lessor.objects/")) == 0
                       ? LESSOR_E_NEWER
                       : LESSOR_E_CORRUPT;
}

static int open_root(struct fs *fs, const char *path)
{
        if (mkdir(path, 0700) < 0 && errno != EEXIST)
                return object_io_error(errno);
        fs->root = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        return fs->root < 0 ? object_io_error(errno) : 0;
}

static struct lessor_object_store *fs_free(struct lessor_object_store *s)
{
        struct fs *fs = fs_of(s);

        if (fs->tmp >= 0) {
                fs_remove_tree(fs->root, fs->tmp_name);
                close(fs->tmp);
        }
        object_io_close(&fs->root);
        free(fs->tmp_name);
        free(fs);
        return NULL;
}

static const struct lessor_object_store_ops fs_ops = {
        .put = fs_put,
        .stage = fs_stage,
        .write = fs_write,
        .finish = fs_finish,
        .writer_free = fs_writer_free,
        .commit = fs_commit,
        .check_staged = fs_check_staged,
        .discard = fs_discard,
        .sweep_staged = fs_sweep_staged,
        .open = fs_open,
        .stat = fs_stat,
        .look = fs_look,
        .list = fs_list,
        .repos = fs_repos,
        .collect = fs_collect,
        .verify = fs_verify,
        .free = fs_free,
};

int object_fs_open(const char *path, const struct object_fs_options *options,
                   struct lessor_object_store **ret_store)
{
        static const struct object_fs_options usual = {.low_space_bytes = -1};
        struct fs *fs = calloc(1, sizeof(*fs));
        int r;

        if (fs == NULL)
                return LESSOR_E_NOMEM;
        if (options == NULL)
                options = &usual;
        fs->base.ops = &fs_ops;
        fs->io = options->io == NULL ? &object_io_system : options->io;
        fs->clock = options->clock == NULL ? clock_steady() : options->clock;
        fs->low_space_bytes =
                options->low_space_bytes < 0 ? DEFAULT_LOW_SPACE_BYTES : options->low_space_bytes;
        fs->root = fs->tmp = -1;
        r = sodium_init() < 0 ? LESSOR_E_IO : open_root(fs, path);
        if (r == 0)
                r = check_format(fs, path);
        if (r == 0)
                r = remove_stale(fs);
        if (r == 0)
                r = make_own(fs);
        if (r < 0) {
                fs_free(&fs->base);
                return r;
        }
        *ret_store = &fs->base;
        return 0;
}
