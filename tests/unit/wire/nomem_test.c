/* SPDX-License-Identifier: MIT */
#include "nomem.h"

#include "base/json_read.h"
#include "wire/env_manifest.h"
#include "wire/envelope_text.h"
#include "wire/lease_event.h"
#include "wire/lease_result.h"
#include "wire/relay_device.h"
#include "wire/relay_documents.h"
#include "wire/relay_errors.h"

static int copy_fixture(struct lessor_arena *arena)
{
        static const char text[] =
                "{\"consents\":[{\"owner\":\"a\",\"siteId\":\"b\"}],\"rosters\":[{\"id\":\"r\","
                "\"owner\":\"o\",\"members\":[\"m\",\"n\"]}]}";
        struct relay_fixture fixture;
        struct json *value;
        struct buf out;
        int e = json_read(lessor_slice_of(text), arena, &value);

        /* More than a block of the arena, so that the tables' own allocations fail too. */
        if (e == 0 && lessor_arena_alloc(arena, 1900) == NULL)
                e = LESSOR_E_NOMEM;
        if (e == 0)
                e = message_read(&relay_fixture_table, value, arena, &fixture, NULL);
        if (e < 0)
                return e;
        buf_init(&out);
        e = message_append(&relay_fixture_table, &fixture, &out);
        buf_done(&out);
        return e;
}

static int read_wrong_fixture(struct lessor_arena *arena)
{
        struct relay_fixture fixture;
        const char *problem = NULL;
        struct json *value;
        int e = json_read(LESSOR_SLICE("{\"consents\":[{\"owner\":\"a\",\"siteId\":\"\"}]}"), arena, &value);

        for (int i = 0; e == 0 && i < 2000; i += 100)
                if (lessor_arena_alloc(arena, 100) == NULL)
                        e = LESSOR_E_NOMEM;
        if (e == 0)
                e = message_read(&relay_fixture_table, value, arena, &fixture, &problem);
        if (e == LESSOR_E_INVALID)
                assert_non_null(problem);
        return e;
}

static int write_envelope(struct lessor_arena *arena)
{
        struct lessor_sealed_envelope envelope = {.ciphertext = LESSOR_SLICE("A"),
                                                  .recipient_key_id = LESSOR_SLICE("r"),
                                                  .sender_key_id = LESSOR_SLICE("s"),
                                                  .deadline_ms = 1};
        struct lessor_envelope text;

        return envelope_text(&envelope, arena, &text, NULL);
}

static int write_refusal(struct lessor_arena *arena)
{
        struct relay_refusal_details details = {.subject = LESSOR_SLICE("0.1.0"),
                                                .floor = LESSOR_SLICE("0.2.0")};
        struct buf out;
        int e;

        (void)arena;
        buf_init(&out);
        e = relay_refusal_append(RELAY_REFUSAL_BELOW_FLOOR, &details, &out);
        buf_done(&out);
        return e;
}

#define HASH "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
#define UUID "01890a5d-ac96-774b-bcce-b302099a8057"

/* Fills the arena's block, so that what comes next needs another. */
static int fill(struct lessor_arena *arena)
{
        for (int i = 0; i < 2000; i += 100)
                if (lessor_arena_alloc(arena, 100) == NULL)
                        return LESSOR_E_NOMEM;
        return 0;
}

static int copy_event(struct lessor_arena *arena)
{
        static const char text[] =
                "{\"version\":2,\"workspace\":\"w\",\"taskName\":\"\\u0074\",\"closure\":{\"hashes\":[\"" HASH
                "\"]},\"runnerEvent\":{\"mode\":\"task\",\"launchId\":\"" UUID
                "\",\"repo\":\"main\",\"timeoutMs\":1,\"taskHash\":\"" HASH "\",\"inputHashes\":[\"" HASH
                "\"]}}";
        struct lease_event event;
        struct buf out;
        int e = fill(arena);

        if (e == 0)
                e = lease_event_read(lessor_slice_of(text), arena, &event, NULL);
        if (e < 0)
                return e;
        buf_init(&out);
        e = lease_event_write_task(&event, &out);
        buf_done(&out);
        return e;
}

static int read_wrong_event(struct lessor_arena *arena)
{
        struct lease_event event;
        const char *problem = NULL;
        int e = fill(arena);

        if (e == 0)
                e = lease_event_read(LESSOR_SLICE("{\"version\":2,\"runnerEvent\":{\"mode\":7}}"), arena,
                                     &event, &problem);
        if (e == LESSOR_E_INVALID)
                assert_non_null(problem);
        return e;
}

static int rewrite_result(struct lessor_arena *arena)
{
        static const char text[] =
                "{\"taskName\":\"\\u0074\",\"status\":\"success\",\"error\":\"a\\nb\",\"outputHash\":\"" HASH
                "\"}";
        struct lessor_verdict verdict;
        struct lessor_slice again;
        int e = fill(arena);

        if (e == 0)
                e = lease_result_read(lessor_slice_of(text), arena, &verdict, NULL);
        return e < 0 ? e : lease_result_with_output(lessor_slice_of(text), LESSOR_SLICE(HASH), arena, &again);
}

static int read_manifest(struct lessor_arena *arena)
{
        static const char text[] =
                "{\"envHash\":\"" HASH
                "\",\"e3Version\":\"1\",\"baseImage\":\"b\",\"baseTier\":\"c\",\"layers\":[{"
                "\"digest\":\"sha256:" HASH "\",\"sizeBytes\":1,\"mediaType\":\"m\"}]}";
        struct env_manifest manifest;
        int e = fill(arena);

        return e < 0 ? e : env_manifest_read(lessor_slice_of(text), arena, &manifest, NULL);
}

static void events_and_results_survive_each_failure(void **state)
{
        (void)state;
        fail_each(copy_event, 0);
        fail_each(read_wrong_event, LESSOR_E_INVALID);
        fail_each(rewrite_result, 0);
        fail_each(read_manifest, 0);
}

static void messages_survive_each_failure(void **state)
{
        (void)state;
        fail_each(copy_fixture, 0);
        fail_each(read_wrong_fixture, LESSOR_E_INVALID);
        fail_each(write_envelope, 0);
        fail_each(write_refusal, 0);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(messages_survive_each_failure),
                cmocka_unit_test(events_and_results_survive_each_failure),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
