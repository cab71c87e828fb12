/* SPDX-License-Identifier: MIT */
#include "store_support.h"

#include <errno.h>
#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

struct faults faults;

static bool is_faulty(void)
{
        if (++faults.n_calls != faults.fail_at)
                return false;
        if (faults.kill)
                raise(SIGKILL);
        errno = faults.error;
        return true;
}

static ssize_t faulty_pwrite(int fd, const void *bytes, size_t n, off_t at)
{
        if (++faults.n_calls != faults.fail_at)
                return pwrite(fd, bytes, n, at);
        /* A full disk, or a crash, takes a part of it first. */
        if (n > 1 && pwrite(fd, bytes, n / 2, at) < 0)
                return -1;
        if (faults.kill)
                raise(SIGKILL);
        errno = faults.error;
        return -1;
}

static int faulty_fsync(int fd)
{
        return is_faulty() ? -1 : fsync(fd);
}

static int faulty_ftruncate(int fd, off_t length)
{
        return is_faulty() ? -1 : ftruncate(fd, length);
}

static int faulty_linkat(int from_dir, const char *from, int to_dir, const char *to, int flags)
{
        return is_faulty() ? -1 : linkat(from_dir, from, to_dir, to, flags);
}

static int faulty_renameat(int from_dir, const char *from, int to_dir, const char *to)
{
        return is_faulty() ? -1 : renameat(from_dir, from, to_dir, to);
}

static int faulty_unlinkat(int dir, const char *name, int flags)
{
        return is_faulty() ? -1 : unlinkat(dir, name, flags);
}

static int faulty_mkdirat(int dir, const char *name, mode_t mode)
{
        return is_faulty() ? -1 : mkdirat(dir, name, mode);
}

const struct object_io faulty_io = {
        .pwrite = faulty_pwrite,
        .fsync = faulty_fsync,
        .ftruncate = faulty_ftruncate,
        .linkat = faulty_linkat,
        .renameat = faulty_renameat,
        .unlinkat = faulty_unlinkat,
        .mkdirat = faulty_mkdirat,
};

static int remove_entry(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
        (void)st;
        (void)type;
        (void)ftw;
        return remove(path);
}

int world_try_open(struct world *w, const struct object_io *io)
{
        const struct object_fs_options options = {.io = io, .clock = &w->clock.clock, .low_space_bytes = 0};
        char *path;
        int r;

        assert_true(asprintf(&path, "%s/objects", w->dir) > 0);
        r = object_fs_open(path, &options, &w->store);
        free(path);
        return r;
}

void world_reopen(struct world *w, const struct object_io *io)
{
        w->store = lessor_object_store_free(w->store);
        assert_int_equal(world_try_open(w, io), 0);
}

int world_setup(void **state)
{
        struct world *w = calloc(1, sizeof(*w));
        /* In memory where that is to be had: what is done matters here, not how long the disk takes. */
        const char *base = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";

        assert_non_null(w);
        memset(&faults, 0, sizeof(faults));
        assert_true(asprintf(&w->dir, "%s/lessor-objects-test-XXXXXX", base) > 0);
        assert_non_null(mkdtemp(w->dir));
        clock_manual_init(&w->clock, WORLD_START_MS);
        w->arena = lessor_arena_new();
        assert_non_null(w->arena);
        world_reopen(w, NULL);
        *state = w;
        return 0;
}

int world_teardown(void **state)
{
        struct world *w = *state;

        lessor_object_store_free(w->store);
        lessor_arena_free(w->arena);
        nftw(w->dir, remove_entry, 32, FTW_DEPTH | FTW_PHYS);
        free(w->dir);
        free(w);
        return 0;
}

struct lessor_slice world_hash(struct world *w, struct lessor_slice bytes)
{
        char hex[SHA256_HEX_LEN + 1];
        struct lessor_slice copy;

        sha256_hex_of(bytes, hex);
        assert_int_equal(lessor_arena_copy(w->arena, lessor_slice_of(hex), &copy), 0);
        return copy;
}

static int write_all(struct world *w, struct lessor_object_writer *writer, struct lessor_slice bytes,
                     struct lessor_object_written *ret_written)
{
        int r = lessor_object_write(writer, bytes);

        if (r == 0)
                r = lessor_object_finish(writer, w->arena, ret_written);
        lessor_object_writer_free(writer);
        return r;
}

int world_put(struct world *w, const char *repo, struct lessor_slice bytes)
{
        struct lessor_object_writer *writer;
        struct lessor_object_written written;
        int r = lessor_object_put(w->store, lessor_slice_of(repo), world_hash(w, bytes), (int64_t)bytes.n,
                                  &writer);

        return r < 0 ? r : write_all(w, writer, bytes, &written);
}

int world_stage(struct world *w, const struct lessor_object_stage *stage, struct lessor_slice bytes,
                struct lessor_object_version *ret_version)
{
        struct lessor_object_writer *writer;
        struct lessor_object_written written;
        int r = lessor_object_stage(w->store, stage, world_hash(w, bytes), (int64_t)bytes.n, &writer);

        if (r == 0)
                r = write_all(w, writer, bytes, &written);
        if (r == 0)
                *ret_version = (struct lessor_object_version){written.hash, written.size, written.receipt};
        return r;
}

bool world_has(struct world *w, const char *repo, struct lessor_slice hash)
{
        struct lessor_object_info info;
        int r = lessor_object_stat(w->store, lessor_slice_of(repo), hash, &info);

        assert_true(r == 0 || r == LESSOR_E_NOT_FOUND);
        return r == 0;
}

static size_t n_files;

static int count_entry(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
        (void)path;
        (void)st;
        (void)ftw;
        n_files += type == FTW_F;
        return 0;
}

size_t world_count(const struct world *w, const char *below)
{
        char *path;

        n_files = 0;
        assert_true(asprintf(&path, "%s/%s", w->dir, below) > 0);
        nftw(path, count_entry, 32, FTW_PHYS);
        free(path);
        return n_files;
}

void world_shell(const struct world *w, const char *command)
{
        char *line;

        assert_true(asprintf(&line, "cd '%s' && %s", w->dir, command) > 0);
        assert_int_equal(system(line), 0);
        free(line);
}
