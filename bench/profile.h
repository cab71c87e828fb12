/* SPDX-License-Identifier: MIT */
#ifndef BENCH_PROFILE_H
#define BENCH_PROFILE_H

#include <sys/types.h>

/*
 * Watches a process with perf(1) until profile_end, into DIRECTORY/NAME.perf; read it with `perf report`.
 * What cannot be started is left out. Costs some speed: not for figures to publish.
 *
 * Returns perf's pid, or 0; 0 too when `directory` is NULL.
 */
pid_t profile_begin(const char *directory, const char *name, pid_t pid);

void profile_end(pid_t perf);

#endif
