/* SPDX-License-Identifier: MIT */
#include "client/append_file.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lessor/error.h"

int append_open(const char *path)
{
        int fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
        struct stat st;
        int r = 0;

        if (fd < 0)
                return errno == EACCES || errno == EPERM || errno == EROFS ? LESSOR_E_PERMISSION
                                                                           : LESSOR_E_IO;
        if (fstat(fd, &st) < 0)
                r = LESSOR_E_IO;
        else if (!S_ISREG(st.st_mode))
                r = LESSOR_E_INVALID;
        else if ((st.st_mode & 077) != 0)
                r = LESSOR_E_PERMISSION;
        if (r < 0) {
                close(fd);
                return r;
        }
        return fd;
}

int append_line(int fd, struct lessor_slice line)
{
        off_t before = lseek(fd, 0, SEEK_END);

        if (before < 0)
                return LESSOR_E_IO;
        while (line.n > 0) {
                ssize_t n = write(fd, line.p, line.n);

                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0) {
                        if (ftruncate(fd, before) < 0)
                                return LESSOR_E_IO; /* a reader passes over half a line */
                        return LESSOR_E_IO;
                }
                line.p += n;
                line.n -= (size_t)n;
        }
        return 0;
}
