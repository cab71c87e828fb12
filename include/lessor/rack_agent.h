/* SPDX-License-Identifier: MIT */
#ifndef LESSOR_RACK_AGENT_H
#define LESSOR_RACK_AGENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lessor/error.h"
#include "lessor/slice.h"

/*
 * A machine's side of the rack protocol (rack-protocol 6 and 14): enrols with a server, polls it for leases,
 * runs the task of each in a sandbox, and brings back what it printed and made. Only ever dials out.
 *
 * A rack is a directory, and nothing else of it is on the machine:
 *   rack.json     server, rack id, token; mode 0600. Whoever has it is the rack
 *   agent.lock    held by the agent that runs, so that there is only one
 *   outbox/       results that the server has not acknowledged yet
 *   cache/        objects, by hash; may be elsewhere, and may be deleted while no agent runs
 *   work/         a directory a task that runs; may be elsewhere
 */

struct lessor_rack_join {
        const char *dir;          /* made (0700) if missing */
        const char *url;          /* the server's, http or https */
        const char *token;        /* the enrolment token; good once */
        const char *label;        /* what people see; NULL: the host's name */
        const char *const *tiers; /* until it polls for the first time; a rack says what it serves by polling
                                   */
        size_t n_tiers;
        const char *ca_file; /* PEM; NULL: the system's */
        const char *proxy;   /* NULL: none; "env": as the environment says; else its URL */
        bool replace;        /* a rack that the directory holds already is given up */
};

/*
 * Enrols this machine. The token is used up as soon as the server has it: where the answer gets lost, there
 * has to be another one.
 *
 * ret_rack_id  to be freed with free()
 * ret_problem  may be NULL; on failure a sentence for people, to be freed with free()
 *
 * Returns 0; LESSOR_E_EXISTS (the directory holds a rack); LESSOR_E_BUSY (its agent runs); LESSOR_E_INVALID;
 * LESSOR_E_PERMISSION (the token is not, or no longer, good; or a file); LESSOR_E_LATER; LESSOR_E_PROTOCOL;
 * LESSOR_E_REFUSED; LESSOR_E_IO; LESSOR_E_NOMEM.
 */
int lessor_rack_join(const struct lessor_rack_join *join, char **ret_rack_id, char **ret_problem);

/* At most so much for each task; a task that names less gets that. 0: the default. */
struct lessor_rack_limits {
        int64_t time_ms;      /* 24 h */
        int64_t memory_bytes; /* none. Of all its processes with a cgroup, of each of them without */
        int64_t disk_bytes;   /* 64 GiB: its directory and its /tmp */
        int64_t processes;    /* 4096, threads included */
        int64_t log_bytes;    /* 64 MiB: of each stream; what follows is not sent */
};

struct lessor_rack_agent_options {
        const char *dir;
        const char *ca_file;      /* as above */
        const char *proxy;        /* as above */
        const char *const *tiers; /* at least one */
        size_t n_tiers;
        size_t slots;          /* tasks at once, 1..64; 0: 1 */
        const char *cache_dir; /* NULL: below dir */
        int64_t cache_bytes;   /* 0: 10 GiB */
        const char *work_dir;  /* NULL: below dir */

        bool no_sandbox;           /* tasks can do whatever the agent's user can */
        const char *bwrap;         /* whole path; NULL: found in PATH */
        const char *task_program;  /* lessor-task, whole path; NULL: beside this program or where it is
                                      installed */
        const char *const *shares; /* further paths that tasks may read; absolute */
        size_t n_shares;
        const char *const *devices; /* device files that tasks may use; absolute */
        size_t n_devices;
        bool allow_network; /* to tasks that ask for it */

        struct lessor_rack_limits limits;
        int64_t grace_ms; /* how long tasks may go on once the agent is to stop; 0: 30 s; negative: not at all
                           */
        bool once;        /* stop after the first task */
};

/* What an agent tells while it runs. */
enum lessor_rack_event_type {
        LESSOR_RACK_ONLINE,   /* the server took a heartbeat, the first or after trouble */
        LESSOR_RACK_TROUBLE,  /* the server cannot be reached or asks for patience: error, message */
        LESSOR_RACK_NOTICE,   /* something the operator should know: message */
        LESSOR_RACK_DRAINING, /* no more work is taken; message says why */
        LESSOR_RACK_STOPPED,  /* the last event: error is what lessor_rack_agent_run returns */
        /* These name a task. */
        LESSOR_RACK_GRANTED,
        LESSOR_RACK_FETCHING, /* done_bytes and total_bytes; a few times a second at most */
        LESSOR_RACK_RUNNING,  /* total_bytes: of its inputs */
        LESSOR_RACK_SENDING,  /* its outputs: done_bytes and total_bytes, as far as they are known */
        LESSOR_RACK_DONE,     /* the server has the result: state, exit_code, duration_ms, message */
        LESSOR_RACK_KEPT,     /* the result could not be delivered yet, and is kept */
        LESSOR_RACK_DROPPED,  /* the lease was lost or the agent stops: message says which */
};
#define LESSOR_N_RACK_EVENTS (LESSOR_RACK_DROPPED + 1)

struct lessor_rack_event {
        enum lessor_rack_event_type type;
        int error;
        const char *message; /* NULL: none. Never a secret */
        struct lessor_slice task_name;
        struct lessor_slice repo;
        struct lessor_slice lease_id;
        struct lessor_slice attempt;
        const char *state;     /* DONE: "success", "failed" or "error" */
        bool has_exit_code;    /* DONE */
        int exit_code;         /* as in its result: -1 for a signal */
        const char *recorded;  /* DONE: "recorded", "idempotent" or "discarded" */
        int64_t duration_ms;   /* DONE: since the grant */
        int64_t done_bytes;    /* FETCHING, SENDING */
        int64_t total_bytes;   /* FETCHING, RUNNING, SENDING; 0: not known */
        const char *work_path; /* RUNNING: where it runs, on the machine */
};

struct lessor_rack_agent;

/*
 * An agent for an enrolled machine. Nothing is sent yet. Checks that the sandbox works by using it. Where the
 * process's own cgroup may be divided, moves the process into one below it.
 *
 * options      borrowed until this returns
 * event        called for everything worth telling, one call at a time but from different threads; may be
 *              NULL
 * ret_problem  as for lessor_rack_join
 *
 * Returns 0; LESSOR_E_NOT_FOUND (the directory holds no rack); LESSOR_E_BUSY (another agent runs in it, or
 * uses the cache); LESSOR_E_UNAVAILABLE (the sandbox does not work: the problem says what to do);
 * LESSOR_E_PERMISSION (a file is open to others); LESSOR_E_MALFORMED; LESSOR_E_NEWER; LESSOR_E_INVALID;
 * LESSOR_E_IO; LESSOR_E_NOMEM.
 */
int lessor_rack_agent_new(const struct lessor_rack_agent_options *options,
                          void (*event)(void *context, const struct lessor_rack_event *event), void *context,
                          struct lessor_rack_agent **ret_agent, char **ret_problem);

/* lessor_rack_agent_run must have returned. Takes NULL, returns NULL. */
struct lessor_rack_agent *lessor_rack_agent_free(struct lessor_rack_agent *agent);

struct lessor_rack_agent_info {
        const char *rack_id;
        const char *url;
        const char *boot_id;
        const char *limits_note; /* NULL; or what of the limits this machine cannot enforce, for people */
        size_t n_kept;           /* results of an earlier run that are still to be delivered */
};

/* Lives as long as the agent. */
void lessor_rack_agent_info(const struct lessor_rack_agent *agent, struct lessor_rack_agent_info *ret_info);

/*
 * Serves until lessor_rack_agent_stop(), until the first task is through (`once`), or until the server says
 * that this rack is none of its own. Raises the process's limit of open files.
 *
 * Once it is to stop, no more leases are taken. Tasks have grace_ms to end; then they are killed and their
 * leases left to lapse, so that another rack takes them up.
 *
 * Returns 0; LESSOR_E_PERMISSION (the token is not good any more: the rack was removed; enrol again);
 * LESSOR_E_AGENT_TOO_OLD; LESSOR_E_NOMEM; LESSOR_E_IO (rack.json or the outbox cannot be written). Once an
 * agent.
 */
int lessor_rack_agent_run(struct lessor_rack_agent *agent);

/* Asks the agent to stop. Thread-safe and async-signal-safe; may be called at any time before it is freed. */
void lessor_rack_agent_stop(struct lessor_rack_agent *agent);

#endif
