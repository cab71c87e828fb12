/* SPDX-License-Identifier: MIT */
/* Every call, with each of its allocations failing in turn: it says so, and nothing has changed. */
#include "fixture.h"

#include <stdbool.h>
#include <stdlib.h>

#include "base/macro.h"

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

#define SITE   LESSOR_SLICE("site")
#define RUNNER LESSOR_SLICE("r")

/* A world with a job in each state, one that sticks, and one that is barred. */
struct scene {
        struct fixture f;
        struct lessor_job granted[5]; /* awaiting, ready, running, done, cancelled */
        struct lessor_arena *arena;   /* of the scene itself; f.arena is cleared for every call */
};

static void claim_next(struct scene *s, struct lessor_job *ret_job)
{
        struct lessor_job_list granted;

        assert_int_equal(fixture_claim(&s->f, RUNNER, "site", "alice", 1, &granted), 0);
        assert_int_equal(granted.n, 1);
        *ret_job = granted.items[0];
}

static void scene_init(struct scene *s)
{
        struct lessor_lease_ref ref;
        enum lessor_job_state was;
        struct job *job;
        bool duplicate;

        fixture_init(&s->f);
        for (uint64_t i = 0; i < 10; i++)
                assert_int_equal(fixture_enqueue(&s->f, "site", fixture_name(&s->f, "job", i), "alice"), 0);
        for (size_t i = ARRAY_SIZE(s->granted); i-- > 0;) {
                claim_next(s, &s->granted[i]);
                if (i == 0)
                        break;
                assert_int_equal(engine_seal(s->f.engine, SITE, s->granted[i].stub.id, &job, &was), 0);
                if (i >= 2)
                        engine_run(s->f.engine, job);
                ref = (struct lessor_lease_ref){s->granted[i].stub.id, s->granted[i].lease_id};
                if (i == 3)
                        assert_int_equal(engine_complete(s->f.engine, RUNNER, &ref, LESSOR_DISPOSITION_OK,
                                                         &job, &duplicate),
                                         0);
                if (i == 4)
                        assert_int_equal(engine_cancel(s->f.engine, SITE, s->granted[i].stub.id), 0);
        }
        s->arena = s->f.arena;
        s->f.arena = lessor_arena_new();
        assert_non_null(s->f.arena);
        fixture_drain(&s->f);
}

static void scene_done(struct scene *s)
{
        fixture_done(&s->f);
        lessor_arena_free(s->arena);
}

static struct lessor_lease_ref ref_of(const struct lessor_job *job)
{
        return (struct lessor_lease_ref){job->stub.id, job->lease_id};
}

/* --- the calls --- */

static int call_enqueue(struct scene *s)
{
        struct lessor_stub stub = fixture_stub(LESSOR_SLICE("new"), LESSOR_SLICE("new-owner"));
        struct lessor_job job;

        stub.purpose = LESSOR_SLICE("new-purpose");
        stub.site = LESSOR_SLICE("new-key");
        return engine_enqueue(s->f.engine, LESSOR_SLICE("new-site"), &stub, s->f.now_ms, s->f.arena, &job,
                              NULL);
}

static int call_claim(struct scene *s)
{
        struct lessor_job_list granted;

        return fixture_claim(&s->f, LESSOR_SLICE("new-runner"), "site", "alice", 2, &granted);
}

static int call_complete(struct scene *s)
{
        struct lessor_lease_ref ref = ref_of(&s->granted[0]);
        struct job *job;
        bool duplicate;

        return engine_complete(s->f.engine, RUNNER, &ref, LESSOR_DISPOSITION_OK, &job, &duplicate);
}

static int call_release(struct scene *s)
{
        struct lessor_lease_ref refs[2] = {ref_of(&s->granted[0]), ref_of(&s->granted[1])};
        struct lessor_release release = {.runner_id = RUNNER, .leases = refs, .n_leases = 2, .refused = true};
        struct lessor_lease_ref_list released;

        return engine_release_leases(s->f.engine, &release, s->f.now_ms, s->f.arena, &released);
}

static int call_renew(struct scene *s)
{
        struct lessor_lease_ref refs[2] = {ref_of(&s->granted[0]), ref_of(&s->granted[1])};
        struct lessor_renewal_list list;

        return engine_renew_leases(s->f.engine, RUNNER, refs, 2, 99000, s->f.now_ms, s->f.arena, &list);
}

static int call_seal(struct scene *s)
{
        enum lessor_job_state was;
        struct job *job;

        return engine_seal(s->f.engine, SITE, s->granted[0].stub.id, &job, &was);
}

static int call_cancel(struct scene *s)
{
        return engine_cancel(s->f.engine, SITE, s->granted[0].stub.id);
}

static int call_cancel_requests(struct scene *s)
{
        struct lessor_lease_ref_list list;

        return engine_cancel_requests(s->f.engine, RUNNER, s->f.arena, &list);
}

static int call_ack(struct scene *s)
{
        struct lessor_slice *acked;
        size_t n;

        return engine_ack(s->f.engine, SITE, &s->granted[3].stub.id, 1, s->f.arena, &acked, &n);
}

static int call_seen(struct scene *s)
{
        struct lessor_presence presence = {
                .runner_id = LESSOR_SLICE("new-runner"),
                .owner = LESSOR_SLICE("new-owner"),
                .device = {LESSOR_SLICE("x"), LESSOR_SLICE("y"), LESSOR_SLICE("z")},
                .capabilities = LESSOR_SLICE("[]"),
                .withheld = LESSOR_SLICE("[]"),
        };

        return engine_seen(s->f.engine, &presence, s->f.now_ms);
}

static int call_sweep(struct scene *s)
{
        struct lessor_swept swept;

        return engine_sweep(s->f.engine, s->f.now_ms + 60000, s->f.arena, &swept);
}

static int call_restore(struct scene *s)
{
        const struct engine_bar bar = {LESSOR_SLICE("barred"), ENGINE_BAR_FOREVER, NULL};
        struct engine_row row = {.seq = 100, .job = s->granted[0], .bars = &bar, .n_bars = 1};

        row.job.stub.id = LESSOR_SLICE("restored");
        row.job.lease_id = LESSOR_SLICE("restored-lease");
        row.job.reoffer_to = LESSOR_SLICE("stuck-runner");
        return engine_restore_job(s->f.engine, &row);
}

static const struct {
        const char *name;
        int (*run)(struct scene *s);
} calls[] = {
        {"enqueue", call_enqueue},   {"claim", call_claim},
        {"complete", call_complete}, {"release", call_release},
        {"renew", call_renew},       {"seal", call_seal},
        {"cancel", call_cancel},     {"cancel_requests", call_cancel_requests},
        {"ack", call_ack},           {"seen", call_seen},
        {"sweep", call_sweep},       {"restore", call_restore},
};

/* One call whose allocation number `step` fails. Returns whether any did. */
static bool fail_at(const char *name, int (*run)(struct scene *s), long step)
{
        struct lessor_job_list before, after;
        struct lessor_presence_list everyone;
        struct engine_change change;
        struct scene s;
        int r;

        scene_init(&s);
        assert_int_equal(engine_jobs(s.f.engine, NULL, SIZE_MAX, s.arena, &before), 0);
        lessor_arena_free(s.f.arena); /* a fresh one has to ask for memory */
        s.f.arena = lessor_arena_new();
        assert_non_null(s.f.arena);
        has_failed = false;
        countdown = step;
        r = run(&s);
        countdown = -1;
        if (r != 0 && (r != LESSOR_E_NOMEM || !has_failed))
                fail_msg("%s answers %d when allocation %ld fails", name, r, step);
        engine_check(s.f.engine);
        if (r == LESSOR_E_NOMEM) {
                assert_int_equal(engine_jobs(s.f.engine, NULL, SIZE_MAX, s.arena, &after), 0);
                fixture_same_jobs(&before, &after);
                assert_int_equal(engine_everyone(s.f.engine, s.arena, &everyone), 0);
                assert_int_equal(everyone.n, 0);
                assert_false(engine_change(s.f.engine, &change));
                /* Asking again is safe, and works. */
                assert_int_equal(run(&s), 0);
                engine_check(s.f.engine);
        }
        scene_done(&s);
        return has_failed;
}

static void a_call_that_gets_no_memory_changes_nothing(void **state)
{
        (void)state;
        for (size_t i = 0; i < ARRAY_SIZE(calls); i++) {
                long step = 0;

                while (fail_at(calls[i].name, calls[i].run, step))
                        step++;
        }
}

/* A sweep without a report cannot fail, whatever memory there is; nor can what a claim does after its
 * preparations. */
static void a_sweep_needs_no_memory(void **state)
{
        struct lessor_job_list jobs;
        struct scene s;

        (void)state;
        scene_init(&s);
        countdown = 0;
        for (int i = 0; i < 3; i++) {
                assert_int_equal(engine_sweep(s.f.engine, s.f.now_ms += 60000, NULL, NULL), 0);
                countdown = 0;
        }
        countdown = -1;
        engine_check(s.f.engine);
        assert_int_equal(engine_jobs(s.f.engine, NULL, SIZE_MAX, s.arena, &jobs), 0);
        assert_int_equal(jobs.n, 10);
        assert_true(lessor_slice_equal(jobs.items[4].reoffer_to, RUNNER)); /* the one that awaited */
        scene_done(&s);
}

static void an_engine_that_gets_no_memory_is_none(void **state)
{
        static const unsigned char key[ENGINE_HASH_KEY_BYTES];
        struct engine *e;

        (void)state;
        for (long step = 0;; step++) {
                int r;

                has_failed = false;
                countdown = step;
                r = engine_new(key, NULL, &e);
                countdown = -1;
                if (r == 0)
                        break;
                assert_int_equal(r, LESSOR_E_NOMEM);
        }
        assert_false(has_failed);
        engine_free(e);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(a_call_that_gets_no_memory_changes_nothing),
                cmocka_unit_test(a_sweep_needs_no_memory),
                cmocka_unit_test(an_engine_that_gets_no_memory_is_none),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
