/* SPDX-License-Identifier: MIT */
#include "fixture.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/macro.h"

#define LATER (START_MS + INT64_C(3600000))

static int setup(void **state)
{
        struct fixture *f = calloc(1, sizeof(*f));

        assert_non_null(f);
        fixture_init(f);
        fixture_open(f);
        *state = f;
        return 0;
}

static int teardown(void **state)
{
        fixture_done(*state);
        free(*state);
        return 0;
}

static void same_text(struct lessor_slice got, struct lessor_slice want)
{
        if (!lessor_slice_equal(got, want))
                fail_msg("got:%.*s\nwant:%.*s", (int)got.n, got.p, (int)want.n, want.p);
}

/* Jobs in every state, barred, stuck, cancelled, and devices. */
static void make_history(struct fixture *f)
{
        struct lessor_job_list granted;
        struct lessor_lease_ref ref;
        struct lessor_lease_ref_list released;
        struct lessor_release release = {.runner_id = LESSOR_SLICE("r1"), .leases = &ref, .n_leases = 1};

        fixture_seen(f, "r1", "[1]");
        fixture_seen(f, "r2", "[2]");
        for (const char *id = "a\0b\0c\0d\0e\0f\0g\0"; *id != '\0'; id += 2)
                assert_int_equal(fixture_enqueue(f, id, LATER + *id), 0);
        assert_int_equal(fixture_claim(f, "r1", 2, &granted), 2);
        /* a: its window passes, so it sticks to r1. b: sealed. */
        fixture_seal(f, &granted.items[1], LESSOR_SLICE("payload of b"));
        clock_manual_advance(&f->clock, LESSOR_AWAITING_PAYLOAD_MS);
        /* c, d: done and running; a again: awaiting. */
        assert_int_equal(fixture_claim(f, "r2", 2, &granted), 2);
        fixture_seal(f, &granted.items[0], LESSOR_SLICE("payload of c"));
        fixture_complete(f, &granted.items[0], LESSOR_SLICE("result of c"));
        fixture_seal(f, &granted.items[1], LESSOR_SLICE("payload of d"));
        (void)fixture_fetch(f, &granted.items[1]);
        assert_int_equal(lessor_routing_cancel(f->store, SITE, LESSOR_SLICE("d"), NULL), 0);
        /* e: refused for good by r1, and f barred from it for a while. */
        assert_int_equal(fixture_claim(f, "r1", 2, &granted), 2);
        ref = (struct lessor_lease_ref){granted.items[1].stub.id, granted.items[1].lease_id};
        release.refused = true;
        assert_int_equal(lessor_routing_release_leases(f->store, &release, f->arena, &released, NULL), 0);
        assert_int_equal(fixture_claim(f, "r1", 1, &granted), 1);
        ref = (struct lessor_lease_ref){granted.items[0].stub.id, granted.items[0].lease_id};
        release.refused = false;
        release.retry_after_ms = START_MS + 500000;
        assert_int_equal(lessor_routing_release_leases(f->store, &release, f->arena, &released, NULL), 0);
}

static void a_restart_changes_nothing(void **state)
{
        struct fixture *f = *state;
        struct lessor_slice before;

        make_history(f);
        before = fixture_text(f);
        for (int i = 0; i < 3; i++) {
                fixture_close(f);
                fixture_open(f);
                same_text(fixture_text(f), before);
        }
        assert_int_equal(fixture_stats(f).n_set_aside, 0);
        assert_int_equal(fixture_stats(f).n_presence, 2);
}

static void what_ends_leaves_no_row_behind(void **state)
{
        struct fixture *f = *state;
        struct lessor_swept swept;

        make_history(f);
        clock_manual_advance(&f->clock, 7200000);
        assert_int_equal(lessor_routing_sweep(f->store, f->arena, &swept, NULL), 0);
        assert_int_equal(swept.n_removed, 7);
        fixture_close(f);
        fixture_open(f); /* which forgets devices that hold nothing */
        fixture_close(f);
        assert_int_equal(fixture_sql_int(f, "SELECT (SELECT count(*) FROM routing_job)"
                                            " + (SELECT count(*) FROM routing_state)"
                                            " + (SELECT count(*) FROM routing_bar)"
                                            " + (SELECT count(*) FROM routing_holder)"
                                            " + (SELECT count(*) FROM routing_envelope)"),
                         0);
}

static void only_envelopes_that_may_be_asked_for_are_kept(void **state)
{
        struct fixture *f = *state;

        make_history(f);
        fixture_close(f);
        /* b's and d's payload, c's result; c's payload is done with. */
        assert_int_equal(fixture_sql_int(f, "SELECT count(*) FROM routing_envelope"), 3);
        assert_int_equal(fixture_sql_int(f, "SELECT count(*) FROM routing_envelope WHERE direction='result'"),
                         1);
}

static void envelopes_come_back_as_they_were(void **state)
{
        static const size_t sizes[] = {0, 1, 4000, 65536, 65537, 6291456};
        struct fixture *f = *state;
        char *bytes = malloc(6291456);

        assert_non_null(bytes);
        for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
                struct lessor_slice text = {bytes, sizes[i]};
                struct lessor_result_list results;
                struct lessor_job_list granted;
                struct lessor_slice *acked;
                size_t n_acked;
                char id[16];

                for (size_t at = 0; at < sizes[i]; at++)
                        bytes[at] = (char)('a' + (at * 7 + at / 251 + i) % 26);
                (void)snprintf(id, sizeof(id), "job-%zu", i);
                assert_int_equal(fixture_enqueue(f, id, LATER), 0);
                assert_int_equal(fixture_claim(f, "r1", 1, &granted), 1);
                fixture_seal(f, &granted.items[0], text);
                assert_true(lessor_slice_equal(fixture_fetch(f, &granted.items[0]), text));
                fixture_close(f);
                fixture_open(f);
                assert_true(lessor_slice_equal(fixture_fetch(f, &granted.items[0]), text));
                fixture_complete(f, &granted.items[0], text);
                assert_int_equal(lessor_routing_finished(f->store, SITE, 1, f->arena, &results, NULL), 0);
                assert_int_equal(results.n, 1);
                assert_true(lessor_slice_equal(results.items[0].envelope.json, text));
                assert_int_equal(lessor_routing_ack(f->store, SITE, &granted.items[0].stub.id, 1, f->arena,
                                                    &acked, &n_acked, NULL),
                                 0);
                assert_int_equal(n_acked, 1);
        }
        free(bytes);
}

/* The pages of what is gone are used again: the file does not grow with what passes through it. */
static void the_file_does_not_grow_with_what_passes(void **state)
{
        struct fixture *f = *state;
        struct lessor_slice text = {calloc(1, 1 << 20), 1 << 20};
        int64_t pages[2] = {0, 0};

        assert_non_null(text.p);
        memset((void *)(uintptr_t)text.p, 'x', text.n);
        for (int i = 0; i < 24; i++) {
                struct lessor_job_list granted;

                assert_int_equal(fixture_enqueue(f, "job", START_MS + 1000 * (i + 1)), 0);
                assert_int_equal(fixture_claim(f, "r1", 1, &granted), 1);
                fixture_seal(f, &granted.items[0], text);
                clock_manual_advance(&f->clock, 1000);
                assert_int_equal(lessor_routing_sweep(f->store, f->arena, NULL, NULL), 0);
                if (i == 3)
                        pages[0] = fixture_sql_int(f, "PRAGMA page_count");
        }
        pages[1] = fixture_sql_int(f, "PRAGMA page_count");
        assert_true(pages[1] <= pages[0] + 16);
        free((void *)(uintptr_t)text.p);
}

static void results_stop_at_the_limit(void **state)
{
        struct fixture *f = *state;
        struct lessor_result_list results;
        struct lessor_job_list granted;

        for (const char *id = "a\0b\0c\0"; *id != '\0'; id += 2) {
                assert_int_equal(fixture_enqueue(f, id, LATER), 0);
                assert_int_equal(fixture_claim(f, "r1", 1, &granted), 1);
                fixture_complete(f, &granted.items[0], LESSOR_SLICE("ten bytes."));
        }
        assert_int_equal(lessor_routing_finished(f->store, SITE, 25, f->arena, &results, NULL), 0);
        assert_int_equal(results.n, 2);
        assert_true(results.more);
        assert_int_equal(lessor_routing_finished(f->store, SITE, 0, f->arena, &results, NULL), 0);
        assert_int_equal(results.n, 1); /* one at least */
        assert_true(lessor_slice_equal(results.items[0].job.stub.id, LESSOR_SLICE("a")));
        assert_int_equal(lessor_routing_finished(f->store, SITE, 30, f->arena, &results, NULL), 0);
        assert_int_equal(results.n, 3);
        assert_false(results.more);
}

/* --- space --- */

static uint64_t tell_free(void *context)
{
        return atomic_load((atomic_uint_fast64_t *)context);
}

static void low_space_refuses_new_jobs_alone(void **state)
{
        struct fixture *f = *state;
        static atomic_uint_fast64_t free_bytes;
        struct lessor_job_list granted;

        fixture_close(f);
        f->options.low_space_bytes = 1000;
        f->options.free_bytes = tell_free;
        f->options.free_context = &free_bytes;
        atomic_store(&free_bytes, 1000);
        fixture_open(f);
        assert_int_equal(fixture_enqueue(f, "a", LATER), 0);
        assert_int_equal(lessor_routing_check(f->store), 0);

        fixture_close(f);
        atomic_store(&free_bytes, 999);
        fixture_open(f);
        assert_int_equal(fixture_enqueue(f, "b", LATER), LESSOR_E_LOW_SPACE);
        assert_int_equal(lessor_routing_check(f->store), LESSOR_E_LOW_SPACE);
        assert_int_equal(fixture_enqueue(f, "a", LATER), 0); /* known */
        assert_int_equal(fixture_claim(f, "r1", 1, &granted), 1);
        fixture_seal(f, &granted.items[0], LESSOR_SLICE("payload"));
        fixture_complete(f, &granted.items[0], LESSOR_SLICE("result"));
        fixture_close(f);
        atomic_store(&free_bytes, 1001);
        fixture_open(f);
        assert_int_equal(lessor_routing_check(f->store), 0);
        assert_int_equal(fixture_enqueue(f, "b", LATER), 0);
}

/* --- presence --- */

static void a_device_is_on_disk_at_first_sight(void **state)
{
        struct fixture *f = *state;

        fixture_seen(f, "r1", "[1]");
        assert_int_equal(fixture_sql_int(f, "SELECT count(*) FROM routing_presence WHERE identity='I'"), 1);
}

static void later_sights_are_written_in_their_own_time(void **state)
{
        struct fixture *f = *state;
        struct lessor_presence presence;

        fixture_close(f);
        f->options.presence_ms = INT64_C(3600000);
        fixture_open(f);
        fixture_seen(f, "r1", "[1]");
        clock_manual_advance(&f->clock, 5000);
        fixture_seen(f, "r1", "[2]");
        assert_int_equal(lessor_routing_check(f->store), 0);
        assert_int_equal(fixture_sql_int(f, "SELECT last_seen_ms FROM routing_presence"), START_MS);
        fixture_close(f); /* an orderly end loses nothing */
        fixture_open(f);
        assert_int_equal(lessor_routing_presence(f->store, LESSOR_SLICE("r1"), f->arena, &presence, NULL), 0);
        assert_int_equal(presence.last_seen_ms, START_MS + 5000);
        assert_true(lessor_slice_equal(presence.capabilities, LESSOR_SLICE("[2]")));

        fixture_close(f);
        f->options.presence_ms = -1; /* due at once */
        fixture_open(f);
        clock_manual_advance(&f->clock, 5000);
        fixture_seen(f, "r1", "[3]");
        assert_int_equal(lessor_routing_check(f->store), 0);
        assert_int_equal(fixture_sql_int(f, "SELECT last_seen_ms FROM routing_presence"), START_MS + 10000);
}

/* --- tickets --- */

struct telling {
        pthread_mutex_t lock;
        pthread_cond_t changed;
        int n_told;
        int result;
        unsigned n_awaiting;
};

static void told(void *context, int result)
{
        struct telling *t = context;

        (void)pthread_mutex_lock(&t->lock);
        t->n_told++;
        t->result = result;
        (void)pthread_cond_signal(&t->changed);
        (void)pthread_mutex_unlock(&t->lock);
}

static void a_ticket_is_told_once(void **state)
{
        struct fixture *f = *state;
        struct telling t = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};
        int n_waited = 0;

        for (int i = 0; i < 200; i++) {
                const struct lessor_slice id = {&"0123456789abcdefghijklmnopqrstuvwxyz"[i % 36], 1};
                struct lessor_stub stub = {.id = id,
                                           .owner = LESSOR_SLICE("o"),
                                           .site = LESSOR_SLICE("K"),
                                           .deadline_ms = START_MS + 1};
                struct lessor_ticket ticket;
                struct lessor_job job;
                int r;

                assert_int_equal(lessor_routing_sweep(f->store, f->arena, NULL, NULL), 0);
                r = lessor_routing_enqueue(f->store, SITE, &stub, f->arena, &job, &ticket);
                assert_int_equal(r, 0);
                r = lessor_routing_when_durable(f->store, ticket, told, &t);
                assert_true(r == 0 || r == 1);
                n_waited += r == 0;
                clock_manual_advance(&f->clock, 1);
        }
        (void)pthread_mutex_lock(&t.lock);
        while (t.n_told < n_waited)
                (void)pthread_cond_wait(&t.changed, &t.lock);
        (void)pthread_mutex_unlock(&t.lock);
        assert_int_equal(t.result, 0);
        fixture_close(f);
        assert_int_equal(t.n_told, n_waited);
}

static void nothing_written_needs_no_waiting(void **state)
{
        struct fixture *f = *state;
        struct lessor_ticket ticket = {1};
        struct lessor_job_list jobs;

        assert_int_equal(fixture_enqueue(f, "a", LATER), 0);
        assert_int_equal(lessor_routing_jobs(f->store, NULL, 10, f->arena, &jobs, &ticket), 0);
        assert_int_equal(lessor_routing_when_durable(f->store, ticket, told, NULL), 1);
}

static void heard_awaiting(void *context, struct lessor_slice site_id)
{
        struct telling *t = context;

        assert_true(lessor_slice_equal(site_id, SITE));
        (void)pthread_mutex_lock(&t->lock);
        t->n_awaiting++;
        (void)pthread_cond_signal(&t->changed);
        (void)pthread_mutex_unlock(&t->lock);
}

static void the_listener_hears_of_claims(void **state)
{
        struct fixture *f = *state;
        struct telling t = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};
        struct lessor_job_list granted;

        fixture_close(f);
        f->listener = (struct lessor_routing_listener){.context = &t, .awaiting = heard_awaiting};
        fixture_open(f);
        assert_int_equal(fixture_enqueue(f, "a", LATER), 0);
        assert_int_equal(fixture_claim(f, "r1", 1, &granted), 1);
        (void)pthread_mutex_lock(&t.lock);
        while (t.n_awaiting == 0)
                (void)pthread_cond_wait(&t.changed, &t.lock);
        (void)pthread_mutex_unlock(&t.lock);
        fixture_close(f);
        assert_int_equal(t.n_awaiting, 1);
}

/* --- backup --- */

static void a_backup_is_a_store(void **state)
{
        struct fixture *f = *state;
        struct lessor_slice want;
        struct fixture copy;
        struct buf path;

        make_history(f);
        want = fixture_text(f);
        fixture_init(&copy);
        copy.clock = f->clock;
        buf_init(&path);
        (void)buf_printf(&path, "%s/" SQLITE_STORE_FILE, copy.dir);
        assert_int_equal(lessor_routing_backup(f->store, path.p), 0);
        assert_int_equal(lessor_routing_backup(f->store, path.p), LESSOR_E_EXISTS);
        assert_int_equal(lessor_routing_backup(f->store, "/no/such/directory/file"), LESSOR_E_IO);
        fixture_open(&copy);
        same_text(fixture_text(&copy), want);
        same_text(fixture_text(f), want);
        buf_done(&path);
        fixture_done(&copy);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
                TEST(a_restart_changes_nothing),
                TEST(what_ends_leaves_no_row_behind),
                TEST(only_envelopes_that_may_be_asked_for_are_kept),
                TEST(envelopes_come_back_as_they_were),
                TEST(the_file_does_not_grow_with_what_passes),
                TEST(results_stop_at_the_limit),
                TEST(low_space_refuses_new_jobs_alone),
                TEST(a_device_is_on_disk_at_first_sight),
                TEST(later_sights_are_written_in_their_own_time),
                TEST(a_ticket_is_told_once),
                TEST(nothing_written_needs_no_waiting),
                TEST(the_listener_hears_of_claims),
                TEST(a_backup_is_a_store),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
