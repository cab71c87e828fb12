/* SPDX-License-Identifier: MIT */
#ifndef BENCH_EXCHANGE_H
#define BENCH_EXCHANGE_H

#include "base/buf.h"
#include "traffic.h"

/*
 * One request on the first lane of `traffic`, which has no other, and its answer.
 *
 * ret_body    emptied, then the body; may be NULL
 * ret_ns      how long it took; may be NULL
 *
 * Returns 0 for an answer 200; LESSOR_E_REFUSED, after a line on stderr, for another; or what traffic_run
 * says.
 */
int exchange(struct traffic *traffic, struct lessor_slice request, struct buf *ret_body, uint64_t *ret_ns);

#endif
