/* SPDX-License-Identifier: MIT */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "plane/log_watch.h"

struct reader {
        struct log_watcher watcher;
        atomic_int n_woken;
};

static void grew(struct log_watcher *watcher)
{
        atomic_fetch_add(&container_of(watcher, struct reader, watcher)->n_woken, 1);
}

static void watch(struct log_watch *w, struct reader *reader, const char *execution)
{
        reader->watcher.grew = grew;
        reader->watcher.execution_id = lessor_slice_of(execution);
        log_watch_add(w, &reader->watcher);
}

static void those_who_watch_an_attempt_are_told_of_it_alone(void **state)
{
        struct log_watch *w = log_watch_new();
        struct reader a = {.n_woken = 0}, b = {.n_woken = 0}, other = {.n_woken = 0};

        (void)state;
        assert_non_null(w);
        log_watch_wake(w, LESSOR_SLICE("one")); /* nobody is there */
        watch(w, &a, "one");
        watch(w, &b, "one");
        watch(w, &other, "two");
        log_watch_wake(w, LESSOR_SLICE("one"));
        assert_int_equal(a.n_woken, 1);
        assert_int_equal(b.n_woken, 1);
        assert_int_equal(other.n_woken, 0);
        log_watch_remove(w, &a.watcher);
        log_watch_wake(w, LESSOR_SLICE("one"));
        assert_int_equal(a.n_woken, 1);
        assert_int_equal(b.n_woken, 2);
        log_watch_remove(w, &b.watcher);
        log_watch_remove(w, &other.watcher);
        log_watch_free(w);
        log_watch_wake(NULL, LESSOR_SLICE("one"));
}

static void the_end_of_an_attempt_wakes_its_readers(void **state)
{
        struct log_watch *w = log_watch_new();
        struct reader reader = {.n_woken = 0};

        (void)state;
        watch(w, &reader, "one");
        log_watch_heard(w, &(struct lessor_lease_event){.kind = LESSOR_EVENT_EXTENDED,
                                                        .execution_id = LESSOR_SLICE("one")});
        log_watch_heard(w, &(struct lessor_lease_event){.kind = LESSOR_EVENT_CLAIMABLE});
        assert_int_equal(reader.n_woken, 0);
        log_watch_heard(w, &(struct lessor_lease_event){.kind = LESSOR_EVENT_COMPLETED,
                                                        .execution_id = LESSOR_SLICE("one")});
        assert_int_equal(reader.n_woken, 1);
        log_watch_remove(w, &reader.watcher);
        log_watch_free(w);
}

static void gone(struct log_watcher *watcher)
{
        (void)watcher;
        abort();
}

static void *wake_often(void *context)
{
        for (int i = 0; i < 20000; i++)
                log_watch_wake(context, LESSOR_SLICE("one"));
        return NULL;
}

/* A reader that is gone is never woken again, however close the wake was. */
static void readers_come_and_go_while_others_wake(void **state)
{
        struct log_watch *w = log_watch_new();
        pthread_t thread;

        (void)state;
        assert_int_equal(pthread_create(&thread, NULL, wake_often, w), 0);
        for (int i = 0; i < 5000; i++) {
                struct reader reader = {.n_woken = 0};

                watch(w, &reader, "one");
                log_watch_remove(w, &reader.watcher);
                reader.watcher.grew = gone;
        }
        pthread_join(thread, NULL);
        log_watch_free(w);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(those_who_watch_an_attempt_are_told_of_it_alone),
                cmocka_unit_test(the_end_of_an_attempt_wakes_its_readers),
                cmocka_unit_test(readers_come_and_go_while_others_wake),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
