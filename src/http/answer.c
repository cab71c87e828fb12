/* SPDX-License-Identifier: MIT */
#include <poll.h>
#include <stdio.h>
#include <time.h>

#include "base/clock.h"
#include "base/json_write.h"
#include "http/internal.h"
#include "lessor/error.h"

#define USUAL_ANSWER 1000u

struct error_name {
        unsigned status;
        const char *name; /* "error" of the body */
};

/* Only words of the protocol (relay-protocol 5): its clients know no others, and the status says the rest. */
static const struct error_name error_names[] = {
        {400, "bad-request"}, {404, "not-found"},    {408, "bad-request"},  {413, "bad-request"},
        {431, "bad-request"}, {500, "server-error"}, {503, "server-error"},
};

static const char *error_name(unsigned status)
{
        for (size_t i = 0; i < ARRAY_SIZE(error_names); i++) {
                if (error_names[i].status == status)
                        return error_names[i].name;
        }
        return "server-error";
}

static void error_text(struct buf *out, unsigned status, const char *why)
{
        struct json_writer w;

        json_writer_init(&w, out);
        json_open_object(&w);
        json_member_cstr(&w, "error", error_name(status));
        if (why != NULL)
                json_member_cstr(&w, "message", why);
        json_close_object(&w);
}

void answer_error(struct request *r, unsigned status, const char *why)
{
        buf_clear(&r->answer);
        if (r->foreign) /* rack-protocol 1 */
                buf_printf(&r->answer, "%s\n", why);
        else
                error_text(&r->answer, status, why);
        r->status = status;
        r->content_type = r->foreign ? "text/plain" : "application/json";
        r->answer_text = buf_view(&r->answer);
        r->answered = true;
}

void answer_refusal(struct request *r, unsigned status, const char *why)
{
        const struct http_gate *gate = r->public.route == NULL ? NULL : r->public.route->gate;

        if (r->answered)
                return;
        if (status == 503)
                (void)!http_answer_header(&r->public, "Retry-After", "1");
        if (gate != NULL && gate->refuse != NULL)
                gate->refuse(&r->public, status, why, route_context(r));
        if (!r->answered)
                answer_error(r, status, why);
}

void answer_drop(struct request *r)
{
        buf_done(&r->answer);
        r->answered = false;
        r->answer_headers = NULL;
        r->answer_text = (struct lessor_slice){NULL, 0};
        r->answer_response = NULL;
        r->content_type = NULL;
}

struct buf http_answer_buffer(struct http_request *request)
{
        struct request *r = request_of(request);
        struct buf buffer = r->spare;

        buf_init(&r->spare);
        /* One block that malloc hands out in passing, instead of four that grow into each other. */
        (void)buf_reserve(&buffer, USUAL_ANSWER);
        return buffer;
}

void http_answer(struct http_request *request, unsigned status, const char *content_type, struct buf *body)
{
        struct request *r = request_of(request);

        if (r->answered) {
                if (body != NULL)
                        buf_done(body);
                return;
        }
        if (body != NULL && buf_failed(body) < 0) {
                buf_done(body);
                answer_error(r, 500, "out of memory");
                return;
        }
        buf_done(&r->answer);
        if (body != NULL) {
                r->answer = *body;
                buf_init(body);
        }
        r->status = status;
        r->content_type = content_type;
        r->answer_text = buf_view(&r->answer);
        r->answered = true;
}

void http_answer_json(struct http_request *request, unsigned status, struct lessor_slice json)
{
        struct request *r = request_of(request);

        if (r->answered)
                return;
        r->status = status;
        r->content_type = "application/json";
        r->answer_text = json;
        r->answered = true;
}

static bool is_header_text(const char *text, bool name)
{
        if (text[0] == '\0')
                return !name;
        for (const char *p = text; *p != '\0'; p++) {
                unsigned char c = (unsigned char)*p;

                if (c < 0x20 || c == 0x7f || (name && (c == ' ' || c == ':')))
                        return false;
        }
        return true;
}

int http_answer_header(struct http_request *request, const char *name, const char *value)
{
        struct request *r = request_of(request);
        struct lessor_slice name_copy, value_copy;
        struct answer_header *header;

        if (!is_header_text(name, true) || !is_header_text(value, false))
                return LESSOR_E_INVALID;
        header = lessor_arena_alloc(request->arena, sizeof(*header));
        if (header == NULL || lessor_arena_copy(request->arena, lessor_slice_of(name), &name_copy) < 0 ||
            lessor_arena_copy(request->arena, lessor_slice_of(value), &value_copy) < 0)
                return LESSOR_E_NOMEM;
        *header = (struct answer_header){r->answer_headers, name_copy.p, value_copy.p};
        r->answer_headers = header;
        return 0;
}

void http_on_undelivered(struct http_request *request, http_handler *undelivered, void *context)
{
        struct request *r = request_of(request);

        r->undelivered = undelivered;
        r->undelivered_context = context;
}

bool http_peer_gone(struct http_request *request)
{
        struct request *r = request_of(request);
        struct connection *c = r->connection;
        struct pollfd fd = {.fd = c->fd};

        if (r->gone || atomic_load(&c->left))
                return true;
        /* Once we have shut the reading side ourselves, its end says nothing about the peer. */
        fd.events = atomic_load(&c->read_closed) ? 0 : POLLRDHUP;
        r->gone = poll(&fd, 1, 0) > 0;
        return r->gone;
}

/* The text stays ours: request_completed() comes before it is given back. */
static struct MHD_Response *response_new(struct request *r)
{
        struct MHD_Response *response;
        bool good;

        if (r->answer_response != NULL) {
                response = r->answer_response(r);
        } else {
                r->answer_bytes = r->answer_text.n;
                response = MHD_create_response_from_buffer(r->answer_text.n, (void *)r->answer_text.p,
                                                           MHD_RESPMEM_PERSISTENT);
        }
        if (response == NULL)
                return NULL;
        good = r->content_type == NULL ||
               MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, r->content_type) == MHD_YES;
        for (struct answer_header *h = r->answer_headers; h != NULL && good; h = h->next)
                good = MHD_add_response_header(response, h->name, h->value) == MHD_YES;
        if (good && atomic_load_explicit(&r->server->draining, memory_order_relaxed))
                good = MHD_add_response_header(response, MHD_HTTP_HEADER_CONNECTION, "close") == MHD_YES;
        if (!good) {
                MHD_destroy_response(response);
                return NULL;
        }
        return response;
}

/* When the answer must have gone. */
static void answer_due(struct request *r)
{
        const struct http_options *options = &r->server->options;

        if (r->deadline_ms == 0) {
                connection_due(r->connection, clock_monotonic_ms() + options->body_ms +
                                                      (int64_t)(r->answer_bytes * 1000 / options->body_rate));
                return;
        }
        connection_due(r->connection, r->deadline_ms);
        keeper_due(r->server->keeper, r->deadline_ms);
}

enum MHD_Result answer_queue(struct request *r)
{
        struct connection *c = r->connection;
        struct MHD_Response *response;
        enum MHD_Result queued;

        if (r->broken) {
                r->phase = PHASE_ANSWERED;
                answer_raw(r);
                keeper_linger(r->server->keeper, c);
                return MHD_NO;
        }

        /* A system call, and worth it: a client that died with its request still in our queue left before the
         * keeper could say so, and what it claimed would wait out its window with nobody. */
        if (r->gone || (r->undelivered != NULL && http_peer_gone(&r->public)))
                return MHD_NO;
        response = response_new(r);
        if (response == NULL)
                return MHD_NO;
        atomic_store_explicit(&c->sending, true, memory_order_relaxed);
        answer_due(r);
        r->phase = PHASE_ANSWERED;
        queued = MHD_queue_response(c->mhd, r->status, response);
        MHD_destroy_response(response);
        return queued;
}

static void write_head(const struct request *r, struct buf *out)
{
        char date[40] = "";
        struct tm tm;
        time_t now = time(NULL);

        if (gmtime_r(&now, &tm) != NULL)
                strftime(date, sizeof(date), "%a, %d %b %Y %H:%M:%S GMT", &tm);
        buf_printf(out, "HTTP/1.1 %u %s\r\nDate: %s\r\nConnection: close\r\n", r->status,
                   MHD_get_reason_phrase_for(r->status), date);
        if (r->content_type != NULL)
                buf_printf(out, "Content-Type: %s\r\n", r->content_type);
        for (const struct answer_header *h = r->answer_headers; h != NULL; h = h->next)
                buf_printf(out, "%s: %s\r\n", h->name, h->value);
        buf_printf(out, "Content-Length: %zu\r\n\r\n", r->answer_text.n);
        buf_slice(out, r->answer_text);
}

/* What is sent here is short, and the peer's window has been empty all the time. */
void answer_raw(struct request *r)
{
        struct connection *c = r->connection;
        const union MHD_ConnectionInfo *tls =
                MHD_get_connection_info(c->mhd, MHD_CONNECTION_INFO_GNUTLS_SESSION);
        struct buf text;
        ssize_t sent = -1;

        if (!r->answered || r->gone || r->answer_response != NULL)
                return;
        buf_init(&text);
        write_head(r, &text);
        if (buf_failed(&text) == 0) {
                if (tls != NULL && tls->tls_session != NULL)
                        sent = gnutls_record_send(tls->tls_session, text.p, text.n);
                else
                        sent = send(c->fd, text.p, text.n, MSG_DONTWAIT | MSG_NOSIGNAL);
        }
        r->raw = sent >= 0 && (size_t)sent == text.n;
        r->answer_bytes = r->answer_text.n;
        buf_done(&text);
}
