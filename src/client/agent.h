/* SPDX-License-Identifier: MIT */
#ifndef CLIENT_AGENT_H
#define CLIENT_AGENT_H

#include <pthread.h>

#include "client/agent_rules.h"
#include "client/device_link.h"
#include "client/device_state.h"
#include "client/grant_log.h"
#include "client/ingress_log.h"

/*
 * How a device agent is made: one main thread, which alone beats, claims and judges, and one thread a slot,
 * each of which runs one job at a time from fetch to result.
 *
 *  1. A job is in `active` from its claim until its slot is through with it, and is named in every heartbeat
 * of that time.
 *  2. Only the main thread adds to `active` and writes `state`; both are read and changed under `mutex`.
 *  3. A job's fate is decided once, by the main thread, which then raises the job's stop; its slot obeys.
 *  4. No lock is held while the relay, a backend, a file or the owner's callback is waited for.
 */

/* What became of a job while it ran. */
enum job_fate {
        FATE_NONE,      /* it goes on */
        FATE_CANCELLED, /* the site wants it no more: answer `canceled` */
        FATE_LOST,      /* the lease is not ours any more: drop it */
        FATE_WITHDRAWN, /* its site is served no more: give it back as revoked */
        FATE_SHUTDOWN,  /* the agent stops: it is given back with the others */
};

struct agent_job {
        struct agent_job *next;       /* in `active` or `returned` */
        struct agent_job *queue_next; /* until a slot takes it */
        struct lessor_arena *arena;   /* owns the texts below */
        struct lessor_stub stub;
        struct lessor_slice lease_id;
        const struct lessor_service *service;
        struct lessor_stop *stop;
        enum job_fate fate;     /* under mutex */
        int64_t lease_until_ms; /* under mutex; monotonic, as far as we know */
};

/* A job whose payload did not come. Forgotten after a while. */
struct gave_up {
        char *key; /* site and job id */
        unsigned times;
        int64_t at_ms; /* monotonic */
        struct gave_up *next;
};

struct lessor_agent {
        /* Constant once made. */
        struct lessor_device_options options; /* `dir` is ours, the rest borrowed */
        char *dir;
        char *ca_file;
        char *proxy;
        char *state_path;
        int lock_fd;
        struct stored_keys *keys;
        struct identity_key control_plane;
        bool has_control_plane;
        struct lessor_arena *arena; /* owns what lives as long as the agent */
        struct lessor_slice relay_url, runner_id, owner;
        struct lessor_device_capability *capabilities;
        size_t n_capabilities;
        struct clock *clock; /* the wall clock */
        struct ingress_log *ingress;
        struct grant_log *grants;
        struct lessor_stop *stop;      /* lessor_agent_stop */
        struct lessor_stop *hard_stop; /* shutting down has lasted long enough */
        int wake_fd;                   /* a slot is through with a job, or found something fatal */
        void (*event)(void *context, const struct lessor_agent_event *event);
        void *context;
        pthread_mutex_t event_mutex; /* one event at a time */

        /* The main thread's own. */
        struct device_link link;
        int64_t lease_ms;
        int64_t beat_ms; /* monotonic: the last heartbeat that the relay took; 0: none */
        bool online;
        bool ever_online;
        unsigned troubles; /* failures in a row */
        unsigned refusals; /* of those, refusals of who we are */
        unsigned idle;     /* claims in a row that found nothing */
        bool clock_noted;
        struct lessor_arena *noted_arena; /* owns the two below */
        struct lessor_slice noted_update, noted_awaiting;

        pthread_mutex_t mutex; /* guards the rest */
        pthread_cond_t work;   /* something was queued, or `closing` */
        struct lessor_arena *state_arena;
        struct device_state state;
        struct agent_job *active;
        size_t n_active;
        struct agent_job *queue_first, *queue_last;
        struct agent_job *returned; /* to be given back when the agent stops */
        struct gave_up *gave_up;
        bool closing;
        int fatal; /* 0, or why the agent cannot go on */
};

/* agent.c */
void agent_tell(struct lessor_agent *agent, const struct lessor_agent_event *event);
void agent_tell_job(struct lessor_agent *agent, enum lessor_agent_event_type type,
                    const struct agent_job *job, int error, const char *message);
void agent_wake(struct lessor_agent *agent);
struct agent_job *agent_job_free(struct agent_job *job);

/* Gives leases back, unless `stop` (may be NULL) is raised. Failing to is no harm: they lapse. */
void agent_release(struct lessor_agent *agent, struct device_link *link, struct lessor_stop *stop,
                   const struct lessor_lease_ref *leases, size_t n, enum lessor_release_reason reason);

/* agent_beat.c: one exchange each. Returns 0 or what relay_post returns; the failure is in agent->link. */
int agent_beat(struct lessor_agent *agent);

/* `ret_n`: how many jobs were claimed, refused ones included. */
int agent_claim(struct lessor_agent *agent, size_t max, size_t *ret_n);

/* agent_slot.c: runs jobs until the agent closes. The thread's argument is the agent. */
void *agent_slot(void *context);

#endif
