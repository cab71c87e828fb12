/* SPDX-License-Identifier: MIT */
#ifndef BENCH_RESPONSE_H
#define BENCH_RESPONSE_H

#include <stdbool.h>

#include "base/buf.h"
#include "lessor/slice.h"

/* One HTTP/1.1 answer, read as it arrives. Just what a load generator needs to know of it. */
struct response {
        struct buf raw;  /* what has arrived; append to it, then call response_read */
        struct buf body; /* decoded chunks */
        size_t head_n;   /* bytes of the head with its empty line; 0 = not complete */
        size_t length;   /* declared, when not chunked */
        size_t at;       /* where the next chunk begins */
        bool chunked;
        bool closes; /* the server ends the connection after this answer */
        int status;
};

void response_done(struct response *r);

/* Ready for the next answer on the same connection. */
void response_clear(struct response *r);

/*
 * Looks at what has arrived.
 *
 * Returns 1 when the answer is complete; 0 when bytes are missing; LESSOR_E_PROTOCOL for what is no answer,
 * or bytes behind one (nothing is pipelined); LESSOR_E_NOMEM.
 */
int response_read(struct response *r);

/* The body of a complete answer; borrowed until the next call. */
struct lessor_slice response_body(const struct response *r);

#endif
