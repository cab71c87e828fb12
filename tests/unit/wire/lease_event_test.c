/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/macro.h"
#include "wire/lease_event.h"

#define HASH   "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
#define OTHER  "1f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
#define LAUNCH "01890a5d-ac96-774b-bcce-b302099a8057"

struct world {
        struct lessor_arena *arena;
        struct lease_event event;
        const char *problem;
};

static int setup(void **state)
{
        static struct world w;

        w = (struct world){.arena = lessor_arena_new()};
        assert_non_null(w.arena);
        *state = &w;
        return 0;
}

static int teardown(void **state)
{
        struct world *w = *state;

        lessor_arena_free(w->arena);
        return 0;
}

#define COMMON  "\"launchId\":\"" LAUNCH "\",\"repo\":\"main\",\"timeoutMs\":1500.5"
#define TASK    "\"mode\":\"task\"," COMMON ",\"taskHash\":\"" HASH "\",\"inputHashes\":[\"" OTHER "\"]"
#define MERGE   "\"merge\":{\"parts\":[\"" HASH "\"],\"range\":null}"
#define UNIT(m) "\"mode\":\"unit\"," COMMON ",\"taskHash\":\"" HASH "\",\"unit\":{\"inputs\":[\"tag\"]," m "}"
#define RUNNER                                                                                            \
        "{\"type\":\"east_py\",\"value\":{\"platforms\":[\"p\"],\"decode\":{\"type\":\"lazy\",\"value\":" \
        "null}}}"
#define LIMITS "{\"timeoutMs\":1,\"maxResultBytes\":0,\"maxLogBytes\":9}"
#define SPEC(args, runner, limits) \
        "{\"bodyIr\":\"\",\"args\":" args ",\"runner\":" runner ",\"limits\":" limits "}"
#define FUNCTION(spec) "\"mode\":\"run-detached\"," COMMON ",\"spec\":" spec
#define CLOSURE        "{\"hashes\":[\"" HASH "\",\"" OTHER "\"]}"

/* An event of a runner event, a closure and further members, `more` beginning with a comma. */
#define EVENT(runner, closure, more)              \
        "{\"version\":2,\"runnerEvent\":{" runner \
        "},\"workspace\":\"w\",\"taskName\":\"t\",\"closure\":" closure more "}"

static int read_event(struct world *w, const char *text)
{
        w->problem = NULL;
        return lease_event_read(lessor_slice_of(text), w->arena, &w->event, &w->problem);
}

static void taken(struct world *w, const char *text)
{
        if (read_event(w, text) != 0)
                fail_msg("%s: %s", text, w->problem);
}

static void is_text(struct lessor_slice text, const char *expected)
{
        assert_true(lessor_slice_equal(text, lessor_slice_of(expected)));
}

static void a_task_is_read_whole(void **state)
{
        struct world *w = *state;

        taken(w, EVENT(TASK ",\"run\":{\"workspace\":\"rw\",\"id\":\"" LAUNCH
                            "\"},\"force\":true,\"verbose\":true,"
                            "\"expectedPeakBytes\":7,\"notice\":\"look\",\"unknown\":null",
                       CLOSURE, ",\"e3Version\":\"1.2.3\",\"environment\":\"" OTHER "\",\"extra\":[]"));
        assert_int_equal(w->event.mode, LESSOR_LEASE_TASK);
        is_text(w->event.repo, "main");
        is_text(w->event.workspace, "w");
        is_text(w->event.task_name, "t");
        is_text(w->event.e3_version, "1.2.3");
        is_text(w->event.environment, OTHER);
        assert_null(w->event.program.p);
        is_text(w->event.launch_id, LAUNCH);
        assert_true(w->event.timeout_ms == 1500.5);
        is_text(w->event.task_hash, HASH);
        assert_int_equal(w->event.n_inputs, 1);
        is_text(w->event.inputs[0], OTHER);
        is_text(w->event.run, LAUNCH);
        is_text(w->event.run_workspace, "rw");
        assert_true(w->event.force && w->event.verbose && !w->event.own);
        assert_int_equal(w->event.expected_peak_bytes, 7);
        is_text(w->event.notice, "look");
        assert_int_equal(w->event.closure.n_hashes, 2);
        is_text(w->event.closure.hashes[1], OTHER);
        assert_null(w->event.closure.object.p);
        taken(w, EVENT(TASK, CLOSURE, ""));
        assert_int_equal(w->event.expected_peak_bytes, -1);
        assert_null(w->event.run.p);
        assert_null(w->event.notice.p);
}

static void a_unit_is_read(void **state)
{
        struct world *w = *state;

        taken(w, EVENT(UNIT("\"merge\":null,\"own\":true"), CLOSURE, ""));
        assert_int_equal(w->event.mode, LESSOR_LEASE_UNIT);
        assert_true(w->event.own);
        is_text(w->event.inputs[0], "tag");
        taken(w, EVENT(UNIT(MERGE ",\"own\":false"), CLOSURE, ""));
        assert_false(w->event.own);
}

static void a_function_is_read(void **state)
{
        struct world *w = *state;

        taken(w, EVENT(FUNCTION(SPEC("[\"YQ==\",{\"dataset\":\"" HASH "\"}]", RUNNER, LIMITS)), CLOSURE,
                       ",\"program\":\"" OTHER "\""));
        assert_int_equal(w->event.mode, LESSOR_LEASE_FUNCTION);
        is_text(w->event.task_hash, OTHER);
        assert_int_equal(w->event.n_inputs, 0);
        taken(w, EVENT(FUNCTION(SPEC("[]", "{\"type\":\"custom\",\"value\":{\"command\":[\"sh\"]}}", LIMITS)),
                       CLOSURE, ""));
        is_text(w->event.task_hash, "");
        assert_non_null(w->event.task_hash.p);
}

static void a_closure_may_be_an_object(void **state)
{
        struct world *w = *state;

        taken(w, EVENT(TASK, "{\"object\":\"" HASH "\",\"count\":1e3}", ""));
        is_text(w->event.closure.object, HASH);
        assert_int_equal(w->event.closure.count, 1000);
        assert_null(w->event.closure.hashes);
}

static void what_is_wrong_is_refused_and_named(void **state)
{
        static const struct {
                const char *text, *problem;
        } cases[] = {
                {"[]", "event: must be an object"},
                {"{\"version\":1,\"runnerEvent\":{},\"closure\":{}}", "version: must be 2"},
                {"{\"version\":\"2\",\"runnerEvent\":{},\"closure\":{}}", "version: must be 2"},
                {"{\"version\":2,\"runnerEvent\":null,\"closure\":{}}", "runnerEvent: must be an object"},
                {"{\"version\":2,\"runnerEvent\":[],\"closure\":{}}", "runnerEvent: must be an object"},
                {EVENT("\"taskName\":\"old\"", CLOSURE, ""),
                 "runnerEvent: is of version 1, which is retired"},
                {EVENT("\"mode\":\"intake\"," COMMON, CLOSURE, ""),
                 "runnerEvent.mode: must be task, unit or run-detached"},
                {EVENT("\"mode\":null," COMMON, CLOSURE, ""),
                 "runnerEvent.mode: must be task, unit or run-detached"},
                {EVENT(TASK ",\"launchId\":\"x\"", CLOSURE, ""),
                 "runnerEvent.launchId: must be a UUID of version 7"},
                {EVENT(TASK ",\"repo\":\"\"", CLOSURE, ""),
                 "runnerEvent.repo: must be a text that is not empty"},
                {EVENT(TASK ",\"timeoutMs\":0", CLOSURE, ""),
                 "runnerEvent.timeoutMs: must be a finite number above 0"},
                {EVENT(TASK ",\"timeoutMs\":1e999", CLOSURE, ""),
                 "runnerEvent.timeoutMs: must be a finite number above 0"},
                {EVENT(TASK ",\"taskHash\":\"abc\"", CLOSURE, ""),
                 "runnerEvent.taskHash: must be a SHA-256 in lower-case hex"},
                {EVENT(TASK ",\"inputHashes\":[\"abc\"]", CLOSURE, ""),
                 "runnerEvent.inputHashes: must be a list of hashes"},
                {EVENT(TASK ",\"inputHashes\":{}", CLOSURE, ""),
                 "runnerEvent.inputHashes: must be a list of hashes"},
                {EVENT(TASK ",\"run\":null", CLOSURE, ""), "runnerEvent.run: must be an object"},
                {EVENT(TASK ",\"run\":{\"workspace\":\"\",\"id\":\"" LAUNCH "\"}", CLOSURE, ""),
                 "runnerEvent.run.workspace: must be a text that is not empty"},
                {EVENT(TASK ",\"run\":{\"workspace\":\"w\",\"id\":7}", CLOSURE, ""),
                 "runnerEvent.run.id: must be a UUID of version 7"},
                {EVENT(TASK ",\"force\":null", CLOSURE, ""), "runnerEvent.force: must be true or false"},
                {EVENT(TASK ",\"verbose\":1", CLOSURE, ""), "runnerEvent.verbose: must be true or false"},
                {EVENT(TASK ",\"expectedPeakBytes\":-1", CLOSURE, ""),
                 "runnerEvent.expectedPeakBytes: must be an integer of at least 0"},
                {EVENT(TASK ",\"expectedPeakBytes\":null", CLOSURE, ""),
                 "runnerEvent.expectedPeakBytes: must be an integer of at least 0"},
                {EVENT(TASK ",\"notice\":\"\"", CLOSURE, ""),
                 "runnerEvent.notice: must be a text that is not empty"},
                {EVENT(UNIT("\"own\":true"), CLOSURE, ""), "runnerEvent.unit.merge: must be an object"},
                {EVENT(UNIT("\"merge\":null"), CLOSURE, ""), "runnerEvent.unit.own: must be true or false"},
                {EVENT(UNIT("\"own\":true,\"merge\":{\"parts\":[]}"), CLOSURE, ""),
                 "runnerEvent.unit.merge.range: must be null or a hash"},
                {EVENT(UNIT("\"own\":true,\"merge\":{\"parts\":[1],\"range\":null}"), CLOSURE, ""),
                 "runnerEvent.unit.merge.parts: must be a list of hashes"},
                {EVENT(UNIT("\"own\":true,\"merge\":null,\"inputs\":[\"\"]"), CLOSURE, ""),
                 "runnerEvent.unit.inputs: must be a list of texts that are not empty"},
                {EVENT(FUNCTION("null"), CLOSURE, ""), "runnerEvent.spec: must be an object"},
                {EVENT(FUNCTION(SPEC("[\"x\"]", RUNNER, LIMITS)), CLOSURE, ""),
                 "runnerEvent.spec.args: must be a list of base64 texts and {dataset: hash}"},
                {EVENT(FUNCTION(SPEC("[]", "{\"type\":\"east_go\",\"value\":{}}", LIMITS)), CLOSURE, ""),
                 "runnerEvent.spec.runner.type: must be east_node, east_py, east_c or custom"},
                {EVENT(FUNCTION(SPEC("[]", RUNNER,
                                     "{\"timeoutMs\":1,\"maxResultBytes\":0.5,\"maxLogBytes\":0}")),
                       CLOSURE, ""),
                 "runnerEvent.spec.limits.maxResultBytes: must be an integer of at least 0"},
                {EVENT(FUNCTION(SPEC("[]", RUNNER, LIMITS)) ",\"deadline\":-1", CLOSURE, ""),
                 "runnerEvent.deadline: must be an integer of at least 0"},
                {EVENT(TASK, CLOSURE, ",\"workspace\":7"), "workspace: must be a text"},
                {EVENT(TASK, CLOSURE, ",\"taskName\":null"), "taskName: must be a text"},
                {EVENT(TASK, CLOSURE, ",\"e3Version\":null"), "e3Version: must be a text"},
                {EVENT(TASK, CLOSURE, ",\"environment\":null"),
                 "environment: must be a SHA-256 in lower-case hex"},
                {EVENT(TASK, CLOSURE, ",\"program\":\"\""), "program: must be a SHA-256 in lower-case hex"},
                {EVENT(TASK, "null", ""), "closure: must be an object"},
                {EVENT(TASK, "{}", ""), "closure.object: must be a SHA-256 in lower-case hex"},
                {EVENT(TASK, "{\"object\":\"" HASH "\"}", ""),
                 "closure.count: must be an integer of at least 0"},
                {EVENT(TASK, "{\"object\":\"" HASH "\",\"count\":-1}", ""),
                 "closure.count: must be an integer of at least 0"},
                {EVENT(TASK, "{\"hashes\":[\"x\"]}", ""), "closure.hashes: must be a list of hashes"},
                {EVENT(TASK, "{\"hashes\":[],\"object\":\"" HASH "\",\"count\":1}", ""),
                 "closure: must have hashes, or object and count, and not both"},
        };
        struct world *w = *state;

        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                if (read_event(w, cases[i].text) != LESSOR_E_INVALID)
                        fail_msg("%s was taken", cases[i].text);
                assert_string_equal(w->problem, cases[i].problem);
        }
        assert_int_equal(read_event(w, "{"), LESSOR_E_MALFORMED);
}

static void a_list_of_512_hashes_is_the_longest(void **state)
{
        struct world *w = *state;

        for (size_t n = 512; n <= 513; n++) {
                struct buf text;

                buf_init(&text);
                buf_text(&text,
                         "{\"version\":2,\"runnerEvent\":{" TASK "},\"workspace\":\"w\",\"taskName\":\"t\","
                         "\"closure\":{\"hashes\":[");
                for (size_t i = 0; i < n; i++)
                        buf_printf(&text, "%s\"%064zx\"", i == 0 ? "" : ",", i);
                buf_text(&text, "]}}");
                assert_int_equal(buf_failed(&text), 0);
                assert_int_equal(lease_event_read(buf_view(&text), w->arena, &w->event, NULL),
                                 n == 512 ? 0 : LESSOR_E_INVALID);
                buf_done(&text);
        }
}

static void storage_asks_for_little(void **state)
{
        struct world *w = *state;
        struct lease_closure closure;

        assert_int_equal(
                lease_event_read_closure(
                        LESSOR_SLICE("{\"version\":2,\"runnerEvent\":{},\"closure\":{\"hashes\":[\"" HASH
                                     "\"]}}"),
                        w->arena, &closure, NULL),
                0);
        assert_int_equal(closure.n_hashes, 1);
        assert_int_equal(lease_event_read_closure(LESSOR_SLICE("{\"version\":2,\"runnerEvent\":{}}"),
                                                  w->arena, &closure, NULL),
                         LESSOR_E_INVALID);
}

static void what_is_written_reads_back(void **state)
{
        struct world *w = *state;
        struct lessor_slice hashes[] = {LESSOR_SLICE(HASH), LESSOR_SLICE(OTHER)};
        struct lease_event event = {.mode = LESSOR_LEASE_TASK,
                                    .repo = LESSOR_SLICE("main"),
                                    .workspace = LESSOR_SLICE("\"w\""),
                                    .task_name = LESSOR_SLICE("t"),
                                    .launch_id = LESSOR_SLICE(LAUNCH),
                                    .timeout_ms = 5000,
                                    .task_hash = hashes[0],
                                    .inputs = hashes,
                                    .n_inputs = 2,
                                    .run = LESSOR_SLICE(LAUNCH),
                                    .run_workspace = LESSOR_SLICE("rw"),
                                    .closure = {.hashes = hashes, .n_hashes = 2}};
        struct buf text;

        buf_init(&text);
        assert_int_equal(lease_event_write_task(&event, &text), 0);
        taken(w, text.p);
        is_text(w->event.workspace, "\"w\"");
        is_text(w->event.run_workspace, "rw");
        assert_int_equal(w->event.n_inputs, 2);
        assert_int_equal(w->event.closure.n_hashes, 2);
        buf_clear(&text);
        event.closure = (struct lease_closure){.object = hashes[1], .count = 600};
        event.run = event.run_workspace = (struct lessor_slice){0};
        assert_int_equal(lease_event_write_task(&event, &text), 0);
        taken(w, text.p);
        is_text(w->event.closure.object, OTHER);
        assert_int_equal(w->event.closure.count, 600);
        assert_null(w->event.run.p);
        event.mode = LESSOR_LEASE_UNIT;
        assert_int_equal(lease_event_write_task(&event, &text), LESSOR_E_INVALID);
        buf_done(&text);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
        const struct CMUnitTest tests[] = {
                TEST(a_task_is_read_whole),
                TEST(a_unit_is_read),
                TEST(a_function_is_read),
                TEST(a_closure_may_be_an_object),
                TEST(what_is_wrong_is_refused_and_named),
                TEST(a_list_of_512_hashes_is_the_longest),
                TEST(storage_asks_for_little),
                TEST(what_is_written_reads_back),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
