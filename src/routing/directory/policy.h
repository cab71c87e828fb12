/* SPDX-License-Identifier: MIT */
#ifndef DIRECTORY_POLICY_H
#define DIRECTORY_POLICY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/macro.h"
#include "routing/directory/snapshot.h"
#include "wire/relay_documents.h"

/*
 * The policy: what the control plane knows and how it decides (relay-protocol 11). An immutable snapshot,
 * replaced as a whole, with an index behind each question. It decides; grant_author.h signs.
 */

/* The purpose of a job that names none. */
#define POLICY_DEFAULT_PURPOSE LESSOR_SLICE("default")

struct policy;

/* Builds a snapshot; copies everything. Returns 0; LESSOR_E_NOMEM; LESSOR_E_TOO_LARGE. */
int policy_new(const struct relay_policy *document, struct policy **ret_policy);
struct policy *policy_ref(struct policy *p);
/* Lets go. Takes NULL, returns NULL. */
struct policy *policy_unref(struct policy *p);
DEFINE_CLEANUP(struct policy, policy_unref)

/* The place where the current policy is found. Thread-safe. NULL until something was put: there is no policy.
 */
struct policy_cell {
        struct snapshot_cell cell;
};
void policy_cell_init(struct policy_cell *cell);
void policy_cell_done(struct policy_cell *cell);
struct policy *policy_cell_get(struct policy_cell *cell);
/* Takes the reference. */
void policy_cell_put(struct policy_cell *cell, struct policy *next);

/* Why a job gets no grant. In the order in which they are looked at. */
enum policy_decline {
        POLICY_GRANTED,
        POLICY_STORE_UNAVAILABLE,
        POLICY_NOT_CONSENTED,
        POLICY_CONSENT_PAUSED,
        POLICY_NOT_A_MEMBER,
        POLICY_UNMAPPED,
        POLICY_RESOLVED_ELSEWHERE,
};

/* "not-consented", … for logs. Static. */
const char *policy_decline_name(enum policy_decline decline);

/* A permanent decline releases the job as `refused`; the others come back after LESSOR_RETRY_AFTER_MS. */
bool policy_decline_permanent(enum policy_decline decline);

/* One claimed job, put to the policy. */
struct policy_question {
        struct lessor_slice site_id;
        struct lessor_slice user;    /* the job's owner */
        struct lessor_slice owner;   /* the device's owner */
        struct lessor_slice purpose; /* absent: the default one */
        enum lessor_kind kind;
        const struct lessor_device_capability *capabilities; /* of the claiming device */
        size_t n_capabilities;
};

/*
 * authorGrant, the decision of it. `ret_service` (borrowed from the snapshot) is written when the answer is
 * POLICY_GRANTED. Pure. A NULL policy answers POLICY_STORE_UNAVAILABLE.
 */
enum policy_decline policy_decide(const struct policy *p, const struct policy_question *question,
                                  struct lessor_slice *ret_service);

enum policy_satisfiable {
        POLICY_SATISFIABLE,
        POLICY_NOT_DECLARED, /* the site has said which purposes it has, and this is none of them */
        POLICY_NOT_MAPPED,   /* nobody has chosen what answers this */
        POLICY_WAITING,      /* chosen, and nothing that could answer is up */
};

/*
 * satisfiable: whether a job could ever be granted, asked at enqueue. `purpose` absent: the default one.
 * Pure. Returns 0 or LESSOR_E_UNAVAILABLE (the store cannot answer; also for a NULL policy).
 */
int policy_satisfiable(const struct policy *p, struct lessor_slice site_id, struct lessor_slice user,
                       struct lessor_slice purpose, enum lessor_kind kind,
                       enum policy_satisfiable *ret_verdict);

#endif
