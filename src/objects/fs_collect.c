/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "objects/fs_internal.h"
#include "objects/object_graph.h"

/*
 * Collection: what the roots name is referenced again if it is old, and then everything goes that is old. To
 * look at the age and to remove is one step under the shard's lock, as is to look whether an object is there
 * and to reference it. So there is nothing to be undone after a crash, and nothing to be told to others.
 */

struct collecting {
        struct lessor_object_keeper keeper;
        struct fs *fs;
        int64_t old_before_ms;
        struct lessor_object_collected done;
};

struct keeping {
        struct collecting *c;
        struct lessor_slice repo;
};

static int keep_object(void *context, struct lessor_slice hash, int64_t size)
{
        const struct keeping *k = context;
        struct lessor_object_store *s = &k->c->fs->base;
        struct lessor_object_info info;
        int r = lessor_object_stat(s, k->repo, hash, &info);

        (void)size;
        /* One that is young enough stays as it is: most are, and need no write. */
        if (r == 0 && info.touched_ms < k->c->old_before_ms)
                r = lessor_object_touch(s, k->repo, &hash, 1, &info.size);
        if (r == 0 && info.size >= 0)
                return 0;
        if (r < 0 && r != LESSOR_E_NOT_FOUND)
                return r;
        k->c->done.n_missing++;
        return 0;
}

/* What cannot be read names nothing that could be kept. */
static int keep_unreadable(void *context, struct lessor_slice hash, int code, const char *problem)
{
        (void)context;
        (void)hash;
        (void)code;
        (void)problem;
        return 0;
}

static int keep(struct lessor_object_keeper *keeper, struct lessor_slice repo, struct lessor_slice hash)
{
        struct keeping k = {container_of(keeper, struct collecting, keeper), repo};
        const struct object_graph_visitor visitor = {keep_object, keep_unreadable, &k};

        return object_graph_walk(&k.c->fs->base, repo, hash, &visitor);
}

/* Removes an object if it still is old, now that nobody can reference it. */
static int remove_old(struct collecting *c, int shard, const char *name)
{
        struct stat st;
        int r = fs_lock(shard, true);

        if (r < 0)
                return r;
        if (fstatat(shard, name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
                r = errno == ENOENT ? 0 : object_io_error(errno);
        } else if (fs_stamp_of(&st) >= c->old_before_ms) {
                c->done.n_kept++;
                c->done.kept_bytes += st.st_size;
        } else if (c->fs->io->unlinkat(shard, name, 0) < 0) {
                r = object_io_error(errno);
        } else {
                c->done.n_removed++;
                c->done.removed_bytes += st.st_size;
        }
        fs_unlock(shard);
        return r;
}

static int collect_shard(struct collecting *c, struct lessor_slice repo, unsigned number, bool dry)
{
        _cleanup_(object_io_close) int shard = -1;
        _cleanup_(fs_entries_close) DIR *entries = NULL;
        const char *entry;
        int r = fs_directory(c->fs, &shard, "repos/%.*s/objects/%02x", (int)repo.n, repo.p, number);

        if (r == 0)
                r = fs_entries(shard, &entries);
        while (r == 0 && (entry = fs_each(entries)) != NULL) {
                struct stat st;

                if (strlen(entry) != SHA256_HEX_LEN - 2 ||
                    fstatat(shard, entry, &st, AT_SYMLINK_NOFOLLOW) < 0)
                        continue;
                if (fs_stamp_of(&st) >= c->old_before_ms) {
                        c->done.n_kept++;
                        c->done.kept_bytes += st.st_size;
                } else if (dry) {
                        c->done.n_removed++;
                        c->done.removed_bytes += st.st_size;
                } else {
                        r = remove_old(c, shard, entry);
                }
        }
        return r;
}

int fs_collect(struct lessor_object_store *s, const struct lessor_object_collection *collection,
               struct lessor_object_collected *ret_collected)
{
        struct fs *fs = fs_of(s);
        struct collecting c = {.keeper = {keep}, .fs = fs};
        struct lessor_arena *arena = lessor_arena_new();
        struct lessor_slice *repos = NULL;
        size_t n = 0;
        int r;

        c.old_before_ms = clock_now_ms(fs->clock) - collection->grace_ms;
        r = arena == NULL ? LESSOR_E_NOMEM : collection->roots(collection->context, &c.keeper);
        if (r == 0)
                r = s->ops->repos(s, arena, &repos, &n);
        for (size_t i = 0; r == 0 && i < n; i++)
                for (unsigned shard = 0; r == 0 && shard < FS_SHARDS; shard++)
                        r = collect_shard(&c, repos[i], shard, collection->dry);
        lessor_arena_free(arena);
        if (r == 0)
                *ret_collected = c.done;
        return r;
}

/* --- Verification --- */

struct verifying {
        struct fs *fs;
        struct lessor_slice repo;
        bool set_aside;
        int (*damaged)(void *context, struct lessor_slice hash);
        void *context;
        struct lessor_object_verified done;
};

/* Moves the damaged file away, unless a sound one has taken its place. */
static int set_aside(const struct verifying *v, int shard, const char *name, const char *hash,
                     const struct stat *damaged)
{
        _cleanup_(object_io_close) int aside = -1;
        struct stat st;
        int r = fs_directory(v->fs, &aside, "repos/%.*s/damaged", (int)v->repo.n, v->repo.p);

        if (r == 0)
                r = fs_lock(shard, true);
        if (r < 0)
                return r;
        if (fstatat(shard, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && st.st_ino == damaged->st_ino &&
            v->fs->io->renameat(shard, name, aside, hash) < 0)
                r = object_io_error(errno);
        fs_unlock(shard);
        if (r == 0)
                r = fs_sync(v->fs, aside);
        return r == 0 ? fs_sync(v->fs, shard) : r;
}

static int verify_one(struct verifying *v, int shard, struct lessor_slice hash)
{
        _cleanup_(object_io_close) int fd = -1;
        struct fs_name name = fs_name_of(hash);
        char hex[SHA256_HEX_LEN + 1];
        struct stat st;
        int64_t size;
        int r;

        fd = openat(shard, name.text, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
        if (fd < 0)
                return errno == ENOENT ? 0 : object_io_error(errno); /* collected meanwhile */
        if (fstat(fd, &st) < 0)
                return LESSOR_E_IO;
        r = fs_hash(fd, hex, &size);
        if (r < 0 && r != LESSOR_E_IO)
                return r;
        if (r == 0 && memcmp(hex, hash.p, SHA256_HEX_LEN) == 0) {
                v->done.n_sound++;
                v->done.sound_bytes += size;
                return 0;
        }
        v->done.n_damaged++;
        r = v->set_aside ? set_aside(v, shard, name.text, hash.p, &st) : 0;
        if (r == 0 && v->damaged != NULL)
                r = v->damaged(v->context, hash);
        return r;
}

static int verify_shard(struct verifying *v, unsigned number, struct lessor_arena *arena)
{
        _cleanup_(object_io_close) int shard = -1;
        struct lessor_slice *names;
        size_t n = 0;
        int r = fs_directory(v->fs, &shard, "repos/%.*s/objects/%02x", (int)v->repo.n, v->repo.p, number);

        if (r == 0)
                r = fs_sorted(shard, SHA256_HEX_LEN - 2, arena, &names, &n);
        for (size_t i = 0; r == 0 && i < n; i++) {
                _cleanup_(buf_done) struct buf hash;

                buf_init(&hash);
                r = buf_printf(&hash, "%02x%.*s", number, (int)names[i].n, names[i].p);
                if (r == 0 && lessor_object_hash_valid(buf_view(&hash)))
                        r = verify_one(v, shard, buf_view(&hash));
        }
        return r;
}

int fs_verify(struct lessor_object_store *s, struct lessor_slice repo, bool aside,
              int (*damaged)(void *context, struct lessor_slice hash), void *context,
              struct lessor_object_verified *ret_verified)
{
        struct verifying v = {
                .fs = fs_of(s), .repo = repo, .set_aside = aside, .damaged = damaged, .context = context};
        struct lessor_arena *arena = lessor_arena_new();
        int r = arena == NULL ? LESSOR_E_NOMEM : 0;

        for (unsigned shard = 0; r == 0 && shard < FS_SHARDS; shard++) {
                r = verify_shard(&v, shard, arena);
                lessor_arena_clear(arena);
        }
        lessor_arena_free(arena);
        if (r < 0 && r != LESSOR_E_NOT_FOUND)
                return r;
        *ret_verified = v.done;
        return 0;
}
