/* SPDX-License-Identifier: MIT */
#ifndef LESSOR_PROGRESS_H
#define LESSOR_PROGRESS_H

#include <stdbool.h>
#include <stdio.h>

/*
 * Tells how a long task goes on: a line a step with the seconds since the start. On a terminal the last line
 * stays alive and counts, by a thread of its own, since the task is busy. One task at a time calls.
 */
struct progress;

/*
 * quiet  tells nothing
 * Returns 0 or LESSOR_E_NOMEM.
 */
int progress_new(FILE *stream, bool quiet, struct progress **ret_progress);

/* Ends as progress_end does. Takes NULL, returns NULL. */
struct progress *progress_free(struct progress *p);

/*
 * A new step; `detail` may be NULL. Both are copied, shown with control characters replaced, and cut when
 * they are long. The same step again with the same detail is passed over.
 */
void progress_step(struct progress *p, const char *step, const char *detail);

/* Ends the line that stands there, if any; nothing is told any more. */
void progress_end(struct progress *p);

#endif
