/* SPDX-License-Identifier: MIT */
#ifndef BENCH_FILLING_H
#define BENCH_FILLING_H

#include "base/buf.h"
#include "world.h"

/* Queueing many jobs before something is measured. */

/* Appends the whole signed request that queues job number `index`. 0 or LESSOR_E_NOMEM. */
typedef int filling_job(const struct world *world, unsigned index, struct buf *out);

/* A job that no device of the world can have: its owner, one of ten thousand, has consented to nothing. */
filling_job filling_stranger;

/* Queues jobs 0 to n_jobs - 1. Returns 0, LESSOR_E_REFUSED when one was not taken, or as traffic_run. */
int filling_run(const struct world *world, unsigned port, unsigned n_jobs, filling_job *job);

#endif
