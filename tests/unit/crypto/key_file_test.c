/* SPDX-License-Identifier: MIT */
#include "vectors.h"

#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/encode.h"
#include "base/file.h"
#include "base/json_write.h"
#include "crypto/public_identity.h"
#include "crypto/signing_key.h"
#include "lessor/error.h"

/* Each test runs in an empty directory of its own, which holds at most one file: "keys". */
static int setup(void **state)
{
        char *dir = strdup("/tmp/lessor-key-test-XXXXXX");

        *state = dir;
        return dir == NULL || mkdtemp(dir) == NULL || chdir(dir) != 0;
}

static int teardown(void **state)
{
        unlink("keys");
        if (chdir("/") != 0 || rmdir(*state) != 0)
                return 1;
        free(*state);
        return 0;
}

static void put_file(struct lessor_slice text, mode_t mode)
{
        unlink("keys");
        assert_int_equal(file_create("keys", text, 0600), 0);
        assert_int_equal(chmod("keys", mode), 0);
}

static void the_vectors_keys_are_read_and_written_as_they_are(void **state)
{
        (void)state;
        json_each (value, vectors_part("keys")) {
                const char *name = value->key.p;
                const struct stored_keys *keys = vector_keys(name);
                const struct signing_key *signing = stored_keys_signing(keys);
                uint8_t public[IDENTITY_KEY_BYTES];
                struct buf text;

                assert_true(hex_read(vector_text(value, "identityPublicHex"), public, sizeof(public)));
                assert_memory_equal(signing_key_public(signing)->bytes, public, sizeof(public));
                check_text(name, signing_key_id(signing), vector_text(value, "keyId"));
                assert_int_equal(stored_keys_created_ms(keys),
                                 vector_int(json_member_named(value, "stored"), "createdAt"));
                buf_init(&text);
                assert_int_equal(stored_keys_write(keys, &text), 0);
                check_text(name, buf_view(&text), vector_keys_text(name));
                buf_wipe(&text);
        }
}

static void the_servers_half_signs_as_the_whole_does(void **state)
{
        struct lessor_slice message = LESSOR_SLICE("a message");
        struct signing_key *key;
        struct buf ours, theirs;

        (void)state;
        buf_init(&ours);
        buf_init(&theirs);
        put_file(vector_keys_text("control"), 0600);
        assert_int_equal(signing_key_load("keys", vectors_arena(), &key, NULL), 0);
        check_text("identity", signing_key_identity(key)->identity,
                   signing_key_identity(vector_signing("control"))->identity);
        assert_int_equal(signing_key_sign_text(key, message, &ours), 0);
        assert_int_equal(signing_key_sign_text(vector_signing("control"), message, &theirs), 0);
        check_text("signature", buf_view(&ours), buf_view(&theirs));
        assert_int_equal(identity_key_verify(vector_public("control"), message, buf_view(&ours)), 0);
        buf_done(&ours);
        buf_done(&theirs);
        assert_null(signing_key_free(key));
        assert_null(signing_key_free(NULL));
}

static void new_keys_are_consistent_and_come_back_from_their_file(void **state)
{
        struct stored_keys *made, *other, *back;
        struct stat st;
        mode_t before;

        (void)state;
        assert_int_equal(stored_keys_generate(1767225600000, &made), 0);
        assert_int_equal(stored_keys_generate(1767225600000, &other), 0);
        assert_int_equal(public_identity_check(signing_key_identity(stored_keys_signing(made)), NULL), 0);
        assert_false(lessor_slice_equal(signing_key_id(stored_keys_signing(made)),
                                        signing_key_id(stored_keys_signing(other))));

        before = umask(0);
        assert_int_equal(stored_keys_create(made, "keys"), 0);
        umask(before);
        assert_int_equal(stat("keys", &st), 0);
        assert_int_equal(st.st_mode & 07777, 0600);
        assert_int_equal(stored_keys_create(other, "keys"), LESSOR_E_EXISTS);

        assert_int_equal(stored_keys_load("keys", vectors_arena(), &back, NULL), 0);
        check_text("id", signing_key_id(stored_keys_signing(back)),
                   signing_key_id(stored_keys_signing(made)));
        assert_int_equal(stored_keys_created_ms(back), 1767225600000);
        assert_null(stored_keys_free(made));
        assert_null(stored_keys_free(other));
        assert_null(stored_keys_free(back));
        assert_null(stored_keys_free(NULL));
}

static int load_both(const char **ret_problem)
{
        struct signing_key *signing = NULL;
        struct stored_keys *stored = NULL;
        const char *problem = NULL;
        int r = signing_key_load("keys", vectors_arena(), &signing, ret_problem);

        assert_int_equal(stored_keys_load("keys", vectors_arena(), &stored, &problem), r);
        if (r < 0) {
                assert_string_equal(problem, *ret_problem);
                assert_null(signing);
                assert_null(stored);
        }
        signing_key_free(signing);
        stored_keys_free(stored);
        return r;
}

static void files_that_others_can_read_or_write_are_refused(void **state)
{
        static const struct {
                mode_t mode;
                int want;
        } cases[] = {
                {0600, 0},
                {0400, 0},
                {0640, LESSOR_E_PERMISSION},
                {0620, LESSOR_E_PERMISSION},
                {0604, LESSOR_E_PERMISSION},
                {0602, LESSOR_E_PERMISSION},
                {0644, LESSOR_E_PERMISSION},
                {0666, LESSOR_E_PERMISSION},
                {0440, LESSOR_E_PERMISSION},
        };

        (void)state;
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                const char *problem = NULL;

                put_file(vector_keys_text("siteA"), cases[i].mode);
                assert_int_equal(load_both(&problem), cases[i].want);
                if (cases[i].want == 0)
                        continue;
                assert_non_null(strstr(problem, "chmod 600 keys"));
        }
}

static void a_file_that_is_missing_or_too_large_is_named(void **state)
{
        const char *problem = NULL;
        char *text = calloc(1, 70000);

        (void)state;
        assert_non_null(text);
        assert_int_equal(load_both(&problem), LESSOR_E_NOT_FOUND);
        assert_non_null(strstr(problem, "keys"));
        put_file((struct lessor_slice){text, 70000}, 0600);
        assert_int_equal(load_both(&problem), LESSOR_E_TOO_LARGE);
        put_file(LESSOR_SLICE("{"), 0600);
        assert_int_equal(load_both(&problem), LESSOR_E_MALFORMED);
        assert_non_null(strstr(problem, "the keys in keys cannot be used: "));
        free(text);
}

/* One change to good keys: a member gets another JSON value, or none. */
struct damage {
        const char *member;
        const char *value; /* NULL: left out */
        int want;          /* of signing_key_read */
        int want_stored;   /* of stored_keys_read */
        const char *says;
};

#define INVALID      LESSOR_E_INVALID
#define ED25519_ZERO "\"MC4CAQAwBQYDK2VwBCIEIAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA\""
#define X25519_ZERO  "\"MC4CAQAwBQYDK2VuBCIEIAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA\""

static const struct damage damages[] = {
        {"version", NULL, INVALID, INVALID, "version"},
        {"version", "2", INVALID, INVALID, "version"},
        {"version", "\"1\"", INVALID, INVALID, "version"},
        {"version", "1.0", 0, 0, ""},
        {"createdAt", NULL, INVALID, INVALID, "createdAt"},
        {"createdAt", "0", INVALID, INVALID, "createdAt"},
        {"createdAt", "1.5", INVALID, INVALID, "createdAt"},
        {"createdAt", "null", INVALID, INVALID, "createdAt"},
        {"identityPublic", NULL, INVALID, INVALID, "identityPublic is missing"},
        {"identityPublic", "\"\"", INVALID, INVALID, "identityPublic must"},
        {"identityPublic", "[1]", INVALID, INVALID, "identityPublic must"},
        {"identityPublic", "\"AAAA\"", INVALID, INVALID, "belong together"},
        {"identityPublic", "\"mGnwTGrN3kYMyO24o0DRNon_Z94bx3mBNAACB14WHLs\"", INVALID, INVALID,
         "belong together"},
        {"identityPrivate", NULL, INVALID, INVALID, "identityPrivate is missing"},
        {"identityPrivate", "\"MC4CAQ\"", INVALID, INVALID, "identityPrivate is no Ed25519 key"},
        {"identityPrivate", X25519_ZERO, INVALID, INVALID, "identityPrivate is no Ed25519 key"},
        {"identityPrivate", ED25519_ZERO, INVALID, INVALID, "belong together"},
        {"encryptionPublic", NULL, INVALID, INVALID, "encryptionPublic is missing"},
        {"encryptionPublic", "\"AAAA\"", INVALID, INVALID, "belong together"},
        {"encryptionPrivate", NULL, INVALID, INVALID, "encryptionPrivate is missing"},
        {"encryptionPrivate", "{}", INVALID, INVALID, "encryptionPrivate must"},
        /* what the server does not need it does not look into */
        {"encryptionPrivate", "\"x\"", 0, INVALID, "encryptionPrivate is no X25519 key"},
        {"encryptionPrivate", ED25519_ZERO, 0, INVALID, "encryptionPrivate is no X25519 key"},
        {"encryptionPrivate", X25519_ZERO, 0, INVALID, "encryptionPublic does not belong"},
        {"encryptionSig", NULL, INVALID, INVALID, "encryptionSig is missing"},
        {"encryptionSig", "\"AAAA\"", INVALID, INVALID, "belong together"},
        {"more", "1", INVALID, INVALID, "does not belong there"},
        {"__proto__", "1", INVALID, INVALID, "does not belong there"},
};

/* The keys of devAlice with that member as it is given in JSON; at the end if it is new; NULL: without it. */
static struct lessor_slice text_with(const char *name, const char *json)
{
        struct lessor_slice copy;
        struct json_writer w;
        bool is_new = true;
        struct buf text;

        buf_init(&text);
        json_writer_init(&w, &text);
        json_open_object(&w);
        json_each (member, vectors_part("keys/devAlice/stored")) {
                bool is_it = lessor_slice_equal(member->key, lessor_slice_of(name));

                if (!is_it)
                        json_member_raw(&w, member->key.p, json_spelled(member, vectors_arena()));
                else
                        json_member_raw(&w, name, lessor_slice_of(json));
                is_new = is_new && !is_it;
        }
        if (is_new)
                json_member_raw(&w, name, lessor_slice_of(json));
        json_close_object(&w);
        assert_int_equal(buf_failed(&text), 0);
        assert_int_equal(lessor_arena_copy(vectors_arena(), buf_view(&text), &copy), 0);
        buf_done(&text);
        return copy;
}

static void check_no_secret(const char *problem)
{
        const struct json *stored = vectors_part("keys/devAlice/stored");

        assert_null(strstr(problem, json_cstr(json_member_named(stored, "identityPrivate")) + 22));
        assert_null(strstr(problem, json_cstr(json_member_named(stored, "encryptionPrivate")) + 22));
}

static void damaged_keys_are_refused_by_the_members_name(void **state)
{
        (void)state;
        for (size_t i = 0; i < sizeof(damages) / sizeof(damages[0]); i++) {
                const struct damage *damage = &damages[i];
                struct lessor_slice text = text_with(damage->member, damage->value);
                struct signing_key *signing = NULL;
                struct stored_keys *stored = NULL;
                const char *problem = "", *problem_stored = "";

                check_code(damage->member, signing_key_read(text, vectors_arena(), &signing, &problem),
                           damage->want);
                check_code(damage->member, stored_keys_read(text, vectors_arena(), &stored, &problem_stored),
                           damage->want_stored);
                assert_non_null(strstr(problem_stored, damage->says));
                if (damage->want < 0)
                        assert_string_equal(problem, problem_stored);
                check_no_secret(problem);
                check_no_secret(problem_stored);
                signing_key_free(signing);
                stored_keys_free(stored);
        }
}

static void texts_that_are_no_keys_are_refused(void **state)
{
        static const struct {
                struct lessor_slice text;
                int want;
        } cases[] = {
                {LESSOR_SLICE(""), LESSOR_E_MALFORMED},
                {LESSOR_SLICE("{"), LESSOR_E_MALFORMED},
                {LESSOR_SLICE("{\"version\":1,\"version\":1}"), LESSOR_E_MALFORMED},
                {LESSOR_SLICE("{\"version\":\"\xff\"}"), LESSOR_E_MALFORMED},
                {LESSOR_SLICE("{}\0"), LESSOR_E_MALFORMED},
                {LESSOR_SLICE("{}"), LESSOR_E_INVALID},
                {LESSOR_SLICE("[]"), LESSOR_E_INVALID},
                {LESSOR_SLICE("null"), LESSOR_E_INVALID},
                {LESSOR_SLICE("\"a secret of a file that is no key file\""), LESSOR_E_INVALID},
        };

        (void)state;
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                struct signing_key *key = NULL;
                const char *problem = "";

                check_code(cases[i].text.p, signing_key_read(cases[i].text, vectors_arena(), &key, &problem),
                           cases[i].want);
                assert_string_not_equal(problem, "");
                assert_null(strstr(problem, "secret"));
                check_code(cases[i].text.p, signing_key_read(cases[i].text, vectors_arena(), &key, NULL),
                           cases[i].want);
        }
}

/* Some writers of X25519 keys clamp what they store, others do not; both are the same key (section 3). */
static void a_scalar_opens_whether_or_not_it_is_stored_clamped(void **state)
{
        struct lessor_slice message = LESSOR_SLICE("sealed");
        uint8_t seed[32], public[32], der[48], box[6 + crypto_box_SEALBYTES];

        (void)state;
        assert_true(hex_read(vector_text(vectors_part("keys/devAlice"), "encryptionSeedHex"), seed,
                             sizeof(seed)));
        crypto_scalarmult_base(public, seed);
        assert_int_equal(crypto_box_seal(box, (const unsigned char *)message.p, message.n, public), 0);
        assert_true(hex_read(LESSOR_SLICE("302e020100300506032b656e04220420"), der, 16));
        for (int clamped = 0; clamped < 2; clamped++) {
                struct lessor_slice text;
                struct stored_keys *keys;
                char opened[6];
                struct buf base64;

                if (clamped) {
                        seed[0] &= 248;
                        seed[31] = (uint8_t)((seed[31] & 127) | 64);
                }
                memcpy(der + 16, seed, sizeof(seed));
                buf_init(&base64);
                buf_char(&base64, '"');
                base64_append(&base64, der, sizeof(der));
                assert_int_equal(buf_char(&base64, '"'), 0);
                text = text_with("encryptionPrivate", base64.p);
                assert_int_equal(stored_keys_read(text, vectors_arena(), &keys, NULL), 0);
                assert_int_equal(
                        stored_keys_unseal(keys, (struct lessor_slice){(char *)box, sizeof(box)}, opened), 0);
                assert_memory_equal(opened, message.p, message.n);
                assert_int_equal(stored_keys_unseal(keys, (struct lessor_slice){(char *)box, 47}, opened),
                                 LESSOR_E_UNOPENABLE);
                stored_keys_free(keys);
                buf_done(&base64);
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(the_vectors_keys_are_read_and_written_as_they_are),
                cmocka_unit_test_setup_teardown(the_servers_half_signs_as_the_whole_does, setup, teardown),
                cmocka_unit_test_setup_teardown(new_keys_are_consistent_and_come_back_from_their_file, setup,
                                                teardown),
                cmocka_unit_test_setup_teardown(files_that_others_can_read_or_write_are_refused, setup,
                                                teardown),
                cmocka_unit_test_setup_teardown(a_file_that_is_missing_or_too_large_is_named, setup,
                                                teardown),
                cmocka_unit_test(damaged_keys_are_refused_by_the_members_name),
                cmocka_unit_test(texts_that_are_no_keys_are_refused),
                cmocka_unit_test(a_scalar_opens_whether_or_not_it_is_stored_clamped),
        };

        return cmocka_run_group_tests_name("key_file", tests, NULL, NULL);
}
