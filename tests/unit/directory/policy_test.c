/* SPDX-License-Identifier: MIT */
#include "world.h"

#include "base/macro.h"
#include "routing/directory/policy.h"

/* cap: what ann's device offers. */
static const struct lessor_device_capability caps[] = {
        {.kind = LESSOR_KIND_LLM_GENERATE, .service = {"echo", 4}, .offer_scope = LESSOR_OFFER_TEAM},
        {.kind = LESSOR_KIND_LLM_GENERATE, .service = {"own", 3}, .offer_scope = LESSOR_OFFER_PRIVATE},
        {.kind = LESSOR_KIND_LLM_CHAT, .service = {"chat", 4}, .offer_scope = LESSOR_OFFER_TEAM},
};

static const char policy_json[] =
        "{'consents':["
        "{'siteId':'s','user':'ann','mappings':["
        "{'purpose':'default','kind':'llm.generate','service':'own','owner':null},"
        "{'purpose':'default','kind':'llm.generate','service':'never','owner':null},"
        "{'purpose':'default','kind':'llm.chat','service':'chat'},"
        "{'purpose':'big','kind':'llm.generate','service':'huge'},"
        "{'purpose':'mixed','kind':'llm.generate','service':'chat'},"
        "{'purpose':'away','kind':'llm.generate','service':'echo','owner':'bob'},"
        "{'purpose':'late','kind':'llm.generate','service':'huge'},"
        "{'purpose':'late','kind':'llm.generate','service':'echo'}]},"
        "{'siteId':'s','user':'ann','paused':true},"
        "{'siteId':'s','user':'pat','paused':true},"
        "{'siteId':'s','user':'non','mappings':[{'purpose':'default','kind':'llm.generate','service':'echo',"
        "'owner':'ann'}]},"
        "{'siteId':'s','user':'mia','mappings':["
        "{'purpose':'default','kind':'llm.generate','service':'echo','owner':'ann'},"
        "{'purpose':'private','kind':'llm.generate','service':'own','owner':'ann'},"
        "{'purpose':'hers','kind':'llm.generate','service':'echo','owner':null}]}],"
        "'members':[{'owner':'ann','user':'mia'},{'owner':'non','user':'ann'},{'owner':'ann','user':'pat'}],"
        "'declares':{'strict':['default','extra'],'mute':[]},"
        "'advertising':[{'owner':'ann','service':'echo'},{'owner':'bob','service':'huge'}]}";

struct decline_case {
        const char *site;
        const char *user;
        const char *purpose; /* NULL: none */
        enum lessor_kind kind;
        enum policy_decline decline;
        const char *service;
};

/* Section 11, authorGrant: each row of its table, with the device owner ann. */
static const struct decline_case decline_cases[] = {
        {"other", "ann", NULL, LESSOR_KIND_LLM_GENERATE, POLICY_NOT_CONSENTED, NULL},
        {"s", "stranger", NULL, LESSOR_KIND_LLM_GENERATE, POLICY_NOT_CONSENTED, NULL},
        {"s", "pat", NULL, LESSOR_KIND_LLM_GENERATE, POLICY_CONSENT_PAUSED, NULL},
        {"s", "non", NULL, LESSOR_KIND_LLM_GENERATE, POLICY_NOT_A_MEMBER, NULL},
        {"s", "ann", "unheard", LESSOR_KIND_LLM_GENERATE, POLICY_UNMAPPED, NULL},
        {"s", "ann", "big", LESSOR_KIND_LLM_CHAT, POLICY_UNMAPPED, NULL},
        {"s", "mia", "unheard", LESSOR_KIND_LLM_GENERATE, POLICY_UNMAPPED, NULL},
        {"s", "ann", "away", LESSOR_KIND_LLM_GENERATE, POLICY_RESOLVED_ELSEWHERE, NULL},
        {"s", "mia", "hers", LESSOR_KIND_LLM_GENERATE, POLICY_RESOLVED_ELSEWHERE, NULL},
        {"s", "ann", "big", LESSOR_KIND_LLM_GENERATE, POLICY_RESOLVED_ELSEWHERE, NULL},
        {"s", "ann", "mixed", LESSOR_KIND_LLM_GENERATE, POLICY_RESOLVED_ELSEWHERE, NULL}, /* another kind's */
        {"s", "ann", "late", LESSOR_KIND_LLM_GENERATE, POLICY_RESOLVED_ELSEWHERE,
         NULL}, /* the first counts */
        {"s", "mia", "private", LESSOR_KIND_LLM_GENERATE, POLICY_RESOLVED_ELSEWHERE, NULL},
        {"s", "ann", NULL, LESSOR_KIND_LLM_GENERATE, POLICY_GRANTED, "own"},
        {"s", "ann", "default", LESSOR_KIND_LLM_GENERATE, POLICY_GRANTED, "own"},
        {"s", "ann", NULL, LESSOR_KIND_LLM_CHAT, POLICY_GRANTED, "chat"},
        {"s", "mia", NULL, LESSOR_KIND_LLM_GENERATE, POLICY_GRANTED, "echo"},
};

static struct policy_question question_of(const struct decline_case *c)
{
        return (struct policy_question){.site_id = S(c->site),
                                        .user = S(c->user),
                                        .owner = S("ann"),
                                        .purpose = S(c->purpose),
                                        .kind = c->kind,
                                        .capabilities = caps,
                                        .n_capabilities = ARRAY_SIZE(caps)};
}

static void author_grant_declines_in_order(void **state)
{
        struct world *w = *state;
        _cleanup_(policy_unrefp) struct policy *p = policy_of(w->arena, policy_json);

        for (size_t i = 0; i < ARRAY_SIZE(decline_cases); i++) {
                const struct decline_case *c = &decline_cases[i];
                struct policy_question q = question_of(c);
                struct lessor_slice service = {0};
                enum policy_decline decline = policy_decide(p, &q, &service);

                if (decline != c->decline)
                        fail_msg("case %zu: %s", i, policy_decline_name(decline));
                if (c->service != NULL)
                        assert_text(service, c->service);
        }
}

static void a_store_that_cannot_answer_comes_first(void **state)
{
        struct world *w = *state;
        _cleanup_(policy_unrefp) struct policy *p = policy_of(w->arena, "{'unavailable':true}");
        struct policy_question q = question_of(&decline_cases[0]);
        enum policy_satisfiable verdict;
        struct lessor_slice service;

        assert_int_equal(policy_decide(p, &q, &service), POLICY_STORE_UNAVAILABLE);
        assert_int_equal(policy_decide(NULL, &q, &service), POLICY_STORE_UNAVAILABLE);
        assert_int_equal(policy_satisfiable(p, S("s"), S("ann"), S(NULL), LESSOR_KIND_LLM_CHAT, &verdict),
                         LESSOR_E_UNAVAILABLE);
        assert_int_equal(policy_satisfiable(NULL, S("s"), S("ann"), S(NULL), LESSOR_KIND_LLM_CHAT, &verdict),
                         LESSOR_E_UNAVAILABLE);
}

static void two_declines_are_permanent(void **state)
{
        (void)state;
        assert_true(policy_decline_permanent(POLICY_NOT_CONSENTED));
        assert_true(policy_decline_permanent(POLICY_NOT_A_MEMBER));
        assert_false(policy_decline_permanent(POLICY_STORE_UNAVAILABLE));
        assert_false(policy_decline_permanent(POLICY_CONSENT_PAUSED));
        assert_false(policy_decline_permanent(POLICY_UNMAPPED));
        assert_false(policy_decline_permanent(POLICY_RESOLVED_ELSEWHERE));
}

/* Section 11, satisfiable. */
static void satisfiable_says_what_is_missing(void **state)
{
        static const struct {
                const char *site;
                const char *user;
                const char *purpose;
                enum lessor_kind kind;
                enum policy_satisfiable verdict;
        } cases[] = {
                {"strict", "ann", "other", LESSOR_KIND_LLM_GENERATE, POLICY_NOT_DECLARED},
                {"mute", "ann", NULL, LESSOR_KIND_LLM_GENERATE, POLICY_NOT_DECLARED},
                {"strict", "ann", NULL, LESSOR_KIND_LLM_GENERATE, POLICY_NOT_MAPPED}, /* never consented */
                {"s", "pat", NULL, LESSOR_KIND_LLM_GENERATE, POLICY_NOT_MAPPED},
                {"s", "ann", "unheard", LESSOR_KIND_LLM_GENERATE, POLICY_NOT_MAPPED},
                {"s", "ann", "big", LESSOR_KIND_LLM_CHAT, POLICY_NOT_MAPPED},
                {"s", "ann", NULL, LESSOR_KIND_LLM_GENERATE, POLICY_WAITING},
                {"s", "ann", "big", LESSOR_KIND_LLM_GENERATE, POLICY_WAITING}, /* huge is bob's */
                {"s", "ann", "away", LESSOR_KIND_LLM_GENERATE, POLICY_WAITING},
                {"s", "ann", "late", LESSOR_KIND_LLM_GENERATE, POLICY_SATISFIABLE}, /* any of them */
                {"s", "mia", NULL, LESSOR_KIND_LLM_GENERATE, POLICY_SATISFIABLE},
        };
        struct world *w = *state;
        _cleanup_(policy_unrefp) struct policy *p = policy_of(w->arena, policy_json);

        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                enum policy_satisfiable verdict;

                assert_int_equal(policy_satisfiable(p, S(cases[i].site), S(cases[i].user),
                                                    S(cases[i].purpose), cases[i].kind, &verdict),
                                 0);
                if (verdict != cases[i].verdict)
                        fail_msg("case %zu: %d", i, (int)verdict);
        }
}

static void what_cannot_be_said_refuses_nothing(void **state)
{
        struct world *w = *state;
        _cleanup_(policy_unrefp) struct policy *p =
                policy_of(w->arena, "{'consents':[{'siteId':'s','user':'ann','paused':true,'mappings':["
                                    "{'purpose':'default','kind':'llm.chat','service':'x'}]}]}");
        enum policy_satisfiable verdict;

        assert_int_equal(policy_satisfiable(p, S("s"), S("ann"), S(NULL), LESSOR_KIND_LLM_CHAT, &verdict), 0);
        assert_int_equal(verdict, POLICY_SATISFIABLE); /* a paused consent is ok */
}

static void nothing_advertised_is_not_the_same_as_not_saying(void **state)
{
        struct world *w = *state;
        _cleanup_(policy_unrefp) struct policy *p =
                policy_of(w->arena, "{'advertising':[],'consents':[{'siteId':'s','user':'ann','mappings':["
                                    "{'purpose':'default','kind':'llm.chat','service':'x'}]}]}");
        enum policy_satisfiable verdict;

        assert_int_equal(policy_satisfiable(p, S("s"), S("ann"), S(NULL), LESSOR_KIND_LLM_CHAT, &verdict), 0);
        assert_int_equal(verdict, POLICY_WAITING);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, world_setup, world_teardown)
        const struct CMUnitTest tests[] = {
                CASE(author_grant_declines_in_order),
                CASE(a_store_that_cannot_answer_comes_first),
                CASE(two_declines_are_permanent),
                CASE(satisfiable_says_what_is_missing),
                CASE(what_cannot_be_said_refuses_nothing),
                CASE(nothing_advertised_is_not_the_same_as_not_saying),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
