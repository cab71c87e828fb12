/* SPDX-License-Identifier: MIT */
#include "objects/io.h"

#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lessor/error.h"

const struct object_io object_io_system = {
        .pwrite = pwrite,
        .fsync = fsync,
        .ftruncate = ftruncate,
        .linkat = linkat,
        .renameat = renameat,
        .unlinkat = unlinkat,
        .mkdirat = mkdirat,
};

int object_io_error(int number)
{
        switch (number) {
        case ENOSPC:
        case EDQUOT:
        case EFBIG: /* a limit on the size of files */
                return LESSOR_E_LOW_SPACE;
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

int object_io_write(const struct object_io *io, int fd, const char *bytes, size_t n, off_t at)
{
        while (n > 0) {
                ssize_t written = io->pwrite(fd, bytes, n, at);

                if (written < 0 && errno == EINTR)
                        continue;
                if (written < 0)
                        return object_io_error(errno);
                if (written == 0)
                        return LESSOR_E_IO;
                bytes += written;
                n -= (size_t)written;
                at += written;
        }
        return 0;
}

int object_io_read(int fd, char *ret_bytes, size_t n, off_t at, size_t *ret_n)
{
        size_t have = 0;

        while (have < n) {
                ssize_t got = pread(fd, ret_bytes + have, n - have, at + (off_t)have);

                if (got < 0 && errno == EINTR)
                        continue;
                if (got < 0)
                        return object_io_error(errno);
                if (got == 0)
                        break;
                have += (size_t)got;
        }
        *ret_n = have;
        return 0;
}

void object_io_close(const int *fd)
{
        if (*fd >= 0)
                close(*fd);
}
