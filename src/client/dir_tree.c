/* SPDX-License-Identifier: MIT */
#include "client/dir_tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A directory below this depth is moved to the top first, so that neither the stack nor descriptors run out.
 */
#define DEPTH_MOST 64
#define NAME_ROOM  48

struct removal {
        int top;
        unsigned n_moved;
        bool failed;
};

static bool is_dots(const char *name)
{
        return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

static int open_dir_at(int dir, const char *name)
{
        int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

        if (fd >= 0 || errno != EACCES)
                return fd;
        /* A link that took its place meanwhile cannot be followed: nobody but us is left who could put one.
         */
        if (fchmodat(dir, name, 0700, 0) < 0)
                return -1;
        return openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

static bool move_up(struct removal *removal, int dir, const char *name)
{
        char moved[NAME_ROOM];

        snprintf(moved, sizeof(moved), ".lessor-remove-%u", removal->n_moved++);
        return renameat(dir, name, removal->top, moved) == 0;
}

static void empty(struct removal *removal, int fd, unsigned depth);

static void remove_at(struct removal *removal, int dir, const char *name, unsigned depth)
{
        int fd;

        if (unlinkat(dir, name, 0) == 0 || errno == ENOENT)
                return;
        if (depth >= DEPTH_MOST && move_up(removal, dir, name))
                return; /* the top is read until nothing is found there */
        fd = open_dir_at(dir, name);
        if (fd >= 0) {
                fchmod(fd, 0700);
                empty(removal, fd, depth + 1);
        }
        if (unlinkat(dir, name, AT_REMOVEDIR) < 0)
                removal->failed = true;
}

/* Takes the descriptor. */
static void empty(struct removal *removal, int fd, unsigned depth)
{
        DIR *dir = fdopendir(fd);
        struct dirent *entry;

        if (dir == NULL) {
                close(fd);
                removal->failed = true;
                return;
        }
        while ((entry = readdir(dir)) != NULL)
                if (!is_dots(entry->d_name))
                        remove_at(removal, dirfd(dir), entry->d_name, depth);
        closedir(dir);
}

int dir_tree_remove(const char *path)
{
        struct removal removal = {0};
        unsigned n_moved;
        struct stat st;

        if (lstat(path, &st) < 0)
                return errno == ENOENT || errno == ENOTDIR ? 0 : LESSOR_E_IO;
        removal.top = open_dir_at(AT_FDCWD, path);
        if (removal.top < 0)
                return LESSOR_E_IO;
        fchmod(removal.top, 0700);
        do {
                int fd = openat(removal.top, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

                n_moved = removal.n_moved;
                removal.failed = false;
                if (fd < 0)
                        break;
                empty(&removal, fd, 0);
        } while (removal.n_moved > n_moved);
        close(removal.top);
        return rmdir(path) < 0 || removal.failed ? LESSOR_E_IO : 0;
}

/* Takes the descriptor. */
static void count(int fd, unsigned depth, int64_t enough, int64_t *bytes)
{
        DIR *dir = fdopendir(fd);
        struct dirent *entry;

        if (dir == NULL) {
                close(fd);
                return;
        }
        while (*bytes < enough && (entry = readdir(dir)) != NULL) {
                struct stat st;

                if (is_dots(entry->d_name) ||
                    fstatat(dirfd(dir), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
                        continue;
                *bytes += (int64_t)st.st_blocks * 512;
                if (S_ISDIR(st.st_mode) && depth < DEPTH_MOST) {
                        int below = openat(dirfd(dir), entry->d_name,
                                           O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

                        if (below >= 0)
                                count(below, depth + 1, enough, bytes);
                }
        }
        closedir(dir);
}

int64_t dir_tree_usage(const char *path, int64_t enough)
{
        int64_t bytes = 0;
        int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

        if (fd >= 0)
                count(fd, 0, enough, &bytes);
        return bytes;
}
