/* SPDX-License-Identifier: MIT */
#ifndef LESSOR_RUN_SHOW_H
#define LESSOR_RUN_SHOW_H

#include "base/buf.h"
#include "base/json_read.h"

/* How a run of the control API's answers is shown to people. */

/* "3 of 10 ended: 2 success, 1 failed; 4 claimed, 3 pending" */
void run_describe(struct buf *out, const struct json *run);

bool run_is_over(const struct json *run);

/* CLI_EXIT_OK when all of it was a success, else CLI_EXIT_JOB_FAILED. */
int run_exit_code(const struct json *run);

#endif
