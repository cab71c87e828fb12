/* SPDX-License-Identifier: MIT */
#include "plane/environment_layers.h"

#include <string.h>

#include "base/limits.h"
#include "base/macro.h"

#define DIGEST_PREFIX "sha256:"

DEFINE_CLEANUP(struct lessor_arena, lessor_arena_free)

static const struct message_field layer_fields[] = {
        FIELD_TEXT1(struct environment_layer, digest, "digest"),
        FIELD_INT(struct environment_layer, size, "sizeBytes", 0, LIMIT_OBJECT_BYTES),
        FIELD_TEXT1(struct environment_layer, media_type, "mediaType"),
};
static const struct message_table layer_table =
        MESSAGE_TABLE("EnvironmentLayer", struct environment_layer, layer_fields, .open = true);

static const struct message_field manifest_fields[] = {
        FIELD_TEXT(struct environment_manifest, env_hash, "envHash", 64, 64),
        FIELD_TEXT1(struct environment_manifest, e3_version, "e3Version"),
        FIELD_TEXT(struct environment_manifest, base_image, "baseImage", 0, INT64_MAX),
        FIELD_TEXT1(struct environment_manifest, base_tier, "baseTier"),
        FIELD_LIST(struct environment_manifest, layers, n_layers, "layers", &layer_table, 0,
                   LIMIT_ENVIRONMENT_LAYERS),
};

static bool manifest_holds(const void *message)
{
        const struct environment_manifest *m = message;

        for (size_t i = 0; i < m->n_layers; i++)
                if (environment_layer_hash(m->layers[i].digest).p == NULL)
                        return false;
        return lessor_object_hash_valid(m->env_hash);
}

const struct message_table environment_manifest_table =
        MESSAGE_TABLE("EnvironmentManifest", struct environment_manifest, manifest_fields, .open = true,
                      .holds = manifest_holds);

struct lessor_slice environment_layer_hash(struct lessor_slice digest)
{
        struct lessor_slice hash = {0};

        if (digest.n <= sizeof(DIGEST_PREFIX) - 1 ||
            memcmp(digest.p, DIGEST_PREFIX, sizeof(DIGEST_PREFIX) - 1) != 0)
                return hash;
        hash.p = digest.p + sizeof(DIGEST_PREFIX) - 1;
        hash.n = digest.n - (sizeof(DIGEST_PREFIX) - 1);
        return lessor_object_hash_valid(hash) ? hash : (struct lessor_slice){0};
}

int environment_manifest_read(struct lessor_slice text, struct lessor_arena *arena,
                              struct environment_manifest *ret_manifest)
{
        struct json *value;
        int e = json_read(text, arena, &value);

        return e < 0 ? e : message_read(&environment_manifest_table, value, arena, ret_manifest, NULL);
}

static int keep_layers_of(struct lessor_lease_store *s, const struct lessor_environment *row,
                          struct lessor_object_keeper *keeper)
{
        _cleanup_(lessor_arena_freep) struct lessor_arena *arena = lessor_arena_new();
        struct environment_manifest manifest;
        struct lessor_environment whole;
        int e;

        if (arena == NULL)
                return LESSOR_E_NOMEM;
        e = lessor_environment_resolve(s, row->env_hash, row->e3_version, arena, &whole, NULL);
        if (e == LESSOR_E_NOT_FOUND)
                return 0; /* it was removed meanwhile */
        if (e == 0)
                e = environment_manifest_read(whole.manifest, arena, &manifest);
        if (e == LESSOR_E_INVALID || e == LESSOR_E_MALFORMED || e == LESSOR_E_TOO_LARGE)
                return LESSOR_E_CORRUPT;
        for (size_t i = 0; e == 0 && i < manifest.n_layers; i++)
                e = keeper->keep(keeper, ENVIRONMENT_LAYERS_REPO,
                                 environment_layer_hash(manifest.layers[i].digest));
        return e;
}

int environment_layers_keep(struct lessor_lease_store *s, struct lessor_object_keeper *keeper)
{
        _cleanup_(lessor_arena_freep) struct lessor_arena *arena = lessor_arena_new();
        struct lessor_environment_list list;
        int e;

        if (arena == NULL)
                return LESSOR_E_NOMEM;
        e = lessor_environment_list(s, arena, &list, NULL);
        for (size_t i = 0; e == 0 && i < list.n; i++)
                e = keep_layers_of(s, &list.items[i], keeper);
        return e;
}
