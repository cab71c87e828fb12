/* SPDX-License-Identifier: MIT */
#ifndef TEST_DIRECTORY_WORLD_H
#define TEST_DIRECTORY_WORLD_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/buf.h"
#include "crypto/stored_keys.h"
#include "lessor/arena.h"
#include "lessor/error.h"
#include "routing/directory/projection_json.h"

/* What the directory's tests have in common. Everything here ends the test when it fails. */

/* Zeroed, and freed by world_done. */
struct world {
        struct lessor_arena *arena;
        char *dir; /* a temporary directory, made when first asked for */
};
int world_setup(void **state);
int world_teardown(void **state);

/* The text of the identity key whose 32 bytes are all `byte`, in the arena, and its key id. */
struct lessor_slice key_text(struct lessor_arena *arena, int byte);
struct lessor_slice key_id(struct lessor_arena *arena, int byte);

/*
 * JSON from a text that is easier to read: ' for ", and {@7} for a PublicIdentity with the key of all bytes
 * 7, which is a key but vouches for nothing.
 */
struct lessor_slice json_of(struct lessor_arena *arena, const char *text);

/* A projection or policy from such a text. */
struct projection *projection_of(struct lessor_arena *arena, const char *text);
struct policy *policy_of(struct lessor_arena *arena, const char *text);

/* Consistent keys, made anew; freed with the arena. */
const struct stored_keys *fresh_keys(struct lessor_arena *arena);
const struct lessor_public_identity *identity_of(const struct stored_keys *keys);

/* A path in the test's own directory, in the arena. */
const char *path_in(struct world *w, const char *name);
void write_file(const char *path, struct lessor_slice text);

#define S(text) lessor_slice_of(text)
void assert_text(struct lessor_slice text, const char *expected);

#endif
