/* SPDX-License-Identifier: MIT */
#ifndef BENCH_TRAFFIC_H
#define BENCH_TRAFFIC_H

#include <stdint.h>

#include "base/macro.h"
#include "lessor/slice.h"

/*
 * Requests over n keep-alive connections to one loopback port, on the calling thread: epoll, non-blocking,
 * nothing pipelined. A connection (a lane) sends its next request as soon as the last one is answered: a
 * closed loop.
 */
struct traffic;

struct traffic_answer {
        int status;
        struct lessor_slice body; /* borrowed for the call */
        uint64_t elapsed_ns;      /* from the first byte written to the last byte read */
};

/* Where requests come from and answers go. */
struct traffic_plan {
        /*
         * The next request of a lane, borrowed until it is answered. Returns 1; 0 when this lane is through;
         * or an error, which ends the run.
         */
        int (*next)(void *context, unsigned lane, struct lessor_slice *ret_request);
        /* Returns 0, or an error, which ends the run. */
        int (*answered)(void *context, unsigned lane, const struct traffic_answer *answer);
        void *context;
        /*
         * How long to sleep when nothing has been answered, instead of until something is; 0: wait. On
         * loopback it is the server that pays for waking the generator, at each answer, which no client of a
         * network costs it. Shorter than what the lanes keep the server busy for; the latencies are wrong by
         * as much.
         */
        uint64_t nap_ns;
};

/* Opens the connections. LESSOR_E_IO when one cannot be opened, LESSOR_E_NOMEM. */
int traffic_open(unsigned port, unsigned n_lanes, struct traffic **ret_traffic);

/*
 * Runs until all lanes are through. May be called again with another plan.
 *
 * Returns 0; what a call of the plan returned; LESSOR_E_CLOSED when the server hung up; LESSOR_E_PROTOCOL;
 * LESSOR_E_TIMEOUT when nothing arrived for a minute. After an error only traffic_free is of use.
 */
int traffic_run(struct traffic *t, const struct traffic_plan *plan);

/* Closes the connections. Takes NULL, returns NULL. */
struct traffic *traffic_free(struct traffic *t);
DEFINE_CLEANUP(struct traffic, traffic_free)

#endif
