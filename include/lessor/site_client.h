/* SPDX-License-Identifier: MIT */
#ifndef LESSOR_SITE_CLIENT_H
#define LESSOR_SITE_CLIENT_H

#include <stdint.h>

#include "lessor/arena.h"
#include "lessor/error.h"
#include "lessor/relay_types.h"
#include "lessor/stop.h"

/*
 * A site's side of the relay protocol (section 8): one function an endpoint, and a pump that drives many jobs
 * from enqueue to an opened, verified answer.
 *
 * A client and its pumps belong to one thread at a time. Slices passed in are borrowed for the call; those
 * that come back live in the arena that was passed.
 *
 * Every call to the relay may return, besides what it names:
 *   LESSOR_E_LATER     not now: the relay cannot be reached, is busy or asked to try again (5xx, 429,
 * not-ready, server-error). What was asked may have happened; asking again is safe LESSOR_E_REFUSED   never:
 * the relay refused, and would again LESSOR_E_PROTOCOL  the answer is none that a relay gives LESSOR_E_CLOSED
 * the client's stop was raised LESSOR_E_NOMEM
 */
struct lessor_site_client;

struct lessor_site_options {
        const char *relay_url; /* "https://relay.example"; the protocol's paths are appended */
        const char *site_id;   /* as registered with the relay */
        const char *keys_file; /* StoredKeys of the site; mode 0600 */
        const char *ca_file;   /* PEM; NULL: the system's */
        const char *proxy;  /* NULL: none, whatever the environment says; "env": what it says; else its URL */
        int64_t timeout_ms; /* for one call, not counting `wait`; 0: 30 s */
        struct lessor_stop *stop; /* borrowed; ends whatever call is under way. May be NULL */
};

/*
 * Copies what it needs of the options. Asks nobody.
 *
 * ret_problem  may be NULL; on failure a sentence for people, to be freed with free(), or NULL
 *
 * Returns 0; LESSOR_E_INVALID (URL or id, or a key file that is none); what reading the key file can fail
 * with (LESSOR_E_NOT_FOUND, LESSOR_E_PERMISSION when others may read it, LESSOR_E_MALFORMED, ...);
 * LESSOR_E_NOMEM.
 */
int lessor_site_client_new(const struct lessor_site_options *options, struct lessor_site_client **ret_client,
                           char **ret_problem);

/* Wipes the keys. Its pumps must be gone. Takes NULL, returns NULL. */
struct lessor_site_client *lessor_site_client_free(struct lessor_site_client *client);

/* The site's key id, which stubs carry as `site`. Lives as long as the client. */
struct lessor_slice lessor_site_client_key_id(const struct lessor_site_client *client);

/* Why the last call failed, for people: the relay's own message where there is one. "" after a success. */
const char *lessor_site_client_problem(const struct lessor_site_client *client);

/* The relay's error code for the last call that failed, such as "slot-unsatisfiable"; "" if it gave none. */
const char *lessor_site_client_error(const struct lessor_site_client *client);

/* Publishes a stub. Idempotent by its id. `stub->site` is filled in by the client and ignored. */
int lessor_site_enqueue(struct lessor_site_client *client, const struct lessor_stub *stub,
                        enum lessor_job_state *ret_state);

/* A device that holds a job of ours and waits for its payload. */
struct lessor_pending {
        struct lessor_slice job_id;
        struct lessor_public_identity device;
        struct lessor_slice runner_id;
        struct lessor_slice lease_id;
        int64_t awaiting_until_ms; /* the relay's clock */
        int64_t lease_expires_ms;  /* the relay's clock */
};

struct lessor_pending_list {
        struct lessor_pending *items;
        size_t n;
};

/*
 * The jobs to seal now, in enqueue order. `wait_ms` lets the relay hold the answer until there is one, at
 * most 25 s; 0 asks for an answer at once, and a relay that does not know `wait` always gives one.
 */
int lessor_site_pending(struct lessor_site_client *client, int64_t wait_ms, struct lessor_arena *arena,
                        struct lessor_pending_list *ret_pending);

/*
 * Seals a payload to the device that `pending` names and hands it in.
 *
 * payload      JSON of relay-protocol 6.7; lessor_payload_check() tells whether a device will take it
 * deadline_ms  written into the envelope; the job's own deadline
 *
 * Returns also LESSOR_E_BAD_SIGNATURE (the device's identity is not consistent: nothing was sealed),
 * LESSOR_E_TOO_LARGE, LESSOR_E_TOO_LATE (the job is no longer awaiting: look at pending again).
 */
int lessor_site_seal(struct lessor_site_client *client, const struct lessor_pending *pending,
                     struct lessor_slice payload, int64_t deadline_ms);

/* Withdraws a job. `ret_cancelled`: the relay knows it as ours. */
int lessor_site_cancel(struct lessor_site_client *client, struct lessor_slice job_id, bool *ret_cancelled);

/* A sealed result, as the relay keeps it. */
struct lessor_site_result {
        struct lessor_slice job_id;
        struct lessor_sealed_envelope envelope;
        enum lessor_disposition disposition;
        struct lessor_slice runner_id;
        struct lessor_slice runner_owner;
        struct lessor_slice lease_id;
        struct lessor_public_identity device;
};

struct lessor_site_result_list {
        struct lessor_site_result *items;
        size_t n;
};

/* The results that wait at the relay, in enqueue order; the same come back until acknowledged or past
 * deadline. */
int lessor_site_results(struct lessor_site_client *client, int64_t wait_ms, struct lessor_arena *arena,
                        struct lessor_site_result_list *ret_results);

/* An opened result and where it came from. */
struct lessor_answer {
        struct lessor_slice job_id;
        enum lessor_disposition disposition;
        struct lessor_slice text;         /* OK */
        struct lessor_slice artifact_url; /* OK; absent: none */
        struct lessor_slice code;         /* ERROR */
        struct lessor_slice message;      /* ERROR */
        bool retryable;                   /* ERROR */

        /* Provenance. Who is as the relay says, and is bound to the device's signature; what ran is the
         * device's word. */
        struct lessor_slice runner_id;
        struct lessor_slice runner_owner;
        struct lessor_slice device_key_id;
        struct lessor_slice lease_id;
        struct lessor_slice model;
        enum lessor_backend_class backend_class;
        int64_t duration_ms;
        struct lessor_slice stop; /* end, length, stop-sequence or unknown; absent: not said */
};

/*
 * Opens and verifies a result: the device's identity is consistent, the envelope comes from it and is for us,
 * the outcome is well formed and equals the clear disposition. Asks nobody.
 *
 * Returns 0; LESSOR_E_BAD_SIGNATURE, LESSOR_E_NOT_FOR_US, LESSOR_E_UNOPENABLE, LESSOR_E_MALFORMED,
 * LESSOR_E_CONTEXT_MISMATCH (also: disposition and outcome differ); LESSOR_E_NOMEM.
 */
int lessor_site_open(struct lessor_site_client *client, const struct lessor_site_result *result,
                     struct lessor_arena *arena, struct lessor_answer *ret_answer);

/*
 * Tells the relay that these results are stored. A relay that does not know `ack` (404) is not asked again,
 * and this returns 0: it forgets them at their deadlines.
 */
int lessor_site_ack(struct lessor_site_client *client, const struct lessor_slice *job_ids, size_t n_job_ids);

/*
 * Whether a payload is one that a device accepts for this kind (relay-protocol 6.7). `ret_size_class` may be
 * NULL. Returns 0; LESSOR_E_MALFORMED; LESSOR_E_TOO_LARGE; LESSOR_E_NOMEM.
 */
int lessor_payload_check(enum lessor_kind kind, struct lessor_slice payload,
                         enum lessor_size_class *ret_size_class);

/* What the pump is asked to get an answer to. */
struct lessor_ask {
        struct lessor_slice job_id; /* absent: a fresh one */
        enum lessor_kind kind;
        struct lessor_slice owner; /* whose devices may answer */
        enum lessor_audience audience;
        struct lessor_slice purpose; /* absent: none */
        struct lessor_slice payload; /* JSON; stays here until a device is known to seal it to */
        int64_t deadline_ms;         /* epoch ms; 0: in one hour */
        /*
         * Key ids of the devices that the payload may be sealed to, as their owner knows them: a relay that
         * was taken over names devices of its own. 0: whichever the relay names.
         */
        const struct lessor_slice *device_key_ids;
        size_t n_device_key_ids;
};

enum lessor_ask_step {
        LESSOR_ASK_QUEUED,  /* the relay has the stub */
        LESSOR_ASK_CLAIMED, /* a device holds it: runner_id, device_key_id, lease_id are set */
        LESSOR_ASK_SEALED,  /* the payload is on its way to that device */
        LESSOR_ASK_LATER,   /* something failed that may pass: error and message are set */
};

struct lessor_ask_progress {
        struct lessor_slice job_id;
        enum lessor_ask_step step;
        struct lessor_slice runner_id;
        struct lessor_slice device_key_id;
        struct lessor_slice lease_id;
        int error;
        const char *message;
};

/* Called by lessor_pump_run on its own thread. Slices are borrowed for the call. Any may be NULL. */
struct lessor_pump_events {
        void (*progress)(void *context, const struct lessor_ask_progress *progress);
        /* Exactly once an ask that got a result. True: stored, the relay may forget it. */
        bool (*answered)(void *context, const struct lessor_answer *answer);
        /*
         * Exactly once an ask that will get none: error is LESSOR_E_REFUSED (message is the relay's),
         * LESSOR_E_EXPIRED (its deadline passed), or why its result was not believed (see lessor_site_open).
         */
        void (*failed)(void *context, struct lessor_slice job_id, int error, const char *message);
};

struct lessor_pump;

/* `events` is copied; `context` is handed to each. Returns 0 or LESSOR_E_NOMEM. */
int lessor_pump_new(struct lessor_site_client *client, const struct lessor_pump_events *events, void *context,
                    struct lessor_pump **ret_pump);

/* Forgets the asks and wipes their payloads; their jobs stay at the relay. Takes NULL, returns NULL. */
struct lessor_pump *lessor_pump_free(struct lessor_pump *pump);

/*
 * Adds an ask, which is copied; lessor_pump_run does the rest. May be called from its callbacks.
 *
 * ret_job_id  may be NULL; lives until the ask is over
 *
 * Returns 0; LESSOR_E_EXISTS (an ask of that id is under way); LESSOR_E_MALFORMED, LESSOR_E_TOO_LARGE
 * (payload); LESSOR_E_INVALID (no owner); LESSOR_E_NOMEM.
 */
int lessor_pump_add(struct lessor_pump *pump, const struct lessor_ask *ask, struct lessor_slice *ret_job_id);

/* How many asks are neither answered nor failed. */
size_t lessor_pump_outstanding(const struct lessor_pump *pump);

/*
 * Works until every ask is over, the client's stop is raised, or `for_ms` have passed (negative: no limit).
 *
 * Returns 0 (every ask is over); LESSOR_E_TIMEOUT; LESSOR_E_CLOSED; LESSOR_E_REFUSED when the relay refuses
 * the site itself (unknown, revoked, clock too far off): then the asks stay; LESSOR_E_NOMEM.
 */
int lessor_pump_run(struct lessor_pump *pump, int64_t for_ms);

#endif
