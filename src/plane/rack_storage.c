/* SPDX-License-Identifier: MIT */
#include "base/encode.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/macro.h"
#include "http/offload.h"
#include "objects/io.h"
#include "plane/rack_closure.h"
#include "plane/rack_data.h"
#include "wire/env_manifest.h"

/*
 * What a lease's guest reads and writes (rack-protocol 6.6). The steps are in the section's order; those from
 * the sixth on are one operation of the lease store.
 */

#define NOT_HELD "this rack does not hold that lease"

/* Where in the answer a URL goes. */
struct url_place {
        struct lessor_slice *url;
};

/* One request under way. In the call's arena. */
struct storage {
        struct rack_call *call;
        const struct rack_storage_request *in;
        struct lessor_lease_holder holder;
        struct lessor_lease lease;
        struct lessor_slice origin;
        struct rack_storage_response out;
        struct lessor_transfer_need *needs; /* what is answered by URL: objects, then layers */
        size_t n_needs;
        struct url_place *urls; /* of each of them */
        struct rack_trouble trouble;
        int error;
};

/* --- Step 2: what may be read --- */

/* The lease with its event, which may have to be fetched from the disk. */
static int fetch_event(struct storage *s)
{
        struct lessor_ticket ticket = {0};
        int e = lessor_lease_hold(s->call->store, &s->holder, LESSOR_WITH_EVENT, s->call->arena, &s->lease,
                                  &ticket);

        rack_call_rests_on(s->call, ticket);
        return e;
}

static int look_up(struct storage *s, bool *ret_admitted, const char **problem)
{
        struct closure_cache *closures = s->call->plane->closures;
        int e = closure_cache_knows(closures, &s->lease.name) ? 0 : fetch_event(s);

        if (e == 0)
                e = closure_cache_admits(closures, &s->lease, s->in->need, s->in->n_need, s->call->arena,
                                         ret_admitted, problem);
        if (e == 0 || s->lease.has_event)
                return e;
        e = fetch_event(s); /* it was forgotten in between */
        return e < 0 ? e
                     : closure_cache_admits(closures, &s->lease, s->in->need, s->in->n_need, s->call->arena,
                                            ret_admitted, problem);
}

static int admit(struct storage *s)
{
        const char *problem = NULL;
        bool admitted = false;
        int e;

        if (s->in->n_need == 0)
                return 0;
        e = look_up(s, &admitted, &problem);
        if (e == LESSOR_E_NOT_HELD)
                return rack_trouble(s->call, &s->trouble, RACK_FORBIDDEN, NOT_HELD);
        if (e < 0 && problem != NULL && e != LESSOR_E_NOMEM && e != LESSOR_E_IO)
                return rack_trouble(s->call, &s->trouble, RACK_CONFLICT, "the closure cannot be read: %s",
                                    problem);
        if (e < 0)
                return e;
        if (!admitted) /* R096 */
                return rack_trouble(s->call, &s->trouble, RACK_FORBIDDEN,
                                    "an object that is needed is not in the lease's closure");
        return 0;
}

/* --- Step 3: descriptors --- */

/* The bytes of a small object. */
static int read_small(struct storage *s, struct lessor_slice hash, size_t size,
                      struct lessor_slice *ret_bytes)
{
        _cleanup_(object_io_close) int fd = -1;
        char *bytes = lessor_arena_alloc(s->call->arena, size);
        size_t n;
        int e;

        if (bytes == NULL)
                return LESSOR_E_NOMEM;
        e = lessor_object_open(s->call->plane->parts.objects, s->lease.name.repo, hash, &fd, NULL);
        if (e == 0)
                e = object_io_read(fd, bytes, size, 0, &n);
        if (e == 0 && n != size)
                e = LESSOR_E_CORRUPT;
        *ret_bytes = (struct lessor_slice){bytes, size};
        return e;
}

/* Has a URL made for an object or a layer, whose place in the answer is `url`. */
static void ask_url(struct storage *s, struct lessor_slice hash, bool layer, struct lessor_slice *url)
{
        s->urls[s->n_needs].url = url;
        s->needs[s->n_needs++] = (struct lessor_transfer_need){hash, layer};
}

static int describe(struct storage *s)
{
        const struct rack_storage_request *in = s->in;
        size_t inline_left = LIMIT_RACK_INLINE_ANSWER;
        int64_t *sizes = lessor_arena_array(s->call->arena, in->n_need, sizeof(*sizes));
        int e;

        s->out.objects = lessor_arena_array(s->call->arena, in->n_need, sizeof(*s->out.objects));
        if (sizes == NULL || s->out.objects == NULL)
                return LESSOR_E_NOMEM;
        e = in->n_need == 0 ? 0
                            : lessor_object_sizes(s->call->plane->parts.objects, s->lease.name.repo, in->need,
                                                  in->n_need, sizes);
        for (size_t i = 0; e == 0 && i < in->n_need; i++) {
                struct rack_object_descriptor *object = &s->out.objects[s->out.n_objects++];

                if (sizes[i] < 0)
                        return rack_trouble(s->call, &s->trouble, RACK_CONFLICT,
                                            "object %.*s of the closure is missing", (int)in->need[i].n,
                                            in->need[i].p);
                if (sizes[i] <= RACK_INLINE_BYTES && (size_t)sizes[i] <= inline_left) { /* R098 */
                        inline_left -= (size_t)sizes[i];
                        object->kind = RACK_DESCRIPTOR_INLINE;
                        object->inlined.hash = in->need[i];
                        e = read_small(s, in->need[i], (size_t)sizes[i], &object->inlined.data);
                } else {
                        object->kind = RACK_DESCRIPTOR_URL;
                        object->url.hash = in->need[i];
                        ask_url(s, in->need[i], false, &object->url.url);
                }
        }
        return e;
}

/* --- Step 5: the environment --- */

static int read_environment(struct storage *s)
{
        const struct rack_options *options = &s->call->plane->options;
        struct lessor_slice version = options->e3_version.p == NULL ? LESSOR_SLICE("") : options->e3_version;
        struct lessor_environment environment = {0};
        struct env_manifest manifest = {0};
        struct lessor_ticket ticket = {0};
        int e = lessor_environment_resolve(s->call->store, s->in->env_manifest, version, s->call->arena,
                                           &environment, &ticket);

        rack_call_rests_on(s->call, ticket);
        if (e == LESSOR_E_NOT_FOUND) /* R120 */
                return rack_trouble(s->call, &s->trouble, RACK_NOT_FOUND,
                                    "that environment is not published");
        if (e == 0)
                e = env_manifest_read(environment.manifest, s->call->arena, &manifest, NULL);
        if (e < 0)
                return e == LESSOR_E_INVALID || e == LESSOR_E_MALFORMED ? LESSOR_E_CORRUPT : e;
        s->out.env = lessor_arena_alloc(s->call->arena, sizeof(*s->out.env));
        if (s->out.env == NULL)
                return LESSOR_E_NOMEM;
        s->out.env->manifest_json = environment.manifest;
        s->out.env->layers =
                lessor_arena_array(s->call->arena, manifest.n_layers, sizeof(*s->out.env->layers));
        if (s->out.env->layers == NULL)
                return LESSOR_E_NOMEM;
        for (size_t i = 0; i < manifest.n_layers; i++) /* R121 */
                s->out.env->layers[s->out.env->n_layers++] = (struct rack_env_layer){
                        .digest = manifest.layers[i].digest, .size_bytes = manifest.layers[i].size_bytes};
        return 0;
}

static int environment(struct storage *s)
{
        if (s->in->env_manifest.p == NULL)
                return 0;
        if (s->lease.environment.p == NULL ||
            !lessor_slice_equal(s->lease.environment, s->in->env_manifest)) /* R119 */
                return rack_trouble(s->call, &s->trouble, RACK_FORBIDDEN,
                                    "that is not the environment of the lease");
        return read_environment(s);
}

/* --- Steps 6 to 11: what is written, and the capabilities --- */

/* What the object store has of the outputs already; it references them again. Too many, or of a function:
 * the lease store refuses them. */
static int look_at_outputs(struct storage *s, struct lessor_transfer_output *outputs)
{
        const struct rack_storage_request *in = s->in;
        struct lessor_slice hashes[LIMIT_RACK_TRANSFERS];
        int64_t sizes[LIMIT_RACK_TRANSFERS];
        int e;

        for (size_t i = 0; i < in->n_outputs; i++)
                outputs[i].object = (struct lessor_object_size){in->outputs[i].hash, in->outputs[i].size};
        if (in->n_outputs == 0 || in->n_outputs > LIMIT_RACK_TRANSFERS ||
            in->n_commits > LIMIT_RACK_TRANSFERS || s->lease.mode == LESSOR_LEASE_FUNCTION)
                return 0;
        for (size_t i = 0; i < in->n_outputs; i++)
                hashes[i] = in->outputs[i].hash;
        e = lessor_object_touch(s->call->plane->parts.objects, s->lease.name.repo, hashes, in->n_outputs,
                                sizes);
        for (size_t i = 0; e == 0 && i < in->n_outputs; i++) {
                outputs[i].stored = sizes[i] >= 0;
                outputs[i].stored_size = sizes[i];
        }
        return e;
}

static const char *words_of(int e)
{
        switch (e) {
        case LESSOR_E_TOO_LARGE:
                return "more than 256 outputs or commits in one request";
        case LESSOR_E_INVALID:
                return "a hash or size of an output or commit is not valid";
        case LESSOR_E_SIZE_CHANGED:
                return "an output was declared, or is stored, with another size";
        case LESSOR_E_TARGET_LIMIT:
                return "the lease has declared 4,096 outputs already";
        case LESSOR_E_PERMISSION:
                return "the lease may not write";
        default:
                return NULL;
        }
}

static enum rack_refusal refusal_of(int e)
{
        return e == LESSOR_E_PERMISSION                                   ? RACK_FORBIDDEN
               : e == LESSOR_E_SIZE_CHANGED || e == LESSOR_E_TARGET_LIMIT ? RACK_CONFLICT
                                                                          : RACK_BAD_REQUEST;
}

/*
 * One step for all. With commits it waits until they are on the disk, since the bytes are moved on the
 * strength of it.
 */
static int transfer(struct storage *s, struct lessor_transfer_answer *ret_answer)
{
        const struct rack_storage_request *in = s->in;
        struct lessor_transfer_request request = {.holder = s->holder,
                                                  .needs = s->needs,
                                                  .n_needs = s->n_needs,
                                                  .n_outputs = in->n_outputs,
                                                  .n_commits = in->n_commits};
        struct lessor_object_size staged;
        struct lessor_transfer_output *outputs =
                lessor_arena_array(s->call->arena, in->n_outputs, sizeof(*outputs));
        struct lessor_transfer_commit *commits =
                lessor_arena_array(s->call->arena, in->n_commits, sizeof(*commits));
        struct lessor_ticket ticket = {0};
        int e;

        if (outputs == NULL || commits == NULL)
                return LESSOR_E_NOMEM;
        if (in->output != NULL) {
                staged = (struct lessor_object_size){in->output->hash, in->output->size};
                request.staged = &staged;
        }
        e = look_at_outputs(s, outputs);
        if (e < 0)
                return e;
        for (size_t i = 0; i < in->n_commits; i++)
                commits[i] = (struct lessor_transfer_commit){{in->commits[i].hash, in->commits[i].size},
                                                             in->commits[i].version};
        request.outputs = outputs;
        request.commits = commits;
        e = lessor_lease_transfer(s->call->store, &request, s->call->arena, ret_answer,
                                  in->n_commits > 0 ? NULL : &ticket);
        rack_call_rests_on(s->call, ticket);
        if (e < 0 && words_of(e) != NULL)
                return rack_trouble(s->call, &s->trouble, refusal_of(e), "%s", words_of(e));
        return e;
}

/*
 * Makes objects of the uploads whose commit was granted, before anybody hears of it (R114). A version that is
 * gone although it was committed must have become an object.
 */
static int move_committed(struct storage *s, const bool *granted)
{
        struct lessor_object_store *objects = s->call->plane->parts.objects;
        const struct rack_storage_request *in = s->in;
        struct lessor_object_version versions[LIMIT_RACK_TRANSFERS];
        bool moved[LIMIT_RACK_TRANSFERS];
        char claim[RACK_CLAIM_TEXT];
        const struct lessor_object_stage stage = rack_stage(&s->lease.name, s->lease.claim_number, claim);
        size_t n = 0;
        int e;

        for (size_t i = 0; i < in->n_commits; i++)
                if (granted[i])
                        versions[n++] = (struct lessor_object_version){
                                in->commits[i].hash, in->commits[i].size, in->commits[i].version};
        e = n == 0 ? 0 : lessor_object_commit(objects, &stage, versions, n, moved);
        for (size_t i = 0; e == 0 && i < n; i++) {
                int64_t size = -1;

                if (!moved[i])
                        e = lessor_object_touch(objects, stage.repo, &versions[i].hash, 1, &size);
                if (e == 0 && !moved[i] && size != versions[i].size)
                        e = LESSOR_E_CORRUPT;
        }
        return e == LESSOR_E_NOT_FOUND ? LESSOR_E_CORRUPT : e; /* of a directory: not the rack's mistake */
}

static int put_committed(struct storage *s, const bool *committed)
{
        s->out.committed = lessor_arena_array(s->call->arena, s->in->n_commits, sizeof(*s->out.committed));
        if (s->out.committed == NULL)
                return LESSOR_E_NOMEM;
        for (size_t i = 0; committed != NULL && i < s->in->n_commits; i++)
                s->out.committed[s->out.n_committed++] =
                        (struct rack_object_committed){s->in->commits[i].hash, committed[i]};
        return 0;
}

/* --- The answer --- */

static int url_of(struct storage *s, struct lessor_slice id, struct lessor_slice *ret_url)
{
        _cleanup_(buf_done) struct buf url;

        buf_init(&url);
        buf_slice(&url, s->origin);
        buf_text(&url, RACK_DATA_PATH);
        buf_slice(&url, id);
        return buf_failed(&url) < 0 ? LESSOR_E_NOMEM
                                    : lessor_arena_copy(s->call->arena, buf_view(&url), ret_url);
}

/* The SHA-256 that a PUT is bound to, as its header has it. */
static int checksum_header(struct storage *s, struct lessor_slice hash, struct rack_put *put)
{
        _cleanup_(buf_done) struct buf text;
        unsigned char bytes[32];

        buf_init(&text);
        put->headers = lessor_arena_array(s->call->arena, 1, sizeof(*put->headers));
        if (put->headers == NULL || !hex_read(hash, bytes, sizeof(bytes)) ||
            base64_append(&text, bytes, sizeof(bytes)) < 0)
                return LESSOR_E_NOMEM;
        put->n_headers = 1;
        put->headers[0].name = LESSOR_SLICE("x-amz-checksum-sha256");
        return lessor_arena_copy(s->call->arena, buf_view(&text), &put->headers[0].value);
}

static int put_targets(struct storage *s, const struct lessor_slice *ids)
{
        int e = 0;

        s->out.targets = lessor_arena_array(s->call->arena, s->in->n_outputs, sizeof(*s->out.targets));
        if (s->out.targets == NULL)
                return LESSOR_E_NOMEM;
        for (size_t i = 0; e == 0 && i < s->in->n_outputs; i++) { /* R101 */
                struct rack_object_target *target = &s->out.targets[s->out.n_targets++];

                target->hash = s->in->outputs[i].hash;
                target->target.kind = ids[i].p == NULL ? RACK_TARGET_HELD : RACK_TARGET_PUT; /* R102 */
                if (ids[i].p == NULL)
                        continue;
                e = url_of(s, ids[i], &target->target.put.url);
                if (e == 0)
                        e = checksum_header(s, target->hash, &target->target.put);
        }
        return e;
}

static int put_staged(struct storage *s, struct lessor_slice id)
{
        if (s->in->output == NULL)
                return 0;
        s->out.output = lessor_arena_alloc(s->call->arena, sizeof(*s->out.output));
        if (s->out.output == NULL)
                return LESSOR_E_NOMEM;
        s->out.output->upload_id = id;
        return url_of(s, id, &s->out.output->url);
}

static int put_urls(struct storage *s, const struct lessor_slice *ids)
{
        int e = 0;

        for (size_t i = 0; e == 0 && i < s->n_needs; i++)
                e = url_of(s, ids[i], s->urls[i].url);
        return e;
}

/* --- The whole --- */

/* Layers come after objects, when all of these are known. */
static int make_room_for_urls(struct storage *s, size_t n)
{
        s->needs = lessor_arena_array(s->call->arena, n, sizeof(*s->needs));
        s->urls = lessor_arena_array(s->call->arena, n, sizeof(*s->urls));
        return s->needs == NULL || s->urls == NULL ? LESSOR_E_NOMEM : 0;
}

static int read_steps(struct storage *s)
{
        struct lessor_transfer_need *objects;
        struct url_place *urls;
        size_t n_layers;
        int e = admit(s);

        if (e == 0)
                e = make_room_for_urls(s, s->in->n_need);
        if (e == 0)
                e = describe(s);
        if (e == 0)
                e = environment(s);
        n_layers = s->out.env == NULL ? 0 : s->out.env->n_layers;
        if (e < 0 || n_layers == 0)
                return e;
        objects = s->needs;
        urls = s->urls;
        e = make_room_for_urls(s, s->n_needs + n_layers);
        if (e < 0)
                return e;
        memcpy(s->needs, objects, s->n_needs * sizeof(*objects));
        memcpy(s->urls, urls, s->n_needs * sizeof(*urls));
        for (size_t i = 0; i < n_layers; i++)
                ask_url(s, s->out.env->layers[i].digest, true, &s->out.env->layers[i].url);
        return 0;
}

static int serve(struct storage *s)
{
        struct lessor_transfer_answer answer = {0};
        int e = read_steps(s);

        if (e == 0)
                e = transfer(s, &answer);
        if (e == 0)
                e = move_committed(s, answer.committed);
        if (e == 0)
                e = put_urls(s, answer.need_ids);
        if (e == 0)
                e = put_staged(s, answer.staged_id);
        if (e == 0)
                e = put_targets(s, answer.output_ids);
        return e < 0 ? e : put_committed(s, answer.committed);
}

static void work(void *context)
{
        struct storage *s = context;

        s->error = serve(s);
}

static void done(struct http_request *http, void *context)
{
        struct storage *s = context;

        (void)http;
        if (s->error < 0)
                rack_refuse_trouble(s->call, &s->trouble, s->error);
        else
                rack_answer(s->call, &s->out);
}

/* Step 1, and what is needed for all that follows. Returns 0 or a code. */
static int begin(struct rack_call *call, const struct rack_storage_request *in, struct storage *s)
{
        struct lessor_ticket ticket = {0};
        int e;

        s->call = call;
        s->in = in;
        s->holder = rack_call_holder(call, in->repo, in->lease_id, in->attempt);
        e = lessor_lease_hold(call->store, &s->holder, 0, call->arena, &s->lease, &ticket);
        rack_call_rests_on(call, ticket);
        if (e == LESSOR_E_NOT_HELD) /* R095 */
                return rack_trouble(call, &s->trouble, RACK_FORBIDDEN, NOT_HELD);
        if (e == 0 && s->lease.event_version != LESSOR_EVENT_VERSION)
                return rack_trouble(call, &s->trouble, RACK_FORBIDDEN, "the lease's event is not version 2");
        if (e == 0)
                e = rack_call_origin(call, &s->origin);
        if (e == 0 && s->origin.p == NULL)
                return rack_trouble(call, &s->trouble, RACK_BAD_REQUEST, "the request has no Host");
        return e;
}

void rack_serve_storage(struct rack_call *call, const void *request)
{
        struct storage *s = lessor_arena_alloc(call->arena, sizeof(*s));
        int e;

        if (s == NULL) {
                rack_refuse_error(call, LESSOR_E_UNAVAILABLE);
                return;
        }
        e = begin(call, request, s);
        if (e < 0)
                rack_refuse_trouble(call, &s->trouble, e);
        else
                http_offload(call->http, work, done, s);
}
