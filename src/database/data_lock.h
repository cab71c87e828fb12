/* SPDX-License-Identifier: MIT */
#ifndef DATABASE_DATA_LOCK_H
#define DATABASE_DATA_LOCK_H

#include "base/buf.h"

/*
 * Makes sure that one process at a time uses a data directory, by a lock (flock) on the directory itself: it
 * needs no file beside the data, cannot be left behind by a crash, and cannot disturb the locks that SQLite
 * keeps on its own files (docs/decisions/0005-sqlite-store.md).
 *
 * Stores of one process that keep different files there share the lock, which lasts until the last of them
 * gives it back. Thread-safe. Not inherited by programs that are started.
 */
struct data_lock;

/*
 * dir          made with mode 0700 if it is not there
 * file         the file of it that the caller will use; borrowed until the lock is given back
 * ret_lock     written on success; give it back with data_lock_free
 * ret_problem  initialised; on failure a sentence for people is appended
 *
 * Returns 0; LESSOR_E_BUSY (another process has the directory, or this one the file; the problem names the
 * holder where the system lets us see it); LESSOR_E_PERMISSION; LESSOR_E_INVALID (the path cannot be a
 * directory); LESSOR_E_IO; LESSOR_E_NOMEM.
 */
int data_lock_take(const char *dir, const char *file, struct data_lock **ret_lock, struct buf *ret_problem);

/* Takes NULL, returns NULL. */
struct data_lock *data_lock_free(struct data_lock *lock);

#endif
