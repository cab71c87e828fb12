/* SPDX-License-Identifier: MIT */
#ifndef PLANE_ENVIRONMENT_LAYERS_H
#define PLANE_ENVIRONMENT_LAYERS_H

#include "lessor/object_store.h"
#include "lessor/rack_registry.h"
#include "wire/message.h"

/*
 * What published environments are made of (rack-protocol 12). A layer is an object of a repository of its
 * own, which all environments share; its digest is "sha256:" and the object's hash. An environment's manifest
 * says which layers it has, in the order in which they are applied:
 *
 *     {"envHash":…,"e3Version":…,"baseImage":…,"baseTier":…,"layers":[{"digest":…,"sizeBytes":…,"mediaType":…}]}
 */
#define ENVIRONMENT_LAYERS_REPO LESSOR_SLICE("env-layers")

struct environment_layer {
        struct lessor_slice digest;
        int64_t size;
        struct lessor_slice media_type;
};

struct environment_manifest {
        struct lessor_slice env_hash;
        struct lessor_slice e3_version;
        struct lessor_slice base_image;
        struct lessor_slice base_tier;
        struct environment_layer *layers; /* in the order of application */
        size_t n_layers;
};
extern const struct message_table environment_manifest_table;

/* The hash in a digest; absent when it is none. */
struct lessor_slice environment_layer_hash(struct lessor_slice digest);

/*
 * Reads a manifest. `text` is borrowed for as long as the manifest is used; lists are in the arena. Unknown
 * members are passed over. Returns 0; LESSOR_E_MALFORMED; LESSOR_E_INVALID (also: a digest is none);
 * LESSOR_E_NOMEM.
 */
int environment_manifest_read(struct lessor_slice text, struct lessor_arena *arena,
                              struct environment_manifest *ret_manifest);

/*
 * Keeps the layers of every published environment, for a collection of objects (lessor_object_collection). An
 * environment whose manifest cannot be read ends it with LESSOR_E_CORRUPT, since nobody knows what it needs.
 */
int environment_layers_keep(struct lessor_lease_store *s, struct lessor_object_keeper *keeper);

#endif
