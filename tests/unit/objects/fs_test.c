/* SPDX-License-Identifier: MIT */
#include "store_support.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define SLICE(text) LESSOR_SLICE(text)

static const struct lessor_slice none = {NULL, 0};

static void what_was_put_can_be_read(void **state)
{
        struct world *w = *state;
        struct lessor_slice hash = world_hash(w, SLICE("hello"));
        int64_t size;
        char bytes[8];
        int fd;

        assert_false(world_has(w, "main", hash));
        assert_int_equal(world_put(w, "main", SLICE("hello")), 0);
        assert_int_equal(lessor_object_open(w->store, SLICE("main"), hash, &fd, &size), 0);
        assert_int_equal(size, 5);
        assert_int_equal(pread(fd, bytes, sizeof(bytes), 0), 5);
        assert_memory_equal(bytes, "hello", 5);
        close(fd);
        assert_int_equal(world_put(w, "main", SLICE("")), 0); /* the empty object is one */
        assert_true(world_has(w, "main", world_hash(w, SLICE(""))));
}

static void repositories_are_apart(void **state)
{
        struct world *w = *state;
        struct lessor_slice hash = world_hash(w, SLICE("x")), *repos;
        size_t n;
        int fd;

        assert_int_equal(world_put(w, "one", SLICE("x")), 0);
        assert_false(world_has(w, "two", hash));
        assert_int_equal(lessor_object_open(w->store, SLICE("two"), hash, &fd, NULL), LESSOR_E_NOT_FOUND);
        assert_int_equal(world_put(w, "two", SLICE("x")), 0);
        assert_true(world_has(w, "two", hash));
        assert_int_equal(lessor_object_repos(w->store, w->arena, &repos, &n), 0);
        assert_int_equal(n, 2);
        assert_true(lessor_slice_equal(repos[0], SLICE("one")));
        assert_true(lessor_slice_equal(repos[1], SLICE("two")));
}

static void names_that_are_none_are_refused(void **state)
{
        static const struct lessor_slice repos[] = {
                SLICE(""),     SLICE("@rack"), SLICE("."),   SLICE(".."),  SLICE("../x"),     SLICE("a/b"),
                SLICE("a\0b"), SLICE(".tmp"),  SLICE("-rf"), SLICE("a b"), SLICE("\xc3\xa4"),
        };
        static const char *const hashes[] = {
                "",
                "abc",
                "../../../../../../../../../../../../../../../../../../etc/passwd",
                "E3B0C44298FC1C149AFBF4C8996FB92427AE41E4649B934CA495991B7852B855",
                "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b85",
                "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b8555",
        };
        struct world *w = *state;
        struct lessor_object_writer *writer;
        struct lessor_object_info info;
        char longest[129];

        for (size_t i = 0; i < sizeof(repos) / sizeof(repos[0]); i++)
                assert_int_equal(lessor_object_put(w->store, repos[i], none, -1, &writer), LESSOR_E_INVALID);
        for (size_t i = 0; i < sizeof(hashes) / sizeof(hashes[0]); i++)
                assert_int_equal(
                        lessor_object_stat(w->store, SLICE("main"), lessor_slice_of(hashes[i]), &info),
                        LESSOR_E_INVALID);
        memset(longest, 'r', sizeof(longest));
        assert_true(lessor_object_repo_valid((struct lessor_slice){longest, 128}));
        assert_false(lessor_object_repo_valid((struct lessor_slice){longest, 129}));
        assert_int_equal(lessor_object_put(w->store, SLICE("main"), none, INT64_C(5368709121), &writer),
                         LESSOR_E_TOO_LARGE);
}

static void other_bytes_than_announced_leave_nothing(void **state)
{
        static const struct lessor_object_stage stage = {SLICE("main"), SLICE("lease"), SLICE("attempt")};
        static const struct lessor_slice wrong[] = {SLICE("hellp"), SLICE("hell"), SLICE("hello!"),
                                                    SLICE("")};
        struct world *w = *state;
        struct lessor_slice hash = world_hash(w, SLICE("hello"));

        for (size_t i = 0; i < 2 * sizeof(wrong) / sizeof(wrong[0]); i++) {
                struct lessor_slice bytes = wrong[i / 2];
                struct lessor_object_writer *writer;
                struct lessor_object_written written;
                int r = i % 2 == 0 ? lessor_object_stage(w->store, &stage, hash, 5, &writer)
                                   : lessor_object_put(w->store, stage.repo, hash, 5, &writer);

                assert_int_equal(r, 0);
                r = lessor_object_write(writer, bytes);
                assert_int_equal(r, bytes.n > 5 ? LESSOR_E_MISMATCH : 0);
                assert_int_equal(lessor_object_finish(writer, w->arena, &written), LESSOR_E_MISMATCH);
                lessor_object_writer_free(writer);
        }
        assert_false(world_has(w, "main", hash));
        assert_int_equal(world_count(w, "objects/repos"), 0);
        assert_int_equal(world_count(w, "objects/tmp"), 0);
        assert_int_equal(world_put(w, "main", SLICE("hello")), 0); /* the right ones are then taken */
}

static void a_writer_that_is_given_up_leaves_nothing(void **state)
{
        struct world *w = *state;
        struct lessor_object_writer *writer;

        assert_int_equal(lessor_object_put(w->store, SLICE("main"), none, -1, &writer), 0);
        assert_int_equal(lessor_object_write(writer, SLICE("some")), 0);
        assert_int_equal(world_count(w, "objects/tmp"), 1);
        assert_null(lessor_object_writer_free(writer));
        assert_int_equal(world_count(w, "objects/tmp"), 0);
        assert_int_equal(world_count(w, "objects/repos"), 0);
}

static void the_store_computes_a_hash_that_is_not_given(void **state)
{
        struct world *w = *state;
        struct lessor_object_writer *writer;
        struct lessor_object_written written;

        assert_int_equal(lessor_object_put(w->store, SLICE("main"), none, -1, &writer), 0);
        assert_int_equal(lessor_object_write(writer, SLICE("hel")), 0);
        assert_int_equal(lessor_object_write(writer, SLICE("lo")), 0);
        assert_int_equal(lessor_object_finish(writer, w->arena, &written), 0);
        assert_true(lessor_slice_equal(written.hash, world_hash(w, SLICE("hello"))));
        assert_int_equal(written.size, 5);
        assert_false(written.was_there);
        assert_null(written.receipt.p);
        assert_int_equal(lessor_object_finish(writer, w->arena, &written), LESSOR_E_INVALID); /* once */
        lessor_object_writer_free(writer);
        assert_true(world_has(w, "main", written.hash));
}

static void a_damaged_object_of_another_size_is_replaced(void **state)
{
        struct world *w = *state;
        struct lessor_object_info info;

        assert_int_equal(world_put(w, "main", SLICE("hello")), 0);
        world_shell(w, "f=$(find objects/repos -type f) && chmod u+w $f && printf he > $f");
        assert_int_equal(world_put(w, "main", SLICE("hello")), 0);
        assert_int_equal(lessor_object_stat(w->store, SLICE("main"), world_hash(w, SLICE("hello")), &info),
                         0);
        assert_int_equal(info.size, 5);
}

static void a_full_disk_is_seen_before_it_is_full(void **state)
{
        static const struct lessor_object_stage stage = {SLICE("main"), SLICE("lease"), SLICE("attempt")};
        struct world *w = *state;
        const struct object_fs_options options = {.clock = &w->clock.clock, .low_space_bytes = INT64_MAX / 2};
        struct lessor_object_store *store;
        struct lessor_object_writer *writer;
        char *path;

        assert_true(asprintf(&path, "%s/full", w->dir) > 0);
        assert_int_equal(object_fs_open(path, &options, &store), 0);
        assert_int_equal(lessor_object_put(store, SLICE("main"), none, -1, &writer), LESSOR_E_LOW_SPACE);
        assert_int_equal(lessor_object_stage(store, &stage, world_hash(w, SLICE("x")), 1, &writer),
                         LESSOR_E_LOW_SPACE);
        lessor_object_store_free(store);
        free(path);
}

static void objects_are_listed_in_order_and_by_pages(void **state)
{
        struct world *w = *state;
        struct lessor_object_info_list all, page;
        struct lessor_slice after = none;
        size_t n = 0;

        assert_int_equal(lessor_object_list(w->store, SLICE("main"), after, 10, w->arena, &all), 0);
        assert_int_equal(all.n, 0);
        for (int i = 0; i < 300; i++) {
                char text[16];

                snprintf(text, sizeof(text), "%d", i);
                assert_int_equal(world_put(w, "main", lessor_slice_of(text)), 0);
        }
        assert_int_equal(lessor_object_list(w->store, SLICE("main"), after, 1000, w->arena, &all), 0);
        assert_int_equal(all.n, 300);
        do {
                assert_int_equal(lessor_object_list(w->store, SLICE("main"), after, 7, w->arena, &page), 0);
                for (size_t i = 0; i < page.n; i++, n++) {
                        assert_true(lessor_slice_equal(page.items[i].hash, all.items[n].hash));
                        assert_true(n == 0 || lessor_slice_cmp(all.items[n - 1].hash, all.items[n].hash) < 0);
                        after = page.items[i].hash;
                }
        } while (page.n == 7);
        assert_int_equal(n, 300);
}

static void many_are_looked_at_and_touched_at_once(void **state)
{
        struct world *w = *state;
        const struct lessor_slice hashes[] = {
                world_hash(w, SLICE("a")),
                world_hash(w, SLICE("missing")),
                SLICE("no hash"),
                world_hash(w, SLICE("bb")),
        };
        struct lessor_object_info info;
        int64_t sizes[4];

        assert_int_equal(world_put(w, "main", SLICE("a")), 0);
        assert_int_equal(world_put(w, "main", SLICE("bb")), 0);
        clock_manual_advance(&w->clock, 5000);
        assert_int_equal(lessor_object_sizes(w->store, SLICE("main"), hashes, 4, sizes), 0);
        assert_int_equal(sizes[0], 1);
        assert_int_equal(sizes[1], -1);
        assert_int_equal(sizes[2], -1);
        assert_int_equal(sizes[3], 2);
        assert_int_equal(lessor_object_stat(w->store, SLICE("main"), hashes[0], &info), 0);
        assert_int_equal(info.touched_ms, WORLD_START_MS);
        assert_int_equal(lessor_object_touch(w->store, SLICE("main"), hashes, 4, sizes), 0);
        assert_int_equal(sizes[3], 2);
        assert_int_equal(lessor_object_stat(w->store, SLICE("main"), hashes[0], &info), 0);
        assert_int_equal(info.touched_ms, WORLD_START_MS + 5000);
}

static void only_a_store_is_opened_as_one(void **state)
{
        struct world *w = *state;

        w->store = lessor_object_store_free(w->store);
        world_shell(w, "echo lessor.objects/2 > objects/format");
        assert_int_equal(world_try_open(w, NULL), LESSOR_E_NEWER);
        world_shell(w, "echo something else > objects/format");
        assert_int_equal(world_try_open(w, NULL), LESSOR_E_CORRUPT);
        world_shell(w, "rm -r objects && touch objects");
        assert_int_equal(world_try_open(w, NULL), LESSOR_E_NOT_FOUND);
}

/* A store that took half a millisecond more for each would not do for a hundred thousand of them. */
static void ten_thousand_small_objects(void **state)
{
        struct world *w = *state;
        int64_t started = clock_monotonic_ms();

        for (int i = 0; i < 10000; i++) {
                char text[16];

                snprintf(text, sizeof(text), "object %d", i);
                assert_int_equal(world_put(w, "main", lessor_slice_of(text)), 0);
        }
        print_message("%lld ms\n", (long long)(clock_monotonic_ms() - started));
        assert_int_equal(world_count(w, "objects/repos/main/objects"), 10000);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, world_setup, world_teardown)

int main(void)
{
        const struct CMUnitTest tests[] = {
                TEST(what_was_put_can_be_read),
                TEST(repositories_are_apart),
                TEST(names_that_are_none_are_refused),
                TEST(other_bytes_than_announced_leave_nothing),
                TEST(a_writer_that_is_given_up_leaves_nothing),
                TEST(the_store_computes_a_hash_that_is_not_given),
                TEST(a_damaged_object_of_another_size_is_replaced),
                TEST(a_full_disk_is_seen_before_it_is_full),
                TEST(objects_are_listed_in_order_and_by_pages),
                TEST(many_are_looked_at_and_touched_at_once),
                TEST(only_a_store_is_opened_as_one),
                TEST(ten_thousand_small_objects),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
