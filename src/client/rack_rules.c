/* SPDX-License-Identifier: MIT */
#include "client/rack_rules.h"

#include <errno.h>
#include <string.h>

#include "base/json_write.h"
#include "base/utf8.h"
#include "client/agent_rules.h"

#define BACKOFF_FIRST_MS   500
#define BACKOFF_LONGEST_MS 30000
#define POLL_QUICK_MS      1000 /* an empty poll that comes back sooner held no window */
#define LONGEST_WAIT_MS    60000
#define EXIT_NO_COMMAND    127 /* as shells have it */

int rack_verdict(long status, struct lessor_slice error)
{
        if (status >= 200 && status <= 299)
                return 0;
        if (status == 401 && lessor_slice_equal(error, LESSOR_SLICE("unauthorized")))
                return LESSOR_E_PERMISSION;
        if (status == 401)
                return LESSOR_E_LATER; /* a proxy's word, which it may take back */
        if (status == 403 && error.p != NULL)
                return LESSOR_E_NOT_HELD;
        if (status == 403)
                return LESSOR_E_LATER; /* the allowlist, which is mended without us */
        if (status == 413)
                return LESSOR_E_TOO_LARGE;
        if (status == 426)
                return LESSOR_E_AGENT_TOO_OLD;
        if (status == 408 || status == 429 || (status >= 500 && status != 501))
                return LESSOR_E_LATER;
        return status == 404 ? LESSOR_E_NOT_FOUND : LESSOR_E_REFUSED;
}

int64_t rack_backoff_ms(unsigned attempt, int64_t retry_after_ms, uint32_t random)
{
        int64_t pause_ms = rules_backoff_ms(attempt, BACKOFF_FIRST_MS, BACKOFF_LONGEST_MS);
        int64_t spread = pause_ms / 4;

        if (pause_ms < retry_after_ms)
                pause_ms = retry_after_ms;
        return pause_ms + (int64_t)(random % (uint32_t)(spread + 1));
}

static void until(struct rack_steps *steps, int64_t now_ms, int64_t at_ms)
{
        int64_t left_ms = at_ms <= now_ms ? 0 : at_ms - now_ms;

        if (left_ms < steps->wait_ms)
                steps->wait_ms = left_ms;
}

struct rack_steps rack_next_steps(const struct rack_situation *s)
{
        struct rack_steps steps = {.wait_ms = LONGEST_WAIT_MS};
        bool may_poll = s->beat_done && !s->draining && s->n_active < s->slots;
        bool wants_watch = s->n_active > 0 && !s->watch_missing;

        if (!s->beating) {
                steps.beat = s->now_ms >= s->beat_at_ms;
                if (!steps.beat)
                        until(&steps, s->now_ms, s->beat_at_ms);
        }
        if (s->polling)
                steps.stop_polling = s->draining;
        else if (may_poll)
                steps.poll = s->now_ms >= s->poll_at_ms;
        if (may_poll && !s->polling && !steps.poll)
                until(&steps, s->now_ms, s->poll_at_ms);
        steps.stop_watching = s->watching && (s->watch_stale || !wants_watch);
        if (wants_watch && (!s->watching || steps.stop_watching)) {
                steps.watch = s->now_ms >= s->watch_at_ms;
                if (!steps.watch)
                        until(&steps, s->now_ms, s->watch_at_ms);
        }
        steps.extend = s->now_ms >= s->extend_at_ms;
        if (!steps.extend && s->extend_at_ms != INT64_MAX)
                until(&steps, s->now_ms, s->extend_at_ms);
        return steps;
}

int64_t rack_poll_pause_ms(int code, bool granted, int64_t took_ms, unsigned n_failures,
                           int64_t retry_after_ms, uint32_t random)
{
        if (code < 0)
                return rack_backoff_ms(n_failures, retry_after_ms, random);
        /* A server that stops, or holds no window, is not to be asked without end. */
        return granted || took_ms >= POLL_QUICK_MS ? 0 : POLL_QUICK_MS - took_ms;
}

int64_t rack_limit(int64_t wanted, int64_t allowed)
{
        if (wanted <= 0 || allowed <= 0)
                return wanted > allowed ? wanted : allowed;
        return wanted < allowed ? wanted : allowed;
}

const char *const rack_result_states[] = {
        [RACK_RESULT_SUCCESS] = "success",
        [RACK_RESULT_FAILED] = "failed",
        [RACK_RESULT_ERROR] = "error",
};

int rack_result_write(const struct rack_result *result, struct buf *out)
{
        struct json_writer w;

        json_writer_init(&w, out);
        json_open_object(&w);
        json_key(&w, "taskName");
        json_put_text(&w, result->task_name);
        json_member_cstr(&w, "status", result->state == RACK_RESULT_SUCCESS ? "success" : "failed");
        json_member_cstr(&w, "state", rack_result_states[result->state]);
        json_member_text(&w, "outputHash", result->output_hash);
        if (result->has_exit_code)
                json_member_int(&w, "exitCode", result->exit_code);
        json_member_cstr(&w, "error", result->error);
        if (result->peak_bytes > 0)
                json_member_int(&w, "peakBytes", result->peak_bytes);
        json_member_int(&w, "duration", result->duration_ms < 0 ? 0 : result->duration_ms);
        json_close_object(&w);
        return buf_failed(out);
}

static void fail(struct rack_result *result, int exit_code)
{
        result->state = RACK_RESULT_FAILED;
        result->has_exit_code = true;
        result->exit_code = exit_code;
}

bool rack_judge_end(const struct task_end *end, const struct task_limits *limits, struct buf *ret_error,
                    struct rack_result *ret_result)
{
        *ret_result = (struct rack_result){.state = RACK_RESULT_SUCCESS, .peak_bytes = end->peak_bytes};
        switch (end->how) {
        case TASK_END_EXIT:
                if (end->number == 0) {
                        ret_result->has_exit_code = true;
                        return true;
                }
                fail(ret_result, end->number);
                buf_printf(ret_error, "the command ended with status %d", end->number);
                break;
        case TASK_END_SIGNAL:
                fail(ret_result, -1);
                buf_printf(ret_error, "the command was ended by signal %d (SIG%s)", end->number,
                           sigabbrev_np(end->number) == NULL ? "?" : sigabbrev_np(end->number));
                break;
        case TASK_END_NO_COMMAND:
                fail(ret_result, EXIT_NO_COMMAND);
                buf_printf(ret_error, "the command cannot be started: %s", strerrordesc_np(end->number));
                break;
        case TASK_END_NO_DIRECTORY:
                fail(ret_result, EXIT_NO_COMMAND);
                buf_printf(ret_error, "the directory of the command: %s", strerrordesc_np(end->number));
                break;
        case TASK_END_TIMEOUT:
                fail(ret_result, -1);
                buf_printf(ret_error, "timed out after %lld ms", (long long)limits->time_ms);
                break;
        case TASK_END_DISK:
                fail(ret_result, -1);
                buf_printf(ret_error, "it needs more than its %lld bytes of disk",
                           (long long)limits->disk_bytes);
                break;
        case TASK_END_STOPPED:
        case TASK_END_BROKEN:
                ret_result->state = RACK_RESULT_ERROR;
                buf_text(ret_error, end->problem[0] == '\0' ? "it was stopped" : end->problem);
                break;
        }
        if (end->out_of_memory && end->how != TASK_END_BROKEN)
                buf_printf(ret_error, "; it ran out of its %lld bytes of memory",
                           (long long)limits->memory_bytes);
        if (end->out_of_processes && end->how != TASK_END_BROKEN)
                buf_printf(ret_error, "; it wanted more than its %lld processes",
                           (long long)limits->processes);
        ret_result->error = ret_error->p;
        return false;
}

const char *rack_refusal(enum lessor_lease_mode mode, struct lessor_slice task_head)
{
        if (mode != LESSOR_LEASE_TASK)
                return "this rack runs lessor.task/1 tasks only, and the lease is a unit or function of e3's";
        if (task_head.p != NULL &&
            (task_head.n < task_prefix.n || memcmp(task_head.p, task_prefix.p, task_prefix.n) != 0))
                return "this rack runs lessor.task/1 tasks only, and the task is none";
        return NULL;
}

/* How long a character that begins with this byte is; 1 also for what begins none. */
static size_t character_len(unsigned char first)
{
        if (first >= 0xc2 && first <= 0xdf)
                return 2;
        if (first >= 0xe0 && first <= 0xef)
                return 3;
        return first >= 0xf0 && first <= 0xf4 ? 4 : 1;
}

size_t rack_log_cut(const char *bytes, size_t n, size_t most, bool ended)
{
        size_t cut = n < most ? n : most, back = 0;

        if (cut == 0 || (ended && cut == n))
                return cut;
        /* The last byte that begins something, at most three from the end. */
        while (back < 3 && back + 1 < cut && ((unsigned char)bytes[cut - 1 - back] & 0xc0) == 0x80)
                back++;
        if (character_len((unsigned char)bytes[cut - 1 - back]) <= back + 1)
                return cut;
        /* Not if it cannot become a character any more: those bytes are no reason to wait. */
        {
                struct lessor_slice tail = {bytes + cut - 1 - back, back + 1};
                static const char filler[] = "\x80\x80\x80";
                char whole[8];
                size_t len = character_len((unsigned char)tail.p[0]);

                memcpy(whole, tail.p, tail.n);
                memcpy(whole + tail.n, filler, len - tail.n);
                /* The second byte alone decides beyond the first; with it given, any continuation will do. */
                if (tail.n > 1 && !utf8_valid((struct lessor_slice){whole, len}))
                        return cut;
        }
        return cut - (back + 1);
}
