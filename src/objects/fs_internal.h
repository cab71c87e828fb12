/* SPDX-License-Identifier: MIT */
#ifndef OBJECTS_FS_INTERNAL_H
#define OBJECTS_FS_INTERNAL_H

#include <dirent.h>
#include <stdatomic.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/macro.h"
#include "crypto/sha256.h"
#include "objects/fs.h"

/* What the files of the store in a directory share. */

#define FS_SHARDS    256
#define FS_READ_STEP 262144u

/* In a receipt: the digits that stand for the lease and attempt, and those that make it unlike others. */
#define RECEIPT_KEY_LEN    32
#define RECEIPT_RANDOM_LEN 16

/* Nothing in it changes after opening, but for the counter. */
struct fs {
        struct lessor_object_store base;
        const struct object_io *io;
        struct clock *clock;
        int64_t low_space_bytes;
        int root;       /* directory */
        int tmp;        /* directory of this process, locked */
        char *tmp_name; /* within the root: "tmp/ID" */
        atomic_uint_fast64_t n_temporary;
};

static inline struct fs *fs_of(struct lessor_object_store *s)
{
        return container_of(s, struct fs, base);
}

/* A file's name within its shard: the hash without its first two digits. */
struct fs_name {
        char text[SHA256_HEX_LEN - 1];
};
struct fs_name fs_name_of(struct lessor_slice hash);

/* Opens a directory below the root; the path is made as by printf. Returns 0 or a code. */
int fs_directory(const struct fs *fs, int *ret_fd, const char *format, ...)
        __attribute__((format(printf, 3, 4)));
int fs_shard(const struct fs *fs, struct lessor_slice repo, struct lessor_slice hash, int *ret_fd);

/* Makes the repository with all its directories, unless it is there. */
int fs_make_repo(struct fs *fs, struct lessor_slice repo);

/* Against the removal of what is being referenced, until the directory is closed or unlocked. */
int fs_lock(int dir, bool exclusive);
void fs_unlock(int dir);

/* Sets the time of the last reference. Returns 0 or a code. */
int fs_stamp(const struct fs *fs, int dir, const char *name);
int64_t fs_stamp_of(const struct stat *st);

int fs_sync(const struct fs *fs, int dir);

/* A name for a new temporary file or directory, NUL-terminated. */
struct fs_temporary {
        char text[24];
};
struct fs_temporary fs_temporary_name(struct fs *fs);

/* Removes a directory below `dir` with all that is in it, as far as it can. */
void fs_remove_tree(int dir, const char *name);

/*
 * Walks a directory: opens it, and gives entry after entry without `.` and `..`. fs_each returns NULL at the
 * end. For _cleanup_.
 */
int fs_entries(int dir, DIR **ret_entries);
const char *fs_each(DIR *entries);
void fs_entries_close(DIR **entries);

/* All names in a directory that are `len` bytes long, sorted; in the arena. */
int fs_sorted(int dir, size_t len, struct lessor_arena *arena, struct lessor_slice **ret_names,
              size_t *ret_n);

/* The hash of an open file's bytes, read without pushing everything else out of the page cache. */
int fs_hash(int fd, char ret_hex[SHA256_HEX_LEN + 1], int64_t *ret_size);

/* fs_write.c */
int fs_put(struct lessor_object_store *s, struct lessor_slice repo, struct lessor_slice hash, int64_t size,
           struct lessor_object_writer **ret_writer);
int fs_stage(struct lessor_object_store *s, const struct lessor_object_stage *stage, struct lessor_slice hash,
             int64_t size, struct lessor_object_writer **ret_writer);
int fs_write(struct lessor_object_writer *base, struct lessor_slice bytes);
int fs_finish(struct lessor_object_writer *base, struct lessor_arena *arena,
              struct lessor_object_written *ret_written);
struct lessor_object_writer *fs_writer_free(struct lessor_object_writer *base);

/*
 * Gives a verified file its name in a shard, which must be locked. One that is there already is referenced
 * again, or replaced if its size is wrong.
 *
 * from  directory and name of the file; it keeps that name
 */
int fs_publish(struct fs *fs, int from, const char *from_name, int64_t size, int shard, const char *name,
               bool *ret_was_there);

/* fs_stage.c */
void fs_receipt_key(const struct lessor_object_stage *stage, char ret_key[RECEIPT_KEY_LEN + 1]);
int fs_commit(struct lessor_object_store *s, const struct lessor_object_stage *stage,
              const struct lessor_object_version *versions, size_t n, bool *ret_committed);
int fs_check_staged(struct lessor_object_store *s, const struct lessor_object_stage *stage,
                    const struct lessor_object_version *version);
int fs_discard(struct lessor_object_store *s, struct lessor_slice repo, struct lessor_slice receipt);
int fs_sweep_staged(struct lessor_object_store *s, int64_t min_age_ms,
                    int (*wants)(void *context, struct lessor_slice repo, struct lessor_slice receipt),
                    void *context, size_t *ret_n_discarded);

/* fs_collect.c */
int fs_collect(struct lessor_object_store *s, const struct lessor_object_collection *collection,
               struct lessor_object_collected *ret_collected);
int fs_verify(struct lessor_object_store *s, struct lessor_slice repo, bool set_aside,
              int (*damaged)(void *context, struct lessor_slice hash), void *context,
              struct lessor_object_verified *ret_verified);

#endif
