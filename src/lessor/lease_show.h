/* SPDX-License-Identifier: MIT */
#ifndef LESSOR_LEASE_SHOW_H
#define LESSOR_LEASE_SHOW_H

#include "base/json_read.h"
#include "lessor/output.h"

/* How a lease of the control API's answers is shown to people. */

/* "claimed", "completed: failed", "cancelled", "lost". Returns 0 or LESSOR_E_NOMEM. */
int lease_append_state(struct buf *out, const struct json *lease);
enum output_colour lease_colour(const struct json *lease);

/* All that is known of it, one line each. Returns 0 or LESSOR_E_NOMEM. */
int lease_write(struct buf *out, const struct json *lease, int64_t now_ms);

/* A table of its attempts; nothing when there are none. Returns 0 or LESSOR_E_NOMEM. */
int lease_write_attempts(const struct json *attempts, int64_t now_ms, struct buf *out);

/* Whether it has ended, so that nothing more will come. */
bool lease_is_over(const struct json *lease);

/* The exit status that tells how it ended: CLI_EXIT_OK for a success, else CLI_EXIT_JOB_FAILED. */
int lease_exit_code(const struct json *lease);

#endif
