/* SPDX-License-Identifier: MIT */
#ifndef TESTS_UNIT_WIRE_VECTORS_H
#define TESTS_UNIT_WIRE_VECTORS_H

/* cmocka wants these before it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/buf.h"
#include "json_values.h"
#include "lessor/arena.h"
#include "relay_tables.h"

/* The document `name` of the test data. It lives as long as the program. */
struct json *vectors_load(const char *name);

/* The value of a JSON text; fails the test when it is none. */
struct json *vectors_parse(struct lessor_arena *arena, struct lessor_slice text);

/* A member that must be a string. */
struct lessor_slice vectors_text(const struct json *object, const char *key);

/*
 * Reads the text as that message; if it reads, writes it, and fails the test unless what was written is the
 * same JSON and reads to something that is written the same again. Returns what message_read() said.
 */
int vectors_round_trip(const struct message_table *table, struct lessor_slice text, const char *note);

#endif
