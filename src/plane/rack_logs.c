/* SPDX-License-Identifier: MIT */
#include "http/offload.h"
#include "plane/rack_data.h"

/* What a guest writes to stdout and stderr (rack-protocol 6.7). */

/* One request under way. In the call's arena. */
struct logs {
        struct rack_call *call;
        struct log_key key;
        struct log_chunk *chunks;
        size_t n_chunks;
        int error;
};

/* All of it is on the disk afterwards, or nothing. */
static void work(void *context)
{
        struct logs *l = context;

        l->error = log_files_append(l->call->plane->parts.logs, &l->key, l->chunks, l->n_chunks);
}

static void done(struct http_request *http, void *context)
{
        struct logs *l = context;
        struct rack_call *call = l->call;
        const bool stored = true;

        (void)http;
        if (l->error < 0) {
                rack_refuse_error(call, l->error == LESSOR_E_NOMEM ? LESSOR_E_UNAVAILABLE : l->error);
                return;
        }
        if (call->plane->parts.log_watch != NULL)
                log_watch_wake(call->plane->parts.log_watch, l->key.execution_id);
        rack_answer(call, &stored); /* R124 */
}

/* What is to be appended where, or NULL without memory. */
static struct logs *logs_of(struct rack_call *call, const struct rack_logs_request *in,
                            const struct lessor_lease *lease)
{
        struct logs *l = lessor_arena_alloc(call->arena, sizeof(*l));

        if (l == NULL)
                return NULL;
        l->call = call;
        l->key = (struct log_key){lease->name.repo, lease->task_hash, lease->inputs_hash, lease->attempt};
        l->chunks = lessor_arena_array(call->arena, in->n_chunks, sizeof(*l->chunks));
        if (l->chunks == NULL)
                return NULL;
        for (size_t i = 0; i < in->n_chunks; i++)
                l->chunks[l->n_chunks++] = (struct log_chunk){
                        in->chunks[i].stream == RACK_STREAM_STDOUT ? LOG_STDOUT : LOG_STDERR,
                        in->chunks[i].data};
        return l;
}

void rack_serve_logs(struct rack_call *call, const void *request)
{
        const struct rack_logs_request *in = request;
        const struct lessor_lease_holder holder = rack_call_holder(call, in->repo, in->lease_id, in->attempt);
        struct lessor_ticket ticket = {0};
        struct lessor_lease lease;
        struct logs *l;
        int e;

        e = lessor_lease_hold(call->store, &holder, 0, call->arena, &lease, &ticket);
        rack_call_rests_on(call, ticket);
        if (e == LESSOR_E_NOT_HELD) { /* R122 */
                rack_refuse(call, RACK_FORBIDDEN, "this rack does not hold that lease");
                return;
        }
        if (e < 0) {
                rack_refuse_error(call, e == LESSOR_E_NOMEM ? LESSOR_E_UNAVAILABLE : e);
                return;
        }
        if (lease.mode == LESSOR_LEASE_FUNCTION || lease.attempt.p == NULL) { /* R123 */
                rack_refuse(call, RACK_FORBIDDEN, "a function has no log");
                return;
        }
        l = logs_of(call, in, &lease);
        if (l == NULL)
                rack_refuse_error(call, LESSOR_E_UNAVAILABLE);
        else
                http_offload(call->http, work, done, l);
}
