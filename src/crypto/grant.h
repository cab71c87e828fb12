/* SPDX-License-Identifier: MIT */
#ifndef CRYPTO_GRANT_H
#define CRYPTO_GRANT_H

#include <stdint.h>

#include "base/buf.h"
#include "crypto/identity_key.h"
#include "crypto/signing_key.h"
#include "lessor/arena.h"
#include "lessor/relay_types.h"

#define GRANT_MAX_AGE_MS  120000 /* relay-protocol 7 */
#define GRANT_MAX_LEAD_MS 30000

/*
 * Grants (relay-protocol 7): the control plane's word that one device may run one job. Everything here is
 * pure and thread-safe.
 */

/* Appends the text that is signed. Returns 0 or LESSOR_E_NOMEM. */
int grant_statement(const struct lessor_grant *grant, struct buf *out);

/*
 * Signs a grant whose other fields are set, and sets its signature, which is in the arena.
 * Returns 0 or LESSOR_E_NOMEM.
 */
int grant_sign(struct lessor_grant *grant, const struct signing_key *control_plane,
               struct lessor_arena *arena);

/* What a device knows when it is shown a grant. */
struct grant_check {
        struct lessor_slice owner; /* of the device */
        struct lessor_slice job_id;
        const struct identity_key *control_plane; /* as pinned at pairing */
        int64_t now_ms;                           /* epoch ms, positive */
};

/*
 * Judges a grant; the first failure wins, in this order: LESSOR_E_WRONG_OWNER, LESSOR_E_WRONG_JOB,
 * LESSOR_E_FROM_THE_FUTURE, LESSOR_E_EXPIRED, LESSOR_E_BAD_SIGNATURE. Returns 0 when it is valid;
 * LESSOR_E_NOMEM. That a grant id is used once, and that it fits the stub, is the caller's to check.
 */
int grant_verify(const struct lessor_grant *grant, const struct grant_check *check);

#endif
