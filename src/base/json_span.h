/* SPDX-License-Identifier: MIT */
#ifndef BASE_JSON_SPAN_H
#define BASE_JSON_SPAN_H

#include "lessor/slice.h"

/*
 * Where a value stands in a JSON text: for handing on what somebody wrote as they wrote it, whose numbers and
 * order would not survive being read and written again.
 *
 * text        has been read by json_read() or one of its kin, and is an object; any other bytes give some
 *             part of themselves, or nothing, and no more than that
 * quoted_key  the key of the member with its quotes: found only as it is spelled here
 *
 * Returns the value's text, without the blanks around it, borrowed; absent when there is no such member. Of
 * several the first.
 */
struct lessor_slice json_span_member(struct lessor_slice text, struct lessor_slice quoted_key);

#endif
