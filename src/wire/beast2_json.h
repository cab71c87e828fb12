/* SPDX-License-Identifier: MIT */
#ifndef WIRE_BEAST2_JSON_H
#define WIRE_BEAST2_JSON_H

#include "base/json_read.h"
#include "base/json_write.h"
#include "wire/beast2_type.h"

/*
 * The JSON form of values of BEAST2 types (rack-protocol 19 and 20):
 *
 *   Integer   a JSON integer up to 2^53-1 either way, a text of decimal digits beyond; read in both forms
 *   DateTime  epoch ms
 *   Blob      padded base64
 *   Struct    an object. Unknown members are refused and named
 *   Option    the value, or null; read from absence as well
 *   Variant   {"case": payload}; the bare name of the case when it carries Null. Both are read then
 *   Dict      an object
 */

enum beast2_json_flag {
        /* Unknown members are passed over: for answers whose sender may be newer than we are. */
        BEAST2_JSON_OPEN = 1,
};

/*
 * Reads a JSON value into a C value.
 *
 * value        borrowed; texts are borrowed from it, so it must live as long as the C value
 * arena        owns lists, options and blobs
 * ret_value    type->size bytes; all zero on failure
 * ret_problem  may be NULL; on LESSOR_E_INVALID a clause for people that names the member, in the arena or
 *              static: "outputs[3].size: must be an integer"
 *
 * Returns 0; LESSOR_E_INVALID; LESSOR_E_NOMEM.
 */
int beast2_json_read(const struct beast2_type *type, const struct json *value, unsigned flags,
                     struct lessor_arena *arena, void *ret_value, const char **ret_problem);

/*
 * Writes a C value. Failure to get memory stays in the writer's buffer. Returns 0; LESSOR_E_INVALID for a
 * case number that is none, with something half written; LESSOR_E_NOMEM.
 */
int beast2_json_write(const struct beast2_type *type, const void *value, struct json_writer *w);

#endif
