/* SPDX-License-Identifier: MIT */
#include "wire/lease_result.h"

#include <math.h>

#include "base/buf.h"
#include "base/json_read.h"
#include "base/macro.h"

enum verdict_state { STATE_NONE, STATE_SUCCESS, STATE_FAILED, STATE_ERROR };

struct result {
        struct lessor_verdict verdict;
        bool has_status;
        enum verdict_state state;
};

/* Each judges one member and keeps what it says; false if it is wrong. */

static bool take_task_name(struct result *result, const struct json *value)
{
        (void)result;
        return json_is(value, JSON_STRING); /* R074; not compared with the lease's */
}

static bool take_status(struct result *result, const struct json *value)
{
        struct lessor_slice text = json_text(value);

        result->verdict.success = lessor_slice_equal(text, LESSOR_SLICE("success"));
        return result->verdict.success || lessor_slice_equal(text, LESSOR_SLICE("failed")); /* R075 */
}

static bool take_state(struct result *result, const struct json *value)
{
        struct lessor_slice text = json_text(value);

        result->state = lessor_slice_equal(text, LESSOR_SLICE("success"))  ? STATE_SUCCESS
                        : lessor_slice_equal(text, LESSOR_SLICE("failed")) ? STATE_FAILED
                        : lessor_slice_equal(text, LESSOR_SLICE("error"))  ? STATE_ERROR
                                                                           : STATE_NONE;
        return result->state != STATE_NONE; /* R076 */
}

static bool take_output_hash(struct result *result, const struct json *value)
{
        struct lessor_slice text = json_text(value);

        if (text.n != 64)
                return false; /* R080 */
        for (size_t i = 0; i < text.n; i++)
                if (!((text.p[i] >= '0' && text.p[i] <= '9') || (text.p[i] >= 'a' && text.p[i] <= 'f')))
                        return false;
        result->verdict.output_hash = text;
        return true;
}

static bool take_exit_code(struct result *result, const struct json *value)
{
        result->verdict.has_exit_code = json_int(value, &result->verdict.exit_code);
        return result->verdict.has_exit_code; /* R078 */
}

static bool take_error(struct result *result, const struct json *value)
{
        result->verdict.message = json_text(value);
        return json_is(value, JSON_STRING); /* R081 */
}

static bool take_peak_bytes(struct result *result, const struct json *value)
{
        result->verdict.has_peak_bytes =
                json_int(value, &result->verdict.peak_bytes) && result->verdict.peak_bytes >= 0;
        return result->verdict.has_peak_bytes; /* R079 */
}

static bool take_cancelled(struct result *result, const struct json *value)
{
        result->verdict.cancelled = json_is(value, JSON_TRUE);
        return json_is_bool(value); /* R081 */
}

static bool take_duration(struct result *result, const struct json *value)
{
        (void)result;
        return json_is(value, JSON_NUMBER) && isfinite(value->number) && value->number >= 0; /* R079 */
}

static const struct member {
        struct lessor_slice key;
        bool (*take)(struct result *result, const struct json *value);
        bool required;
        const char *problem;
} members[] = {
        {LESSOR_SLICE("taskName"), take_task_name, true, "taskName: must be a text"},
        {LESSOR_SLICE("status"), take_status, true, "status: must be success or failed"},
        {LESSOR_SLICE("state"), take_state, false, "state: must be success, failed or error"},
        {LESSOR_SLICE("outputHash"), take_output_hash, false,
         "outputHash: must be a SHA-256 in lower-case hex"},
        {LESSOR_SLICE("exitCode"), take_exit_code, false, "exitCode: must be an integer"},
        {LESSOR_SLICE("error"), take_error, false, "error: must be a text"},
        {LESSOR_SLICE("peakBytes"), take_peak_bytes, false, "peakBytes: must be an integer of at least 0"},
        {LESSOR_SLICE("cancelled"), take_cancelled, false, "cancelled: must be true or false"},
        {LESSOR_SLICE("duration"), take_duration, false, "duration: must be a finite number of at least 0"},
};

/* Of each member the last value, since that is the one that counts. */
struct found {
        struct json values[ARRAY_SIZE(members)];
        bool has[ARRAY_SIZE(members)];
};

static void find_member(void *context, const struct json *member, struct lessor_slice text)
{
        struct found *found = context;

        (void)text;
        for (size_t i = 0; i < ARRAY_SIZE(members); i++) {
                if (lessor_slice_equal(members[i].key, member->key)) {
                        found->values[i] = *member;
                        found->has[i] = true;
                        return;
                }
        }
}

static const char *judge(const struct found *found, struct result *result)
{
        for (size_t i = 0; i < ARRAY_SIZE(members); i++) {
                if (!found->has[i] && !members[i].required)
                        continue;
                if (!found->has[i] || !members[i].take(result, &found->values[i])) /* R082: null too */
                        return members[i].problem;
        }
        if (result->state != STATE_NONE && (result->state == STATE_SUCCESS) != result->verdict.success)
                return "state: must agree with status"; /* R077 */
        result->verdict.error = result->state == STATE_ERROR;
        return NULL;
}

int lease_result_read(struct lessor_slice text, struct lessor_arena *arena,
                      struct lessor_verdict *ret_verdict, const char **ret_problem)
{
        struct found found = {0};
        struct result result = {0};
        const char *problem = NULL;
        int e = json_read_members(text, arena, find_member, &found, &problem);

        if (e == 0) {
                problem = judge(&found, &result);
                e = problem == NULL ? 0 : LESSOR_E_INVALID;
        }
        if (e == 0)
                *ret_verdict = result.verdict;
        else if (ret_problem != NULL)
                *ret_problem = problem;
        return e == 0 || e == LESSOR_E_NOMEM ? e : LESSOR_E_INVALID; /* R073 */
}

/* --- Another output hash --- */

struct rewriting {
        struct lessor_slice text, hash;
        struct buf out;
        const char *from; /* of what was not copied yet */
        bool found;
        bool any; /* there is a member */
};

static void rewrite_member(void *context, const struct json *member, struct lessor_slice value)
{
        struct rewriting *r = context;

        r->any = true;
        if (!lessor_slice_equal(member->key, LESSOR_SLICE("outputHash")))
                return;
        r->found = true;
        buf_append(&r->out, r->from, (size_t)(value.p - r->from));
        buf_printf(&r->out, "\"%.*s\"", (int)r->hash.n, r->hash.p);
        r->from = value.p + value.n;
}

/* Copies the rest, with a new member before the brace if there was none. */
static void rewrite_end(struct rewriting *r)
{
        const char *end = r->text.p + r->text.n, *brace = end;

        while (brace > r->from && brace[-1] != '}')
                brace--;
        brace--;
        if (!r->found) {
                buf_append(&r->out, r->from, (size_t)(brace - r->from));
                buf_printf(&r->out, "%s\"outputHash\":\"%.*s\"", r->any ? "," : "", (int)r->hash.n,
                           r->hash.p);
                r->from = brace;
        }
        buf_append(&r->out, r->from, (size_t)(end - r->from));
}

int lease_result_with_output(struct lessor_slice text, struct lessor_slice hash, struct lessor_arena *arena,
                             struct lessor_slice *ret_text)
{
        struct rewriting r = {.text = text, .hash = hash, .from = text.p};
        int e;

        buf_init(&r.out);
        e = json_read_members(text, arena, rewrite_member, &r, NULL);
        if (e == 0) {
                rewrite_end(&r);
                e = buf_failed(&r.out);
        }
        if (e == 0)
                e = lessor_arena_copy(arena, buf_view(&r.out), ret_text);
        buf_done(&r.out);
        return e == 0 || e == LESSOR_E_NOMEM ? e : LESSOR_E_INVALID;
}
