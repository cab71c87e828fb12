/* SPDX-License-Identifier: MIT */
#ifndef CLIENT_RACK_H
#define CLIENT_RACK_H

#include <pthread.h>

#include "client/object_cache.h"
#include "client/rack_call.h"
#include "client/rack_rules.h"
#include "lessor/rack_agent.h"
#include "wire/lease_event.h"
#include "wire/rack_types.h"

/*
 * How a rack agent is made: one main thread, which alone beats, polls, watches and extends, all at once over
 * one client; one thread a slot, which takes one job at a time from grant to result; and one a running task
 * that sends its log.
 *
 *  1. A job is in `active` from its grant until its slot is through with it, and is named in every heartbeat
 *     and watch, and extended, until then.
 *  2. Only the main thread adds to `active`; it is read and changed under `mutex`.
 *  3. A job's fate is decided once, by whoever first learns of it, who then raises the job's stop; its slot
 *     obeys.
 *  4. No lock is held while the server, a task, a file or the operator's callback is waited for, but for the
 *     identity's own while it writes rack.json.
 */

/*
 * What this agent says it is. Servers measure the first part by the oldest e3 agent that they serve (0.5.0,
 * rack-protocol 6.2), whose protocol this one speaks; ours is behind it.
 */
#define RACK_VERSION "0.5.0+lessor." LESSOR_VERSION

/* What became of a job while it was worked on. */
enum rack_fate {
        RACK_FATE_NONE,
        RACK_FATE_LOST,     /* the lease is not ours any more: drop it */
        RACK_FATE_SHUTDOWN, /* the agent stops: leave it, its lease lapses */
};

struct rack_job {
        struct rack_job *next;       /* in `active` */
        struct rack_job *queue_next; /* until a slot takes it */
        struct lessor_arena *arena;  /* owns the texts below */
        struct lessor_slice repo;
        struct lessor_slice lease_id;
        struct lessor_slice attempt; /* absent: the server named none */
        struct lessor_slice event_json;
        struct lessor_slice task_name;
        struct lessor_stop *stop;
        enum rack_fate fate; /* under mutex, as the next */
        bool over;           /* its slot is through with it; the main thread frees it */
        int64_t granted_ms;  /* monotonic */

        /* Of an earlier run: there is only a result to deliver. */
        char *outbox_path; /* NULL: none was kept yet */
        struct lessor_slice result;

        /* The main thread's own. */
        int64_t extend_at_ms; /* monotonic */
        struct rack_exchange extend;
};

/* What the main thread has under way. */
struct rack_loop {
        struct http_client *http;
        struct rack_caller caller;
        struct rack_failure failure;
        struct rack_exchange beat, poll, watch;
        struct rack_situation situation;
        unsigned beat_failures, poll_failures, watch_failures; /* in a row */
        uint64_t watched;                                      /* which `active` the watch is about */
        int64_t drain_until_ms; /* monotonic; when tasks are killed. Only while draining */
        size_t n_granted;
        bool online;
        bool pending_approval;
        bool unhealthy;
};

struct lessor_rack_agent {
        /* Constant once made. */
        char *dir, *cache_dir, *work_dir, *outbox_dir, *ca_file, *proxy;
        char **tiers;
        size_t n_tiers;
        size_t slots;
        bool allow_network;
        bool once;
        int64_t grace_ms;
        struct lessor_rack_limits limits;
        char boot_id[40];
        char limits_note[160]; /* "": none */
        int lock_fd;
        struct rack_identity *identity;
        struct object_cache *cache;
        struct sandbox *sandbox;
        struct cgroup_parent *cgroups; /* NULL: none */
        struct lessor_stop *stop;      /* lessor_rack_agent_stop */
        void (*event)(void *context, const struct lessor_rack_event *event);
        void *context;
        pthread_mutex_t event_mutex; /* one event at a time; guards the next two */
        int64_t progress_ms;         /* when the last was told, monotonic */

        struct rack_loop loop; /* the main thread's own, but for loop.http's waking */

        pthread_mutex_t mutex; /* guards the rest */
        pthread_cond_t work;   /* something was queued, or `closing` */
        struct rack_job *active;
        size_t n_active;
        uint64_t active_version; /* counts the changes of `active` */
        struct rack_job *queue_first, *queue_last;
        bool closing;
        int fatal; /* 0, or why the agent cannot go on */
};

/* One slot's thread. */
struct rack_slot {
        struct lessor_rack_agent *agent;
        struct http_client *http;
        struct rack_caller caller; /* `stop`: that of the job at hand */
        struct rack_failure failure;
        /* Objects of the cache that the job at hand uses: hashes of SHA256_HEX_LEN bytes each. */
        struct buf pins;
        int64_t done_bytes, total_bytes; /* of what is fetched or sent */
};

/* rack.c */
void rack_tell(struct lessor_rack_agent *agent, const struct lessor_rack_event *event);
/* An event about a job: its names are filled in. */
void rack_tell_job(struct lessor_rack_agent *agent, const struct rack_job *job,
                   struct lessor_rack_event event);
/* A few times a second at most, unless it is the last. */
void rack_tell_progress(struct rack_slot *slot, const struct rack_job *job, enum lessor_rack_event_type type);
struct http_client_options rack_http_options(const struct lessor_rack_agent *agent);
struct rack_job *rack_job_free(struct rack_job *job);
/* A job that is in the arena, which it takes on success. Returns 0, LESSOR_E_NOMEM or LESSOR_E_IO. */
int rack_job_new(struct lessor_arena *arena, struct rack_job **ret_job);
/* Gives a job to the slots. A slot is free, or will be: the outbox may hold more than there are slots. */
void rack_queue_job(struct lessor_rack_agent *agent, struct rack_job *job);
/* Decides a job's fate, unless it is decided. Any thread. */
void rack_job_end(struct lessor_rack_agent *agent, struct rack_job *job, enum rack_fate fate);
enum rack_fate rack_job_fate(struct lessor_rack_agent *agent, const struct rack_job *job);
/* Ends the agent with a code, unless it ends already. Any thread. */
void rack_fatal(struct lessor_rack_agent *agent, int code);
/* A sentence to free(); `ret_problem` may be NULL. Returns `code`. */
int rack_problem(char **ret_problem, int code, const char *format, ...) __attribute__((format(printf, 3, 4)));

/*
 * A call about a job, repeated while that can help. Returns 0; LESSOR_E_CLOSED (the job's stop is raised:
 * also when this call found that the lease is lost, or the rack is none); what rack_call ends with otherwise,
 * with the failure in slot->failure. rack_slot.c
 */
int rack_job_call(struct rack_slot *slot, struct rack_job *job, const char *endpoint,
                  const struct beast2_type *type, const void *request, const struct beast2_type *reply_type,
                  struct lessor_arena *arena, void *ret_reply);

/*
 * Sees to it that objects are in the cache, pinned by the slot until its job is through. rack_fetch.c
 *
 * ret_problem  on failure a clause for people
 * Returns 0; LESSOR_E_CLOSED; LESSOR_E_REFUSED, LESSOR_E_MISMATCH, LESSOR_E_LOW_SPACE and others: this rack
 * cannot get one of them.
 */
int rack_fetch(struct rack_slot *slot, struct rack_job *job, const struct lessor_slice *hashes, size_t n,
               struct buf *ret_problem);

/* Unpins everything that the slot has pinned. */
void rack_unpin_all(struct rack_slot *slot);

/*
 * Packs a task's outputs and sends what the server lacks of them. rack_send.c
 *
 * work_dir     the task's directory
 * ret_hash     the tree object, SHA256_HEX_LEN digits and a NUL
 * ret_problem  on failure a clause for people
 *
 * Returns 0; LESSOR_E_CLOSED; LESSOR_E_NOT_FOUND (a required output is missing); LESSOR_E_INVALID (what is
 * there cannot be an output); LESSOR_E_TOO_LARGE, LESSOR_E_TARGET_LIMIT (it is too much): those are the
 * task's doing. Anything else is ours.
 */
int rack_send_outputs(struct rack_slot *slot, struct rack_job *job, const struct task *task,
                      const char *work_dir, char *ret_hash, struct buf *ret_problem);

/* rack_task.c: a job from its event to a result. Returns 0, or LESSOR_E_CLOSED, LESSOR_E_NOMEM: no result. */
int rack_work_on(struct rack_slot *slot, struct rack_job *job, struct lessor_arena *arena,
                 struct rack_result *ret_result);

/* rack_slot.c: takes jobs until the agent closes. The thread's argument is the agent. */
void *rack_slot_run(void *context);

#endif
