/* SPDX-License-Identifier: MIT */
#ifndef TESTS_SUPPORT_JSON_VALUES_H
#define TESTS_SUPPORT_JSON_VALUES_H

#include <stdint.h>

#include "base/buf.h"
#include "base/json_read.h"

/*
 * What tests do with JSON and the server does not: look into a document, write a value, compare two. Nothing
 * here knows cmocka, so that fuzz targets and drivers can use it.
 */

/*
 * The document `name` of the test data ($LESSOR_TEST_DATA), which must be there and be JSON: says so on
 * stderr and aborts otherwise. Its texts and keys are followed by a NUL.
 */
struct json *json_load(const char *name, struct lessor_arena *arena);

/* The item or member at that place; NULL when there are fewer. */
struct json *json_item(const struct json *value, size_t at);

/* The text of a string that is followed by a NUL (json_load, json_read_copy); NULL for anything else. */
const char *json_cstr(const struct json *value);

/* The value of an int; INT64_MIN for anything else. */
int64_t json_number(const struct json *value);

/*
 * Appends the value as JSON.stringify spells it; but a number that is no int has 17 digits, and one beyond a
 * double's range is written so that it is read as that again. Returns 0 or LESSOR_E_NOMEM.
 */
int json_append(const struct json *value, struct buf *out);

/* The same in the arena, followed by a NUL; absent when memory is short. */
struct lessor_slice json_spelled(const struct json *value, struct lessor_arena *arena);

/* The same value, whatever the order of members. NULL is the same as NULL. */
bool json_same(const struct json *a, const struct json *b);

/* To make values by hand. In the arena; abort when memory is short. */
struct json *json_make(enum json_type type, struct lessor_arena *arena);
struct json *json_make_text(struct lessor_slice text, struct lessor_arena *arena); /* borrows */
struct json *json_make_int(int64_t number, struct lessor_arena *arena);
/* Adds an item, or a member of that key, at the end. It must be in no other value. Borrows the key. */
void json_add(struct json *value, struct lessor_slice key, struct json *item);

#endif
