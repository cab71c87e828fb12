/* SPDX-License-Identifier: MIT */
#include "percentiles.h"

static unsigned bucket_of(uint64_t ns)
{
        unsigned exponent;

        if (ns >> PERCENTILES_MAX_BITS != 0)
                ns = (UINT64_C(1) << PERCENTILES_MAX_BITS) - 1;
        if (ns >> (PERCENTILES_SUB_BITS + 1) == 0)
                return (unsigned)ns;
        exponent = 63u - (unsigned)__builtin_clzll(ns) - PERCENTILES_SUB_BITS;
        return (exponent << PERCENTILES_SUB_BITS) + (unsigned)(ns >> exponent);
}

/* The middle of a bucket's range. */
static uint64_t value_of(unsigned bucket)
{
        unsigned exponent;
        uint64_t lowest;

        if (bucket >> (PERCENTILES_SUB_BITS + 1) == 0)
                return bucket;
        exponent = (bucket >> PERCENTILES_SUB_BITS) - 1;
        lowest = (uint64_t)(bucket - (exponent << PERCENTILES_SUB_BITS)) << exponent;
        return lowest + (UINT64_C(1) << exponent) / 2;
}

void percentiles_add(struct percentiles *p, uint64_t ns)
{
        p->counts[bucket_of(ns)]++;
        p->n++;
        if (ns > p->max_ns)
                p->max_ns = ns;
}

void percentiles_merge(struct percentiles *p, const struct percentiles *from)
{
        for (unsigned i = 0; i < PERCENTILES_BUCKETS; i++)
                p->counts[i] += from->counts[i];
        p->n += from->n;
        if (from->max_ns > p->max_ns)
                p->max_ns = from->max_ns;
}

uint64_t percentiles_at(const struct percentiles *p, double share)
{
        uint64_t wanted = (uint64_t)((double)p->n * share), seen = 0;

        if (p->n == 0)
                return 0;
        if (wanted == 0)
                wanted = 1;
        for (unsigned i = 0; i < PERCENTILES_BUCKETS; i++) {
                seen += p->counts[i];
                if (seen >= wanted) {
                        uint64_t value = value_of(i);

                        return value < p->max_ns ? value : p->max_ns;
                }
        }
        return p->max_ns;
}
