/* SPDX-License-Identifier: MIT */
#ifndef CLIENT_TREE_PLACE_H
#define CLIENT_TREE_PLACE_H

#include <stdbool.h>

#include "base/buf.h"
#include "lessor/error.h"

/*
 * Going about directories by their file descriptors, name by name and never through a link: so that nothing
 * leads out of the one where it began, however hostile the names and whoever moves things meanwhile.
 */

/* A directory below another one; the topmost has no `up` and an open `fd`. */
struct tree_place {
        struct tree_place *up;
        const char *name;
        int fd; /* -1: not open */
        unsigned depth;
};

/*
 * Opens the directory of a place. Of a long chain only the last few stay open: an `fd` further up may be
 * closed meanwhile, and is opened again when it is asked for. Returns 0 or a code.
 */
int tree_place_open(struct tree_place *place);

/*
 * Opens the directory above the last name of a path, from `dir`. The path is tree_path_valid.
 *
 * make      make the directories that are missing
 * ret_fd    the caller closes it
 * ret_last  points into the path
 *
 * Returns 0; LESSOR_E_NOT_FOUND; LESSOR_E_PERMISSION (also: a link or a file is in the way); LESSOR_E_IO and
 * the like.
 */
int tree_place_above(int dir, const char *path, bool make, int *ret_fd, const char **ret_last);

/* Opens, and with `make` makes, the directory `path` itself. As above. */
int tree_place_directory(int dir, const char *path, bool make, int *ret_fd);

/* Calls `name` for everything in a directory, in no order. Not 0 ends it and is returned. */
int tree_place_names(int dir, int (*name)(void *context, struct lessor_slice name), void *context);

/* A path that grows by a name, and is cut back to where it was. A failure stays in the buffer. */
size_t tree_place_enter(struct buf *path, struct lessor_slice name);
void tree_place_leave(struct buf *path, size_t above);

/* Appends a path for people; bytes that are no UTF-8 as \xNN. An empty one is ".". */
void tree_place_show(struct buf *out, struct lessor_slice path);

/* What errno stands for. */
int tree_place_error(int number);

/* For _cleanup_; leaves -1 behind. */
void tree_place_close(int *fd);

#endif
