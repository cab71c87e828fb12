/* SPDX-License-Identifier: MIT */
#include "fixture.h"

#include <sqlite3.h>
#include <stdio.h>

void fixture_init(struct fixture *f)
{
        *f = (struct fixture){.lease_options = LESSOR_LEASE_OPTIONS, .options = {.low_space_bytes = 1}};
        clock_manual_init(&f->clock, START_MS);
        f->arena = lessor_arena_new();
        f->dir = scratch_dir_new("leases");
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
        return lease_sqlite_store_new(f->dir, &f->lease_options, &f->clock.clock, &f->listener, &f->options,
                                      &f->store, &f->problem);
}

void fixture_open(struct fixture *f)
{
        if (fixture_try_open(f) < 0)
                fail_msg("the store does not open: %s", f->problem.p);
}

void fixture_close(struct fixture *f)
{
        f->store = lessor_lease_store_free(f->store);
}

static struct lessor_slice in_arena(struct fixture *f, struct lessor_slice text)
{
        struct lessor_slice copy;

        assert_int_equal(lessor_arena_copy(f->arena, text, &copy), 0);
        return copy;
}

static struct lessor_slice words(struct fixture *f, const char *what, const char *name)
{
        struct lessor_slice copy;
        struct buf text;

        buf_init(&text);
        (void)buf_printf(&text, "%s%s", what, name);
        copy = in_arena(f, buf_view(&text));
        buf_done(&text);
        return copy;
}

const char *fixture_path(struct fixture *f)
{
        return words(f, f->dir, "/" LEASE_SQLITE_FILE).p;
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

struct lessor_slice fixture_rack(struct fixture *f, const char *name)
{
        const struct lessor_slice tiers[] = {TIER, LESSOR_SLICE("d")};
        const struct lessor_host_info host = {.label = words(f, "rack ", name),
                                              .tiers = tiers,
                                              .n_tiers = 2,
                                              .capacity = 3,
                                              .agent_version = LESSOR_SLICE("0.5.0+e3.1.0.85")};
        struct lessor_slice enrolment = words(f, "enrolment-", name);
        struct lessor_rack rack;
        int64_t expires_ms;

        assert_int_equal(lessor_rack_mint_enrolment(f->store, enrolment, LESSOR_SLICE("note"), 900000,
                                                    &expires_ms, NULL),
                         0);
        assert_int_equal(lessor_rack_enroll(f->store, enrolment, &host, words(f, "token-", name), f->arena,
                                            &rack, NULL),
                         0);
        fixture_beat(f, rack.rack_id, name);
        return rack.rack_id;
}

void fixture_beat(struct fixture *f, struct lessor_slice rack_id, const char *name)
{
        const struct lessor_rack_beat beat = {.rack_id = rack_id,
                                              .boot_id = BOOT,
                                              .agent_version = LESSOR_SLICE("0.5.0+e3.1.0.85"),
                                              .healthy = true,
                                              .token_hash = words(f, "token-", name),
                                              .token_status = LESSOR_TOKEN_CURRENT,
                                              .successor_hash = words(f, "successor-", name)};
        struct lessor_rack_beaten beaten;

        assert_int_equal(lessor_rack_heartbeat(f->store, &beat, f->arena, &beaten, NULL), 0);
}

static struct lessor_lease_submission submission(struct fixture *f, const char *task)
{
        return (struct lessor_lease_submission){.repo = REPO,
                                                .workspace = LESSOR_SLICE("main"),
                                                .task_name = words(f, "name of ", task),
                                                .task_hash = words(f, "task-", task),
                                                .inputs_hash = LESSOR_SLICE("inputs"),
                                                .tier = TIER,
                                                .owner = LESSOR_SLICE("alice"),
                                                .event_version = LESSOR_EVENT_VERSION};
}

int fixture_try_create(struct fixture *f, const char *task, struct lessor_slice event,
                       struct lessor_lease *ret_lease)
{
        struct lessor_lease_submission from = submission(f, task);

        from.event = event;
        return lessor_lease_create(f->store, &from, f->arena, ret_lease, NULL, NULL);
}

struct lessor_lease fixture_create(struct fixture *f, const char *task, const char *key)
{
        struct lessor_lease_submission from = submission(f, task);
        struct lessor_lease lease;

        from.event = words(f, "event of ", task);
        if (key != NULL)
                from.key = words(f, key, "");
        assert_int_equal(lessor_lease_create(f->store, &from, f->arena, &lease, NULL, NULL), 0);
        return lease;
}

bool fixture_claim(struct fixture *f, struct lessor_slice rack_id, struct lessor_lease *ret_lease)
{
        const struct lessor_slice tier = TIER;
        const struct lessor_lease_claim claim = {
                .rack_id = rack_id, .boot_id = BOOT, .tiers = &tier, .n_tiers = 1, .names_attempts = true};
        struct lessor_lease_grant grant;

        assert_int_equal(lessor_rack_poll(f->store, rack_id, &tier, 1, NULL), 0);
        assert_int_equal(lessor_lease_claim(f->store, &claim, f->arena, &grant, NULL), 0);
        if (grant.granted)
                *ret_lease = grant.lease;
        return grant.granted;
}

static struct lessor_lease_holder holder_of(const struct lessor_lease *lease)
{
        return (struct lessor_lease_holder){lease->name, lease->claimed_by, lease->attempt};
}

void fixture_complete(struct fixture *f, const struct lessor_lease *lease, struct lessor_slice result)
{
        const struct lessor_lease_completion completion = {.holder = holder_of(lease),
                                                           .verdict = {.success = true,
                                                                       .output_hash = LESSOR_SLICE("out"),
                                                                       .has_exit_code = true,
                                                                       .has_peak_bytes = true,
                                                                       .peak_bytes = 1234567},
                                                           .result = result};
        enum lessor_completed how;

        assert_int_equal(lessor_lease_complete(f->store, &completion, f->arena, &how, NULL, NULL), 0);
        assert_int_equal(how, LESSOR_COMPLETED_RECORDED);
}

struct lessor_lease fixture_get(struct fixture *f, const struct lessor_lease *lease)
{
        struct lessor_lease l;

        assert_int_equal(lessor_lease_get(f->store, &lease->name, LESSOR_WITH_EVENT | LESSOR_WITH_RESULT,
                                          f->arena, &l, NULL),
                         0);
        return l;
}

struct lessor_lease_stats fixture_stats(struct fixture *f)
{
        struct lessor_lease_stats stats;

        assert_int_equal(lessor_lease_stats(f->store, &stats), 0);
        return stats;
}

struct lessor_slice fixture_text(struct fixture *f)
{
        struct lessor_slice copy;
        struct buf text;

        buf_init(&text);
        assert_int_equal(lease_text(f->store, &text), 0);
        copy = in_arena(f, buf_view(&text));
        buf_done(&text);
        return copy;
}

#define HASH_0 "0000000000000000000000000000000000000000000000000000000000000000"
#define HASH_1 "1111111111111111111111111111111111111111111111111111111111111111"
#define HASH_2 "2222222222222222222222222222222222222222222222222222222222222222"

static void write_something(struct fixture *f, const struct lessor_lease *lease)
{
        const struct lessor_transfer_output outputs[] = {{.object = {LESSOR_SLICE(HASH_1), 10}},
                                                         {.object = {LESSOR_SLICE(HASH_2), 20}}};
        const struct lessor_transfer_need need = {.hash = LESSOR_SLICE(HASH_0)};
        const struct lessor_transfer_request request = {
                .holder = holder_of(lease), .needs = &need, .n_needs = 1, .outputs = outputs, .n_outputs = 2};
        struct lessor_transfer_answer answer;
        struct lessor_slice receipt;

        assert_int_equal(lessor_lease_transfer(f->store, &request, f->arena, &answer, NULL), 0);
        assert_int_equal(lessor_capability_stored(f->store, answer.output_ids[0], LESSOR_SLICE("receipt-1"),
                                                  f->arena, &receipt, NULL),
                         0);
}

void fixture_history(struct fixture *f)
{
        const struct lessor_environment env = {.env_hash = LESSOR_SLICE("env"),
                                               .e3_version = LESSOR_SLICE("1.0.85"),
                                               .base_image = LESSOR_SLICE("image"),
                                               .base_tier = TIER,
                                               .manifest_key = LESSOR_SLICE("key"),
                                               .manifest = LESSOR_SLICE("{\"layers\":[]}"),
                                               .n_layers = 0};
        struct lessor_slice one = fixture_rack(f, "one"), two = fixture_rack(f, "two");
        struct lessor_lease lease, cancelled;
        int64_t expires_ms;

        assert_int_equal(lessor_environment_publish(f->store, &env, NULL), 0);
        assert_int_equal(lessor_rack_mint_enrolment(f->store, LESSOR_SLICE("unused"), LESSOR_SLICE("label"),
                                                    900000, &expires_ms, NULL),
                         0);
        assert_int_equal(lessor_rack_set_policy(f->store, true, NULL), 0);
        assert_int_equal(lessor_rack_drain(f->store, two, true, NULL), 0);
        (void)fixture_create(f, "done", "key-done");
        assert_true(fixture_claim(f, one, &lease));
        write_something(f, &lease);
        fixture_complete(f, &lease, LESSOR_SLICE("{\"result\":\"of done\"}"));
        (void)fixture_create(f, "lapsed", NULL);
        assert_true(fixture_claim(f, one, &lease));
        clock_manual_advance(&f->clock, 60001);
        fixture_beat(f, one, "one");
        assert_true(fixture_claim(f, one, &lease)); /* again */
        (void)fixture_create(f, "running", NULL);
        assert_true(fixture_claim(f, one, &lease));
        write_something(f, &lease);
        cancelled = fixture_create(f, "cancelled", "key-cancelled");
        assert_int_equal(lessor_lease_end(f->store, &cancelled.name, LESSOR_END_CANCEL,
                                          (struct lessor_slice){0}, LESSOR_SLICE("not wanted"), f->arena,
                                          &lease, NULL),
                         0);
        (void)fixture_create(f, "pending", "key-pending");
}
