/* SPDX-License-Identifier: MIT */
#ifndef BENCH_BENCH_H
#define BENCH_BENCH_H

#include <stdbool.h>
#include <stdint.h>

#include "report.h"
#include "subject.h"
#include "world.h"

/* What a run was asked for. Texts are borrowed from the command line. */
struct bench {
        const char *lessord;     /* the program */
        const char *peer_script; /* node script that serves the reference relay; NULL: none */
        const char *peer_url;    /* one that runs already, and takes a projection at /test/project */
        const char *node;
        const char *log_level; /* of lessord */
        const char *only_store;
        const char *profile; /* directory for profiles of the server; NULL: none are taken */
        unsigned rounds;
        unsigned lanes;       /* connections of the throughput measurements */
        double seconds;       /* one round of lifecycles */
        unsigned devices;     /* of the claims measurement */
        unsigned held;        /* jobs that servers hold during the second run of lifecycles */
        unsigned jobs;        /* queued in the deep queue, and leases beside which another is claimed */
        unsigned connections; /* that idle, and racks that wait */
        struct report report;
};

/* Each takes its figures and adds them to the report. 0 or an error, after a line on stderr. */
int bench_claims(struct bench *bench);
int bench_lifecycles(struct bench *bench);
int bench_depth(struct bench *bench);
int bench_idle(struct bench *bench);
int bench_envelope(struct bench *bench);
int bench_lease_lives(struct bench *bench);
int bench_lease_claims(struct bench *bench);
int bench_pickup(struct bench *bench);
int bench_parked(struct bench *bench);
int bench_bytes(struct bench *bench);

/* Starts lessord with one worker thread on a store, for these parties. */
int bench_start(const struct bench *bench, const char *store, const struct world *world,
                struct subject **ret_subject);

/* Says on stderr what went wrong and hands the error on. */
int bench_failed(int error, const char *what);

/* The stores to measure, in order; NULL-terminated. */
const char *const *bench_stores(const struct bench *bench);

#endif
