/* SPDX-License-Identifier: MIT */
#ifndef BENCH_REQUESTS_H
#define BENCH_REQUESTS_H

#include "percentiles.h"
#include "traffic.h"
#include "world.h"

/* The requests of the relay as the parties of a world make them. Each appends a whole signed HTTP request. */

#define JOB_KIND       "llm.generate"
#define JOB_OTHER_KIND "llm.chat"

/* A job of the device's owner at the site the owner consents to; `kind` is JOB_KIND unless it is to be passed
 * over. */
int request_enqueue(const struct world *world, unsigned site, const char *owner, const char *job_id,
                    const char *kind, struct buf *out);

/* Asks for at most `max` jobs of kind JOB_KIND. */
int request_claim(const struct party *device, unsigned max, struct buf *out);

/* A lot of requests made ahead, in one piece of memory. Zeroed is empty. */
struct request_list {
        struct buf text;
        size_t *ends;
        size_t n, cap;
};

void request_list_done(struct request_list *list);
void request_list_clear(struct request_list *list);

/* Closes the request that was appended to `text` since the last call. 0 or LESSOR_E_NOMEM. */
int request_list_close(struct request_list *list);

struct lessor_slice request_list_at(const struct request_list *list, size_t index);

/* What sending a whole list came to. */
struct request_outcome {
        struct percentiles latencies;
        uint64_t elapsed_ns;
        size_t n_empty; /* claims answered without a job */
        size_t n_refused;
        int refusal;   /* status of the first refusal */
        char why[256]; /* and its body */
};

/* Sends every request of the list once, in order, over all lanes. Returns 0 or what traffic_run says. */
int request_list_send(const struct request_list *list, struct traffic *traffic,
                      struct request_outcome *ret_outcome);

/* The text between `before` and the next quote; absent when it is not there. */
struct lessor_slice text_after(struct lessor_slice text, const char *before);

#endif
