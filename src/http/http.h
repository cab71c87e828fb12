/* SPDX-License-Identifier: MIT */
#ifndef HTTP_HTTP_H
#define HTTP_HTTP_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "lessor/arena.h"

struct http_route;

/*
 * What a plane sees of HTTP: a whole request, and how to answer it. The server behind it (server.h) receives,
 * limits, times out, logs and writes; a plane only translates.
 *
 * A handler runs on a worker thread and must not block: what has to wait is suspended. Exactly one of
 * http_answer() and http_suspend() (or parking_wait()) happens in each run of a handler or of a continuation;
 * a run without either is answered 500. Nothing here may be called once the answer was handed over and the
 * run is over, unless its comment says so.
 */
struct http_request {
        struct lessor_arena *arena; /* goes with the request */
        struct lessor_slice method; /* as sent: "GET", "POST", … */
        struct lessor_slice path;   /* as sent, without the query, not decoded; begins with `/` */
        struct lessor_slice query;  /* as sent, without the `?`; absent when there is none */
        struct lessor_slice body;   /* whole; n is 0 when there is none */
        const struct http_route *route;
        void *admitted;      /* what the route's `admit` left for the handler: the caller, mostly */
        int64_t received_us; /* clock_monotonic_us() at which the request line was there */
};

typedef void http_handler(struct http_request *request, void *context);

/*
 * Words a refusal of the server's own, by answering. `why` is static text.
 *
 * 400  the handler neither answered nor received the body that it is for (never for a broken body: MHD words
 *      that itself)
 * 404  of http_gate.any_method
 * 408  the body took too long
 * 413  the body is larger than the route's limit
 * 503  memory, or room for uploads and blocking work, is short; `Retry-After` is there already
 */
typedef void http_refuse(struct http_request *request, unsigned status, const char *why, void *context);

/*
 * What happens to a request of a route before its body. A route without a gate takes the body and then runs
 * its handler.
 *
 * With a gate the order is: headers, `admit`, method, declared length, body (or `100 Continue` and the body),
 * handler. What is answered before the body was read goes out at once, and the connection ends: it is closed
 * for writing and read on for a moment, so that a client which still sends gets to see the answer. A body
 * that exceeds the limit or its time is given up at once, in the same way.
 */
struct http_gate {
        /*
         * Runs before a byte of the body is taken. It answers, which refuses the request; or it does neither,
         * which admits it, and may leave something in request->admitted. It may suspend or offload first.
         * What it noted with http_answer_after() holds back whatever is answered in the end, unless that is
         * noted anew. NULL: everybody.
         */
        http_handler *admit;
        http_refuse *refuse; /* NULL: `{"error":…,"message":…}` */
        int64_t body_ms; /* time for the whole body, from the headers on; 0: the server's, which grows with
                            what comes */
        bool any_method; /* requests of other methods on this path that no other row takes come here too, are
                            admitted or refused, and then refused with 404 */
        bool streamed;   /* the handler runs before the body, and takes it with http_receive() */
};

/*
 * One endpoint. The first route of a table that matches serves; a table ends with a row whose handler is
 * NULL. The table is what dispatch, limits, access log and OpenAPI are made from.
 *
 * Paths are compared byte by byte as they were sent: nothing is decoded, merged or cut. A path with a dot
 * segment is 404 before any table is asked. A last row { NULL, "*", ... } takes what no other row does, which
 * is how a plane words its own 404; without one the answer is 404 `{"error":"not-found"}`.
 */
struct http_route {
        const char *method; /* NULL: any, as the relay plane wants it */
        const char *path;   /* exact; or a prefix when it ends with `*` */
        http_handler *handler;
        size_t body_limit;            /* bytes; more is refused with 413 before the handler hears of it */
        const char *name;             /* in logs and metrics: "claim" */
        const char *summary;          /* one line for people */
        void *context;                /* given to handler and gate; NULL: the listener's */
        const struct http_gate *gate; /* NULL: none */
        bool is_secret;               /* who knows the path may use it: logs have the route's instead */
};

/*
 * A header's value, or an absent slice. Repeated headers are joined by ", " (relay-protocol 4). The name is
 * in any case. Valid as long as the request.
 */
struct lessor_slice http_header(struct http_request *request, const char *name);

/* The length that the body is said to have: 0 without one, -1 when it is chunked. */
int64_t http_body_length(struct http_request *request);

/*
 * The first value of a query parameter, percent-decoded with `+` as space, in the arena; absent when the
 * query has no such parameter. Returns 0 or LESSOR_E_NOMEM.
 */
int http_query(struct http_request *request, const char *name, struct lessor_slice *ret_value);

/* The peer's address as text, or the empty slice for a Unix socket. */
struct lessor_slice http_peer(struct http_request *request);

/* "http" or "https": with http_host() for making URLs that lead back here. */
const char *http_scheme(struct http_request *request);

/* The authority that the client named: of an absolute target, else the Host header. Absent in HTTP/1.0
 * without. */
struct lessor_slice http_host(struct http_request *request);

/* The user at the other end of a Unix socket, as the kernel tells it. False on any other connection. */
bool http_peer_uid(struct http_request *request, uint32_t *ret_uid);

/*
 * An empty buffer for an answer: the one of an earlier request, so that an answer of usual size takes no
 * memory. The caller's, until http_answer() takes it.
 */
struct buf http_answer_buffer(struct http_request *request);

/*
 * Answers. Takes the buffer's memory on every return; `body` is empty afterwards. A buffer in which an append
 * failed is answered 500, so a handler need not look. The first answer of a request counts.
 *
 * status        200..599
 * content_type  static text, or in the request's arena; NULL for an answer without a body
 * body          NULL for an answer without a body
 */
void http_answer(struct http_request *request, unsigned status, const char *content_type, struct buf *body);

/* As http_answer, with JSON text that lives in the arena or is static. */
void http_answer_json(struct http_request *request, unsigned status, struct lessor_slice json);

/* Adds a header to the answer to come. Both texts are copied. Returns 0, LESSOR_E_NOMEM, or LESSOR_E_INVALID
 * when the name or the value cannot stand in a header. */
int http_answer_header(struct http_request *request, const char *name, const char *value);

/*
 * Holds this run's answer back until somebody says that it may be told: until what it rests on is on disk.
 * Called in the same run as http_answer(), before or after it.
 *
 * when     called once, on the worker, after the handler has returned. Returns 1 when the answer may go at
 * once, and then never calls `told`; 0 when it will call `told(told_context, result)` exactly once, from any
 * thread, even before it returns; or a negative error, which counts as a result.
 * `lessor_routing_when_durable` with its store and ticket in `context` is one. failed   runs on a worker
 * instead of the answer, when the result is not 0; it answers anew, and may look at http_held_result(). NULL:
 * the answer is 503 without a body. context  for both; in the arena, or outliving the request
 *
 * The request stays alive until `told` was called, but for a server that drains: at the drain's deadline it
 * gives up, and a later `told` does nothing. Therefore a store is closed before the server is freed.
 */
typedef void http_told(void *told_context, int result);
typedef int http_when(void *context, http_told *told, void *told_context);
void http_answer_after(struct http_request *request, http_when *when, http_handler *failed, void *context);

/* What `told` said last: 0 or a negative error. */
int http_held_result(struct http_request *request);

/*
 * Has `undelivered(request, context)` called, on a worker, should the answer not reach the peer: gone before
 * it was written, or cut off while it was. What went into the kernel's buffers in full counts as delivered.
 * Whatever it needs must be in the arena, which still lives then; it neither answers nor suspends. A peer
 * that leaves in the same moment may go unnoticed.
 */
void http_on_undelivered(struct http_request *request, http_handler *undelivered, void *context);

/* Whether the peer has closed its side by now: nobody is waiting for an answer any more. No wait; a system
 * call. */
bool http_peer_gone(struct http_request *request);

/*
 * Parks the request: no thread waits. `resumed` runs on a worker thread after http_resume(), or once
 * `wait_ms` has passed (negative: no limit), or when the peer closes, or when the server drains, whichever
 * comes first. It runs exactly once for each suspension. If http_resume() came already between
 * http_suspend_prepare() and here, it runs as soon as the present run is over.
 *
 * The order is: http_suspend_prepare(), hand the request to whoever shall wake it, http_suspend(). Most want
 * parking_wait() of http/parking.h, which does all three.
 *
 * After the peer has gone, a continuation may still answer or suspend as ever: neither has any effect, but
 * that the request ends.
 */
void http_suspend_prepare(struct http_request *request);
void http_suspend(struct http_request *request, int64_t wait_ms, http_handler *resumed, void *context);

/*
 * Wakes a suspended request. Returns whether it was this call that did it: not when it is awake already, for
 * whatever reason. From any thread, but the request must still be alive: whoever holds the pointer must have
 * been told to forget it before it is answered.
 */
bool http_resume(struct http_request *request);

/*
 * Cuts the request off, whatever it is doing: receiving, running, waiting or sending. Its connection ends, an
 * upload fails with LESSOR_E_ABORTED, and an answer counts as undelivered. From any thread, but the request
 * must still be alive, as for http_resume(): an object of the arena's (lessor_arena_own) is told of its end.
 */
void http_abort(struct http_request *request);

/*
 * Cuts the request off unless its body has come, or its answer has gone, within this time from now; instead
 * of the times that the server has for all. What is cut off in receiving is answered 408. On a worker. Before
 * http_receive() it is for the body, at answering for the answer.
 */
void http_deadline(struct http_request *request, int64_t within_ms);

/* In a continuation: the suspension ended by its time, the peer's leaving or the drain, so do not wait again.
 */
bool http_wait_over(struct http_request *request);

/* Whether the server has begun to drain: long polls end at once. */
bool http_draining(struct http_request *request);

/*
 * Who asked, for the line of the access log that is written once the answer is out. Public ids only. The text
 * is copied.
 */
void http_log_caller(struct http_request *request, struct lessor_slice caller);

#endif
