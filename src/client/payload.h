/* SPDX-License-Identifier: MIT */
#ifndef CLIENT_PAYLOAD_H
#define CLIENT_PAYLOAD_H

#include "lessor/backend.h"

/*
 * Reads an opened payload (relay-protocol 6.7) into what a backend is given. job_id is left to the caller.
 *
 * json         borrowed for as long as the prompt lives
 * arena        owns the rest
 * ret_units    UTF-16 units of the text in it; may be NULL
 * ret_problem  may be NULL; on LESSOR_E_INVALID names the member at fault and quotes nothing
 *
 * Returns 0; LESSOR_E_MALFORMED (not JSON); LESSOR_E_INVALID (not a payload of this kind); LESSOR_E_TOO_LARGE
 * (nested too deeply); LESSOR_E_NOMEM.
 */
int payload_read(enum lessor_kind kind, struct lessor_slice json, struct lessor_arena *arena,
                 struct lessor_prompt *ret_prompt, size_t *ret_units, const char **ret_problem);

#endif
