/* SPDX-License-Identifier: MIT */
#include "store_support.h"

#include "base/macro.h"
#include "plane/rack_event.h"
#include "wire/lease_event.h"
#include "wire/rack_message.h"
#include "wire/task_objects.h"

#define HASH   "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
#define LAUNCH "01890a5d-ac96-774b-bcce-b302099a8057"

static const struct rack_terms plain = {.repo = LESSOR_SLICE("main"), .tier = LESSOR_SLICE("shell")};

#define EVENT(more)                                                                                       \
        "{\"version\":2,\"runnerEvent\":{\"mode\":\"task\",\"launchId\":\"" LAUNCH                        \
        "\",\"repo\":\"main\",\"timeoutMs\":5,\"taskHash\":\"" HASH                                       \
        "\",\"inputHashes\":[],\"run\":{\"workspace\":\"w\",\"id\":\"" LAUNCH "\"}},\"workspace\":\"w\"," \
        "\"taskName\":\"t\",\"closure\":{\"hashes\":[]}" more "}"

static void is_text(struct lessor_slice text, const char *expected)
{
        assert_true(lessor_slice_equal(text, lessor_slice_of(expected)));
}

/* --- From an event --- */

static void an_event_says_what_the_host_does_not(void **state)
{
        struct world *w = *state;
        struct lessor_lease_submission s;
        char no_inputs[65];

        assert_int_equal(rack_submission_of_event(&plain, LESSOR_SLICE(EVENT(",\"e3Version\":\"1.2.3\"")),
                                                  w->arena, &s, NULL),
                         0);
        is_text(s.repo, "main");
        is_text(s.workspace, "w");
        is_text(s.task_name, "t");
        is_text(s.task_hash, HASH);
        is_text(s.floor, "1.2.3");
        is_text(s.tier, "shell");
        is_text(s.run, LAUNCH);
        assert_null(s.environment.p);
        assert_null(s.compute_size.p);
        assert_int_equal(s.mode, LESSOR_LEASE_TASK);
        assert_int_equal(s.event_version, 2);
        lessor_lease_inputs_hash(NULL, 0, no_inputs);
        is_text(s.inputs_hash, no_inputs);
        is_text(s.event, EVENT(",\"e3Version\":\"1.2.3\""));
}

static void the_host_imposes_what_it_says(void **state)
{
        static const struct {
                struct rack_terms terms;
                const char *problem;
        } cases[] = {
                {{.repo = LESSOR_SLICE("other"), .tier = LESSOR_SLICE("c")},
                 "runnerEvent.repo: is another than the repository of the submission"},
                {{.repo = LESSOR_SLICE("main"), .tier = LESSOR_SLICE("c"), .workspace = LESSOR_SLICE("x")},
                 "workspace: is another than that of the submission"},
                {{.repo = LESSOR_SLICE("main"), .tier = LESSOR_SLICE("c"), .floor = LESSOR_SLICE("2.0.0")},
                 "e3Version: is another than that of the submission"},
                {{.repo = LESSOR_SLICE("@rack"), .tier = LESSOR_SLICE("c")},
                 "repo: must be 1 to 128 letters, digits, `.`, `_` and `-`"},
                {{.repo = LESSOR_SLICE("main"), .tier = LESSOR_SLICE("")},
                 "tier: must be 1 to 64 letters, digits, `.`, `_` and `-`"},
                {{.repo = LESSOR_SLICE("main"),
                  .tier = LESSOR_SLICE("c"),
                  .compute_size = LESSOR_SLICE("huge")},
                 "size: must be serverless, small, medium, large or xlarge"},
        };
        struct world *w = *state;

        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                struct lessor_lease_submission s;
                const char *problem = "";

                assert_int_equal(rack_submission_of_event(&cases[i].terms,
                                                          LESSOR_SLICE(EVENT(",\"e3Version\":\"1.2.3\"")),
                                                          w->arena, &s, &problem),
                                 LESSOR_E_INVALID);
                assert_string_equal(problem, cases[i].problem);
        }
}

static void terms_fill_what_an_event_leaves_open(void **state)
{
        struct world *w = *state;
        struct rack_terms terms = plain;
        struct lessor_lease_submission s;

        terms.workspace = LESSOR_SLICE("w");
        terms.floor = LESSOR_SLICE("3.0.0");
        terms.run = LESSOR_SLICE("nightly");
        terms.compute_size = LESSOR_SLICE("large");
        terms.key = LESSOR_SLICE("k");
        terms.share = true;
        terms.ttl_ms = 7;
        terms.attempt_limit = 3;
        assert_int_equal(rack_submission_of_event(&terms, LESSOR_SLICE(EVENT("")), w->arena, &s, NULL), 0);
        is_text(s.floor, "3.0.0");
        is_text(s.run, "nightly");
        is_text(s.compute_size, "large");
        is_text(s.key, "k");
        assert_true(s.share && s.ttl_ms == 7 && s.attempt_limit == 3);
}

/* --- From a task object --- */

/* Puts a task that reads these many files, of which number i says "input i". */
static struct lessor_slice put_task(struct world *w, size_t n_inputs, bool put_inputs)
{
        static struct lessor_slice argv[] = {LESSOR_SLICE("./bin/train.sh")};
        struct task task = {.argv = argv,
                            .n_argv = 1,
                            .directory = LESSOR_SLICE("."),
                            .inputs = lessor_arena_array(w->arena, n_inputs, sizeof(*task.inputs)),
                            .n_inputs = n_inputs,
                            .limits = {.time_ms = 4000}};
        struct lessor_slice hash;
        struct buf text;

        buf_init(&text);
        for (size_t i = 0; i < n_inputs; i++) {
                struct tree_entry *entry = &task.inputs[i];
                struct lessor_slice bytes;

                buf_clear(&text);
                assert_int_equal(buf_printf(&text, "input %05zu", i), 0);
                assert_int_equal(lessor_arena_copy(w->arena, buf_view(&text), &bytes), 0);
                entry->type = TREE_FILE;
                entry->path = bytes;
                entry->hash = world_hash(w, bytes);
                entry->size = (int64_t)bytes.n;
                if (put_inputs)
                        assert_int_equal(world_put(w, "main", bytes), 0);
        }
        buf_clear(&text);
        assert_int_equal(task_write(&task, &text, NULL), 0);
        assert_int_equal(world_put(w, "main", buf_view(&text)), 0);
        hash = world_hash(w, buf_view(&text));
        buf_done(&text);
        return hash;
}

static void a_task_becomes_an_event_with_its_closure(void **state)
{
        struct world *w = *state;
        struct lessor_slice hash = put_task(w, 2, true);
        struct lessor_lease_submission s, again;
        struct rack_terms terms = plain;
        struct lease_event event;

        terms.workspace = LESSOR_SLICE("w");
        terms.run = LESSOR_SLICE(LAUNCH);
        assert_int_equal(rack_submission_of_task(&terms, w->store, hash, WORLD_START_MS, w->arena, &s, NULL),
                         0);
        is_text(s.task_name, "train.sh");
        assert_true(lessor_slice_equal(s.task_hash, hash));
        assert_int_equal(lease_event_read(s.event, w->arena, &event, NULL), 0);
        assert_int_equal(event.n_inputs, 2);
        assert_true(lessor_slice_equal(event.inputs[1], world_hash(w, LESSOR_SLICE("input 00001"))));
        assert_int_equal(event.closure.n_hashes, 3);
        assert_true(event.timeout_ms == 4000);
        is_text(event.run, LAUNCH);
        /* What was made of it is as good as an event that somebody submits. */
        assert_int_equal(rack_submission_of_event(&terms, s.event, w->arena, &again, NULL), 0);
        assert_true(lessor_slice_equal(again.inputs_hash, s.inputs_hash));
        assert_true(lessor_slice_equal(again.task_hash, s.task_hash));
}

static void a_long_closure_is_stored_as_an_object(void **state)
{
        struct world *w = *state;
        struct lessor_slice hash = put_task(w, 512, true); /* with itself 513 */
        struct lessor_lease_submission s;
        struct lease_event event;
        struct lessor_object_info info;

        assert_int_equal(rack_submission_of_task(&plain, w->store, hash, WORLD_START_MS, w->arena, &s, NULL),
                         0);
        assert_int_equal(lease_event_read(s.event, w->arena, &event, NULL), 0);
        assert_null(event.closure.hashes);
        assert_int_equal(event.closure.count, 513);
        assert_int_equal(lessor_object_stat(w->store, LESSOR_SLICE("main"), event.closure.object, &info), 0);
}

static void what_is_missing_is_named(void **state)
{
        struct world *w = *state;
        struct lessor_lease_submission s;
        const char *problem = "";
        struct lessor_slice hash;

        assert_int_equal(rack_submission_of_task(&plain, w->store, LESSOR_SLICE(HASH), WORLD_START_MS,
                                                 w->arena, &s, &problem),
                         LESSOR_E_NOT_FOUND);
        assert_string_equal(problem, "the task object is not in the store");
        hash = put_task(w, 1, false);
        assert_int_equal(
                rack_submission_of_task(&plain, w->store, hash, WORLD_START_MS, w->arena, &s, &problem),
                LESSOR_E_NOT_FOUND);
        assert_non_null(strstr(problem, world_hash(w, LESSOR_SLICE("input 00000")).p));
        assert_int_equal(world_put(w, "main", LESSOR_SLICE("no task")), 0);
        assert_int_equal(rack_submission_of_task(&plain, w->store, world_hash(w, LESSOR_SLICE("no task")),
                                                 WORLD_START_MS, w->arena, &s, &problem),
                         LESSOR_E_INVALID);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, world_setup, world_teardown)
        const struct CMUnitTest tests[] = {
                TEST(an_event_says_what_the_host_does_not),  TEST(the_host_imposes_what_it_says),
                TEST(terms_fill_what_an_event_leaves_open),  TEST(a_task_becomes_an_event_with_its_closure),
                TEST(a_long_closure_is_stored_as_an_object), TEST(what_is_missing_is_named),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
