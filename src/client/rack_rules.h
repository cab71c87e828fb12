/* SPDX-License-Identifier: MIT */
#ifndef CLIENT_RACK_RULES_H
#define CLIENT_RACK_RULES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "client/task_run.h"
#include "lessor/error.h"
#include "lessor/lease_types.h"
#include "lessor/slice.h"
#include "wire/task_objects.h"

/*
 * What a rack agent decides, apart from everything that it does: plain data in, verdict out. No I/O, no
 * clock, no locks, no randomness.
 */

#define RACK_HEARTBEAT_MS 15000 /* rack-protocol 14 and 15 */
#define RACK_EXTEND_MS    20000 /* rack-protocol 15 */
#define RACK_EXTEND_SOON  5000  /* an extension that failed is tried again after so long */
#define RACK_POLL_MS      30000 /* deadline of a lease poll: longer than any window (29 s; rack-protocol 6.2) */
#define RACK_WATCH_MS     30000 /* ... of a watch: its window is at most 20 s (6.8) */
#define RACK_CALL_MS      20000 /* ... of anything else */

/*
 * What an answer of a rack endpoint means (rack-protocol 4 and 20): 0 (2xx); LESSOR_E_PERMISSION (the token
 * is not good: only where the endpoint itself says so, not a proxy); LESSOR_E_NOT_HELD (403: the lease is not
 * ours, or what was asked is not its business); LESSOR_E_TOO_LARGE; LESSOR_E_AGENT_TOO_OLD; LESSOR_E_LATER
 * (408, 429, 5xx but 501: try again); LESSOR_E_NOT_FOUND; LESSOR_E_REFUSED (anything else: it would be
 * refused again).
 *
 * error  the answer's code; absent: it had none
 */
int rack_verdict(long status, struct lessor_slice error);

/*
 * How long to wait before trying again: 0.5 s, 1 s, 2 s, ... 30 s, spread by up to a quarter so that racks
 * that were cut off together do not come back together, and never less than the server asked for.
 *
 * random  any number, evenly spread
 */
int64_t rack_backoff_ms(unsigned attempt, int64_t retry_after_ms, uint32_t random);

/* How the agent stands, as far as its next steps depend on it. Instants are monotonic ms. */
struct rack_situation {
        int64_t now_ms;
        bool draining; /* no more work is taken */
        size_t slots;
        size_t n_active; /* slots that have a job */
        bool beat_done;  /* a heartbeat was taken at all */
        bool beating;    /* a heartbeat is under way, as the next two */
        bool polling;
        bool watching;
        bool watch_stale;   /* what is watched is not what is active any more */
        bool watch_missing; /* the server has no such endpoint */
        int64_t beat_at_ms; /* when the next is due, as the next two */
        int64_t poll_at_ms;
        int64_t watch_at_ms;
        int64_t extend_at_ms; /* the earliest of any job's; INT64_MAX: none */
};

/* What to do now, and when to look again. */
struct rack_steps {
        bool beat;
        bool poll;
        bool stop_polling; /* end the one that is under way */
        bool watch;
        bool stop_watching;
        bool extend; /* those that are due */
        int64_t wait_ms;
};

/*
 * The heartbeat comes first and every 15 s; one poll at a time, after the first heartbeat and only with a
 * free slot; one watch at a time, over exactly the jobs that are active (rack-protocol 14).
 */
struct rack_steps rack_next_steps(const struct rack_situation *s);

/* When the next poll is due after one that ended `took_ms` after its start with `code` (0: also an empty
 * one).
 */
int64_t rack_poll_pause_ms(int code, bool granted, int64_t took_ms, unsigned n_failures,
                           int64_t retry_after_ms, uint32_t random);

/* The smaller of what a task wants and what the machine allows; 0 is no limit, in either. */
int64_t rack_limit(int64_t wanted, int64_t allowed);

/* --- Results --- */

enum rack_result_state { RACK_RESULT_SUCCESS, RACK_RESULT_FAILED, RACK_RESULT_ERROR };

extern const char *const rack_result_states[]; /* as they are called on the wire */

/* What is told of a task that ended (rack-protocol 13), but for what only e3's own have. */
struct rack_result {
        struct lessor_slice task_name;
        enum rack_result_state state;
        bool has_exit_code;
        int exit_code;
        struct lessor_slice output_hash; /* absent: none; of a success never */
        const char *error;               /* NULL: none */
        int64_t peak_bytes;              /* 0: not known */
        int64_t duration_ms;
};

/* Appends the JSON. Members without a value are left out (R082). Returns 0 or LESSOR_E_NOMEM. */
int rack_result_write(const struct rack_result *result, struct buf *out);

/*
 * What the end of a command makes of its task, before its outputs are looked at:
 *
 *   status 0                  success so far
 *   another status            failed, with it
 *   a signal                  failed, -1
 *   no such command, no such  failed, 127: the task says what does not exist
 *     directory
 *   out of time or disk       failed, -1; neither will be better elsewhere
 *   memory short (cgroup)     failed, -1
 *   could not be started      error: another rack may do better
 *
 * ret_error  text for people, which result->error points to if there is one. Failure of memory stays in it
 * ret_result written but for task_name, output_hash and duration
 *
 * True if the outputs are wanted.
 */
bool rack_judge_end(const struct task_end *end, const struct task_limits *limits, struct buf *ret_error,
                    struct rack_result *ret_result);

/*
 * Why an event is not for this agent, or NULL. `mode`: of a lease event whose task object begins with
 * `task_head` (absent: not fetched yet).
 */
const char *rack_refusal(enum lessor_lease_mode mode, struct lessor_slice task_head);

/*
 * How many of `n` bytes of a log to send now: at most `most`, no fewer than possible, and none of a character
 * that is not whole, unless nothing will follow. Bytes that belong to no character are no reason to wait.
 */
size_t rack_log_cut(const char *bytes, size_t n, size_t most, bool ended);

#endif
