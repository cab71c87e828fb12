/* SPDX-License-Identifier: MIT */
#include "fixture.h"

#include <sqlite3.h>
#include <stdio.h>

void fixture_init(struct fixture *f)
{
        *f = (struct fixture){.options = {.low_space_bytes = 1}};
        clock_manual_init(&f->clock, START_MS);
        f->arena = lessor_arena_new();
        f->dir = scratch_dir_new("sqlite");
        buf_init(&f->problem);
        assert_non_null(f->arena);
        assert_non_null(f->dir);
}

void fixture_done(struct fixture *f)
{
        fixture_close(f);
        lessor_arena_free(f->arena);
        buf_done(&f->problem);
        scratch_dir_free(f->dir);
}

int fixture_try_open(struct fixture *f)
{
        buf_clear(&f->problem);
        return sqlite_store_new(f->dir, &f->clock.clock, &f->listener, &f->options, &f->store, &f->problem);
}

void fixture_open(struct fixture *f)
{
        if (fixture_try_open(f) < 0)
                fail_msg("the store does not open: %s", f->problem.p);
}

void fixture_close(struct fixture *f)
{
        f->store = lessor_routing_store_free(f->store);
}

const char *fixture_path(struct fixture *f)
{
        struct buf path;
        struct lessor_slice copy;

        buf_init(&path);
        (void)buf_printf(&path, "%s/" SQLITE_STORE_FILE, f->dir);
        assert_int_equal(lessor_arena_copy(f->arena, buf_view(&path), &copy), 0);
        buf_done(&path);
        return copy.p;
}

void fixture_sql(struct fixture *f, const char *sql)
{
        sqlite3 *db;

        assert_int_equal(sqlite3_open(fixture_path(f), &db), SQLITE_OK);
        if (sqlite3_exec(db, sql, NULL, NULL, NULL) != SQLITE_OK)
                fail_msg("%s: %s", sql, sqlite3_errmsg(db));
        assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

int64_t fixture_sql_int(struct fixture *f, const char *sql)
{
        sqlite3_stmt *stmt;
        sqlite3 *db;
        int64_t value;

        assert_int_equal(sqlite3_open(fixture_path(f), &db), SQLITE_OK);
        if (sqlite3_prepare_v2(db, sql, -1, &stmt, NULL) != SQLITE_OK || sqlite3_step(stmt) != SQLITE_ROW)
                fail_msg("%s: %s", sql, sqlite3_errmsg(db));
        value = sqlite3_column_int64(stmt, 0);
        (void)sqlite3_finalize(stmt);
        assert_int_equal(sqlite3_close(db), SQLITE_OK);
        return value;
}

int fixture_enqueue(struct fixture *f, const char *id, int64_t deadline_ms)
{
        const struct lessor_stub stub = {.id = lessor_slice_of(id),
                                         .kind = LESSOR_KIND_LLM_CHAT,
                                         .owner = LESSOR_SLICE("alice"),
                                         .site = LESSOR_SLICE("KEY-ID"),
                                         .audience = LESSOR_AUDIENCE_TEAM,
                                         .size_class = LESSOR_SIZE_LARGE,
                                         .streaming = true,
                                         .deadline_ms = deadline_ms};
        struct lessor_job job;

        return lessor_routing_enqueue(f->store, SITE, &stub, f->arena, &job, NULL);
}

size_t fixture_claim(struct fixture *f, const char *runner, unsigned max, struct lessor_job_list *ret_granted)
{
        const struct lessor_route route = {SITE, LESSOR_SLICE("alice")};
        const struct lessor_claim claim = {
                .runner_id = lessor_slice_of(runner),
                .owner = LESSOR_SLICE("bob"),
                .device = {LESSOR_SLICE("I"), LESSOR_SLICE("E"), LESSOR_SLICE("S")},
                .routes = &route,
                .n_routes = 1,
                .kinds = LESSOR_KIND_BIT(LESSOR_KIND_LLM_CHAT) | LESSOR_KIND_BIT(LESSOR_KIND_LLM_GENERATE),
                .max = max,
                .lease_ms = 60000};

        assert_int_equal(lessor_routing_claim(f->store, &claim, f->arena, ret_granted, NULL), 0);
        return ret_granted->n;
}

struct lessor_job fixture_job(struct fixture *f, const char *id)
{
        struct lessor_job job;

        assert_int_equal(lessor_routing_job(f->store, SITE, lessor_slice_of(id), f->arena, &job, NULL), 0);
        return job;
}

void fixture_seal(struct fixture *f, const struct lessor_job *job, struct lessor_slice bytes)
{
        const struct lessor_envelope envelope = {bytes};
        enum lessor_job_state was;

        assert_int_equal(lessor_routing_seal(f->store, SITE, job->stub.id, &envelope, &was, NULL), 0);
}

struct lessor_slice fixture_fetch(struct fixture *f, const struct lessor_job *job)
{
        const struct lessor_lease_ref ref = {job->stub.id, job->lease_id};
        struct lessor_envelope envelope;

        assert_int_equal(
                lessor_routing_take_payload(f->store, job->runner_id, &ref, f->arena, &envelope, NULL), 0);
        return envelope.json;
}

void fixture_complete(struct fixture *f, const struct lessor_job *job, struct lessor_slice bytes)
{
        const struct lessor_lease_ref ref = {job->stub.id, job->lease_id};
        const struct lessor_envelope envelope = {bytes};
        bool duplicate;

        assert_int_equal(lessor_routing_complete(f->store, job->runner_id, &ref, &envelope,
                                                 LESSOR_DISPOSITION_ERROR, &duplicate, NULL),
                         0);
        assert_false(duplicate);
}

void fixture_seen(struct fixture *f, const char *runner, const char *capabilities)
{
        const struct lessor_presence presence = {
                .runner_id = lessor_slice_of(runner),
                .owner = LESSOR_SLICE("bob"),
                .device = {LESSOR_SLICE("I"), LESSOR_SLICE("E"), LESSOR_SLICE("S")},
                .capabilities = lessor_slice_of(capabilities),
                .withheld = LESSOR_SLICE("[]")};

        assert_int_equal(lessor_routing_seen(f->store, &presence, NULL), 0);
}

struct lessor_routing_stats fixture_stats(struct fixture *f)
{
        struct lessor_routing_stats stats;

        assert_int_equal(lessor_routing_stats(f->store, &stats), 0);
        return stats;
}

struct lessor_slice fixture_text(struct fixture *f)
{
        struct lessor_slice copy;
        struct buf text;

        buf_init(&text);
        assert_int_equal(store_text(f->store, &text), 0);
        assert_int_equal(lessor_arena_copy(f->arena, buf_view(&text), &copy), 0);
        buf_done(&text);
        return copy;
}
