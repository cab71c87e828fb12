/* SPDX-License-Identifier: MIT */
#include "vectors.h"

#include "wire/relay_errors.h"
#include "wire/version.h"

static struct json *vectors;

static int load(void **state)
{
        (void)state;
        vectors = vectors_load("relay.json");
        return 0;
}

static const struct json *cases_of(const char *name)
{
        const struct json *cases = json_member_named(json_member_named(vectors, "versions"), name);

        assert_true(json_count(cases) > 0);
        return cases;
}

static void versions_compare(void **state)
{
        (void)state;
        json_each (entry, cases_of("compare")) {
                const struct json *result = json_member_named(entry, "result");
                struct lessor_slice a = vectors_text(entry, "a"), b = vectors_text(entry, "b");
                int order = 99, reverse = 99;
                bool comparable = version_compare(a, b, &order);

                if (comparable == json_is(result, JSON_NULL) || comparable != version_compare(b, a, &reverse))
                        fail_msg("%.*s against %.*s: comparable or not?", (int)a.n, a.p, (int)b.n, b.p);
                if (comparable && (order != json_number(result) || reverse != -order))
                        fail_msg("%.*s against %.*s: %d and back %d", (int)a.n, a.p, (int)b.n, b.p, order,
                                 reverse);
        }
}

static void numbers_of_any_length_compare(void **state)
{
        int order;

        (void)state;
        assert_true(version_compare(LESSOR_SLICE("99999999999999999999999.0.0"),
                                    LESSOR_SLICE("99999999999999999999998.0.0"), &order));
        assert_int_equal(order, 1);
        assert_true(version_compare(LESSOR_SLICE("1.0.0-0"), LESSOR_SLICE("1.0.0-000"), &order));
        assert_int_equal(order, 0);
        assert_false(version_valid((struct lessor_slice){NULL, 0}));
        assert_false(version_valid(LESSOR_SLICE("1.2.3+")));
        assert_false(version_valid(LESSOR_SLICE("1.2.3-a+b+c")));
        assert_false(version_valid(LESSOR_SLICE("1.2.3\n")));
        assert_false(version_valid(LESSOR_SLICE("1.2.3\0")));
}

static void daemons_below_the_floor_are_refused(void **state)
{
        (void)state;
        json_each (entry, cases_of("floor")) {
                const struct json *refusal = json_member_named(entry, "refusal");
                struct relay_refusal_details details = {.subject = vectors_text(entry, "daemonVersion"),
                                                        .floor = vectors_text(entry, "floor")};
                struct lessor_arena *arena = lessor_arena_new();
                struct buf body;

                assert_int_equal(version_below_floor(details.subject, details.floor),
                                 !json_is(refusal, JSON_NULL));
                buf_init(&body);
                if (!json_is(refusal, JSON_NULL)) {
                        assert_int_equal(relay_refusal_append(RELAY_REFUSAL_BELOW_FLOOR, &details, &body), 0);
                        assert_true(json_same(vectors_parse(arena, buf_view(&body)), refusal));
                }
                buf_done(&body);
                lessor_arena_free(arena);
        }
        assert_false(version_below_floor(LESSOR_SLICE("0.1.0"), (struct lessor_slice){NULL, 0}));
}

static void offers_are_made(void **state)
{
        size_t i = 0;

        (void)state;
        json_each (entry, cases_of("offer")) {
                const struct json *offer = json_member_named(entry, "offer");
                struct lessor_slice text =
                        json_is(offer, JSON_NULL) ? (struct lessor_slice){NULL, 0} : json_text(offer);
                bool offered = version_offered(vectors_text(entry, "daemonVersion"), text);

                if (offered != (json_count(json_member_named(entry, "answer")) > 0))
                        fail_msg("offer[%zu]: %s", i, offered ? "offered" : "not offered");
                i++;
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(versions_compare),
                cmocka_unit_test(numbers_of_any_length_compare),
                cmocka_unit_test(daemons_below_the_floor_are_refused),
                cmocka_unit_test(offers_are_made),
        };

        return cmocka_run_group_tests(tests, load, NULL);
}
