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
        struct signer *signer; /* NULL: it can decide, and authors nothing */
};

/*
 * Decides about one claimed job and signs the grant.
 *
 * job_id, site_key   of the stub
 * ret_decline        POLICY_GRANTED, and then ret_grant is written, or why not
 *
 * The grant's texts are in the arena or static. Returns 0, or what signing returned, in which case nothing
 * was decided: the request that asked has to fail (relay-protocol 6.2). LESSOR_E_INVALID without a signer.
 */
int grant_author_decide(const struct grant_author *author, const struct policy_question *question,
                        struct lessor_slice job_id, struct lessor_slice site_key, int64_t now_ms,
                        struct lessor_arena *arena, enum policy_decline *ret_decline,
                        struct lessor_grant *ret_grant);

#endif
