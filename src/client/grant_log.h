/* SPDX-License-Identifier: MIT */
#ifndef CLIENT_GRANT_LOG_H
#define CLIENT_GRANT_LOG_H

#include <stdint.h>

#include "lessor/slice.h"

/*
 * The grant ids that this device has used, kept on disk until they lapse, so that none is used twice,
 * whatever happens in between (relay-protocol 7). One JSON object a line, `{"grantId":...,"until":epoch ms}`.
 * Thread-safe.
 */
struct grant_log;

/*
 * Reads what is there, forgets what has lapsed, and rewrites the file.
 *
 * Returns 0; LESSOR_E_CORRUPT (a line that is none, other than an unfinished last one: then nothing here can
 * be trusted); LESSOR_E_PERMISSION (also: open to others); LESSOR_E_IO; LESSOR_E_TOO_LARGE; LESSOR_E_NOMEM.
 */
int grant_log_open(const char *path, int64_t now_ms, struct grant_log **ret_log);
struct grant_log *grant_log_close(struct grant_log *log);

/*
 * Uses a grant id. When it returns 0 the id is on disk and the job may run.
 *
 * until_ms  when the grant lapses: issuedAt + 120000
 *
 * Returns 0; LESSOR_E_EXISTS (used before: refuse the job); LESSOR_E_IO (not remembered: refuse the job);
 * LESSOR_E_NOMEM.
 */
int grant_log_use(struct grant_log *log, struct lessor_slice grant_id, int64_t until_ms, int64_t now_ms);

#endif
