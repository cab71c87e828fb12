/* SPDX-License-Identifier: MIT */
#ifndef CLIENT_APPEND_FILE_H
#define CLIENT_APPEND_FILE_H

#include "lessor/slice.h"

/*
 * Opens a file to append to, made with mode 0600. Returns a descriptor; LESSOR_E_PERMISSION (also: it is open
 * to others); LESSOR_E_INVALID (no regular file); LESSOR_E_IO.
 */
int append_open(const char *path);

/*
 * Appends a whole line or nothing: what a full disk let through of it is taken back. One thread at a time.
 * Returns 0 or LESSOR_E_IO.
 */
int append_line(int fd, struct lessor_slice line);

#endif
