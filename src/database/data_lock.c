/* SPDX-License-Identifier: MIT */
#include "database/data_lock.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
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

/* What this process has locked: one entry for each directory and file. */
struct data_lock {
        struct data_lock *next;
        const char *file;
        dev_t device;
        ino_t inode;
        int fd; /* shared by the entries of one directory */
};

static pthread_mutex_t locks_lock = PTHREAD_MUTEX_INITIALIZER;
static struct data_lock *locks;

/* An entry of the same directory; if it is of the same file too, in preference. locks_lock held. */
static const struct data_lock *find_lock(const struct data_lock *like)
{
        const struct data_lock *found = NULL;

        for (const struct data_lock *l = locks; l != NULL; l = l->next) {
                if (l->device != like->device || l->inode != like->inode)
                        continue;
                if (strcmp(l->file, like->file) == 0)
                        return l;
                found = l;
        }
        return found;
}

/* Locks lock->fd, or finds that this process has the directory and shares its descriptor. locks_lock held. */
static int take(const char *dir, struct data_lock *lock, struct buf *ret_problem)
{
        const struct data_lock *other = find_lock(lock);
        int error;

        if (other != NULL && strcmp(other->file, lock->file) == 0)
                return refuse_busy(dir, lock->fd, ret_problem);
        if (other != NULL) {
                (void)close(lock->fd);
                lock->fd = other->fd;
                return 0;
        }
        do
                error = flock(lock->fd, LOCK_EX | LOCK_NB) == 0 ? 0 : errno;
        while (error == EINTR);
        if (error == 0)
                return 0;
        return error == EWOULDBLOCK ? refuse_busy(dir, lock->fd, ret_problem)
                                    : refuse(dir, error, ret_problem);
}

int data_lock_take(const char *dir, const char *file, struct data_lock **ret_lock, struct buf *ret_problem)
{
        struct data_lock *lock;
        struct stat st;
        int r;

        if (mkdir(dir, 0700) != 0 && errno != EEXIST)
                return refuse(dir, errno, ret_problem);
        lock = calloc(1, sizeof(*lock));
        if (lock == NULL)
                return LESSOR_E_NOMEM;
        lock->file = file;
        lock->fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (lock->fd < 0 || fstat(lock->fd, &st) != 0) {
                r = refuse(dir, errno, ret_problem);
                if (lock->fd >= 0)
                        (void)close(lock->fd);
                free(lock);
                return r;
        }
        lock->device = st.st_dev;
        lock->inode = st.st_ino;
        (void)pthread_mutex_lock(&locks_lock);
        r = take(dir, lock, ret_problem);
        if (r == 0) {
                lock->next = locks;
                locks = lock;
        }
        (void)pthread_mutex_unlock(&locks_lock);
        if (r < 0) {
                (void)close(lock->fd);
                free(lock);
                return r;
        }
        *ret_lock = lock;
        return 0;
}

struct data_lock *data_lock_free(struct data_lock *lock)
{
        struct data_lock **at = &locks;

        if (lock == NULL)
                return NULL;
        (void)pthread_mutex_lock(&locks_lock);
        while (*at != lock)
                at = &(*at)->next;
        *at = lock->next;
        if (find_lock(lock) == NULL)
                (void)close(lock->fd);
        (void)pthread_mutex_unlock(&locks_lock);
        free(lock);
        return NULL;
}
