/* SPDX-License-Identifier: MIT */
#ifndef BENCH_LIFE_H
#define BENCH_LIFE_H

#include "base/buf.h"
#include "world.h"

/* The life of a job, request by request: a site asks, a device answers. One job after another. */

enum life_step { LIFE_ENQUEUE, LIFE_CLAIM, LIFE_PAYLOAD, LIFE_FETCH, LIFE_RESULT, LIFE_STEPS };

extern const char *const life_step_names[LIFE_STEPS];

struct life {
        const struct world *world;
        const struct party *device;
        const char *tag;    /* begins every job id, so that runs do not meet; borrowed */
        struct buf payload; /* the envelopes as JSON, the same for every job */
        struct buf result;
        struct buf request; /* the current one */
        enum life_step step;
        unsigned n_jobs; /* begun */
        char job_id[64];
        char lease_id[128];
        char why[256]; /* what was wrong with an answer, for people */
};

/* A device's life with payloads and results of `text_bytes` of plaintext, really sealed. 0, LESSOR_E_NOMEM.
 */
int life_init(struct life *life, const struct world *world, unsigned device, const char *tag,
              size_t text_bytes);

/* The same with a ciphertext that is none, so that the whole envelope is exactly `envelope_bytes` long. */
int life_init_sized(struct life *life, const struct world *world, unsigned device, const char *tag,
                    size_t envelope_bytes);

void life_done(struct life *life);

/* Makes the request of the current step. */
int life_next(struct life *life);

/*
 * Takes the answer and moves on, to a new job after the last step. LESSOR_E_PROTOCOL, with `why`, when it is
 * not the one that a relay has to give.
 */
int life_answered(struct life *life, int status, struct lessor_slice body);

#endif
