/* SPDX-License-Identifier: MIT */
#ifndef CLIENT_BACKEND_H
#define CLIENT_BACKEND_H

#include "lessor/backend.h"

/* What the backends share. */

#define BACKEND_TIMEOUT_DEFAULT_MS 600000

/* Fills an outcome of an error; the texts are static or in the arena of the run. Returns 0. */
int backend_error(struct lessor_outcome *outcome, const char *code, const char *message, bool retryable);

/* Fills the outcome of a cancelled job. Returns 0. */
int backend_canceled(struct lessor_outcome *outcome);

#endif
