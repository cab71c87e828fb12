/* SPDX-License-Identifier: MIT */
#ifndef ROUTING_ENGINE_INTERNAL_H
#define ROUTING_ENGINE_INTERNAL_H

#include "base/limits.h"
#include "base/macro.h"
#include "base/table.h"
#include "base/timer_heap.h"
#include "routing/engine.h"
#include "routing/order.h"

/*
 * The engine's data. Nobody outside src/routing/engine*.c, job.c, names.c and queue.c includes this.
 *
 * Invariants; engine_check() asserts each by its number.
 *
 *  1. A job is in `jobs` and `order` and its site's `jobs` exactly while it is not removed.
 *  2. A queued job that is not cancelled is in one queue: of its berth if it sticks to a runner, else of its
 * pair; in the lane of its kind and audience. No other job is in a queue.
 *  3. A job is in its site's `awaiting` exactly while it is awaiting, and its pair's n_awaiting counts those.
 *  4. A job is in its site's `finished` exactly while it is done; done jobs have a result and no others have.
 *  5. A job has a claim exactly while it is awaiting, ready, running or done; the claim is then in `by_lease`
 * and `by_holder`; and in its runner's `cancelled` exactly while the job is cancelled.
 *  6. awaiting_until_ms is set exactly while awaiting. The claim's timer stands at it while awaiting, at the
 *     lease's end while ready or running, and is not set while done.
 *  7. A job's deadline timer is set exactly while it is not removed.
 *  8. A job's bars are of distinct runners; the set's timer stands at its earliest end, or is not set if none
 * ends.
 *  9. A queue node's `common` holds only runners that every job below it bars.
 * 10. Each heap has room for every timer that could be set: of every job, claim and bar set that exists.
 * 11. A payload is there only with a claim, and while awaiting there is none. No ready or running job lacks
 * one.
 * 12. n_by_state counts the jobs by state.
 */

/* A text that many jobs share. */
struct atom {
        struct table_node node;
        size_t refs;
        struct lessor_slice text; /* the bytes follow the struct */
};

/* The keys of a device, shared by all its claims. */
struct device {
        struct table_node node;
        size_t refs;
        struct lessor_public_identity keys; /* the bytes follow the struct */
};

struct runner {
        struct table_node node;
        size_t refs;
        struct order_tree cancelled; /* claims of cancelled jobs, by cancel_node */
        struct lessor_slice id;
};

struct site {
        struct table_node node;
        size_t refs;
        struct order_tree jobs;     /* by site_node */
        struct order_tree awaiting; /* by queue_node */
        struct order_tree finished; /* by queue_node */
        bool tell_awaiting;         /* an event that nobody has taken yet */
        bool tell_finished;
        struct site *tell_next;
        bool in_tell;
        struct lessor_slice id;
};

/* Private and team jobs of each kind apart: a claim then never meets a job of a kind or an audience not its
 * own. */
#define N_LANES ((size_t)LESSOR_N_KINDS * 2)

/* What is remembered of a pair's unsealed windows (relay-protocol 10, churn report). */
struct churn {
        struct timer timer; /* when all of it has lost its meaning */
        struct pair *pair;
        int64_t told_ms; /* INT64_MIN: never */
        struct churn *tell_next;
        bool in_tell;
        unsigned tell_expiries;
        size_t n;
        size_t cap;
        int64_t *at_ms; /* oldest first */
};

/* One (site, job owner): the unit of consent, of the unsealed cap, and of the queues. */
struct pair {
        struct table_node node;
        size_t refs;
        struct site *site;
        struct atom *owner;
        struct order_tree lanes[N_LANES]; /* queued jobs that any runner may be offered */
        unsigned n_awaiting;
        size_t n_berths;
        uint64_t seen_by_claim; /* number of the last claim that looked at it: a route named twice counts once
                                 */
        struct churn *churn;
};

/*
 * The queues of one pair's jobs that stick to one runner. Made when the runner claims from the pair, so that
 * the sweep that makes a job stick needs no memory.
 */
struct berth {
        struct table_node node;
        size_t refs;
        struct pair *pair;     /* borrowed: every holder of a berth is a job of the pair */
        struct runner *runner; /* a reference */
        struct order_tree lanes[N_LANES];
};

struct claim {
        struct table_node by_lease;
        struct table_node by_holder; /* (runner, job id) */
        struct order_node cancel_node;
        struct timer timer;
        struct job *job;
        struct runner *runner;
        struct atom *owner;
        struct device *device;
        struct berth *berth;
        int64_t lease_expires_ms;
        int64_t awaiting_until_ms;    /* 0 unless awaiting */
        struct lessor_slice lease_id; /* the bytes follow the struct */
};

/* The runners that may not have a job, for now or for good. */
struct bars {
        struct timer timer;
        struct job *job;
        size_t n;
        size_t cap;
        struct engine_bar items[];
};

/* A set of runners, sorted by address. */
struct runner_set {
        size_t n;
        const struct runner *items[];
};

/* A record that a store has yet to be told about. */
struct change_node {
        struct change_node *next;
        bool is_presence;
        bool queued;
};

struct job {
        struct table_node node;
        struct order_node queue_node; /* in a queue, or in its site's awaiting or finished: never in two */
        struct runner_set *common;    /* of the queue's subtree below this job; NULL: empty or not known */
        struct order_node order_node;
        struct order_node site_node;
        struct timer deadline;
        struct change_node change;
        struct pair *pair;
        struct atom *key_id;
        struct atom *purpose; /* NULL: absent */
        struct claim *claim;  /* NULL: not claimed */
        struct berth *stuck;  /* NULL: offered to anybody; else reofferTo */
        struct bars *bars;    /* NULL: none */
        struct job *due_next;
        void *attachment;
        int64_t enqueued_ms;
        unsigned seal_attempts;
        enum lessor_job_state state : 4;
        enum lessor_kind kind : 4;
        enum lessor_audience audience : 2;
        enum lessor_size_class size_class : 4;
        enum lessor_disposition disposition : 4;
        bool streaming : 1;
        bool cancelled : 1;
        bool has_payload : 1;
        bool has_result : 1;
        bool removed : 1;
        bool payload_changed : 1;
        bool result_changed : 1;
        bool due : 1;           /* in the list that a sweep works through */
        bool picked : 1;        /* chosen by the call under way */
        struct lessor_slice id; /* the bytes follow the struct */
};

struct presence {
        struct table_node node;
        struct order_node order_node;
        struct change_node change;
        struct runner *runner;
        struct atom *owner;
        struct device *device;
        int64_t last_seen_ms;
        char *text; /* capabilities, then withheld */
        struct lessor_slice capabilities;
        struct lessor_slice withheld;
};

struct engine {
        struct table atoms, devices, runners, sites, pairs, berths;
        struct table jobs, by_lease, by_holder, presences;
        struct order_rules plain_rules, queue_rules;
        struct order_tree order; /* every job, by order_node */
        struct order_tree everyone;
        struct timer_heap deadlines, claims, bar_ends, churns;
        size_t n_claims;
        size_t n_bar_sets;
        size_t n_churns;
        size_t n_presences;
        uint64_t next_seq;
        uint64_t next_presence;
        uint64_t n_claim_calls;
        uint64_t n_by_state[5];
        struct change_node *changes, **changes_end;
        struct site *tell, **tell_end;
        struct churn *tell_churn, **tell_churn_end;
        void (*free_attachment)(void *attachment);
};

/* --- names.c: what jobs share. Each `_get` gives a reference or NULL when memory is short. --- */

struct atom *atom_get(struct engine *e, struct lessor_slice text);
struct atom *atom_unref(struct engine *e, struct atom *a);
struct device *device_get(struct engine *e, const struct lessor_public_identity *keys);
struct device *device_unref(struct engine *e, struct device *d);
bool device_has_keys(const struct device *d, const struct lessor_public_identity *keys);
struct runner *runner_find(const struct engine *e, struct lessor_slice id);
struct runner *runner_get(struct engine *e, struct lessor_slice id);
struct runner *runner_unref(struct engine *e, struct runner *r);
struct site *site_find(const struct engine *e, struct lessor_slice id);
struct site *site_get(struct engine *e, struct lessor_slice id);
struct site *site_unref(struct engine *e, struct site *s);
struct pair *pair_find(const struct engine *e, struct lessor_slice site_id, struct lessor_slice owner);
struct pair *pair_get(struct engine *e, struct lessor_slice site_id, struct lessor_slice owner);
struct pair *pair_unref(struct engine *e, struct pair *p);
struct berth *berth_find(const struct engine *e, const struct pair *p, const struct runner *r);
struct berth *berth_get(struct engine *e, struct pair *p, struct runner *r);
struct berth *berth_unref(struct engine *e, struct berth *b);

/* --- queue.c: the queues and the bars --- */

/* Keeps `common` up to date; the update of queue_rules. */
void queue_update(struct order_node *node);

/* Puts a queued job into its queue, or takes it out. */
void queue_add(struct job *job);
void queue_remove(struct job *job);

/* The first job of a pair with a seq above `after` that this runner may have, or NULL. `lanes` is a bit mask.
 */
struct job *queue_first(const struct engine *e, const struct pair *p, const struct runner *r, unsigned lanes,
                        uint64_t after);

bool job_bars(const struct job *job, const struct runner *r);

/* Makes room for one more bar. Returns 0 or LESSOR_E_NOMEM. */
int bars_reserve(struct engine *e, struct job *job);

/*
 * Bars a runner until some time; room must be reserved unless it is barred already. Takes the reference to
 * `r`. The job must not be in a queue.
 */
void bars_set(struct engine *e, struct job *job, struct runner *r, int64_t until_ms);

/* Takes away the bars that have ended, of all jobs. */
void bars_expire(struct engine *e, int64_t now_ms);

struct bars *bars_free(struct engine *e, struct bars *bars);

static inline unsigned lane_of(enum lessor_kind kind, enum lessor_audience audience)
{
        return (unsigned)kind * 2 + (unsigned)audience;
}

static inline struct job *job_of_queue(const struct order_node *node)
{
        return container_of(node, struct job, queue_node);
}

/* --- job.c: one job, and its place in every index --- */

/* A queued job in no index, with a reference to all it names. Returns 0 or LESSOR_E_NOMEM. */
int job_new(struct engine *e, struct lessor_slice site_id, const struct lessor_stub *stub,
            struct job **ret_job);

/* Frees a job that is in no index. Takes NULL, returns NULL. */
struct job *job_free(struct engine *e, struct job *job);

/* Into and out of the indexes that depend on its state, its claim and whether it is cancelled. */
void job_enter(struct engine *e, struct job *job);
void job_leave(struct engine *e, struct job *job);

/* Adds a job that job_new made to the engine for good. Room in `deadlines` is reserved. */
void job_install(struct engine *e, struct job *job, int64_t deadline_ms);

/* Takes a job out of every index; the store is told, and then it is freed. */
void job_remove(struct engine *e, struct job *job);

/* Back to the queue, at its old place, without its claim and payload. `stick`: only for the runner that held
 * it. */
void job_requeue(struct engine *e, struct job *job, bool stick);

/* A claim for a job, not yet given to it. Returns 0 or LESSOR_E_NOMEM. */
int claim_new(struct engine *e, struct job *job, struct lessor_slice runner_id, struct lessor_slice owner,
              const struct lessor_public_identity *device, struct lessor_slice lease_id,
              struct claim **ret_claim);
struct claim *claim_free(struct engine *e, struct claim *c);

/* Gives the claim to its job, which must be in no index that depends on it. */
void claim_attach(struct engine *e, struct claim *c);

/* Fills the claim's fields of a rendered job. Returns 0 or LESSOR_E_NOMEM. */
int claim_render(const struct claim *c, struct lessor_arena *arena, struct lessor_job *job);

/* The stub as slices that are borrowed from the job. */
void job_stub(const struct job *job, struct lessor_stub *ret_stub);

/* Copies up to `max` jobs of a tree, found by the offset of its node in struct job. */
int jobs_render(const struct order_tree *t, size_t node_offset, size_t max, struct lessor_arena *arena,
                struct lessor_job_list *ret_jobs);

/* --- engine_presence.c --- */

/* What is remembered of a device, or NULL. */
struct presence *presence_find(const struct engine *e, struct lessor_slice runner_id);

/* --- engine_changes.c --- */

void change_note(struct engine *e, struct change_node *node);
void event_awaiting(struct engine *e, struct site *s);
void event_finished(struct engine *e, struct site *s);

/* --- engine_sweep.c --- */

void churn_free(struct engine *e, struct pair *p);

/* A time later by a span, at the end of time at most. */
static inline int64_t later_ms(int64_t at_ms, int64_t by_ms)
{
        int64_t sum;

        return __builtin_add_overflow(at_ms, by_ms, &sum) ? INT64_MAX : sum;
}

#endif
