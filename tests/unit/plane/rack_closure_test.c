/* SPDX-License-Identifier: MIT */
#include "store_support.h"

#include <stdio.h>

#include "base/macro.h"
#include "plane/rack_closure.h"
#include "wire/rack_message.h"

/* A lease of this number whose event has that closure, `{}` of JSON members. */
static struct lessor_lease lease_with(struct world *w, unsigned number, const char *closure)
{
        struct lessor_lease lease = {.name.repo = LESSOR_SLICE("main")};
        struct buf text;

        buf_init(&text);
        buf_printf(&text, "lease-%u", number);
        assert_int_equal(lessor_arena_copy(w->arena, buf_view(&text), &lease.name.lease_id), 0);
        buf_clear(&text);
        buf_printf(&text, "{\"version\":2,\"runnerEvent\":{},\"closure\":{%s}}", closure);
        assert_int_equal(lessor_arena_copy(w->arena, buf_view(&text), &lease.event), 0);
        buf_done(&text);
        return lease;
}

static struct lessor_lease lease_of_one(struct world *w, unsigned number, struct lessor_slice hash)
{
        char closure[128];

        snprintf(closure, sizeof(closure), "\"hashes\":[\"%.*s\"]", (int)hash.n, hash.p);
        return lease_with(w, number, closure);
}

static int ask(struct world *w, struct closure_cache *cache, const struct lessor_lease *lease,
               struct lessor_slice need, bool *ret_admitted)
{
        return closure_cache_admits(cache, lease, &need, 1, w->arena, ret_admitted, NULL);
}

static struct lessor_slice put(struct world *w, const char *text)
{
        assert_int_equal(world_put(w, "main", lessor_slice_of(text)), 0);
        return world_hash(w, lessor_slice_of(text));
}

static void R096_only_what_is_in_the_closure_is_admitted(void **state)
{
        struct world *w = *state;
        _cleanup_(closure_cache_freep) struct closure_cache *cache = closure_cache_new(w->store);
        struct lessor_slice in = put(w, "in"), out = put(w, "out");
        struct lessor_lease lease = lease_of_one(w, 1, in);
        struct lessor_slice both[] = {in, in, out};
        bool admitted;

        for (int round = 0; round < 2; round++) { /* read, and remembered */
                assert_int_equal(ask(w, cache, &lease, in, &admitted), 0);
                assert_true(admitted);
                assert_int_equal(ask(w, cache, &lease, out, &admitted), 0);
                assert_false(admitted);
                assert_int_equal(ask(w, cache, &lease, LESSOR_SLICE("no hash"), &admitted), 0);
                assert_false(admitted);
                assert_int_equal(closure_cache_admits(cache, &lease, both, 2, w->arena, &admitted, NULL), 0);
                assert_true(admitted);
                assert_int_equal(closure_cache_admits(cache, &lease, both, 3, w->arena, &admitted, NULL), 0);
                assert_false(admitted);
        }
}

static struct lessor_slice put_list(struct world *w, struct lessor_slice *hashes, size_t n)
{
        struct rack_closure_list list = {hashes, n};
        struct lessor_slice hash;
        struct buf bytes;

        buf_init(&bytes);
        assert_int_equal(rack_message_write_beast2(&rack_closure_list_type, &list, &bytes), 0);
        assert_int_equal(world_put(w, "main", buf_view(&bytes)), 0);
        hash = world_hash(w, buf_view(&bytes));
        buf_done(&bytes);
        return hash;
}

static struct lessor_lease lease_by_object(struct world *w, unsigned number, struct lessor_slice object,
                                           int count)
{
        char closure[160];

        snprintf(closure, sizeof(closure), "\"object\":\"%.*s\",\"count\":%d", (int)object.n, object.p,
                 count);
        return lease_with(w, number, closure);
}

static void R099_the_listing_object_is_admitted_too(void **state)
{
        struct world *w = *state;
        _cleanup_(closure_cache_freep) struct closure_cache *cache = closure_cache_new(w->store);
        struct lessor_slice hashes[600];
        struct lessor_slice object, out = put(w, "out");
        struct lessor_lease lease;
        bool admitted;

        for (size_t i = 0; i < ARRAY_SIZE(hashes); i++) {
                char text[32];

                snprintf(text, sizeof(text), "object %zu", i);
                hashes[i] = put(w, text);
        }
        object = put_list(w, hashes, ARRAY_SIZE(hashes));
        lease = lease_by_object(w, 1, object, ARRAY_SIZE(hashes));
        assert_int_equal(ask(w, cache, &lease, object, &admitted), 0);
        assert_true(admitted);
        assert_int_equal(ask(w, cache, &lease, hashes[599], &admitted), 0);
        assert_true(admitted);
        assert_int_equal(ask(w, cache, &lease, out, &admitted), 0);
        assert_false(admitted);
}

static void a_closure_that_is_not_whole_is_unreadable(void **state)
{
        struct world *w = *state;
        _cleanup_(closure_cache_freep) struct closure_cache *cache = closure_cache_new(w->store);
        struct lessor_slice there = put(w, "there"), missing = world_hash(w, LESSOR_SLICE("missing"));
        struct lessor_slice no_hash = LESSOR_SLICE("no hash"), garbage = put(w, "no list");
        const struct lessor_lease leases[] = {
                lease_of_one(w, 1, missing),
                lease_by_object(w, 2, put_list(w, &there, 1), 2), /* another count */
                lease_by_object(w, 3, put_list(w, &no_hash, 1), 1),
                lease_by_object(w, 4, garbage, 1),
                lease_by_object(w, 5, missing, 1),
                lease_by_object(w, 6, put_list(w, &missing, 1), 1),
                lease_with(w, 7, ""),
        };
        bool admitted;

        for (size_t i = 0; i < ARRAY_SIZE(leases); i++) {
                assert_true(ask(w, cache, &leases[i], there, &admitted) < 0);
                assert_false(closure_cache_knows(cache, &leases[i].name));
        }
        /* A failure is not remembered. */
        put(w, "missing");
        assert_int_equal(ask(w, cache, &leases[0], missing, &admitted), 0);
        assert_true(admitted);
}

static void reading_a_closure_references_what_is_in_it(void **state)
{
        struct world *w = *state;
        _cleanup_(closure_cache_freep) struct closure_cache *cache = closure_cache_new(w->store);
        struct lessor_slice in = put(w, "in");
        struct lessor_lease lease = lease_of_one(w, 1, in);
        struct lessor_object_info info;
        bool admitted;

        clock_manual_advance(&w->clock, 50000);
        assert_int_equal(ask(w, cache, &lease, in, &admitted), 0);
        assert_int_equal(lessor_object_stat(w->store, lease.name.repo, in, &info), 0);
        assert_int_equal(info.touched_ms, WORLD_START_MS + 50000);
}

static void a_new_leases_closure_is_referenced_as_far_as_it_is_there(void **state)
{
        struct world *w = *state;
        struct lessor_slice in = put(w, "in"), missing = world_hash(w, LESSOR_SLICE("missing"));
        struct lessor_slice both[] = {in, missing};
        struct lessor_slice object = put_list(w, both, 2);
        struct lessor_lease lease = lease_by_object(w, 1, object, 2);
        struct lessor_object_info info;

        clock_manual_advance(&w->clock, 50000);
        assert_int_equal(closure_reference(w->store, lease.name.repo, lease.event, w->arena), 0);
        assert_int_equal(lessor_object_stat(w->store, lease.name.repo, in, &info), 0);
        assert_int_equal(info.touched_ms, WORLD_START_MS + 50000);
        assert_int_equal(lessor_object_stat(w->store, lease.name.repo, object, &info), 0);
        assert_int_equal(info.touched_ms, WORLD_START_MS + 50000);
        lease = lease_by_object(w, 2, missing, 2);
        assert_int_equal(closure_reference(w->store, lease.name.repo, lease.event, w->arena), 0);
}

static void the_64_asked_about_last_are_remembered(void **state)
{
        struct world *w = *state;
        _cleanup_(closure_cache_freep) struct closure_cache *cache = closure_cache_new(w->store);
        struct lessor_slice in = put(w, "in");
        struct lessor_lease leases[66];
        bool admitted;

        for (unsigned i = 0; i < 66; i++)
                leases[i] = lease_of_one(w, i, in);
        for (unsigned i = 0; i < 64; i++)
                assert_int_equal(ask(w, cache, &leases[i], in, &admitted), 0);
        assert_true(closure_cache_knows(cache, &leases[0].name));
        assert_int_equal(ask(w, cache, &leases[0], in, &admitted), 0);
        assert_int_equal(ask(w, cache, &leases[64], in, &admitted), 0);
        assert_int_equal(ask(w, cache, &leases[65], in, &admitted), 0);
        assert_true(closure_cache_knows(cache, &leases[0].name));
        assert_false(closure_cache_knows(cache, &leases[1].name));
        assert_false(closure_cache_knows(cache, &leases[2].name));
        assert_true(closure_cache_knows(cache, &leases[3].name));
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, world_setup, world_teardown)
        const struct CMUnitTest tests[] = {
                TEST(R096_only_what_is_in_the_closure_is_admitted),
                TEST(R099_the_listing_object_is_admitted_too),
                TEST(a_closure_that_is_not_whole_is_unreadable),
                TEST(reading_a_closure_references_what_is_in_it),
                TEST(a_new_leases_closure_is_referenced_as_far_as_it_is_there),
                TEST(the_64_asked_about_last_are_remembered),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
