/* SPDX-License-Identifier: MIT */
#ifndef LESSOR_PROGRESS_H
#define LESSOR_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/*
 * Tells how a long task goes on: a line a step with the seconds since the start. On a terminal the last line
 * stays alive and counts.
 */
struct progress {
        FILE *stream;
        bool quiet;
        bool live; /* a terminal */
        bool colour;
        bool open; /* a line that is rewritten stands there */
        int64_t started_ms;
        char step[32];
        char detail[160];
};

void progress_begin(struct progress *p, FILE *stream, bool quiet);

/* A new step; `detail` may be NULL. Both are copied; a long detail is shown cut. The same step again with the
 * same detail is passed over. */
void progress_step(struct progress *p, const char *step, const char *detail);

/* Rewrites the seconds of the last line, on a terminal. */
void progress_tick(struct progress *p);

/* Ends the line that stands there, if any. */
void progress_end(struct progress *p);

#endif
