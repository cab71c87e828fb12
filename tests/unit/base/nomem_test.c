/* SPDX-License-Identifier: MIT */
#include "check.h"

#include <stdbool.h>
#include <stdlib.h>

#include "base/buf.h"
#include "base/encode.h"
#include "base/json_read.h"
#include "base/json_write.h"
#include "lessor/arena.h"
#include "lessor/error.h"

void *__real_malloc(size_t n);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *p, size_t n);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *p, size_t n);

/* The allocation that fails, counted down; -1 for none. Everything after it succeeds again. */
static long countdown = -1;
static bool has_failed;

/* No allocation larger than this succeeds. */
static size_t largest = SIZE_MAX;

static bool fails(size_t n)
{
        if (n > largest)
                return true;
        if (countdown < 0 || countdown-- > 0)
                return false;
        has_failed = true;
        return true;
}

void *__wrap_malloc(size_t n)
{
        return fails(n) ? NULL : __real_malloc(n);
}

void *__wrap_calloc(size_t count, size_t size)
{
        return fails(count * size) ? NULL : __real_calloc(count, size);
}

void *__wrap_realloc(void *p, size_t n)
{
        return fails(n) ? NULL : __real_realloc(p, n);
}

/* Runs `work` with its first allocation failing, then its second, and so on until it needs no more. */
static void fail_each(int (*work)(void))
{
        long step = 0;

        for (;; step++) {
                int r;

                has_failed = false;
                countdown = step;
                r = work();
                countdown = -1;
                if (!has_failed) {
                        assert_int_equal(r, 0);
                        break;
                }
                if (r != LESSOR_E_NOMEM)
                        fail_msg("allocation %ld failed, and the answer was %d", step, r);
        }
        assert_true(step > 0);
}

static int freed;

static void count_freed(void *object)
{
        (void)object;
        freed++;
}

static int use_arena(void)
{
        struct lessor_arena *a = lessor_arena_new();
        struct lessor_slice copy;
        int r = a == NULL ? LESSOR_E_NOMEM : 0, owned = 0;

        for (int i = 0; r == 0 && i < 40; i++) {
                r = lessor_arena_copy(a, LESSOR_SLICE("some text"), &copy);
                if (r == 0 && lessor_arena_alloc(a, (size_t)i * 100) == NULL)
                        r = LESSOR_E_NOMEM;
                if (r == 0 && lessor_arena_array(a, 3, 2000) == NULL)
                        r = LESSOR_E_NOMEM;
                if (r == 0)
                        r = lessor_arena_own(a, a, count_freed);
                if (r == 0)
                        owned++;
        }
        freed = 0;
        lessor_arena_free(a);
        assert_int_equal(freed, owned);
        return r;
}

static void arena_survives_each_failure(void **state)
{
        (void)state;
        fail_each(use_arena);
}

static int use_buf(void)
{
        struct json_writer w;
        struct buf b;
        int r;

        buf_init(&b);
        json_writer_init(&w, &b);
        json_open_object(&w);
        for (int i = 0; i < 100; i++) {
                json_member_text(&w, "text", LESSOR_SLICE("with \"quotes\" and \x01"));
                json_member_int(&w, "int", i);
                buf_printf(&b, "%d %s", i, "a text of some length, so that it has to grow");
                hex_append(&b, "abc", 3);
                base64url_append(&b, "abc", 3);
        }
        json_close_object(&w);
        r = buf_failed(&b);
        assert_true(r == 0 || b.p == NULL || strlen(b.p) == b.n);
        buf_done(&b);
        return r;
}

static void buf_survives_each_failure(void **state)
{
        (void)state;
        fail_each(use_buf);
}

/* How much of the arena is used before it is used for JSON, so that each allocation in turn is a new block's.
 */
static size_t used_before;

static int use_json(void)
{
        struct lessor_slice text =
                LESSOR_SLICE("{\"a\":[1,2,3,\"a text with an \\u0065scape in it\",{\"b\":null}],\"c\":1e400,"
                             "\"d\":0.1234567890123456789012345678901234567890123456789012345678901234567890,"
                             "\"f\":{\"k1\":1,\"k2\":1,\"k3\":1,\"k4\":1,\"k5\":1,\"k6\":1,\"k7\":1,\"k8\":1,"
                             "\"k9\":1,\"k10\":1,\"k11\":1,\"k12\":1,\"k13\":1,\"k14\":1,\"k15\":1,\"k16\":1,"
                             "\"k17\":1}}");
        struct lessor_arena *a = lessor_arena_new();
        struct lessor_slice bytes;
        const char *problem = NULL;
        struct json *value;
        int r;

        if (a == NULL)
                return LESSOR_E_NOMEM;
        r = lessor_arena_alloc(a, used_before) == NULL ? LESSOR_E_NOMEM : 0;
        if (r == 0)
                r = json_read(text, a, &value);
        if (r == 0)
                r = json_read_copy(text, a, &value);
        if (r == 0)
                r = json_read_file_text(text, a, &value, &problem);
        if (r == 0)
                r = base64url_read_lenient(LESSOR_SLICE("AAAA"), a, &bytes);
        lessor_arena_free(a);
        return r;
}

static void json_reading_survives_each_failure(void **state)
{
        (void)state;
        for (used_before = 0; used_before < 2048; used_before += 16)
                fail_each(use_json);
}

/* Large requests are refused and small ones are not. */
static void a_string_that_cannot_be_saved_is_out_of_memory(void **state)
{
        struct lessor_arena *a = lessor_arena_new();
        struct buf b;
        struct json *value;

        (void)state;
        buf_init(&b);
        buf_char(&b, '"');
        for (int i = 0; i < 100000; i++)
                buf_char(&b, 'x');
        buf_char(&b, '"');
        for (largest = 64; largest < 100000; largest *= 2)
                assert_int_equal(json_read_copy(buf_view(&b), a, &value), LESSOR_E_NOMEM);
        largest = SIZE_MAX;
        assert_int_equal(json_read_copy(buf_view(&b), a, &value), 0);
        assert_int_equal(json_text(value).n, 100000);
        buf_done(&b);
        lessor_arena_free(a);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(arena_survives_each_failure),
                cmocka_unit_test(buf_survives_each_failure),
                cmocka_unit_test(json_reading_survives_each_failure),
                cmocka_unit_test(a_string_that_cannot_be_saved_is_out_of_memory),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
