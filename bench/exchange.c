/* SPDX-License-Identifier: MIT */
#include "exchange.h"

#include <stdbool.h>
#include <stdio.h>

#include "lessor/error.h"

struct single {
        struct lessor_slice request;
        bool sent;
        struct buf *body;
        uint64_t *ns;
};

static int next(void *context, unsigned lane, struct lessor_slice *ret_request)
{
        struct single *single = context;

        if (lane != 0 || single->sent)
                return 0;
        single->sent = true;
        *ret_request = single->request;
        return 1;
}

static int answered(void *context, unsigned lane, const struct traffic_answer *answer)
{
        struct single *single = context;

        (void)lane;
        if (answer->status != 200) {
                fprintf(stderr, "load: answered %d %.*s\n", answer->status,
                        (int)(answer->body.n > 200 ? 200 : answer->body.n), answer->body.p);
                return LESSOR_E_REFUSED;
        }
        if (single->ns != NULL)
                *single->ns = answer->elapsed_ns;
        if (single->body == NULL)
                return 0;
        buf_clear(single->body);
        return buf_slice(single->body, answer->body);
}

int exchange(struct traffic *traffic, struct lessor_slice request, struct buf *ret_body, uint64_t *ret_ns)
{
        struct single single = {.request = request, .body = ret_body, .ns = ret_ns};
        const struct traffic_plan plan = {.next = next, .answered = answered, .context = &single};

        return traffic_run(traffic, &plan);
}
