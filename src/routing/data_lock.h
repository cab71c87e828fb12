/* SPDX-License-Identifier: MIT */
#ifndef ROUTING_DATA_LOCK_H
#define ROUTING_DATA_LOCK_H

#include "base/buf.h"

/*
 * Makes sure that one process at a time uses a data directory, by a lock (flock) on the directory itself: it
 * needs no file beside the data, cannot be left behind by a crash, and cannot disturb the locks that SQLite
 * keeps on its own files (docs/decisions/0005-sqlite-store.md).
 *
 * dir          made with mode 0700 if it is not there
 * ret_fd       holds the lock until it is closed; not inherited by programs that are started
 * ret_problem  initialised; on failure a sentence for people is appended
 *
 * Returns 0; LESSOR_E_BUSY (the problem names the holder where the system lets us see it);
 * LESSOR_E_PERMISSION; LESSOR_E_INVALID (the path cannot be a directory); LESSOR_E_IO.
 */
int data_lock_take(const char *dir, int *ret_fd, struct buf *ret_problem);

#endif
