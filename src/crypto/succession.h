/* SPDX-License-Identifier: MIT */
#ifndef CRYPTO_SUCCESSION_H
#define CRYPTO_SUCCESSION_H

#include "base/buf.h"
#include "crypto/signing_key.h"
#include "lessor/arena.h"
#include "lessor/relay_types.h"

#define SUCCESSION_RETIREMENT_MS 604800000 /* longest a device serves a retired key id; relay-protocol 13 */

/*
 * Succession (relay-protocol 13): a retired key names the key that follows it. Everything here is pure and
 * thread-safe.
 */

/* Appends the text that a link signs. Returns 0 or LESSOR_E_NOMEM. */
int succession_statement(struct lessor_slice retired_key_id, struct lessor_slice next_key_id,
                         struct buf *out);

/*
 * Makes the link from a key that retires to its successor. The texts are in the arena.
 * Returns 0 or LESSOR_E_NOMEM.
 */
int succession_link_sign(const struct signing_key *retired, struct lessor_slice next_key_id,
                         struct lessor_arena *arena, struct lessor_succession_link *ret_link);

/*
 * Whether a link is valid: its identity is consistent, and it signed for this successor.
 *
 * ret_retired  key id of the retired key, on success; may be NULL
 *
 * Returns 0, LESSOR_E_BROKEN_LINK or LESSOR_E_NOMEM.
 */
int succession_link_verify(const struct lessor_succession_link *link, struct lessor_slice next_key_id,
                           struct key_id *ret_retired);

/* Key ids, oldest reached first, the current one last. */
struct succession_path {
        struct lessor_slice *ids; /* in the arena; the last one is borrowed from the caller */
        size_t n;                 /* 1..LIMIT_SUCCESSION_LINKS + 1 */
};

/*
 * Walks from a current key id back to one that is approved already.
 *
 * links     oldest first, as in `succeeds`: the last one names the current key's immediate predecessor
 * approved  key ids that end the walk; the first reached wins, and older links are not looked at
 * ret_path  written on success and also with the four verdicts below: what was reached
 *
 * Returns 0, and then ret_path->ids[0] is the approved key id; LESSOR_E_NO_CHAIN; LESSOR_E_TOO_LONG (more
 * than LIMIT_SUCCESSION_LINKS); LESSOR_E_BROKEN_LINK; LESSOR_E_UNKNOWN_ORIGIN; LESSOR_E_NOMEM.
 */
int succession_walk(struct lessor_slice current, const struct lessor_succession_link *links, size_t n_links,
                    const struct lessor_slice *approved, size_t n_approved, struct lessor_arena *arena,
                    struct succession_path *ret_path);

#endif
