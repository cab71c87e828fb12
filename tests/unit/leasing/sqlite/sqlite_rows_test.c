/* SPDX-License-Identifier: MIT */
/* Rows that cannot be read: they stay, they are counted, and nothing of them counts. */
#include "fixture.h"

#include <stdio.h>
#include <stdlib.h>

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

/* Ends the store, runs the SQL, and opens it again. */
static void meddle(struct fixture *f, const char *sql)
{
        fixture_close(f);
        fixture_sql(f, sql);
        fixture_open(f);
}

static void a_lease_that_cannot_be_read_is_granted_to_nobody(void **state)
{
        static const char *const ways[] = {
                "UPDATE leasing_lease SET repo=NULL WHERE seq=1",
                "UPDATE leasing_lease SET id='no hash signs' WHERE seq=1",
                "UPDATE leasing_lease SET id=(SELECT id FROM leasing_lease WHERE seq=2) WHERE seq=1",
                "UPDATE leasing_lease SET mode='dance' WHERE seq=1",
                "UPDATE leasing_lease SET tier=x'00' WHERE seq=1",
                "UPDATE leasing_lease SET own=2 WHERE seq=1",
                "UPDATE leasing_lease SET event_bytes=-1 WHERE seq=1",
                "UPDATE leasing_lease SET attempt_limit='many' WHERE seq=1",
                "INSERT INTO leasing_state(seq, status) VALUES(1, 'pending')",
                "INSERT INTO leasing_state VALUES(1, 'claimed', 0, 1, 1, 5, 0, 'none', 0, 0, 0, NULL)",
                "INSERT INTO leasing_attempt(seq, number) VALUES(1, 1)",
                "INSERT INTO leasing_key(seq, key) VALUES(1, 'k')",
                "INSERT INTO leasing_target(seq, ord, hash) VALUES(1, 1, NULL)",
        };

        (void)state;
        for (size_t i = 0; i < ARRAY_SIZE(ways); i++) {
                struct lessor_lease first, second, got;
                struct fixture f;

                fixture_init(&f);
                fixture_open(&f);
                first = fixture_create(&f, "a", NULL);
                second = fixture_create(&f, "b", NULL);
                meddle(&f, ways[i]);
                if (fixture_stats(&f).n_set_aside != 1)
                        fail_msg("not set aside: %s", ways[i]);
                /* Two of one name: the first is as good as the second. */
                if (i != 2) {
                        assert_int_equal(lessor_lease_get(f.store, &first.name, 0, f.arena, &got, NULL),
                                         LESSOR_E_NOT_FOUND);
                        assert_true(fixture_claim(&f, fixture_rack(&f, "one"), &got));
                        assert_true(lessor_slice_equal(got.name.lease_id, second.name.lease_id));
                        assert_false(fixture_claim(&f, got.claimed_by, &got));
                }
                /* Its number is not given to another. */
                assert_int_equal(fixture_create(&f, "c", NULL).seq, 3);
                fixture_close(&f);
                assert_int_equal(fixture_sql_int(&f, "SELECT count(*) FROM leasing_lease"), 3);
                fixture_done(&f);
        }
}

static void a_lease_that_can_be_read_again_is_back(void **state)
{
        struct fixture *f = *state;
        struct lessor_lease lease = fixture_create(f, "a", "key");

        meddle(f, "UPDATE leasing_lease SET mode='dance'");
        assert_int_equal(fixture_stats(f).n_set_aside, 1);
        meddle(f, "UPDATE leasing_lease SET mode='task'");
        assert_int_equal(fixture_stats(f).n_set_aside, 0);
        assert_int_equal(fixture_get(f, &lease).seq, 1);
        assert_int_equal(fixture_create(f, "a", "key").seq, 1);
}

/* --- credentials --- */

static void authenticates(struct fixture *f, const char *token, int want)
{
        struct lessor_rack_caller caller;

        assert_int_equal(lessor_rack_authenticate(f->store, lessor_slice_of(token), f->arena, &caller, NULL),
                         want);
}

static void credentials_that_cannot_be_read_open_nothing(void **state)
{
        static const char *const ways[] = {
                "UPDATE leasing_token SET status='royal' WHERE hash='token-one'",
                "UPDATE leasing_token SET rack_id=NULL WHERE hash='token-one'",
                "UPDATE leasing_token SET rack_id='nobody' WHERE hash='token-one'",
                "UPDATE leasing_token SET issued_ms='now' WHERE hash='token-one'",
                "UPDATE leasing_token SET grace_until_ms=5 WHERE hash='token-one'",
                "UPDATE leasing_token SET hash='' WHERE hash='token-one'",
                "UPDATE leasing_rack SET healthy='maybe' WHERE label='rack one'",
                "UPDATE leasing_rack SET approved_boot=x'01' WHERE label='rack one'",
                "UPDATE leasing_rack SET rack_id=NULL WHERE label='rack one'",
                "DELETE FROM leasing_rack_tier WHERE ord=1 AND place=0",
        };

        (void)state;
        for (size_t i = 0; i < ARRAY_SIZE(ways); i++) {
                struct fixture f;

                fixture_init(&f);
                fixture_open(&f);
                (void)fixture_rack(&f, "one");
                (void)fixture_rack(&f, "two");
                authenticates(&f, "token-one", 0);
                meddle(&f, ways[i]);
                if (fixture_stats(&f).n_set_aside == 0)
                        fail_msg("not set aside: %s", ways[i]);
                authenticates(&f, "token-one", LESSOR_E_NOT_FOUND);
                authenticates(&f, "", LESSOR_E_NOT_FOUND);
                authenticates(&f, "token-two", 0);
                /* A new rack does not take the place of one that was set aside. */
                (void)fixture_rack(&f, "three");
                fixture_close(&f);
                assert_int_equal(fixture_sql_int(&f, "SELECT count(*) FROM leasing_rack"), 3);
                fixture_done(&f);
        }
}

static void a_rack_whose_sights_are_lost_is_a_rack(void **state)
{
        struct fixture *f = *state;
        struct lessor_slice id = fixture_rack(f, "one");
        struct lessor_rack rack;

        meddle(f, "DELETE FROM leasing_rack_seen");
        assert_int_equal(lessor_rack_get(f->store, id, f->arena, &rack, NULL), 0);
        assert_int_equal(rack.last_seen_ms, START_MS);
        assert_int_equal(rack.last_beat_ms, 0);
        assert_int_equal(fixture_stats(f).n_set_aside, 0);
}

static void an_enrolment_that_cannot_be_read_admits_nobody(void **state)
{
        struct fixture *f = *state;
        const struct lessor_host_info host = {.label = LESSOR_SLICE("l"),
                                              .agent_version = LESSOR_SLICE("0.5.0")};
        struct lessor_rack rack;
        int64_t expires_ms;

        assert_int_equal(lessor_rack_mint_enrolment(f->store, LESSOR_SLICE("e"), LESSOR_SLICE("note"), 900000,
                                                    &expires_ms, NULL),
                         0);
        meddle(f, "UPDATE leasing_enrolment SET expires_ms='never'");
        assert_int_equal(fixture_stats(f).n_set_aside, 1);
        assert_int_equal(lessor_rack_enroll(f->store, LESSOR_SLICE("e"), &host, LESSOR_SLICE("t"), f->arena,
                                            &rack, NULL),
                         LESSOR_E_NOT_FOUND);
}

static void a_policy_that_cannot_be_read_asks_for_approval(void **state)
{
        static const char *const ways[] = {
                "UPDATE leasing_meta SET value='sometimes' WHERE key='require_start_approval'",
                "UPDATE leasing_meta SET value=NULL WHERE key='require_start_approval'",
                "UPDATE leasing_meta SET value=7 WHERE key='require_start_approval'",
        };
        struct fixture *f = *state;
        bool policy;

        for (size_t i = 0; i < ARRAY_SIZE(ways); i++) {
                assert_int_equal(lessor_rack_set_policy(f->store, false, NULL), 0);
                assert_int_equal(lessor_rack_set_policy(f->store, true, NULL), 0);
                meddle(f, ways[i]);
                assert_int_equal(lessor_rack_policy(f->store, &policy, NULL), 0);
                assert_true(policy);
                assert_int_equal(fixture_stats(f).n_set_aside, 1);
        }
        assert_int_equal(lessor_rack_set_policy(f->store, false, NULL), 0);
        fixture_close(f);
        fixture_open(f);
        assert_int_equal(lessor_rack_policy(f->store, &policy, NULL), 0);
        assert_false(policy);
        assert_int_equal(fixture_stats(f).n_set_aside, 0);
}

static void a_capability_that_cannot_be_read_opens_nothing(void **state)
{
        struct fixture *f = *state;
        struct lessor_capability capability;
        struct lessor_transfer_answer answer;
        struct lessor_lease lease;

        (void)fixture_create(f, "a", NULL);
        assert_true(fixture_claim(f, fixture_rack(f, "one"), &lease));

        const struct lessor_transfer_need needs[] = {{.hash = LESSOR_SLICE("h1")},
                                                     {.hash = LESSOR_SLICE("h2")}};
        const struct lessor_transfer_request request = {
                .holder = {lease.name, lease.claimed_by, lease.attempt}, .needs = needs, .n_needs = 2};

        assert_int_equal(lessor_lease_transfer(f->store, &request, f->arena, &answer, NULL), 0);
        meddle(f, "UPDATE leasing_capability SET claim_number='any' WHERE hash='h1'");
        assert_int_equal(fixture_stats(f).n_set_aside, 1);
        assert_int_equal(
                lessor_capability_open(f->store, answer.need_ids[0], false, f->arena, &capability, NULL),
                LESSOR_E_NOT_FOUND);
        assert_int_equal(
                lessor_capability_open(f->store, answer.need_ids[1], false, f->arena, &capability, NULL), 0);
        /* Its lease goes on, and takes the row with it when it ends. */
        fixture_complete(f, &lease, LESSOR_SLICE("r"));
        clock_manual_advance(&f->clock, f->lease_options.retention_ms);
        assert_int_equal(lessor_lease_sweep(f->store, NULL, NULL, NULL), 0);
        fixture_close(f);
        assert_int_equal(fixture_sql_int(f, "SELECT count(*) FROM leasing_capability"), 0);
}

/* --- texts and the rest --- */

static void a_lease_whose_event_is_lost_ends_and_keeps_nothing_back(void **state)
{
        struct fixture *f = *state;
        struct lessor_lease first = fixture_create(f, "a", NULL), second = fixture_create(f, "b", NULL), got;
        struct lessor_attempt_list attempts;

        meddle(f, "DELETE FROM leasing_event WHERE seq=1");
        assert_int_equal(lessor_lease_get(f->store, &first.name, LESSOR_WITH_EVENT, f->arena, &got, NULL),
                         LESSOR_E_UNAVAILABLE);
        assert_true(fixture_claim(f, fixture_rack(f, "one"), &got));
        assert_true(lessor_slice_equal(got.name.lease_id, second.name.lease_id));
        assert_int_equal(lessor_lease_get(f->store, &first.name, 0, f->arena, &got, NULL), 0);
        assert_int_equal(got.status, LESSOR_LEASE_CANCELLED);
        assert_int_equal(lessor_lease_attempts(f->store, &first.name, f->arena, &attempts, NULL), 0);
        assert_int_equal(attempts.n, 1);
        assert_false(attempts.items[0].counts);
}

static void an_environment_that_cannot_be_read_is_not_found(void **state)
{
        struct fixture *f = *state;
        struct lessor_environment env = {.env_hash = LESSOR_SLICE("e"),
                                         .e3_version = LESSOR_SLICE("1.0.0"),
                                         .base_image = LESSOR_SLICE("i"),
                                         .base_tier = LESSOR_SLICE("c"),
                                         .manifest_key = LESSOR_SLICE("k"),
                                         .manifest = LESSOR_SLICE("{}")};

        assert_int_equal(lessor_environment_publish(f->store, &env, NULL), 0);
        meddle(f, "UPDATE leasing_environment SET manifest=NULL");
        assert_int_equal(fixture_stats(f).n_set_aside, 1);
        assert_int_equal(
                lessor_environment_resolve(f->store, env.env_hash, env.e3_version, f->arena, &env, NULL),
                LESSOR_E_NOT_FOUND);
        /* Published anew it is there, and the row of before stays. */
        assert_int_equal(
                lessor_environment_publish(f->store,
                                           &(struct lessor_environment){.env_hash = LESSOR_SLICE("e"),
                                                                        .e3_version = LESSOR_SLICE("1.0.0"),
                                                                        .base_image = LESSOR_SLICE("i"),
                                                                        .base_tier = LESSOR_SLICE("c"),
                                                                        .manifest_key = LESSOR_SLICE("k"),
                                                                        .manifest = LESSOR_SLICE("{}")},
                                           NULL),
                0);
        fixture_close(f);
        assert_int_equal(fixture_sql_int(f, "SELECT count(*) FROM leasing_environment"), 2);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
                cmocka_unit_test(a_lease_that_cannot_be_read_is_granted_to_nobody),
                TEST(a_lease_that_can_be_read_again_is_back),
                cmocka_unit_test(credentials_that_cannot_be_read_open_nothing),
                TEST(a_rack_whose_sights_are_lost_is_a_rack),
                TEST(an_enrolment_that_cannot_be_read_admits_nobody),
                TEST(a_policy_that_cannot_be_read_asks_for_approval),
                TEST(a_capability_that_cannot_be_read_opens_nothing),
                TEST(a_lease_whose_event_is_lost_ends_and_keeps_nothing_back),
                TEST(an_environment_that_cannot_be_read_is_not_found),
        };

        log_set_level(LOG_LEVEL_ERROR + 1);
        return cmocka_run_group_tests(tests, NULL, NULL);
}
