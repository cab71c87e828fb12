/* SPDX-License-Identifier: MIT */
#include "filling.h"

#include <stdio.h>

#include "lessor/error.h"
#include "requests.h"
#include "traffic.h"

#define LANES       64
#define N_STRANGERS 10000

struct filling {
        const struct world *world;
        filling_job *job;
        unsigned next, end;
        struct buf requests[LANES];
};

int filling_stranger(const struct world *world, unsigned index, struct buf *out)
{
        char id[32], owner[32];

        snprintf(id, sizeof(id), "job-%u", index);
        snprintf(owner, sizeof(owner), "stranger-%u", index % N_STRANGERS);
        return request_enqueue(world, index % world->n_sites, owner, id, JOB_KIND, out);
}

static int next(void *context, unsigned lane, struct lessor_slice *ret_request)
{
        struct filling *f = context;
        struct buf *request = &f->requests[lane];
        int e;

        if (f->next == f->end)
                return 0;
        buf_clear(request);
        e = f->job(f->world, f->next++, request);
        *ret_request = buf_view(request);
        return e < 0 ? e : 1;
}

static int answered(void *context, unsigned lane, const struct traffic_answer *answer)
{
        (void)context, (void)lane;
        return answer->status == 200 ? 0 : LESSOR_E_REFUSED;
}

int filling_run(const struct world *world, unsigned port, unsigned n_jobs, filling_job *job)
{
        struct filling f = {.world = world, .job = job, .end = n_jobs};
        const struct traffic_plan plan = {.next = next, .answered = answered, .context = &f};
        _cleanup_(traffic_freep) struct traffic *traffic = NULL;
        int e = traffic_open(port, LANES, &traffic);

        if (e == 0)
                e = traffic_run(traffic, &plan);
        for (unsigned i = 0; i < LANES; i++)
                buf_done(&f.requests[i]);
        return e;
}
