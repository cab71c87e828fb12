/* SPDX-License-Identifier: MIT */
#include "http/internal.h"

/*
 * A request may lose its connection while a job works for it: MHD says that it is over, and does not wait.
 * The request then stays until the job has ended, and so does our half of the connection, though not its
 * socket nor anything that was MHD's: the texts of the headers.
 */

void orphan_detain(struct request *r)
{
        struct connection *c = r->connection;

        r->gone = true;
        r->wait_over = true;
        r->n_headers = 0;
        r->host = (struct lessor_slice){NULL, 0};
        r->public.method = (struct lessor_slice){"", 0};
        c->detained = r;
        c->worker->n_jobs++;
}

void orphan_run(struct request *r)
{
        http_handler *next = r->next;

        r->next = NULL;
        r->prepared = r->suspend_asked = false;
        if (next != NULL)
                next(&r->public, r->next_context);
        if (r->prepared)
                atomic_store(&r->connection->suspension, SUSPENSION_NONE);
}

void orphan_offload(struct request *r)
{
        orphan_detain(r);
        offload_start(r, true);
}

void orphan_continue(struct connection *c)
{
        struct request *r = c->detained;

        c->detained = NULL;
        c->worker->n_jobs--;
        orphan_run(r);
        if (r->offload != NULL) {
                orphan_offload(r);
                return;
        }
        request_release(c->worker, r);
        if (c->ended)
                connection_discard(r->server, c);
}
