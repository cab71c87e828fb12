/* SPDX-License-Identifier: MIT */
/* What the contract and the simulation cannot see: the indexes, the changes, the rebuilding. */
#include "fixture.h"

#include <stdlib.h>

#include "base/macro.h"

#define SITE  "site"
#define ALICE "alice"

/* --- queues full of bars --- */

#define N_RUNNERS 6

/* What a claim of one job should grant, by looking at every job. */
static const struct lessor_job *expected_grant(const struct lessor_job_list *jobs, struct lessor_slice runner)
{
        for (size_t i = 0; i < jobs->n; i++) {
                const struct lessor_job *job = &jobs->items[i];
                bool barred = job->state != LESSOR_JOB_QUEUED || job->cancelled ||
                              (job->reoffer_to.p != NULL && !lessor_slice_equal(job->reoffer_to, runner));

                for (size_t k = 0; k < job->n_refused_by; k++)
                        barred = barred || lessor_slice_equal(job->refused_by[k], runner);
                for (size_t k = 0; k < job->n_retry_after; k++)
                        barred = barred || lessor_slice_equal(job->retry_after[k].runner_id, runner);
                if (!barred)
                        return job;
        }
        return NULL;
}

/* Runners refuse, put off and let go of most of what they get, until the queue is a thicket of bars. */
static void a_queue_full_of_bars_grants_what_a_walk_would(void **state)
{
        struct fixture f;

        (void)state;
        fixture_init(&f);
        for (uint64_t step = 0; step < 4000; step++) {
                struct lessor_slice runner = fixture_name(&f, "runner", fixture_roll(&f, N_RUNNERS));
                struct lessor_job_list jobs, granted;
                const struct lessor_job *want;
                uint64_t what = fixture_roll(&f, 10);

                if (step % 8 == 0)
                        assert_int_equal(fixture_enqueue(&f, SITE, fixture_name(&f, "job", step), ALICE), 0);
                f.now_ms += (int64_t)fixture_roll(&f, 300);
                assert_int_equal(engine_sweep(f.engine, f.now_ms, NULL, NULL), 0);
                assert_int_equal(engine_jobs(f.engine, NULL, SIZE_MAX, f.arena, &jobs), 0);
                want = expected_grant(&jobs, runner);
                assert_int_equal(fixture_claim(&f, runner, SITE, ALICE, 1, &granted), 0);
                assert_int_equal(granted.n, want != NULL);
                if (want != NULL) {
                        assert_true(lessor_slice_equal(granted.items[0].stub.id, want->stub.id));
                        if (what == 0) { /* never sealed: it will stick */
                                f.now_ms += LESSOR_AWAITING_PAYLOAD_MS;
                                assert_int_equal(engine_sweep(f.engine, f.now_ms, NULL, NULL), 0);
                        } else {
                                int64_t until_ms = what < 4 ? f.now_ms + (int64_t)fixture_roll(&f, 20000) : 0;

                                assert_int_equal(fixture_release(&f, &granted.items[0], what >= 4 && what < 9,
                                                                 until_ms),
                                                 0);
                        }
                }
                if (step % 16 == 0)
                        engine_check(f.engine);
                fixture_drain(&f);
                lessor_arena_clear(f.arena);
        }
        engine_check(f.engine);
        fixture_done(&f);
}

/* --- changes --- */

static void next_change(struct fixture *f, struct engine_change *ret_change)
{
        assert_true(engine_change(f->engine, ret_change));
}

static void changes_of_one_record_are_one(void **state)
{
        struct lessor_job_list granted;
        struct engine_change change;
        struct job *job;
        enum lessor_job_state was;
        struct fixture f;

        (void)state;
        fixture_init(&f);
        assert_int_equal(fixture_enqueue(&f, SITE, LESSOR_SLICE("a"), ALICE), 0);
        assert_int_equal(fixture_claim(&f, LESSOR_SLICE("r"), SITE, ALICE, 1, &granted), 0);
        assert_int_equal(engine_seal(f.engine, LESSOR_SLICE(SITE), LESSOR_SLICE("a"), &job, &was), 0);
        next_change(&f, &change);
        assert_int_equal(change.what, ENGINE_JOB_PUT);
        assert_int_equal(change.row.seq, 1);
        assert_int_equal(change.row.job.state, LESSOR_JOB_READY);
        assert_true(change.payload_changed && change.keep_payload && change.handle == job);
        assert_true(engine_change_drop(f.engine));
        assert_false(engine_change(f.engine, &change));
        assert_false(engine_change_drop(f.engine));
        fixture_done(&f);
}

static void a_requeued_jobs_payload_is_to_be_dropped(void **state)
{
        struct lessor_job_list granted;
        struct engine_change change;
        struct job *job;
        enum lessor_job_state was;
        struct fixture f;

        (void)state;
        fixture_init(&f);
        assert_int_equal(fixture_enqueue(&f, SITE, LESSOR_SLICE("a"), ALICE), 0);
        assert_int_equal(fixture_claim(&f, LESSOR_SLICE("r"), SITE, ALICE, 1, &granted), 0);
        assert_int_equal(engine_seal(f.engine, LESSOR_SLICE(SITE), LESSOR_SLICE("a"), &job, &was), 0);
        fixture_drain(&f);
        assert_int_equal(fixture_release(&f, &granted.items[0], false, 0), 0);
        next_change(&f, &change);
        assert_true(change.payload_changed && !change.keep_payload && !change.row.job.has_payload);
        fixture_done(&f);
}

static void a_removed_job_comes_before_its_successor(void **state)
{
        struct lessor_stub stub = fixture_stub(LESSOR_SLICE("a"), LESSOR_SLICE(ALICE));
        struct engine_change change;
        struct lessor_job job;
        struct fixture f;

        (void)state;
        fixture_init(&f);
        stub.deadline_ms = f.now_ms;
        assert_int_equal(engine_enqueue(f.engine, LESSOR_SLICE(SITE), &stub, f.now_ms, f.arena, &job, NULL),
                         0);
        assert_int_equal(engine_sweep(f.engine, f.now_ms, NULL, NULL), 0);
        stub.deadline_ms++;
        assert_int_equal(engine_enqueue(f.engine, LESSOR_SLICE(SITE), &stub, f.now_ms, f.arena, &job, NULL),
                         0);
        next_change(&f, &change);
        assert_int_equal(change.what, ENGINE_JOB_REMOVED);
        assert_int_equal(change.row.seq, 1);
        assert_true(lessor_slice_equal(change.row.job.stub.id, LESSOR_SLICE("a")));
        assert_true(lessor_slice_equal(change.row.job.site_id, LESSOR_SLICE(SITE)));
        engine_change_drop(f.engine);
        next_change(&f, &change);
        assert_int_equal(change.what, ENGINE_JOB_PUT);
        assert_int_equal(change.row.seq, 2);
        fixture_done(&f);
}

static void reading_changes_nothing(void **state)
{
        struct lessor_job_list jobs;
        struct engine_change change;
        struct fixture f;

        (void)state;
        fixture_init(&f);
        assert_int_equal(fixture_enqueue(&f, SITE, LESSOR_SLICE("a"), ALICE), 0);
        fixture_drain(&f);
        assert_int_equal(fixture_enqueue(&f, SITE, LESSOR_SLICE("a"), ALICE), 0);
        assert_int_equal(engine_jobs(f.engine, NULL, SIZE_MAX, f.arena, &jobs), 0);
        assert_int_equal(engine_sweep(f.engine, f.now_ms, NULL, NULL), 0);
        assert_false(engine_change(f.engine, &change));
        fixture_done(&f);
}

/* --- events --- */

static void events_of_a_site_are_one_until_taken(void **state)
{
        struct engine_event event;
        struct lessor_job_list granted;
        struct fixture f;

        (void)state;
        fixture_init(&f);
        assert_int_equal(fixture_enqueue(&f, SITE, LESSOR_SLICE("a"), ALICE), 0);
        assert_int_equal(fixture_enqueue(&f, SITE, LESSOR_SLICE("b"), ALICE), 0);
        assert_int_equal(fixture_claim(&f, LESSOR_SLICE("r"), SITE, ALICE, 2, &granted), 0);
        assert_true(engine_event_take(f.engine, &event));
        assert_int_equal(event.what, ENGINE_EVENT_AWAITING);
        /* The site's last job goes, and the event's text stays good. */
        f.now_ms = 4102444800000;
        assert_int_equal(engine_sweep(f.engine, f.now_ms, NULL, NULL), 0);
        while (engine_change_drop(f.engine))
                ;
        assert_true(lessor_slice_equal(event.site_id, LESSOR_SLICE(SITE)));
        engine_event_done(f.engine, &event);
        assert_false(engine_event_take(f.engine, &event));
        fixture_done(&f);
}

/* --- when the next sweep is due --- */

static void the_next_due_moment_is_the_earliest(void **state)
{
        struct lessor_stub stub = fixture_stub(LESSOR_SLICE("a"), LESSOR_SLICE(ALICE));
        struct lessor_job_list granted;
        struct lessor_job job;
        struct fixture f;

        (void)state;
        fixture_init(&f);
        assert_int_equal(engine_next_due_ms(f.engine), INT64_MAX);
        stub.deadline_ms = f.now_ms + 50000;
        assert_int_equal(engine_enqueue(f.engine, LESSOR_SLICE(SITE), &stub, f.now_ms, f.arena, &job, NULL),
                         0);
        assert_int_equal(engine_next_due_ms(f.engine), f.now_ms + 50000);
        assert_int_equal(fixture_claim(&f, LESSOR_SLICE("r"), SITE, ALICE, 1, &granted), 0);
        assert_int_equal(engine_next_due_ms(f.engine), f.now_ms + LESSOR_AWAITING_PAYLOAD_MS);
        fixture_done(&f);
}

static void time_does_not_run_over(void **state)
{
        struct lessor_job_list granted;
        struct lessor_renewal_list renewals;
        struct lessor_lease_ref ref;
        struct fixture f;

        (void)state;
        fixture_init(&f);
        assert_int_equal(fixture_enqueue(&f, SITE, LESSOR_SLICE("a"), ALICE), 0);
        assert_int_equal(fixture_claim(&f, LESSOR_SLICE("r"), SITE, ALICE, 1, &granted), 0);
        ref = (struct lessor_lease_ref){LESSOR_SLICE("a"), granted.items[0].lease_id};
        assert_int_equal(engine_renew_leases(f.engine, LESSOR_SLICE("r"), &ref, 1, INT64_MAX, f.now_ms,
                                             f.arena, &renewals),
                         0);
        assert_int_equal(renewals.renewed[0].expires_ms, INT64_MAX);
        engine_check(f.engine);
        fixture_done(&f);
}

static void a_claim_for_nothing_or_too_much_is_invalid(void **state)
{
        struct lessor_job_list granted;
        struct fixture f;

        (void)state;
        fixture_init(&f);
        assert_int_equal(fixture_claim(&f, LESSOR_SLICE("r"), SITE, ALICE, 0, &granted), LESSOR_E_INVALID);
        assert_int_equal(fixture_claim(&f, LESSOR_SLICE("r"), SITE, ALICE, LIMIT_CLAIM_MAX + 1, &granted),
                         LESSOR_E_INVALID);
        fixture_done(&f);
}

/* --- rebuilding from rows --- */

/* Does a few random things to many jobs. */
static void live(struct fixture *f, uint64_t n_steps)
{
        for (uint64_t step = 0; step < n_steps; step++) {
                struct lessor_slice runner = fixture_name(f, "runner", fixture_roll(f, N_RUNNERS));
                struct lessor_job_list granted;
                enum lessor_job_state was;
                struct job *job;
                bool duplicate;

                assert_int_equal(
                        fixture_enqueue(f, SITE, fixture_name(f, "job", fixture_roll(f, 300)), ALICE), 0);
                f->now_ms += (int64_t)fixture_roll(f, 4000);
                assert_int_equal(fixture_claim(f, runner, SITE, ALICE, 2, &granted), 0);
                for (size_t i = 0; i < granted.n; i++) {
                        struct lessor_lease_ref ref = {granted.items[i].stub.id, granted.items[i].lease_id};
                        uint64_t what = fixture_roll(f, 8);

                        if (what < 2)
                                assert_int_equal(
                                        fixture_release(f, &granted.items[i], what == 0, f->now_ms + 90000),
                                        0);
                        if (what >= 3)
                                assert_int_equal(
                                        engine_seal(f->engine, LESSOR_SLICE(SITE), ref.job_id, &job, &was),
                                        0);
                        if (what >= 4)
                                engine_run(f->engine, job);
                        if (what >= 5)
                                assert_int_equal(engine_complete(f->engine, runner, &ref,
                                                                 LESSOR_DISPOSITION_OK, &job, &duplicate),
                                                 0);
                        if (what == 6)
                                assert_int_equal(engine_cancel(f->engine, LESSOR_SLICE(SITE), ref.job_id), 0);
                }
        }
}

/* The rows as a store would have them: the last change of each record. Kept in the arena. */
static size_t keep_rows(struct fixture *f, struct engine_row *rows, size_t cap)
{
        struct engine_change change;
        size_t n = 0;

        while (engine_change(f->engine, &change)) {
                if (change.what == ENGINE_JOB_PUT) {
                        struct engine_bar *bars =
                                lessor_arena_array(f->arena, change.row.n_bars, sizeof(*bars));

                        assert_true(n < cap);
                        assert_non_null(bars);
                        rows[n] = change.row;
                        assert_int_equal(job_render(change.handle, f->arena, &rows[n].job), 0);
                        for (size_t i = 0; i < change.row.n_bars; i++) {
                                assert_int_equal(lessor_arena_copy(f->arena, change.row.bars[i].runner_id,
                                                                   &bars[i].runner_id),
                                                 0);
                                bars[i].until_ms = change.row.bars[i].until_ms;
                        }
                        rows[n++].bars = bars;
                }
                engine_change_drop(f->engine);
        }
        return n;
}

static void rows_in_any_order_make_the_same_engine(void **state)
{
        static struct engine_row rows[1000];
        struct lessor_job_list jobs[2], granted[2];
        struct fixture f, g;
        size_t n;

        (void)state;
        fixture_init(&f);
        live(&f, 600);
        n = keep_rows(&f, rows, ARRAY_SIZE(rows));
        assert_true(n > 100);
        fixture_init(&g);
        for (size_t left = n; left > 0; left--) {
                size_t pick = fixture_roll(&g, left);

                assert_int_equal(engine_restore_job(g.engine, &rows[pick]), 0);
                rows[pick] = rows[left - 1];
        }
        engine_check(g.engine);
        assert_int_equal(engine_jobs(f.engine, NULL, SIZE_MAX, f.arena, &jobs[0]), 0);
        assert_int_equal(engine_jobs(g.engine, NULL, SIZE_MAX, g.arena, &jobs[1]), 0);
        fixture_same_jobs(&jobs[0], &jobs[1]);

        /* And they go on alike. */
        g.now_ms = f.now_ms;
        g.dice = f.dice;
        g.n_leases = f.n_leases;
        live(&f, 300);
        live(&g, 300);
        assert_int_equal(engine_jobs(f.engine, NULL, SIZE_MAX, f.arena, &granted[0]), 0);
        assert_int_equal(engine_jobs(g.engine, NULL, SIZE_MAX, g.arena, &granted[1]), 0);
        fixture_same_jobs(&granted[0], &granted[1]);
        fixture_done(&f);
        fixture_done(&g);
}

static void a_row_that_contradicts_itself_is_refused(void **state)
{
        struct engine_row good = {
                .seq = 7,
                .job = {.site_id = LESSOR_SLICE(SITE),
                        .stub = fixture_stub(LESSOR_SLICE("a"), LESSOR_SLICE(ALICE)),
                        .state = LESSOR_JOB_AWAITING,
                        .claimed = true,
                        .runner_id = LESSOR_SLICE("r"),
                        .runner_owner = LESSOR_SLICE(ALICE),
                        .lease_id = LESSOR_SLICE("l"),
                        .device = {LESSOR_SLICE("i"), LESSOR_SLICE("e"), LESSOR_SLICE("s")},
                        .lease_expires_ms = 2,
                        .awaiting_until_ms = 1},
        };
        struct engine_row bad;
        struct fixture f;

        (void)state;
        fixture_init(&f);
#define REFUSED(change)                                                                 \
        do {                                                                            \
                bad = good;                                                             \
                change;                                                                 \
                assert_int_equal(engine_restore_job(f.engine, &bad), LESSOR_E_INVALID); \
        } while (0)
        REFUSED(bad.seq = 0);
        REFUSED(bad.job.claimed = false);
        REFUSED(bad.job.state = LESSOR_JOB_QUEUED);
        REFUSED(bad.job.awaiting_until_ms = 0);
        REFUSED(bad.job.state = LESSOR_JOB_READY);
        REFUSED(bad.job.has_result = true);
        REFUSED(bad.job.has_payload = true);
        REFUSED(bad.job.state = (enum lessor_job_state)9);
        REFUSED(bad.job.stub.kind = (enum lessor_kind)2);
#undef REFUSED
        assert_int_equal(engine_restore_job(f.engine, &good), 0);
        assert_int_equal(engine_restore_job(f.engine, &good), LESSOR_E_EXISTS);
        bad = good;
        bad.seq = 8;
        assert_int_equal(engine_restore_job(f.engine, &bad), LESSOR_E_EXISTS); /* the (site, id) */
        bad.job.stub.id = LESSOR_SLICE("b");
        assert_int_equal(engine_restore_job(f.engine, &bad), LESSOR_E_EXISTS); /* the lease */
        bad.job.lease_id = LESSOR_SLICE("l2");
        assert_int_equal(engine_restore_job(f.engine, &bad), 0);
        engine_check(f.engine);
        fixture_done(&f);
}

static void new_jobs_come_after_restored_ones(void **state)
{
        struct engine_row row = {
                .seq = 41,
                .job = {.site_id = LESSOR_SLICE(SITE),
                        .stub = fixture_stub(LESSOR_SLICE("old"), LESSOR_SLICE(ALICE))},
        };
        struct lessor_job_list jobs;
        struct fixture f;

        (void)state;
        fixture_init(&f);
        assert_int_equal(engine_restore_job(f.engine, &row), 0);
        assert_int_equal(fixture_enqueue(&f, SITE, LESSOR_SLICE("new"), ALICE), 0);
        assert_int_equal(job_seq(engine_find(f.engine, LESSOR_SLICE(SITE), LESSOR_SLICE("new"))), 42);
        assert_int_equal(engine_jobs(f.engine, NULL, SIZE_MAX, f.arena, &jobs), 0);
        assert_true(lessor_slice_equal(jobs.items[0].stub.id, LESSOR_SLICE("old")));
        fixture_done(&f);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(a_queue_full_of_bars_grants_what_a_walk_would),
                cmocka_unit_test(changes_of_one_record_are_one),
                cmocka_unit_test(a_requeued_jobs_payload_is_to_be_dropped),
                cmocka_unit_test(a_removed_job_comes_before_its_successor),
                cmocka_unit_test(reading_changes_nothing),
                cmocka_unit_test(events_of_a_site_are_one_until_taken),
                cmocka_unit_test(the_next_due_moment_is_the_earliest),
                cmocka_unit_test(time_does_not_run_over),
                cmocka_unit_test(a_claim_for_nothing_or_too_much_is_invalid),
                cmocka_unit_test(rows_in_any_order_make_the_same_engine),
                cmocka_unit_test(a_row_that_contradicts_itself_is_refused),
                cmocka_unit_test(new_jobs_come_after_restored_ones),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
