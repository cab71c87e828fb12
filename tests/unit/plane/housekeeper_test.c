/* SPDX-License-Identifier: MIT */
#include "store_support.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/macro.h"
#include "leasing/memory.h"
#include "plane/attempt_log.h"
#include "plane/housekeeper.h"

#define SLICE(text) LESSOR_SLICE(text)

/* Beside the world of objects: logs, events, and who listens. The store of leases is asked about receipts. */
struct house {
        struct log_files *logs;
        struct log_watch *watch;
        struct transfers *transfers;
        struct rack_events *events;
        struct lessor_lease_store *leases;
        struct housekeeper *keeper;
};
static struct house house;

static const struct lessor_lease_event attempt = {
        .name = {SLICE("main"), SLICE("lease")},
        .task_hash = SLICE("9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"),
        .inputs_hash = SLICE("1f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"),
        .execution_id = SLICE("01890a5d-ac96-774b-bcce-b302099a8057"),
};

static void start(struct world *w, const struct object_io *log_io)
{
        const struct housekeeper_options options = {0};
        const struct log_files_options log_options = {.io = log_io, .low_space_bytes = 0};
        struct housekeeper_parts parts = {.objects = w->store};
        char *path;

        assert_true(asprintf(&path, "%s/logs", w->dir) > 0);
        assert_int_equal(log_files_open(path, &log_options, &house.logs), 0);
        free(path);
        assert_int_equal(lease_memory_store_new(NULL, &w->clock.clock, NULL, &house.leases), 0);
        house.watch = log_watch_new();
        house.transfers = transfers_new();
        house.events = rack_events_new();
        assert_true(house.watch != NULL && house.transfers != NULL && house.events != NULL);
        parts.store = house.leases;
        parts.logs = house.logs;
        parts.log_watch = house.watch;
        parts.transfers = house.transfers;
        parts.events = house.events;
        assert_int_equal(housekeeper_new(&options, &parts, &house.keeper), 0);
}

static int setup(void **state)
{
        assert_int_equal(world_setup(state), 0);
        house = (struct house){0};
        faults.n_calls = faults.fail_at = 0;
        return 0;
}

static int teardown(void **state)
{
        house.keeper = housekeeper_free(house.keeper);
        house.leases = lessor_lease_store_free(house.leases);
        house.logs = log_files_free(house.logs);
        house.watch = log_watch_free(house.watch);
        house.transfers = transfers_free(house.transfers);
        house.events = rack_events_free(house.events);
        return world_teardown(state);
}

static void tell(enum lessor_lease_event_kind kind, enum lessor_cause cause, struct lessor_slice reason)
{
        struct lessor_lease_event event = attempt;

        event.kind = kind;
        event.cause = cause;
        event.reason = reason;
        rack_events_tell(house.events, &event);
}

static void log_says(const char *expected)
{
        const struct log_key key = {attempt.name.repo, attempt.task_hash, attempt.inputs_hash,
                                    attempt.execution_id};
        struct log_window window;
        struct buf text;

        housekeeper_settle(house.keeper);
        buf_init(&text);
        assert_int_equal(log_files_read(house.logs, &key, LOG_STDERR, 0, 4096, true, &text, &window), 0);
        assert_true(lessor_slice_equal(buf_view(&text), lessor_slice_of(expected)));
        buf_done(&text);
}

static void an_attempt_says_why_it_ended(void **state)
{
        start(*state, NULL);
        tell(LESSOR_EVENT_ATTEMPT_ENDED, LESSOR_CAUSE_LOST, (struct lessor_slice){0});
        log_says("e3: the rack was lost\n");
        tell(LESSOR_EVENT_ATTEMPT_ENDED, LESSOR_CAUSE_CANCELLED, SLICE("no longer\r\nneeded"));
        log_says("e3: the rack was lost\ne3: no longer  needed\n");
}

static void a_grant_that_nobody_got_leaves_no_log(void **state)
{
        start(*state, NULL);
        tell(LESSOR_EVENT_ATTEMPT_ENDED, LESSOR_CAUSE_UNDELIVERED, (struct lessor_slice){0});
        log_says("");
        assert_int_equal(world_count(*state, "logs"), 0);
}

static void the_logs_of_what_is_forgotten_go(void **state)
{
        start(*state, NULL);
        tell(LESSOR_EVENT_ATTEMPT_ENDED, LESSOR_CAUSE_LOST, (struct lessor_slice){0});
        tell(LESSOR_EVENT_FORGOTTEN, LESSOR_CAUSE_NONE, (struct lessor_slice){0});
        log_says("");
        assert_int_equal(world_count(*state, "logs"), 0);
}

static void an_upload_that_was_not_committed_is_discarded(void **state)
{
        const struct lessor_object_stage stage = {SLICE("main"), SLICE("lease"), SLICE("1")};
        struct world *w = *state;
        struct lessor_object_version version;
        struct lessor_lease_event event = attempt;

        start(w, NULL);
        assert_int_equal(world_stage(w, &stage, SLICE("bytes"), &version), 0);
        event.kind = LESSOR_EVENT_DISCARDED;
        event.receipt = version.receipt;
        rack_events_tell(house.events, &event);
        housekeeper_settle(house.keeper);
        assert_int_equal(world_count(w, "objects/repos/main/staged"), 0);
}

/* What the disk refuses is lost; what comes next is not. */
static void a_failure_stops_nothing(void **state)
{
        start(*state, &faulty_io);
        faults.error = ENOSPC;
        faults.n_calls = 0;
        faults.fail_at = 1;
        tell(LESSOR_EVENT_ATTEMPT_ENDED, LESSOR_CAUSE_LOST, (struct lessor_slice){0});
        log_says("");
        tell(LESSOR_EVENT_ATTEMPT_ENDED, LESSOR_CAUSE_SUPERSEDED, (struct lessor_slice){0});
        log_says("e3: superseded\n");
}

static void what_was_heard_is_done_before_the_end(void **state)
{
        start(*state, NULL);
        for (int i = 0; i < 3; i++)
                tell(LESSOR_EVENT_ATTEMPT_ENDED, LESSOR_CAUSE_LOST, SLICE("x"));
        housekeeper_stop(house.keeper);
        tell(LESSOR_EVENT_ATTEMPT_ENDED, LESSOR_CAUSE_LOST, SLICE("too late"));
        housekeeper_settle(house.keeper);
        housekeeper_stop(house.keeper);
        log_says("e3: x\n"
                 "e3: x\n"
                 "e3: x\n");
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
        const struct CMUnitTest tests[] = {
                TEST(an_attempt_says_why_it_ended),     TEST(a_grant_that_nobody_got_leaves_no_log),
                TEST(the_logs_of_what_is_forgotten_go), TEST(an_upload_that_was_not_committed_is_discarded),
                TEST(a_failure_stops_nothing),          TEST(what_was_heard_is_done_before_the_end),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
