/* SPDX-License-Identifier: MIT */
#ifndef OBJECTS_IO_H
#define OBJECTS_IO_H

#include <sys/types.h>

/*
 * The system calls by which this room changes the disk. A test gives its own, to make one fail or to end the
 * process between two. Each is as the system's: -1 and errno.
 */
struct object_io {
        ssize_t (*pwrite)(int fd, const void *bytes, size_t n, off_t at);
        int (*fsync)(int fd);
        int (*ftruncate)(int fd, off_t length);
        int (*linkat)(int from_dir, const char *from, int to_dir, const char *to, int flags);
        int (*renameat)(int from_dir, const char *from, int to_dir, const char *to);
        int (*unlinkat)(int dir, const char *name, int flags);
        int (*mkdirat)(int dir, const char *name, mode_t mode);
};

extern const struct object_io object_io_system;

/* What errno stands for. LESSOR_E_LOW_SPACE for a full disk or a spent quota. */
int object_io_error(int number);

/* Writes all of it. Returns 0 or a code; a part may have been written then. */
int object_io_write(const struct object_io *io, int fd, const char *bytes, size_t n, off_t at);

/* Reads up to n bytes, less only at the end of the file. Returns 0 or a code. */
int object_io_read(int fd, char *ret_bytes, size_t n, off_t at, size_t *ret_n);

/* For _cleanup_. */
void object_io_close(const int *fd);

#endif
