/* SPDX-License-Identifier: MIT */
#ifndef HTTP_HTTP_H
#define HTTP_HTTP_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "lessor/arena.h"

/*
 * What a plane sees of HTTP: a whole request, and how to answer it. The server behind it (server.h) receives,
 * limits, times out, logs and writes; a plane only translates.
 *
 * A handler runs on a worker thread and must not block: what has to wait is suspended. Exactly one of
 * http_answer() and http_suspend() happens in each run of a handler or of a continuation.
 */
struct http_request {
        struct lessor_arena *arena; /* goes with the request */
        struct lessor_slice method; /* as sent: "GET", "POST", … */
        struct lessor_slice path;   /* as sent, without the query, not decoded; dot segments make a 404 before this */
        struct lessor_slice query;  /* as sent, without the `?`; absent when there is none */
        struct lessor_slice body;   /* whole; n is 0 when there is none */
        const struct http_route *route;
        int64_t received_ms;        /* monotonic ms at which the headers were there, for the access log */
};

typedef void http_handler(struct http_request *request, void *context);

/*
 * One endpoint. The first route of a table that matches serves; a table ends with a row whose handler is NULL.
 * The table is what dispatch, limits, access log and OpenAPI are made from.
 */
struct http_route {
        const char *method;    /* NULL: any, as the relay plane wants it */
        const char *path;      /* exact; or a prefix when it ends with `*` */
        http_handler *handler;
        size_t body_limit;     /* bytes; more is refused with 413 */
        const char *name;      /* in logs and metrics: "claim" */
        const char *summary;   /* one line for people */
};

/*
 * A header's value, or an absent slice. Repeated headers are joined by ", " (relay-protocol 4). The name is in
 * any case. Valid as long as the request.
 */
struct lessor_slice http_header(struct http_request *request, const char *name);

/*
 * The first value of a query parameter, percent-decoded with `+` as space, in the arena; absent when the query
 * has no such parameter. Returns 0 or LESSOR_E_NOMEM.
 */
int http_query(struct http_request *request, const char *name, struct lessor_slice *ret_value);

/* The peer's address as text, or the empty slice for a Unix socket. */
struct lessor_slice http_peer(struct http_request *request);

/* "http" or "https", and the Host header: for making URLs that lead back here. */
const char *http_scheme(struct http_request *request);

/*
 * Answers. Takes the buffer's memory on every return; `body` is empty afterwards.
 *
 * status        100..599
 * content_type  static text, or in the request's arena; NULL for an answer without a body
 */
void http_answer(struct http_request *request, unsigned status, const char *content_type, struct buf *body);

/* As http_answer, with JSON text that lives in the arena or is static. */
void http_answer_json(struct http_request *request, unsigned status, struct lessor_slice json);

/* Adds a header to the answer to come. Both texts are copied. Returns 0 or LESSOR_E_NOMEM. */
int http_answer_header(struct http_request *request, const char *name, const char *value);

/*
 * Has `undelivered(request, context)` called, on some thread, should the answer not reach the peer: gone before it
 * was written, or cut off while it was. Whatever it needs must be in the arena, which still lives then.
 */
void http_on_undelivered(struct http_request *request, http_handler *undelivered, void *context);

/* Whether the peer has closed its side by now: nobody is waiting for an answer any more. Cheap; no wait. */
bool http_peer_gone(struct http_request *request);

/*
 * Parks the request: no thread waits. `resumed` runs on a worker thread after http_resume(), or once `wait_ms`
 * has passed (negative: no limit), or when the server drains, whichever comes first; it is never run twice.
 * If http_resume() came already between http_suspend_prepare() and here, it runs soon.
 *
 * The order is: http_suspend_prepare(), hand the request to whoever shall wake it, http_suspend().
 */
void http_suspend_prepare(struct http_request *request);
void http_suspend(struct http_request *request, int64_t wait_ms, http_handler *resumed, void *context);

/* Wakes a suspended request. From any thread; calls after the first one for a suspension do nothing, but the
 * request must still be alive: whoever holds the pointer must have been told to forget it before it is answered. */
void http_resume(struct http_request *request);

/* Whether the server has begun to drain: long polls end at once. */
bool http_draining(struct http_request *request);

/*
 * Writes one line of the access log once the answer is out; a plane may add who asked. The text is copied.
 */
void http_log_caller(struct http_request *request, struct lessor_slice caller);

#endif
