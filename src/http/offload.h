/* SPDX-License-Identifier: MIT */
#ifndef HTTP_OFFLOAD_H
#define HTTP_OFFLOAD_H

#include "http/http.h"

/*
 * Work that has to wait for the disk. `work(context)` runs on a thread of a small pool, which the whole
 * server shares, and then `done(request, context)` on a worker, like a continuation; both exactly once, even
 * if the peer has gone or the server drains. Until then the request stands still: its arena is for `work`
 * alone.
 *
 * Counts as the run's http_suspend(). Returns false when too much is waiting already (LIMIT_HTTP_OFFLOADS):
 * then neither will run, and the request has been answered 503 with `Retry-After`, in the words of its gate.
 */
typedef void http_work(void *context);
bool http_offload(struct http_request *request, http_work *work, http_handler *done, void *context);

#endif
