/* SPDX-License-Identifier: MIT */
/* What those who hold a ticket are told when the disk breaks, and by whom. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "fault_vfs.h"
#include "leasing/sqlite.h"
#include "scratch.h"

struct broken {
        struct clock_manual clock;
        struct lessor_lease_store *store;
        struct lessor_arena *arena;
        char *dir;
        pthread_mutex_t lock;
        pthread_cond_t changed;
        int n_told, result;
        pthread_t teller;
};

static int setup(void **state)
{
        const struct lease_sqlite_options options = {.vfs = FAULT_VFS_NAME, .low_space_bytes = 1};
        struct broken *b = calloc(1, sizeof(*b));
        struct buf problem;

        assert_non_null(b);
        buf_init(&problem);
        clock_manual_init(&b->clock, INT64_C(1760000000000));
        b->arena = lessor_arena_new();
        b->dir = scratch_dir_new("ticket");
        (void)pthread_mutex_init(&b->lock, NULL);
        (void)pthread_cond_init(&b->changed, NULL);
        assert_int_equal(
                lease_sqlite_store_new(b->dir, NULL, &b->clock.clock, NULL, &options, &b->store, &problem),
                0);
        buf_done(&problem);
        *state = b;
        return 0;
}

static int teardown(void **state)
{
        struct broken *b = *state;

        fault_vfs_heal();
        lessor_lease_store_free(b->store);
        lessor_arena_free(b->arena);
        scratch_dir_free(b->dir);
        free(b);
        return 0;
}

static void told(void *context, int result)
{
        struct broken *b = context;

        (void)pthread_mutex_lock(&b->lock);
        b->n_told++;
        b->result = result;
        b->teller = pthread_self();
        (void)pthread_cond_signal(&b->changed);
        (void)pthread_mutex_unlock(&b->lock);
}

static void wait_told(struct broken *b, int n)
{
        (void)pthread_mutex_lock(&b->lock);
        while (b->n_told < n)
                (void)pthread_cond_wait(&b->changed, &b->lock);
        (void)pthread_mutex_unlock(&b->lock);
        assert_int_equal(b->n_told, n);
        assert_int_equal(b->result, LESSOR_E_UNAVAILABLE);
        assert_false(pthread_equal(b->teller, pthread_self()));
}

static int create(struct broken *b, const char *task, struct lessor_ticket *ticket)
{
        const struct lessor_lease_submission from = {.repo = LESSOR_SLICE("repo"),
                                                     .workspace = LESSOR_SLICE("w"),
                                                     .task_name = LESSOR_SLICE("n"),
                                                     .task_hash = lessor_slice_of(task),
                                                     .inputs_hash = LESSOR_SLICE("i"),
                                                     .tier = LESSOR_SLICE("c"),
                                                     .owner = LESSOR_SLICE("o"),
                                                     .event_version = LESSOR_EVENT_VERSION,
                                                     .event = LESSOR_SLICE("{}")};
        struct lessor_lease lease;

        return lessor_lease_create(b->store, &from, b->arena, &lease, NULL, ticket);
}

static void a_ticket_on_a_broken_disk_is_told_no_by_the_store(void **state)
{
        struct broken *b = *state;
        struct lessor_ticket ticket, later;
        const struct lessor_lease_query all = {.max = 9};
        struct lessor_lease_list leases;

        fault_vfs_arm(1, FAULT_FULL, true);
        assert_int_equal(create(b, "a", &ticket), 0);
        assert_int_equal(lessor_lease_when_durable(b->store, ticket, told, b), 0);
        wait_told(b, 1);
        /* While it lasts: refused at once, and told so too, never from within the call. */
        assert_int_equal(create(b, "b", &later), LESSOR_E_UNAVAILABLE);
        assert_int_equal(lessor_lease_list(b->store, &all, b->arena, &leases, &later), LESSOR_E_UNAVAILABLE);
        assert_int_equal(lessor_lease_check(b->store), LESSOR_E_UNAVAILABLE);
        assert_int_equal(lessor_lease_when_durable(b->store, ticket, told, b), 0);
        wait_told(b, 2);

        fault_vfs_heal();
        while (lessor_lease_check(b->store) == LESSOR_E_UNAVAILABLE)
                (void)usleep(1000); /* as a probe that comes again */
        /* What was decided, and told to nobody, was kept. */
        assert_int_equal(lessor_lease_when_durable(b->store, ticket, told, b), 1);
        assert_int_equal(lessor_lease_list(b->store, &all, b->arena, &leases, NULL), 0);
        assert_int_equal(leases.n, 1);
        assert_int_equal(b->n_told, 2);
}

static void a_store_on_a_broken_disk_ends_all_the_same(void **state)
{
        struct broken *b = *state;
        struct lessor_ticket ticket;

        fault_vfs_arm(1, FAULT_IO, true);
        assert_int_equal(create(b, "a", &ticket), 0);
        assert_int_equal(lessor_lease_when_durable(b->store, ticket, told, b), 0);
        b->store = lessor_lease_store_free(b->store);
        wait_told(b, 1);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(a_ticket_on_a_broken_disk_is_told_no_by_the_store, setup,
                                                teardown),
                cmocka_unit_test_setup_teardown(a_store_on_a_broken_disk_ends_all_the_same, setup, teardown),
        };

        log_set_level(LOG_LEVEL_ERROR + 1);
        fault_vfs_register();
        return cmocka_run_group_tests(tests, NULL, NULL);
}
