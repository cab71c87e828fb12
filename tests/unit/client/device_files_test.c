/* SPDX-License-Identifier: MIT */
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/macro.h"
#include "check.h"
#include "client/device_state.h"
#include "client/grant_log.h"
#include "client/ingress_log.h"
#include "json_values.h"

#define NOW 1767225600000

static int set_up(void **state)
{
        *state = scratch_make();
        return 0;
}

static int tear_down(void **state)
{
        scratch_remove(*state);
        return 0;
}

static void a_state_comes_back_as_it_was_written(void **state)
{
        const char *path = scratch_path(*state, "device.json");
        struct lessor_arena *arena = lessor_arena_new();
        struct known_site sites[] = {
                {.key_id = LESSOR_SLICE("BYOLLM-A"),
                 .identity = {LESSOR_SLICE("i"), LESSOR_SLICE("e"), LESSOR_SLICE("s")},
                 .served = true},
                {.key_id = LESSOR_SLICE("BYOLLM-B"),
                 .identity = {LESSOR_SLICE("i2"), LESSOR_SLICE("e2"), LESSOR_SLICE("s2")},
                 .retiring_until_ms = NOW},
        };
        struct device_state written = {
                .relay_url = LESSOR_SLICE("https://relay.example"),
                .runner_id = LESSOR_SLICE("runner_1"),
                .owner = LESSOR_SLICE("ada"),
                .sites = sites,
                .n_sites = 2,
        };
        struct device_state read;
        struct stat st;

        assert_int_equal(device_state_save(path, &written), 0);
        assert_int_equal(stat(path, &st), 0);
        assert_int_equal(st.st_mode & 0777, 0600);
        assert_int_equal(device_state_load(path, arena, &read, NULL), 0);
        assert_text_equal(read.relay_url, "https://relay.example");
        assert_text_equal(read.owner, "ada");
        assert_null(read.control_plane_public.p);
        assert_int_equal(read.n_sites, 2);
        assert_text_equal(read.sites[0].key_id, "BYOLLM-A");
        assert_true(read.sites[0].served);
        assert_int_equal(read.sites[0].retiring_until_ms, 0);
        assert_text_equal(read.sites[1].identity.encryption_sig, "s2");
        assert_false(read.sites[1].served);
        assert_int_equal(read.sites[1].retiring_until_ms, NOW);
        lessor_arena_free(arena);
}

static void states_that_cannot_be_trusted_are_refused(void **state)
{
        static const struct {
                const char *text;
                mode_t mode;
                int error;
        } cases[] = {
                {"{\"version\":1,\"relayUrl\":\"u\",\"runnerId\":\"r\",\"owner\":\"o\",\"sites\":{}}", 0640,
                 LESSOR_E_PERMISSION},
                {"{\"version\":2,\"anything\":1}", 0600, LESSOR_E_NEWER},
                {"{\"version\":1,\"relayUrl\":\"u\",\"runnerId\":\"r\",\"sites\":{}}", 0600,
                 LESSOR_E_MALFORMED},
                {"{\"version\":1", 0600, LESSOR_E_MALFORMED},
                {"", 0600, LESSOR_E_MALFORMED},
        };
        const char *path = scratch_path(*state, "device.json");

        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                struct lessor_arena *arena = lessor_arena_new();
                struct device_state read;
                const char *problem = NULL;

                unlink(path);
                assert_int_equal(file_create(path, lessor_slice_of(cases[i].text), cases[i].mode), 0);
                assert_int_equal(device_state_load(path, arena, &read, &problem), cases[i].error);
                assert_non_null(strstr(problem, "device.json"));
                lessor_arena_free(arena);
        }
}

/* relay-protocol 7: remembered durably until issuedAt + 120000. */
static void a_grant_is_used_once_even_after_a_restart(void **state)
{
        const char *path = scratch_path(*state, "grants.log");
        struct grant_log *log = NULL;

        assert_int_equal(grant_log_open(path, NOW, &log), 0);
        assert_int_equal(grant_log_use(log, LESSOR_SLICE("g1"), NOW + 120000, NOW), 0);
        assert_int_equal(grant_log_use(log, LESSOR_SLICE("g1"), NOW + 120000, NOW), LESSOR_E_EXISTS);
        assert_int_equal(grant_log_use(log, LESSOR_SLICE("g\"2\n"), NOW + 120000, NOW), 0);
        grant_log_close(log);
        assert_int_equal(grant_log_open(path, NOW + 120000, &log), 0);
        assert_int_equal(grant_log_use(log, LESSOR_SLICE("g1"), NOW + 240000, NOW + 120000), LESSOR_E_EXISTS);
        assert_int_equal(grant_log_use(log, LESSOR_SLICE("g\"2\n"), NOW + 240000, NOW + 120000),
                         LESSOR_E_EXISTS);
        grant_log_close(log);
        /* Past that the grant itself is too old to be believed, so it need not be remembered. */
        assert_int_equal(grant_log_open(path, NOW + 120001, &log), 0);
        assert_int_equal(grant_log_use(log, LESSOR_SLICE("g1"), NOW + 240000, NOW + 120001), 0);
        grant_log_close(log);
}

static void a_half_written_line_is_forgiven_but_a_broken_one_is_not(void **state)
{
        const char *path = scratch_path(*state, "grants.log");
        struct grant_log *log = NULL;

        assert_int_equal(file_create(path,
                                     LESSOR_SLICE("{\"grantId\":\"g1\",\"until\":1767225720000}\n{\"grantI"),
                                     0600),
                         0);
        assert_int_equal(grant_log_open(path, NOW, &log), 0);
        assert_int_equal(grant_log_use(log, LESSOR_SLICE("g1"), NOW + 1, NOW), LESSOR_E_EXISTS);
        assert_int_equal(grant_log_use(log, LESSOR_SLICE("g2"), NOW + 1000, NOW), 0);
        grant_log_close(log);
        assert_int_equal(grant_log_open(path, NOW, &log), 0);
        assert_int_equal(grant_log_use(log, LESSOR_SLICE("g2"), NOW + 1000, NOW), LESSOR_E_EXISTS);
        grant_log_close(log);
        assert_int_equal(file_replace(path, LESSOR_SLICE("nonsense\n"), 0600), 0);
        assert_int_equal(grant_log_open(path, NOW, &log), LESSOR_E_CORRUPT);
        assert_int_equal(file_replace(path, LESSOR_SLICE(""), 0644), 0);
        assert_int_equal(grant_log_open(path, NOW, &log), LESSOR_E_PERMISSION);
}

static void every_prompt_is_one_line_of_json(void **state)
{
        const char *path = scratch_path(*state, "ingress.log");
        struct lessor_arena *arena = lessor_arena_new();
        struct ingress_entry entry = {
                .at_ms = NOW + 7,
                .job_id = LESSOR_SLICE("job_\n1"),
                .lease_id = LESSOR_SLICE("lease_1"),
                .site = LESSOR_SLICE("BYOLLM-A"),
                .owner = LESSOR_SLICE("ada"),
                .kind = "llm.generate",
                .service = "echo",
                .payload = LESSOR_SLICE("{\n \"prompt\" : \"a\\nb\"\r\n}"),
        };
        struct ingress_log *log = NULL;
        struct buf text;
        struct json *value;
        mode_t mode;

        buf_init(&text);
        assert_int_equal(ingress_log_open(path, &log), 0);
        assert_int_equal(ingress_log_append(log, &entry), 0);
        ingress_log_close(log);
        /* A later run goes on where this one ended. */
        assert_int_equal(ingress_log_open(path, &log), 0);
        assert_int_equal(ingress_log_append(log, &entry), 0);
        ingress_log_close(log);
        assert_int_equal(file_read_private(path, 4096, &text, &mode), 0);
        assert_int_equal(mode & 0777, 0600);
        assert_int_equal(text.n % 2, 0);
        assert_memory_equal(text.p, text.p + text.n / 2, text.n / 2);
        assert_ptr_equal(memchr(text.p, '\n', text.n), text.p + text.n / 2 - 1);
        assert_int_equal(json_read_copy((struct lessor_slice){text.p, text.n / 2}, arena, &value), 0);
        assert_string_equal(json_cstr(json_member_named(value, "at")), "2026-01-01T00:00:00.007Z");
        assert_string_equal(json_cstr(json_member_named(value, "jobId")), "job_\n1");
        assert_string_equal(json_cstr(json_member_named(json_member_named(value, "payload"), "prompt")),
                            "a\nb");
        buf_done(&text);
        lessor_arena_free(arena);
}

static void a_log_that_others_can_read_is_refused(void **state)
{
        const char *path = scratch_path(*state, "ingress.log");
        struct ingress_log *log = NULL;

        assert_int_equal(file_create(path, LESSOR_SLICE(""), 0644), 0);
        assert_int_equal(ingress_log_open(path, &log), LESSOR_E_PERMISSION);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
        const struct CMUnitTest tests[] = {
                CASE(a_state_comes_back_as_it_was_written),
                CASE(states_that_cannot_be_trusted_are_refused),
                CASE(a_grant_is_used_once_even_after_a_restart),
                CASE(a_half_written_line_is_forgiven_but_a_broken_one_is_not),
                CASE(every_prompt_is_one_line_of_json),
                CASE(a_log_that_others_can_read_is_refused),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
