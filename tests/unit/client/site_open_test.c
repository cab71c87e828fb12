/* SPDX-License-Identifier: MIT */
#include "check.h"
#include "crypto/envelope_seal.h"
#include "crypto/stored_keys.h"
#include "lessor/site_client.h"

#define NOW     1767225600000
#define OK_TEXT "{\"outcome\":{\"outcome\":\"ok\",\"text\":\"hi\"},\"ran\":" RAN "}"
#define RAN     "{\"model\":\"tiny\",\"backendClass\":\"http\",\"durationMs\":12,\"stop\":\"length\"}"
#define NO_TEXT "{\"outcome\":{\"outcome\":\"canceled\"},\"ran\":" RAN "}"
#define ERR_TEXT                                                                                    \
        "{\"outcome\":{\"outcome\":\"error\",\"code\":\"c\",\"message\":\"m\",\"retryable\":true}," \
        "\"ran\":" RAN "}"

struct world {
        char *dir;
        struct lessor_arena *arena;
        struct stored_keys *device, *stranger, *site_keys;
        struct lessor_site_client *site;
        struct lessor_site_result result;
};

static int set_up(void **state)
{
        struct world *w = calloc(1, sizeof(*w));
        struct lessor_site_options options = {.relay_url = "http://127.0.0.1:1", .site_id = "site_a"};

        w->dir = scratch_make();
        w->arena = lessor_arena_new();
        options.keys_file = scratch_path(w->dir, "site.json");
        assert_int_equal(stored_keys_generate(NOW, &w->device), 0);
        assert_int_equal(stored_keys_generate(NOW, &w->stranger), 0);
        assert_int_equal(stored_keys_generate(NOW, &w->site_keys), 0);
        assert_int_equal(stored_keys_create(w->site_keys, options.keys_file), 0);
        assert_int_equal(lessor_site_client_new(&options, &w->site, NULL), 0);
        *state = w;
        return 0;
}

static int tear_down(void **state)
{
        struct world *w = *state;

        lessor_site_client_free(w->site);
        stored_keys_free(w->device);
        stored_keys_free(w->stranger);
        stored_keys_free(w->site_keys);
        lessor_arena_free(w->arena);
        scratch_remove(w->dir);
        free(w);
        return 0;
}

/* A result as the device makes it, and as the relay would name it. */
static void seal(struct world *w, const char *outcome, enum lessor_disposition disposition)
{
        struct envelope_terms terms = {
                .job_id = LESSOR_SLICE("job_1"), .direction = LESSOR_DIRECTION_RESULT, .deadline_ms = NOW};

        w->result = (struct lessor_site_result){
                .job_id = LESSOR_SLICE("job_1"),
                .disposition = disposition,
                .runner_id = LESSOR_SLICE("runner_1"),
                .runner_owner = LESSOR_SLICE("ada"),
                .lease_id = LESSOR_SLICE("lease_1"),
                .device = *signing_key_identity(stored_keys_signing(w->device)),
        };
        assert_int_equal(envelope_seal(stored_keys_signing(w->device),
                                       signing_key_identity(stored_keys_signing(w->site_keys)), &terms,
                                       lessor_slice_of(outcome), w->arena, &w->result.envelope),
                         0);
}

static int open_result(struct world *w, struct lessor_answer *ret_answer)
{
        return lessor_site_open(w->site, &w->result, w->arena, ret_answer);
}

static void an_answer_says_what_ran_where(void **state)
{
        struct world *w = *state;
        struct lessor_answer answer;

        seal(w, OK_TEXT, LESSOR_DISPOSITION_OK);
        assert_int_equal(open_result(w, &answer), 0);
        assert_text_equal(answer.text, "hi");
        assert_text_equal(answer.model, "tiny");
        assert_text_equal(answer.stop, "length");
        assert_text_equal(answer.runner_owner, "ada");
        assert_int_equal(answer.duration_ms, 12);
        assert_true(lessor_slice_equal(answer.device_key_id, signing_key_id(stored_keys_signing(w->device))));
        seal(w, ERR_TEXT, LESSOR_DISPOSITION_ERROR);
        assert_int_equal(open_result(w, &answer), 0);
        assert_text_equal(answer.code, "c");
        assert_true(answer.retryable);
        seal(w, NO_TEXT, LESSOR_DISPOSITION_CANCELED);
        assert_int_equal(open_result(w, &answer), 0);
        assert_int_equal(answer.disposition, LESSOR_DISPOSITION_CANCELED);
}

static void a_disposition_that_differs_from_the_outcome_is_refused(void **state)
{
        struct world *w = *state;
        struct lessor_answer answer;

        seal(w, ERR_TEXT, LESSOR_DISPOSITION_OK);
        assert_int_equal(open_result(w, &answer), LESSOR_E_CONTEXT_MISMATCH);
        seal(w, OK_TEXT, LESSOR_DISPOSITION_CANCELED);
        assert_int_equal(open_result(w, &answer), LESSOR_E_CONTEXT_MISMATCH);
}

static void a_result_is_bound_to_its_device_and_job(void **state)
{
        struct world *w = *state;
        struct lessor_answer answer;

        seal(w, OK_TEXT, LESSOR_DISPOSITION_OK);
        w->result.device = *signing_key_identity(stored_keys_signing(w->stranger));
        assert_int_equal(open_result(w, &answer), LESSOR_E_NOT_FOR_US);
        w->result.envelope.sender_key_id = signing_key_id(stored_keys_signing(w->stranger));
        assert_int_equal(open_result(w, &answer), LESSOR_E_BAD_SIGNATURE);
        seal(w, OK_TEXT, LESSOR_DISPOSITION_OK);
        w->result.job_id = LESSOR_SLICE("job_2");
        assert_int_equal(open_result(w, &answer), LESSOR_E_CONTEXT_MISMATCH);
        seal(w, OK_TEXT, LESSOR_DISPOSITION_OK);
        w->result.device.encryption_sig = w->result.device.encryption;
        assert_int_equal(open_result(w, &answer), LESSOR_E_BAD_SIGNATURE);
}

static void an_outcome_that_is_none_is_refused(void **state)
{
        static const char *const texts[] = {"", "null", "{}",
                                            "{\"outcome\":{\"outcome\":\"ok\"},\"ran\":" RAN "}",
                                            "{\"outcome\":{\"outcome\":\"ok\",\"text\":\"hi\"}}"};
        struct world *w = *state;
        struct lessor_answer answer;

        for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
                seal(w, texts[i], LESSOR_DISPOSITION_OK);
                assert_int_equal(open_result(w, &answer), LESSOR_E_MALFORMED);
        }
}

static void nothing_is_sealed_to_a_device_that_is_not_consistent(void **state)
{
        struct world *w = *state;
        struct lessor_pending pending = {
                .job_id = LESSOR_SLICE("job_1"),
                .device = *signing_key_identity(stored_keys_signing(w->device)),
        };

        pending.device.encryption = signing_key_identity(stored_keys_signing(w->stranger))->encryption;
        assert_int_equal(lessor_site_seal(w->site, &pending, LESSOR_SLICE("{\"prompt\":\"p\"}"), NOW),
                         LESSOR_E_BAD_SIGNATURE);
        assert_non_null(strstr(lessor_site_client_problem(w->site), "not consistent"));
}

static void payloads_are_checked_before_anything_is_asked(void **state)
{
        enum lessor_size_class size_class = LESSOR_SIZE_LARGE;

        (void)state;
        assert_int_equal(lessor_payload_check(LESSOR_KIND_LLM_GENERATE, LESSOR_SLICE("{\"prompt\":\"p\"}"),
                                              &size_class),
                         0);
        assert_int_equal(size_class, LESSOR_SIZE_SMALL);
        assert_int_equal(lessor_payload_check(LESSOR_KIND_LLM_CHAT, LESSOR_SLICE("{\"prompt\":\"p\"}"), NULL),
                         LESSOR_E_MALFORMED);
        assert_int_equal(
                lessor_payload_check(LESSOR_KIND_LLM_GENERATE, LESSOR_SLICE("{\"prompt\":\"\"}"), NULL),
                LESSOR_E_MALFORMED);
        assert_int_equal(lessor_payload_check(LESSOR_KIND_LLM_GENERATE, LESSOR_SLICE("hello"), NULL),
                         LESSOR_E_MALFORMED);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
        const struct CMUnitTest tests[] = {
                CASE(an_answer_says_what_ran_where),
                CASE(a_disposition_that_differs_from_the_outcome_is_refused),
                CASE(a_result_is_bound_to_its_device_and_job),
                CASE(an_outcome_that_is_none_is_refused),
                CASE(nothing_is_sealed_to_a_device_that_is_not_consistent),
                CASE(payloads_are_checked_before_anything_is_asked),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
