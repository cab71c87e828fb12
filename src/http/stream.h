/* SPDX-License-Identifier: MIT */
#ifndef HTTP_STREAM_H
#define HTTP_STREAM_H

#include "http/http.h"

/*
 * Answers whose length nobody knows yet: events, a log that grows. The source is asked for more whenever the
 * peer has taken what there was. While it has none it costs a socket and a small struct, no thread and no
 * buffer; http_resume() wakes it, from any thread while the request is alive. So an object in the request's
 * arena, which lessor_arena_own() tells of the end, is what others know the stream by; parking_follow() of
 * http/parking.h is one.
 */
enum http_more {
        HTTP_MORE,   /* ask again once this has gone; it is an error to append nothing */
        HTTP_WAIT,   /* there is nothing more now */
        HTTP_FINISH, /* this was the last */
};

struct http_source {
        /*
         * Appends what comes next to `out`, which is empty: some 64 kB at most. A wake that comes while it
         * runs makes it run again, so it looks, and need not worry. Returns one of enum http_more, whatever
         * was appended; or a negative error, which cuts the answer off so that the client can tell.
         *
         * Runs on a worker and must not block beyond reading a file. http_wait_over() tells that it runs
         * since `wait_ms` has passed: time for a comment that keeps the connection alive. Once
         * http_draining(), what it appends is the last.
         */
        int (*produce)(struct http_request *request, void *context, struct buf *out);
        void *context;   /* in the arena, or outliving the request */
        int64_t wait_ms; /* at HTTP_WAIT: run again after this at the latest; negative: only when woken */
};

/* Answers with what the source produces, which is copied. The status line goes out at once, with the first
 * bytes if there are some. */
void http_answer_stream(struct http_request *request, unsigned status, const char *content_type,
                        const struct http_source *source);

/*
 * Appends one event of a `text/event-stream`. `id` and `event` may be absent or NULL and must be single
 * lines; `data` may have several. http_event_comment() appends a line that readers pass over.
 */
void http_event(struct buf *out, struct lessor_slice id, const char *event, struct lessor_slice data);
void http_event_comment(struct buf *out);

#endif
