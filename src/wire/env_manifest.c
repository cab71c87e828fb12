/* SPDX-License-Identifier: MIT */
#include "wire/env_manifest.h"

#include "base/json_read.h"
#include "base/limits.h"
#include "base/macro.h"

static const struct message_field layer_fields[] = {
        FIELD_TEXT1(struct env_layer, digest, "digest"),
        FIELD_INT(struct env_layer, size_bytes, "sizeBytes", 0, LIMIT_RACK_OBJECT_BYTES),
        FIELD_TEXT(struct env_layer, media_type, "mediaType", 0, INT64_MAX, .flags = MESSAGE_OPTIONAL),
};
static const struct message_table layer_table =
        MESSAGE_TABLE("EnvLayer", struct env_layer, layer_fields, .open = true);

static const struct message_field manifest_fields[] = {
        FIELD_TEXT(struct env_manifest, env_hash, "envHash", 64, 64),
        FIELD_TEXT1(struct env_manifest, e3_version, "e3Version"),
        FIELD_TEXT1(struct env_manifest, base_image, "baseImage"),
        FIELD_TEXT1(struct env_manifest, base_tier, "baseTier"),
        FIELD_LIST(struct env_manifest, layers, n_layers, "layers", &layer_table, 0,
                   LIMIT_ENVIRONMENT_LAYERS),
};
const struct message_table env_manifest_table =
        MESSAGE_TABLE("EnvManifest", struct env_manifest, manifest_fields, .open = true);

static bool is_hash(struct lessor_slice text)
{
        if (text.n != 64)
                return false;
        for (size_t i = 0; i < text.n; i++)
                if (!((text.p[i] >= '0' && text.p[i] <= '9') || (text.p[i] >= 'a' && text.p[i] <= 'f')))
                        return false;
        return true;
}

struct lessor_slice env_layer_hash(struct lessor_slice digest)
{
        static const struct lessor_slice scheme = {"sha256:", 7};
        struct lessor_slice hash;

        if (digest.n < scheme.n || memcmp(digest.p, scheme.p, scheme.n) != 0)
                return (struct lessor_slice){0};
        hash = (struct lessor_slice){digest.p + scheme.n, digest.n - scheme.n};
        return is_hash(hash) ? hash : (struct lessor_slice){0};
}

/* What the table cannot say. */
static const char *check(struct env_manifest *manifest)
{
        if (!is_hash(manifest->env_hash))
                return "envHash: must be a SHA-256 in lower-case hex";
        for (size_t i = 0; i < manifest->n_layers; i++) {
                struct env_layer *layer = &manifest->layers[i];

                layer->hash = env_layer_hash(layer->digest);
                if (layer->hash.p == NULL)
                        return "layers: a digest must be sha256: and 64 lower-case hex digits";
        }
        return NULL;
}

int env_manifest_read(struct lessor_slice json, struct lessor_arena *arena, struct env_manifest *ret_manifest,
                      const char **ret_problem)
{
        struct env_manifest manifest = {0};
        const char *problem = NULL;
        struct json *value;
        int e = json_read(json, arena, &value);

        if (e == 0)
                e = message_read(&env_manifest_table, value, arena, &manifest, &problem);
        if (e == 0) {
                problem = check(&manifest);
                e = problem == NULL ? 0 : LESSOR_E_INVALID;
        }
        if (e == 0)
                *ret_manifest = manifest;
        else if (ret_problem != NULL)
                *ret_problem = problem == NULL ? lessor_error_text(e) : problem;
        return e;
}
