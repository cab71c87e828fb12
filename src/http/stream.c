/* SPDX-License-Identifier: MIT */
#include "http/stream.h"

#include "base/clock.h"
#include "http/internal.h"
#include "lessor/error.h"

/* What MHD gets at a time, where it does not say by itself: for clients that do not know chunks. */
#define BLOCK 4096u

struct stream {
        struct http_source source;
        struct buf out; /* what the source has produced; empty memory while it waits */
        size_t at;      /* of it, how much is MHD's already */
        bool finished;
};

static void stream_done(void *object)
{
        buf_done(&((struct stream *)object)->out);
}

/* Returns a negative error, or how many bytes MHD got. */
static ssize_t give(struct request *r, struct stream *s, char *to, size_t max)
{
        size_t n = s->out.n - s->at < max ? s->out.n - s->at : max;

        memcpy(to, s->out.p + s->at, n);
        s->at += n;
        r->answer_bytes += n;
        atomic_store_explicit(&r->connection->sending, true, memory_order_relaxed);
        connection_due(r->connection, clock_monotonic_ms() + r->server->options.body_ms);
        return (ssize_t)n;
}

/* Has the source produce; a wake from here on is not lost. Returns its enum http_more, or an error. */
static int produce(struct request *r, struct stream *s)
{
        bool last = http_draining(&r->public);
        int more;

        buf_clear(&s->out);
        s->at = 0;
        connection_due(r->connection, 0); /* that it has nothing is not the peer's fault */
        more = s->source.produce(&r->public, s->source.context, &s->out);
        r->wait_over = false;
        if (more >= 0 && buf_failed(&s->out) < 0)
                more = LESSOR_E_NOMEM;
        if (more == HTTP_MORE && s->out.n == 0 && !last)
                more = LESSOR_E_INVALID;
        s->finished = more == HTTP_FINISH || last;
        return more;
}

static ssize_t end(struct request *r, ssize_t how)
{
        connection_show_end(r->connection);
        return how;
}

static ssize_t stream_read(void *context, uint64_t at, char *to, size_t max)
{
        struct request *r = context;
        struct stream *s = r->answer_object;
        int more;

        (void)at;
        if (r->phase == PHASE_STREAM) {
                enum suspension why = stream_unpark(r);

                if (why == SUSPENSION_GONE || why == SUSPENSION_ABORT)
                        return end(r, MHD_CONTENT_READER_END_WITH_ERROR);
                r->wait_over = why == SUSPENSION_TIME;
        }
        for (;;) {
                if (s->at < s->out.n)
                        return give(r, s, to, max);
                if (s->finished)
                        return end(r, MHD_CONTENT_READER_END_OF_STREAM);
                stream_prepare(r);
                more = produce(r, s);
                if (more < 0 || s->out.n > 0 || s->finished) {
                        stream_forget(r);
                } else {
                        buf_done(&s->out);
                        if (stream_park(r, s->source.wait_ms))
                                return 0;
                }
                if (more < 0 || r->gone)
                        return end(r, MHD_CONTENT_READER_END_WITH_ERROR);
        }
}

static struct MHD_Response *stream_response(struct request *r)
{
        return MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, BLOCK, stream_read, r, NULL);
}

void http_answer_stream(struct http_request *request, unsigned status, const char *content_type,
                        const struct http_source *source)
{
        struct request *r = request_of(request);
        struct stream *s;

        if (r->answered)
                return;
        s = lessor_arena_array(request->arena, 1, sizeof(*s));
        if (s == NULL || lessor_arena_own(request->arena, s, stream_done) < 0) {
                answer_refusal(r, 503, "out of memory");
                return;
        }
        s->source = *source;
        r->status = status;
        r->content_type = content_type;
        r->answer_response = stream_response;
        r->answer_object = s;
        r->answer_bytes = 0;
        r->answered = true;
}

static void event_line(struct buf *out, const char *name, struct lessor_slice value)
{
        buf_text(out, name);
        buf_text(out, ": ");
        buf_slice(out, value);
        buf_char(out, '\n');
}

void http_event(struct buf *out, struct lessor_slice id, const char *event, struct lessor_slice data)
{
        if (id.p != NULL)
                event_line(out, "id", id);
        if (event != NULL)
                event_line(out, "event", lessor_slice_of(event));
        for (;;) {
                const char *end = data.n == 0 ? NULL : memchr(data.p, '\n', data.n);
                struct lessor_slice line = {data.p, end == NULL ? data.n : (size_t)(end - data.p)};

                event_line(out, "data", line);
                if (end == NULL)
                        break;
                data.p += line.n + 1;
                data.n -= line.n + 1;
        }
        buf_char(out, '\n');
}

void http_event_comment(struct buf *out)
{
        buf_text(out, ":\n\n");
}
