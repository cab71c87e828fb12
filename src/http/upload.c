/* SPDX-License-Identifier: MIT */
#include "http/upload.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/limits.h"
#include "http/internal.h"
#include "lessor/error.h"

#define PIECE (LIMIT_HTTP_UPLOAD_MEMORY / 2)

/*
 * Who has the piece that is being written. Whoever moves it away from BUSY owns what comes next: a job that
 * finds itself awaited or orphaned tells of its end, and touches nothing afterwards in any case.
 */
enum { JOB_NONE, JOB_BUSY, JOB_AWAITED, JOB_ORPHANED };

/*
 * 1. The worker fills pieces[filling] while a job writes the other one.
 * 2. `result` and what it belongs to are the job's while `job_state` is not JOB_NONE, else the worker's.
 */
struct upload {
        struct job job;
        struct request *request;
        struct connection *connection;
        struct http_server *server;
        struct http_sink sink;
        char *pieces[2];
        size_t piece_len[2]; /* how much memory they are */
        unsigned filling;
        size_t n; /* bytes in it */
        _Atomic int job_state;
        struct lessor_slice writing;
        bool writing_last;
        int result;
        bool finished; /* the last job was submitted */
        int error;     /* it fails with this, once the job is over */
};

static void upload_done(void *object)
{
        struct upload *u = object;

        free(u->pieces[0]);
        free(u->pieces[1]);
        atomic_fetch_sub_explicit(&u->server->body_memory, u->piece_len[0] + u->piece_len[1],
                                  memory_order_relaxed);
        atomic_fetch_sub_explicit(&u->server->n_uploads, 1, memory_order_relaxed);
}

static int upload_new(struct request *r, const struct http_sink *sink)
{
        struct http_server *server = r->server;
        struct upload *u = lessor_arena_array(r->public.arena, 1, sizeof(*u));

        if (u == NULL)
                return LESSOR_E_NOMEM;
        if (r->content_length > sink->limit)
                return LESSOR_E_TOO_LARGE;
        if (atomic_fetch_add_explicit(&server->n_uploads, 1, memory_order_relaxed) >= LIMIT_HTTP_UPLOADS) {
                atomic_fetch_sub_explicit(&server->n_uploads, 1, memory_order_relaxed);
                return LESSOR_E_FULL;
        }
        u->server = server;
        u->request = r;
        u->connection = r->connection;
        u->sink = *sink;
        if (lessor_arena_own(r->public.arena, u, upload_done) < 0) {
                upload_done(u);
                return LESSOR_E_NOMEM;
        }
        r->upload = u;
        return 0;
}

void http_receive(struct http_request *request, const struct http_sink *sink)
{
        struct request *r = request_of(request);
        int e = r->early ? upload_new(r, sink) : LESSOR_E_INVALID;

        if (e == 0)
                return;
        r->receive_error = e;
        r->next = sink->failed;
        r->next_context = sink->context;
}

int http_receive_error(struct http_request *request)
{
        return request_of(request)->receive_error;
}

uint64_t http_received(struct http_request *request)
{
        return request_of(request)->received;
}

/* --- The job, on a thread of the pool --- */

static void job_run(struct job *job)
{
        struct upload *u = container_of(job, struct upload, job);
        struct connection *c = u->connection;
        int was, e = 0;

        if (u->writing.n > 0)
                e = u->sink.write(u->sink.context, u->writing);
        if (e == 0 && u->writing_last && u->sink.finish != NULL)
                e = u->sink.finish(u->sink.context);
        u->result = e;
        was = atomic_exchange(&u->job_state, JOB_NONE);
        if (was == JOB_AWAITED)
                connection_job_over(c);
        else if (was == JOB_ORPHANED)
                worker_orphaned(c);
}

static void job_start(struct upload *u, bool last)
{
        u->writing = (struct lessor_slice){u->pieces[u->filling], u->n};
        u->writing_last = last;
        u->filling ^= 1;
        u->n = 0;
        u->job.run = job_run;
        atomic_store(&u->job_state, JOB_BUSY);
        pool_submit(u->server->pool, &u->job);
}

/* Sleeps until the job is over. False when it is. */
static bool job_await(struct upload *u)
{
        int busy = JOB_BUSY;

        if (atomic_load(&u->job_state) == JOB_NONE)
                return false;
        connection_job_prepare(u->connection);
        if (!atomic_compare_exchange_strong(&u->job_state, &busy, JOB_AWAITED)) {
                connection_job_forget(u->connection);
                return false;
        }
        connection_job_sleep(u->connection);
        return true;
}

/* --- Receiving, on the worker --- */

/* The job is over, if there was one, and this is how the upload ends. */
static enum MHD_Result tell(struct request *r, int error)
{
        const struct http_sink *sink = &r->upload->sink;

        connection_due(r->connection, 0);
        r->receive_error = error;
        r->upload_told = true;
        r->phase = PHASE_RUN;
        r->next = error == 0 ? sink->done : sink->failed;
        r->next_context = sink->context;
        return request_run(r);
}

/* Makes the piece that is to be filled, as large as what is to come. */
static int piece_new(struct request *r)
{
        struct upload *u = r->upload;
        uint64_t left = r->has_length ? r->content_length - r->received : PIECE;
        size_t n = left < PIECE ? (size_t)left : PIECE;

        if (u->pieces[u->filling] != NULL)
                return 0;
        u->pieces[u->filling] = malloc(n);
        if (u->pieces[u->filling] == NULL)
                return LESSOR_E_NOMEM;
        u->piece_len[u->filling] = n;
        atomic_fetch_add_explicit(&r->server->body_memory, n, memory_order_relaxed);
        return 0;
}

static void fill(struct request *r, const char **bytes, size_t *n)
{
        struct upload *u = r->upload;
        size_t room = u->piece_len[u->filling] - u->n, take = *n < room ? *n : room;

        memcpy(u->pieces[u->filling] + u->n, *bytes, take);
        u->n += take;
        r->received += take;
        *bytes += take;
        *n -= take;
}

/* Writes what is filled, if that is possible now. Returns 1 when it is not, else 0 or an error of the sink.
 */
static int flush(struct upload *u)
{
        if (job_await(u))
                return 1;
        if (u->result < 0)
                return u->result;
        job_start(u, false);
        return 0;
}

/* Returns 0 when it has all of it, 1 when the rest must wait, or an error. */
static int take(struct request *r, const char *bytes, size_t *n)
{
        struct upload *u = r->upload;
        int e = 0;

        if (*n > u->sink.limit - r->received)
                return LESSOR_E_TOO_LARGE;
        if (u->sink.write == NULL) {
                r->received += *n;
                *n = 0;
        }
        while (e == 0 && *n > 0) {
                e = piece_new(r);
                if (e == 0 && u->n == u->piece_len[u->filling])
                        e = flush(u);
                else if (e == 0)
                        fill(r, &bytes, n);
        }
        return e;
}

enum MHD_Result upload_take(struct request *r, const char *bytes, size_t *n)
{
        struct upload *u = r->upload;
        int e = u->error;

        if (r->connection->asleep) /* MHD looks for more of a chunked body before it sleeps */
                return MHD_YES;
        if (e == 0)
                e = take(r, bytes, n);
        if (e >= 0)
                return MHD_YES;
        u->error = e;
        if (job_await(u))
                return MHD_YES; /* and we are shown the rest again */
        r->broken = true;
        return tell(r, e);
}

enum MHD_Result upload_whole(struct request *r)
{
        struct upload *u = r->upload;
        bool last_due = !u->finished && (u->n > 0 || u->sink.finish != NULL);

        connection_due(r->connection, 0);
        if (job_await(u))
                return MHD_YES;
        if (u->error == 0)
                u->error = u->result;
        if (u->error < 0 || !last_due)
                return tell(r, u->error);
        u->finished = true;
        job_start(u, true);
        if (job_await(u))
                return MHD_YES;
        return tell(r, u->result);
}

/* --- The end before the end --- */

static int why_cut(struct request *r)
{
        struct connection *c = r->connection;

        if (atomic_load(&c->aborted) || atomic_load(&r->server->aborting))
                return LESSOR_E_ABORTED;
        return atomic_load(&c->overdue) ? LESSOR_E_TIMEOUT : LESSOR_E_CLOSED;
}

bool upload_cut(struct request *r)
{
        struct upload *u = r->upload;
        int busy = JOB_BUSY;

        r->receive_error = u->error != 0 ? u->error : why_cut(r);
        r->upload_told = true;
        r->next = u->sink.failed;
        r->next_context = u->sink.context;
        return atomic_compare_exchange_strong(&u->job_state, &busy, JOB_ORPHANED);
}
