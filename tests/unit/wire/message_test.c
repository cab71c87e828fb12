/* SPDX-License-Identifier: MIT */
#include "vectors.h"

#include <stdio.h>

#include "base/macro.h"
#include "wire/relay_device.h"
#include "wire/relay_documents.h"
#include "wire/relay_site.h"

static struct lessor_arena *arena;

static int setup(void **state)
{
        (void)state;
        arena = lessor_arena_new();
        return arena == NULL;
}

static int teardown(void **state)
{
        (void)state;
        arena = lessor_arena_free(arena);
        return 0;
}

static struct json *parse(const char *text)
{
        return vectors_parse(arena, lessor_slice_of(text));
}

#define IDENTITY "{\"identity\":\"i\",\"encryption\":\"e\",\"encryptionSig\":\"s\"}"

static void problems_name_the_member_at_fault(void **state)
{
        static const struct {
                const struct message_table *table;
                const char *text;
                const char *problem;
        } cases[] = {
                {&relay_fixture_table, "[]", "must be an object"},
                {&relay_fixture_table, "null", "must be an object"},
                {&relay_fixture_table, "{}", "consents: is missing"},
                {&relay_fixture_table, "{\"consents\":null}", "consents: must be a list"},
                {&relay_fixture_table, "{\"consents\":[],\"x\":1}", "has an unknown member \"x\""},
                {&relay_fixture_table, "{\"consents\":[],\"\":1}", "has an unknown member \"\""},
                {&relay_fixture_table, "{\"consents\":[{\"role\":1}]}",
                 "consents[0]: has an unknown member \"role\""},
                {&relay_fixture_table, "{\"consents\":[{\"owner\":\"a\",\"siteId\":\"s\"},{\"owner\":\"\"}]}",
                 "consents[1].owner: must not be empty"},
                {&relay_fixture_table, "{\"consents\":[{\"owner\":\"a\",\"siteId\":\"s\",\"paused\":0}]}",
                 "consents[0].paused: must be true or false"},
                {&relay_fixture_table,
                 "{\"consents\":[],\"rosters\":[{\"id\":\"r\",\"owner\":\"o\",\"members\":[1]}]}",
                 "rosters[0].members[0]: must be a text"},
                {&relay_fixture_table,
                 "{\"consents\":[],\"sites\":[{\"siteId\":\"s\",\"site\":" IDENTITY ",\"retiringUntil\":0}]}",
                 "sites[0].retiringUntil: must be at least 1"},
                {&relay_fixture_table,
                 "{\"consents\":[],\"sites\":[{\"siteId\":\"s\",\"site\":" IDENTITY
                 ",\"retiringUntil\":1.5}]}",
                 "sites[0].retiringUntil: must be an integer"},
                {&relay_policy_table, "{\"declares\":{\"site_a\":[\"\"]}}",
                 "declares.site_a[0]: must not be empty"},
                {&relay_policy_table, "{\"declares\":{\"\":[]}}", "declares: must not have an empty key"},
                {&relay_policy_table, "{\"declares\":[]}", "declares: must be an object"},
                {&claim_request_table,
                 "{\"protocolVersion\":\"2\",\"runnerId\":\"r\",\"capabilities\":[],\"max\":65}",
                 "max: must be at most 64"},
                {&claim_request_table,
                 "{\"protocolVersion\":\"1\",\"runnerId\":\"r\",\"capabilities\":[],\"max\":1}",
                 "protocolVersion: must be \"2\""},
                {&release_request_table,
                 "{\"protocolVersion\":\"2\",\"runnerId\":\"r\",\"leases\":[],\"reason\":\"bored\"}",
                 "reason: is none of the known words"},
                {&pair_poll_request_table,
                 "{\"protocolVersion\":\"2\",\"action\":\"poll\",\"deviceCode\":\"short\"}",
                 "deviceCode: must have at least 20 characters"},
                {&withheld_table, "{\"kind\":\"llm.chat\",\"claimants\":[]}",
                 "claimants: must have at least 2 items"},
                {&pair_poll_answer_table, "{\"status\":\"asleep\"}", "status: is none of the known words"},
                {&pair_poll_answer_table, "{\"owner\":\"o\"}", "status: is missing"},
                {&pair_poll_answer_table, "{\"owner\":\"o\",\"status\":\"pending\"}",
                 "has an unknown member \"owner\""},
                {&pair_poll_answer_table, "{\"status\":\"approved\",\"owner\":\"o\",\"sites\":{}}",
                 "runnerId: is missing"},
        };

        (void)state;
        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                const struct json *value = parse(cases[i].text);
                char *message = lessor_arena_alloc(arena, cases[i].table->size);
                const char *problem = NULL;

                memset(message, 0x5a, cases[i].table->size);
                if (message_read(cases[i].table, value, arena, message, &problem) != LESSOR_E_INVALID)
                        fail_msg("%s was read", cases[i].text);
                assert_string_equal(problem, cases[i].problem);
                for (size_t b = 0; b < cases[i].table->size; b++)
                        assert_int_equal(message[b], 0);
                assert_int_equal(message_read(cases[i].table, value, arena, message, NULL), LESSOR_E_INVALID);
        }
}

static void an_absent_body_fits_nothing(void **state)
{
        struct claim_request claim;
        struct pair_request pair;

        (void)state;
        assert_int_equal(message_read(&claim_request_table, NULL, arena, &claim, NULL), LESSOR_E_INVALID);
        assert_int_equal(pair_request_read(NULL, arena, &pair), LESSOR_E_INVALID);
        assert_int_equal(pair_request_read(parse("[]"), arena, &pair), LESSOR_E_INVALID);
}

static void absence_is_told_from_emptiness(void **state)
{
        static const char with[] =
                "{\"kind\":\"llm.chat\",\"service\":\"s\",\"backendId\":\"vllm\",\"backendClass\":"
                "\"process\",\"model\":\"m\",\"knownModels\":[],\"offerScope\":\"team\"}";
        static const char without[] = "{\"kind\":\"llm.generate\",\"service\":\"s\",\"backendId\":\"vllm\","
                                      "\"backendClass\":\"http\",\"model\":\"m\",\"offerScope\":\"private\"}";
        struct lessor_device_capability c[2];

        (void)state;
        assert_int_equal(message_read(&capability_table, parse(with), arena, &c[0], NULL), 0);
        assert_non_null(c[0].known_models);
        assert_int_equal(c[0].n_known_models, 0);
        assert_int_equal(c[0].backend_class, LESSOR_BACKEND_PROCESS);
        assert_int_equal(c[0].offer_scope, LESSOR_OFFER_TEAM);
        assert_int_equal(message_read(&capability_table, parse(without), arena, &c[1], NULL), 0);
        assert_null(c[1].known_models);
        assert_int_equal(capability_kinds(c, 1), LESSOR_KIND_BIT(LESSOR_KIND_LLM_CHAT));
        assert_int_equal(capability_kinds(c, 2), 3);
        assert_int_equal(capability_kinds(c, 0), 0);
}

static void only_files_of_people_may_say_null(void **state)
{
        static const char text[] =
                "{\"consents\":[{\"siteId\":\"s\",\"user\":\"u\",\"mappings\":[{\"purpose\":\"p\","
                "\"kind\":\"llm.chat\",\"service\":\"x\",\"owner\":null}]}]}";
        struct relay_policy policy;
        struct buf out;

        (void)state;
        buf_init(&out);
        assert_int_equal(message_read(&relay_policy_table, parse(text), arena, &policy, NULL), 0);
        assert_null(policy.consents[0].mappings[0].owner.p);
        assert_null(policy.declares);
        assert_null(policy.advertising);
        assert_int_equal(message_append(&relay_policy_table, &policy, &out), 0);
        assert_string_equal(out.p, text);
        buf_done(&out);
}

static void members_are_written_in_table_order(void **state)
{
        struct pinned_site site = {LESSOR_SLICE("BYOLLM-1"),
                                   {LESSOR_SLICE("i"), LESSOR_SLICE("e"), LESSOR_SLICE("s\"")}};
        struct lessor_lease_ref ref = {LESSOR_SLICE("j"), LESSOR_SLICE("l")};
        struct heartbeat_answer answer = {
                .sites = &site, .n_sites = 1, .lost = &ref, .n_lost = 1, .server_time_ms = 5};
        struct buf out;

        (void)state;
        buf_init(&out);
        assert_int_equal(message_append(&heartbeat_answer_table, &answer, &out), 0);
        assert_string_equal(out.p, "{\"sites\":{\"BYOLLM-1\":{\"identity\":\"i\",\"encryption\":\"e\","
                                   "\"encryptionSig\":\"s\\\"\"}},\"awaitingConsent\":[],\"cancel\":[],"
                                   "\"lost\":[{\"jobId\":\"j\",\"leaseId\":\"l\"}],\"serverTime\":5}");
        buf_clear(&out);
        answer.n_sites = 0;
        answer.update_to = LESSOR_SLICE("1.0.0");
        answer.successions =
                (struct site_succession[]){{.key_id = LESSOR_SLICE("k"), .retiring_until_ms = 9}};
        answer.n_successions = 1;
        assert_int_equal(message_append(&heartbeat_answer_table, &answer, &out), 0);
        assert_string_equal(out.p,
                            "{\"sites\":{},\"successions\":{\"k\":{\"succeeds\":[],\"retiringUntil\":9}},"
                            "\"updateTo\":\"1.0.0\",\"awaitingConsent\":[],\"cancel\":[],"
                            "\"lost\":[{\"jobId\":\"j\",\"leaseId\":\"l\"}],\"serverTime\":5}");
        buf_done(&out);
}

static void a_kept_envelope_is_written_as_it_is(void **state)
{
        static const char kept[] =
                "{\"ciphertext\":\"A\",\"recipientKeyId\":\"r\",\"senderKeyId\":\"s\",\"direction\":"
                "\"payload\",\"deadlineAt\":1}";
        struct fetch_answer answer = {.envelope.text = lessor_slice_of(kept)};
        struct fetch_answer read;
        struct buf out, again;

        (void)state;
        buf_init(&out);
        buf_init(&again);
        assert_int_equal(message_append(&fetch_answer_table, &answer, &out), 0);
        assert_int_equal(message_read(&fetch_answer_table, parse(out.p), arena, &read, NULL), 0);
        assert_null(read.envelope.text.p);
        assert_int_equal(read.envelope.sealed.deadline_ms, 1);
        assert_int_equal(message_append(&fetch_answer_table, &read, &again), 0);
        assert_string_equal(out.p, again.p);
        buf_done(&out);
        buf_done(&again);
}

static void answers_of_the_site_plane_may_say_more(void **state)
{
        struct cancel_answer cancel;
        struct pending_answer pending;
        struct claim_answer claim;

        (void)state;
        assert_int_equal(message_read(&cancel_answer_table, parse("{\"since\":1,\"cancelled\":true}"), arena,
                                      &cancel, NULL),
                         0);
        assert_true(cancel.cancelled);
        assert_int_equal(message_read(&pending_answer_table, parse("{\"more\":false,\"jobs\":[]}"), arena,
                                      &pending, NULL),
                         0);
        assert_int_equal(message_read(&claim_answer_table, parse("{\"jobs\":[],\"leaseMs\":1,\"x\":1}"),
                                      arena, &claim, NULL),
                         LESSOR_E_INVALID);
}

static void lists_are_read_and_written_alone(void **state)
{
        static const char text[] =
                "[{\"jobId\":\"a\",\"leaseId\":\"b\"},{\"jobId\":\"c\",\"leaseId\":\"d\"}]";
        struct lessor_lease_ref *refs = NULL;
        struct json_writer w;
        struct buf out;
        const char *problem;
        size_t n = 99;

        (void)state;
        assert_int_equal(message_read_list(&lease_ref_table, parse(text), arena, &refs, &n, NULL), 0);
        assert_int_equal(n, 2);
        assert_true(lessor_slice_equal(refs[1].job_id, LESSOR_SLICE("c")));
        buf_init(&out);
        json_writer_init(&w, &out);
        message_write_list(&lease_ref_table, refs, n, &w);
        assert_string_equal(out.p, text);
        buf_done(&out);
        assert_int_equal(
                message_read_list(&lease_ref_table, parse("[{\"jobId\":\"a\"}]"), arena, &refs, &n, &problem),
                LESSOR_E_INVALID);
        assert_string_equal(problem, "[0].leaseId: is missing");
        assert_int_equal(message_read_list(&lease_ref_table, parse("{}"), arena, &refs, &n, &problem),
                         LESSOR_E_INVALID);
}

static void keys_may_hold_anything(void **state)
{
        struct lessor_lease_ref ref;
        struct json *value = parse("{\"jobId\":\"a\\u0000b\",\"leaseId\":\"\\u0000\"}");

        (void)state;
        assert_int_equal(message_read(&lease_ref_table, value, arena, &ref, NULL), 0);
        assert_int_equal(ref.job_id.n, 3);
        assert_int_equal(ref.lease_id.n, 1);
}

static void acknowledgements_are_bounded(void **state)
{
        struct ack_request ack;
        struct buf text;

        (void)state;
        for (int n = 0; n <= 1001; n += n == 0 ? 1 : 500) {
                buf_init(&text);
                buf_text(&text, "{\"protocolVersion\":\"2\",\"siteId\":\"s\",\"jobIds\":[");
                for (int i = 0; i < n; i++)
                        buf_printf(&text, "%s\"job-%d\"", i > 0 ? "," : "", i);
                assert_int_equal(buf_text(&text, "]}"), 0);
                assert_int_equal(message_read(&ack_request_table, parse(text.p), arena, &ack, NULL),
                                 n >= 1 && n <= 1000 ? 0 : LESSOR_E_INVALID);
                buf_done(&text);
        }
}

static void site_queries_are_read(void **state)
{
        static const struct {
                const char *site_id, *wait;
                int e;
                int64_t wait_ms;
        } cases[] = {
                {"s", NULL, 0, 0},
                {"s", "0", 0, 0},
                {"s", "1500", 0, 1500},
                {"s", "25001", 0, 25000},
                {"s", "99999999999999999999999999", 0, 25000},
                {"s", "", LESSOR_E_INVALID, 0},
                {"s", "-1", LESSOR_E_INVALID, 0},
                {"s", "1e3", LESSOR_E_INVALID, 0},
                {"", NULL, LESSOR_E_INVALID, 0},
                {NULL, NULL, LESSOR_E_INVALID, 0},
        };

        (void)state;
        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                struct site_query query = {.wait_ms = -1};

                assert_int_equal(site_query_read(lessor_slice_of(cases[i].site_id),
                                                 lessor_slice_of(cases[i].wait), &query),
                                 cases[i].e);
                if (cases[i].e == 0)
                        assert_int_equal(query.wait_ms, cases[i].wait_ms);
        }
}

static void verification_urls_are_urls(void **state)
{
        static const struct {
                const char *url;
                bool ok;
        } cases[] = {
                {"https://example.com/a?b#c", true},
                {"http://[::1]:80", true},
                {"mailto:a@b", true},
                {"https://", false},
                {"https:///a", false},
                {"https:a", false},
                {"example.com", false},
                {"https://a b", false},
                {":x", false},
                {"1a:x", false},
                {"a:", false},
                {"", false},
        };

        (void)state;
        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                struct pair_start_answer answer;
                struct buf text;

                buf_init(&text);
                assert_int_equal(
                        buf_printf(&text,
                                   "{\"deviceCode\":\"01234567890123456789\",\"userCode\":\"ABCD-EFGH\","
                                   "\"verificationUrl\":\"%s\",\"expiresAt\":1,\"pollIntervalMs\":2000}",
                                   cases[i].url),
                        0);
                if ((message_read(&pair_start_answer_table, parse(text.p), arena, &answer, NULL) == 0) !=
                    cases[i].ok)
                        fail_msg("%s", cases[i].url);
                buf_done(&text);
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(problems_name_the_member_at_fault),
                cmocka_unit_test(an_absent_body_fits_nothing),
                cmocka_unit_test(absence_is_told_from_emptiness),
                cmocka_unit_test(only_files_of_people_may_say_null),
                cmocka_unit_test(members_are_written_in_table_order),
                cmocka_unit_test(a_kept_envelope_is_written_as_it_is),
                cmocka_unit_test(answers_of_the_site_plane_may_say_more),
                cmocka_unit_test(lists_are_read_and_written_alone),
                cmocka_unit_test(keys_may_hold_anything),
                cmocka_unit_test(acknowledgements_are_bounded),
                cmocka_unit_test(site_queries_are_read),
                cmocka_unit_test(verification_urls_are_urls),
        };

        return cmocka_run_group_tests(tests, setup, teardown);
}
