/* SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <stdlib.h>

#include "base/limits.h"
#include "base/macro.h"
#include "crypto/sha256.h"
#include "http/file_answer.h"
#include "http/offload.h"
#include "plane/collection.h"
#include "plane/control_chore.h"
#include "plane/control_upload.h"
#include "plane/rack.h"

/* Objects: bytes by their hash, as they are. What waits for the disk does so on other threads. */

#define LIST_DEFAULT 1000
#define LIST_MOST    10000
#define TOUCH_MOST   4096

struct touch_body {
        struct lessor_slice repo;
        struct lessor_slice *hashes;
        size_t n_hashes;
};

struct gc_body {
        bool has_grace;
        int64_t grace_ms;
        bool dry_run;
};

struct verify_body {
        struct lessor_slice repo; /* absent: all */
        bool set_aside;
};

static const struct message_field touch_fields[] = {
        FIELD_TEXT1(struct touch_body, repo, "repo"),
        FIELD_TEXTS(struct touch_body, hashes, n_hashes, "hashes", 0, TOUCH_MOST),
};
const struct message_table control_object_touch_body =
        MESSAGE_TABLE("ObjectTouch", struct touch_body, touch_fields);

static const struct message_field gc_fields[] = {
        FIELD_INT(struct gc_body, grace_ms, "graceMs", 0, INT64_C(31536000000),
                  FIELD_IF(struct gc_body, has_grace)),
        FIELD_BOOL(struct gc_body, dry_run, "dryRun", .flags = MESSAGE_OPTIONAL),
};
const struct message_table control_object_gc_body = MESSAGE_TABLE("ObjectGc", struct gc_body, gc_fields);

static const struct message_field verify_fields[] = {
        FIELD_TEXT1(struct verify_body, repo, "repo", .flags = MESSAGE_OPTIONAL),
        FIELD_BOOL(struct verify_body, set_aside, "setAside", .flags = MESSAGE_OPTIONAL),
};
const struct message_table control_object_verify_body =
        MESSAGE_TABLE("ObjectVerify", struct verify_body, verify_fields);

static const struct control_words words[] = {
        {LESSOR_E_NOT_FOUND, "there is no object {} in that repository"},
        {LESSOR_E_MISMATCH, "these are other bytes than were announced; nothing is kept"},
        {LESSOR_E_TOO_LARGE, "an object has at most 5368709120 bytes"},
        {LESSOR_E_CORRUPT, "the store of objects is damaged; the log says where"},
        {0},
};

/* --- Which --- */

struct lessor_object_store *control_objects(struct control_call *call)
{
        if (call->parts->rack != NULL)
                return call->parts->rack->parts.objects;
        control_refuse(call, 503, "unavailable",
                       "this server leases no tasks to racks, and keeps no objects");
        return NULL;
}

bool control_repo_valid(struct control_call *call, struct lessor_slice repo)
{
        if (lessor_object_repo_valid(repo))
                return true;
        control_refuse(call, 400, "invalid",
                       "a repository's name is 1 to 128 letters, digits, dots, underscores and dashes, and "
                       "begins with a letter or digit");
        return false;
}

/* False when the call was refused. */
static bool query_repo(struct control_call *call, struct lessor_slice *ret_repo)
{
        return control_query(call, "repo", ret_repo) && control_repo_valid(call, *ret_repo);
}

static bool query_hash(struct control_call *call, bool required, struct lessor_slice *ret_hash)
{
        if (!control_query(call, "hash", ret_hash))
                return false;
        if ((ret_hash->p == NULL && !required) || lessor_object_hash_valid(*ret_hash))
                return true;
        control_refuse(call, 400, "invalid", "a hash is 64 lower-case hex digits");
        return false;
}

/* --- Bytes in and out --- */

static void answer_put(struct control_call *call, const struct control_upload *upload)
{
        struct buf json = {0};
        struct json_writer w;

        json_writer_init(&w, &json);
        json_open_object(&w);
        json_member_bool(&w, "ok", true);
        json_member_text(&w, "repo", upload->repo);
        json_member_text(&w, "hash", upload->written.hash);
        json_member_int(&w, "size", upload->written.size);
        json_member_bool(&w, "existed", upload->written.was_there);
        json_close_object(&w);
        control_answer(call, &json);
}

void control_object_put(struct control_call *call, const void *body)
{
        struct control_upload *upload = lessor_arena_alloc(call->arena, sizeof(*upload));

        (void)body;
        if (upload == NULL) {
                control_refuse_error(call, LESSOR_E_NOMEM, NULL, (struct lessor_slice){0});
                return;
        }
        upload->store = control_objects(call);
        if (upload->store == NULL || !query_repo(call, &upload->repo) ||
            !query_hash(call, false, &upload->hash))
                return;
        upload->answer = answer_put;
        upload->words = words;
        control_upload_receive(call, upload);
}

void control_object_get(struct control_call *call, const void *body)
{
        struct lessor_object_store *store = control_objects(call);
        struct lessor_slice repo, hash;
        char etag[SHA256_HEX_LEN + 3];
        int64_t size;
        int fd, e;

        (void)body;
        if (store == NULL || !query_repo(call, &repo) || !query_hash(call, true, &hash))
                return;
        e = lessor_object_open(store, repo, hash, &fd, &size);
        if (e < 0) {
                control_refuse_error(call, e, words, hash);
                return;
        }
        snprintf(etag, sizeof(etag), "\"%.*s\"", (int)hash.n, hash.p);
        http_answer_ranges(call->http, "application/octet-stream", fd, (uint64_t)size, etag);
}

/* --- Lists --- */

/* What runs elsewhere, and what it came to. */
struct errand {
        struct control_call *call;
        struct lessor_object_store *store;
        struct lessor_slice repo;
        struct lessor_slice after;
        size_t limit;
        const struct touch_body *touch;
        struct lessor_object_info_list list;
        struct lessor_slice *repos;
        size_t n_repos;
        int64_t *sizes;
        int result;
};

static struct errand *errand_new(struct control_call *call)
{
        struct lessor_object_store *store = control_objects(call);
        struct errand *errand;

        if (store == NULL)
                return NULL;
        errand = lessor_arena_alloc(call->arena, sizeof(*errand));
        if (errand == NULL) {
                control_refuse_error(call, LESSOR_E_NOMEM, NULL, (struct lessor_slice){0});
                return NULL;
        }
        errand->call = call;
        errand->store = store;
        return errand;
}

static void look_at_list(void *context)
{
        struct errand *errand = context;

        errand->result = lessor_object_list(errand->store, errand->repo, errand->after, errand->limit + 1,
                                            errand->call->arena, &errand->list);
}

static void answer_list(struct http_request *http, void *context)
{
        const struct errand *errand = context;
        size_t n = errand->list.n < errand->limit ? errand->list.n : errand->limit;
        struct buf json = {0};
        struct json_writer w;

        (void)http;
        if (errand->result < 0) {
                control_refuse_error(errand->call, errand->result, words, errand->repo);
                return;
        }
        json_writer_init(&w, &json);
        json_open_object(&w);
        json_key(&w, "objects");
        json_open_array(&w);
        for (size_t i = 0; i < n; i++) {
                json_open_object(&w);
                json_member_text(&w, "hash", errand->list.items[i].hash);
                json_member_int(&w, "size", errand->list.items[i].size);
                json_member_int(&w, "touchedAt", errand->list.items[i].touched_ms);
                json_close_object(&w);
        }
        json_close_array(&w);
        json_member_bool(&w, "more", errand->list.n > n);
        if (errand->list.n > n)
                json_member_text(&w, "next", errand->list.items[n - 1].hash);
        json_close_object(&w);
        control_answer(errand->call, &json);
}

void control_object_list(struct control_call *call, const void *body)
{
        struct errand *errand = errand_new(call);
        int64_t limit;

        (void)body;
        if (errand == NULL || !query_repo(call, &errand->repo) ||
            !control_query(call, "after", &errand->after) ||
            !control_query_int(call, "limit", 1, LIST_MOST, LIST_DEFAULT, &limit))
                return;
        errand->limit = (size_t)limit;
        http_offload(call->http, look_at_list, answer_list, errand);
}

static void look_at_repos(void *context)
{
        struct errand *errand = context;

        errand->result =
                lessor_object_repos(errand->store, errand->call->arena, &errand->repos, &errand->n_repos);
}

static void answer_repos(struct http_request *http, void *context)
{
        const struct errand *errand = context;
        struct buf json = {0};
        struct json_writer w;

        (void)http;
        if (errand->result < 0) {
                control_refuse_error(errand->call, errand->result, words, (struct lessor_slice){0});
                return;
        }
        json_writer_init(&w, &json);
        json_open_object(&w);
        json_key(&w, "repos");
        json_open_array(&w);
        for (size_t i = 0; i < errand->n_repos; i++) {
                json_open_object(&w);
                json_member_text(&w, "repo", errand->repos[i]);
                json_close_object(&w);
        }
        json_close_array(&w);
        json_close_object(&w);
        control_answer(errand->call, &json);
}

void control_object_repos(struct control_call *call, const void *body)
{
        struct errand *errand = errand_new(call);

        (void)body;
        if (errand != NULL)
                http_offload(call->http, look_at_repos, answer_repos, errand);
}

static void touch(void *context)
{
        struct errand *errand = context;

        errand->result = lessor_object_touch(errand->store, errand->repo, errand->touch->hashes,
                                             errand->touch->n_hashes, errand->sizes);
}

static void answer_touch(struct http_request *http, void *context)
{
        const struct errand *errand = context;
        struct buf json = {0};
        struct json_writer w;

        (void)http;
        if (errand->result < 0) {
                control_refuse_error(errand->call, errand->result, words, (struct lessor_slice){0});
                return;
        }
        json_writer_init(&w, &json);
        json_open_object(&w);
        json_key(&w, "sizes");
        json_open_array(&w);
        for (size_t i = 0; i < errand->touch->n_hashes; i++)
                json_put_int(&w, errand->sizes[i]);
        json_close_array(&w);
        json_close_object(&w);
        control_answer(errand->call, &json);
}

void control_object_touch(struct control_call *call, const void *body)
{
        struct errand *errand = errand_new(call);

        if (errand == NULL)
                return;
        errand->touch = body;
        errand->repo = errand->touch->repo;
        if (!control_repo_valid(call, errand->repo))
                return;
        errand->sizes = lessor_arena_array(call->arena, errand->touch->n_hashes, sizeof(*errand->sizes));
        if (errand->sizes == NULL)
                control_refuse_error(call, LESSOR_E_NOMEM, NULL, (struct lessor_slice){0});
        else
                http_offload(call->http, touch, answer_touch, errand);
}

/* --- Collection --- */

struct gc_work {
        struct lessor_object_store *objects;
        struct lessor_lease_store *leases;
        int64_t grace_ms;
        bool dry;
        struct lessor_object_collected collected;
};

static int run_gc(void *context)
{
        struct gc_work *work = context;

        return collection_run(work->objects, work->leases, work->grace_ms, work->dry, &work->collected);
}

static void answer_gc(struct control_call *call, const void *context, int result)
{
        const struct gc_work *work = context;
        struct buf json = {0};
        struct json_writer w;

        if (result < 0) {
                control_refuse_error(call, result, words, (struct lessor_slice){0});
                return;
        }
        json_writer_init(&w, &json);
        json_open_object(&w);
        json_member_bool(&w, "ok", true);
        json_member_bool(&w, "dryRun", work->dry);
        json_member_int(&w, "kept", (int64_t)work->collected.n_kept);
        json_member_int(&w, "keptBytes", work->collected.kept_bytes);
        json_member_int(&w, "removed", (int64_t)work->collected.n_removed);
        json_member_int(&w, "removedBytes", work->collected.removed_bytes);
        json_member_int(&w, "missing", (int64_t)work->collected.n_missing);
        json_close_object(&w);
        control_answer(call, &json);
}

void control_object_gc(struct control_call *call, const void *body)
{
        static const struct control_chore_kind kind = {"a collection of objects", run_gc, answer_gc, free};
        const struct gc_body *in = body;
        struct gc_work *work;

        if (control_objects(call) == NULL)
                return;
        work = calloc(1, sizeof(*work));
        if (work == NULL) {
                control_refuse_error(call, LESSOR_E_NOMEM, NULL, (struct lessor_slice){0});
                return;
        }
        work->objects = call->parts->rack->parts.objects;
        work->leases = call->parts->rack->parts.store;
        work->grace_ms = in->has_grace ? in->grace_ms : COLLECTION_GRACE_MS;
        work->dry = in->dry_run;
        control_chore_begin(call, call->control->chore, &kind, work);
}

/* --- Verification --- */

DEFINE_CLEANUP(struct lessor_arena, lessor_arena_free)

struct verify_work {
        struct lessor_object_store *objects;
        struct buf repo; /* empty: all */
        bool set_aside;
        struct lessor_object_verified verified;
        struct buf damaged; /* JSON objects, with commas between them */
        struct lessor_slice at;
};

static int note_damaged(void *context, struct lessor_slice hash)
{
        struct verify_work *work = context;
        struct json_writer w;

        if (work->damaged.n > 0)
                buf_char(&work->damaged, ',');
        json_writer_init(&w, &work->damaged);
        json_open_object(&w);
        json_member_text(&w, "repo", work->at);
        json_member_text(&w, "hash", hash);
        json_close_object(&w);
        return buf_failed(&work->damaged);
}

static int verify_repo(struct verify_work *work, struct lessor_slice repo)
{
        struct lessor_object_verified v = {0};
        int e;

        work->at = repo;
        e = lessor_object_verify(work->objects, repo, work->set_aside, note_damaged, work, &v);
        work->verified.n_sound += v.n_sound;
        work->verified.sound_bytes += v.sound_bytes;
        work->verified.n_damaged += v.n_damaged;
        return e;
}

static int run_verify(void *context)
{
        _cleanup_(lessor_arena_freep) struct lessor_arena *arena = lessor_arena_new();
        struct verify_work *work = context;
        struct lessor_slice *repos;
        size_t n;
        int e;

        if (work->repo.n > 0)
                return verify_repo(work, buf_view(&work->repo));
        e = arena == NULL ? LESSOR_E_NOMEM : lessor_object_repos(work->objects, arena, &repos, &n);
        for (size_t i = 0; e == 0 && i < n; i++)
                e = verify_repo(work, repos[i]);
        return e;
}

static void answer_verify(struct control_call *call, const void *context, int result)
{
        const struct verify_work *work = context;
        struct buf json = {0};
        struct json_writer w;

        if (result < 0) {
                control_refuse_error(call, result, words, (struct lessor_slice){0});
                return;
        }
        json_writer_init(&w, &json);
        json_open_object(&w);
        json_member_bool(&w, "ok", work->verified.n_damaged == 0);
        json_member_int(&w, "sound", (int64_t)work->verified.n_sound);
        json_member_int(&w, "soundBytes", work->verified.sound_bytes);
        json_key(&w, "damaged");
        json_open_array(&w);
        if (work->damaged.n > 0)
                json_put_raw(&w, buf_view(&work->damaged));
        json_close_array(&w);
        json_close_object(&w);
        control_answer(call, &json);
}

static void verify_free(void *context)
{
        struct verify_work *work = context;

        buf_done(&work->repo);
        buf_done(&work->damaged);
        free(work);
}

void control_object_verify(struct control_call *call, const void *body)
{
        static const struct control_chore_kind kind = {"a verification of objects", run_verify, answer_verify,
                                                       verify_free};
        const struct verify_body *in = body;
        struct lessor_object_store *store = control_objects(call);
        struct verify_work *work;

        if (store == NULL || (in->repo.p != NULL && !control_repo_valid(call, in->repo)))
                return;
        work = calloc(1, sizeof(*work));
        if (work == NULL || (in->repo.p != NULL && buf_slice(&work->repo, in->repo) < 0)) {
                free(work);
                control_refuse_error(call, LESSOR_E_NOMEM, NULL, (struct lessor_slice){0});
                return;
        }
        work->objects = store;
        work->set_aside = in->set_aside;
        control_chore_begin(call, call->control->chore, &kind, work);
}
