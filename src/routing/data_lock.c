/* SPDX-License-Identifier: MIT */
#include "routing/data_lock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/macro.h"
#include "lessor/error.h"

static void close_file(FILE **file)
{
        if (*file != NULL)
                (void)fclose(*file);
}

/* A line of /proc/locks: "1: FLOCK  ADVISORY  WRITE 4711 fe:00:1234 0 EOF". The pid if it is a flock on this
 * inode. */
static long pid_of_line(char *line, const struct stat *st)
{
        enum { NUMBER, TYPE, MODE, ACCESS, PID, INODE, N_FIELDS };
        char *fields[N_FIELDS], *rest = line, *end;
        unsigned long device_major, device_minor;

        for (int i = 0; i < N_FIELDS; i++) {
                fields[i] = strtok_r(rest, " ", &rest);
                if (fields[i] == NULL)
                        return 0;
        }
        if (strcmp(fields[TYPE], "FLOCK") != 0)
                return 0;
        device_major = strtoul(fields[INODE], &end, 16);
        if (*end != ':')
                return 0;
        device_minor = strtoul(end + 1, &end, 16);
        if (*end != ':' || device_major != major(st->st_dev) || device_minor != minor(st->st_dev) ||
            strtoull(end + 1, NULL, 10) != st->st_ino)
                return 0;
        return strtol(fields[PID], NULL, 10);
}

/*
 * The process that holds a flock on this inode, or 0. The kernel's list is the only place that knows: a
 * flock, unlike a POSIX lock, has no call that names its holder, and a number that the holder wrote down
 * somewhere may be another process's by now.
 */
static long holder_pid(int fd)
{
        _cleanup_(close_file) FILE *locks = fopen("/proc/locks", "re");
        struct stat st;
        char line[256];
        long pid = 0;

        if (locks == NULL || fstat(fd, &st) != 0)
                return 0;
        while (pid == 0 && fgets(line, sizeof(line), locks) != NULL)
                pid = pid_of_line(line, &st);
        return pid;
}

static int refuse_busy(const char *dir, int fd, struct buf *ret_problem)
{
        long pid = holder_pid(fd);

        if (pid > 0)
                (void)buf_printf(ret_problem,
                                 "the data directory %s is in use by process %ld; stop that server first, or "
                                 "use another directory",
                                 dir, pid);
        else
                (void)buf_printf(ret_problem,
                                 "the data directory %s is in use by a process that cannot be seen from here "
                                 "(another container?); stop that server first, or use another directory",
                                 dir);
        return LESSOR_E_BUSY;
}

static int refuse(const char *dir, int error, struct buf *ret_problem)
{
        const char *text = strerror(error);

        switch (error) {
        case EACCES:
        case EPERM:
        case EROFS:
                (void)buf_printf(ret_problem, "no access to the data directory %s: %s", dir, text);
                return LESSOR_E_PERMISSION;
        case ENOENT:
        case ENOTDIR:
        case ENAMETOOLONG:
        case ELOOP:
                (void)buf_printf(ret_problem, "the data directory %s cannot be made: %s", dir, text);
                return LESSOR_E_INVALID;
        default:
                (void)buf_printf(ret_problem, "the data directory %s cannot be locked: %s", dir, text);
                return LESSOR_E_IO;
        }
}

int data_lock_take(const char *dir, int *ret_fd, struct buf *ret_problem)
{
        int fd, error, r;

        if (mkdir(dir, 0700) != 0 && errno != EEXIST)
                return refuse(dir, errno, ret_problem);
        fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (fd < 0)
                return refuse(dir, errno, ret_problem);
        do
                error = flock(fd, LOCK_EX | LOCK_NB) == 0 ? 0 : errno;
        while (error == EINTR);
        if (error == 0) {
                *ret_fd = fd;
                return 0;
        }
        r = error == EWOULDBLOCK ? refuse_busy(dir, fd, ret_problem) : refuse(dir, error, ret_problem);
        (void)close(fd);
        return r;
}
