/* SPDX-License-Identifier: MIT */
#ifndef DIRECTORY_GRANT_AUTHOR_H
#define DIRECTORY_GRANT_AUTHOR_H

#include "routing/directory/policy.h"
#include "routing/directory/signer.h"

/*
 * The control plane as the relay asks it: a policy that decides and a signer that signs (relay-protocol 11).
 * All parts thread-safe; borrowed, and they outlive it.
 */
struct grant_author {
        struct policy_cell *policy;
        struct signer *signer; /* NULL: there is no control plane, no public key to hand out and no grants */
};

/* What a grant says, each part borrowed from the job, the projection or the arena (relay-protocol 7). */
struct authored_grant {
        struct lessor_slice grant_id; /* "grant_" and a UUID */
        struct lessor_slice job_id;
        struct lessor_slice site; /* key id */
        struct lessor_slice user;
        struct lessor_slice owner;
        struct lessor_slice purpose;
        enum lessor_kind kind;
        struct lessor_slice service;
        int64_t issued_at_ms;
        struct lessor_slice signature;
};

/*
 * Decides about one claimed job and signs the grant.
 *
 * job_id, site_key   of the stub
 * ret_decline        POLICY_GRANTED, and then ret_grant is written, or why not
 * ret_grant          everything in it is in the arena
 *
 * Returns 0, or what signing returned, in which case nothing was decided: the request that asked has to fail
 * (relay-protocol 6.2).
 */
int grant_author_decide(const struct grant_author *author, const struct policy_question *question,
                        struct lessor_slice job_id, struct lessor_slice site_key, int64_t now_ms,
                        struct lessor_arena *arena, enum policy_decline *ret_decline,
                        struct authored_grant *ret_grant);

#endif
