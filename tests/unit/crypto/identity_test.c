/* SPDX-License-Identifier: MIT */
#include "vectors.h"

#include <stdlib.h>

#include "base/encode.h"
#include "base/json_read.h"
#include "base/json_write.h"
#include "crypto/key_id.h"
#include "crypto/public_identity.h"
#include "lessor/error.h"

static void key_ids_are_as_the_vectors_say(void **state)
{

        (void)state;
        json_each (vector, vectors_list("keyIdForms")) {
                struct identity_key key;
                struct key_id id;

                assert_int_equal(key_id_of_text(vector_text(vector, "identityPublic"), &id), 0);
                check_text(vector_note(vector), key_id_text(&id), vector_text(vector, "keyId"));
                assert_int_equal(identity_key_read(vector_text(vector, "identityPublic"), &key), 0);
                key_id_of(&key, &id);
                check_text(vector_note(vector), key_id_text(&id), vector_text(vector, "keyId"));
                assert_int_equal(id.text[KEY_ID_LEN], '\0');
        }
}

static void every_named_key_has_its_id(void **state)
{
        (void)state;
        json_each (value, vectors_part("keys"))
                check_text(value->key.p, signing_key_id(vector_signing(value->key.p)),
                           vector_text(value, "keyId"));
}

static void a_text_that_is_no_key_has_an_id_all_the_same(void **state)
{
        char *text = malloc(100000);
        struct key_id empty, long_one;
        struct identity_key key;

        (void)state;
        assert_non_null(text);
        memset(text, 'A', 100000);
        assert_int_equal(key_id_of_text(LESSOR_SLICE(""), &empty), 0);
        /* SHA-256 of nothing is e3b0c44298fc1c149afbf4c8996fb9... */
        check_text("empty", key_id_text(&empty), LESSOR_SLICE("BYOLLM-WERC-8GMR-ZGE1-96QV-YK49-JVXS"));
        assert_int_equal(key_id_of_text((struct lessor_slice){text, 100000}, &long_one), 0);
        assert_memory_not_equal(empty.text, long_one.text, KEY_ID_LEN);
        assert_int_equal(identity_key_read(LESSOR_SLICE(""), &key), LESSOR_E_MALFORMED);
        assert_int_equal(identity_key_read((struct lessor_slice){text, 100000}, &key), LESSOR_E_MALFORMED);
        free(text);
}

static void identities_are_consistent_as_the_vectors_say(void **state)
{

        (void)state;
        json_each (vector, vectors_list("publicIdentities")) {
                struct lessor_public_identity identity = vector_identity(json_member_named(vector, "value"));
                bool valid = json_is(json_member_named(vector, "valid"), JSON_TRUE);
                struct identity_key from_check, from_text;

                check_code(vector_note(vector), public_identity_check(&identity, &from_check),
                           valid ? 0 : LESSOR_E_BAD_SIGNATURE);
                check_code(vector_note(vector), public_identity_check(&identity, NULL),
                           valid ? 0 : LESSOR_E_BAD_SIGNATURE);
                if (!valid)
                        continue;
                assert_int_equal(identity_key_read(identity.identity, &from_text), 0);
                assert_memory_equal(from_check.bytes, from_text.bytes, IDENTITY_KEY_BYTES);
        }
}

/* The spelling that everything signed here rests on. */
static void json_strings_are_spelled_as_the_vectors_say(void **state)
{
        struct lessor_arena *arena = lessor_arena_new();

        (void)state;
        assert_non_null(arena);
        json_each (vector, vectors_list("jsonStrings")) {
                struct lessor_slice text = vector_text(vector, "text");
                struct buf spelled, hex;
                struct json *value;
                int r = json_read(text, arena, &value);

                /* A lone surrogate is no UTF-8: the [edge] that is not shared. */
                if (json_is(json_member_named(vector, "edge"), JSON_TRUE)) {
                        check_code(text.p, r, LESSOR_E_MALFORMED);
                        continue;
                }
                check_code(text.p, r, 0);
                buf_init(&spelled);
                buf_init(&hex);
                assert_int_equal(json_write_text(&spelled, json_text(value)), 0);
                assert_int_equal(hex_append(&hex, spelled.p, spelled.n), 0);
                check_text(text.p, buf_view(&hex), vector_text(vector, "utf8Hex"));
                buf_done(&spelled);
                buf_done(&hex);
        }
        lessor_arena_free(arena);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(key_ids_are_as_the_vectors_say),
                cmocka_unit_test(every_named_key_has_its_id),
                cmocka_unit_test(a_text_that_is_no_key_has_an_id_all_the_same),
                cmocka_unit_test(identities_are_consistent_as_the_vectors_say),
                cmocka_unit_test(json_strings_are_spelled_as_the_vectors_say),
        };

        return cmocka_run_group_tests_name("identity", tests, NULL, NULL);
}
