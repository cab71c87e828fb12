/* SPDX-License-Identifier: MIT */
#include "fixture.h"

#include <stdio.h>

void fixture_init(struct fixture *f)
{
        static const unsigned char key[ENGINE_HASH_KEY_BYTES] = "a key for tests";

        *f = (struct fixture){.now_ms = 1760000000000, .dice = 1};
        assert_int_equal(engine_new(key, NULL, &f->engine), 0);
        f->arena = lessor_arena_new();
        assert_non_null(f->arena);
}

void fixture_done(struct fixture *f)
{
        engine_free(f->engine);
        lessor_arena_free(f->arena);
}

uint64_t fixture_roll(struct fixture *f, uint64_t n)
{
        f->dice = f->dice * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        return (f->dice >> 33) % n;
}

struct lessor_slice fixture_name(struct fixture *f, const char *what, uint64_t number)
{
        char text[64];
        struct lessor_slice name;
        int n = snprintf(text, sizeof(text), "%s-%llu", what, (unsigned long long)number);

        assert_int_equal(lessor_arena_copy(f->arena, (struct lessor_slice){text, (size_t)n}, &name), 0);
        return name;
}

struct lessor_stub fixture_stub(struct lessor_slice id, struct lessor_slice owner)
{
        return (struct lessor_stub){
                .id = id,
                .kind = LESSOR_KIND_LLM_GENERATE,
                .owner = owner,
                .site = LESSOR_SLICE("BYOLLM-HQAB-8V6S-1T9T-HZ1W-KSDJ-57WC"),
                .audience = LESSOR_AUDIENCE_PRIVATE,
                .size_class = LESSOR_SIZE_SMALL,
                .deadline_ms = 4102444800000,
        };
}

int fixture_enqueue(struct fixture *f, const char *site, struct lessor_slice id, const char *owner)
{
        struct lessor_stub stub = fixture_stub(id, lessor_slice_of(owner));
        struct lessor_job job;

        return engine_enqueue(f->engine, lessor_slice_of(site), &stub, f->now_ms, f->arena, &job, NULL);
}

int fixture_claim(struct fixture *f, struct lessor_slice runner, const char *site, const char *owner,
                  unsigned max, struct lessor_job_list *ret_granted)
{
        struct lessor_route route = {lessor_slice_of(site), lessor_slice_of(owner)};
        struct lessor_claim claim = {
                .runner_id = runner,
                .owner = lessor_slice_of(owner),
                .device = {LESSOR_SLICE("identity"), LESSOR_SLICE("encryption"), LESSOR_SLICE("sig")},
                .routes = &route,
                .n_routes = 1,
                .kinds = LESSOR_KIND_BIT(LESSOR_KIND_LLM_GENERATE),
                .max = max,
                .lease_ms = 60000,
        };
        char texts[LIMIT_CLAIM_MAX][32];
        struct lessor_slice lease_ids[LIMIT_CLAIM_MAX];

        for (unsigned i = 0; i < max && i < LIMIT_CLAIM_MAX; i++) {
                int n = snprintf(texts[i], sizeof(texts[i]), "lease-%llu", (unsigned long long)++f->n_leases);

                lease_ids[i] = (struct lessor_slice){texts[i], (size_t)n};
        }
        return engine_claim(f->engine, &claim, f->now_ms, lease_ids, f->arena, ret_granted);
}

int fixture_release(struct fixture *f, const struct lessor_job *job, bool refused, int64_t retry_after_ms)
{
        struct lessor_lease_ref ref = {job->stub.id, job->lease_id};
        struct lessor_release release = {
                .runner_id = job->runner_id,
                .leases = &ref,
                .n_leases = 1,
                .refused = refused,
                .retry_after_ms = retry_after_ms,
        };
        struct lessor_lease_ref_list released;

        return engine_release_leases(f->engine, &release, f->now_ms, f->arena, &released);
}

void fixture_drain(struct fixture *f)
{
        struct engine_event event;

        while (engine_change_drop(f->engine))
                ;
        while (engine_event_take(f->engine, &event))
                engine_event_done(f->engine, &event);
}

static void same_text(struct lessor_slice a, struct lessor_slice b)
{
        assert_true(lessor_slice_equal(a, b) && (a.p == NULL) == (b.p == NULL));
}

void fixture_same_jobs(const struct lessor_job_list *a, const struct lessor_job_list *b)
{
        assert_int_equal(a->n, b->n);
        for (size_t i = 0; i < a->n; i++) {
                const struct lessor_job *x = &a->items[i], *y = &b->items[i];

                same_text(x->site_id, y->site_id);
                same_text(x->stub.id, y->stub.id);
                same_text(x->stub.owner, y->stub.owner);
                same_text(x->stub.purpose, y->stub.purpose);
                same_text(x->lease_id, y->lease_id);
                same_text(x->runner_id, y->runner_id);
                same_text(x->reoffer_to, y->reoffer_to);
                assert_int_equal(x->state, y->state);
                assert_int_equal(x->claimed, y->claimed);
                assert_int_equal(x->lease_expires_ms, y->lease_expires_ms);
                assert_int_equal(x->awaiting_until_ms, y->awaiting_until_ms);
                assert_int_equal(x->seal_attempts, y->seal_attempts);
                assert_int_equal(x->cancelled, y->cancelled);
                assert_int_equal(x->has_payload, y->has_payload);
                assert_int_equal(x->has_result, y->has_result);
                assert_int_equal(x->n_refused_by, y->n_refused_by);
                assert_int_equal(x->n_retry_after, y->n_retry_after);
                for (size_t k = 0; k < x->n_refused_by; k++)
                        same_text(x->refused_by[k], y->refused_by[k]);
                for (size_t k = 0; k < x->n_retry_after; k++)
                        assert_int_equal(x->retry_after[k].until_ms, y->retry_after[k].until_ms);
        }
}
