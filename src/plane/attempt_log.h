/* SPDX-License-Identifier: MIT */
#ifndef PLANE_ATTEMPT_LOG_H
#define PLANE_ATTEMPT_LOG_H

#include "lessor/lease_types.h"
#include "objects/log_file.h"
#include "plane/log_watch.h"

/*
 * The server's own line on an attempt's stderr, `e3: TEXT` (rack-protocol 10). Line breaks in the text become
 * blanks. Wakes who reads along; `watch` may be NULL. Blocks on the disk. Returns as log_files_say, or
 * LESSOR_E_NOMEM.
 */
int attempt_say(struct log_files *logs, struct log_watch *watch, const struct log_key *key,
                struct lessor_slice text);

/* What such a line says of a cause for which nobody gave a reason; static. */
const char *attempt_cause(enum lessor_cause cause);

#endif
