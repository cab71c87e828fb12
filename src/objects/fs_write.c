/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdlib.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/encode.h"
#include "base/limits.h"
#include "objects/fs_internal.h"

/* From bytes to objects: a temporary file, hashed while it is written, synced, and only then named. */

/* After so many bytes the disk is set to work, so that little is left to be waited for at the end. */
#define WRITE_BEHIND_BYTES INT64_C(8388608)

struct fs_writer {
        struct lessor_object_writer base;
        struct sha256 hash;
        int fd;
        int error;                         /* what failed first */
        int64_t size;                      /* announced; -1: not */
        int64_t written;                   /* bytes so far */
        int64_t behind;                    /* of those, handed to the disk */
        char expected[SHA256_HEX_LEN + 1]; /* empty: any */
        char key[RECEIPT_KEY_LEN + 1];     /* of the attempt; empty: the object is put at once */
        struct fs_temporary name;
        struct buf repo;
};

static struct fs_writer *writer_of(struct lessor_object_writer *w)
{
        return container_of(w, struct fs_writer, base);
}

static int check_space(const struct fs *fs, int64_t size)
{
        struct statvfs v;
        uint64_t needed = (uint64_t)fs->low_space_bytes + (uint64_t)(size < 0 ? 0 : size);

        if (fs->low_space_bytes == 0)
                return 0;
        if (fstatvfs(fs->root, &v) < 0)
                return object_io_error(errno);
        return (uint64_t)v.f_bavail < needed / v.f_frsize ? LESSOR_E_LOW_SPACE : 0;
}

struct lessor_object_writer *fs_writer_free(struct lessor_object_writer *base)
{
        struct fs_writer *w = writer_of(base);
        const struct fs *fs = fs_of(base->store);

        if (w->fd >= 0) {
                close(w->fd);
                unlinkat(fs->tmp, w->name.text, 0);
        }
        buf_done(&w->repo);
        free(w);
        return NULL;
}

static int begin(struct lessor_object_store *s, struct lessor_slice repo, struct lessor_slice hash,
                 int64_t size, const char *key, struct lessor_object_writer **ret_writer)
{
        struct fs *fs = fs_of(s);
        struct fs_writer *w;
        int r = check_space(fs, size);

        if (r == 0)
                r = fs_make_repo(fs, repo);
        if (r < 0)
                return r;
        w = calloc(1, sizeof(*w));
        if (w == NULL)
                return LESSOR_E_NOMEM;
        w->base.store = s;
        w->fd = -1;
        w->size = size;
        if (hash.p != NULL)
                memcpy(w->expected, hash.p, SHA256_HEX_LEN);
        if (key != NULL)
                memcpy(w->key, key, RECEIPT_KEY_LEN);
        sha256_start(&w->hash);
        buf_init(&w->repo);
        w->name = fs_temporary_name(fs);
        r = buf_slice(&w->repo, repo);
        if (r == 0) {
                w->fd = openat(fs->tmp, w->name.text, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0400);
                r = w->fd < 0 ? object_io_error(errno) : 0;
        }
        if (r < 0) {
                fs_writer_free(&w->base);
                return r;
        }
        *ret_writer = &w->base;
        return 0;
}

int fs_put(struct lessor_object_store *s, struct lessor_slice repo, struct lessor_slice hash, int64_t size,
           struct lessor_object_writer **ret_writer)
{
        return begin(s, repo, hash, size, NULL, ret_writer);
}

int fs_stage(struct lessor_object_store *s, const struct lessor_object_stage *stage, struct lessor_slice hash,
             int64_t size, struct lessor_object_writer **ret_writer)
{
        char key[RECEIPT_KEY_LEN + 1];

        fs_receipt_key(stage, key);
        return begin(s, stage->repo, hash, size, key, ret_writer);
}

int fs_write(struct lessor_object_writer *base, struct lessor_slice bytes)
{
        struct fs_writer *w = writer_of(base);
        int64_t limit = w->size < 0 ? LIMIT_OBJECT_BYTES : w->size;

        if (w->error < 0)
                return w->error;
        if (bytes.n > (uint64_t)(limit - w->written)) {
                w->error = w->size < 0 ? LESSOR_E_TOO_LARGE : LESSOR_E_MISMATCH;
                return w->error;
        }
        w->error = object_io_write(fs_of(base->store)->io, w->fd, bytes.p, bytes.n, w->written);
        if (w->error < 0)
                return w->error;
        sha256_add(&w->hash, bytes);
        w->written += (int64_t)bytes.n;
        if (w->written - w->behind >= WRITE_BEHIND_BYTES) {
                (void)sync_file_range(w->fd, w->behind, w->written - w->behind, SYNC_FILE_RANGE_WRITE);
                w->behind = w->written;
        }
        return 0;
}

/* Puts a verified file in the place of one of the wrong size, which can only be a damaged one. */
static int replace(struct fs *fs, int from, const char *from_name, int shard, const char *name)
{
        struct fs_temporary link = fs_temporary_name(fs);
        int r = 0;

        if (fs->io->linkat(from, from_name, fs->tmp, link.text, 0) < 0)
                return object_io_error(errno);
        if (fs->io->renameat(fs->tmp, link.text, shard, name) < 0)
                r = object_io_error(errno);
        /* Two names of one file rename(2) leaves as they are. */
        unlinkat(fs->tmp, link.text, 0);
        return r;
}

int fs_publish(struct fs *fs, int from, const char *from_name, int64_t size, int shard, const char *name,
               bool *ret_was_there)
{
        struct stat st;
        bool was_there = false;

        if (fs->io->linkat(from, from_name, shard, name, 0) < 0) {
                if (errno != EEXIST)
                        return object_io_error(errno);
                if (fstatat(shard, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
                        return object_io_error(errno);
                was_there = st.st_size == size;
        }
        if (!was_there && fstatat(shard, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && st.st_size != size) {
                int r = replace(fs, from, from_name, shard, name);

                if (r < 0)
                        return r;
        }
        *ret_was_there = was_there;
        return fs_stamp(fs, shard, name);
}

static int finish_put(struct fs *fs, struct fs_writer *w, const char *hash, bool *ret_was_there)
{
        _cleanup_(object_io_close) int shard = -1;
        struct fs_name name = fs_name_of((struct lessor_slice){hash, SHA256_HEX_LEN});
        int r = fs_shard(fs, buf_view(&w->repo), (struct lessor_slice){hash, SHA256_HEX_LEN}, &shard);

        if (r == 0)
                r = fs_lock(shard, false);
        if (r == 0)
                r = fs_publish(fs, fs->tmp, w->name.text, w->written, shard, name.text, ret_was_there);
        if (r < 0)
                return r;
        fs_unlock(shard);
        /* Also when it was there: who put it there may not have come so far. */
        return fs_sync(fs, shard);
}

static int finish_staged(struct fs *fs, struct fs_writer *w, struct buf *receipt)
{
        _cleanup_(object_io_close) int staged = -1;
        uint8_t random[RECEIPT_RANDOM_LEN / 2];
        int r;

        randombytes_buf(random, sizeof(random));
        buf_printf(receipt, "%s.%s.", w->key, w->expected);
        r = hex_append(receipt, random, sizeof(random));
        if (r == 0)
                r = fs_directory(fs, &staged, "repos/%s/staged", w->repo.p);
        if (r < 0)
                return r;
        if (fs->io->renameat(fs->tmp, w->name.text, staged, receipt->p) < 0)
                return object_io_error(errno);
        r = fs_sync(fs, staged);
        if (r < 0)
                unlinkat(staged, receipt->p, 0);
        return r;
}

/* Whether the bytes are those that were announced, and on disk. */
static int seal(const struct fs *fs, struct fs_writer *w, char hash[SHA256_HEX_LEN + 1])
{
        if (w->error < 0)
                return w->error;
        if (w->size >= 0 && w->written != w->size)
                return LESSOR_E_MISMATCH;
        sha256_end_hex(&w->hash, hash);
        if (w->expected[0] != '\0' && memcmp(w->expected, hash, SHA256_HEX_LEN) != 0)
                return LESSOR_E_MISMATCH;
        /* The stamp comes with the sync. */
        if (fs_stamp(fs, fs->tmp, w->name.text) < 0)
                return LESSOR_E_IO;
        return fs_sync(fs, w->fd);
}

int fs_finish(struct lessor_object_writer *base, struct lessor_arena *arena,
              struct lessor_object_written *ret_written)
{
        struct fs_writer *w = writer_of(base);
        struct fs *fs = fs_of(base->store);
        struct lessor_object_written written = {.was_there = false};
        _cleanup_(buf_done) struct buf receipt;
        char hash[SHA256_HEX_LEN + 1];
        int r = seal(fs, w, hash);

        buf_init(&receipt);
        if (r == 0)
                r = lessor_arena_copy(arena, (struct lessor_slice){hash, SHA256_HEX_LEN}, &written.hash);
        if (r == 0)
                r = w->key[0] == '\0' ? finish_put(fs, w, hash, &written.was_there)
                                      : finish_staged(fs, w, &receipt);
        if (r == 0 && receipt.p != NULL)
                r = lessor_arena_copy(arena, buf_view(&receipt), &written.receipt);
        w->error = r < 0 ? r : LESSOR_E_INVALID; /* a writer finishes once */
        if (r < 0)
                return r;
        written.size = w->written;
        *ret_written = written;
        return 0;
}
