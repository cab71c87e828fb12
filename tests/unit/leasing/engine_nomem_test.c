/* SPDX-License-Identifier: MIT */
/* A history in which every single allocation fails once: the engine says so, and answers as if nothing had
 * been. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
/* cmocka wants those before it */
#include <cmocka.h>

#include "history.h"

void *__real_malloc(size_t n);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *p, size_t n);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *p, size_t n);

/* The allocation that fails, counted down; -1 for none. */
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

static const unsigned char key[LEASE_ENGINE_HASH_KEY_BYTES] = "a key for tests";

static struct lease_engine *engine(void)
{
        struct lease_engine *e;

        assert_int_equal(lease_engine_new(&history_options, key, NULL, &e), 0);
        return e;
}

#define CAP 262144

/* Lets each of the step's allocations fail until one try meets none; a growing table does without. */
static unsigned try_hard(struct history *h, const struct step *step, struct lease_engine *e, char *text,
                         int *ret_code)
{
        unsigned n_failures = 0;

        for (long i = 0;; i++) {
                struct lessor_arena *arena;

                arena = lessor_arena_new();
                assert_non_null(arena);
                has_failed = false;
                countdown = i;
                history_do(h, step, e, arena, false, ret_code, text, CAP);
                countdown = -1;
                lessor_arena_free(arena);
                lease_engine_check(e);
                if (*ret_code != LESSOR_E_NOMEM)
                        break;
                assert_true(has_failed);
                n_failures++;
                assert_true(i < 100000);
        }
        return n_failures;
}

static void a_call_that_runs_out_of_memory_changes_nothing(void **state)
{
        struct lease_engine *lucky = engine(), *poor = engine();
        char *a = malloc(CAP), *b = malloc(CAP);
        unsigned n_failures = 0;
        struct history h;

        (void)state;
        assert_true(a != NULL && b != NULL);
        history_init(&h, 7);
        for (unsigned i = 0; i < 1500; i++) {
                struct lessor_arena *arena = lessor_arena_new();
                struct lease_engine_event event;
                struct step step = history_next(&h);
                int x, y;

                n_failures += try_hard(&h, &step, poor, b, &y);
                history_do(&h, &step, lucky, arena, true, &x, a, CAP);
                if (x != y || strcmp(a, b) != 0)
                        fail_msg("\n%s\n%s", a, b);
                while (lease_engine_change_drop(lucky))
                        ;
                while (lease_engine_change_drop(poor))
                        ;
                while (lease_engine_event_take(lucky, &event))
                        lease_engine_event_done(lucky, &event);
                while (lease_engine_event_take(poor, &event))
                        lease_engine_event_done(poor, &event);
                lessor_arena_free(arena);
        }
        assert_true(n_failures > 1000);
        lease_engine_free(lucky);
        lease_engine_free(poor);
        free(a);
        free(b);
}

static void an_engine_that_cannot_be_made_says_so(void **state)
{
        struct lease_engine *e = NULL;
        long i = 0;
        int r;

        (void)state;
        do {
                countdown = i++;
                r = lease_engine_new(&history_options, key, NULL, &e);
                countdown = -1;
                assert_true(r == 0 || r == LESSOR_E_NOMEM);
        } while (r < 0);
        assert_true(i > 10);
        lease_engine_free(e);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(a_call_that_runs_out_of_memory_changes_nothing),
                cmocka_unit_test(an_engine_that_cannot_be_made_says_so),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
