/* SPDX-License-Identifier: MIT */
#ifndef INTEROP_PEER_H
#define INTEROP_PEER_H

#include <sys/types.h>

#include "lessor/slice.h"

/* A server that somebody else wrote, run for one test. */
struct peer {
        pid_t pid;
        char *url;
};

/*
 * Starts a program and waits for its line `listening on URL`. argv ends with NULL.
 * Returns 0; 77 when it cannot be had on this machine (no such program, or it ended before it listened).
 */
int peer_start(const char *const *argv, struct peer *ret_peer);

/* Ends it and waits for its end. */
void peer_stop(struct peer *peer);

/* Posts JSON to the peer's own test endpoints; the answer is to be freed. Aborts the test on failure. */
char *peer_post(const struct peer *peer, const char *path, const char *json);

/* A new directory for one test, removed with everything in it by scratch_remove. To be freed. */
char *scratch_make(void);
void scratch_remove(char *dir);

#endif
