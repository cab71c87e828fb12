/* SPDX-License-Identifier: MIT */
#include "client/relay_call.h"

#include <stdlib.h>
#include <string.h>

#include "base/json_read.h"
#include "base/limits.h"
#include "wire/relay_errors.h"

#define HEADERS_MAX 5

bool relay_id_is_sendable(struct lessor_slice id)
{
        for (size_t i = 0; i < id.n; i++)
                if (id.p[i] <= ' ' || id.p[i] > '~')
                        return false;
        return id.n > 0;
}

void relay_failure_init(struct relay_failure *failure)
{
        memset(failure, 0, sizeof(*failure));
        buf_init(&failure->error);
        buf_init(&failure->message);
}

void relay_failure_done(struct relay_failure *failure)
{
        buf_done(&failure->error);
        buf_done(&failure->message);
}

const char *relay_failure_message(const struct relay_failure *failure)
{
        return failure->message.n == 0 ? "" : failure->message.p;
}

const char *relay_failure_error(const struct relay_failure *failure)
{
        return failure->error.n == 0 ? "" : failure->error.p;
}

static void failure_clear(struct relay_failure *failure)
{
        failure->code = 0;
        failure->status = 0;
        failure->retry_after_ms = 0;
        failure->server_time_ms = 0;
        buf_clear(&failure->error);
        buf_clear(&failure->message);
}

int relay_fail(struct relay_failure *failure, int code, const char *message)
{
        failure->code = code;
        buf_clear(&failure->message);
        buf_text(&failure->message,
                 message == NULL || message[0] == '\0' ? lessor_error_text(code) : message);
        return code;
}

static bool is(struct lessor_slice error, const char *word)
{
        return lessor_slice_equal(error, lessor_slice_of(word));
}

int relay_verdict(enum request_plane plane, long status, struct lessor_slice error)
{
        /* Words that mean the same whatever status they travel with. */
        if (is(error, "revoked"))
                return LESSOR_E_PERMISSION;
        if (is(error, "too-late"))
                return LESSOR_E_TOO_LATE;
        if (is(error, "unsupported-protocol-version") || is(error, "daemon-below-floor") || status == 426)
                return LESSOR_E_NEWER;
        if (is(error, "clock-skew"))
                return LESSOR_E_STALE;
        /* 501 says that this relay never will. */
        if ((status >= 500 && status != 501) || status == 429 || status == 408 || is(error, "server-error"))
                return LESSOR_E_LATER;
        if (is(error, "not-ready"))
                return plane == REQUEST_PLANE_SITE ? LESSOR_E_LATER : LESSOR_E_NOT_READY;
        if (status == 409 && plane == REQUEST_PLANE_DEVICE)
                return LESSOR_E_NOT_READY;
        if (status == 404)
                return LESSOR_E_NOT_FOUND;
        return LESSOR_E_REFUSED;
}

static int read_refusal(const struct relay_caller *caller, const struct http_transfer *transfer,
                        struct lessor_arena *arena, struct relay_failure *failure)
{
        struct relay_error_answer body = {0};
        struct json *value = NULL;

        /* A proxy's refusal is no JSON; the status is then all there is. */
        if (json_read_copy(http_transfer_body(transfer), arena, &value) == 0 &&
            message_read(&relay_error_answer_table, value, arena, &body, NULL) == 0) {
                buf_slice(&failure->error, body.error);
                failure->server_time_ms = body.server_time_ms;
                if (failure->retry_after_ms == 0 && body.retry_after > 0 && body.retry_after <= 3600)
                        failure->retry_after_ms = body.retry_after * 1000;
        }
        failure->code = relay_verdict(caller->plane, failure->status, body.error);
        if (body.message.n > 0)
                buf_slice(&failure->message, body.message);
        else if (failure->status >= 300 && failure->status < 400)
                buf_printf(&failure->message, "%s answered with a redirect, which is not followed",
                           caller->base_url);
        else
                buf_printf(&failure->message, "%s answered with HTTP status %ld", caller->base_url,
                           failure->status);
        return failure->code;
}

int relay_answer_read(const struct relay_caller *caller, const struct http_transfer *transfer,
                      const struct message_table *answer_table, struct lessor_arena *arena, void *ret_answer,
                      struct relay_failure *failure)
{
        const char *problem = NULL;
        struct json *value = NULL;
        int r = http_transfer_error(transfer);

        failure_clear(failure);
        if (r < 0) {
                failure->code = r;
                buf_printf(&failure->message, "cannot reach %s: %s", caller->base_url,
                           http_transfer_problem(transfer));
                return r;
        }
        failure->status = http_transfer_status(transfer);
        failure->retry_after_ms = http_transfer_retry_after_ms(transfer);
        if (failure->status < 200 || failure->status > 299)
                return read_refusal(caller, transfer, arena, failure);

        r = json_read_copy(http_transfer_body(transfer), arena, &value);
        if (r == LESSOR_E_NOMEM)
                return relay_fail(failure, r, NULL);
        if (r < 0)
                return relay_fail(failure, LESSOR_E_PROTOCOL, "the relay's answer is not JSON");
        r = message_read(answer_table, value, arena, ret_answer, &problem);
        if (r == LESSOR_E_NOMEM)
                return relay_fail(failure, r, NULL);
        if (r < 0) {
                relay_fail(failure, LESSOR_E_PROTOCOL, "the relay's answer is none of this protocol: ");
                buf_text(&failure->message, problem == NULL ? answer_table->name : problem);
                return LESSOR_E_PROTOCOL;
        }
        return 0;
}

/* Appends "name: value" and a NUL, and remembers where it starts. */
static void put_header(struct buf *out, size_t *starts, size_t *n, const char *name,
                       struct lessor_slice value)
{
        starts[(*n)++] = out->n;
        buf_text(out, name);
        buf_text(out, ": ");
        buf_slice(out, value);
        buf_char(out, '\0');
}

static int put_signature(const struct relay_caller *caller, const char *endpoint, struct lessor_slice body,
                         struct buf *out, size_t *starts, size_t *n)
{
        struct signed_request request = {
                .plane = caller->plane,
                .endpoint = lessor_slice_of(endpoint),
                .caller = caller->id,
                .issued_ms = clock_now_ms(caller->clock),
        };
        bool site = caller->plane == REQUEST_PLANE_SITE;
        int r;

        request_body_hash(body, request.body_hash);
        put_header(out, starts, n, site ? "x-byollm-site" : "x-byollm-runner", caller->id);
        starts[(*n)++] = out->n;
        buf_text(out, "x-byollm-issued-at: ");
        buf_int(out, request.issued_ms);
        buf_char(out, '\0');
        starts[(*n)++] = out->n;
        buf_text(out, "x-byollm-signature: ");
        r = request_sign(&request, caller->key, out);
        buf_char(out, '\0');
        return r;
}

static int start(const struct relay_caller *caller, const char *method, const char *url, const char *endpoint,
                 struct lessor_slice body, int64_t timeout_ms, size_t max_answer_bytes,
                 struct http_transfer **ret_transfer)
{
        struct http_request request = {
                .method = method,
                .url = url,
                .body = body,
                .max_answer_bytes = max_answer_bytes,
                .timeout_ms = timeout_ms,
        };
        _cleanup_(buf_done) struct buf text;
        const char *headers[HEADERS_MAX];
        size_t starts[HEADERS_MAX];
        int r = 0;

        buf_init(&text);
        put_header(&text, starts, &request.n_headers, "accept", LESSOR_SLICE("application/json"));
        if (body.p != NULL)
                put_header(&text, starts, &request.n_headers, "content-type",
                           LESSOR_SLICE("application/json"));
        if (caller->key != NULL)
                r = put_signature(caller, endpoint, body, &text, starts, &request.n_headers);
        if (r == 0)
                r = buf_failed(&text);
        if (r < 0)
                return r;
        for (size_t i = 0; i < request.n_headers; i++)
                headers[i] = text.p + starts[i];
        request.headers = headers;
        return http_client_start(caller->http, &request, ret_transfer);
}

static int put_url(const struct relay_caller *caller, const char *endpoint, struct buf *out)
{
        buf_text(out, caller->base_url);
        buf_text(out, caller->plane == REQUEST_PLANE_SITE ? "/relay/site/" : "/byollm/");
        buf_text(out, endpoint);
        return buf_failed(out);
}

int relay_post(const struct relay_caller *caller, const char *endpoint,
               const struct message_table *request_table, const void *request,
               const struct message_table *answer_table, struct lessor_arena *arena, void *ret_answer,
               struct relay_failure *failure)
{
        _cleanup_(http_transfer_freep) struct http_transfer *transfer = NULL;
        _cleanup_(buf_done) struct buf url;
        _cleanup_(buf_done) struct buf body;
        int r;

        buf_init(&url);
        buf_init(&body);
        failure_clear(failure);
        r = put_url(caller, endpoint, &url);
        if (r == 0)
                r = message_append(request_table, request, &body);
        if (r == 0)
                r = start(caller, "POST", url.p, endpoint, buf_view(&body), caller->timeout_ms,
                          LIMIT_BODY_ENVELOPE, &transfer);
        while (r == 0 && !http_transfer_done(transfer)) {
                r = http_client_wait(caller->http, caller->stop, caller->timeout_ms);
                if (r == LESSOR_E_TIMEOUT)
                        r = 0; /* the transfer has a time limit of its own */
        }
        if (r < 0)
                return relay_fail(failure, r, NULL);
        return relay_answer_read(caller, transfer, answer_table, arena, ret_answer, failure);
}

static void put_escaped(struct buf *out, struct lessor_slice text)
{
        static const char digits[] = "0123456789ABCDEF";

        for (size_t i = 0; i < text.n; i++) {
                unsigned char c = (unsigned char)text.p[i];

                if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
                    c == '_' || c == '.' || c == '~') {
                        buf_char(out, (char)c);
                } else {
                        buf_char(out, '%');
                        buf_char(out, digits[c >> 4]);
                        buf_char(out, digits[c & 15]);
                }
        }
}

int relay_get_start(const struct relay_caller *caller, const char *endpoint, int64_t wait_ms,
                    struct http_transfer **ret_transfer)
{
        _cleanup_(buf_done) struct buf url;
        int r;

        buf_init(&url);
        put_url(caller, endpoint, &url);
        buf_text(&url, "?siteId=");
        put_escaped(&url, caller->id);
        buf_text(&url, "&protocolVersion=2");
        if (wait_ms > 0) {
                buf_text(&url, "&wait=");
                buf_int(&url, wait_ms);
        }
        r = buf_failed(&url);
        if (r < 0)
                return r;
        return start(caller, "GET", url.p, endpoint, (struct lessor_slice){NULL, 0},
                     caller->timeout_ms + wait_ms, LIMIT_RESULTS_READ, ret_transfer);
}
