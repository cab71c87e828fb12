/* SPDX-License-Identifier: MIT */
#ifndef LESSORD_DESCRIPTORS_H
#define LESSORD_DESCRIPTORS_H

#include <stdint.h>

/*
 * Raises the limit on open files (RLIMIT_NOFILE, soft towards hard) to what so many connections need besides
 * the server's own files. Where the hard limit is too low it says so in the log, and names the way out.
 *
 * n_connections  asked for, at least 1
 * n_own          listeners and worker threads
 *
 * Returns how many connections there may be: n_connections, or as many fewer as leave the store, the control
 * socket and the files that are read again their descriptors. At least 1. Not thread-safe; call it before any
 * thread is made.
 */
int64_t descriptors_reserve(int64_t n_connections, int64_t n_own);

#endif
