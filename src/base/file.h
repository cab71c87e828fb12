/* SPDX-License-Identifier: MIT */
#ifndef BASE_FILE_H
#define BASE_FILE_H

#include <sys/types.h>

#include "base/buf.h"

/*
 * Reads a whole regular file of at most `limit` bytes and appends it to `out`.
 *
 * Returns 0; LESSOR_E_NOT_FOUND, LESSOR_E_PERMISSION, LESSOR_E_IO; LESSOR_E_TOO_LARGE; LESSOR_E_INVALID when
 * it is no regular file; LESSOR_E_NOMEM. errno is not part of the answer.
 */
int file_read(const char *path, size_t limit, struct buf *out);

/*
 * As file_read, for secrets, and also tells the file's permissions, so that the caller can refuse a file that
 * group or others may read or write. The mode is read from the opened file, not from its path.
 */
int file_read_private(const char *path, size_t limit, struct buf *out, mode_t *ret_mode);

/*
 * Replaces a file in one step: a temporary file beside it, fsync, rename, fsync of the directory.
 *
 * mode   permissions of the new file, for example 0600
 *
 * Returns 0; LESSOR_E_NOT_FOUND (there is no such directory); LESSOR_E_PERMISSION; LESSOR_E_NOMEM;
 * LESSOR_E_IO. The old file is whole after any of them, unless all that failed was the sync of the directory:
 * then the new one is there (LESSOR_E_IO) and might not outlive a power cut.
 */
int file_replace(const char *path, struct lessor_slice bytes, mode_t mode);

/* As file_replace, but only if there is no such file yet: LESSOR_E_EXISTS otherwise. */
int file_create(const char *path, struct lessor_slice bytes, mode_t mode);

#endif
