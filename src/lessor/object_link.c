/* SPDX-License-Identifier: MIT */
#include "lessor/object_link.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/json_read.h"
#include "base/json_write.h"
#include "lessor/control_client.h"

#define WINDOW_OBJECTS 128        /* asked for together, and open at a time */
#define WINDOW_BYTES   (8u << 20) /* of objects that are in memory */
#define PARALLEL       16
#define CALL_MS        30000
#define STALL_MS       60000
#define AWAY_MS        120000 /* how long a server may be away, to be started anew */
#define RETRY_MS       500

DEFINE_CLEANUP(struct lessor_arena, lessor_arena_free)

/* An object that waits to be sent. */
struct waiting {
        char hash[SHA256_HEX_LEN + 1];
        int64_t size;
        int fd; /* -1: the bytes are in `bytes` */
        struct buf bytes;
        struct buf path;
        bool is_there; /* in the repository */
        int64_t sent;  /* bytes of the attempt that is under way */
        struct object_upload *upload;
        struct http_transfer *transfer;
};

struct object_upload {
        struct object_link_options options;
        struct object_figures figures;
        struct waiting items[WINDOW_OBJECTS];
        size_t n;
        size_t n_bytes;        /* in memory */
        int64_t away_since_ms; /* monotonic; 0: the server answers */
        /* What failed. */
        struct http_transfer *refusal;
        struct buf culprit;
};

/* --- Patience --- */

/*
 * The server did not answer: waits a moment, unless it has been away for too long. Returns 0,
 * LESSOR_E_LATER or LESSOR_E_CLOSED.
 */
static int wait_for_server(const struct object_link_options *options, int64_t *away_since_ms)
{
        int64_t now_ms = clock_monotonic_ms();
        int r;

        if (*away_since_ms == 0)
                *away_since_ms = now_ms;
        else if (now_ms - *away_since_ms > AWAY_MS)
                return LESSOR_E_LATER;
        r = http_client_wait(control_link_http(options->link), options->stop, RETRY_MS);
        return r == LESSOR_E_TIMEOUT ? 0 : r;
}

/* A server that ends or starts. */
static bool is_away(const struct http_transfer *t)
{
        return http_transfer_error(t) == LESSOR_E_LATER;
}

/* --- To the server --- */

int object_upload_new(const struct object_link_options *options, struct object_upload **ret_upload)
{
        struct object_upload *u = calloc(1, sizeof(*u));

        if (u == NULL)
                return LESSOR_E_NOMEM;
        u->options = *options;
        *ret_upload = u;
        return 0;
}

static void drop(struct waiting *w)
{
        w->transfer = http_transfer_free(w->transfer);
        if (w->fd >= 0)
                close(w->fd);
        buf_done(&w->bytes);
        buf_done(&w->path);
}

static void drop_all(struct object_upload *u)
{
        for (size_t i = 0; i < u->n; i++)
                drop(&u->items[i]);
        u->n = 0;
        u->n_bytes = 0;
}

struct object_upload *object_upload_free(struct object_upload *upload)
{
        if (upload == NULL)
                return NULL;
        drop_all(upload);
        http_transfer_free(upload->refusal);
        buf_done(&upload->culprit);
        free(upload);
        return NULL;
}

const struct object_figures *object_upload_figures(const struct object_upload *upload)
{
        return &upload->figures;
}

static void tell(struct object_upload *u)
{
        struct object_figures now = u->figures;

        if (u->options.moved == NULL)
                return;
        for (size_t i = 0; i < u->n; i++)
                now.n_bytes += u->items[i].sent;
        u->options.moved(u->options.context, &now);
}

static void on_sent(void *context, int64_t n_bytes)
{
        struct waiting *w = context;

        w->sent = n_bytes;
        tell(w->upload);
}

/* Keeps a refusal, for object_upload_fail. Returns the code that tells of it. */
static int refused(struct object_upload *u, struct http_transfer **transfer)
{
        http_transfer_free(u->refusal);
        u->refusal = TAKE(*transfer);
        return LESSOR_E_REFUSED;
}

/* A call with a JSON body that can be repeated. */
static int post(struct object_upload *u, const char *path, const struct buf *body,
                struct http_transfer **ret_transfer)
{
        struct http_request request = {
                .method = "POST", .url = path, .body = buf_view(body), .timeout_ms = CALL_MS};

        for (;;) {
                _cleanup_(http_transfer_freep) struct http_transfer *t = NULL;
                int r = control_link_call(u->options.link, &request, u->options.stop, &t);

                if (t != NULL && http_transfer_done(t) && is_away(t)) {
                        r = wait_for_server(&u->options, &u->away_since_ms);
                        if (r < 0)
                                return r;
                        continue;
                }
                if (r < 0)
                        return r;
                u->away_since_ms = 0;
                if (http_transfer_status(t) != 200)
                        return refused(u, &t);
                *ret_transfer = TAKE(t);
                return 0;
        }
}

static int read_sizes(struct object_upload *u, const struct http_transfer *answer)
{
        _cleanup_(lessor_arena_freep) struct lessor_arena *arena = lessor_arena_new();
        const struct json *root, *size;
        size_t i = 0;

        if (arena == NULL)
                return LESSOR_E_NOMEM;
        root = control_link_json(answer, arena);
        if (json_count(json_member_named(root, "sizes")) != u->n)
                return LESSOR_E_PROTOCOL;
        for (size = json_first(json_member_named(root, "sizes")); size != NULL; size = size->next, i++) {
                int64_t number;

                if (json_int(size, &number) && number == u->items[i].size) {
                        u->items[i].is_there = true;
                        u->figures.n_spared++;
                }
        }
        return 0;
}

/* Asks which of those that wait the repository has. */
static int look(struct object_upload *u)
{
        _cleanup_(buf_done) struct buf body = {0};
        _cleanup_(http_transfer_freep) struct http_transfer *answer = NULL;
        struct json_writer w;
        int r;

        json_writer_init(&w, &body);
        json_open_object(&w);
        json_member_cstr(&w, "repo", u->options.repo);
        json_key(&w, "hashes");
        json_open_array(&w);
        for (size_t i = 0; i < u->n; i++)
                json_put_text(&w, lessor_slice_of(u->items[i].hash));
        json_close_array(&w);
        json_close_object(&w);
        if (buf_failed(&body) < 0)
                return LESSOR_E_NOMEM;
        r = post(u, "/objects/touch", &body, &answer);
        return r < 0 ? r : read_sizes(u, answer);
}

static int start(struct object_upload *u, struct waiting *w)
{
        _cleanup_(buf_done) struct buf path = {0};
        struct http_request request = {.method = "PUT", .stall_ms = STALL_MS, .context = w, .sent = on_sent};

        buf_text(&path, "/objects");
        control_query(&path, "repo", u->options.repo);
        control_query(&path, "hash", w->hash);
        if (buf_failed(&path) < 0)
                return LESSOR_E_NOMEM;
        request.url = path.p;
        w->sent = 0;
        if (w->fd >= 0) {
                request.has_file = true;
                request.file = w->fd;
                request.file_bytes = w->size;
        } else {
                request.body = buf_view(&w->bytes);
        }
        return control_link_start(u->options.link, &request, &w->transfer);
}

/* A transfer has ended. `ret_again`: the server was away. */
static int end(struct object_upload *u, struct waiting *w, bool *ret_again)
{
        _cleanup_(http_transfer_freep) struct http_transfer *t = TAKE(w->transfer);
        int r = http_transfer_error(t);

        *ret_again = is_away(t);
        w->sent = 0;
        if (*ret_again)
                return 0;
        u->away_since_ms = 0;
        buf_clear(&u->culprit);
        buf_slice(&u->culprit, buf_view(&w->path));
        /* Shorter than it was; or other bytes, which the server noticed. */
        if (r == LESSOR_E_IO || (r == 0 && http_transfer_status(t) == 400))
                return LESSOR_E_MISMATCH;
        if (r < 0)
                return r;
        if (http_transfer_status(t) != 200)
                return refused(u, &t);
        w->is_there = true;
        u->figures.n_objects++;
        u->figures.n_bytes += w->size;
        tell(u);
        return 0;
}

static int collect(struct object_upload *u, size_t *n_running)
{
        bool away = false;

        for (size_t i = 0; i < u->n; i++) {
                struct waiting *w = &u->items[i];
                bool again;
                int r;

                if (w->transfer == NULL || !http_transfer_done(w->transfer))
                        continue;
                (*n_running)--;
                r = end(u, w, &again);
                if (r < 0)
                        return r;
                away = away || again;
        }
        return away ? wait_for_server(&u->options, &u->away_since_ms) : 0;
}

static bool is_all_there(const struct object_upload *u)
{
        for (size_t i = 0; i < u->n; i++)
                if (!u->items[i].is_there)
                        return false;
        return true;
}

static int send_window(struct object_upload *u)
{
        size_t n_running = 0;
        int r = look(u);

        while (r == 0 && !is_all_there(u)) {
                for (size_t i = 0; r == 0 && i < u->n && n_running < PARALLEL; i++) {
                        if (u->items[i].is_there || u->items[i].transfer != NULL)
                                continue;
                        r = start(u, &u->items[i]);
                        if (r == 0)
                                n_running++;
                }
                if (r == 0)
                        r = http_client_wait(control_link_http(u->options.link), u->options.stop, STALL_MS);
                if (r == LESSOR_E_TIMEOUT)
                        r = 0;
                if (r == 0)
                        r = collect(u, &n_running);
        }
        drop_all(u);
        return r;
}

int object_upload_finish(struct object_upload *upload)
{
        return upload->n == 0 ? 0 : send_window(upload);
}

int object_upload_add(void *context, const struct tree_object *object)
{
        struct object_upload *u = context;
        struct waiting *w = &u->items[u->n];

        if (object->hash.n != SHA256_HEX_LEN)
                return LESSOR_E_INVALID;
        *w = (struct waiting){.size = object->size, .fd = -1, .upload = u};
        memcpy(w->hash, object->hash.p, SHA256_HEX_LEN);
        buf_slice(&w->path, object->path);
        if (object->bytes.p != NULL) {
                buf_slice(&w->bytes, object->bytes);
        } else {
                w->fd = fcntl(object->fd, F_DUPFD_CLOEXEC, 0);
                if (w->fd < 0) {
                        drop(w);
                        return LESSOR_E_IO;
                }
        }
        u->n++;
        u->n_bytes += w->bytes.n;
        if (buf_failed(&w->path) < 0 || buf_failed(&w->bytes) < 0)
                return LESSOR_E_NOMEM;
        return u->n == WINDOW_OBJECTS || u->n_bytes >= WINDOW_BYTES ? send_window(u) : 0;
}

int object_upload_fail(const struct object_upload *u, int error)
{
        struct cli *cli = control_link_cli(u->options.link);

        if (error == LESSOR_E_REFUSED && u->refusal != NULL)
                return control_link_fail(u->options.link, 0, u->refusal);
        if (error == LESSOR_E_MISMATCH)
                return cli_fail(cli, CLI_EXIT_FAILED, "%s changed while it was sent",
                                u->culprit.n == 0 ? "a file" : u->culprit.p);
        return control_link_fail(u->options.link, error, NULL);
}

/* --- From the server --- */

int object_size(struct cli *cli, const char *repo, struct lessor_slice hash, int64_t *ret_size)
{
        _cleanup_(buf_done) struct buf body = {0};
        struct control_answer answer;
        const struct json *sizes;
        struct json_writer w;
        int code;

        json_writer_init(&w, &body);
        json_open_object(&w);
        json_member_cstr(&w, "repo", repo);
        json_key(&w, "hashes");
        json_open_array(&w);
        json_put_text(&w, hash);
        json_close_array(&w);
        json_close_object(&w);
        code = control_post(cli, "/objects/touch", &body, &answer);
        if (code != CLI_EXIT_OK)
                return code;
        sizes = json_member_named(answer.root, "sizes");
        if (json_count(sizes) != 1 || !json_int(json_first(sizes), ret_size))
                return cli_fail(cli, CLI_EXIT_FAILED, "the server's answer makes no sense");
        return CLI_EXIT_OK;
}

struct reception {
        struct object_download *download;
        int64_t begin;  /* of this exchange */
        int64_t offset; /* of the next byte */
        int (*take)(void *context, struct lessor_slice bytes);
        void *context;
};

static int on_bytes(void *context, long status, struct lessor_slice bytes)
{
        struct reception *r = context;
        struct object_figures *figures = &r->download->figures;
        const struct object_link_options *options = &r->download->options;
        int e;

        if (status != (r->begin > 0 ? 206 : 200))
                return LESSOR_E_PROTOCOL;
        e = r->take(r->context, bytes);
        if (e < 0)
                return e;
        r->offset += (int64_t)bytes.n;
        figures->n_bytes += (int64_t)bytes.n;
        if (options->moved != NULL)
                options->moved(options->context, figures);
        return 0;
}

static int keep_problem(struct object_download *d, const struct http_transfer *t)
{
        _cleanup_(lessor_arena_freep) struct lessor_arena *arena = lessor_arena_new();

        if (arena == NULL)
                return LESSOR_E_NOMEM;
        free(d->problem);
        d->problem = strdup(control_text(control_link_json(t, arena), "message"));
        return http_transfer_status(t) == 404 ? LESSOR_E_NOT_FOUND : LESSOR_E_REFUSED;
}

/* One exchange, from where the last one stopped. `ret_away`: ask again. */
static int receive(struct reception *r, const char *path, bool *ret_away)
{
        const struct object_link_options *options = &r->download->options;
        _cleanup_(http_transfer_freep) struct http_transfer *t = NULL;
        char range[48];
        const char *headers[] = {range};
        struct http_request request = {.method = "GET",
                                       .url = path,
                                       .headers = headers,
                                       .n_headers = r->offset > 0 ? 1 : 0,
                                       .stall_ms = STALL_MS,
                                       .take = on_bytes,
                                       .context = r};
        int e;

        r->begin = r->offset;
        snprintf(range, sizeof(range), "range: bytes=%lld-", (long long)r->offset);
        e = control_link_call(options->link, &request, options->stop, &t);
        *ret_away = t != NULL && http_transfer_done(t) && is_away(t);
        if (*ret_away || e < 0)
                return *ret_away ? 0 : e;
        if (http_transfer_status(t) / 100 != 2)
                return keep_problem(r->download, t);
        r->download->figures.n_objects++;
        return 0;
}

int object_download_bytes(struct object_download *download, struct lessor_slice hash, int64_t offset,
                          int (*take)(void *context, struct lessor_slice bytes), void *context)
{
        _cleanup_(buf_done) struct buf path = {0}, name = {0};
        struct reception reception = {
                .download = download, .offset = offset, .take = take, .context = context};
        int64_t away_since_ms = 0, before;
        bool away;
        int r;

        buf_slice(&name, hash);
        buf_text(&path, "/objects");
        control_query(&path, "repo", download->options.repo);
        control_query(&path, "hash", name.p);
        if (buf_failed(&path) < 0 || buf_failed(&name) < 0)
                return LESSOR_E_NOMEM;
        for (;;) {
                before = reception.offset;
                r = receive(&reception, path.p, &away);
                if (r < 0 || !away)
                        return r;
                if (reception.offset > before)
                        away_since_ms = 0;
                r = wait_for_server(&download->options, &away_since_ms);
                if (r < 0)
                        return r;
        }
}

static int to_taker(void *context, struct lessor_slice bytes)
{
        return tree_take(context, bytes);
}

int object_download_tree(void *context, struct lessor_slice hash, int64_t size, struct tree_taker *taker)
{
        (void)size; /* the taker checks it */
        return object_download_bytes(context, hash, 0, to_taker, taker);
}
