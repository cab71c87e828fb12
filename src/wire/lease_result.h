/* SPDX-License-Identifier: MIT */
#ifndef WIRE_LEASE_RESULT_H
#define WIRE_LEASE_RESULT_H

#include "lessor/arena.h"
#include "lessor/error.h"
#include "lessor/lease_types.h"

/* What a rack says of a task that ended: RackLeaseResult (rack-protocol 13), as JSON. */

/*
 * Reads a result, and checks what the second column of section 13 asks for, on every member that is there at
 * all: null is a wrong value like another (R082). Numbers are judged by their value, as JavaScript does; of a
 * member that is there twice the last one counts; others, `detached` among them, are not looked at (section
 * 20). Nesting goes to LIMIT_JSON_DEPTH; there is no other bound than the text's own length, and it costs no
 * memory in proportion to what is not looked at.
 *
 * text         borrowed for as long as the verdict is used
 * ret_verdict  its texts are UTF-8: what has none (a lone surrogate) reads as U+FFFD
 * ret_problem  may be NULL; on failure a clause for people, static: "exitCode: must be an integer"
 *
 * Returns 0; LESSOR_E_INVALID (anything that makes it no result, too deep a nesting included);
 * LESSOR_E_NOMEM. Pure.
 */
int lease_result_read(struct lessor_slice text, struct lessor_arena *arena,
                      struct lessor_verdict *ret_verdict, const char **ret_problem);

/*
 * The same result with another output hash, for bytes that the server itself took in and hashed (R083): every
 * `outputHash` that it has is replaced, or one is added at its end; all else stays as it stands.
 *
 * text      a result that lease_result_read takes
 * hash      64 hex digits
 * arena     owns the new text
 *
 * Returns 0; LESSOR_E_INVALID (it is no object); LESSOR_E_NOMEM.
 */
int lease_result_with_output(struct lessor_slice text, struct lessor_slice hash, struct lessor_arena *arena,
                             struct lessor_slice *ret_text);

#endif
