/* SPDX-License-Identifier: MIT */
#include "http/offload.h"

#include "base/limits.h"
#include "http/internal.h"

struct offload {
        struct job job;
        struct request *request;
        struct connection *connection;
        http_work *work;
        void *context;
        bool orphaned; /* the request has no connection to wake */
};

static void run(struct job *job)
{
        struct offload *o = container_of(job, struct offload, job);
        struct connection *c = o->connection;
        struct http_server *server = o->request->server;
        bool orphaned = o->orphaned;

        o->work(o->context);
        atomic_fetch_sub_explicit(&server->n_offloads, 1, memory_order_relaxed);
        if (orphaned)
                worker_orphaned(c);
        else
                connection_job_over(c);
}

static struct offload *offload_new(struct request *r)
{
        struct offload *o;

        if (atomic_fetch_add_explicit(&r->server->n_offloads, 1, memory_order_relaxed) >= LIMIT_HTTP_OFFLOADS)
                o = NULL;
        else
                o = lessor_arena_alloc(r->public.arena, sizeof(*o));
        if (o == NULL)
                atomic_fetch_sub_explicit(&r->server->n_offloads, 1, memory_order_relaxed);
        return o;
}

bool http_offload(struct http_request *request, http_work *work, http_handler *done, void *context)
{
        struct request *r = request_of(request);
        struct offload *o = offload_new(r);

        if (o == NULL) {
                answer_refusal(r, 503, "too much is waiting for the disk");
                return false;
        }
        *o = (struct offload){
                .job.run = run, .request = r, .connection = r->connection, .work = work, .context = context};
        r->offload = o;
        r->suspend_asked = true;
        r->next = done;
        r->next_context = context;
        return true;
}

/* Only now, at the end of the run: until then the arena was the handler's. */
void offload_start(struct request *r, bool orphaned)
{
        struct offload *o = r->offload;

        r->offload = NULL;
        o->orphaned = orphaned;
        pool_submit(r->server->pool, &o->job);
}
