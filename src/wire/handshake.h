/* SPDX-License-Identifier: MIT */
#ifndef WIRE_HANDSHAKE_H
#define WIRE_HANDSHAKE_H

#include "base/json_read.h"
#include "lessor/slice.h"
#include "wire/relay_errors.h"

/*
 * The protocol version that a request declares: `protocolVersion` of the body when that is an object which
 * has such a key, whatever its value; else that of the query (relay-protocol 5).
 *
 * body   NULL: absent or no JSON
 * query  the decoded `protocolVersion` parameter; absent when the query has none
 *
 * Returns 0 when it is ours. Otherwise LESSOR_E_REFUSED, `ret_refusal` says how to answer and `ret_declared`
 * is what was asked for, borrowed from body or query, absent when nothing was: the subject of the refusal.
 */
int handshake_check(const struct json *body, struct lessor_slice query, enum relay_refusal *ret_refusal,
                    struct lessor_slice *ret_declared);

#endif
