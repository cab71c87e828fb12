/* SPDX-License-Identifier: MIT */
#ifndef BENCH_FILE_SERVER_H
#define BENCH_FILE_SERVER_H

#include <sys/types.h>

#include "base/macro.h"

/*
 * What is compared with when files are served: nginx with one worker, where it is installed, else a program
 * of ours that answers every request with the file by sendfile(2) and knows nothing else. On the server's
 * core.
 */
struct file_server {
        pid_t pid;
        unsigned port;
        const char *name; /* for people */
        char *directory;
};

/* path: the file; it is served as /file. Returns 0, LESSOR_E_IO, LESSOR_E_UNAVAILABLE or LESSOR_E_NOMEM. */
int file_server_new(const char *path, struct file_server **ret_server);

/* Takes NULL, returns NULL. */
struct file_server *file_server_free(struct file_server *server);
DEFINE_CLEANUP(struct file_server, file_server_free)

#endif
