/* SPDX-License-Identifier: MIT */
#include <stdlib.h>

#include "base/json_read.h"
#include "base/limits.h"
#include "plane/relay_call.h"
#include "plane/relay_hooks.h"
#include "routing/directory/projection_json.h"

static struct clock_manual manual;
static void (*follower)(void *context);
static void *follower_context;

void test_clock_followed_by(void (*advanced)(void *context), void *context)
{
        follower = advanced;
        follower_context = context;
}

struct clock *test_clock(void)
{
        const char *text = getenv("LESSOR_TEST_NOW_MS");

        if (text == NULL || *text == '\0')
                return NULL;
        if (manual.at_ms == 0)
                clock_manual_init(&manual, strtoll(text, NULL, 10));
        return &manual.clock;
}

static void answer_problem(struct http_request *http, const char *problem)
{
        struct buf body = {0};

        buf_text(&body, problem == NULL ? "cannot be done" : problem);
        http_answer(http, 400, "text/plain", &body);
}

static void advance(struct http_request *http, void *context)
{
        int64_t by_ms;
        struct json *body;

        (void)context;
        if (test_clock() == NULL) {
                answer_problem(http, "LESSOR_TEST_NOW_MS is not set");
                return;
        }
        if (json_read(http->body, http->arena, &body) < 0 ||
            !json_int(json_member_named(body, "advance"), &by_ms)) {
                answer_problem(http, "wants {\"advance\": ms}");
                return;
        }
        clock_manual_advance(&manual, by_ms);
        if (follower != NULL)
                follower(follower_context);
        http_answer_json(http, 200, LESSOR_SLICE("{}"));
}

static void project(struct http_request *http, void *context)
{
        const struct relay *relay = context;
        struct projection *projection;
        const char *problem = NULL;

        if (projection_from_json(http->body, http->arena, &projection, &problem) < 0) {
                answer_problem(http, problem);
                return;
        }
        projection_cell_put(relay->parts.projections, projection);
        http_answer_json(http, 200, LESSOR_SLICE("{}"));
}

static void replace_policy(struct http_request *http, void *context)
{
        const struct relay *relay = context;
        const char *problem = NULL;
        struct policy *policy;

        if (policy_from_json(http->body, http->arena, &policy, &problem) < 0) {
                answer_problem(http, problem);
                return;
        }
        policy_cell_put(relay->parts.author->policy, policy);
        http_answer_json(http, 200, LESSOR_SLICE("{}"));
}

const struct http_route relay_hook_routes[] = {
        {"POST", "/test/advance", advance, LIMIT_BODY_CONTROL, "test-advance", "Move the clock"},
        {"POST", "/test/project", project, LIMIT_FILE_BYTES, "test-project", "Replace the projection"},
        {"POST", "/test/policy", replace_policy, LIMIT_FILE_BYTES, "test-policy", "Replace the policy"},
        {0},
};
