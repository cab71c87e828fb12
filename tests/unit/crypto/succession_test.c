/* SPDX-License-Identifier: MIT */
#include "vectors.h"

#include <stdlib.h>

#include "base/limits.h"
#include "crypto/succession.h"
#include "lessor/error.h"

#define MOST_LINKS 80

static struct lessor_succession_link link_of(const struct json *value)
{
        return (struct lessor_succession_link){vector_identity(json_member_named(value, "identity")),
                                               vector_text(value, "signature")};
}

/* An array of links, or {"$repeat": [link, n]}. Returns how many. */
static size_t chain_of(const struct json *chain, struct lessor_succession_link links[MOST_LINKS])
{
        const struct json *repeat = json_member_named(chain, "$repeat");
        size_t n = repeat == NULL ? json_count(chain) : (size_t)json_number(json_item(repeat, 1));

        assert_true(n <= MOST_LINKS);
        for (size_t i = 0; i < n; i++)
                links[i] = link_of(json_item(repeat == NULL ? chain : repeat, repeat == NULL ? i : 0));
        return n;
}

static void links_are_judged_as_the_vectors_say(void **state)
{

        (void)state;
        json_each (vector, vectors_list("succession/links")) {
                struct lessor_succession_link link = link_of(json_member_named(vector, "link"));
                const struct signing_key *retired = vector_signing(vector_text(vector, "from").p);
                struct lessor_slice next = signing_key_id(vector_signing(vector_text(vector, "to").p));
                bool valid = json_is(json_member_named(vector, "valid"), JSON_TRUE);
                struct lessor_succession_link made;
                struct buf statement;
                struct key_id id;

                check_code(vector_note(vector), succession_link_verify(&link, next, &id),
                           valid ? 0 : LESSOR_E_BROKEN_LINK);
                if (valid)
                        check_text(vector_note(vector), key_id_text(&id), signing_key_id(retired));
                buf_init(&statement);
                assert_int_equal(succession_statement(signing_key_id(retired), next, &statement), 0);
                check_text(vector_note(vector), buf_view(&statement), vector_text(vector, "statement"));
                buf_done(&statement);

                assert_int_equal(succession_link_sign(retired, next, vectors_arena(), &made), 0);
                check_text(vector_note(vector), made.identity.identity, link.identity.identity);
                if (valid)
                        check_text(vector_note(vector), made.signature, link.signature);
                assert_int_equal(succession_link_verify(&made, next, NULL), 0);
        }
}

static void chains_are_walked_as_the_vectors_say(void **state)
{
        (void)state;
        json_each (vector, vectors_list("succession/walks")) {
                struct lessor_succession_link links[MOST_LINKS];
                struct lessor_slice approved[8];
                const struct json *result = json_member_named(vector, "result");
                size_t at = 0;
                const struct json *failure = json_member_named(result, "failure");
                size_t n_links = chain_of(json_member_named(vector, "chain"), links);
                size_t n_approved = json_count(json_member_named(vector, "approved"));
                struct succession_path path = {NULL, 0};

                assert_true(n_approved <= 8);
                json_each (item, json_member_named(vector, "approved"))
                        approved[at++] = json_text(item);
                at = 0;
                check_code(vector_note(vector),
                           succession_walk(vector_text(vector, "current"), links, n_links, approved,
                                           n_approved, vectors_arena(), &path),
                           failure == NULL ? 0 : vector_verdict(failure));
                assert_int_equal(path.n, json_count(json_member_named(result, "path")));
                json_each (item, json_member_named(result, "path"))
                        check_text(vector_note(vector), path.ids[at++], json_text(item));
                if (failure == NULL)
                        check_text(vector_note(vector), path.ids[0], vector_text(result, "from"));
        }
}

/* The longest chain that is walked, each link valid and none approved: the whole path comes back. */
static void sixty_four_links_are_walked_to_their_end(void **state)
{
        struct stored_keys *keys[LIMIT_SUCCESSION_LINKS + 1];
        struct lessor_succession_link links[LIMIT_SUCCESSION_LINKS];
        struct lessor_arena *arena = lessor_arena_new();
        struct succession_path path;

        (void)state;
        assert_non_null(arena);
        for (size_t i = 0; i <= LIMIT_SUCCESSION_LINKS; i++)
                assert_int_equal(stored_keys_generate(1, &keys[i]), 0);
        for (size_t i = 0; i < LIMIT_SUCCESSION_LINKS; i++)
                assert_int_equal(succession_link_sign(stored_keys_signing(keys[i]),
                                                      signing_key_id(stored_keys_signing(keys[i + 1])), arena,
                                                      &links[i]),
                                 0);
        assert_int_equal(succession_walk(signing_key_id(stored_keys_signing(keys[LIMIT_SUCCESSION_LINKS])),
                                         links, LIMIT_SUCCESSION_LINKS, NULL, 0, arena, &path),
                         LESSOR_E_UNKNOWN_ORIGIN);
        assert_int_equal(path.n, LIMIT_SUCCESSION_LINKS + 1);
        for (size_t i = 0; i <= LIMIT_SUCCESSION_LINKS; i++) {
                check_text("path", path.ids[i], signing_key_id(stored_keys_signing(keys[i])));
                stored_keys_free(keys[i]);
        }
        lessor_arena_free(arena);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(links_are_judged_as_the_vectors_say),
                cmocka_unit_test(chains_are_walked_as_the_vectors_say),
                cmocka_unit_test(sixty_four_links_are_walked_to_their_end),
        };

        return cmocka_run_group_tests_name("succession", tests, NULL, NULL);
}
