/* SPDX-License-Identifier: MIT */
#include "base/clock.h"
#include "http/internal.h"

enum MHD_Result admission_begin(struct request *r)
{
        const char *method = r->public.route->method;

        r->early = true;
        r->wrong_method = method != NULL && !lessor_slice_equal(r->public.method, lessor_slice_of(method));
        r->phase = PHASE_RUN;
        connection_due(r->connection, 0); /* what it waits for now is our own */
        r->next = r->public.route->gate->admit;
        r->next_context = route_context(r);
        return request_run(r);
}

/* The body is next, and has this long. */
static void body_next(struct request *r)
{
        const struct http_gate *gate = r->public.route->gate;
        int64_t now_ms = clock_monotonic_ms(), due_ms = r->deadline_ms;

        r->early = false;
        r->phase = r->upload == NULL ? PHASE_BODY : PHASE_UPLOAD;
        r->deadline_ms = 0;
        if (!request_has_body(r))
                return;
        if (due_ms == 0 && gate->body_ms > 0)
                due_ms = now_ms + gate->body_ms;
        r->due_fixed = due_ms != 0;
        if (due_ms == 0)
                due_ms = now_ms + r->server->options.body_ms;
        connection_due(r->connection, due_ms);
        keeper_due(r->server->keeper, due_ms);
}

/* It is admitted. What is still wrong with it? */
static bool refused(struct request *r)
{
        if (r->wrong_method)
                answer_refusal(r, 404, "that method is not served here");
        else if (r->content_length > r->public.route->body_limit)
                answer_refusal(r, 413, "the body is larger than this endpoint takes");
        return r->answered;
}

bool admission_next(struct request *r)
{
        if (r->next != NULL) /* http_receive() has failed */
                return true;
        if (r->upload != NULL) {
                body_next(r);
                return false;
        }
        if (r->admitted) {
                answer_error(r, 500, "the request was not answered");
                return true;
        }
        r->admitted = true;
        if (refused(r))
                return true;
        if (!r->public.route->gate->streamed && request_has_body(r)) {
                body_next(r);
                return false;
        }
        r->early = r->public.route->gate->streamed;
        r->next = r->public.route->handler;
        r->next_context = route_context(r);
        return true;
}
