/* SPDX-License-Identifier: MIT */
#ifndef PLANE_RACK_EVENT_H
#define PLANE_RACK_EVENT_H

#include "lessor/lease_store.h"
#include "lessor/object_store.h"

/*
 * From what a producer submits to what the lease store takes (rack-protocol 18, "Submit lease"): an event is
 * read in full, or one is made for a task object, with its closure.
 */

/* What comes with an event or a task. Absent texts, zeros and false are "not said", but for the repo. */
struct rack_terms {
        struct lessor_slice repo;
        struct lessor_slice workspace;
        struct lessor_slice task_name;
        struct lessor_slice tier;
        struct lessor_slice compute_size;
        struct lessor_slice floor; /* e3 version */
        struct lessor_slice environment;
        struct lessor_slice run;
        struct lessor_slice owner;
        struct lessor_slice key;
        bool share;
        int64_t ttl_ms;
        unsigned attempt_limit;
        int64_t timeout_ms; /* of a task: instead of the task's own limit, else RACK_TASK_TIMEOUT_MS */
};

/* Longest a task runs whose object and submission say nothing (section 13: 1,440 min). */
#define RACK_TASK_TIMEOUT_MS 86400000

/*
 * A submission from a lease event v2. The host imposes repo, workspace, task name, environment and floor: a
 * term that is said and that the event says otherwise is LESSOR_E_INVALID; one that is not said is taken from
 * the event. The run is the event's unless the terms have one.
 *
 * terms, event  borrowed for as long as the submission is used
 * ret_problem   may be NULL; on LESSOR_E_INVALID and LESSOR_E_MALFORMED a clause for people that names the
 *               member, static or in the arena
 *
 * Returns 0; LESSOR_E_MALFORMED (no JSON); LESSOR_E_INVALID; LESSOR_E_TOO_LARGE; LESSOR_E_NOMEM. Does no I/O.
 */
int rack_submission_of_event(const struct rack_terms *terms, struct lessor_slice event,
                             struct lessor_arena *arena, struct lessor_lease_submission *ret_submission,
                             const char **ret_problem);

/*
 * A submission for a lessor.task/1 object: reads it, computes its closure (which references everything in it
 * again), stores the list of it as an object where it is long, and makes the event. Blocks on the disk: not
 * for a worker of the HTTP server.
 *
 * terms     task_name absent: the command's name, without its directories
 * now_ms    for the launch id
 * ret_problem  may be NULL; on failure a clause for people, static or in the arena
 *
 * Returns 0; LESSOR_E_NOT_FOUND (the task, or something that it names, is not in the store; the problem says
 * which); LESSOR_E_INVALID (it is no task object, or the terms are wrong); LESSOR_E_TOO_LARGE; what the
 * object store says; LESSOR_E_NOMEM.
 */
int rack_submission_of_task(const struct rack_terms *terms, struct lessor_object_store *objects,
                            struct lessor_slice task_hash, int64_t now_ms, struct lessor_arena *arena,
                            struct lessor_lease_submission *ret_submission, const char **ret_problem);

/*
 * Whether a text can name a tier: 1 to 64 letters, digits, `.`, `_` and `-`. The protocol has five (node, py,
 * py-datascience, c, full); a fleet of its own has others, such as `shell`.
 */
bool rack_tier_valid(struct lessor_slice tier);

/* Whether a text is one of the sizes: serverless, small, medium, large, xlarge (section 13). */
bool rack_size_valid(struct lessor_slice size);

#endif
