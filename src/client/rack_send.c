/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/limits.h"
#include "client/device_link.h"
#include "client/rack.h"
#include "client/tree_pack.h"

/* A task's outputs, from its directory to the server: declared, put, committed (rack-protocol 6.6, 7, 14). */

#define SMALL_BYTES   65536                     /* files up to that are kept in memory until they are sent */
#define MEMORY_MOST   ((size_t)8 * 1024 * 1024) /* of a batch */
#define FILES_MOST    32                        /* open at once for a batch */
#define N_UPLOADS     6
#define FAILURES_MOST 5 /* of one object */
#define STALL_MS      30000
#define ANSWER_MOST   65536

DEFINE_CLEANUP(struct lessor_arena, lessor_arena_free)

struct item {
        char hash[SHA256_HEX_LEN + 1];
        int64_t size;
        char *bytes;   /* NULL: in the file */
        int fd;        /* -1: none */
        char *version; /* the receipt; NULL: none yet */
        bool done;     /* held, or committed */
        unsigned failures;
};

struct sender {
        struct rack_slot *slot;
        struct rack_job *job;
        struct buf *problem;
        struct item items[LIMIT_RACK_TRANSFERS];
        size_t n;
        size_t n_files;
        size_t memory;
        bool trouble;
        int64_t retry_after_ms;
};

static void clear_items(struct sender *s)
{
        for (size_t i = 0; i < s->n; i++) {
                if (s->items[i].fd >= 0)
                        close(s->items[i].fd);
                free(s->items[i].bytes);
                free(s->items[i].version);
        }
        s->n = s->n_files = s->memory = 0;
}

/* One transfer under way. */
struct upload {
        struct sender *sender;
        struct item *item;
        struct http_transfer *transfer; /* NULL: none */
        int64_t sent;                   /* bytes of it that count already */
};

static void count_sent(struct upload *u, int64_t n_bytes)
{
        struct sender *s = u->sender;

        s->slot->done_bytes += n_bytes - u->sent;
        u->sent = n_bytes;
        rack_tell_progress(s->slot, s->job, LESSOR_RACK_SENDING);
}

static void on_sent(void *context, int64_t n_bytes)
{
        count_sent(context, n_bytes);
}

/* The request's headers, in an arena. */
static int write_headers(const struct rack_put *put, struct lessor_arena *arena, const char ***ret_headers)
{
        const char **headers = lessor_arena_array(arena, put->n_headers + 1, sizeof(*headers));

        if (headers == NULL)
                return LESSOR_E_NOMEM;
        for (size_t i = 0; i < put->n_headers; i++) {
                _cleanup_(buf_done) struct buf text = {0};
                struct lessor_slice copy;

                buf_slice(&text, put->headers[i].name);
                buf_text(&text, ": ");
                buf_slice(&text, put->headers[i].value);
                if (buf_failed(&text) < 0 || lessor_arena_copy(arena, buf_view(&text), &copy) < 0)
                        return LESSOR_E_NOMEM;
                for (size_t k = 0; k < copy.n; k++)
                        if (copy.p[k] == '\r' || copy.p[k] == '\n' || copy.p[k] == '\0')
                                return LESSOR_E_PROTOCOL;
                headers[i] = copy.p;
        }
        *ret_headers = headers;
        return 0;
}

/* What became of a transfer. Returns 0 also when it is to be tried again: then the item has no receipt. */
static int end_upload(struct upload *u)
{
        struct sender *s = u->sender;
        struct item *item = u->item;
        const char *receipt = http_transfer_header(u->transfer, "x-amz-version-id");
        int64_t retry_after_ms = http_transfer_retry_after_ms(u->transfer);
        int error = http_transfer_error(u->transfer);
        long status = http_transfer_status(u->transfer);

        if (error == 0 && status >= 200 && status <= 299 && receipt != NULL && receipt[0] != '\0') {
                count_sent(u, item->size);
                free(item->version);
                item->version = strdup(receipt);
                return item->version == NULL ? LESSOR_E_NOMEM : 0;
        }
        count_sent(u, 0);
        s->trouble = true;
        if (retry_after_ms > s->retry_after_ms)
                s->retry_after_ms = retry_after_ms;
        if (error == LESSOR_E_IO || error == LESSOR_E_NOMEM)
                return error;
        if (error < 0 || status == 408 || status == 429 || status >= 500)
                return 0;
        if (++item->failures < FAILURES_MOST)
                return 0;
        if (status >= 200 && status <= 299)
                buf_printf(s->problem, "object %s: its address gives no receipt", item->hash);
        else
                buf_printf(s->problem, "object %s: its address answers with HTTP status %ld", item->hash,
                           status);
        return LESSOR_E_REFUSED;
}

static int start_upload(struct sender *s, struct upload *u, struct item *item, const struct rack_put *put,
                        struct lessor_arena *arena)
{
        struct lessor_slice url;
        struct http_request request = {.method = "PUT",
                                       .n_headers = put->n_headers,
                                       .max_answer_bytes = ANSWER_MOST,
                                       .stall_ms = STALL_MS,
                                       .sent = on_sent,
                                       .context = u};
        const char **headers = NULL;
        int r = lessor_arena_copy(arena, put->url, &url);

        if (r == 0)
                r = write_headers(put, arena, &headers);
        if (r < 0)
                return r;
        request.headers = headers;
        request.url = url.p;
        if (item->bytes != NULL) {
                request.body = (struct lessor_slice){item->bytes, (size_t)item->size};
        } else {
                request.has_file = true;
                request.file = item->fd;
                request.file_bytes = item->size;
        }
        *u = (struct upload){.sender = s, .item = item};
        return http_client_start(s->slot->http, &request, &u->transfer);
}

static int collect(struct upload *uploads)
{
        int r = 0;

        for (size_t i = 0; i < N_UPLOADS; i++) {
                struct upload *u = &uploads[i];

                if (u->transfer == NULL || !http_transfer_done(u->transfer))
                        continue;
                if (r == 0)
                        r = end_upload(u);
                u->transfer = http_transfer_free(u->transfer);
        }
        return r;
}

static struct upload *idle_upload(struct upload *uploads)
{
        for (size_t i = 0; i < N_UPLOADS; i++)
                if (uploads[i].transfer == NULL)
                        return &uploads[i];
        return NULL;
}

static bool any_under_way(const struct upload *uploads)
{
        for (size_t i = 0; i < N_UPLOADS; i++)
                if (uploads[i].transfer != NULL)
                        return true;
        return false;
}

/* Puts what the server does not hold, several at a time. */
static int put_all(struct sender *s, struct item **asked, const struct rack_storage_response *answer,
                   struct lessor_arena *arena)
{
        struct upload uploads[N_UPLOADS] = {0};
        size_t next = 0;
        int r = 0;

        while (r == 0 && (next < answer->n_targets || any_under_way(uploads))) {
                struct upload *idle = idle_upload(uploads);

                if (next < answer->n_targets && idle != NULL) {
                        const struct rack_write_target *target = &answer->targets[next].target;
                        struct item *item = asked[next++];

                        if (target->kind == RACK_TARGET_HELD) {
                                item->done = true;
                                s->slot->done_bytes += item->size;
                        } else {
                                r = start_upload(s, idle, item, &target->put, arena);
                        }
                        continue;
                }
                r = http_client_wait(s->slot->http, s->job->stop, STALL_MS);
                if (r == LESSOR_E_TIMEOUT)
                        r = 0;
                if (r == 0)
                        r = collect(uploads);
        }
        for (size_t i = 0; i < N_UPLOADS; i++)
                http_transfer_free(uploads[i].transfer);
        return r;
}

static int call_storage(struct sender *s, const struct rack_storage_request *request,
                        struct lessor_arena *arena, struct rack_storage_response *answer)
{
        int r = rack_job_call(s->slot, s->job, "storage", &rack_storage_request_type, request,
                              &rack_storage_response_type, arena, answer);

        if (r == 0 &&
            (answer->n_targets != request->n_outputs || answer->n_committed != request->n_commits)) {
                buf_text(s->problem, "the server answered about other objects than it was asked for");
                return LESSOR_E_PROTOCOL;
        }
        if (r < 0 && r != LESSOR_E_CLOSED)
                buf_text(s->problem, rack_failure_message(&s->slot->failure));
        /* A conflict is about the number of objects, or the size of one. */
        if (r == LESSOR_E_REFUSED && s->slot->failure.status == 409)
                return LESSOR_E_TARGET_LIMIT;
        return r;
}

static struct lessor_slice hash_of(const struct item *item)
{
        return (struct lessor_slice){item->hash, SHA256_HEX_LEN};
}

/* Declares what has no receipt, and puts it. */
static int declare_and_put(struct sender *s)
{
        _cleanup_(lessor_arena_freep) struct lessor_arena *arena = lessor_arena_new();
        struct rack_object_size sizes[LIMIT_RACK_TRANSFERS];
        struct item *asked[LIMIT_RACK_TRANSFERS];
        struct rack_storage_request request = {.repo = s->job->repo,
                                               .lease_id = s->job->lease_id,
                                               .attempt = s->job->attempt,
                                               .outputs = sizes};
        struct rack_storage_response answer;
        int r = arena == NULL ? LESSOR_E_NOMEM : 0;

        for (size_t i = 0; i < s->n; i++)
                if (!s->items[i].done && s->items[i].version == NULL) {
                        asked[request.n_outputs] = &s->items[i];
                        sizes[request.n_outputs++] =
                                (struct rack_object_size){hash_of(&s->items[i]), s->items[i].size};
                }
        if (r == 0 && request.n_outputs > 0)
                r = call_storage(s, &request, arena, &answer);
        return r == 0 && request.n_outputs > 0 ? put_all(s, asked, &answer, arena) : r;
}

/* Commits what has a receipt. What is not taken is put again. */
static int commit(struct sender *s)
{
        _cleanup_(lessor_arena_freep) struct lessor_arena *arena = lessor_arena_new();
        struct rack_object_commit commits[LIMIT_RACK_TRANSFERS];
        struct item *asked[LIMIT_RACK_TRANSFERS];
        struct rack_storage_request request = {.repo = s->job->repo,
                                               .lease_id = s->job->lease_id,
                                               .attempt = s->job->attempt,
                                               .commits = commits};
        struct rack_storage_response answer;
        int r = arena == NULL ? LESSOR_E_NOMEM : 0;

        for (size_t i = 0; i < s->n; i++)
                if (!s->items[i].done && s->items[i].version != NULL) {
                        asked[request.n_commits] = &s->items[i];
                        commits[request.n_commits++] =
                                (struct rack_object_commit){hash_of(&s->items[i]), s->items[i].size,
                                                            lessor_slice_of(s->items[i].version)};
                }
        if (r == 0 && request.n_commits > 0)
                r = call_storage(s, &request, arena, &answer);
        for (size_t i = 0; r == 0 && i < request.n_commits; i++) {
                if (answer.committed[i].committed) {
                        asked[i]->done = true;
                        continue;
                }
                free(TAKE(asked[i]->version));
                s->trouble = true;
                if (++asked[i]->failures >= FAILURES_MOST) {
                        buf_printf(s->problem, "object %s: the server does not take it in", asked[i]->hash);
                        r = LESSOR_E_REFUSED;
                }
        }
        return r;
}

static bool all_done(const struct sender *s)
{
        for (size_t i = 0; i < s->n; i++)
                if (!s->items[i].done)
                        return false;
        return true;
}

static int flush(struct sender *s)
{
        int r = 0;

        for (unsigned attempt = 0; r == 0 && !all_done(s); attempt++) {
                s->trouble = false;
                s->retry_after_ms = 0;
                r = declare_and_put(s);
                if (r == 0)
                        r = commit(s);
                if (r == 0 && s->trouble &&
                    device_pause(rack_backoff_ms(attempt, s->retry_after_ms, randombytes_random()),
                                 s->job->stop, NULL))
                        r = LESSOR_E_CLOSED;
        }
        clear_items(s);
        rack_tell_progress(s->slot, s->job, LESSOR_RACK_SENDING);
        return r;
}

static int keep_bytes(struct item *item, const struct tree_object *object)
{
        size_t at = 0;

        item->bytes = malloc((size_t)object->size + 1);
        if (item->bytes == NULL)
                return LESSOR_E_NOMEM;
        if (object->bytes.p != NULL) {
                memcpy(item->bytes, object->bytes.p, object->bytes.n);
                return 0;
        }
        while (at < (size_t)object->size) {
                ssize_t n = pread(object->fd, item->bytes + at, (size_t)object->size - at, (off_t)at);

                if (n < 0 && errno == EINTR)
                        continue;
                if (n <= 0)
                        return LESSOR_E_IO;
                at += (size_t)n;
        }
        return 0;
}

/* The packer's sink: keeps an object, and sends the batch when it is full. */
static int take_object(void *context, const struct tree_object *object)
{
        struct sender *s = context;
        struct item *item = &s->items[s->n];
        bool in_memory = object->bytes.p != NULL || object->size <= SMALL_BYTES;
        int r = 0;

        if (lessor_stop_raised(s->job->stop))
                return LESSOR_E_CLOSED;
        *item = (struct item){.size = object->size, .fd = -1};
        memcpy(item->hash, object->hash.p, SHA256_HEX_LEN);
        s->slot->total_bytes += object->size;
        s->n++;
        if (in_memory) {
                r = keep_bytes(item, object);
                s->memory += (size_t)object->size;
        } else {
                item->fd = fcntl(object->fd, F_DUPFD_CLOEXEC, 3);
                s->n_files++;
                r = item->fd < 0 ? LESSOR_E_IO : 0;
        }
        if (r < 0)
                return r;
        if (s->n == LIMIT_RACK_TRANSFERS || s->n_files == FILES_MOST || s->memory >= MEMORY_MOST)
                return flush(s);
        return 0;
}

static int go_on(void *context, int64_t n_files, int64_t n_bytes)
{
        const struct sender *s = context;

        (void)n_files;
        (void)n_bytes;
        return lessor_stop_raised(s->job->stop) ? LESSOR_E_CLOSED : 0;
}

static int pack(struct sender *s, const struct task *task, int dir, struct tree_packed *ret_packed)
{
        const struct tree_sink sink = {.context = s, .object = take_object, .progress = go_on};
        struct tree_root *roots = calloc(task->n_outputs + 1, sizeof(*roots));
        struct lessor_arena *arena = lessor_arena_new();
        int r = roots == NULL || arena == NULL ? LESSOR_E_NOMEM : 0;

        for (size_t i = 0; r == 0 && i < task->n_outputs; i++) {
                struct lessor_slice path;

                r = lessor_arena_copy(arena, task->outputs[i].path, &path);
                roots[i] = (struct tree_root){.at = task->outputs[i].path,
                                              .dir = dir,
                                              .from = r == 0 ? path.p : "",
                                              .within = true,
                                              .optional = !task->outputs[i].required};
        }
        if (r == 0)
                r = tree_pack(roots, task->n_outputs, &sink, ret_packed, s->problem);
        free(roots);
        lessor_arena_free(arena);
        return r;
}

int rack_send_outputs(struct rack_slot *slot, struct rack_job *job, const struct task *task,
                      const char *work_dir, char *ret_hash, struct buf *ret_problem)
{
        struct sender *s = calloc(1, sizeof(*s));
        int dir = open(work_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
        struct tree_packed packed;
        int r = s == NULL ? LESSOR_E_NOMEM : 0;

        if (r == 0 && dir < 0)
                r = LESSOR_E_IO;
        if (r == 0) {
                s->slot = slot;
                s->job = job;
                s->problem = ret_problem;
                slot->done_bytes = slot->total_bytes = 0;
                r = pack(s, task, dir, &packed);
        }
        if (r == 0)
                r = flush(s);
        if (r == 0)
                memcpy(ret_hash, packed.hash, sizeof(packed.hash));
        if (s != NULL)
                clear_items(s);
        free(s);
        if (dir >= 0)
                close(dir);
        if (r < 0 && r != LESSOR_E_CLOSED && ret_problem->n == 0)
                buf_text(ret_problem, lessor_error_text(r));
        return r;
}
