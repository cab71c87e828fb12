/* SPDX-License-Identifier: MIT */
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/encode.h"
#include "base/macro.h"
#include "lessor/error.h"

#define READ_STEP 65536u

static void close_fd(const int *fd)
{
        if (*fd >= 0)
                close(*fd);
}

static int error_of(int number)
{
        switch (number) {
        case ENOENT:
        case ENOTDIR:
                return LESSOR_E_NOT_FOUND;
        case EACCES:
        case EPERM:
        case EROFS:
                return LESSOR_E_PERMISSION;
        case EEXIST:
                return LESSOR_E_EXISTS;
        case ENOMEM:
                return LESSOR_E_NOMEM;
        default:
                return LESSOR_E_IO;
        }
}

/* Appends all that is left of the file; what was appended when it fails is still there. */
static int read_rest(int fd, size_t expected, size_t limit, struct buf *out)
{
        size_t from = out->n;
        /* One byte more than expected, so that the end is seen without growing. */
        int r = buf_reserve(out, expected + 1);

        while (r == 0) {
                ssize_t n = read(fd, out->p + out->n, out->cap - out->n - 1);
                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0)
                        return error_of(errno);
                if (n == 0)
                        return 0;
                out->n += (size_t)n;
                out->p[out->n] = '\0';
                if (out->n - from > limit)
                        return LESSOR_E_TOO_LARGE;
                if (out->cap - out->n <= 1)
                        r = buf_reserve(out, READ_STEP);
        }
        return r;
}

int file_read_private(const char *path, size_t limit, struct buf *out, mode_t *ret_mode)
{
        /* Not blocking, or a FIFO of that name would hold us up before we can see that it is one. */
        _cleanup_(close_fd) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
        size_t from = out->n;
        struct stat st;
        int r;

        if (fd < 0)
                return error_of(errno);
        if (fstat(fd, &st) < 0)
                return error_of(errno);
        if (!S_ISREG(st.st_mode))
                return LESSOR_E_INVALID;
        if (st.st_size < 0 || (uintmax_t)st.st_size > limit)
                return LESSOR_E_TOO_LARGE;

        /* The whole size is reserved at once, so that growing leaves no copies of a secret behind. */
        r = read_rest(fd, (size_t)st.st_size, limit, out);
        if (r < 0) {
                if (out->p != NULL)
                        sodium_memzero(out->p + from, out->n - from);
                out->n = from;
                return r;
        }
        *ret_mode = st.st_mode & 07777;
        return 0;
}

int file_read(const char *path, size_t limit, struct buf *out)
{
        mode_t mode;

        return file_read_private(path, limit, out, &mode);
}

static int write_all(int fd, struct lessor_slice bytes)
{
        while (bytes.n > 0) {
                ssize_t n = write(fd, bytes.p, bytes.n);

                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0)
                        return error_of(errno);
                bytes.p += n;
                bytes.n -= (size_t)n;
        }
        return 0;
}

/* A file of that name with those bytes, on disk; its name is not, until its directory is synced. */
static int write_new(const char *path, struct lessor_slice bytes, mode_t mode)
{
        _cleanup_(close_fd) int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
        int r;

        if (fd < 0)
                return error_of(errno);
        r = write_all(fd, bytes);
        /* fchmod, because open(2) let the umask take from the mode. */
        if (r == 0 && (fchmod(fd, mode) < 0 || fsync(fd) < 0))
                r = error_of(errno);
        if (r < 0)
                unlink(path);
        return r;
}

static int sync_directory_of(const char *path)
{
        const char *slash = strrchr(path, '/');
        struct buf dir;
        int fd, r;

        buf_init(&dir);
        if (slash == NULL)
                buf_char(&dir, '.');
        else
                buf_append(&dir, path, slash == path ? 1 : (size_t)(slash - path));
        r = buf_failed(&dir);
        if (r == 0) {
                fd = open(dir.p, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
                if (fd < 0 || fsync(fd) < 0)
                        r = LESSOR_E_IO;
                close_fd(&fd);
        }
        buf_done(&dir);
        return r;
}

/* Not every file system knows RENAME_NOREPLACE; link(2) does not replace either. */
static int move_new(const char *from, const char *to)
{
        if (renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_NOREPLACE) == 0)
                return 0;
        if (errno != EINVAL && errno != ENOSYS)
                return error_of(errno);
        if (link(from, to) < 0)
                return error_of(errno);
        unlink(from);
        return 0;
}

static int move_over(const char *from, const char *to)
{
        return rename(from, to) == 0 ? 0 : error_of(errno);
}

static int put(const char *path, struct lessor_slice bytes, mode_t mode,
               int (*move)(const char *from, const char *to))
{
        uint8_t suffix[8];
        struct buf beside;
        int r;

        if (sodium_init() < 0)
                return LESSOR_E_IO;
        randombytes_buf(suffix, sizeof(suffix));
        buf_init(&beside);
        buf_text(&beside, path);
        buf_text(&beside, ".new-");
        hex_append(&beside, suffix, sizeof(suffix));
        r = buf_failed(&beside);
        if (r == 0)
                r = write_new(beside.p, bytes, mode);
        if (r == 0) {
                r = move(beside.p, path);
                if (r < 0)
                        unlink(beside.p);
        }
        if (r == 0)
                r = sync_directory_of(path);
        buf_done(&beside);
        return r;
}

int file_replace(const char *path, struct lessor_slice bytes, mode_t mode)
{
        return put(path, bytes, mode, move_over);
}

int file_create(const char *path, struct lessor_slice bytes, mode_t mode)
{
        return put(path, bytes, mode, move_new);
}
