/* SPDX-License-Identifier: MIT */
#include "plane/rack_call.h"

#include <stdarg.h>
#include <strings.h>

#include "base/json_write.h"
#include "base/log.h"
#include "base/macro.h"
#include "crypto/machine_token.h"
#include "wire/rack_message.h"

/* --- Answers --- */

static int when_durable(void *context, http_told *told, void *told_context)
{
        struct rack_call *call = context;

        return lessor_lease_when_durable(call->store, call->ticket, told, told_context);
}

/* The store could not write what the answer rests on, so the answer must not be given. */
static void not_durable(struct http_request *http, void *context)
{
        struct rack_call *call = context;

        (void)http;
        call->ticket.seq = 0;
        rack_refuse_error(call, LESSOR_E_UNAVAILABLE);
}

static void answer(struct rack_call *call, unsigned status, const char *content_type, struct buf *body)
{
        rack_call_forget_message(call);
        if (call->ticket.seq != 0)
                http_answer_after(call->http, when_durable, not_durable, call);
        http_answer(call->http, status, content_type, body);
}

void rack_answer(struct rack_call *call, const void *success)
{
        bool json = call->form == RACK_FORM_JSON;
        struct buf body = {0};
        int e;

        e = json ? rack_message_write_json(call->endpoint->success, success, &body)
                 : rack_success_write_beast2(call->endpoint->reply, success, &body);
        if (e < 0) {
                buf_done(&body);
                log_error("rack-answer-not-written", LOG_CSTR("route", call->endpoint->name),
                          LOG_ERROR_CODE(e));
                rack_refuse(call, RACK_INTERNAL, "the answer could not be written");
                return;
        }
        answer(call, 200, json ? "application/json" : "application/beast2", &body); /* R014 */
}

void rack_answer_nothing(struct rack_call *call)
{
        answer(call, 204, NULL, NULL);
}

/* What each refusal is on the JSON wire; a type of its own where BEAST2 has a JSON body for it. */
static const struct refusal {
        unsigned status;
        const char *code;
        bool own_body;
} refusals[] = {
        [RACK_UNAUTHORIZED] = {401, "unauthorized", true},
        [RACK_FORBIDDEN] = {403, "permission_denied", true},
        [RACK_NO_SUCH_PATH] = {404, "not_found", true},
        [RACK_BAD_REQUEST] = {400, "bad_request", false},
        [RACK_NOT_FOUND] = {404, "not_found", false},
        [RACK_CONFLICT] = {409, "conflict", false},
        [RACK_TOO_LARGE] = {413, "too_large", false},
        [RACK_TOO_OLD] = {426, "agent_too_old", false},
        [RACK_RATE_LIMITED] = {429, "rate_limited", false},
        [RACK_UNAVAILABLE] = {503, "unavailable", false},
        [RACK_INTERNAL] = {500, "internal", false},
};

/* {"error":code,"message":text} */
static void put_plain(struct json_writer *w, const char *code, struct lessor_slice message)
{
        json_open_object(w);
        json_member_cstr(w, "error", code);
        json_member_text(w, "message", message);
        json_close_object(w);
}

/* {"success":false,"error":{"type":code,"message":text}}: U401 and F403 */
static void put_wrapped(struct json_writer *w, const char *code, struct lessor_slice message)
{
        json_open_object(w);
        json_member_bool(w, "success", false);
        json_key(w, "error");
        json_open_object(w);
        json_member_cstr(w, "type", code);
        json_member_text(w, "message", message);
        json_close_object(w);
        json_close_object(w);
}

static void refuse_json(struct rack_call *call, const struct refusal *refusal, struct lessor_slice message)
{
        struct buf body = {0};
        struct json_writer w;

        json_writer_init(&w, &body);
        if (call->form == RACK_FORM_JSON)
                put_plain(&w, refusal->code, message);
        else
                put_wrapped(&w, refusal->code, message);
        if (refusal->status == 401)
                (void)http_answer_header(call->http, "WWW-Authenticate", "Bearer");
        if (refusal->status == 503 || refusal->status == 429)
                (void)http_answer_header(call->http, "Retry-After", "1");
        answer(call, refusal->status, "application/json", &body);
}

static void refuse_beast2(struct rack_call *call, struct lessor_slice message)
{
        struct buf body = {0};
        int e = rack_internal_write_beast2(call->endpoint->reply, message, &body);

        if (e == LESSOR_E_INVALID) /* a message that quotes what is no UTF-8 */
                e = rack_internal_write_beast2(call->endpoint->reply, LESSOR_SLICE("not valid"), &body);
        if (e < 0)
                buf_done(&body);
        answer(call, e < 0 ? 500 : 200, e < 0 ? NULL : "application/beast2", e < 0 ? NULL : &body);
}

void rack_refuse(struct rack_call *call, enum rack_refusal refusal, const char *format, ...)
{
        _cleanup_(buf_done) struct buf message = {0};
        const struct refusal *how = &refusals[refusal];
        va_list args;

        va_start(args, format);
        buf_vprintf(&message, format, args);
        va_end(args);
        if (call->form == RACK_FORM_JSON || how->own_body || call->endpoint == NULL)
                refuse_json(call, how, buf_view(&message));
        else
                refuse_beast2(call, buf_view(&message));
}

static enum rack_refusal refusal_of(int error)
{
        switch (error) {
        case LESSOR_E_NOT_HELD:
        case LESSOR_E_PERMISSION:
                return RACK_FORBIDDEN;
        case LESSOR_E_INVALID:
        case LESSOR_E_MALFORMED:
        case LESSOR_E_TOO_LARGE:
                return RACK_BAD_REQUEST;
        case LESSOR_E_SIZE_CHANGED:
        case LESSOR_E_TARGET_LIMIT:
        case LESSOR_E_MISMATCH:
                return RACK_CONFLICT;
        case LESSOR_E_NOT_FOUND:
                return RACK_NOT_FOUND;
        case LESSOR_E_AGENT_TOO_OLD:
                return RACK_TOO_OLD;
        case LESSOR_E_FULL:
        case LESSOR_E_BUSY:
        case LESSOR_E_LOW_SPACE:
        case LESSOR_E_UNAVAILABLE:
                return RACK_UNAVAILABLE;
        default:
                return RACK_INTERNAL;
        }
}

void rack_refuse_error(struct rack_call *call, int error)
{
        enum rack_refusal refusal = refusal_of(error);

        if (refusal == RACK_INTERNAL)
                log_error("rack-call-failed", LOG_CSTR("route", call->endpoint->name),
                          LOG_TEXT("rack", call->caller.rack.rack_id), LOG_ERROR_CODE(error));
        rack_refuse(call, refusal, "%s", lessor_error_text(error));
}

void rack_refuse_gone(struct rack_call *call)
{
        rack_refuse(call, RACK_UNAUTHORIZED, "this rack is not registered; enroll it again");
}

/* --- Helpers --- */

void rack_call_rests_on(struct rack_call *call, struct lessor_ticket ticket)
{
        if (ticket.seq > call->ticket.seq)
                call->ticket = ticket;
}

void rack_call_forget_message(struct rack_call *call)
{
        call->message = lessor_arena_free(call->message);
}

static void forget_message(void *call)
{
        rack_call_forget_message(call);
}

struct lessor_lease_holder rack_call_holder(const struct rack_call *call, struct lessor_slice repo,
                                            struct lessor_slice lease_id, struct lessor_slice attempt)
{
        return (struct lessor_lease_holder){
                .name = {repo, lease_id}, .rack_id = call->caller.rack.rack_id, .attempt = attempt};
}

int rack_call_names(struct rack_call *call, const struct rack_lease_ref *refs, size_t n,
                    struct lessor_lease_name **ret_names)
{
        struct lessor_lease_name *names = lessor_arena_array(call->arena, n, sizeof(*names));

        if (names == NULL)
                return LESSOR_E_NOMEM;
        for (size_t i = 0; i < n; i++)
                names[i] = (struct lessor_lease_name){refs[i].repo, refs[i].lease_id};
        *ret_names = names;
        return 0;
}

int rack_call_pick(struct rack_call *call, const struct rack_lease_ref *refs,
                   const struct lessor_index_list *picked, struct rack_lease_ref **ret_refs)
{
        struct rack_lease_ref *out = lessor_arena_array(call->arena, picked->n, sizeof(*out));

        if (out == NULL)
                return LESSOR_E_NOMEM;
        for (size_t i = 0; i < picked->n; i++)
                out[i] = refs[picked->items[i]]; /* R063 */
        *ret_refs = out;
        return 0;
}

int rack_call_origin(struct rack_call *call, struct lessor_slice *ret_origin)
{
        _cleanup_(buf_done) struct buf origin = {0};
        struct lessor_slice host = http_host(call->http);

        if (call->plane->options.origin.p != NULL || host.n == 0) {
                *ret_origin = call->plane->options.origin;
                return 0;
        }
        buf_text(&origin, http_scheme(call->http));
        buf_text(&origin, "://");
        buf_slice(&origin, host);
        if (buf_failed(&origin) < 0)
                return LESSOR_E_NOMEM;
        return lessor_arena_copy(call->arena, buf_view(&origin), ret_origin);
}

/* --- Requests --- */

/* The type before any parameters, which count for nothing in JSON and for everything in BEAST2 (section 20).
 */
static enum rack_form form_of(struct lessor_slice content_type)
{
        static const struct lessor_slice json = {"application/json", 16};
        struct lessor_slice type = content_type;
        const char *end = content_type.n == 0 ? NULL : memchr(content_type.p, ';', content_type.n);

        if (lessor_slice_equal(content_type, LESSOR_SLICE("application/beast2")) ||
            lessor_slice_equal(content_type, LESSOR_SLICE("application/vnd.elara.beast2")))
                return RACK_FORM_BEAST2;
        if (end != NULL)
                type.n = (size_t)(end - type.p);
        while (type.n > 0 && (type.p[type.n - 1] == ' ' || type.p[type.n - 1] == '\t'))
                type.n--;
        if (type.n == json.n && strncasecmp(type.p, json.p, json.n) == 0)
                return RACK_FORM_JSON;
        return RACK_FORM_OTHER;
}

/* Returns NULL after an answer when there is no memory for the call. */
static struct rack_call *call_new(struct http_request *http, struct rack_plane *plane)
{
        struct rack_call *call = lessor_arena_alloc(http->arena, sizeof(*call));

        if (call == NULL || lessor_arena_own(http->arena, call, forget_message) < 0) {
                http_answer(http, 500, NULL, NULL);
                return NULL;
        }
        call->plane = plane;
        call->store = plane->parts.store;
        call->http = http;
        call->arena = http->arena;
        call->form = form_of(http_header(http, "content-type"));
        for (size_t i = 0; i < rack_n_endpoints; i++)
                if (http->route->name == rack_endpoints[i].name)
                        call->endpoint = &rack_endpoints[i];
        return call;
}

/* Section 2, authentication. False when the call was refused. */
static bool authenticate(struct rack_call *call)
{
        char hash[SHA256_HEX_LEN + 1];
        struct lessor_ticket ticket = {0};
        struct lessor_slice token;
        int e;

        if (!machine_token_of_header(http_header(call->http, "authorization"), &token)) {
                rack_refuse(call, RACK_UNAUTHORIZED, "this needs Authorization: Bearer and a rack token");
                return false;
        }
        machine_token_hash(token, hash);
        e = lessor_rack_authenticate(call->store, (struct lessor_slice){hash, SHA256_HEX_LEN}, call->arena,
                                     &call->caller, &ticket);
        rack_call_rests_on(call, ticket);
        if (e == LESSOR_E_NOT_FOUND) { /* R009 to R011 */
                rack_refuse(call, RACK_UNAUTHORIZED, "that token is not valid any more, or never was");
                return false;
        }
        if (e < 0) {
                rack_refuse_error(call, e);
                return false;
        }
        http_log_caller(call->http, call->caller.rack.rack_id);
        return true;
}

/* False when the call was refused. */
static bool read_message(struct rack_call *call, void **ret_message)
{
        const struct beast2_type *type = call->endpoint->request;
        const char *problem = NULL;
        void *message;
        int e;

        call->message = lessor_arena_new();
        message = call->message == NULL ? NULL : lessor_arena_alloc(call->message, type->size);
        if (message == NULL)
                e = LESSOR_E_NOMEM;
        else if (call->form == RACK_FORM_BEAST2)
                e = rack_message_read_beast2(type, call->http->body, call->message, message, &problem);
        else if (call->form == RACK_FORM_JSON)
                e = rack_message_read_json(type, call->http->body, 0, call->message, message, &problem);
        else {
                problem = "the Content-Type must be application/beast2 or application/json"; /* R015 */
                e = LESSOR_E_MALFORMED;
        }
        if (e == 0) {
                *ret_message = message;
                return true;
        }
        if (e == LESSOR_E_NOMEM)
                rack_refuse_error(call, LESSOR_E_UNAVAILABLE);
        else
                rack_refuse(call,
                            call->endpoint->open && call->form != RACK_FORM_JSON
                                    ? RACK_UNAUTHORIZED /* R005 */
                                    : RACK_BAD_REQUEST,
                            "the body is not what %s takes: %s", call->endpoint->path,
                            problem == NULL ? lessor_error_text(e) : problem);
        return false;
}

/* Before the body (section 4). What it changed, a promotion, is durable before anything is answered. */
static void admit(struct http_request *http, void *context)
{
        struct rack_call *call = call_new(http, context);

        if (call == NULL)
                return;
        http->admitted = call;
        if (!call->endpoint->open && authenticate(call) && call->ticket.seq != 0)
                http_answer_after(http, when_durable, not_durable, call);
}

/* The HTTP server's own refusals: JSON for a JSON request, and text otherwise. */
static void refuse_for_http(struct http_request *http, unsigned status, const char *why, void *context)
{
        struct rack_call *call = http->admitted != NULL ? http->admitted : call_new(http, context);
        struct buf body = {0};
        struct json_writer w;
        const char *code = status == 404   ? "not_found"
                           : status == 408 ? "timeout"
                           : status == 413 ? "too_large"
                           : status == 503 ? "unavailable"
                                           : "bad_request";

        if (call == NULL)
                return;
        if (call->form == RACK_FORM_JSON) {
                json_writer_init(&w, &body);
                put_plain(&w, code, lessor_slice_of(why == NULL ? "there is nothing at this path" : why));
                http_answer(http, status, "application/json", &body);
        } else {
                buf_printf(&body, "%s\n", why == NULL ? "there is nothing at this path" : why);
                http_answer(http, status, "text/plain", &body);
        }
}

const struct http_gate rack_gate = {
        .admit = admit, .refuse = refuse_for_http, .body_ms = RACK_BODY_MS, .any_method = true};

void rack_handle(struct http_request *http, void *context)
{
        struct rack_call *call = http->admitted;
        void *message;

        (void)context;
        if (read_message(call, &message))
                call->endpoint->serve(call, message);
}

void rack_handle_unknown(struct http_request *http, void *context)
{
        struct rack_call *call = call_new(http, context);

        if (call != NULL)
                rack_refuse(call, RACK_NO_SUCH_PATH, "there is nothing at this path");
}
