/* SPDX-License-Identifier: MIT */
#include "world.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/macro.h"
#include "routing/directory/pairing.h"
#include "routing/sqlite.h"

/* The directory and the pairing table write into the file that the routing store writes into, at the same
 * time. */

#define N_ROUNDS 25

struct busy {
        struct lessor_routing_store *store;
        atomic_int n_enqueued;
        int error;
};

static void *enqueue_much(void *context)
{
        struct busy *b = context;
        struct lessor_arena *arena = lessor_arena_new();

        for (int i = 0; i < N_ROUNDS && b->error == 0 && arena != NULL; i++) {
                struct lessor_stub stub = {.kind = LESSOR_KIND_LLM_CHAT,
                                           .owner = S("ann"),
                                           .site = S("BYOLLM-X"),
                                           .deadline_ms = INT64_C(4102444800000)};
                struct lessor_job job;
                char id[32];

                (void)snprintf(id, sizeof(id), "job-%d", i);
                stub.id = S(id);
                b->error = lessor_routing_enqueue(b->store, S("s"), &stub, arena, &job, NULL);
                atomic_fetch_add(&b->n_enqueued, 1);
        }
        lessor_arena_free(arena);
        return NULL;
}

static void open_store(const char *dir, struct lessor_routing_store **ret_store)
{
        struct buf problem;

        buf_init(&problem);
        if (sqlite_store_new(dir, clock_steady(), NULL, NULL, ret_store, &problem) < 0)
                fail_msg("%s", buf_view(&problem).p);
        buf_done(&problem);
}

static void three_writers_share_the_file(void **state)
{
        struct world *w = *state;
        const char *path = path_in(w, SQLITE_STORE_FILE);
        struct busy busy = {0};
        struct projection_cell cell;
        struct directory *d;
        struct pairing_table *t;
        struct directory_consent_list consents;
        struct lessor_job_list jobs;
        struct pairing_list pairings;
        struct buf problem;
        pthread_t thread;

        buf_init(&problem);
        projection_cell_init(&cell);
        open_store(w->dir, &busy.store);
        assert_int_equal(directory_open(path, &cell, NULL, &d, &problem), 0);
        assert_int_equal(pairing_open(path, &t, &problem), 0);
        assert_int_equal(directory_site_add(d, S("s"), identity_of(fresh_keys(w->arena)), 1), 0);
        assert_int_equal(pthread_create(&thread, NULL, enqueue_much, &busy), 0);
        for (int i = 0; i < N_ROUNDS; i++) {
                unsigned char random[PAIRING_RANDOM_BYTES] = {(unsigned char)i, [36] = (unsigned char)i};
                struct pairing_request request = {.version = S("1"),
                                                  .label = S("l"),
                                                  .platform = S("linux"),
                                                  .capabilities = S("[]"),
                                                  .device = {S("i"), S("e"), S("s")}};
                struct pairing_codes codes;
                char name[32];

                (void)snprintf(name, sizeof(name), "owner-%d", i);
                request.device.identity = S(name);
                assert_int_equal(directory_consent_add(d, S(name), S("s"), NULL, 0, 1), 0);
                assert_int_equal(pairing_start(t, &request, random, 1, &codes), 0);
        }
        pthread_join(thread, NULL);
        assert_int_equal(busy.error, 0);
        directory_free(d);
        pairing_free(t);
        lessor_routing_store_free(busy.store);

        open_store(w->dir, &busy.store);
        assert_int_equal(directory_open(path, &cell, NULL, &d, &problem), 0);
        assert_int_equal(pairing_open(path, &t, &problem), 0);
        assert_int_equal(directory_consents(d, S(NULL), w->arena, &consents), 0);
        assert_int_equal(consents.n, N_ROUNDS);
        assert_int_equal(pairing_list(t, 1, w->arena, &pairings), 0);
        assert_int_equal(pairings.n, N_ROUNDS);
        assert_int_equal(lessor_routing_jobs(busy.store, NULL, 1000, w->arena, &jobs, NULL), 0);
        assert_int_equal(jobs.n, N_ROUNDS);
        directory_free(d);
        pairing_free(t);
        lessor_routing_store_free(busy.store);
        projection_cell_done(&cell);
        buf_done(&problem);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(three_writers_share_the_file, world_setup, world_teardown),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
