/* SPDX-License-Identifier: MIT */
#ifndef CLIENT_DIR_TREE_H
#define CLIENT_DIR_TREE_H

#include <stdint.h>

#include "lessor/error.h"

/* What a program that is not trusted may have left in a directory: any names, modes and depth. */

/*
 * Removes a directory with all that is in it. No link is followed, closed directories are opened (we must own
 * them), and depth costs neither stack nor descriptors. What cannot be removed does not keep the rest.
 *
 * Returns 0, also if there is none; LESSOR_E_IO (something is left).
 */
int dir_tree_remove(const char *path);

/*
 * The room that it takes on disk, bytes. What is closed to us, or changes meanwhile, counts as far as it was
 * seen; it stops counting at `enough`.
 */
int64_t dir_tree_usage(const char *path, int64_t enough);

#endif
