/* SPDX-License-Identifier: MIT */
#ifndef CLIENT_TASK_RUN_H
#define CLIENT_TASK_RUN_H

#include "client/cgroup.h"
#include "client/sandbox.h"
#include "lessor/stop.h"
#include "wire/task_objects.h"

/* One run of a task's command, from its start until nothing of it is left. */

enum task_stream { TASK_STDOUT, TASK_STDERR };
#define N_TASK_STREAMS 2

struct task_run {
        const struct sandbox *sandbox;
        const struct cgroup_parent *cgroups; /* NULL: none */
        const char *name;                    /* of its cgroup: a file's name */
        const char *work_dir;                /* absolute: the inputs are in it */
        const char *tmp_dir;                 /* absolute: its /tmp */
        const struct task *task;
        bool network;
        struct task_limits limits; /* 0: none */

        /* When it is raised, the task is killed. May be NULL. */
        struct lessor_stop *stop;
        /* Whether a stream's reader has room; until it does, the task waits. NULL: always. */
        bool (*room)(void *context, enum task_stream stream);
        /* What the task wrote, as it came. NULL: nobody wants it. */
        void (*output)(void *context, enum task_stream stream, struct lessor_slice bytes);
        void *context;
};

enum task_how {
        TASK_END_EXIT,         /* number: its status */
        TASK_END_SIGNAL,       /* number: the signal */
        TASK_END_NO_COMMAND,   /* number: errno */
        TASK_END_NO_DIRECTORY, /* number: errno */
        TASK_END_TIMEOUT,      /* it was killed after limits.time_ms */
        TASK_END_DISK,    /* it was killed, or its outputs would not count: more than limits.disk_bytes */
        TASK_END_STOPPED, /* it was killed, since `stop` was raised */
        TASK_END_BROKEN,  /* it could not be started, for no reason of its own: problem */
};

#define TASK_PROBLEM_MOST 400

struct task_end {
        enum task_how how;
        int number;
        int64_t peak_bytes; /* of the largest process; 0: not known */
        bool out_of_memory;
        bool out_of_processes;
        char problem[TASK_PROBLEM_MOST]; /* "" unless TASK_END_BROKEN */
};

/*
 * Runs it. When this returns, none of its processes is left, but for those that a task without a sandbox took
 * away from lessor-task by killing it. Blocks; the thread must not end while the task runs, which would kill
 * it.
 */
void task_run(const struct task_run *run, struct task_end *ret_end);

#endif
