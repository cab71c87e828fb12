/* SPDX-License-Identifier: MIT */
#include "check.h"

#include <stdalign.h>

#include "lessor/arena.h"
#include "lessor/error.h"

static void allocations_are_zeroed_aligned_and_apart(void **state)
{
        static const size_t sizes[] = {0, 1, 7, 16, 17, 500, 3000, 70000, 1, 2048, 300000, 3};
        struct lessor_arena *a = lessor_arena_new();
        unsigned char *got[12];

        (void)state;
        assert_non_null(a);
        for (int round = 0; round < 3; round++) {
                for (size_t i = 0; i < 12; i++) {
                        got[i] = lessor_arena_alloc(a, sizes[i]);
                        assert_non_null(got[i]);
                        assert_int_equal((uintptr_t)got[i] % alignof(max_align_t), 0);
                        for (size_t k = 0; k < sizes[i]; k++)
                                assert_int_equal(got[i][k], 0);
                        memset(got[i], (int)i + 1, sizes[i]);
                }
                for (size_t i = 0; i < 12; i++) {
                        for (size_t k = 0; k < sizes[i]; k++)
                                assert_int_equal(got[i][k], i + 1);
                }
                lessor_arena_clear(a);
        }
        assert_null(lessor_arena_free(a));
}

static void a_size_that_wraps_is_out_of_memory(void **state)
{
        struct lessor_arena *a = lessor_arena_new();

        (void)state;
        assert_null(lessor_arena_alloc(a, SIZE_MAX));
        assert_null(lessor_arena_alloc(a, SIZE_MAX - 20));
        assert_null(lessor_arena_array(a, SIZE_MAX / 2, 3));
        assert_non_null(lessor_arena_array(a, 100, 3));
        lessor_arena_free(a);
}

static void a_copy_ends_with_nul_and_absence_stays(void **state)
{
        struct lessor_arena *a = lessor_arena_new();
        struct lessor_slice copy;
        char text[] = "a\0b";

        (void)state;
        assert_int_equal(lessor_arena_copy(a, (struct lessor_slice){text, 3}, &copy), 0);
        text[0] = 'x';
        assert_int_equal(copy.n, 3);
        assert_memory_equal(copy.p, "a\0b", 4);
        assert_int_equal(lessor_arena_copy(a, LESSOR_SLICE(""), &copy), 0);
        assert_non_null(copy.p);
        assert_int_equal(copy.n, 0);
        assert_int_equal(lessor_arena_copy(a, lessor_slice_of(NULL), &copy), 0);
        assert_null(copy.p);
        lessor_arena_free(a);
}

static char order[8];
static size_t n_order;

static void note(void *object)
{
        order[n_order++] = *(char *)object;
}

static void owned_objects_are_freed_once_newest_first(void **state)
{
        struct lessor_arena *a = lessor_arena_new();

        (void)state;
        n_order = 0;
        for (const char *c = "abc"; *c != '\0'; c++) {
                char *object = lessor_arena_alloc(a, 1);

                *object = *c;
                assert_int_equal(lessor_arena_own(a, object, note), 0);
        }
        lessor_arena_clear(a);
        assert_int_equal(n_order, 3);
        assert_memory_equal(order, "cba", 3);
        lessor_arena_free(a);
        assert_int_equal(n_order, 3);
}

static void freeing_nothing_is_fine(void **state)
{
        (void)state;
        assert_null(lessor_arena_free(NULL));
}

static void error_names_and_texts(void **state)
{
        static const struct {
                int code;
                const char *name, *text;
        } cases[] = {
                {0, "ok", "success"},
                {LESSOR_E_NOMEM, "nomem", "out of memory"},
                {LESSOR_E_STALE_LEASE, "stale-lease", "that lease is no longer current"},
                {LESSOR_E_UNKNOWN_ORIGIN, "unknown-origin", "the succession chain leads to no known key"},
                {LESSOR_E_ABORTED - 1, "unknown-error", "unknown error"},
                {1, "unknown-error", "unknown error"},
                {INT32_MIN, "unknown-error", "unknown error"},
        };

        (void)state;
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                assert_string_equal(lessor_error_name(cases[i].code), cases[i].name);
                assert_string_equal(lessor_error_text(cases[i].code), cases[i].text);
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(allocations_are_zeroed_aligned_and_apart),
                cmocka_unit_test(a_size_that_wraps_is_out_of_memory),
                cmocka_unit_test(a_copy_ends_with_nul_and_absence_stays),
                cmocka_unit_test(owned_objects_are_freed_once_newest_first),
                cmocka_unit_test(freeing_nothing_is_fine),
                cmocka_unit_test(error_names_and_texts),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
