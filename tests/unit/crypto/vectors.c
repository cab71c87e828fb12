/* SPDX-License-Identifier: MIT */
#include "vectors.h"

#include <stdio.h>
#include <stdlib.h>

#include "lessor/error.h"

struct lessor_arena *vectors_arena(void)
{
        static struct lessor_arena *arena;

        if (arena == NULL)
                arena = lessor_arena_new();
        assert_non_null(arena);
        return arena;
}

struct json *vectors_part(const char *path)
{
        static struct json *document;
        struct json *value;

        if (document == NULL)
                document = json_load("relay.json", vectors_arena());
        value = document;
        while (value != NULL && *path != '\0') {
                size_t n = strcspn(path, "/");

                value = json_member(value, (struct lessor_slice){path, n});
                path += n + (path[n] == '/');
        }
        assert_non_null(value);
        return value;
}

struct json *vectors_list(const char *path)
{
        struct json *list = vectors_part(path);

        if (!json_is(list, JSON_ARRAY) || json_count(list) == 0)
                fail_msg("%s is no list, or an empty one", path);
        return list;
}

struct lessor_slice vector_text(const struct json *vector, const char *key)
{
        const struct json *value = json_member_named(vector, key);

        if (!json_is(value, JSON_STRING))
                fail_msg("%s: %s is no text", vector_note(vector), key);
        return json_text(value);
}

int64_t vector_int(const struct json *vector, const char *key)
{
        int64_t number;

        if (!json_int(json_member_named(vector, key), &number))
                fail_msg("%s: %s is no int", vector_note(vector), key);
        return number;
}

const char *vector_note(const struct json *vector)
{
        const char *note = json_cstr(json_member_named(vector, "note"));

        return note == NULL ? "(no note)" : note;
}

struct lessor_slice vector_long_text(const struct json *vector, const char *key)
{
        const struct json *repeat = json_member_named(json_member_named(vector, key), "$repeat");
        struct lessor_slice piece, whole;
        int64_t n;
        char *at;

        if (repeat == NULL)
                return vector_text(vector, key);
        piece = json_text(json_item(repeat, 0));
        n = json_number(json_item(repeat, 1));
        whole.n = piece.n * (size_t)n;
        whole.p = at = lessor_arena_alloc(vectors_arena(), whole.n);
        assert_non_null(at);
        for (; n > 0; n--, at += piece.n)
                memcpy(at, piece.p, piece.n);
        return whole;
}

struct lessor_public_identity vector_identity(const struct json *value)
{
        return (struct lessor_public_identity){
                .identity = vector_text(value, "identity"),
                .encryption = vector_text(value, "encryption"),
                .encryption_sig = vector_text(value, "encryptionSig"),
        };
}

struct lessor_slice vector_keys_text(const char *name)
{
        const struct json *keys = json_member_named(vectors_part("keys"), name);
        struct lessor_slice text = json_spelled(json_member_named(keys, "stored"), vectors_arena());

        assert_non_null(text.p);
        return text;
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

int vector_verdict(const struct json *verdict)
{
        if (json_is(verdict, JSON_NULL))
                return 0;
        for (int code = -1; strcmp(lessor_error_text(code), lessor_error_text(-9999)) != 0; code--) {
                if (strcmp(lessor_error_name(code), json_cstr(verdict)) == 0)
                        return code;
        }
        fail_msg("no error is named %s", json_cstr(verdict));
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
