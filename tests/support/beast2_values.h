/* SPDX-License-Identifier: MIT */
#ifndef TESTS_SUPPORT_BEAST2_VALUES_H
#define TESTS_SUPPORT_BEAST2_VALUES_H

#include "json_values.h"
#include "wire/beast2_json.h"

/*
 * Values as the vectors of BEAST2 (beast2.json) render them. Not the JSON form of the wire: there {"some": v}
 * is v, and bytes are base64.
 */

/* Appends the rendering, Dicts in the order that they have in memory. Returns 0 or LESSOR_E_NOMEM. */
int beast2_render(const struct beast2_type *type, const void *value, struct buf *out);

/*
 * The same value in the JSON form of the wire, in the arena; members that only that form has and that must be
 * there are 0. NULL if it is no rendering of such a value. Aborts when memory is short.
 */
struct json *beast2_unrender(const struct beast2_type *type, const struct json *rendered,
                             struct lessor_arena *arena);

/*
 * The type of that name: one of rack_types, or ResponseType(NAME) of any of them, made in the arena. NULL if
 * there is none, or memory is short.
 */
const struct beast2_type *beast2_type_of(struct lessor_slice name, struct lessor_arena *arena);

#endif
