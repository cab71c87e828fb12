/* SPDX-License-Identifier: MIT */
#ifndef CLIENT_DEVICE_STATE_H
#define CLIENT_DEVICE_STATE_H

#include "client/agent_rules.h"
#include "lessor/arena.h"

/*
 * device.json: what pairing told a device, and the site keys it has come to know since. One JSON object:
 *
 *   version             1; a larger one is LESSOR_E_NEWER. A change of the form counts it up
 *   relayUrl, runnerId, owner
 *   controlPlanePublic  absent: none was pinned
 *   sites               key id -> {identity, served, retiringUntil?}
 */
struct device_state {
        struct lessor_slice relay_url;
        struct lessor_slice runner_id;
        struct lessor_slice owner;
        struct lessor_slice control_plane_public; /* absent: none */
        struct known_site *sites;
        size_t n_sites;
};

/*
 * Reads the file, which others may not write or read. Everything is in the arena.
 *
 * ret_problem  may be NULL; on failure a sentence, in the arena, or NULL
 *
 * Returns 0; LESSOR_E_NOT_FOUND; LESSOR_E_PERMISSION (also: open to others); LESSOR_E_MALFORMED;
 * LESSOR_E_NEWER; LESSOR_E_IO; LESSOR_E_TOO_LARGE; LESSOR_E_NOMEM.
 */
int device_state_load(const char *path, struct lessor_arena *arena, struct device_state *ret_state,
                      const char **ret_problem);

/* Replaces the file in one step, with mode 0600. Returns 0 or what file_replace can fail with. */
int device_state_save(const char *path, const struct device_state *state);

/* The path of a file of a device's directory, to be freed with free(). NULL when memory is short. */
char *device_path(const char *dir, const char *name);

/* Makes the directory with mode 0700 if there is none. Returns 0, LESSOR_E_IO or LESSOR_E_PERMISSION. */
int device_dir_make(const char *dir);

#endif
