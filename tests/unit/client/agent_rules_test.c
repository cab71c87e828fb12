/* SPDX-License-Identifier: MIT */
#include "client/agent_rules.h"

#include "check.h"
#include "crypto/grant.h"
#include "crypto/stored_keys.h"

#define NOW 1767225600000

/* One device of ada's, one site, and a control plane that signs what it is asked to. */
struct world {
        struct lessor_arena *arena;
        struct stored_keys *site, *control, *impostor;
        struct known_site known;
        struct lessor_backend *backend;
        struct lessor_service services[2];
        struct agent_view view;
        struct claimed_stub job;
};

static int set_up(void **state)
{
        struct world *w = calloc(1, sizeof(*w));

        w->arena = lessor_arena_new();
        assert_int_equal(stored_keys_generate(NOW, &w->site), 0);
        assert_int_equal(stored_keys_generate(NOW, &w->control), 0);
        assert_int_equal(stored_keys_generate(NOW, &w->impostor), 0);
        assert_int_equal(lessor_backend_echo_new(&w->backend), 0);
        w->known = (struct known_site){
                .key_id = signing_key_id(stored_keys_signing(w->site)),
                .identity = *signing_key_identity(stored_keys_signing(w->site)),
                .served = true,
        };
        w->services[0] = (struct lessor_service){
                .name = "mine", .kinds = LESSOR_KIND_BIT(LESSOR_KIND_LLM_GENERATE), .backend = w->backend};
        w->services[1] = (struct lessor_service){.name = "ours",
                                                 .kinds = LESSOR_KIND_BIT(LESSOR_KIND_LLM_GENERATE) |
                                                          LESSOR_KIND_BIT(LESSOR_KIND_LLM_CHAT),
                                                 .offer = LESSOR_OFFER_TEAM,
                                                 .backend = w->backend};
        w->view = (struct agent_view){
                .runner_id = LESSOR_SLICE("runner_1"),
                .owner = LESSOR_SLICE("ada"),
                .control_plane = signing_key_public(stored_keys_signing(w->control)),
                .sites = &w->known,
                .n_sites = 1,
                .services = w->services,
                .n_services = 2,
        };
        w->job = (struct claimed_stub){
                .stub = {.id = LESSOR_SLICE("job_1"),
                         .owner = LESSOR_SLICE("ada"),
                         .site = w->known.key_id,
                         .deadline_ms = NOW + 60000},
                .lease = {.id = LESSOR_SLICE("lease_1"),
                          .runner_id = LESSOR_SLICE("runner_1"),
                          .expires_ms = NOW + 60000},
                .has_grant = true,
                .grant = {.grant_id = LESSOR_SLICE("grant_1"),
                          .job_id = LESSOR_SLICE("job_1"),
                          .site = w->known.key_id,
                          .user = LESSOR_SLICE("ada"),
                          .owner = LESSOR_SLICE("ada"),
                          .purpose = LESSOR_SLICE("default"),
                          .kind = LESSOR_SLICE("llm.generate"),
                          .service = LESSOR_SLICE("mine"),
                          .issued_ms = NOW},
        };
        *state = w;
        return 0;
}

static int tear_down(void **state)
{
        struct world *w = *state;

        stored_keys_free(w->site);
        stored_keys_free(w->control);
        stored_keys_free(w->impostor);
        lessor_backend_free(w->backend);
        lessor_arena_free(w->arena);
        free(w);
        return 0;
}

static void sign(struct world *w, const struct stored_keys *by)
{
        assert_int_equal(grant_sign(&w->job.grant, stored_keys_signing(by), w->arena), 0);
}

/* Judges after signing as the control plane, and checks the verdict; the reason must contain a word. */
static void expect_refusal(struct world *w, const char *word)
{
        const char *reason = NULL;
        size_t service;

        assert_int_equal(rules_judge_job(&w->view, &w->job, NOW, &service, &reason), LESSOR_E_REFUSED);
        if (strstr(reason, word) == NULL)
                fail_msg("refused, but because %s", reason);
}

static size_t expect_service(struct world *w)
{
        const char *reason = "";
        size_t service = 99;

        if (rules_judge_job(&w->view, &w->job, NOW, &service, &reason) != 0)
                fail_msg("refused: %s", reason);
        return service;
}

static void a_granted_job_runs_on_the_service_that_the_grant_names(void **state)
{
        struct world *w = *state;

        sign(w, w->control);
        assert_int_equal(expect_service(w), 0);
        w->job.grant.service = LESSOR_SLICE("ours");
        sign(w, w->control);
        assert_int_equal(expect_service(w), 1);
}

static void with_a_control_plane_every_job_needs_a_valid_grant(void **state)
{
        struct world *w = *state;

        w->job.has_grant = false;
        expect_refusal(w, "without a grant");
        w->job.has_grant = true;
        sign(w, w->impostor);
        expect_refusal(w, "not signed");
        w->job.grant.issued_ms = NOW - GRANT_MAX_AGE_MS - 1;
        sign(w, w->control);
        expect_refusal(w, "too old");
        w->job.grant.issued_ms = NOW + GRANT_MAX_LEAD_MS + 1;
        sign(w, w->control);
        expect_refusal(w, "future");
        w->job.grant.issued_ms = NOW;
        w->job.grant.owner = LESSOR_SLICE("bob");
        sign(w, w->control);
        expect_refusal(w, "another owner");
        w->job.grant.owner = LESSOR_SLICE("ada");
        w->job.grant.job_id = LESSOR_SLICE("job_2");
        sign(w, w->control);
        expect_refusal(w, "another job");
}

static void a_grant_says_the_same_as_the_stub(void **state)
{
        struct world *w = *state;

        w->job.grant.user = LESSOR_SLICE("bob");
        sign(w, w->control);
        expect_refusal(w, "another user");
        w->job.grant.user = LESSOR_SLICE("ada");
        w->job.grant.site = LESSOR_SLICE("BYOLLM-OTHER");
        sign(w, w->control);
        expect_refusal(w, "another site");
        w->job.grant.site = w->known.key_id;
        w->job.grant.kind = LESSOR_SLICE("llm.chat");
        sign(w, w->control);
        expect_refusal(w, "another kind");
        w->job.grant.kind = LESSOR_SLICE("llm.generate");
        w->job.stub.purpose = LESSOR_SLICE("summaries");
        sign(w, w->control);
        expect_refusal(w, "another purpose");
        w->job.grant.purpose = LESSOR_SLICE("summaries");
        sign(w, w->control);
        assert_int_equal(expect_service(w), 0);
}

static void others_work_only_meets_services_offered_to_the_team(void **state)
{
        struct world *w = *state;

        w->job.stub.owner = w->job.grant.user = LESSOR_SLICE("bob");
        sign(w, w->control);
        expect_refusal(w, "no service");
        w->job.grant.service = LESSOR_SLICE("ours");
        sign(w, w->control);
        assert_int_equal(expect_service(w), 1);
        w->job.grant.service = LESSOR_SLICE("theirs");
        sign(w, w->control);
        expect_refusal(w, "no service");
}

static void without_a_control_plane_only_the_owners_jobs_run(void **state)
{
        struct world *w = *state;

        w->view.control_plane = NULL;
        w->job.has_grant = false;
        assert_int_equal(expect_service(w), 0);
        w->job.stub.kind = LESSOR_KIND_LLM_CHAT;
        assert_int_equal(expect_service(w), 1);
        w->job.stub.owner = LESSOR_SLICE("bob");
        expect_refusal(w, "somebody else's");
        /* A grant that cannot be checked vouches for nobody. */
        w->job.has_grant = true;
        sign(w, w->control);
        expect_refusal(w, "somebody else's");
}

static void only_sites_that_are_served_are_worked_for(void **state)
{
        struct world *w = *state;

        sign(w, w->control);
        w->known.served = false;
        expect_refusal(w, "not paired with");
        w->known.retiring_until_ms = NOW + 1;
        assert_int_equal(expect_service(w), 0);
        w->known.retiring_until_ms = NOW;
        expect_refusal(w, "not paired with");
        w->view.n_sites = 0;
        expect_refusal(w, "not paired with");
}

static void a_lease_of_another_device_is_not_ours(void **state)
{
        struct world *w = *state;

        sign(w, w->control);
        w->job.lease.runner_id = LESSOR_SLICE("runner_2");
        expect_refusal(w, "another device");
}

static void pauses_double_up_to_the_longest(void **state)
{
        (void)state;
        assert_int_equal(rules_backoff_ms(0, 50, 1000), 50);
        assert_int_equal(rules_backoff_ms(1, 50, 1000), 100);
        assert_int_equal(rules_backoff_ms(4, 50, 1000), 800);
        assert_int_equal(rules_backoff_ms(5, 50, 1000), 1000);
        assert_int_equal(rules_backoff_ms(4000000000u, 50, 1000), 1000);
}

/* relay-protocol 6.3: for 30 s or until the lease ends. */
static void a_payload_is_waited_for_as_long_as_it_may_come(void **state)
{
        (void)state;
        assert_int_equal(rules_after_fetch(LESSOR_E_NOT_READY, 0, 60000), FETCH_AGAIN);
        assert_int_equal(rules_after_fetch(LESSOR_E_NOT_READY, 29999, 1), FETCH_AGAIN);
        assert_int_equal(rules_after_fetch(LESSOR_E_NOT_READY, 30000, 60000), FETCH_GIVE_UP);
        assert_int_equal(rules_after_fetch(LESSOR_E_NOT_READY, 0, 0), FETCH_GIVE_UP);
        assert_int_equal(rules_after_fetch(LESSOR_E_LATER, 1000, 1000), FETCH_AGAIN);
        assert_int_equal(rules_after_fetch(LESSOR_E_TOO_LATE, 0, 60000), FETCH_DROP);
        assert_int_equal(rules_after_fetch(LESSOR_E_REFUSED, 0, 60000), FETCH_DROP);
        assert_int_equal(rules_after_fetch(LESSOR_E_NOT_FOUND, 0, 60000), FETCH_DROP);
}

static void results_are_sent_again_only_when_that_can_help(void **state)
{
        (void)state;
        assert_true(rules_result_again(LESSOR_E_LATER));
        assert_true(rules_result_again(LESSOR_E_NOT_READY));
        assert_false(rules_result_again(LESSOR_E_TOO_LATE));
        assert_false(rules_result_again(LESSOR_E_REFUSED));
        assert_false(rules_result_again(LESSOR_E_NOT_FOUND));
}

static void each_kind_of_each_service_is_a_capability(void **state)
{
        struct world *w = *state;
        struct lessor_device_capability *out = NULL;
        size_t n = 0;

        w->services[1].model = "small";
        assert_int_equal(rules_capabilities(w->services, 2, w->arena, &out, &n), 0);
        assert_int_equal(n, 3);
        assert_text_equal(out[0].service, "mine");
        assert_text_equal(out[0].model, "mine");
        assert_int_equal(out[0].offer_scope, LESSOR_OFFER_PRIVATE);
        assert_text_equal(out[2].service, "ours");
        assert_text_equal(out[2].model, "small");
        assert_int_equal(out[2].kind, LESSOR_KIND_LLM_CHAT);
        assert_int_equal(out[2].offer_scope, LESSOR_OFFER_TEAM);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
        const struct CMUnitTest tests[] = {
                CASE(a_granted_job_runs_on_the_service_that_the_grant_names),
                CASE(with_a_control_plane_every_job_needs_a_valid_grant),
                CASE(a_grant_says_the_same_as_the_stub),
                CASE(others_work_only_meets_services_offered_to_the_team),
                CASE(without_a_control_plane_only_the_owners_jobs_run),
                CASE(only_sites_that_are_served_are_worked_for),
                CASE(a_lease_of_another_device_is_not_ours),
                CASE(each_kind_of_each_service_is_a_capability),
                cmocka_unit_test(pauses_double_up_to_the_longest),
                cmocka_unit_test(a_payload_is_waited_for_as_long_as_it_may_come),
                cmocka_unit_test(results_are_sent_again_only_when_that_can_help),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
