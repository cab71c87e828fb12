/* SPDX-License-Identifier: MIT */
#ifndef WIRE_ENV_MANIFEST_H
#define WIRE_ENV_MANIFEST_H

#include "wire/message.h"

/* The manifest of a published environment, as JSON (rack-protocol 12). */

struct env_layer {
        struct lessor_slice digest; /* "sha256:" and 64 hex digits */
        struct lessor_slice hash;   /* those digits */
        int64_t size_bytes;
        struct lessor_slice media_type;
};

struct env_manifest {
        struct lessor_slice env_hash;
        struct lessor_slice e3_version;
        struct lessor_slice base_image;
        struct lessor_slice base_tier;
        struct env_layer *layers; /* in the order in which they are applied */
        size_t n_layers;
};

/* For whoever describes it to others. Unknown members are passed over. */
extern const struct message_table env_manifest_table;

/*
 * Reads a manifest.
 *
 * json         borrowed for as long as the manifest is used
 * arena        owns the rest
 * ret_problem  may be NULL; on failure a clause for people, static or in the arena
 *
 * Returns 0; LESSOR_E_MALFORMED (no JSON); LESSOR_E_INVALID; LESSOR_E_TOO_LARGE; LESSOR_E_NOMEM.
 */
int env_manifest_read(struct lessor_slice json, struct lessor_arena *arena, struct env_manifest *ret_manifest,
                      const char **ret_problem);

/* The hash in a layer's digest; absent if it is none of "sha256:" and 64 lower-case hex digits. */
struct lessor_slice env_layer_hash(struct lessor_slice digest);

#endif
