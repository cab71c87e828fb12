/* SPDX-License-Identifier: MIT */
#include "client/rack_call.h"

#include <sodium.h>
#include <string.h>

#include "base/clock.h"
#include "client/rack_rules.h"
#include "wire/rack_message.h"

#define ANSWER_MOST  ((size_t)8 * 1024 * 1024) /* 256 objects of 4 KiB in base64 are 1.4 MB */
#define MESSAGE_MOST 300

void rack_failure_init(struct rack_failure *failure)
{
        memset(failure, 0, sizeof(*failure));
        buf_init(&failure->message);
}

void rack_failure_done(struct rack_failure *failure)
{
        buf_done(&failure->message);
}

const char *rack_failure_message(const struct rack_failure *failure)
{
        return failure->message.n == 0 ? lessor_error_text(failure->code) : failure->message.p;
}

static void failure_clear(struct rack_failure *failure)
{
        failure->code = 0;
        failure->status = 0;
        failure->retry_after_ms = 0;
        buf_clear(&failure->message);
}

void rack_exchange_clear(struct rack_exchange *exchange)
{
        http_transfer_free(exchange->transfer);
        sodium_memzero(exchange, sizeof(*exchange));
}

int rack_call_start(const struct rack_caller *caller, const char *endpoint, const struct beast2_type *type,
                    const void *request, int64_t timeout_ms, struct rack_exchange *exchange)
{
        _cleanup_(buf_wipe) struct buf authorization = {0}, body = {0};
        _cleanup_(buf_done) struct buf url = {0};
        const char *headers[3] = {"content-type: application/json", "accept: application/json"};
        struct http_request http = {.method = "POST",
                                    .headers = headers,
                                    .n_headers = 2,
                                    .max_answer_bytes = ANSWER_MOST,
                                    .timeout_ms = timeout_ms};
        int r = rack_message_write_json(type, request, &body);

        memset(exchange, 0, sizeof(*exchange));
        buf_printf(&url, "%s/api/rack/%s", caller->url, endpoint);
        if (caller->identity != NULL) {
                rack_identity_token(caller->identity, exchange->token);
                buf_reserve(&authorization, 128);
                buf_text(&authorization, "authorization: Bearer ");
                buf_text(&authorization, exchange->token);
                headers[http.n_headers++] = authorization.p;
        }
        if (r == 0 && (buf_failed(&url) < 0 || buf_failed(&authorization) < 0))
                r = LESSOR_E_NOMEM;
        if (r < 0)
                return r;
        http.url = url.p;
        http.body = buf_view(&body);
        exchange->started_ms = clock_monotonic_ms();
        return http_client_start(caller->http, &http, &exchange->transfer);
}

static int read_refusal(const struct rack_caller *caller, const struct http_transfer *transfer,
                        struct lessor_arena *arena, struct rack_failure *failure)
{
        struct lessor_slice code = {0}, message = {0};
        struct json *body = NULL;

        /* A proxy's refusal is no JSON; the status is then all there is. */
        if (json_read_copy(http_transfer_body(transfer), arena, &body) == 0) {
                code = json_text(json_member_named(body, "error"));
                message = json_text(json_member_named(body, "message"));
        }
        failure->code = rack_verdict(failure->status, code);
        if (message.n > MESSAGE_MOST)
                message.n = MESSAGE_MOST;
        if (message.n > 0)
                buf_slice(&failure->message, message);
        else
                buf_printf(&failure->message, "%s answered with HTTP status %ld", caller->url,
                           failure->status);
        return failure->code;
}

static int protocol_error(struct rack_failure *failure, const char *what)
{
        failure->code = LESSOR_E_PROTOCOL;
        buf_printf(&failure->message, "the server's answer is none of this protocol: %s", what);
        return failure->code;
}

static int read_answer(const struct rack_caller *caller, const struct rack_exchange *exchange,
                       const struct beast2_type *reply_type, struct lessor_arena *arena, void *ret_reply,
                       bool *ret_empty, struct rack_failure *failure)
{
        const struct http_transfer *transfer = exchange->transfer;
        const char *problem = NULL;
        struct lessor_slice body = http_transfer_body(transfer), copy;
        int r = http_transfer_error(transfer);

        if (r < 0) {
                failure->code = r;
                buf_printf(&failure->message, "cannot reach %s: %s", caller->url,
                           http_transfer_problem(transfer));
                return r;
        }
        failure->status = http_transfer_status(transfer);
        failure->retry_after_ms = http_transfer_retry_after_ms(transfer);
        if (failure->status < 200 || failure->status > 299)
                return read_refusal(caller, transfer, arena, failure);
        if (ret_empty != NULL)
                *ret_empty = failure->status == 204;
        if (failure->status == 204)
                return ret_empty != NULL ? 0 : protocol_error(failure, "it is empty");
        /* The message borrows from its text, which goes with the transfer. */
        r = lessor_arena_copy(arena, body, &copy);
        if (r == 0)
                r = rack_message_read_json(reply_type, copy, BEAST2_JSON_OPEN, arena, ret_reply, &problem);
        if (r == LESSOR_E_NOMEM)
                failure->code = r;
        else if (r < 0)
                r = protocol_error(failure, problem == NULL ? lessor_error_text(r) : problem);
        return r;
}

int rack_call_finish(const struct rack_caller *caller, const struct rack_exchange *exchange,
                     const struct beast2_type *reply_type, struct lessor_arena *arena, void *ret_reply,
                     bool *ret_empty, struct rack_failure *failure)
{
        int r;

        failure_clear(failure);
        r = read_answer(caller, exchange, reply_type, arena, ret_reply, ret_empty, failure);
        if (caller->identity == NULL)
                return r;
        if (r == 0)
                rack_identity_worked(caller->identity, exchange->token);
        if (r == LESSOR_E_PERMISSION && failure->status == 401 &&
            rack_identity_refused(caller->identity, exchange->token))
                r = failure->code = LESSOR_E_LATER;
        return r;
}

int rack_call(const struct rack_caller *caller, const char *endpoint, const struct beast2_type *type,
              const void *request, int64_t timeout_ms, const struct beast2_type *reply_type,
              struct lessor_arena *arena, void *ret_reply, struct rack_failure *failure)
{
        struct rack_exchange exchange;
        int r;

        failure_clear(failure);
        r = rack_call_start(caller, endpoint, type, request, timeout_ms, &exchange);
        while (r == 0 && !http_transfer_done(exchange.transfer)) {
                r = http_client_wait(caller->http, caller->stop, timeout_ms + 1000);
                if (r == LESSOR_E_TIMEOUT)
                        r = 0;
        }
        if (r == 0)
                r = rack_call_finish(caller, &exchange, reply_type, arena, ret_reply, NULL, failure);
        else
                failure->code = r;
        rack_exchange_clear(&exchange);
        return r;
}
