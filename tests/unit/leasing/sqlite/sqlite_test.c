/* SPDX-License-Identifier: MIT */
#include "fixture.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/macro.h"

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

static void a_restart_changes_nothing(void **state)
{
        struct fixture *f = *state;
        struct lessor_slice before;

        fixture_history(f);
        before = fixture_text(f);
        for (int i = 0; i < 3; i++) {
                fixture_close(f);
                fixture_open(f);
                same_text(fixture_text(f), before);
        }
        assert_int_equal(fixture_stats(f).n_set_aside, 0);
        assert_int_equal(fixture_stats(f).n_capabilities, 3);
}

static void what_ends_leaves_no_row_behind(void **state)
{
        struct fixture *f = *state;

        fixture_history(f);
        for (int i = 0; i < 5; i++) {
                clock_manual_advance(&f->clock, INT64_C(86400000));
                assert_int_equal(lessor_lease_sweep(f->store, NULL, NULL, NULL), 0);
                if (i == 0)
                        assert_int_equal(lessor_lease_cancel_run(f->store, LESSOR_SLICE("none"),
                                                                 (struct lessor_slice){0}, &(size_t){0},
                                                                 NULL),
                                         0);
        }
        fixture_close(f);
        /* "pending" is left: a row, its event and its key. */
        assert_int_equal(fixture_sql_int(f, "SELECT (SELECT count(*) FROM leasing_lease)"
                                            " + (SELECT count(*) FROM leasing_state)"
                                            " + (SELECT count(*) FROM leasing_event)"
                                            " + (SELECT count(*) FROM leasing_result)"
                                            " + (SELECT count(*) FROM leasing_attempt)"
                                            " + (SELECT count(*) FROM leasing_key)"
                                            " + (SELECT count(*) FROM leasing_target)"
                                            " + (SELECT count(*) FROM leasing_capability)"
                                            " + (SELECT count(*) FROM leasing_enrolment)"),
                         3);
}

static void a_rack_that_goes_leaves_no_row_behind(void **state)
{
        struct fixture *f = *state;
        struct lessor_slice rack = fixture_rack(f, "one");

        fixture_close(f);
        assert_int_equal(fixture_sql_int(f, "SELECT (SELECT count(*) FROM leasing_rack)"
                                            " + (SELECT count(*) FROM leasing_rack_tier)"
                                            " + (SELECT count(*) FROM leasing_rack_seen)"
                                            " + (SELECT count(*) FROM leasing_token)"),
                         5);
        fixture_open(f);
        assert_int_equal(lessor_rack_deregister(f->store, rack, NULL, NULL), 0);
        fixture_close(f);
        assert_int_equal(fixture_sql_int(f, "SELECT (SELECT count(*) FROM leasing_rack)"
                                            " + (SELECT count(*) FROM leasing_rack_tier)"
                                            " + (SELECT count(*) FROM leasing_rack_seen)"
                                            " + (SELECT count(*) FROM leasing_token)"),
                         0);
}

/* Pages of a list are named by them. */
static void numbers_are_never_given_twice(void **state)
{
        struct fixture *f = *state;
        struct lessor_lease lease = fixture_create(f, "a", NULL), other;

        assert_int_equal(lease.seq, 1);
        assert_int_equal(lessor_lease_end(f->store, &lease.name, LESSOR_END_CANCEL, (struct lessor_slice){0},
                                          (struct lessor_slice){0}, f->arena, &other, NULL),
                         0);
        clock_manual_advance(&f->clock, f->lease_options.retention_ms);
        assert_int_equal(lessor_lease_sweep(f->store, NULL, NULL, NULL), 0);
        for (uint64_t i = 2; i < 4; i++) {
                fixture_close(f);
                fixture_open(f);
                assert_int_equal(fixture_create(f, "b", NULL).seq, i);
        }
}

static void whose_turn_it_is_outlives_a_restart(void **state)
{
        struct fixture *f = *state;
        struct lessor_slice rack = fixture_rack(f, "one");
        static const char *const owners[] = {"anna", "bert", "carl"};
        struct lessor_lease lease;

        for (size_t i = 0; i < 6; i++) {
                const struct lessor_lease_submission from = {.repo = REPO,
                                                             .tier = TIER,
                                                             .owner = lessor_slice_of(owners[i % 3]),
                                                             .event_version = LESSOR_EVENT_VERSION,
                                                             .event = LESSOR_SLICE("{}"),
                                                             .workspace = LESSOR_SLICE(""),
                                                             .task_name = LESSOR_SLICE(""),
                                                             .task_hash = LESSOR_SLICE("t"),
                                                             .inputs_hash = LESSOR_SLICE("i")};

                assert_int_equal(lessor_lease_create(f->store, &from, f->arena, &lease, NULL, NULL), 0);
        }
        for (size_t i = 0; i < 6; i++) {
                assert_true(fixture_claim(f, rack, &lease));
                same_text(lease.owner, lessor_slice_of(owners[i % 3]));
                fixture_close(f);
                fixture_open(f);
        }
}

static void long_texts_come_back_as_they_were(void **state)
{
        static const size_t sizes[] = {0, 1, 4000, 65536, 65537, 6291456};
        struct fixture *f = *state;
        struct lessor_slice rack = fixture_rack(f, "one");
        char *bytes = malloc(6291456);

        assert_non_null(bytes);
        for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
                struct lessor_slice text = {bytes, sizes[i]};
                struct lessor_lease lease, got;
                char task[16];

                for (size_t at = 0; at < sizes[i]; at++)
                        bytes[at] = (char)('a' + (at * 7 + at / 251 + i) % 26);
                (void)snprintf(task, sizeof(task), "%zu", i);
                assert_int_equal(fixture_try_create(f, task, text, &lease), 0);
                assert_true(lessor_slice_equal(fixture_get(f, &lease).event, text));
                fixture_close(f);
                fixture_open(f);
                assert_true(fixture_claim(f, rack, &lease));
                assert_true(lease.has_event);
                assert_true(lessor_slice_equal(lease.event, text));
                got = fixture_get(f, &lease);
                assert_null(got.result.p);
                fixture_complete(f, &lease, text);
                assert_true(lessor_slice_equal(fixture_get(f, &lease).result, text));
                fixture_close(f);
                fixture_open(f);
                got = fixture_get(f, &lease);
                assert_non_null(got.result.p);
                assert_true(lessor_slice_equal(got.result, text));
                assert_true(lessor_slice_equal(got.event, text));
        }
        free(bytes);
}

/* Which of two texts of eight bytes is still in memory: the row is taken away behind the store's back. */
static void the_texts_written_last_stay_in_memory(void **state)
{
        struct fixture *f = *state;
        struct lessor_lease first, second, got;

        fixture_close(f);
        f->options.max_late_bytes = 10;
        fixture_open(f);
        assert_int_equal(fixture_try_create(f, "a", LESSOR_SLICE("12345678"), &first), 0);
        assert_int_equal(fixture_try_create(f, "b", LESSOR_SLICE("abcdefgh"), &second), 0);
        assert_int_equal(lessor_lease_check(f->store), 0); /* both are written, and told */
        same_text(fixture_get(f, &first).event, LESSOR_SLICE("12345678"));
        fixture_sql(f, "DELETE FROM leasing_event");
        same_text(fixture_get(f, &second).event, LESSOR_SLICE("abcdefgh"));
        assert_int_equal(lessor_lease_get(f->store, &first.name, LESSOR_WITH_EVENT, f->arena, &got, NULL),
                         LESSOR_E_UNAVAILABLE);
        /* With its lease its text goes. */
        assert_int_equal(lessor_lease_end(f->store, &second.name, LESSOR_END_CANCEL, (struct lessor_slice){0},
                                          (struct lessor_slice){0}, f->arena, &got, NULL),
                         0);
        clock_manual_advance(&f->clock, f->lease_options.retention_ms);
        assert_int_equal(lessor_lease_sweep(f->store, NULL, NULL, NULL), 0);
        assert_int_equal(lessor_lease_get(f->store, &second.name, LESSOR_WITH_EVENT, f->arena, &got, NULL),
                         LESSOR_E_NOT_FOUND);
}

/* The pages of what is gone are used again: the file does not grow with what passes through it. */
static void the_file_does_not_grow_with_what_passes(void **state)
{
        struct fixture *f = *state;
        struct lessor_slice text = {malloc(1 << 20), 1 << 20};
        int64_t pages[2] = {0, 0};

        assert_non_null(text.p);
        memset((void *)(uintptr_t)text.p, 'x', text.n);
        for (int i = 0; i < 24; i++) {
                struct lessor_lease lease, ended;

                assert_int_equal(fixture_try_create(f, "t", text, &lease), 0);
                assert_int_equal(lessor_lease_end(f->store, &lease.name, LESSOR_END_CANCEL,
                                                  (struct lessor_slice){0}, (struct lessor_slice){0},
                                                  f->arena, &ended, NULL),
                                 0);
                clock_manual_advance(&f->clock, f->lease_options.retention_ms);
                assert_int_equal(lessor_lease_sweep(f->store, NULL, NULL, NULL), 0);
                if (i == 3)
                        pages[0] = fixture_sql_int(f, "PRAGMA page_count");
        }
        pages[1] = fixture_sql_int(f, "PRAGMA page_count");
        assert_true(pages[1] <= pages[0] + 16);
        free((void *)(uintptr_t)text.p);
}

/* --- space --- */

static uint64_t tell_free(void *context)
{
        return atomic_load((atomic_uint_fast64_t *)context);
}

static void low_space_refuses_new_leases_alone(void **state)
{
        struct fixture *f = *state;
        static atomic_uint_fast64_t free_bytes;
        struct lessor_lease lease;

        fixture_close(f);
        f->options.low_space_bytes = 1000;
        f->options.free_bytes = tell_free;
        f->options.free_context = &free_bytes;
        atomic_store(&free_bytes, 1000);
        fixture_open(f);
        (void)fixture_create(f, "a", "key");
        assert_int_equal(lessor_lease_check(f->store), 0);

        fixture_close(f);
        atomic_store(&free_bytes, 999);
        fixture_open(f);
        assert_int_equal(fixture_try_create(f, "b", LESSOR_SLICE("{}"), &lease), LESSOR_E_LOW_SPACE);
        assert_int_equal(lessor_lease_check(f->store), LESSOR_E_LOW_SPACE);
        (void)fixture_create(f, "a", "key"); /* known */
        assert_true(fixture_claim(f, fixture_rack(f, "one"), &lease));
        fixture_complete(f, &lease, LESSOR_SLICE("result"));
        fixture_close(f);
        atomic_store(&free_bytes, 1001);
        fixture_open(f);
        assert_int_equal(lessor_lease_check(f->store), 0);
        (void)fixture_create(f, "b", NULL);
}

/* --- when racks were seen --- */

static void sights_are_written_in_their_own_time(void **state)
{
        struct fixture *f = *state;
        struct lessor_slice id;
        struct lessor_rack rack;

        fixture_close(f);
        f->options.seen_ms = INT64_C(3600000);
        fixture_open(f);
        id = fixture_rack(f, "one");
        clock_manual_advance(&f->clock, 5000);
        fixture_beat(f, id, "one");
        assert_int_equal(lessor_lease_check(f->store), 0);
        assert_int_equal(fixture_sql_int(f, "SELECT last_beat_ms FROM leasing_rack_seen"), START_MS);
        fixture_close(f); /* an orderly end loses nothing */
        fixture_open(f);
        assert_int_equal(lessor_rack_get(f->store, id, f->arena, &rack, NULL), 0);
        assert_int_equal(rack.last_beat_ms, START_MS + 5000);
        assert_int_equal(rack.last_seen_ms, START_MS + 5000);

        fixture_close(f);
        f->options.seen_ms = -1; /* due at once */
        fixture_open(f);
        clock_manual_advance(&f->clock, 5000);
        fixture_beat(f, id, "one");
        assert_int_equal(lessor_lease_check(f->store), 0);
        assert_int_equal(fixture_sql_int(f, "SELECT last_beat_ms FROM leasing_rack_seen"), START_MS + 10000);
}

static void another_boot_is_on_disk_at_once(void **state)
{
        struct fixture *f = *state;
        struct lessor_slice id = fixture_rack(f, "one");
        struct lessor_rack_beat beat = {.rack_id = id,
                                        .boot_id = LESSOR_SLICE("boot-2"),
                                        .agent_version = LESSOR_SLICE("0.6.0"),
                                        .token_hash = LESSOR_SLICE("token-one"),
                                        .successor_hash = LESSOR_SLICE("next")};
        struct lessor_rack_beaten beaten;

        assert_int_equal(lessor_rack_heartbeat(f->store, &beat, f->arena, &beaten, NULL), 0);
        assert_int_equal(fixture_sql_int(f, "SELECT count(*) FROM leasing_rack WHERE last_boot='boot-2'"
                                            " AND approved_boot='boot-1' AND healthy=0"
                                            " AND agent_version='0.6.0'"),
                         1);
}

/* --- tickets and the listener --- */

struct telling {
        pthread_mutex_t lock;
        pthread_cond_t changed;
        int n_told;
        int result;
        unsigned n_claimable, n_claimed;
};

#define TELLING                                                                        \
        {                                                                              \
                .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER \
        }

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
        struct telling t = TELLING;
        int n_waited = 0;

        for (int i = 0; i < 200; i++) {
                const struct lessor_lease_submission from = {.repo = REPO,
                                                             .tier = TIER,
                                                             .event_version = LESSOR_EVENT_VERSION,
                                                             .event = LESSOR_SLICE("{}"),
                                                             .owner = LESSOR_SLICE(""),
                                                             .workspace = LESSOR_SLICE(""),
                                                             .task_name = LESSOR_SLICE(""),
                                                             .task_hash = LESSOR_SLICE("t"),
                                                             .inputs_hash = LESSOR_SLICE("i")};
                struct lessor_ticket ticket;
                struct lessor_lease lease;
                int r;

                r = lessor_lease_create(f->store, &from, f->arena, &lease, NULL, &ticket);
                assert_int_equal(r, 0);
                r = lessor_lease_when_durable(f->store, ticket, told, &t);
                assert_true(r == 0 || r == 1);
                n_waited += r == 0;
        }
        (void)pthread_mutex_lock(&t.lock);
        while (t.n_told < n_waited)
                (void)pthread_cond_wait(&t.changed, &t.lock);
        (void)pthread_mutex_unlock(&t.lock);
        assert_int_equal(t.result, 0);
        fixture_close(f);
        assert_int_equal(t.n_told, n_waited);
        assert_int_equal(fixture_sql_int(f, "SELECT count(*) FROM leasing_lease"), 200);
}

static void what_only_looks_needs_no_waiting(void **state)
{
        struct fixture *f = *state;
        struct lessor_lease lease = fixture_create(f, "a", NULL), got;
        struct lessor_slice rack = fixture_rack(f, "one");
        const struct lessor_slice tiers[] = {TIER, LESSOR_SLICE("d")};
        struct lessor_ticket ticket = {1};

        assert_int_equal(lessor_lease_get(f->store, &lease.name, LESSOR_WITH_EVENT, f->arena, &got, &ticket),
                         0);
        assert_int_equal(lessor_lease_when_durable(f->store, ticket, told, NULL), 1);
        /* Nor does what may be written late. */
        clock_manual_advance(&f->clock, 1);
        assert_int_equal(lessor_rack_poll(f->store, rack, tiers, 2, &ticket), 0);
        assert_int_equal(ticket.seq, 0);
}

static void happened(void *context, const struct lessor_lease_event *event)
{
        struct telling *t = context;

        (void)pthread_mutex_lock(&t->lock);
        if (event->kind == LESSOR_EVENT_CLAIMABLE)
                t->n_claimable++;
        if (event->kind == LESSOR_EVENT_CLAIMED)
                t->n_claimed++;
        (void)pthread_cond_signal(&t->changed);
        (void)pthread_mutex_unlock(&t->lock);
}

static void wait_for(struct telling *t, const unsigned *counter, unsigned want)
{
        (void)pthread_mutex_lock(&t->lock);
        while (*counter < want)
                (void)pthread_cond_wait(&t->changed, &t->lock);
        (void)pthread_mutex_unlock(&t->lock);
        assert_int_equal(*counter, want);
}

static void the_listener_hears_also_of_what_changes_no_row(void **state)
{
        struct fixture *f = *state;
        struct telling t = TELLING;
        struct lessor_lease lease;

        fixture_close(f);
        f->listener = (struct lessor_lease_listener){.context = &t, .happened = happened};
        fixture_open(f);
        (void)fixture_create(f, "a", NULL);
        wait_for(&t, &t.n_claimable, 1);
        assert_true(fixture_claim(f, fixture_rack(f, "one"), &lease));
        wait_for(&t, &t.n_claimed, 1);
        /* A deadline that passes makes it claimable, and nothing is written for that. */
        clock_manual_advance(&f->clock, 60001);
        assert_int_equal(lessor_lease_sweep(f->store, NULL, NULL, NULL), 0);
        wait_for(&t, &t.n_claimable, 2);
        fixture_close(f);
}

/* --- backup --- */

static void a_backup_is_a_store(void **state)
{
        struct fixture *f = *state;
        struct lessor_slice want;
        struct fixture copy;
        struct buf path;

        fixture_history(f);
        want = fixture_text(f);
        fixture_init(&copy);
        copy.clock = f->clock;
        buf_init(&path);
        (void)buf_printf(&path, "%s/" LEASE_SQLITE_FILE, copy.dir);
        assert_int_equal(lessor_lease_backup(f->store, path.p), 0);
        assert_int_equal(lessor_lease_backup(f->store, path.p), LESSOR_E_EXISTS);
        assert_int_equal(lessor_lease_backup(f->store, "/no/such/directory/file"), LESSOR_E_IO);
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
                TEST(a_rack_that_goes_leaves_no_row_behind),
                TEST(numbers_are_never_given_twice),
                TEST(whose_turn_it_is_outlives_a_restart),
                TEST(long_texts_come_back_as_they_were),
                TEST(the_texts_written_last_stay_in_memory),
                TEST(the_file_does_not_grow_with_what_passes),
                TEST(low_space_refuses_new_leases_alone),
                TEST(sights_are_written_in_their_own_time),
                TEST(another_boot_is_on_disk_at_once),
                TEST(a_ticket_is_told_once),
                TEST(what_only_looks_needs_no_waiting),
                TEST(the_listener_hears_also_of_what_changes_no_row),
                TEST(a_backup_is_a_store),
        };

        log_set_level(LOG_LEVEL_ERROR + 1);
        return cmocka_run_group_tests(tests, NULL, NULL);
}
