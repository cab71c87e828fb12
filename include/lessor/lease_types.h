/* SPDX-License-Identifier: MIT */
#ifndef LESSOR_LEASE_TYPES_H
#define LESSOR_LEASE_TYPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lessor/slice.h"

/*
 * The nouns of the rack plane (rack-protocol sections 2, 3, 5 and 8 to 10) as plain data. Every slice is
 * borrowed from whoever made the value, mostly an arena; "absent" means that its p is NULL. Texts compare by
 * their exact bytes. Hashes are SHA-256 as 64 lower-case hex digits. Instants are the store's clock, epoch
 * ms.
 *
 * JSON texts (event, result, manifest) are opaque here: whoever submits one also says what decisions need of
 * it.
 */

/* A lease is named by both, always: an agent treats either as opaque. */
struct lessor_lease_name {
        struct lessor_slice repo;
        struct lessor_slice lease_id; /* taskHash#inputsHash#uuidv7 */
};

/* What the guest runs. A function has no attempt records, no logs and no outputs. */
enum lessor_lease_mode { LESSOR_LEASE_TASK, LESSOR_LEASE_UNIT, LESSOR_LEASE_FUNCTION };

/*
 * What is stored. The first five are the protocol's; poisoned and expired are ours, and read as superseded
 * and cancelled where only the protocol's five can be said.
 */
enum lessor_lease_status {
        LESSOR_LEASE_PENDING,
        LESSOR_LEASE_CLAIMED,
        LESSOR_LEASE_COMPLETED,
        LESSOR_LEASE_SUPERSEDED,
        LESSOR_LEASE_CANCELLED,
        LESSOR_LEASE_POISONED, /* lost its racks as often as its attempt limit allows; can be replayed */
        LESSOR_LEASE_EXPIRED,  /* its time to live ended before somebody finished it */
};
#define LESSOR_N_LEASE_STATUSES 7

/*
 * What a dispatcher sees (section 9): the status, but for a claim that has lapsed, which is shown as pending
 * from its deadline on and as lost when that is more than the visibility ago.
 */
enum lessor_lease_view {
        LESSOR_VIEW_PENDING,
        LESSOR_VIEW_CLAIMED,
        LESSOR_VIEW_LOST,
        LESSOR_VIEW_COMPLETED,
        LESSOR_VIEW_SUPERSEDED,
        LESSOR_VIEW_CANCELLED,
        LESSOR_VIEW_POISONED,
        LESSOR_VIEW_EXPIRED,
};

enum lessor_attempt_state {
        LESSOR_ATTEMPT_RUNNING,
        LESSOR_ATTEMPT_SUCCESS,
        LESSOR_ATTEMPT_FAILED,
        LESSOR_ATTEMPT_ERROR,
        LESSOR_ATTEMPT_INTERRUPTED,
        LESSOR_ATTEMPT_CANCELLED,
};

/* Why an attempt ended otherwise than by its own word, or why a lease did. */
enum lessor_cause {
        LESSOR_CAUSE_NONE,
        LESSOR_CAUSE_RECLAIMED,    /* the deadline passed and the lease was granted again */
        LESSOR_CAUSE_LOST,         /* the deadline passed, and nobody took it up */
        LESSOR_CAUSE_SUPERSEDED,   /* by the host */
        LESSOR_CAUSE_CANCELLED,    /* by the host */
        LESSOR_CAUSE_DEREGISTERED, /* its rack was */
        LESSOR_CAUSE_UNDELIVERED,  /* the grant never reached its rack; such an attempt does not count */
};

/* One claim of a lease. Those of functions have no execution id and are kept only to know who claimed. */
struct lessor_attempt {
        unsigned number;                  /* from 1, within the lease */
        struct lessor_slice execution_id; /* UUIDv7; absent for a function */
        struct lessor_slice rack_id;
        struct lessor_slice boot_id;
        int64_t started_ms; /* when it was claimed */
        int64_t ended_ms;   /* 0: running */
        enum lessor_attempt_state state;
        enum lessor_cause cause;
        struct lessor_slice reason;      /* words to the cause, or the error of the result; absent: none */
        struct lessor_slice output_hash; /* absent: none */
        bool has_exit_code;
        int64_t exit_code;
        bool has_peak_bytes;
        int64_t peak_bytes;
        bool counts; /* against the attempt limit, and as an earlier claim of its rack */
};

struct lessor_attempt_list {
        struct lessor_attempt *items;
        size_t n;
};

/* What decisions and views need of a RackLeaseResult (section 13); the plane reads it out of the JSON. */
struct lessor_verdict {
        bool success; /* status */
        bool error;   /* state is error */
        bool cancelled;
        struct lessor_slice output_hash; /* absent: none */
        struct lessor_slice message;     /* error; absent: none */
        bool has_exit_code;
        int64_t exit_code;
        bool has_peak_bytes;
        int64_t peak_bytes;
};

/* A lease as the store holds it (section 8), with our own fields. */
struct lessor_lease {
        uint64_t seq; /* place in the order of creation, from 1, never reused */
        struct lessor_lease_name name;
        struct lessor_slice workspace;
        struct lessor_slice task_name;
        struct lessor_slice task_hash; /* of a function: its program's, or "" */
        struct lessor_slice inputs_hash;
        struct lessor_slice tier;
        struct lessor_slice compute_size; /* absent: serverless */
        struct lessor_slice floor;        /* the bundled e3 version that a rack needs at least; absent: any */
        struct lessor_slice environment;  /* absent: none */
        struct lessor_slice run;          /* absent: none */
        struct lessor_slice owner;        /* whose work it is, for fairness; may be empty */
        enum lessor_lease_mode mode;
        bool own; /* event.runnerEvent.unit.own */
        int64_t event_version;
        enum lessor_lease_status status;
        enum lessor_lease_view view;
        bool held; /* leaseHeld of section 9: pending, or claimed with the deadline at or after now */
        int64_t created_ms;
        int64_t expires_ms;             /* 0: no time to live */
        unsigned attempt_limit;         /* 0: none, and a lost lease is superseded; else it is queued again */
        unsigned attempts_spent;        /* claims that count, since the last replay */
        struct lessor_slice claimed_by; /* absent: nobody; ended leases keep their last claimant */
        int64_t claimed_ms;             /* 0: not claimed */
        int64_t deadline_ms;            /* visibility deadline; 0: not claimed */
        int64_t ended_ms;               /* 0: not ended */
        enum lessor_cause cause;        /* why it ended, unless completed */
        unsigned claim_number;          /* of the claim that stands, or ended with the lease; 0: none */
        struct lessor_slice attempt;    /* execution id of that claim; absent: none, or a function */
        size_t n_targets;               /* distinct hashes ever issued */
        struct lessor_verdict verdict;  /* valid once completed */
        bool has_event;                 /* event below is filled */
        struct lessor_slice event;      /* JSON; only operations that say so hand it over */
        struct lessor_slice result;     /* JSON, whole; likewise, once completed */
};

struct lessor_lease_list {
        struct lessor_lease *items;
        size_t n;
};

/* An object as declared by an agent. */
struct lessor_object_size {
        struct lessor_slice hash;
        int64_t size; /* bytes */
};

/* A registration (section 5), with our own fields. */
struct lessor_rack {
        struct lessor_slice rack_id;
        struct lessor_slice label;
        struct lessor_slice *tiers; /* as last polled, in that order */
        size_t n_tiers;
        int64_t capacity;
        struct lessor_slice agent_version;
        bool healthy;                      /* as last reported */
        struct lessor_slice last_boot;     /* absent: none yet */
        struct lessor_slice approved_boot; /* absent: none yet */
        int64_t enrolled_ms;
        int64_t last_seen_ms; /* last poll or beat */
        int64_t last_poll_ms; /* 0: never */
        int64_t last_beat_ms; /* 0: never */
        bool draining;        /* is granted nothing more */
        bool pending;         /* the policy asks for an approval that it lacks (section 3, routing's rule) */
        bool fit;             /* healthy, seen lately, not pending, not too old, not draining (section 9) */
        size_t n_leases;      /* claimed by it now */
};

struct lessor_rack_list {
        struct lessor_rack *items;
        size_t n;
};

enum lessor_token_status { LESSOR_TOKEN_CURRENT, LESSOR_TOKEN_PENDING, LESSOR_TOKEN_GRACE };

/* HostInfo of an enrolment. Not validated. */
struct lessor_host_info {
        struct lessor_slice label;
        const struct lessor_slice *tiers;
        size_t n_tiers;
        int64_t capacity;
        struct lessor_slice agent_version;
};

/* An enrolment token that nobody has used yet. */
struct lessor_enrolment {
        struct lessor_slice hash;
        struct lessor_slice label; /* the operator's note; may be empty */
        int64_t minted_ms;
        int64_t expires_ms;
};

struct lessor_enrolment_list {
        struct lessor_enrolment *items;
        size_t n;
};

/* A published environment (section 12). */
struct lessor_environment {
        struct lessor_slice env_hash;
        struct lessor_slice e3_version;
        struct lessor_slice base_image;
        struct lessor_slice base_tier;
        struct lessor_slice manifest_key;
        struct lessor_slice manifest; /* JSON, verbatim */
        int64_t n_layers;
        int64_t published_ms;
};

struct lessor_environment_list {
        struct lessor_environment *items;
        size_t n;
};

#endif
