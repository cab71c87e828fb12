/* SPDX-License-Identifier: MIT */
#ifndef HTTP_UPLOAD_H
#define HTTP_UPLOAD_H

#include "http/http.h"

/*
 * Bodies that are too large to keep: they go to a sink as they come, on a thread that may wait for the disk.
 * While it waits the connection is not read, so an upload costs at most LIMIT_HTTP_UPLOAD_MEMORY, whatever
 * its length.
 */
struct http_sink {
        /*
         * Takes the next bytes. Returns 0, or a negative error, after which nothing more is written. May
         * block; one call at a time, and in order, but not always on the same thread. NULL: the body is read
         * over and forgotten.
         */
        int (*write)(void *context, struct lessor_slice bytes);
        /* After the last byte of a body that is whole: verifies and syncs. As `write`. NULL: nothing to do.
         */
        int (*finish)(void *context);
        /*
         * Exactly one of these two runs, once, on a worker, when neither `write` nor `finish` runs or will
         * run again. Each goes on like a handler: it answers, suspends or offloads. `failed` may look at
         * http_receive_error(), and runs too when nobody is there to be answered; what it answers in the
         * middle of a body ends the connection.
         */
        http_handler *done;
        http_handler *failed;
        void *context;  /* for all four; in the request's arena, or outliving the request */
        uint64_t limit; /* bytes; more make it fail with LESSOR_E_TOO_LARGE, before any is taken if that is
                           known */
};

/*
 * Receives the body. Only in the handler of a route whose gate says `streamed`, or in a continuation of it
 * that runs before the body, instead of answering or suspending. `sink` is copied. Without http_deadline()
 * the body has the times of the gate or the server.
 */
void http_receive(struct http_request *request, const struct http_sink *sink);

/*
 * Why it failed: what `write` or `finish` returned; LESSOR_E_CLOSED (the peer has gone, or broke the body);
 * LESSOR_E_TIMEOUT; LESSOR_E_TOO_LARGE; LESSOR_E_ABORTED (http_abort(), or the server stops); LESSOR_E_FULL
 * (too many uploads at once: 503); LESSOR_E_NOMEM. 0 if it has not.
 */
int http_receive_error(struct http_request *request);

/* How many bytes of the body came so far. */
uint64_t http_received(struct http_request *request);

#endif
