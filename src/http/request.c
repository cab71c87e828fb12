/* SPDX-License-Identifier: MIT */
#include <stdlib.h>

#include "base/clock.h"
#include "base/limits.h"
#include "http/internal.h"
#include "lessor/error.h"

/* Bodies up to this are not counted against the memory for bodies: the number of connections bounds them. */
#define SMALL_BODY 16384u
/* A body's buffer up to this is kept for the next request. */
#define KEPT_BODY     65536u
#define KEPT_REQUESTS 256u
/* An answer's buffer likewise. */
#define KEPT_ANSWER 4096u

struct request *request_free(struct request *r)
{
        if (r == NULL)
                return NULL;
        r->public.arena = lessor_arena_free(r->public.arena);
        buf_done(&r->body);
        buf_done(&r->answer);
        buf_done(&r->spare);
        free(r);
        return NULL;
}

static struct request *request_new(struct worker *worker)
{
        struct request *r = worker->free;

        if (r != NULL) {
                worker->free = r->next_free;
                worker->n_free--;
                return r;
        }
        r = calloc(1, sizeof(*r));
        if (r == NULL)
                return NULL;
        r->server = worker->server;
        r->public.arena = lessor_arena_new();
        return r->public.arena == NULL ? request_free(r) : r;
}

/* The buffer that is worth keeping for the next answer, or an empty one; the request has neither afterwards.
 */
static struct buf keep_answer(struct request *r)
{
        struct buf kept = r->spare;

        if (r->answer.p != NULL && r->answer.cap <= KEPT_ANSWER) {
                buf_done(&kept);
                kept = r->answer;
                buf_clear(&kept);
        } else {
                buf_done(&r->answer);
        }
        buf_init(&r->answer);
        buf_init(&r->spare);
        return kept;
}

void request_release(struct worker *worker, struct request *r)
{
        struct lessor_arena *arena = r->public.arena;
        struct buf body = r->body, spare;

        if (r->charged > 0)
                atomic_fetch_sub_explicit(&r->server->body_memory, r->charged, memory_order_relaxed);
        if (worker->n_free >= KEPT_REQUESTS) {
                request_free(r);
                return;
        }
        lessor_arena_clear(arena);
        if (body.cap > KEPT_BODY)
                buf_done(&body);
        else
                buf_clear(&body);
        spare = keep_answer(r);
        *r = (struct request){.server = worker->server,
                              .public.arena = arena,
                              .body = body,
                              .spare = spare,
                              .next_free = worker->free};
        worker->free = r;
        worker->n_free++;
}

void *request_begin(void *context, const char *target, struct MHD_Connection *mhd)
{
        struct worker *worker = context;
        struct connection *c =
                MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_SOCKET_CONTEXT)->socket_context;
        struct request *r = request_new(worker);
        struct lessor_slice text = lessor_slice_of(target == NULL ? "" : target);

        if (r == NULL)
                return NULL;
        /* MHD cuts the target into arguments in place right after this, so we keep our own. */
        if (lessor_arena_copy(r->public.arena, text, &r->target) < 0) {
                request_release(worker, r);
                return NULL;
        }
        r->target_at = target;
        r->connection = c;
        r->public.received_us = clock_monotonic_us();
        r->phase = PHASE_HEADERS;
        c->request = r;
        atomic_store_explicit(&c->busy, true, memory_order_relaxed);
        connection_due(c, r->public.received_us / 1000 + worker->server->options.header_ms);
        move_gauge(&worker->n_requests, 1);
        return r;
}

/* The time that a body has, grown by what has come of it: a steady sender is never too slow, a trickling one
 * is. */
static void body_due(struct request *r)
{
        const struct http_options *options = &r->server->options;

        if (r->due_fixed)
                return;
        connection_due(r->connection, r->public.received_us / 1000 + options->body_ms +
                                              (int64_t)(r->received * 1000 / options->body_rate));
}

/* Answers before the body is read. MHD closes the connection after it. */
static enum MHD_Result refuse_now(struct request *r, unsigned status, const char *why)
{
        r->early = true;
        answer_error(r, status, why);
        return answer_queue(r);
}

/*
 * Refuses. A body that is short, and that the client sends without having asked, is read first: an answer
 * followed by a reset is lost on many clients.
 */
static enum MHD_Result refuse(struct request *r, unsigned status, const char *why)
{
        if (request_has_body(r) && (r->expects_continue || r->content_length > LIMIT_HTTP_DISCARD))
                return refuse_now(r, status, why);
        r->phase = PHASE_DISCARD;
        r->refusal = status;
        r->refusal_why = why;
        return MHD_YES;
}

/* MHD has the headers; nothing of the body was read yet. */
static enum MHD_Result request_headers(struct request *r, struct MHD_Connection *mhd, const char *method,
                                       const char *version)
{
        unsigned of_target, of_headers;
        const char *why;

        r->public.method = lessor_slice_of(method);
        of_target = target_read(r);
        of_headers = headers_read(r, mhd, version, &why);

        /* With a doubt about where the body ends, nothing that follows on this connection can be trusted. */
        if (of_headers != 0)
                return refuse_now(r, of_headers, why);
        if (of_target == 400)
                return refuse_now(r, 400, "the request target is not valid");
        if (r->connection->listener->allowed != NULL &&
            !networks_have(r->connection->listener->allowed, r->connection->listener->n_allowed,
                           r->connection)) {
                r->foreign = true;
                return refuse(r, 403, "requests come here by way of the public address only");
        }
        if (of_target == 503)
                return refuse(r, 503, "out of memory");
        if (of_target == 0)
                r->slot = route_find(r->connection->listener, r->public.method, r->public.path);
        if (r->slot == NULL)
                return refuse(r, 404, NULL);
        r->public.route = r->slot->route;
        if (r->public.route->gate != NULL && request_has_body(r))
                return admission_begin(r);
        if (r->content_length > r->public.route->body_limit)
                return refuse(r, 413, "the body is larger than this endpoint takes");
        r->phase = PHASE_BODY;
        if (request_has_body(r))
                body_due(r);
        return MHD_YES;
}

/* Counts the body's memory, as it grows. False when there is none left for bodies. */
static bool charge(struct request *r, size_t body_len)
{
        struct http_server *server = r->server;
        size_t step;

        if (body_len <= SMALL_BODY || body_len <= r->charged)
                return true;
        step = body_len - r->charged;
        step = (step + 65535) & ~(size_t)65535;
        if (atomic_fetch_add_explicit(&server->body_memory, step, memory_order_relaxed) >
            server->options.max_body_memory - step) {
                atomic_fetch_sub_explicit(&server->body_memory, step, memory_order_relaxed);
                return false;
        }
        r->charged += step;
        return true;
}

/*
 * Makes room for n more bytes. Not for the whole length that was declared: a head alone must cost us nothing,
 * not even address space, which is memory wherever pages are huge. Returns 0, LESSOR_E_BUSY or
 * LESSOR_E_NOMEM.
 */
static int body_reserve(struct request *r, size_t n)
{
        size_t most = r->has_length ? (size_t)r->content_length : r->public.route->body_limit;
        size_t need = r->body.n + n, want = need < SMALL_BODY ? SMALL_BODY : need * 2;

        if (need < r->body.cap)
                return 0;
        if (want > most)
                want = most > need ? most : need;
        if (!charge(r, want))
                return LESSOR_E_BUSY;
        return buf_reserve_exactly(&r->body, want - r->body.n);
}

/* From here on the body is only read over. */
static void forget_body(struct request *r, unsigned status, const char *why)
{
        r->phase = PHASE_DISCARD;
        r->refusal = status;
        r->refusal_why = why;
        buf_done(&r->body);
}

/* Ends the request in the middle of its body; request_completed() then writes the refusal past MHD. */
static enum MHD_Result give_up(struct request *r, int error)
{
        if (error == LESSOR_E_TOO_LARGE)
                answer_refusal(r, 413, "the body is larger than this endpoint takes");
        else
                answer_refusal(r, 503,
                               error == LESSOR_E_BUSY ? "too many large bodies at once" : "out of memory");
        r->broken = true;
        return answer_queue(r);
}

static enum MHD_Result request_body(struct request *r, const char *bytes, size_t n)
{
        size_t limit = r->slot == NULL ? 0 : r->public.route->body_limit;

        r->received += n;
        body_due(r);
        if (r->phase == PHASE_BODY) {
                int e = n > limit - r->body.n ? LESSOR_E_TOO_LARGE : body_reserve(r, n);

                if (e == 0)
                        e = buf_append(&r->body, bytes, n);
                if (e == 0)
                        return MHD_YES;
                if (r->public.route->gate != NULL)
                        return give_up(r, e);
                if (e == LESSOR_E_TOO_LARGE)
                        forget_body(r, 413, "the body is larger than this endpoint takes");
                else
                        forget_body(r, 503,
                                    e == LESSOR_E_BUSY ? "too many large bodies at once" : "out of memory");
        }
        /* MHD_NO ends the connection, and request_completed() then writes the refusal past MHD. */
        r->discarded += n;
        return r->discarded > LIMIT_HTTP_DISCARD ? MHD_NO : MHD_YES;
}

/* The request is whole. */
static enum MHD_Result request_whole(struct request *r)
{
        connection_due(r->connection, 0);
        if (r->phase == PHASE_DISCARD) {
                answer_error(r, r->refusal, r->refusal_why);
                return answer_queue(r);
        }
        if (r->public.route->gate != NULL && !r->admitted)
                return admission_begin(r);
        r->phase = PHASE_RUN;
        r->public.body = buf_view(&r->body);
        r->next = r->public.route->handler;
        r->next_context = route_context(r);
        return request_run(r);
}

static enum MHD_Result receive(struct request *r, const char *bytes, size_t *n)
{
        enum MHD_Result result = upload_take(r, bytes, n);

        if (r->phase == PHASE_UPLOAD)
                body_due(r);
        return result;
}

enum MHD_Result request_access(void *worker, struct MHD_Connection *mhd, const char *url, const char *method,
                               const char *version, const char *upload, size_t *upload_len, void **context)
{
        struct request *r = *context;
        size_t n = *upload_len;

        (void)worker;
        (void)url;
        if (r == NULL)
                return MHD_NO; /* there was no memory for it */
        switch (r->phase) {
        case PHASE_HEADERS:
                return request_headers(r, mhd, method, version);
        case PHASE_BODY:
        case PHASE_DISCARD:
                if (n == 0)
                        return request_whole(r);
                *upload_len = 0;
                return request_body(r, upload, n);
        case PHASE_UPLOAD:
                return n == 0 ? upload_whole(r) : receive(r, upload, upload_len);
        case PHASE_WAIT:
        case PHASE_HOLD:
        case PHASE_JOB:
                return request_woken(r);
        case PHASE_STREAM:
        case PHASE_RUN:
        case PHASE_ANSWERED:
                break;
        }
        return MHD_NO;
}

/* MHD ends the request before it was whole. What can still be said is written past it. */
static unsigned status_of_unreceived(struct request *r, enum MHD_RequestTerminationCode why)
{
        if (atomic_load(&r->connection->overdue)) {
                atomic_fetch_add_explicit(&r->server->timed_out, 1, memory_order_relaxed);
                answer_refusal(r, 408, "the request took too long to arrive");
                answer_raw(r);
                return r->status;
        }
        if (r->phase == PHASE_DISCARD && r->discarded > LIMIT_HTTP_DISCARD) {
                answer_error(r, r->refusal, r->refusal_why);
                answer_raw(r);
                return r->status;
        }
        return why == MHD_REQUEST_TERMINATED_WITH_ERROR ? 400 : 0;
}

/* What the log and the counters are told; for an answer that MHD made by itself all that we know is its kind.
 */
static unsigned final_status(struct request *r, enum MHD_RequestTerminationCode why)
{
        if (r->phase <= PHASE_DISCARD)
                return status_of_unreceived(r, why);
        return r->answered ? r->status : 0;
}

static void count(struct request *r, unsigned status, uint64_t bytes_out, int64_t duration_us)
{
        struct worker *worker = r->connection->worker;
        unsigned at = r->slot == NULL ? r->connection->listener->no_route_counter : r->slot->counter;
        struct counters *counters = &worker->counters[at];

        bump(&counters->answers[status / 100 < HTTP_N_CLASSES ? status / 100 : 0], 1);
        bump(&counters->bytes_in, r->received);
        bump(&counters->bytes_out, bytes_out);
        bump(&counters->duration_us, (uint64_t)duration_us);
        move_gauge(&worker->n_requests, -1);
}

/*
 * What waited for the peer, or for its bytes, hears that it has gone. Returns whether a job still works on
 * the upload.
 */
static bool tell_of_end(struct request *r)
{
        if (r->phase == PHASE_WAIT || r->phase == PHASE_HOLD)
                request_orphaned(r);
        if (r->upload != NULL && !r->upload_told) {
                if (upload_cut(r))
                        return true;
        } else if (r->receive_error == 0 || r->next == NULL || r->suspend_asked) {
                return false;
        }
        r->gone |= r->receive_error != LESSOR_E_TIMEOUT; /* who is late may hear of it */
        orphan_run(r);
        return false;
}

static void request_account(struct request *r, enum MHD_RequestTerminationCode why, int64_t duration_us)
{
        unsigned status = final_status(r, why);
        bool delivered = r->raw || (r->phase == PHASE_ANSWERED && why == MHD_REQUEST_TERMINATED_COMPLETED_OK);

        if (!delivered && r->undelivered != NULL) {
                atomic_fetch_add_explicit(&r->server->n_undelivered, 1, memory_order_relaxed);
                r->undelivered(&r->public, r->undelivered_context);
        }
        if (!delivered)
                r->answer_bytes = 0;
        count(r, status, r->answer_bytes, duration_us);
        access_log_write(r, status, delivered, duration_us);
}

void request_completed(void *worker, struct MHD_Connection *mhd, void **context,
                       enum MHD_RequestTerminationCode why)
{
        struct request *r = *context;
        struct connection *c;
        int64_t now_us = clock_monotonic_us();
        bool busy = false;

        (void)mhd;
        if (r == NULL)
                return;
        *context = NULL;
        c = r->connection;
        if (r->phase != PHASE_ANSWERED)
                busy = tell_of_end(r);
        request_account(r, why, now_us - r->public.received_us);
        if (r->early && request_has_body(r))
                keeper_linger(r->server->keeper, c);

        c->request = NULL;
        atomic_store_explicit(&c->sending, false, memory_order_relaxed);
        connection_due(c, now_us / 1000 + r->server->options.idle_ms);
        atomic_store_explicit(&c->idle_since_ms, now_us / 1000, memory_order_relaxed);
        atomic_store_explicit(&c->busy, false, memory_order_release);
        if (busy)
                orphan_detain(r);
        else if (r->offload == NULL)
                request_release(worker, r);
        else
                orphan_offload(r);
}
