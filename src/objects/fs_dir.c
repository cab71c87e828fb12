/* SPDX-License-Identifier: MIT */
#include "objects/fs_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <unistd.h>

/* The small steps on files and directories that the store is made of. */

struct fs_name fs_name_of(struct lessor_slice hash)
{
        struct fs_name name;

        memcpy(name.text, hash.p + 2, sizeof(name.text) - 1);
        name.text[sizeof(name.text) - 1] = '\0';
        return name;
}

int fs_directory(const struct fs *fs, int *ret_fd, const char *format, ...)
{
        struct buf path;
        va_list args;
        int fd, r;

        buf_init(&path);
        va_start(args, format);
        r = buf_vprintf(&path, format, args);
        va_end(args);
        if (r < 0)
                return r;
        fd = openat(fs->root, path.p, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
        r = fd < 0 ? object_io_error(errno) : 0;
        buf_done(&path);
        if (r == 0)
                *ret_fd = fd;
        return r;
}

int fs_shard(const struct fs *fs, struct lessor_slice repo, struct lessor_slice hash, int *ret_fd)
{
        return fs_directory(fs, ret_fd, "repos/%.*s/objects/%.2s", (int)repo.n, repo.p, hash.p);
}

int fs_lock(int dir, bool exclusive)
{
        while (flock(dir, exclusive ? LOCK_EX : LOCK_SH) < 0)
                if (errno != EINTR)
                        return object_io_error(errno);
        return 0;
}

void fs_unlock(int dir)
{
        flock(dir, LOCK_UN);
}

int fs_stamp(const struct fs *fs, int dir, const char *name)
{
        int64_t now_ms = clock_now_ms(fs->clock);
        struct timespec times[2] = {
                {.tv_nsec = UTIME_OMIT},
                {.tv_sec = now_ms / 1000, .tv_nsec = now_ms % 1000 * 1000000},
        };

        return utimensat(dir, name, times, AT_SYMLINK_NOFOLLOW) < 0 ? object_io_error(errno) : 0;
}

int64_t fs_stamp_of(const struct stat *st)
{
        return (int64_t)st->st_mtim.tv_sec * 1000 + st->st_mtim.tv_nsec / 1000000;
}

int fs_sync(const struct fs *fs, int dir)
{
        return fs->io->fsync(dir) < 0 ? object_io_error(errno) : 0;
}

struct fs_temporary fs_temporary_name(struct fs *fs)
{
        struct fs_temporary name;

        snprintf(name.text, sizeof(name.text), "%llu",
                 (unsigned long long)atomic_fetch_add(&fs->n_temporary, 1));
        return name;
}

int fs_entries(int dir, DIR **ret_entries)
{
        /* Not a dup, which would share its place with the other directory. */
        int fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

        if (fd < 0)
                return object_io_error(errno);
        *ret_entries = fdopendir(fd);
        if (*ret_entries == NULL) {
                close(fd);
                return LESSOR_E_NOMEM;
        }
        return 0;
}

const char *fs_each(DIR *entries)
{
        const struct dirent *entry;

        do
                entry = entries == NULL ? NULL : readdir(entries);
        while (entry != NULL && (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0));
        return entry == NULL ? NULL : entry->d_name;
}

void fs_entries_close(DIR **entries)
{
        if (*entries != NULL)
                closedir(*entries);
}

void fs_remove_tree(int dir, const char *name)
{
        int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
        _cleanup_(fs_entries_close) DIR *entries = NULL;
        const char *entry;

        if (fd < 0) {
                unlinkat(dir, name, 0);
                return;
        }
        entries = fdopendir(fd);
        if (entries == NULL) {
                close(fd);
                return;
        }
        while ((entry = fs_each(entries)) != NULL)
                fs_remove_tree(fd, entry);
        unlinkat(dir, name, AT_REMOVEDIR);
}

static int name_cmp(const void *a, const void *b)
{
        return lessor_slice_cmp(*(const struct lessor_slice *)a, *(const struct lessor_slice *)b);
}

int fs_sorted(int dir, size_t len, struct lessor_arena *arena, struct lessor_slice **ret_names, size_t *ret_n)
{
        _cleanup_(fs_entries_close) DIR *entries = NULL;
        _cleanup_(buf_done) struct buf texts;
        struct lessor_slice all = {"", 0}, *names;
        const char *entry;
        size_t n;
        int r;

        buf_init(&texts);
        r = fs_entries(dir, &entries);
        while (r == 0 && (entry = fs_each(entries)) != NULL)
                if (strlen(entry) == len)
                        r = buf_append(&texts, entry, len);
        if (r == 0)
                r = lessor_arena_copy(arena, buf_view(&texts), &all);
        if (r < 0)
                return r;
        n = len == 0 ? 0 : all.n / len;
        names = lessor_arena_array(arena, n, sizeof(*names));
        if (names == NULL)
                return LESSOR_E_NOMEM;
        for (size_t i = 0; i < n; i++)
                names[i] = (struct lessor_slice){all.p + i * len, len};
        if (n > 0)
                qsort(names, n, sizeof(*names), name_cmp);
        *ret_names = names;
        *ret_n = n;
        return 0;
}

int fs_hash(int fd, char ret_hex[SHA256_HEX_LEN + 1], int64_t *ret_size)
{
        char *step = malloc(FS_READ_STEP);
        struct sha256 h;
        off_t at = 0;
        size_t n = 0;
        int r;

        if (step == NULL)
                return LESSOR_E_NOMEM;
        sha256_start(&h);
        (void)posix_fadvise(fd, 0, 0, POSIX_FADV_SEQUENTIAL);
        do {
                r = object_io_read(fd, step, FS_READ_STEP, at, &n);
                if (r < 0)
                        break;
                sha256_add(&h, (struct lessor_slice){step, n});
                (void)posix_fadvise(fd, at, (off_t)n, POSIX_FADV_DONTNEED);
                at += (off_t)n;
        } while (n == FS_READ_STEP);
        free(step);
        if (r < 0)
                return r;
        sha256_end_hex(&h, ret_hex);
        *ret_size = at;
        return 0;
}
