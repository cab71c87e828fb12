/* SPDX-License-Identifier: MIT */
#ifndef TESTS_UNIT_CRYPTO_VECTORS_H
#define TESTS_UNIT_CRYPTO_VECTORS_H

/* cmocka wants these before it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/buf.h"
#include "crypto/identity_key.h"
#include "crypto/stored_keys.h"
#include "json_values.h"
#include "lessor/arena.h"
#include "lessor/relay_types.h"

/*
 * relay.json, as the tests of this room read it. Everything here lives as long as the program, and fails the
 * running test when the document is not as expected.
 */

/* One arena for the whole program, for what a test only looks at. */
struct lessor_arena *vectors_arena(void);

/* A part of the document by its keys: vectors_part("envelopes/open"). */
struct json *vectors_part(const char *path);

/* The same for a list, which has to have items. */
struct json *vectors_list(const char *path);

/* Members of a vector. */
struct lessor_slice vector_text(const struct json *vector, const char *key);
int64_t vector_int(const struct json *vector, const char *key);
const char *vector_note(const struct json *vector);

/* A text, or {"$repeat": [text, n]}. */
struct lessor_slice vector_long_text(const struct json *vector, const char *key);

/* {identity, encryption, encryptionSig}. */
struct lessor_public_identity vector_identity(const struct json *value);

/* The keys of that name. */
const struct stored_keys *vector_keys(const char *name);
struct lessor_slice vector_keys_text(const char *name); /* their StoredKeys JSON */
const struct signing_key *vector_signing(const char *name);
const struct identity_key *vector_public(const char *name);

/* The negative code whose name it is; 0 for JSON null. */
int vector_verdict(const struct json *verdict);

/* Fails with both shown; `note` says which row of a table it was. */
void check_code(const char *note, int got, int want);
void check_text(const char *note, struct lessor_slice got, struct lessor_slice want);

#endif
