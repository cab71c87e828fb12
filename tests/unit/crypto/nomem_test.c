/* SPDX-License-Identifier: MIT */
#include "vectors.h"

#include <malloc.h>
#include <stdbool.h>
#include <stdlib.h>

#include "crypto/envelope_open.h"
#include "crypto/envelope_seal.h"
#include "crypto/grant.h"
#include "crypto/request_signature.h"
#include "crypto/succession.h"
#include "lessor/error.h"

void *__real_malloc(size_t n);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *p, size_t n);
void __real_free(void *p);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *p, size_t n);
void __wrap_free(void *p);

/* The allocation that fails, counted down; -1 for none. Everything after it succeeds again. */
static long countdown = -1;
static bool has_failed;
static long n_allocations;

/* What nobody may find in memory that was given back, while `watching`. */
static struct lessor_slice secrets[3];
static bool watching;
static size_t n_found;

static bool fails(void)
{
        n_allocations++;
        if (countdown < 0 || countdown-- > 0)
                return false;
        has_failed = true;
        return true;
}

void *__wrap_malloc(size_t n)
{
        return fails() ? NULL : __real_malloc(n);
}

void *__wrap_calloc(size_t count, size_t size)
{
        return fails() ? NULL : __real_calloc(count, size);
}

void *__wrap_realloc(void *p, size_t n)
{
        return fails() ? NULL : __real_realloc(p, n);
}

void __wrap_free(void *p)
{
        for (size_t i = 0; watching && p != NULL && i < sizeof(secrets) / sizeof(secrets[0]); i++)
                n_found += memmem(p, malloc_usable_size(p), secrets[i].p, secrets[i].n) != NULL;
        __real_free(p);
}

/*
 * Runs `work` with its first allocation failing, then its second, and so on until it needs no more. What
 * libsodium allocates in guarded memory comes from mmap and is not counted.
 */
static void fail_each(int (*work)(struct lessor_arena *arena))
{
        for (long step = 0;; step++) {
                struct lessor_arena *arena = lessor_arena_new();
                int r;

                assert_non_null(arena);
                has_failed = false;
                countdown = step;
                r = work(arena);
                countdown = -1;
                lessor_arena_free(arena);
                if (!has_failed) {
                        assert_int_equal(r, 0);
                        assert_true(step > 0);
                        return;
                }
                if (r != LESSOR_E_NOMEM)
                        fail_msg("allocation %ld failed, and the answer was %d", step, r);
        }
}

#define PLAINTEXT "a text that is for one device only"

static struct lessor_slice keys_text;
static const struct stored_keys *alice, *site;
static struct lessor_sealed_envelope sealed;
static struct envelope_terms terms = {LESSOR_SLICE("j1"), LESSOR_DIRECTION_PAYLOAD, 4102444800000};

static int read_signing_key(struct lessor_arena *arena)
{
        struct signing_key *key = NULL;
        int r = signing_key_read(keys_text, arena, &key, NULL);

        signing_key_free(key);
        return r;
}

static int read_stored_keys(struct lessor_arena *arena)
{
        struct stored_keys *keys = NULL;
        const char *problem = NULL;
        int r = stored_keys_read(keys_text, arena, &keys, &problem);

        if (r < 0)
                assert_non_null(problem);
        stored_keys_free(keys);
        return r;
}

static int make_keys(struct lessor_arena *arena)
{
        struct stored_keys *keys = NULL;
        struct buf text;
        int r = stored_keys_generate(1, &keys);

        (void)arena;
        buf_init(&text);
        if (r == 0)
                r = stored_keys_write(keys, &text);
        buf_wipe(&text);
        stored_keys_free(keys);
        return r;
}

static int seal(struct lessor_arena *arena)
{
        struct lessor_sealed_envelope envelope;

        return envelope_seal(stored_keys_signing(site), signing_key_identity(stored_keys_signing(alice)),
                             &terms, LESSOR_SLICE(PLAINTEXT), arena, &envelope);
}

static int open_sealed(struct lessor_arena *arena)
{
        struct envelope_expected expected = {terms.job_id, sealed.sender_key_id, sealed.recipient_key_id,
                                             terms.direction, signing_key_public(stored_keys_signing(site))};
        struct lessor_slice plaintext;

        return envelope_open(alice, &expected, &sealed, arena, &plaintext);
}

static int sign_and_check_grant(struct lessor_arena *arena)
{
        struct lessor_slice x = LESSOR_SLICE("x");
        struct lessor_grant grant = {x, x, x, x, x, x, x, x, 1, x};
        struct grant_check check = {x, x, signing_key_public(stored_keys_signing(site)), 1};
        int r = grant_sign(&grant, stored_keys_signing(site), arena);

        return r < 0 ? r : grant_verify(&grant, &check);
}

static int walk(struct lessor_arena *arena)
{
        struct lessor_slice current = signing_key_id(stored_keys_signing(alice));
        struct lessor_slice approved = signing_key_id(stored_keys_signing(site));
        struct lessor_succession_link link;
        struct succession_path path;
        int r = succession_link_sign(stored_keys_signing(site), current, arena, &link);

        return r < 0 ? r : succession_walk(current, &link, 1, &approved, 1, arena, &path);
}

static void every_failing_allocation_is_an_error_and_no_leak(void **state)
{
        (void)state;
        keys_text = vector_keys_text("devAlice");
        alice = vector_keys("devAlice");
        site = vector_keys("siteA");
        assert_int_equal(envelope_seal(stored_keys_signing(site),
                                       signing_key_identity(stored_keys_signing(alice)), &terms,
                                       LESSOR_SLICE(PLAINTEXT), vectors_arena(), &sealed),
                         0);
        fail_each(read_signing_key);
        fail_each(read_stored_keys);
        fail_each(make_keys);
        fail_each(seal);
        fail_each(open_sealed);
        fail_each(sign_and_check_grant);
        fail_each(walk);
}

/* Whatever fails, and also when nothing does. */
static void no_memory_is_given_back_with_a_secret_in_it(void **state)
{
        const struct json *keys = vectors_part("keys/devAlice/stored");
        struct lessor_arena *unwiped;
        struct lessor_slice copy;

        (void)state;
        secrets[0] = LESSOR_SLICE(PLAINTEXT);
        secrets[1] = vector_text(keys, "identityPrivate");
        secrets[2] = vector_text(keys, "encryptionPrivate");
        n_found = 0;
        watching = true;
        fail_each(read_signing_key);
        fail_each(read_stored_keys);
        fail_each(open_sealed);
        assert_int_equal(n_found, 0);
        /* and the watch is not asleep */
        unwiped = lessor_arena_new();
        assert_int_equal(lessor_arena_copy(unwiped, secrets[0], &copy), 0);
        lessor_arena_free(unwiped);
        watching = false;
        assert_int_equal(n_found, 1);
}

/* The hot path of every request. */
static void verifying_a_request_allocates_nothing(void **state)
{
        struct signed_request request = {.endpoint = LESSOR_SLICE("claim"),
                                         .caller = LESSOR_SLICE("runner_0123456789abcdef0123456789abcdef"),
                                         .issued_ms = 1767225600000};
        const struct identity_key *key = vector_public("devAlice");
        struct buf signature;

        (void)state;
        buf_init(&signature);
        request_body_hash(LESSOR_SLICE("{}"), request.body_hash);
        assert_int_equal(request_sign(&request, vector_signing("devAlice"), &signature), 0);
        n_allocations = 0;
        request_body_hash(LESSOR_SLICE("{}"), request.body_hash);
        assert_int_equal(request_verify(&request, 1767225600000, key, buf_view(&signature)), 0);
        assert_int_equal(n_allocations, 0);
        buf_done(&signature);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(every_failing_allocation_is_an_error_and_no_leak),
                cmocka_unit_test(no_memory_is_given_back_with_a_secret_in_it),
                cmocka_unit_test(verifying_a_request_allocates_nothing),
        };

        return cmocka_run_group_tests_name("nomem", tests, NULL, NULL);
}
