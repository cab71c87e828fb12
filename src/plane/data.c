/* SPDX-License-Identifier: MIT */
#include <stdio.h>

#include "base/encode.h"
#include "base/json_write.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/macro.h"
#include "http/file_answer.h"
#include "http/upload.h"
#include "objects/io.h"
#include "plane/collection.h"
#include "plane/rack_data.h"
#include "wire/env_manifest.h"

/* Capability URLs: the bytes of objects, in and out (rack-protocol 7). The URL is all that a caller has. */

/* A hash in quotes. */
#define ETAG_LEN 66

/* One transfer. In the request's arena. */
struct transfer {
        struct rack_plane *plane;
        struct lessor_capability capability;
        /* Of a PUT: what the thread uses that writes. */
        struct lessor_arena *arena;
        struct lessor_object_writer *writer;
        struct lessor_slice receipt; /* what is answered */
};

/* --- Refusing --- */

static void refuse(struct http_request *http, unsigned status, const char *code, const char *message)
{
        struct buf body = {0};
        struct json_writer w;

        json_writer_init(&w, &body);
        json_open_object(&w);
        json_member_cstr(&w, "error", code);
        json_member_cstr(&w, "message", message);
        json_close_object(&w);
        if (status == 503)
                (void)http_answer_header(http, "Retry-After", "1");
        http_answer(http, status, "application/json", &body);
}

static void refuse_unknown(struct http_request *http)
{
        refuse(http, 404, "not_found", "that URL is not valid any more, or never was");
}

static void refuse_error(struct http_request *http, int error)
{
        switch (error) {
        case LESSOR_E_NOT_FOUND:
        case LESSOR_E_ABORTED: /* the lease ended meanwhile */
                refuse_unknown(http);
                break;
        case LESSOR_E_MISMATCH:
        case LESSOR_E_TOO_LARGE:
        case LESSOR_E_CLOSED:
                refuse(http, 400, "bad_request", "the bytes are not those that were declared");
                break;
        case LESSOR_E_TIMEOUT:
                refuse(http, 408, "timeout", "the transfer took too long");
                break;
        case LESSOR_E_NOMEM:
        case LESSOR_E_FULL:
        case LESSOR_E_LOW_SPACE:
        case LESSOR_E_UNAVAILABLE:
                refuse(http, 503, "unavailable", lessor_error_text(error));
                break;
        default:
                log_error("transfer-failed", LOG_ERROR_CODE(error));
                refuse(http, 500, "internal", "the transfer failed");
                break;
        }
}

/* --- Admission, before any byte of a body --- */

static struct lessor_slice id_of(const struct http_request *http)
{
        const size_t n = sizeof(RACK_DATA_PATH) - 1;

        return (struct lessor_slice){http->path.p + n, http->path.n - n};
}

/* Finds the capability, and has the transfer broken off when it dies. Returns 0 or a code. */
static int open_capability(struct http_request *http, struct transfer *t, bool write)
{
        struct lessor_lease_store *store = t->plane->parts.store;
        struct lessor_capability again;
        struct lessor_ticket ticket;
        int e;

        e = lessor_capability_open(store, id_of(http), write, http->arena, &t->capability, &ticket);
        if (e == 0)
                e = transfers_add(t->plane->transfers, http, &t->capability);
        /* Once more, since it may have died before the transfer was known. */
        return e < 0 ? e : lessor_capability_open(store, id_of(http), write, http->arena, &again, &ticket);
}

/* The lesser of 600 s and the capability's remaining life, on real time. */
static int limit_time(struct http_request *http, const struct transfer *t)
{
        int64_t now_ms, left_ms = LIMIT_RACK_TRANSFER_MS;
        int e = lessor_lease_now(t->plane->parts.store, &now_ms);

        if (e < 0)
                return e;
        if (t->capability.expires_ms - now_ms < left_ms)
                left_ms = t->capability.expires_ms - now_ms;
        if (left_ms <= 0)
                return LESSOR_E_NOT_FOUND; /* R117 */
        http_deadline(http, left_ms);
        return 0;
}

/* Of a request that is for `method`: the transfer, or NULL when it was refused. */
static struct transfer *admit(struct http_request *http, struct rack_plane *plane, struct lessor_slice method)
{
        struct transfer *t;
        int e;

        if (http_header(http, "authorization").p != NULL) { /* R118, before all else */
                refuse(http, 400, "bad_request", "a URL like this takes no Authorization");
                return NULL;
        }
        if (!lessor_slice_equal(http->method, method)) { /* R118 */
                refuse_unknown(http);
                return NULL;
        }
        t = lessor_arena_alloc(http->arena, sizeof(*t));
        if (t == NULL) {
                refuse_error(http, LESSOR_E_NOMEM);
                return NULL;
        }
        t->plane = plane;
        e = open_capability(http, t, lessor_slice_equal(method, LESSOR_SLICE("PUT")));
        if (e < 0) { /* R116, R117 */
                refuse_error(http, e);
                return NULL;
        }
        http->admitted = t;
        return t;
}

/* --- GET --- */

static void admit_get(struct http_request *http, void *context)
{
        admit(http, context, LESSOR_SLICE("GET"));
}

const struct http_gate rack_data_gate = {.admit = admit_get};

void rack_data_get(struct http_request *http, void *context)
{
        const struct transfer *t = http->admitted;
        struct lessor_slice repo = t->capability.name.repo, hash = t->capability.hash;
        char etag[ETAG_LEN + 1];
        int64_t size;
        int fd, e;

        (void)context;
        if (t->capability.kind == LESSOR_CAPABILITY_GET_LAYER) {
                repo = LESSOR_SLICE(RACK_LAYER_REPO);
                hash = env_layer_hash(hash);
        }
        e = lessor_object_open(t->plane->parts.objects, repo, hash, &fd, &size);
        if (e < 0) {
                refuse_error(http, e == LESSOR_E_INVALID ? LESSOR_E_NOT_FOUND : e);
                return;
        }
        snprintf(etag, sizeof(etag), "\"%.64s\"", hash.p);
        e = limit_time(http, t);
        if (e < 0) {
                object_io_close(&fd);
                refuse_error(http, e);
                return;
        }
        http_answer_ranges(http, "application/octet-stream", fd, (uint64_t)size, etag); /* R100 */
}

/* --- PUT --- */

/* What a client may say about the bytes beside sending them: it must be what was declared. */
static bool checksum_agrees(struct http_request *http, struct lessor_slice hash)
{
        struct lessor_slice header = http_header(http, "x-amz-checksum-sha256"), bytes;
        unsigned char declared[32];

        if (header.p == NULL)
                return true;
        return base64_read_strict(header, http->arena, &bytes) == 0 && bytes.n == sizeof(declared) &&
               hex_read(hash, declared, sizeof(declared)) && memcmp(bytes.p, declared, sizeof(declared)) == 0;
}

static void admit_put(struct http_request *http, void *context)
{
        struct transfer *t = admit(http, context, LESSOR_SLICE("PUT"));
        int64_t length;

        if (t == NULL || t->capability.receipt.p != NULL) /* R110: whatever comes */
                return;
        length = http_body_length(http);
        if (!checksum_agrees(http, t->capability.hash))
                refuse(http, 409, "conflict", "the checksum is not the one that was declared");
        else if (length >= 0 && length != t->capability.size) /* R108 */
                refuse_error(http, LESSOR_E_MISMATCH);
}

const struct http_gate rack_data_put_gate = {.admit = admit_put, .streamed = true};

static void answer_receipt(struct http_request *http, struct lessor_slice receipt)
{
        struct lessor_slice text;

        if (lessor_arena_copy(http->arena, receipt, &text) < 0 ||
            http_answer_header(http, "x-amz-version-id", text.p) < 0) /* R109 */
                refuse_error(http, LESSOR_E_NOMEM);
        else
                http_answer(http, 200, NULL, NULL);
}

static int put_write(void *context, struct lessor_slice bytes)
{
        struct transfer *t = context;

        return lessor_object_write(t->writer, bytes);
}

/* Notes the receipt in the store. What is not the first goes again, and so does what nobody waits for. */
static int note_stored(struct transfer *t, struct lessor_slice receipt)
{
        const struct rack_parts *parts = &t->plane->parts;
        int e = lessor_capability_stored(parts->store, t->capability.id, receipt, t->arena, &t->receipt,
                                         NULL);

        /* After any other failure it may have been noted: then the sweep sees to it. */
        if (e == LESSOR_E_NOT_FOUND || (e == 0 && !lessor_slice_equal(t->receipt, receipt)))
                (void)lessor_object_discard(parts->objects, t->capability.name.repo, receipt);
        return e;
}

static int put_finish(void *context)
{
        struct transfer *t = context;
        struct lessor_object_written written;
        int e = lessor_object_finish(t->writer, t->arena, &written);

        return e < 0 ? e : note_stored(t, written.receipt);
}

static void put_done(struct http_request *http, void *context)
{
        const struct transfer *t = context;

        answer_receipt(http, t->receipt);
}

static void put_failed(struct http_request *http, void *context)
{
        (void)context;
        refuse_error(http, http_receive_error(http));
}

static void transfer_end(void *object)
{
        struct transfer *t = object;

        t->writer = lessor_object_writer_free(t->writer);
        t->arena = lessor_arena_free(t->arena);
}

/* An acknowledged PUT: the bytes are read over, so that the client gets to hear the answer. */
static void repeat_done(struct http_request *http, void *context)
{
        const struct transfer *t = context;

        answer_receipt(http, t->capability.receipt);
}

static void repeat(struct http_request *http, struct transfer *t)
{
        const struct http_sink sink = {
                .done = repeat_done, .failed = repeat_done, .context = t, .limit = LIMIT_RACK_OBJECT_BYTES};

        http_receive(http, &sink);
}

static int begin_put(struct http_request *http, struct transfer *t)
{
        const struct lessor_capability *c = &t->capability;
        char claim[RACK_CLAIM_TEXT];
        const struct lessor_object_stage stage = rack_stage(&c->name, c->claim_number, claim);
        int e = lessor_arena_own(http->arena, t, transfer_end);

        if (e < 0)
                return e;
        t->arena = lessor_arena_new();
        return t->arena == NULL
                       ? LESSOR_E_NOMEM
                       : lessor_object_stage(t->plane->parts.objects, &stage, c->hash, c->size, &t->writer);
}

void rack_data_put(struct http_request *http, void *context)
{
        struct transfer *t = http->admitted;
        const struct http_sink sink = {.write = put_write,
                                       .finish = put_finish,
                                       .done = put_done,
                                       .failed = put_failed,
                                       .context = t,
                                       .limit = (uint64_t)t->capability.size};
        int e = limit_time(http, t);

        (void)context;
        if (e == 0 && t->capability.receipt.p != NULL) {
                repeat(http, t);
                return;
        }
        if (e == 0)
                e = begin_put(http, t);
        if (e < 0)
                refuse_error(http, e);
        else
                http_receive(http, &sink);
}
