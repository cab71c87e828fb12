/* SPDX-License-Identifier: MIT */
#ifndef LESSOR_RELAY_TYPES_H
#define LESSOR_RELAY_TYPES_H

#include <stdbool.h>
#include <stdint.h>

#include "lessor/slice.h"

/*
 * The nouns of the relay plane (relay-protocol sections 3, 6, 8 and 10) as plain data. Every slice is
 * borrowed from whoever made the value, mostly an arena. Texts are valid UTF-8 and compare by their exact
 * bytes.
 *
 * There is on purpose no field anywhere here that could hold a private key or a plaintext.
 */

/* What a job asks for. On the wire "llm.generate" and "llm.chat". */
enum lessor_kind { LESSOR_KIND_LLM_GENERATE, LESSOR_KIND_LLM_CHAT };
#define LESSOR_N_KINDS 2
/* A set of kinds is a bit mask. */
#define LESSOR_KIND_BIT(kind) (1u << (unsigned)(kind))

/* Who may run a job: only its owner's devices, or those of the owner's team too. */
enum lessor_audience { LESSOR_AUDIENCE_PRIVATE, LESSOR_AUDIENCE_TEAM };

enum lessor_size_class { LESSOR_SIZE_SMALL, LESSOR_SIZE_MEDIUM, LESSOR_SIZE_LARGE, LESSOR_SIZE_UNBOUNDED };

enum lessor_backend_class { LESSOR_BACKEND_HTTP, LESSOR_BACKEND_PROCESS };

/* To whom a device offers a service. */
enum lessor_offer { LESSOR_OFFER_PRIVATE, LESSOR_OFFER_TEAM };

enum lessor_disposition { LESSOR_DISPOSITION_OK, LESSOR_DISPOSITION_ERROR, LESSOR_DISPOSITION_CANCELED };

enum lessor_release_reason {
        LESSOR_RELEASE_SHUTDOWN,
        LESSOR_RELEASE_PAUSE,
        LESSOR_RELEASE_REVOKED,
        LESSOR_RELEASE_BACKEND_DOWN,
        LESSOR_RELEASE_REFUSED, /* the one that is remembered: REFUSAL_NOT_REOFFERED */
};

/* On the wire AWAITING is "awaiting-payload". */
enum lessor_job_state {
        LESSOR_JOB_QUEUED,
        LESSOR_JOB_AWAITING,
        LESSOR_JOB_READY,
        LESSOR_JOB_RUNNING,
        LESSOR_JOB_DONE,
};

/* The public half of a party's keys, each text as spelled (relay-protocol 3). */
struct lessor_public_identity {
        struct lessor_slice identity;
        struct lessor_slice encryption;
        struct lessor_slice encryption_sig;
};

/* All that a site publishes of a job (relay-protocol 8). */
struct lessor_stub {
        struct lessor_slice id;
        enum lessor_kind kind;
        struct lessor_slice owner; /* whose job it is: a user of the site */
        struct lessor_slice site;  /* the site's key id */
        enum lessor_audience audience;
        struct lessor_slice purpose; /* absent: p is NULL */
        enum lessor_size_class size_class;
        bool streaming;
        int64_t deadline_ms; /* epoch ms, positive */
};

/* One grant of one job: what a device names in everything it says about work (GrantRef on the wire). */
struct lessor_lease_ref {
        struct lessor_slice job_id;
        struct lessor_slice lease_id;
};

/* One (site, job owner) pair that a device may work for. */
struct lessor_route {
        struct lessor_slice site_id;
        struct lessor_slice owner;
};

/* One row of what a device can do (relay-protocol 6). */
struct lessor_device_capability {
        enum lessor_kind kind;
        struct lessor_slice service;
        struct lessor_slice backend_id;
        enum lessor_backend_class backend_class;
        struct lessor_slice model;
        struct lessor_slice *known_models; /* NULL: the list is absent, which differs from empty */
        size_t n_known_models;
        enum lessor_offer offer_scope;
};

/* Which way an envelope travels: site to device, or device to site. */
enum lessor_direction { LESSOR_DIRECTION_PAYLOAD, LESSOR_DIRECTION_RESULT };

/* A sealed envelope, field by field (relay-protocol 6.7). The relay looks at nothing in it but its size. */
struct lessor_sealed_envelope {
        struct lessor_slice ciphertext; /* base64url as spelled */
        struct lessor_slice recipient_key_id;
        struct lessor_slice sender_key_id;
        enum lessor_direction direction;
        int64_t deadline_ms; /* epoch ms, positive */
};

/* A signed grant (relay-protocol 7), each text as spelled. */
struct lessor_grant {
        struct lessor_slice grant_id;
        struct lessor_slice job_id;
        struct lessor_slice site;  /* the site's key id */
        struct lessor_slice user;  /* the job's owner */
        struct lessor_slice owner; /* the device's owner */
        struct lessor_slice purpose;
        struct lessor_slice kind; /* a text: a grant may name a kind that we do not know */
        struct lessor_slice service;
        int64_t issued_ms; /* epoch ms, positive */
        struct lessor_slice signature;
};

/* One link of a succession chain: a retired key hands over to the next one (relay-protocol 13). */
struct lessor_succession_link {
        struct lessor_public_identity identity; /* of the retired key */
        struct lessor_slice signature;
};

/*
 * A sealed envelope as the relay keeps it: the JSON text, in the spelling of relay-protocol section 2, of the
 * five fields. Opaque to every store; it is written back as it is.
 */
struct lessor_envelope {
        struct lessor_slice json;
};

#endif
