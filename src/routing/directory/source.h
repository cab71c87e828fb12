/* SPDX-License-Identifier: MIT */
#ifndef DIRECTORY_SOURCE_H
#define DIRECTORY_SOURCE_H

#include "routing/directory/projection_json.h"

/*
 * A projection or a policy kept in a file that somebody else writes. It is replaced whole or not at all: a
 * file that cannot be read, or says something wrong, is logged once with what is wrong and where, and what
 * was there stays. Thread-safe.
 */
struct source;

/* `path` is copied; the cell is borrowed and outlives the source. Reads nothing yet. Returns 0 or
 * LESSOR_E_NOMEM. */
int source_new_projection(const char *path, struct projection_cell *cell, struct source **ret_source);
int source_new_policy(const char *path, struct policy_cell *cell, struct source **ret_source);
/* Takes NULL, returns NULL. */
struct source *source_free(struct source *s);
DEFINE_CLEANUP(struct source, source_free)

/*
 * Reads the file now: at the start, and on SIGHUP. Logs what happened.
 * Returns 0 or why the file was not taken, as file_read and projection_from_json do.
 */
int source_reload(struct source *s);

/*
 * Reads the file if it is another one than last time, by inode, size and times. Cheap: the main loop calls it
 * about once a second. Returns 1 when it was replaced, 0 when there was nothing new, or why a new file was
 * not taken.
 */
int source_check(struct source *s);

#endif
