/* SPDX-License-Identifier: MIT */
#include "vectors.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/json_read.h"
#include "lessor/error.h"

struct lessor_arena *vectors_arena(void)
{
        static struct lessor_arena *arena;

        if (arena == NULL)
                arena = lessor_arena_new();
        assert_non_null(arena);
        return arena;
}

static json_t *document(void)
{
        static json_t *value;
        const char *dir = getenv("LESSOR_TEST_DATA");
        struct buf path;

        if (value != NULL)
                return value;
        if (dir == NULL)
                fail_msg("LESSOR_TEST_DATA is not set");
        buf_init(&path);
        assert_int_equal(buf_printf(&path, "%s/relay.json", dir), 0);
        value = json_load_file(path.p, JSON_ALLOW_NUL, NULL);
        if (value == NULL)
                fail_msg("cannot read %s", path.p);
        buf_done(&path);
        return value;
}

json_t *vectors_part(const char *path)
{
        json_t *value = document();

        while (value != NULL && *path != '\0') {
                size_t n = strcspn(path, "/");

                value = json_object_getn(value, path, n);
                path += n + (path[n] == '/');
        }
        assert_non_null(value);
        return value;
}

struct lessor_slice vector_text(const json_t *vector, const char *key)
{
        const json_t *value = json_object_get(vector, key);

        if (!json_is_string(value))
                fail_msg("%s: %s is no text", vector_note(vector), key);
        return json_text(value);
}

int64_t vector_int(const json_t *vector, const char *key)
{
        const json_t *value = json_object_get(vector, key);

        if (!json_is_integer(value))
                fail_msg("%s: %s is no number", vector_note(vector), key);
        return json_integer_value(value);
}

const char *vector_note(const json_t *vector)
{
        const char *note = json_string_value(json_object_get(vector, "note"));

        return note == NULL ? "(no note)" : note;
}

struct lessor_slice vector_long_text(const json_t *vector, const char *key)
{
        const json_t *repeat = json_object_get(json_object_get(vector, key), "$repeat");
        struct lessor_slice piece, whole;
        json_int_t n;
        char *at;

        if (repeat == NULL)
                return vector_text(vector, key);
        piece = json_text(json_array_get(repeat, 0));
        n = json_integer_value(json_array_get(repeat, 1));
        whole.n = piece.n * (size_t)n;
        whole.p = at = lessor_arena_alloc(vectors_arena(), whole.n);
        assert_non_null(at);
        for (; n > 0; n--, at += piece.n)
                memcpy(at, piece.p, piece.n);
        return whole;
}

struct lessor_public_identity vector_identity(const json_t *value)
{
        return (struct lessor_public_identity){
                .identity = vector_text(value, "identity"),
                .encryption = vector_text(value, "encryption"),
                .encryption_sig = vector_text(value, "encryptionSig"),
        };
}

struct lessor_slice vector_keys_text(const char *name)
{
        char *text = json_dumps(json_object_get(json_object_get(vectors_part("keys"), name), "stored"),
                                JSON_COMPACT);
        struct lessor_slice copy;

        assert_non_null(text);
        assert_int_equal(lessor_arena_copy(vectors_arena(), lessor_slice_of(text), &copy), 0);
        free(text);
        return copy;
}

static void free_keys(void *object)
{
        stored_keys_free(object);
}

const struct stored_keys *vector_keys(const char *name)
{
        static struct {
                const char *name;
                const struct stored_keys *keys;
        } known[32];
        struct stored_keys *keys;
        const char *problem = "";
        size_t i;

        for (i = 0; known[i].name != NULL; i++) {
                if (strcmp(known[i].name, name) == 0)
                        return known[i].keys;
        }
        assert_true(i + 1 < sizeof(known) / sizeof(known[0]));
        if (stored_keys_read(vector_keys_text(name), vectors_arena(), &keys, &problem) < 0)
                fail_msg("keys of %s: %s", name, problem);
        assert_int_equal(lessor_arena_own(vectors_arena(), keys, free_keys), 0);
        known[i].name = name;
        known[i].keys = keys;
        return keys;
}

const struct signing_key *vector_signing(const char *name)
{
        return stored_keys_signing(vector_keys(name));
}

const struct identity_key *vector_public(const char *name)
{
        return signing_key_public(vector_signing(name));
}

int vector_verdict(const json_t *verdict)
{
        if (json_is_null(verdict))
                return 0;
        for (int code = -1; strcmp(lessor_error_text(code), lessor_error_text(-9999)) != 0; code--) {
                if (strcmp(lessor_error_name(code), json_string_value(verdict)) == 0)
                        return code;
        }
        fail_msg("no error is named %s", json_string_value(verdict));
        return 0;
}

void check_code(const char *note, int got, int want)
{
        if (got != want)
                fail_msg("%s: got %s, want %s", note, lessor_error_name(got), lessor_error_name(want));
}

void check_text(const char *note, struct lessor_slice got, struct lessor_slice want)
{
        if (!lessor_slice_equal(got, want))
                fail_msg("%s: got '%.*s', want '%.*s'", note, (int)got.n, got.p, (int)want.n, want.p);
}
