/* SPDX-License-Identifier: MIT */
#include "store_support.h"

#include <stdio.h>

#define SLICE(text) LESSOR_SLICE(text)

static const struct lessor_object_stage stage = {SLICE("main"), SLICE("task#inputs#1"), SLICE("attempt-1")};

static bool commit(struct world *w, const struct lessor_object_stage *for_whom,
                   struct lessor_object_version version)
{
        bool committed = false;

        assert_int_equal(lessor_object_commit(w->store, for_whom, &version, 1, &committed), 0);
        return committed;
}

/* R111, R114, R115 as far as the store goes */
static void a_version_is_unreadable_until_committed(void **state)
{
        struct world *w = *state;
        struct lessor_object_version version;

        assert_int_equal(world_stage(w, &stage, SLICE("result"), &version), 0);
        assert_true(version.receipt.n > 0 && version.receipt.n <= 128);
        assert_false(world_has(w, "main", version.hash));
        assert_true(commit(w, &stage, version));
        assert_true(world_has(w, "main", version.hash));
        assert_true(commit(w, &stage, version)); /* again */
        assert_int_equal(lessor_object_discard(w->store, SLICE("main"), version.receipt), 0);
        assert_true(world_has(w, "main", version.hash)); /* what was committed stays */
        assert_false(commit(w, &stage, version));
        assert_int_equal(world_count(w, "objects/repos/main/staged"), 0);
}

static void a_commit_is_for_its_attempt_hash_size_and_receipt(void **state)
{
        struct world *w = *state;
        struct lessor_object_stage other_lease = stage, other_attempt = stage, other_repo = stage;
        struct lessor_object_version version, wrong;

        other_lease.lease_id = SLICE("task#inputs#2");
        other_attempt.attempt = SLICE("attempt-2");
        other_repo.repo = SLICE("second");
        assert_int_equal(world_stage(w, &stage, SLICE("result"), &version), 0);
        assert_false(commit(w, &other_lease, version));
        assert_false(commit(w, &other_attempt, version));
        assert_false(commit(w, &other_repo, version));
        wrong = version;
        wrong.size++;
        assert_false(commit(w, &stage, wrong));
        wrong = version;
        wrong.hash = world_hash(w, SLICE("other"));
        assert_false(commit(w, &stage, wrong));
        wrong = version;
        wrong.receipt = SLICE("../../../etc/passwd");
        assert_false(commit(w, &stage, wrong));
        wrong.receipt = SLICE("");
        assert_false(commit(w, &stage, wrong));
        wrong.receipt.p = version.receipt.p;
        wrong.receipt.n = version.receipt.n - 1;
        assert_false(commit(w, &stage, wrong));
        wrong = version;
        wrong.hash = SLICE("nothing");
        assert_false(commit(w, &stage, wrong));
        assert_int_equal(world_count(w, "objects/repos/main/objects"), 0);
        assert_true(commit(w, &stage, version));
}

static void lease_and_attempt_are_told_apart_by_where_they_end(void **state)
{
        struct world *w = *state;
        const struct lessor_object_stage one = {SLICE("main"), SLICE("ab"), SLICE("c")};
        const struct lessor_object_stage two = {SLICE("main"), SLICE("a"), SLICE("bc")};
        struct lessor_object_version version;

        assert_int_equal(world_stage(w, &one, SLICE("result"), &version), 0);
        assert_false(commit(w, &two, version));
}

static void a_second_copy_is_dropped_at_commit(void **state)
{
        struct world *w = *state;
        struct lessor_object_stage second = stage;
        struct lessor_object_info info;
        struct lessor_object_version a, b;

        second.attempt = SLICE("attempt-2");
        assert_int_equal(world_stage(w, &stage, SLICE("result"), &a), 0);
        assert_int_equal(world_stage(w, &second, SLICE("result"), &b), 0);
        assert_false(lessor_slice_equal(a.receipt, b.receipt));
        assert_true(commit(w, &stage, a));
        clock_manual_advance(&w->clock, 1000);
        assert_true(commit(w, &second, b));
        assert_int_equal(lessor_object_stat(w->store, SLICE("main"), a.hash, &info), 0);
        assert_int_equal(info.touched_ms, WORLD_START_MS + 1000);
        assert_true(commit(w, &second, b));
        assert_true(commit(w, &stage, a));
        /* One file with three names. */
        world_shell(w, "test $(find objects/repos -type f -printf '%i\\n' | sort -u | wc -l) -eq 1");
        assert_int_equal(world_count(w, "objects/tmp"), 0);
}

static void many_are_committed_at_once(void **state)
{
        struct world *w = *state;
        struct lessor_object_version versions[256];
        bool committed[256];

        for (int i = 0; i < 256; i++) {
                char text[16];

                snprintf(text, sizeof(text), "%d", i);
                assert_int_equal(world_stage(w, &stage, lessor_slice_of(text), &versions[i]), 0);
        }
        versions[100].size = 7;
        assert_int_equal(lessor_object_commit(w->store, &stage, versions, 256, committed), 0);
        for (int i = 0; i < 256; i++) {
                assert_int_equal(committed[i], i != 100);
                assert_int_equal(world_has(w, "main", versions[i].hash), i != 100);
        }
}

static void a_staged_output_is_checked_again(void **state)
{
        struct world *w = *state;
        struct lessor_object_version version, wrong;

        assert_int_equal(world_stage(w, &stage, SLICE("result"), &version), 0);
        assert_int_equal(lessor_object_check_staged(w->store, &stage, &version), 0);
        wrong = version;
        wrong.size--;
        assert_int_equal(lessor_object_check_staged(w->store, &stage, &wrong), LESSOR_E_NOT_FOUND);
        world_shell(w, "f=$(find objects/repos -type f) && chmod u+w $f && printf tamper > $f");
        assert_int_equal(lessor_object_check_staged(w->store, &stage, &version), LESSOR_E_CORRUPT);
        assert_int_equal(lessor_object_discard(w->store, SLICE("main"), version.receipt), 0);
        assert_int_equal(lessor_object_check_staged(w->store, &stage, &version), LESSOR_E_NOT_FOUND);
}

static int wants_one(void *context, struct lessor_slice repo, struct lessor_slice receipt)
{
        assert_true(lessor_slice_equal(repo, SLICE("main")));
        return lessor_slice_equal(receipt, *(struct lessor_slice *)context);
}

static int fails(void *context, struct lessor_slice repo, struct lessor_slice receipt)
{
        (void)context;
        (void)repo;
        (void)receipt;
        return LESSOR_E_UNAVAILABLE;
}

static void what_nobody_wants_is_swept(void **state)
{
        struct world *w = *state;
        struct lessor_object_version a, b, young;
        size_t n;

        assert_int_equal(world_stage(w, &stage, SLICE("a"), &a), 0);
        assert_int_equal(world_stage(w, &stage, SLICE("b"), &b), 0);
        clock_manual_advance(&w->clock, 60000);
        assert_int_equal(world_stage(w, &stage, SLICE("young"), &young), 0);
        assert_int_equal(lessor_object_sweep_staged(w->store, 60000, fails, NULL, &n), LESSOR_E_UNAVAILABLE);
        assert_int_equal(world_count(w, "objects/repos/main/staged"), 3);
        assert_int_equal(lessor_object_sweep_staged(w->store, 60000, wants_one, &a.receipt, &n), 0);
        assert_int_equal(n, 1);
        assert_true(commit(w, &stage, a));
        assert_false(commit(w, &stage, b));
        assert_true(commit(w, &stage, young));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, world_setup, world_teardown)

int main(void)
{
        const struct CMUnitTest tests[] = {
                TEST(a_version_is_unreadable_until_committed),
                TEST(a_commit_is_for_its_attempt_hash_size_and_receipt),
                TEST(lease_and_attempt_are_told_apart_by_where_they_end),
                TEST(a_second_copy_is_dropped_at_commit),
                TEST(many_are_committed_at_once),
                TEST(a_staged_output_is_checked_again),
                TEST(what_nobody_wants_is_swept),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
