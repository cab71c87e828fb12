/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "http/internal.h"

DEFINE_CLEANUP(struct lessor_arena, lessor_arena_free)

static void targets_are_taken_apart(void **state)
{
        static const struct {
                const char *target;
                unsigned refusal;
                const char *path, *query, *host; /* NULL: absent */
        } cases[] = {
                {"/", 0, "/", NULL, NULL},
                {"/a/b?c=d?e", 0, "/a/b", "c=d?e", NULL},
                {"/a?", 0, "/a", "", NULL},
                {"//a//", 0, "//a//", NULL, NULL},
                {"/%2f%2e%2F", 0, "/%2f%2e%2F", NULL, NULL},
                {"/.a/..b/c./d..", 0, "/.a/..b/c./d..", NULL, NULL},
                {"/?/../x", 0, "/", "/../x", NULL},
                {"http://h", 0, "/", NULL, "h"},
                {"http://h?q", 0, "/", "q", "h"},
                {"hTTps://[::1]:80/x", 0, "/x", NULL, "[::1]:80"},
                {"/.", 0, "/", NULL, NULL},
                {"/..", 0, "/", NULL, NULL},
                {"/../..", 0, "/", NULL, NULL},
                {"/./a", 0, "/a", NULL, NULL},
                {"/a/../b", 0, "/b", NULL, NULL},
                {"/a/..?b", 0, "/", "b", NULL},
                {"/a/.", 0, "/a/", NULL, NULL},
                {"/a/b/..", 0, "/a/", NULL, NULL},
                {"/a//../b", 0, "/a/b", NULL, NULL},
                {"/a/./../../b/", 0, "/b/", NULL, NULL},
                {"/a/.../b", 0, "/a/.../b", NULL, NULL},
                {"/a/%2e./%2E/b", 0, "/b", NULL, NULL},
                {"/a/%2e%2e", 0, "/", NULL, NULL},
                {"/a/%2e%2e%2e", 0, "/a/%2e%2e%2e", NULL, NULL},
                {"http://h/../a", 0, "/a", NULL, "h"},
                {"", 400, NULL, NULL, NULL},
                {"*", 400, NULL, NULL, NULL},
                {"a", 400, NULL, NULL, NULL},
                {":", 400, NULL, NULL, NULL},
                {"h:80", 400, NULL, NULL, NULL},
                {"http://", 400, NULL, NULL, NULL},
                {"http:///a", 400, NULL, NULL, NULL},
                {"http://u@h/", 400, NULL, NULL, NULL},
                {"httpx://h/", 400, NULL, NULL, NULL},
                {"file://h/", 400, NULL, NULL, NULL},
                {"/a#b", 400, NULL, NULL, NULL},
                {"/a b", 400, NULL, NULL, NULL},
                {"/\x7f", 400, NULL, NULL, NULL},
                {"/\xff", 400, NULL, NULL, NULL},
        };

        (void)state;
        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                _cleanup_(lessor_arena_freep) struct lessor_arena *arena = lessor_arena_new();
                struct request r = {.target = lessor_slice_of(cases[i].target), .public.arena = arena};

                assert_non_null(arena);
                assert_int_equal(target_read(&r), cases[i].refusal);
                if (cases[i].refusal != 0)
                        continue;
                assert_true(lessor_slice_equal(r.public.path, lessor_slice_of(cases[i].path)));
                assert_true(lessor_slice_equal(r.public.query, lessor_slice_of(cases[i].query)));
                assert_int_equal(r.public.query.p == NULL, cases[i].query == NULL);
                assert_true(lessor_slice_equal(r.host, lessor_slice_of(cases[i].host)));
        }
}

static void first_matching_route_serves(void **state)
{
        static const struct http_route routes[] = {
                {.method = "GET", .path = "/a", .name = "get a"},
                {.method = "POST", .path = "/a", .name = "post a"},
                {.method = "GET", .path = "/a/*", .name = "under a"},
                {.path = "/b", .name = "any b"},
                {.method = "GET", .path = "*", .name = "rest"},
        };
        static const struct {
                const char *method, *path, *name; /* NULL: none */
        } cases[] = {
                {"GET", "/a", "get a"}, {"POST", "/a", "post a"},  {"PUT", "/a", NULL},
                {"get", "/a", NULL},    {"GET", "/a/", "under a"}, {"GET", "/a/x", "under a"},
                {"GET", "/ab", "rest"}, {"BREW", "/b", "any b"},   {"GET", "/", "rest"},
        };
        struct route_slot slots[ARRAY_SIZE(routes)];
        struct listener listener = {.slots = slots, .n_slots = ARRAY_SIZE(routes)};

        (void)state;
        for (size_t i = 0; i < ARRAY_SIZE(routes); i++)
                route_slot_init(&slots[i], &routes[i], (unsigned)i);
        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                struct route_slot *slot = route_find(&listener, lessor_slice_of(cases[i].method),
                                                     lessor_slice_of(cases[i].path));

                if (cases[i].name == NULL) {
                        assert_null(slot);
                        continue;
                }
                assert_non_null(slot);
                assert_string_equal(slot->route->name, cases[i].name);
        }
}

static void query_values_are_decoded(void **state)
{
        static const struct {
                const char *query, *name, *value; /* NULL: absent */
        } cases[] = {
                {"a=1&b=2", "b", "2"},
                {"a=1&a=2", "a", "1"},
                {"a", "a", ""},
                {"a=", "a", ""},
                {"", "a", NULL},
                {"b=a", "a", NULL},
                {"a=b=c", "a", "b=c"},
                {"a=%41%62+%2B", "a", "Ab +"},
                {"a=%", "a", "%"},
                {"a=%4", "a", "%4"},
                {"a=%zz%4g", "a", "%zz%4g"},
                {"%61=x", "a", "x"},
                {"&&a=1", "a", "1"},
                {"=1&a=2", "", "1"},
                {"aa=1&a=2", "a", "2"},
                {"a=%c3%a9", "a", "\xc3\xa9"},
                {"a=%ff%41", "a",
                 "\xef\xbf\xbd"
                 "A"},
                {"a=x%f0%90%80y", "a", "x\xef\xbf\xbdy"},
                {"a=%ed%a0%80", "a", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"},
                {"a=%e2%82", "a", "\xef\xbf\xbd"},
        };
        struct request r = {.public.arena = lessor_arena_new()};

        (void)state;
        assert_non_null(r.public.arena);
        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                struct lessor_slice value;

                r.public.query = lessor_slice_of(cases[i].query);
                assert_int_equal(http_query(&r.public, cases[i].name, &value), 0);
                assert_int_equal(value.p == NULL, cases[i].value == NULL);
                assert_true(lessor_slice_equal(value, lessor_slice_of(cases[i].value)));
        }
        lessor_arena_free(r.public.arena);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(targets_are_taken_apart),
                cmocka_unit_test(first_matching_route_serves),
                cmocka_unit_test(query_values_are_decoded),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
