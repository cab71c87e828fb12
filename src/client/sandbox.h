/* SPDX-License-Identifier: MIT */
#ifndef CLIENT_SANDBOX_H
#define CLIENT_SANDBOX_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "lessor/arena.h"
#include "lessor/error.h"

/*
 * Where tasks run: bubblewrap with the system read-only, /tmp and the task's directory its own, and none of
 * the machine's processes, users, sockets or (unless asked for) network in sight. Or nowhere in particular,
 * when the operator said so.
 */

/* Where things are for a task in a sandbox. */
#define SANDBOX_TASK_DIR "/task"
#define SANDBOX_HELPER   "/run/lessor-task"

struct sandbox_options {
        bool off;          /* no sandbox */
        const char *bwrap; /* NULL: found in PATH */
        const char *task_program;
        const char *const *shares; /* absolute paths, each readable in the sandbox under the same name */
        size_t n_shares;
        const char *const *devices; /* absolute paths of device files */
        size_t n_devices;
        const char *dir; /* ours: for the files that a sandbox shows as /etc/passwd and /etc/group */
};

/* Constant once made; any thread. */
struct sandbox;

/*
 * Finds the programs and looks at how this system is laid out. Whether it works, a first task shows.
 * Returns 0; LESSOR_E_NOT_FOUND (a program or path, with the problem); LESSOR_E_INVALID; LESSOR_E_IO;
 * LESSOR_E_NOMEM.
 */
int sandbox_new(const struct sandbox_options *options, struct sandbox **ret_sandbox, struct buf *ret_problem);

/* Takes NULL, returns NULL. */
struct sandbox *sandbox_free(struct sandbox *s);

bool sandbox_is_on(const struct sandbox *s);

/* One task's part of it. */
struct sandbox_place {
        const char *work_dir; /* absolute; the task's directory on this machine */
        const char *tmp_dir;  /* absolute; its /tmp */
        bool network;
        int64_t memory_bytes; /* the most that files in memory (/dev/shm) may take; 0: half of what there is
                               */
        int spec_fd;          /* as numbered in the program that is started */
};

/*
 * The command line that starts lessor-task in its place, in the arena and ended by NULL; the first is the
 * program's whole path. Pure. Returns 0 or LESSOR_E_NOMEM.
 */
int sandbox_argv(const struct sandbox *s, const struct sandbox_place *place, struct lessor_arena *arena,
                 const char ***ret_argv);

#endif
