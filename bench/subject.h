/* SPDX-License-Identifier: MIT */
#ifndef BENCH_SUBJECT_H
#define BENCH_SUBJECT_H

#include <sys/types.h>

#include "base/macro.h"
#include "lessor/slice.h"

/* The server under test: a process of ours on its own core, with a temporary directory, or a peer at a port.
 */
struct subject {
        pid_t pid; /* 0: somebody else's */
        unsigned port;
        int out;         /* the other end of its stdout; -1: none */
        char *directory; /* removed with the process; NULL: somebody else's */
};

/*
 * Starts a program on the server's core and waits for its line `listening on http://127.0.0.1:PORT`.
 *
 * arguments   NULL-terminated, the program first; "@DIR" within one stands for the temporary directory, where
 *             `projection` has been written as projection.json
 *
 * Returns 0; LESSOR_E_UNAVAILABLE when it ends or says nothing for 30 s; LESSOR_E_IO; LESSOR_E_NOMEM. What
 * the program writes on stderr is shown.
 */
int subject_start(const char *const *arguments, struct lessor_slice projection, struct subject **ret_subject);

/* Ends it with SIGTERM, by pid, waits, and removes its directory. Takes NULL, returns NULL. */
struct subject *subject_free(struct subject *subject);
DEFINE_CLEANUP(struct subject, subject_free)

#endif
