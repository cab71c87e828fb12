/* SPDX-License-Identifier: MIT */
#ifndef BENCH_PERCENTILES_H
#define BENCH_PERCENTILES_H

#include <stdint.h>

/*
 * A histogram of durations whose buckets grow with the value: 64 to every power of two, so that a percentile
 * is off by less than 1.6 per cent, whatever its size. Plain data, zeroed is empty, 18 kB.
 */
#define PERCENTILES_SUB_BITS 6
#define PERCENTILES_MAX_BITS 40 /* about 18 minutes in ns; longer ones count as that */
#define PERCENTILES_BUCKETS  (((PERCENTILES_MAX_BITS - PERCENTILES_SUB_BITS) + 2) << PERCENTILES_SUB_BITS)

struct percentiles {
        uint64_t counts[PERCENTILES_BUCKETS];
        uint64_t n;
        uint64_t max_ns;
};

void percentiles_add(struct percentiles *p, uint64_t ns);

/* Adds everything that is in `from`. */
void percentiles_merge(struct percentiles *p, const struct percentiles *from);

/* The duration that `share` (0..1) of all do not exceed, in ns; 0 when there are none. */
uint64_t percentiles_at(const struct percentiles *p, double share);

#endif
