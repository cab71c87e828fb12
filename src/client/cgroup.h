/* SPDX-License-Identifier: MIT */
#ifndef CLIENT_CGROUP_H
#define CLIENT_CGROUP_H

#include <stdbool.h>
#include <stdint.h>

#include "lessor/error.h"

/*
 * A cgroup (version 2) for each task, below the one that the agent runs in, where that one is the agent's to
 * divide: as root, or under systemd with Delegate=yes. Everything else goes on without.
 */

/* Constant once made; any thread. */
struct cgroup_parent;

/*
 * Takes the agent's own cgroup over: moves this process into a group below it, since one with processes
 * cannot be divided, and hands the controllers down.
 *
 * root  where version 2 is mounted; NULL: found. For tests
 * own   the agent's own group below it; NULL: from /proc/self/cgroup
 *
 * Returns 0; LESSOR_E_UNAVAILABLE (there is none that we may divide, or it has no controller for memory or
 * processes); LESSOR_E_NOMEM.
 */
int cgroup_parent_new(const char *root, const char *own, struct cgroup_parent **ret_parent);

/* Takes NULL, returns NULL. Leaves the groups, which go with the unit or the agent's next start. */
struct cgroup_parent *cgroup_parent_free(struct cgroup_parent *parent);

struct cgroup_limits {
        int64_t memory_bytes; /* 0: none */
        int64_t processes;    /* 0: none */
};

struct cgroup {
        char *path;
        int procs_fd; /* cgroup.procs, open to write; whoever writes "0" moves itself in */
};

/* Makes a group of that name. Returns 0, LESSOR_E_IO or LESSOR_E_NOMEM. */
int cgroup_make(const struct cgroup_parent *parent, const char *name, const struct cgroup_limits *limits,
                struct cgroup *ret_cgroup);

/* What became of it. */
struct cgroup_usage {
        int64_t peak_bytes;    /* 0: this kernel does not tell */
        bool out_of_memory;    /* something in it was killed for memory */
        bool out_of_processes; /* it wanted more than it may have */
};
struct cgroup_usage cgroup_usage(const struct cgroup *cgroup);

/* Kills what is in it and removes it. For one that was never made (path NULL) too. */
void cgroup_end(struct cgroup *cgroup);

#endif
