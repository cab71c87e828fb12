/* SPDX-License-Identifier: MIT */
#ifndef CLIENT_TASK_SPEC_H
#define CLIENT_TASK_SPEC_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"
#include "wire/task_objects.h"

/*
 * What lessor-task is told and what it answers: both ends of the two descriptors between it and the agent.
 * The form is in src/task/main.c, which includes nothing of ours.
 */
struct task_spec {
        int status_fd;               /* as numbered in lessor-task */
        int cgroup_fd;               /* cgroup.procs of the task's cgroup, open to write; -1: none */
        pid_t parent;                /* end if that is not the parent any more; 0: do not look */
        bool alone;                  /* in a PID namespace of its own */
        const char *dir;             /* where the command starts */
        int64_t fsize;               /* RLIMIT_FSIZE; 0: none, as the next two */
        int64_t data;                /* RLIMIT_DATA */
        int64_t nproc;               /* RLIMIT_NPROC */
        const char *const *defaults; /* variables, "NAME=VALUE", unless the task has them; ended by NULL */
        const struct task *task;     /* its argv and environment */
};

/* Appends it. Returns 0 or LESSOR_E_NOMEM. */
int task_spec_write(const struct task_spec *spec, struct buf *out);

enum task_word {
        TASK_EXITED,    /* number: its status */
        TASK_SIGNALLED, /* number: the signal */
        TASK_NO_EXEC,   /* number: errno; there is no such command, or it cannot be run */
        TASK_NO_DIR,    /* number: errno; of the directory that it should start in */
        TASK_SILENT,    /* nothing was said, or something else: lessor-task itself failed or was killed */
};

struct task_status {
        enum task_word word;
        int number;
        int64_t peak_bytes; /* 0: not known */
};

/* Reads what it said, the first line that counts. Pure. */
struct task_status task_status_read(struct lessor_slice text);

#endif
