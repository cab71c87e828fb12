/* SPDX-License-Identifier: MIT */
#include "base/limits.h"
#include "base/macro.h"
#include "http/offload.h"
#include "plane/collection.h"
#include "plane/control_upload.h"
#include "plane/rack.h"
#include "wire/env_manifest.h"

/*
 * Published environments (rack-protocol 12): layers first, then the manifest and the row that leads to it, so
 * that a rack which finds an environment finds all of it.
 */

#define MEDIA_TYPE "application/vnd.oci.image.layer.v1.tar+gzip"

struct publish_layer {
        struct lessor_slice digest;
        struct lessor_slice media_type; /* absent: MEDIA_TYPE */
};

struct publish_body {
        struct lessor_slice env_hash;
        struct lessor_slice e3_version;
        struct lessor_slice base_image;
        struct lessor_slice base_tier;
        struct publish_layer *layers;
        size_t n_layers;
};

struct name_body {
        struct lessor_slice env_hash;
        struct lessor_slice e3_version;
};

static const struct message_field layer_fields[] = {
        FIELD_TEXT1(struct publish_layer, digest, "digest"),
        FIELD_TEXT1(struct publish_layer, media_type, "mediaType", .flags = MESSAGE_OPTIONAL),
};
static const struct message_table layer_table =
        MESSAGE_TABLE("EnvironmentLayer", struct publish_layer, layer_fields);

static const struct message_field publish_fields[] = {
        FIELD_TEXT(struct publish_body, env_hash, "envHash", 64, 64),
        FIELD_TEXT1(struct publish_body, e3_version, "e3Version"),
        FIELD_TEXT1(struct publish_body, base_image, "baseImage"),
        FIELD_TEXT1(struct publish_body, base_tier, "baseTier"),
        FIELD_LIST(struct publish_body, layers, n_layers, "layers", &layer_table, 0,
                   LIMIT_ENVIRONMENT_LAYERS),
};
const struct message_table control_environment_publish_body =
        MESSAGE_TABLE("EnvironmentPublish", struct publish_body, publish_fields);

static const struct message_field name_fields[] = {
        FIELD_TEXT1(struct name_body, env_hash, "envHash"),
        FIELD_TEXT1(struct name_body, e3_version, "e3Version"),
};
const struct message_table control_environment_name_body =
        MESSAGE_TABLE("EnvironmentName", struct name_body, name_fields);

static const struct control_words words[] = {
        {LESSOR_E_NOT_FOUND, "environment {} is not published for that version"},
        {LESSOR_E_MISMATCH, "these are other bytes than the digest says; nothing is kept"},
        {LESSOR_E_TOO_LARGE, "a layer has at most 5368709120 bytes"},
        {0},
};

/* --- Layers --- */

static void answer_layer(struct control_call *call, const struct control_upload *upload)
{
        struct buf json = {0};
        struct buf digest = {0};
        struct json_writer w;

        buf_text(&digest, "sha256:");
        buf_slice(&digest, upload->written.hash);
        json_writer_init(&w, &json);
        json_open_object(&w);
        json_member_bool(&w, "ok", true);
        json_member_text(&w, "digest", buf_view(&digest));
        json_member_int(&w, "sizeBytes", upload->written.size);
        json_member_bool(&w, "existed", upload->written.was_there);
        json_close_object(&w);
        buf_done(&digest);
        control_answer(call, &json);
}

void control_environment_layer_put(struct control_call *call, const void *body)
{
        struct control_upload *upload = lessor_arena_alloc(call->arena, sizeof(*upload));
        struct lessor_slice digest;

        (void)body;
        if (upload == NULL) {
                control_refuse_error(call, LESSOR_E_NOMEM, NULL, (struct lessor_slice){0});
                return;
        }
        upload->store = control_objects(call);
        if (upload->store == NULL || !control_query(call, "digest", &digest))
                return;
        upload->repo = LESSOR_SLICE(RACK_LAYER_REPO);
        upload->hash = env_layer_hash(digest);
        if (digest.p != NULL && upload->hash.p == NULL) {
                control_refuse(call, 400, "invalid", "a digest is sha256: and 64 lower-case hex digits");
                return;
        }
        upload->answer = answer_layer;
        upload->words = words;
        control_upload_receive(call, upload);
}

/* --- Publishing --- */

struct publication {
        struct control_call *call;
        struct lessor_object_store *objects;
        struct lessor_lease_store *leases;
        const struct publish_body *body;
        struct lessor_slice *hashes;
        int64_t *sizes;
        int result;
};

/* References the layers, which the environment's row will keep from then on. */
static void touch_layers(void *context)
{
        struct publication *p = context;

        p->result = lessor_object_touch(p->objects, LESSOR_SLICE(RACK_LAYER_REPO), p->hashes,
                                        p->body->n_layers, p->sizes);
}

static bool has_all_layers(const struct publication *p)
{
        for (size_t i = 0; i < p->body->n_layers; i++) {
                if (p->sizes[i] >= 0)
                        continue;
                control_refuse(p->call, 404, "not-found", "there is no layer %.*s; put it first",
                               (int)p->body->layers[i].digest.n, p->body->layers[i].digest.p);
                return false;
        }
        return true;
}

static void write_manifest(const struct publication *p, struct buf *out)
{
        const struct publish_body *in = p->body;
        struct json_writer w;

        json_writer_init(&w, out);
        json_open_object(&w);
        json_member_text(&w, "envHash", in->env_hash);
        json_member_text(&w, "e3Version", in->e3_version);
        json_member_text(&w, "baseImage", in->base_image);
        json_member_text(&w, "baseTier", in->base_tier);
        json_key(&w, "layers");
        json_open_array(&w);
        for (size_t i = 0; i < in->n_layers; i++) {
                struct lessor_slice media_type = in->layers[i].media_type;

                json_open_object(&w);
                json_member_text(&w, "digest", in->layers[i].digest);
                json_member_int(&w, "sizeBytes", p->sizes[i]);
                json_member_text(&w, "mediaType",
                                 media_type.p == NULL ? LESSOR_SLICE(MEDIA_TYPE) : media_type);
                json_close_object(&w);
        }
        json_close_array(&w);
        json_close_object(&w);
}

/* A row; with its manifest, if that was asked for. */
static void put_environment(struct json_writer *w, const struct lessor_environment *e)
{
        json_open_object(w);
        json_member_text(w, "envHash", e->env_hash);
        json_member_text(w, "e3Version", e->e3_version);
        json_member_text(w, "baseImage", e->base_image);
        json_member_text(w, "baseTier", e->base_tier);
        json_member_int(w, "layers", e->n_layers);
        json_member_int(w, "publishedAt", e->published_ms);
        json_member_raw(w, "manifest", e->manifest);
        json_close_object(w);
}

static void answer_environment(struct control_call *call, struct lessor_lease_store *leases,
                               struct lessor_slice env_hash, struct lessor_slice e3_version)
{
        struct lessor_environment found;
        struct lessor_ticket ticket = {0};
        struct buf json = {0};
        struct json_writer w;
        int e = lessor_environment_resolve(leases, env_hash, e3_version, call->arena, &found, &ticket);

        control_rests_on(call, ticket);
        if (e < 0) {
                control_refuse_error(call, e, words, env_hash);
                return;
        }
        json_writer_init(&w, &json);
        json_open_object(&w);
        json_key(&w, "environment");
        put_environment(&w, &found);
        json_close_object(&w);
        control_answer(call, &json);
}

static void publish(struct http_request *http, void *context)
{
        struct publication *p = context;
        const struct publish_body *in = p->body;
        _cleanup_(buf_done) struct buf manifest = {0}, key = {0};
        struct lessor_ticket ticket = {0};
        int e = p->result;

        (void)http;
        if (e == 0 && !has_all_layers(p))
                return;
        write_manifest(p, &manifest);
        buf_printf(&key, "environments/%.*s/%.*s/manifest.json", (int)in->env_hash.n, in->env_hash.p,
                   (int)in->e3_version.n, in->e3_version.p);
        if (e == 0 && (buf_failed(&manifest) < 0 || buf_failed(&key) < 0))
                e = LESSOR_E_NOMEM;
        if (e == 0)
                e = lessor_environment_publish(
                        p->leases,
                        &(struct lessor_environment){.env_hash = in->env_hash,
                                                     .e3_version = in->e3_version,
                                                     .base_image = in->base_image,
                                                     .base_tier = in->base_tier,
                                                     .manifest_key = buf_view(&key),
                                                     .manifest = buf_view(&manifest),
                                                     .n_layers = (int64_t)in->n_layers},
                        &ticket);
        control_rests_on(p->call, ticket);
        if (e < 0)
                control_refuse_error(p->call, e, words, in->env_hash);
        else
                answer_environment(p->call, p->leases, in->env_hash, in->e3_version);
}

static bool read_layers(struct publication *p)
{
        const struct publish_body *in = p->body;

        p->hashes = lessor_arena_array(p->call->arena, in->n_layers, sizeof(*p->hashes));
        p->sizes = lessor_arena_array(p->call->arena, in->n_layers, sizeof(*p->sizes));
        if (p->hashes == NULL || p->sizes == NULL) {
                control_refuse_error(p->call, LESSOR_E_NOMEM, NULL, (struct lessor_slice){0});
                return false;
        }
        for (size_t i = 0; i < in->n_layers; i++) {
                p->hashes[i] = env_layer_hash(in->layers[i].digest);
                if (p->hashes[i].p != NULL)
                        continue;
                control_refuse(p->call, 400, "invalid", "a digest is sha256: and 64 lower-case hex digits");
                return false;
        }
        return true;
}

void control_environment_publish(struct control_call *call, const void *body)
{
        struct publication *p = lessor_arena_alloc(call->arena, sizeof(*p));

        if (p == NULL) {
                control_refuse_error(call, LESSOR_E_NOMEM, NULL, (struct lessor_slice){0});
                return;
        }
        p->call = call;
        p->body = body;
        p->objects = control_objects(call);
        if (p->objects == NULL)
                return;
        p->leases = call->parts->rack->parts.store;
        if (!lessor_object_hash_valid(p->body->env_hash))
                control_refuse(call, 400, "invalid", "`envHash` is 64 lower-case hex digits");
        else if (read_layers(p))
                http_offload(call->http, touch_layers, publish, p);
}

/* --- What there is --- */

static void list(struct control_call *call, struct lessor_lease_store *leases)
{
        struct lessor_environment_list found;
        struct lessor_ticket ticket = {0};
        struct buf json = {0};
        struct json_writer w;
        int e = lessor_environment_list(leases, call->arena, &found, &ticket);

        control_rests_on(call, ticket);
        if (e < 0) {
                control_refuse_error(call, e, NULL, (struct lessor_slice){0});
                return;
        }
        json_writer_init(&w, &json);
        json_open_object(&w);
        json_key(&w, "environments");
        json_open_array(&w);
        for (size_t i = 0; i < found.n; i++)
                put_environment(&w, &found.items[i]);
        json_close_array(&w);
        json_close_object(&w);
        control_answer(call, &json);
}

void control_environment_get(struct control_call *call, const void *body)
{
        struct lessor_lease_store *leases = control_leases(call);
        struct lessor_slice env, version;

        (void)body;
        if (leases == NULL || !control_query(call, "env", &env) || !control_query(call, "version", &version))
                return;
        if (env.p == NULL && version.p == NULL)
                list(call, leases);
        else if (env.p == NULL || version.p == NULL)
                control_refuse(call, 400, "invalid", "name the environment: ?env=HASH&version=VERSION");
        else
                answer_environment(call, leases, env, version);
}

void control_environment_remove(struct control_call *call, const void *body)
{
        struct lessor_lease_store *leases = control_leases(call);
        const struct name_body *in = body;
        struct lessor_ticket ticket = {0};
        int e;

        if (leases == NULL)
                return;
        e = lessor_environment_remove(leases, in->env_hash, in->e3_version, &ticket);
        control_rests_on(call, ticket);
        control_done(call, e, words, in->env_hash);
}
