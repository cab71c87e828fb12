/* SPDX-License-Identifier: MIT */
/* Rows that cannot be read are set aside: never granted, never lost, and in nobody's way. */
#include "fixture.h"

#include <stdlib.h>

#include "base/log.h"
#include "base/macro.h"

#define LATER (START_MS + INT64_C(3600000))

static int setup(void **state)
{
        struct fixture *f = calloc(1, sizeof(*f));

        assert_non_null(f);
        log_set_level(LOG_LEVEL_ERROR);
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

/* "old", which is as the SQL leaves it, between two good ones. */
static void make_old(struct fixture *f, const char *sql)
{
        assert_int_equal(fixture_enqueue(f, "first", LATER), 0);
        assert_int_equal(fixture_enqueue(f, "old", LATER), 0);
        fixture_close(f);
        fixture_sql(f, sql);
        fixture_open(f);
        assert_int_equal(fixture_enqueue(f, "last", LATER), 0);
}

static void check_set_aside(struct fixture *f, const char *name)
{
        struct lessor_job_list granted, jobs;
        struct lessor_routing_stats stats = fixture_stats(f);
        int n_old = 0;

        if (stats.n_set_aside != 1)
                fail_msg("%s: not set aside", name);
        if (fixture_job(f, "old").state != LESSOR_JOB_QUEUED)
                fail_msg("%s: not queued", name);
        if (fixture_claim(f, "r1", 10, &granted) != 2)
                fail_msg("%s: %zu were granted", name, granted.n);
        for (size_t i = 0; i < granted.n; i++)
                if (lessor_slice_equal(granted.items[i].stub.id, LESSOR_SLICE("old")))
                        fail_msg("%s: granted", name);
        assert_int_equal(lessor_routing_jobs(f->store, &SITE, 10, f->arena, &jobs, NULL), 0);
        assert_int_equal(jobs.n, 3);
        for (size_t i = 0; i < jobs.n; i++)
                n_old += lessor_slice_equal(jobs.items[i].stub.id, LESSOR_SLICE("old"));
        assert_int_equal(n_old, 1);
        assert_int_equal(lessor_routing_jobs(f->store, NULL, 1, f->arena, &jobs, NULL), 0);
        assert_int_equal(jobs.n, 1);
}

static void rows_of_another_version_are_set_aside(void **state)
{
        static const char *const cases[] = {
                "UPDATE routing_job SET site=NULL WHERE id='old'",
                "UPDATE routing_job SET kind='llm.dream' WHERE id='old'",
                "UPDATE routing_job SET kind=7 WHERE id='old'",
                "UPDATE routing_job SET owner=NULL WHERE id='old'",
                "UPDATE routing_job SET owner=x'00ff' WHERE id='old'",
                "UPDATE routing_job SET audience='world' WHERE id='old'",
                "UPDATE routing_job SET size_class='huge' WHERE id='old'",
                "UPDATE routing_job SET streaming=2 WHERE id='old'",
                "UPDATE routing_job SET deadline_ms='tomorrow' WHERE id='old'",
                "UPDATE routing_job SET enqueued_ms=NULL WHERE id='old'",
                "INSERT INTO routing_state(seq, state) VALUES(2, 'paused')",
                "INSERT INTO routing_state(seq) VALUES(2)",
                /* Claimed by a device that is nowhere. */
                "INSERT INTO routing_state "
                "VALUES(2,'awaiting',99,'L',1,1,0,NULL,0,0,NULL,NULL,NULL,NULL,NULL)",
                /* Ready without a payload. */
                "INSERT INTO routing_holder VALUES(1,'r','o','i','e','s');"
                "INSERT INTO routing_state VALUES(2,'ready',1,'L',1,0,0,NULL,0,1,NULL,NULL,NULL,NULL,NULL)",
                /* Awaiting without a claim. */
                "INSERT INTO routing_state "
                "VALUES(2,'awaiting',NULL,NULL,0,1,0,NULL,0,0,NULL,NULL,NULL,NULL,NULL)",
        };

        (void)state;
        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                struct fixture f;

                fixture_init(&f);
                fixture_open(&f);
                make_old(&f, cases[i]);
                check_set_aside(&f, cases[i]);
                fixture_done(&f);
        }
}

static void a_job_set_aside_keeps_its_id(void **state)
{
        struct fixture *f = *state;
        const struct lessor_envelope envelope = {LESSOR_SLICE("payload")};
        enum lessor_job_state was = LESSOR_JOB_DONE;

        make_old(f, "UPDATE routing_job SET site=NULL WHERE id='old'");
        assert_int_equal(fixture_enqueue(f, "old", LATER), 0);
        assert_int_equal(fixture_stats(f).n_jobs[LESSOR_JOB_QUEUED], 2);
        assert_int_equal(lessor_routing_seal(f->store, SITE, LESSOR_SLICE("old"), &envelope, &was, NULL),
                         LESSOR_E_TOO_LATE);
        assert_int_equal(was, LESSOR_JOB_QUEUED);
        fixture_close(f);
        assert_int_equal(
                fixture_sql_int(f, "SELECT count(*) FROM routing_job WHERE id='old' AND site IS NULL"), 1);
}

static void a_job_set_aside_can_be_withdrawn(void **state)
{
        struct fixture *f = *state;

        make_old(f, "UPDATE routing_job SET site=NULL WHERE id='old'");
        assert_int_equal(lessor_routing_cancel(f->store, SITE, LESSOR_SLICE("old"), NULL), 0);
        assert_true(fixture_job(f, "old").cancelled);
        fixture_close(f);
        fixture_open(f);
        assert_true(fixture_job(f, "old").cancelled);
        assert_int_equal(lessor_routing_cancel(f->store, LESSOR_SLICE("other"), LESSOR_SLICE("old"), NULL),
                         LESSOR_E_NOT_FOUND);
}

static void a_job_set_aside_ends_at_its_deadline(void **state)
{
        struct fixture *f = *state;
        struct lessor_job job;

        make_old(f, "UPDATE routing_job SET site=NULL, deadline_ms=1760000001000 WHERE id='old'");
        clock_manual_advance(&f->clock, 999);
        assert_int_equal(lessor_routing_sweep(f->store, f->arena, NULL, NULL), 0);
        (void)fixture_job(f, "old");
        clock_manual_advance(&f->clock, 1);
        assert_int_equal(lessor_routing_sweep(f->store, f->arena, NULL, NULL), 0);
        assert_int_equal(lessor_routing_job(f->store, SITE, LESSOR_SLICE("old"), f->arena, &job, NULL),
                         LESSOR_E_NOT_FOUND);
        assert_int_equal(fixture_stats(f).n_set_aside, 0);
        fixture_close(f);
        assert_int_equal(fixture_sql_int(f, "SELECT count(*) FROM routing_job WHERE id='old'"), 0);
}

static void a_job_without_a_readable_deadline_never_ends(void **state)
{
        struct fixture *f = *state;

        make_old(f, "UPDATE routing_job SET deadline_ms=NULL WHERE id='old'");
        clock_manual_advance(&f->clock, INT64_C(100000000000));
        assert_int_equal(lessor_routing_sweep(f->store, f->arena, NULL, NULL), 0);
        assert_int_equal(fixture_job(f, "old").state, LESSOR_JOB_QUEUED);
}

static void a_row_without_a_name_is_counted_and_left(void **state)
{
        struct fixture *f = *state;
        struct lessor_job_list granted;

        make_old(f, "UPDATE routing_job SET id=NULL WHERE id='old'");
        assert_int_equal(fixture_stats(f).n_set_aside, 1);
        assert_int_equal(fixture_claim(f, "r1", 10, &granted), 2);
        fixture_close(f);
        assert_int_equal(fixture_sql_int(f, "SELECT count(*) FROM routing_job WHERE id IS NULL"), 1);
}

/* The newest row is the unreadable one: new jobs must not be given its place. */
static void a_place_in_the_order_is_never_given_twice(void **state)
{
        struct fixture *f = *state;

        assert_int_equal(fixture_enqueue(f, "old", LATER), 0);
        fixture_seen(f, "r1", "[]");
        fixture_close(f);
        fixture_sql(f, "UPDATE routing_job SET kind='?'; UPDATE routing_presence SET owner=NULL");
        fixture_open(f);
        assert_int_equal(fixture_enqueue(f, "new", LATER), 0);
        fixture_seen(f, "r2", "[]");
        fixture_close(f);
        assert_int_equal(fixture_sql_int(f, "SELECT count(*) FROM routing_job"), 2);
        assert_int_equal(fixture_sql_int(f, "SELECT count(*) FROM routing_presence"), 2);
        fixture_open(f);
        assert_int_equal(fixture_stats(f).n_set_aside, 2);
        assert_int_equal(fixture_stats(f).n_presence, 1);
}

static void two_rows_of_one_name_are_one_job(void **state)
{
        struct fixture *f = *state;
        struct lessor_job_list granted;

        make_old(f, "INSERT INTO routing_job SELECT 3, site_id, id, kind, owner, site, audience, purpose,"
                    " size_class, streaming, deadline_ms, enqueued_ms FROM routing_job WHERE id='old'");
        assert_int_equal(fixture_stats(f).n_set_aside, 1);
        /* Two at a time for a pair: first and old, then last. */
        assert_int_equal(fixture_claim(f, "r1", 10, &granted), 2);
        fixture_complete(f, &granted.items[0], LESSOR_SLICE("r"));
        assert_int_equal(fixture_claim(f, "r1", 10, &granted), 1);
        assert_true(lessor_slice_equal(granted.items[0].stub.id, LESSOR_SLICE("last")));
}

static void an_envelope_that_is_gone_is_an_error_and_no_loop(void **state)
{
        struct fixture *f = *state;
        struct lessor_job_list granted;
        struct lessor_lease_ref ref;
        struct lessor_envelope envelope;

        assert_int_equal(fixture_enqueue(f, "a", LATER), 0);
        assert_int_equal(fixture_claim(f, "r1", 1, &granted), 1);
        fixture_seal(f, &granted.items[0], LESSOR_SLICE("payload"));
        fixture_close(f);
        fixture_sql(f, "DELETE FROM routing_envelope");
        log_set_level(LOG_LEVEL_ERROR + 1);
        fixture_open(f);
        ref = (struct lessor_lease_ref){granted.items[0].stub.id, granted.items[0].lease_id};
        assert_int_equal(
                lessor_routing_take_payload(f->store, LESSOR_SLICE("r1"), &ref, f->arena, &envelope, NULL),
                LESSOR_E_UNAVAILABLE);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
                TEST(rows_of_another_version_are_set_aside),
                TEST(a_job_set_aside_keeps_its_id),
                TEST(a_job_set_aside_can_be_withdrawn),
                TEST(a_job_set_aside_ends_at_its_deadline),
                TEST(a_job_without_a_readable_deadline_never_ends),
                TEST(a_row_without_a_name_is_counted_and_left),
                TEST(a_place_in_the_order_is_never_given_twice),
                TEST(two_rows_of_one_name_are_one_job),
                TEST(an_envelope_that_is_gone_is_an_error_and_no_loop),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
