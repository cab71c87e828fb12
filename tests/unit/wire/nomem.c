/* SPDX-License-Identifier: MIT */
#include "nomem.h"

#include <stdlib.h>

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

static bool fails(void)
{
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

void fail_each(int (*work)(struct lessor_arena *arena), int otherwise)
{
        for (long step = 0;; step++) {
                struct lessor_arena *arena = lessor_arena_new();
                int e;

                assert_non_null(arena);
                has_failed = false;
                countdown = step;
                e = work(arena);
                countdown = -1;
                lessor_arena_free(arena);
                if (!has_failed) {
                        assert_int_equal(e, otherwise);
                        assert_true(step > 0);
                        return;
                }
                /* A message that is wrong may still be called wrong when there is no memory to say why. */
                if (e != LESSOR_E_NOMEM && e != otherwise)
                        fail_msg("allocation %ld failed, and the answer was %d", step, e);
                if (otherwise == 0)
                        assert_int_equal(e, LESSOR_E_NOMEM);
        }
}
