/* SPDX-License-Identifier: MIT */
#ifndef WIRE_RACK_MESSAGE_H
#define WIRE_RACK_MESSAGE_H

#include "wire/beast2_json.h"
#include "wire/beast2_read.h"
#include "wire/beast2_write.h"
#include "wire/rack_types.h"

/*
 * Rack messages on either wire, from bytes to struct and back: what a plane or an agent calls.
 *
 * Reading: `body` is borrowed for as long as the message is used, and so is what the message points to;
 * `arena` owns the rest; `ret_message` (type->size bytes) is all zero on failure; `ret_problem` (may be NULL)
 * gets a clause for people on every failure, in the arena or static. It may quote a member's name, never a
 * value.
 */

/*
 * Reads a BEAST2 message. A body compressed to a trickle may stand for LIMIT_BEAST2_LOGICAL bytes. Returns 0;
 * LESSOR_E_MALFORMED; LESSOR_E_TOO_LARGE; LESSOR_E_NOMEM.
 */
int rack_message_read_beast2(const struct beast2_type *type, struct lessor_slice body,
                             struct lessor_arena *arena, void *ret_message, const char **ret_problem);

/*
 * Reads a JSON message (rack-protocol 19 and 20): no byte order mark, no lone surrogates, no member twice,
 * none that is unknown unless `flags` has BEAST2_JSON_OPEN. Returns 0; LESSOR_E_MALFORMED (no JSON);
 * LESSOR_E_INVALID (JSON, but not this message); LESSOR_E_TOO_LARGE (nested too deeply, or too many values);
 * LESSOR_E_NOMEM.
 */
int rack_message_read_json(const struct beast2_type *type, struct lessor_slice body, unsigned flags,
                           struct lessor_arena *arena, void *ret_message, const char **ret_problem);

/*
 * Append a message. On failure `out` holds what it held. Return 0; LESSOR_E_INVALID (no value of the type:
 * beast2_write.h, beast2_json.h); LESSOR_E_TOO_LARGE; LESSOR_E_NOMEM.
 */
int rack_message_write_beast2(const struct beast2_type *type, const void *message, struct buf *out);
int rack_message_write_json(const struct beast2_type *type, const void *message, struct buf *out);

/*
 * Append an envelope in BEAST2: a success, or the only error that rack endpoints answer, `internal` with a
 * message (UTF-8). `reply_type` is that of the route: the error has other bytes on each. Return as above.
 */
int rack_success_write_beast2(const struct beast2_type *reply_type, const void *success, struct buf *out);
int rack_internal_write_beast2(const struct beast2_type *reply_type, struct lessor_slice message,
                               struct buf *out);

#endif
