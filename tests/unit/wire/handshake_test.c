/* SPDX-License-Identifier: MIT */
#include "vectors.h"

#include "wire/handshake.h"

/* The vectors write the query as on the wire, with one parameter and nothing to decode. */
static struct lessor_slice declared_in_query(const struct json *entry)
{
        static const char name[] = "protocolVersion=";
        const char *query = json_cstr(json_member_named(entry, "query"));

        if (query == NULL)
                return (struct lessor_slice){NULL, 0};
        assert_int_equal(strncmp(query, name, sizeof(name) - 1), 0);
        return lessor_slice_of(query + sizeof(name) - 1);
}

static void check_handshake(const struct json *entry, size_t i)
{
        struct lessor_arena *arena = lessor_arena_new();
        const struct json *body_text = json_member_named(entry, "body");
        const struct json *want = json_member_named(entry, "refusal");
        struct relay_refusal_details details = {0};
        enum relay_refusal refusal;
        struct json *body = NULL;
        struct buf out;

        buf_init(&out);
        if (body_text != NULL && json_read(json_text(body_text), arena, &body) < 0)
                body = NULL;
        if (handshake_check(body, declared_in_query(entry), &refusal, &details.subject) == 0) {
                if (!json_is(want, JSON_NULL))
                        fail_msg("handshake[%zu] was accepted", i);
        } else {
                assert_int_equal(relay_refusal_append(refusal, &details, &out), 0);
                if (!json_same(vectors_parse(arena, buf_view(&out)), want))
                        fail_msg("handshake[%zu]: %s", i, out.p);
                assert_int_equal(relay_refusal_status(refusal), 400);
        }
        buf_done(&out);
        lessor_arena_free(arena);
}

static void each_handshake_vector_has_its_answer(void **state)
{
        struct json *vectors = vectors_load("relay.json");
        size_t i = 0;

        (void)state;
        assert_true(json_count(json_member_named(vectors, "handshake")) > 0);
        json_each (entry, json_member_named(vectors, "handshake"))
                check_handshake(entry, i++);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(each_handshake_vector_has_its_answer),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
