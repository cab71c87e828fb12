/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/encode.h"
#include "objects/fs_internal.h"

/*
 * Versions: files in staged/ whose name is the receipt, KEY.HASH.RANDOM. KEY stands for the lease and
 * attempt, so that a receipt says by itself for whom it is good. A committed version keeps its name, at no
 * cost, until it is discarded: that is what makes a commit repeatable.
 */

#define RECEIPT_LEN (RECEIPT_KEY_LEN + 1 + SHA256_HEX_LEN + 1 + RECEIPT_RANDOM_LEN)

void fs_receipt_key(const struct lessor_object_stage *stage, char ret_key[RECEIPT_KEY_LEN + 1])
{
        char hex[SHA256_HEX_LEN + 1];
        uint8_t lease[SHA256_BYTES], attempt[SHA256_BYTES];
        struct sha256 h;

        /* Hashes of both, so that no text can stand for another pair. */
        sha256_of(stage->lease_id, lease);
        sha256_of(stage->attempt, attempt);
        sha256_start(&h);
        sha256_add(&h, (struct lessor_slice){(const char *)lease, sizeof(lease)});
        sha256_add(&h, (struct lessor_slice){(const char *)attempt, sizeof(attempt)});
        sha256_end_hex(&h, hex);
        memcpy(ret_key, hex, RECEIPT_KEY_LEN);
        ret_key[RECEIPT_KEY_LEN] = '\0';
}

static bool hex_only(struct lessor_slice text)
{
        for (size_t i = 0; i < text.n; i++)
                if (!((text.p[i] >= '0' && text.p[i] <= '9') || (text.p[i] >= 'a' && text.p[i] <= 'f')))
                        return false;
        return true;
}

/* Whether a text has the form of a receipt, and so is safe as a file's name. */
static bool receipt_valid(struct lessor_slice receipt)
{
        const char *p = receipt.p;

        return receipt.n == RECEIPT_LEN && p[RECEIPT_KEY_LEN] == '.' &&
               p[RECEIPT_KEY_LEN + 1 + SHA256_HEX_LEN] == '.' &&
               hex_only((struct lessor_slice){p, RECEIPT_KEY_LEN}) &&
               hex_only((struct lessor_slice){p + RECEIPT_KEY_LEN + 1, SHA256_HEX_LEN}) &&
               hex_only((struct lessor_slice){p + RECEIPT_LEN - RECEIPT_RANDOM_LEN, RECEIPT_RANDOM_LEN});
}

/* Whether a receipt is good for that attempt and hash. */
static bool receipt_is_for(struct lessor_slice receipt, const char key[RECEIPT_KEY_LEN + 1],
                           struct lessor_slice hash)
{
        return receipt_valid(receipt) && memcmp(receipt.p, key, RECEIPT_KEY_LEN) == 0 &&
               lessor_object_hash_valid(hash) &&
               memcmp(receipt.p + RECEIPT_KEY_LEN + 1, hash.p, SHA256_HEX_LEN) == 0;
}

/* A receipt as a file's name. */
struct receipt_name {
        char text[RECEIPT_LEN + 1];
};

static struct receipt_name name_of(struct lessor_slice receipt)
{
        struct receipt_name name;

        memcpy(name.text, receipt.p, RECEIPT_LEN);
        name.text[RECEIPT_LEN] = '\0';
        return name;
}

static int open_staged(const struct fs *fs, struct lessor_slice repo, int *ret_fd)
{
        return fs_directory(fs, ret_fd, "repos/%.*s/staged", (int)repo.n, repo.p);
}

/* The repository had the object: the version becomes another name of that, and its own bytes go. */
static void drop_copy(struct fs *fs, int shard, const char *name, int staged, const char *receipt)
{
        struct fs_temporary link = fs_temporary_name(fs);
        struct stat ours, theirs;

        if (fstatat(staged, receipt, &ours, AT_SYMLINK_NOFOLLOW) < 0 ||
            fstatat(shard, name, &theirs, AT_SYMLINK_NOFOLLOW) < 0 || ours.st_ino == theirs.st_ino)
                return;
        /* Where that fails, as with too many links, it is only the room that is lost, until the discard. */
        if (fs->io->linkat(shard, name, fs->tmp, link.text, 0) < 0)
                return;
        (void)fs->io->renameat(fs->tmp, link.text, staged, receipt);
        unlinkat(fs->tmp, link.text, 0);
}

static int commit_one(struct fs *fs, int staged, struct lessor_slice repo, const char *key,
                      const struct lessor_object_version *version, bool *ret_committed)
{
        _cleanup_(object_io_close) int shard = -1;
        struct receipt_name receipt;
        struct fs_name name;
        struct stat st;
        bool was_there;
        int r;

        *ret_committed = false;
        if (!receipt_is_for(version->receipt, key, version->hash))
                return 0;
        receipt = name_of(version->receipt);
        name = fs_name_of(version->hash);
        if (fstatat(staged, receipt.text, &st, AT_SYMLINK_NOFOLLOW) < 0)
                return errno == ENOENT ? 0 : object_io_error(errno);
        if (st.st_size != version->size)
                return 0;
        r = fs_shard(fs, repo, version->hash, &shard);
        if (r == 0)
                r = fs_lock(shard, false);
        if (r == 0)
                r = fs_publish(fs, staged, receipt.text, version->size, shard, name.text, &was_there);
        if (r == LESSOR_E_NOT_FOUND)
                return 0; /* discarded meanwhile */
        if (r == 0 && was_there)
                drop_copy(fs, shard, name.text, staged, receipt.text);
        *ret_committed = r == 0;
        return r;
}

/* Each shard that got a name is synced once. */
static int sync_shards(const struct fs *fs, struct lessor_slice repo,
                       const struct lessor_object_version *versions, size_t n, const bool *committed)
{
        bool done[FS_SHARDS] = {false};

        for (size_t i = 0; i < n; i++) {
                _cleanup_(object_io_close) int shard = -1;
                uint8_t number;
                int r;

                if (!committed[i] || !hex_read((struct lessor_slice){versions[i].hash.p, 2}, &number, 1) ||
                    done[number])
                        continue;
                r = fs_shard(fs, repo, versions[i].hash, &shard);
                if (r == 0)
                        r = fs_sync(fs, shard);
                if (r < 0)
                        return r;
                done[number] = true;
        }
        return 0;
}

int fs_commit(struct lessor_object_store *s, const struct lessor_object_stage *stage,
              const struct lessor_object_version *versions, size_t n, bool *ret_committed)
{
        _cleanup_(object_io_close) int staged = -1;
        char key[RECEIPT_KEY_LEN + 1];
        int r = open_staged(fs_of(s), stage->repo, &staged);

        if (r == LESSOR_E_NOT_FOUND) {
                memset(ret_committed, 0, n * sizeof(*ret_committed));
                return 0;
        }
        fs_receipt_key(stage, key);
        for (size_t i = 0; r == 0 && i < n; i++)
                r = commit_one(fs_of(s), staged, stage->repo, key, &versions[i], &ret_committed[i]);
        if (r == 0)
                r = sync_shards(fs_of(s), stage->repo, versions, n, ret_committed);
        return r;
}

int fs_check_staged(struct lessor_object_store *s, const struct lessor_object_stage *stage,
                    const struct lessor_object_version *version)
{
        _cleanup_(object_io_close) int staged = -1;
        _cleanup_(object_io_close) int fd = -1;
        char key[RECEIPT_KEY_LEN + 1], hex[SHA256_HEX_LEN + 1];
        struct receipt_name receipt;
        struct stat st;
        int64_t size;
        int r = open_staged(fs_of(s), stage->repo, &staged);

        if (r < 0)
                return r;
        fs_receipt_key(stage, key);
        if (!receipt_is_for(version->receipt, key, version->hash))
                return LESSOR_E_NOT_FOUND;
        receipt = name_of(version->receipt);
        fd = openat(staged, receipt.text, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
        if (fd < 0)
                return object_io_error(errno);
        if (fstat(fd, &st) < 0)
                return LESSOR_E_IO;
        if (st.st_size != version->size)
                return LESSOR_E_NOT_FOUND;
        r = fs_hash(fd, hex, &size);
        if (r < 0)
                return r;
        return size == version->size && memcmp(hex, version->hash.p, SHA256_HEX_LEN) == 0 ? 0
                                                                                          : LESSOR_E_CORRUPT;
}

int fs_discard(struct lessor_object_store *s, struct lessor_slice repo, struct lessor_slice receipt)
{
        _cleanup_(object_io_close) int staged = -1;
        struct receipt_name name;
        int r;

        if (!receipt_valid(receipt))
                return 0;
        name = name_of(receipt);
        r = open_staged(fs_of(s), repo, &staged);
        if (r == 0 && fs_of(s)->io->unlinkat(staged, name.text, 0) < 0)
                r = object_io_error(errno);
        return r == LESSOR_E_NOT_FOUND ? 0 : r;
}

static int sweep_repo(struct fs *fs, struct lessor_slice repo, int64_t before_ms,
                      int (*wants)(void *context, struct lessor_slice repo, struct lessor_slice receipt),
                      void *context, size_t *n_discarded)
{
        _cleanup_(object_io_close) int staged = -1;
        _cleanup_(fs_entries_close) DIR *entries = NULL;
        const char *entry;
        int r = open_staged(fs, repo, &staged);

        if (r == 0)
                r = fs_entries(staged, &entries);
        while (r == 0 && (entry = fs_each(entries)) != NULL) {
                struct stat st;

                if (!receipt_valid(lessor_slice_of(entry)) ||
                    fstatat(staged, entry, &st, AT_SYMLINK_NOFOLLOW) < 0 || fs_stamp_of(&st) > before_ms)
                        continue;
                r = wants(context, repo, lessor_slice_of(entry));
                if (r == 0 && fs->io->unlinkat(staged, entry, 0) == 0)
                        ++*n_discarded;
                r = r < 0 ? r : 0;
        }
        return r;
}

int fs_sweep_staged(struct lessor_object_store *s, int64_t min_age_ms,
                    int (*wants)(void *context, struct lessor_slice repo, struct lessor_slice receipt),
                    void *context, size_t *ret_n_discarded)
{
        struct fs *fs = fs_of(s);
        int64_t before_ms = clock_now_ms(fs->clock) - min_age_ms;
        struct lessor_arena *arena = lessor_arena_new();
        struct lessor_slice *repos;
        size_t n_repos = 0, n_discarded = 0;
        int r = arena == NULL ? LESSOR_E_NOMEM : s->ops->repos(s, arena, &repos, &n_repos);

        for (size_t i = 0; r == 0 && i < n_repos; i++)
                r = sweep_repo(fs, repos[i], before_ms, wants, context, &n_discarded);
        lessor_arena_free(arena);
        if (r == 0)
                *ret_n_discarded = n_discarded;
        return r;
}
