/* SPDX-License-Identifier: MIT */
#ifndef LESSOR_DEVICE_AGENT_H
#define LESSOR_DEVICE_AGENT_H

#include <stdint.h>

#include "lessor/backend.h"
#include "lessor/error.h"
#include "lessor/relay_types.h"

/*
 * A device's side of the relay protocol (sections 6, 7 and 13): pairs with a relay, claims jobs, checks who
 * they come from, runs them and sends sealed results back. Only ever dials out.
 *
 * A device is a directory, which nothing else is written outside of:
 *   keys.json      its StoredKeys, made on first use; mode 0600
 *   device.json    what pairing told it: relay, runner id, owner, pinned site keys, control plane key; mode
 * 0600 grants.log     grant ids that were used, until they lapse; mode 0600 ingress.log    every prompt, one
 * JSON object a line, written before it runs; mode 0600 agent.lock     held by the agent that runs, so that
 * there is only one
 */

/* One thing that the device does, and what it does it with. */
struct lessor_service {
        const char *name;        /* what grants name; of a device without grants the first that fits runs */
        unsigned kinds;          /* LESSOR_KIND_BIT() of what it answers */
        const char *model;       /* as advertised; NULL: the name */
        enum lessor_offer offer; /* to whom it is offered */
        struct lessor_backend *backend; /* borrowed; several services may share one */
};

struct lessor_device_options {
        const char *dir;                       /* made (0700) if missing */
        const char *relay_url;                 /* pairing only; an agent takes it from device.json */
        const char *label;                     /* pairing only: what the owner sees; NULL: the host's name */
        const char *ca_file;                   /* PEM; NULL: the system's */
        const char *proxy;                     /* NULL: none; "env": as the environment says; else its URL */
        const struct lessor_service *services; /* borrowed until the pairing or agent is freed */
        size_t n_services;                     /* at least one */
        size_t slots;                          /* jobs at once, 1..64; 0: 1 */
        int64_t timeout_ms;                    /* for one call to the relay; 0: 30 s */
        int64_t idle_ms;                       /* between claims that found nothing; 0: 2 s; at most 11.5 s */
};

/* A pairing by code that is under way. One thread at a time. */
struct lessor_pairing;

struct lessor_pairing_info {
        const char *user_code;        /* "XXXX-XXXX": the owner types or compares it */
        const char *verification_url; /* where */
        const char *device_key_id;    /* the fingerprint that the owner must see there */
        int64_t expires_ms;           /* the relay's clock */
        int64_t poll_interval_ms;
};

/*
 * Starts a pairing: makes the device's keys if it has none and asks the relay for a code.
 *
 * ret_problem  may be NULL; on failure a sentence for people, to be freed with free()
 *
 * Returns 0; LESSOR_E_INVALID; LESSOR_E_LATER (unreachable, or too many pairings at once); LESSOR_E_REFUSED;
 * LESSOR_E_PROTOCOL; what reading or writing the directory can fail with; LESSOR_E_NOMEM.
 */
int lessor_pairing_start(const struct lessor_device_options *options, struct lessor_pairing **ret_pairing,
                         char **ret_problem);

/* Lives as long as the pairing. */
void lessor_pairing_info(const struct lessor_pairing *pairing, struct lessor_pairing_info *ret_info);

/*
 * Asks once whether the owner has approved. When so, device.json is written, replacing an older one.
 *
 * Returns 0 (paired); LESSOR_E_NOT_READY (ask again after poll_interval_ms); LESSOR_E_EXPIRED (start over);
 * LESSOR_E_PERMISSION (the owner said no); and as lessor_pairing_start.
 */
int lessor_pairing_poll(struct lessor_pairing *pairing, char **ret_problem);

/* Polls until it is decided or `stop` (may be NULL) is raised, which gives LESSOR_E_CLOSED. */
int lessor_pairing_wait(struct lessor_pairing *pairing, struct lessor_stop *stop, char **ret_problem);

struct lessor_pairing *lessor_pairing_free(struct lessor_pairing *pairing);

/* What an agent tells while it runs. */
enum lessor_agent_event_type {
        LESSOR_AGENT_ONLINE,       /* the relay took a heartbeat, the first or after trouble */
        LESSOR_AGENT_TROUBLE,      /* the relay cannot be reached or asks for patience: error, message */
        LESSOR_AGENT_NOTICE,       /* something the owner should know: message. Clock, versions, site keys */
        LESSOR_AGENT_SITE_PINNED,  /* a site's key was pinned: site */
        LESSOR_AGENT_SITE_REFUSED, /* a site's key was not believed: site, message */
        LESSOR_AGENT_JOB_CLAIMED,  /* job_id, lease_id, site */
        LESSOR_AGENT_JOB_REFUSED,  /* and given back: job_id, message says why */
        LESSOR_AGENT_JOB_RUNNING,  /* job_id, service */
        LESSOR_AGENT_JOB_DONE,     /* the relay has the result: job_id, service, disposition, duration_ms */
        LESSOR_AGENT_JOB_DROPPED,  /* the lease was lost or the job ended without us: job_id, message */
        LESSOR_AGENT_STOPPED,      /* the last event: error is what lessor_agent_run returns */
};

struct lessor_agent_event {
        enum lessor_agent_event_type type;
        int error;
        const char *message;      /* NULL: none. Never contains a prompt, an answer or a secret */
        struct lessor_slice site; /* key id */
        struct lessor_slice job_id;
        struct lessor_slice lease_id;
        struct lessor_slice service;
        enum lessor_disposition disposition;
        int64_t duration_ms;
};

struct lessor_agent;

/*
 * An agent for a paired device. Nothing is sent yet.
 *
 * event        called for everything worth telling, one call at a time but from different threads; may be
 * NULL ret_problem  as for lessor_pairing_start
 *
 * Returns 0; LESSOR_E_NOT_FOUND (not paired yet); LESSOR_E_BUSY (another agent runs in this directory);
 * LESSOR_E_PERMISSION (a file is open to others); LESSOR_E_MALFORMED; LESSOR_E_NEWER; LESSOR_E_INVALID;
 * LESSOR_E_IO; LESSOR_E_NOMEM.
 */
int lessor_agent_new(const struct lessor_device_options *options,
                     void (*event)(void *context, const struct lessor_agent_event *event), void *context,
                     struct lessor_agent **ret_agent, char **ret_problem);

/* lessor_agent_run must have returned. Takes NULL, returns NULL. */
struct lessor_agent *lessor_agent_free(struct lessor_agent *agent);

struct lessor_agent_info {
        const char *runner_id;
        const char *owner;
        const char *relay_url;
        const char *device_key_id;
        bool checks_grants; /* a control plane key is pinned */
};

/* Lives as long as the agent. */
void lessor_agent_info(const struct lessor_agent *agent, struct lessor_agent_info *ret_info);

/*
 * Serves until lessor_agent_stop(), or until the relay says that this device is revoked. Jobs that run when
 * it is stopped are cancelled and given back, so that another device gets them at once.
 *
 * Returns 0 after lessor_agent_stop(); LESSOR_E_PERMISSION when revoked; LESSOR_E_REFUSED when the relay does
 * not know the device (its approval was withdrawn: pair again); LESSOR_E_NEWER when the relay does not serve
 * this version; LESSOR_E_IO when the ingress or grant log cannot be written; LESSOR_E_NOMEM. Once an agent.
 */
int lessor_agent_run(struct lessor_agent *agent);

/* Asks the agent to stop. Thread-safe and async-signal-safe; may be called at any time before it is freed. */
void lessor_agent_stop(struct lessor_agent *agent);

#endif
