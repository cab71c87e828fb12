/* SPDX-License-Identifier: MIT */
#ifndef WIRE_LEASE_EVENT_H
#define WIRE_LEASE_EVENT_H

#include "base/buf.h"
#include "lessor/arena.h"
#include "lessor/error.h"
#include "lessor/lease_types.h"

/*
 * The lease event, version 2: what a guest is to run, as JSON (rack-protocol 13). Whoever submits one must
 * have it whole and right; unknown members are passed over, and of a member that is there twice the last one
 * counts. Optional members are absent, never null.
 */

/* What a guest may read (rack-protocol 11): a list, or an object that holds the list. */
struct lease_closure {
        struct lessor_slice *hashes; /* NULL: it is in `object` */
        size_t n_hashes;
        struct lessor_slice object; /* hash of a BEAST2 Array<String>; absent: the list above */
        int64_t count;              /* how many hashes that object has */
};

/* At most so many hashes stand in the event itself. */
#define LEASE_CLOSURE_INLINE 512

struct lease_event {
        enum lessor_lease_mode mode;
        struct lessor_slice repo; /* runnerEvent.repo */
        struct lessor_slice workspace;
        struct lessor_slice task_name;
        struct lessor_slice e3_version;  /* absent: none, as the next two */
        struct lessor_slice environment; /* hash of the environment's spec */
        struct lessor_slice program;     /* hash of a function's program */
        struct lessor_slice launch_id;   /* UUIDv7 */
        double timeout_ms;               /* finite, above 0 */
        struct lessor_slice task_hash;   /* of a function: its program's, or "" */
        struct lessor_slice *inputs;     /* of a task hashes, of a unit any texts, of a function none */
        size_t n_inputs;
        struct lessor_slice run; /* UUIDv7 of the run; absent: none */
        struct lessor_slice run_workspace;
        bool own; /* a unit with `own` */
        bool force;
        bool verbose;
        int64_t expected_peak_bytes; /* -1: not said */
        struct lessor_slice notice;  /* absent: none */
        struct lease_closure closure;
};

/*
 * Reads an event and checks everything that section 13 says of it, the runner event and the form of the
 * closure included.
 *
 * text         borrowed for as long as the event is used
 * arena        owns the rest
 * ret_problem  may be NULL; on failure a clause for people: "runnerEvent.timeoutMs: must be a finite number
 *              above 0"; static or in the arena
 *
 * Returns 0; LESSOR_E_MALFORMED (no JSON); LESSOR_E_INVALID; LESSOR_E_TOO_LARGE; LESSOR_E_NOMEM.
 */
int lease_event_read(struct lessor_slice text, struct lessor_arena *arena, struct lease_event *ret_event,
                     const char **ret_problem);

/*
 * Reads only what claim and storage ask for: version 2, a runner event, and the closure. Returns as
 * lease_event_read.
 */
int lease_event_read_closure(struct lessor_slice text, struct lessor_arena *arena,
                             struct lease_closure *ret_closure, const char **ret_problem);

/*
 * Appends the JSON of an event of mode task. Absent texts are left out; a run needs its workspace. Returns 0;
 * LESSOR_E_INVALID (another mode); LESSOR_E_NOMEM.
 */
int lease_event_write_task(const struct lease_event *event, struct buf *out);

#endif
