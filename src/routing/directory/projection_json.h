/* SPDX-License-Identifier: MIT */
#ifndef DIRECTORY_PROJECTION_JSON_H
#define DIRECTORY_PROJECTION_JSON_H

#include "base/buf.h"
#include "lessor/arena.h"
#include "routing/directory/policy.h"
#include "routing/directory/projection.h"

/*
 * Projections and policies from JSON text: the RelayFixture of relay-protocol 9 (strict: an unknown key
 * refuses the whole), and the policy form with `consents`, `members`, `declares`, `advertising` and
 * `unavailable`.
 *
 * text         whole file or body
 * arena        scratch, and owner of ret_problem
 * ret_problem  may be NULL; on failure one sentence for a person that says what is wrong and where, for
 * example "devices[3].device.identity: must be a text that is not empty"; NULL when memory was short
 *
 * Both return 0; LESSOR_E_MALFORMED (no JSON); LESSOR_E_INVALID (JSON of another shape); LESSOR_E_TOO_LARGE;
 * LESSOR_E_NOMEM.
 */
int projection_from_json(struct lessor_slice text, struct lessor_arena *arena,
                         struct projection **ret_projection, const char **ret_problem);
int policy_from_json(struct lessor_slice text, struct lessor_arena *arena, struct policy **ret_policy,
                     const char **ret_problem);

/* Appends the projection as a RelayFixture. Returns 0 or LESSOR_E_NOMEM. */
int projection_to_json(const struct projection *p, struct buf *out);

#endif
