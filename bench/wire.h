/* SPDX-License-Identifier: MIT */
#ifndef BENCH_WIRE_H
#define BENCH_WIRE_H

#include "base/macro.h"
#include "response.h"

/* One keep-alive connection on which the caller waits: for what is asked now and then. */
struct wire {
        int fd;
        struct response response;
};

/* Over loopback, or to a Unix socket. Return 0, LESSOR_E_IO or LESSOR_E_NOMEM. */
int wire_open(unsigned port, struct wire **ret_wire);
int wire_open_unix(const char *path, struct wire **ret_wire);

/* Takes NULL, returns NULL. */
struct wire *wire_free(struct wire *wire);
DEFINE_CLEANUP(struct wire, wire_free)

/* Sends a whole request. */
int wire_send(struct wire *wire, struct lessor_slice request);

/*
 * Waits for the answer, at most a minute. Its body is good until the next call.
 *
 * Returns 0; LESSOR_E_TIMEOUT; LESSOR_E_CLOSED; LESSOR_E_PROTOCOL; LESSOR_E_NOMEM.
 */
int wire_answer(struct wire *wire, int *ret_status, struct lessor_slice *ret_body);

/* Both, and LESSOR_E_REFUSED after a line on stderr for an answer that is not 200 or 204. */
int wire_ask(struct wire *wire, struct lessor_slice request, struct lessor_slice *ret_body);

#endif
