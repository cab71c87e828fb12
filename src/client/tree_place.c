/* SPDX-License-Identifier: MIT */
#include "client/tree_place.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/limits.h"
#include "base/macro.h"
#include "base/utf8.h"

#define DIRECTORY  (O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)
#define STAYS_OPEN 16 /* directories of a chain */

int tree_place_error(int number)
{
        switch (number) {
        case ENOENT:
                return LESSOR_E_NOT_FOUND;
        case EACCES:
        case EPERM:
        case EROFS:
        case ELOOP:   /* O_NOFOLLOW met a link */
        case ENOTDIR: /* O_DIRECTORY likewise */
                return LESSOR_E_PERMISSION;
        case EEXIST:
                return LESSOR_E_EXISTS;
        case ENOSPC:
        case EDQUOT:
                return LESSOR_E_LOW_SPACE;
        case EFBIG:
                return LESSOR_E_TOO_LARGE;
        case ENOMEM:
                return LESSOR_E_NOMEM;
        default:
                return LESSOR_E_IO;
        }
}

void tree_place_close(int *fd)
{
        if (*fd >= 0)
                close(*fd);
        *fd = -1;
}

/* Hands a descriptor over. */
static int take(int *fd)
{
        int taken = *fd;

        *fd = -1;
        return taken;
}

/* --- A chain of directories --- */

/* `ret_own`: the caller closes it. */
static int reach(struct tree_place *place, int *ret_fd, bool *ret_own)
{
        bool own;
        int above, fd, r;

        if (place->fd >= 0) {
                *ret_fd = place->fd;
                *ret_own = false;
                return 0;
        }
        r = place->up == NULL ? LESSOR_E_IO : reach(place->up, &above, &own);
        if (r < 0)
                return r;
        fd = openat(above, place->name, DIRECTORY);
        r = fd < 0 ? tree_place_error(errno) : 0;
        if (own)
                close(above);
        if (r < 0)
                return r;
        *ret_fd = fd;
        *ret_own = true;
        return 0;
}

int tree_place_open(struct tree_place *place)
{
        struct tree_place *far = place;
        bool own;
        int r;

        if (place->up != NULL)
                place->depth = place->up->depth + 1;
        r = reach(place, &place->fd, &own);
        for (int i = 0; i < STAYS_OPEN && far != NULL; i++)
                far = far->up;
        /* Not the topmost, which nobody could open again. */
        if (r == 0 && far != NULL && far->up != NULL)
                tree_place_close(&far->fd);
        return r;
}

/* --- Paths --- */

static int step(int from, const char *name, bool make, int *ret_fd)
{
        int fd = openat(from, name, DIRECTORY);

        if (fd < 0 && errno == ENOENT && make) {
                if (mkdirat(from, name, 0755) < 0 && errno != EEXIST)
                        return tree_place_error(errno);
                fd = openat(from, name, DIRECTORY);
        }
        if (fd < 0)
                return tree_place_error(errno);
        *ret_fd = fd;
        return 0;
}

int tree_place_above(int dir, const char *path, bool make, int *ret_fd, const char **ret_last)
{
        _cleanup_(tree_place_close) int at = openat(dir, ".", DIRECTORY);
        const char *slash;

        if (at < 0)
                return tree_place_error(errno);
        while ((slash = strchr(path, '/')) != NULL) {
                char name[LIMIT_TREE_NAME + 1];
                size_t n = (size_t)(slash - path);
                int next = -1, r;

                if (n >= sizeof(name))
                        return LESSOR_E_INVALID;
                memcpy(name, path, n);
                name[n] = '\0';
                r = step(at, name, make, &next);
                if (r < 0)
                        return r;
                close(at);
                at = next;
                path = slash + 1;
        }
        *ret_fd = take(&at);
        *ret_last = path;
        return 0;
}

int tree_place_directory(int dir, const char *path, bool make, int *ret_fd)
{
        _cleanup_(tree_place_close) int above = -1;
        const char *last;
        int r = tree_place_above(dir, path, make, &above, &last);

        return r < 0 ? r : step(above, last, make, ret_fd);
}

int tree_place_names(int dir, int (*name)(void *context, struct lessor_slice name), void *context)
{
        int fd = openat(dir, ".", DIRECTORY); /* with a place of its own in the directory */
        DIR *entries = fd < 0 ? NULL : fdopendir(fd);
        struct dirent *entry;
        int r = entries == NULL ? tree_place_error(errno) : 0;

        if (entries == NULL) {
                tree_place_close(&fd);
                return r;
        }
        while (r == 0) {
                errno = 0;
                entry = readdir(entries);
                if (entry == NULL) {
                        r = errno == 0 ? 0 : tree_place_error(errno);
                        break;
                }
                if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
                        r = name(context, lessor_slice_of(entry->d_name));
        }
        closedir(entries);
        return r;
}

size_t tree_place_enter(struct buf *path, struct lessor_slice name)
{
        size_t above = path->n;

        if (above > 0)
                buf_char(path, '/');
        buf_slice(path, name);
        return above;
}

void tree_place_leave(struct buf *path, size_t above)
{
        if (path->p != NULL)
                path->p[above] = '\0';
        path->n = above;
}

void tree_place_show(struct buf *out, struct lessor_slice path)
{
        if (path.n == 0)
                buf_char(out, '.');
        if (utf8_valid(path)) {
                buf_slice(out, path);
                return;
        }
        for (size_t i = 0; i < path.n; i++) {
                unsigned char c = (unsigned char)path.p[i];

                if (c < 0x80)
                        buf_char(out, path.p[i]);
                else
                        buf_printf(out, "\\x%02x", c);
        }
}
