/* SPDX-License-Identifier: MIT */
#include "plane/control.h"

#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/json_read.h"
#include "base/limits.h"
#include "crypto/key_id.h"
#include "plane/control_chore.h"
#include "plane/control_routes.h"

#define TOKEN_MIN 16

/* --- Answers --- */

/* An endpoint asks one store or the other, so there are never two tickets to wait for. */
static int when_durable(void *context, http_told *told, void *told_context)
{
        struct control_call *call = context;

        if (call->lease_ticket.seq != 0)
                return lessor_lease_when_durable(call->parts->rack->parts.store, call->lease_ticket, told,
                                                 told_context);
        return lessor_routing_when_durable(call->parts->store, call->ticket, told, told_context);
}

static void not_durable(struct http_request *http, void *context)
{
        struct control_call *call = context;

        (void)http;
        call->ticket.seq = 0;
        call->lease_ticket.seq = 0;
        control_refuse_error(call, LESSOR_E_UNAVAILABLE, NULL, (struct lessor_slice){0});
}

static void answer(struct control_call *call, unsigned status, struct buf *json)
{
        if (call->ticket.seq != 0 || call->lease_ticket.seq != 0)
                http_answer_after(call->http, when_durable, not_durable, call);
        buf_char(json, '\n');
        http_answer(call->http, status, "application/json", json);
}

void control_answer(struct control_call *call, struct buf *json)
{
        answer(call, 200, json);
}

static void refuse_text(struct control_call *call, unsigned status, const char *code,
                        struct lessor_slice message)
{
        struct buf body = {0};
        struct json_writer w;

        json_writer_init(&w, &body);
        json_open_object(&w);
        json_member_cstr(&w, "error", code);
        json_member_text(&w, "message", message);
        json_close_object(&w);
        answer(call, status, &body);
}

void control_refuse(struct control_call *call, unsigned status, const char *code, const char *format, ...)
{
        _cleanup_(buf_done) struct buf message = {0};
        va_list args;

        va_start(args, format);
        buf_vprintf(&message, format, args);
        va_end(args);
        refuse_text(call, status, code, buf_view(&message));
}

unsigned control_status_of(int error)
{
        switch (error) {
        case LESSOR_E_INVALID:
        case LESSOR_E_MALFORMED:
        case LESSOR_E_TOO_LARGE:
        case LESSOR_E_BAD_SIGNATURE:
        case LESSOR_E_MISMATCH:
                return 400;
        case LESSOR_E_NOT_FOUND:
                return 404;
        case LESSOR_E_EXISTS:
        case LESSOR_E_BUSY:
        case LESSOR_E_REFUSED:
        case LESSOR_E_BROKEN_LINK:
        case LESSOR_E_TERMINAL:
        case LESSOR_E_BOOT_CHANGED:
                return 409;
        case LESSOR_E_UNAVAILABLE:
        case LESSOR_E_LOW_SPACE:
        case LESSOR_E_FULL:
                return 503;
        default:
                return 500;
        }
}

static void append_sentence(struct buf *out, const char *sentence, struct lessor_slice subject)
{
        const char *place = strstr(sentence, "{}");

        if (place == NULL) {
                buf_text(out, sentence);
                return;
        }
        buf_append(out, sentence, (size_t)(place - sentence));
        buf_slice(out, subject);
        buf_text(out, place + 2);
}

void control_refuse_error(struct control_call *call, int error, const struct control_words *words,
                          struct lessor_slice subject)
{
        _cleanup_(buf_done) struct buf message = {0};

        for (; words != NULL && words->error != 0; words++)
                if (words->error == error) {
                        append_sentence(&message, words->sentence, subject);
                        break;
                }
        if (message.n == 0)
                buf_text(&message, lessor_error_text(error));
        refuse_text(call, control_status_of(error), lessor_error_name(error), buf_view(&message));
}

void control_done(struct control_call *call, int error, const struct control_words *words,
                  struct lessor_slice subject)
{
        struct buf body = {0};

        if (error < 0) {
                control_refuse_error(call, error, words, subject);
                return;
        }
        buf_text(&body, "{\"ok\":true}");
        control_answer(call, &body);
}

/* --- Requests --- */

bool control_query(struct control_call *call, const char *name, struct lessor_slice *ret_value)
{
        struct lessor_slice value = {0};
        int e = http_query(call->http, name, &value);

        if (e < 0) {
                control_refuse_error(call, e, NULL, value);
                return false;
        }
        *ret_value = value.n == 0 ? (struct lessor_slice){0} : value;
        return true;
}

bool control_query_int(struct control_call *call, const char *name, int64_t least, int64_t most,
                       int64_t otherwise, int64_t *ret_number)
{
        struct lessor_slice text;
        int64_t number = 0;
        bool good;

        if (!control_query(call, name, &text))
                return false;
        good = text.n <= 16;
        for (size_t i = 0; good && i < text.n; i++) {
                good = text.p[i] >= '0' && text.p[i] <= '9';
                number = number * 10 + (text.p[i] - '0');
        }
        if (text.p == NULL) {
                *ret_number = otherwise;
                return true;
        }
        if (!good || number < least || number > most) {
                control_refuse(call, 400, "invalid", "`%s` is a number from %lld to %lld", name,
                               (long long)least, (long long)most);
                return false;
        }
        *ret_number = number;
        return true;
}

struct lessor_lease_store *control_leases(struct control_call *call)
{
        if (call->parts->rack != NULL)
                return call->parts->rack->parts.store;
        control_refuse(call, 503, "unavailable", "this server leases no tasks to racks");
        return NULL;
}

void control_rests_on(struct control_call *call, struct lessor_ticket lease_ticket)
{
        if (lease_ticket.seq > call->lease_ticket.seq)
                call->lease_ticket = lease_ticket;
}

bool control_has_tables(const struct control_call *call)
{
        return call->parts->directory != NULL && call->parts->projection_file == NULL;
}

static void projection_release(void *projection)
{
        projection_unref(projection);
}

const struct projection *control_projection(struct control_call *call)
{
        struct projection *projection = projection_cell_get(call->parts->projections);

        if (lessor_arena_own(call->arena, projection, projection_release) < 0) {
                projection_unref(projection);
                control_refuse_error(call, LESSOR_E_NOMEM, NULL, (struct lessor_slice){0});
                return NULL;
        }
        return projection;
}

struct lessor_slice control_key_id(struct control_call *call, struct lessor_slice identity)
{
        struct lessor_slice copy = LESSOR_SLICE("");
        struct key_id id;

        if (key_id_of_text(identity, &id) == 0)
                lessor_arena_copy(call->arena, key_id_text(&id), &copy);
        return copy;
}

/* Edits of what comes from a file would change nothing, so they are refused. False when refused. */
static bool may_edit(struct control_call *call, enum control_edit edit)
{
        const char *projection = call->parts->projection_file, *policy = call->parts->policy_file;
        const char *file = NULL, *what = "projection";

        if (edit == EDIT_EITHER && projection != NULL && policy != NULL)
                file = projection;
        if (edit == EDIT_PROJECTION)
                file = projection;
        if (edit == EDIT_POLICY) {
                file = policy;
                what = "policy";
        }
        if (file == NULL && (edit == EDIT_NONE || call->parts->directory != NULL))
                return true;
        control_refuse(call, 409, "comes-from-a-file",
                       "the %s comes from %s: change it there, or start lessord without --%s to use the "
                       "built-in tables",
                       what, file == NULL ? "a file" : file, what);
        return false;
}

void control_refuse_body(struct control_call *call, const struct message_table *table, int error,
                         const char *problem)
{
        if (error == LESSOR_E_NOMEM)
                control_refuse_error(call, error, NULL, (struct lessor_slice){0});
        else
                control_refuse(call, 400, lessor_error_name(error), "the body is no %s: %s", table->name,
                               problem == NULL ? lessor_error_text(error) : problem);
}

void *control_read(struct control_call *call, const struct message_table *table, const struct json *value)
{
        const char *problem = NULL;
        void *message = lessor_arena_alloc(call->arena, table->size);
        int e = message == NULL ? LESSOR_E_NOMEM : message_read(table, value, call->arena, message, &problem);

        if (e < 0) {
                control_refuse_body(call, table, e, problem);
                return NULL;
        }
        return message;
}

/* The body as JSON. NULL when the call was refused. */
static struct json *body_json(struct control_call *call, const struct message_table *table)
{
        const char *problem = NULL;
        struct json *value;
        int e = json_read_file_text(call->http->body, call->arena, &value, &problem);

        if (e < 0) {
                control_refuse_body(call, table, e, problem);
                return NULL;
        }
        return value;
}

/* False when the call was refused. */
static bool read_body(struct control_call *call, const struct message_table *table, void **ret_body)
{
        struct json *value;

        *ret_body = NULL;
        if (table == NULL)
                return true;
        value = body_json(call, table);
        if (value != NULL)
                *ret_body = control_read(call, table, value);
        return *ret_body != NULL;
}

/* Who drives the server, for the access log: an operator wants to know later. */
static void log_caller(struct http_request *http)
{
        char text[24] = "token";
        uint32_t uid;

        if (http_peer_uid(http, &uid))
                snprintf(text, sizeof(text), "uid %u", uid);
        http_log_caller(http, lessor_slice_of(text));
}

static void serve(struct http_request *http, struct control *control, const struct control_endpoint *endpoint)
{
        struct control_call *call = lessor_arena_alloc(http->arena, sizeof(*call));
        void *body;
        int e = 0;

        if (call == NULL) {
                http_answer(http, 500, NULL, NULL);
                return;
        }
        call->control = control;
        call->parts = &control->parts;
        call->http = http;
        call->arena = http->arena;
        log_caller(http);
        if (!may_edit(call, endpoint->edit) || !read_body(call, endpoint->body, &body))
                return;
        if (strcmp(endpoint->method, "GET") != 0)
                e = lessor_routing_now(control->parts.store, &call->now_ms);
        if (e < 0)
                control_refuse_error(call, e, NULL, (struct lessor_slice){0});
        else
                endpoint->serve(call, body);
}

static void handle(struct http_request *http, void *context)
{
        struct control *control = context;

        serve(http, control, &control_endpoints[http->route - control->routes]);
}

static void handle_nothing(struct http_request *http, void *context)
{
        (void)context;
        http_answer_json(http, 404,
                         LESSOR_SLICE("{\"error\":\"not-found\",\"message\":\"there is no such endpoint; GET "
                                      "/api/control/v1 lists them\"}\n"));
}

/* --- The token --- */

static void hash_token(struct lessor_slice token, unsigned char ret_hash[CONTROL_TOKEN_HASH_BYTES])
{
        crypto_generichash(ret_hash, CONTROL_TOKEN_HASH_BYTES, (const unsigned char *)token.p, token.n, NULL,
                           0);
}

/* Hashes are compared, so that neither the token's length nor its beginning shows in the time it takes. */
static bool token_is_right(struct http_request *http, const struct control *control)
{
        static const char scheme[] = "bearer ";
        struct lessor_slice header = http_header(http, "authorization");
        unsigned char hash[CONTROL_TOKEN_HASH_BYTES];

        if (header.n < sizeof(scheme) || strncasecmp(header.p, scheme, sizeof(scheme) - 1) != 0)
                return false;
        hash_token((struct lessor_slice){header.p + sizeof(scheme) - 1, header.n - (sizeof(scheme) - 1)},
                   hash);
        return sodium_memcmp(hash, control->token_hash, sizeof(hash)) == 0;
}

static bool check_token(struct http_request *http, const struct control *control)
{
        if (token_is_right(http, control))
                return true;
        http_answer_header(http, "WWW-Authenticate", "Bearer");
        http_answer_json(http, 401,
                         LESSOR_SLICE("{\"error\":\"unauthorized\",\"message\":\"the control API wants "
                                      "Authorization: Bearer and its token\"}\n"));
        return false;
}

static void handle_with_token(struct http_request *http, void *context)
{
        struct control *control = context;

        if (check_token(http, control))
                serve(http, control, &control_endpoints[http->route - control->token_routes]);
}

static void handle_nothing_with_token(struct http_request *http, void *context)
{
        if (check_token(http, context))
                handle_nothing(http, context);
}

static int explain(struct buf *problem, int error, const char *path, const char *why)
{
        buf_clear(problem);
        buf_printf(problem, "--control-token: %s: %s", path, why);
        return error;
}

static int read_token(const char *path, unsigned char ret_hash[CONTROL_TOKEN_HASH_BYTES],
                      struct buf *ret_problem)
{
        _cleanup_(buf_wipe) struct buf text = {0};
        struct lessor_slice token;
        mode_t mode;
        int e;

        e = file_read_private(path, LIMIT_KEY_FILE_BYTES, &text, &mode);
        if (e < 0)
                return explain(ret_problem, e, path, lessor_error_text(e));
        if ((mode & (S_IRWXG | S_IRWXO)) != 0)
                return explain(ret_problem, LESSOR_E_INVALID, path,
                               "others may read it; chmod 600 makes it yours alone");
        token = buf_view(&text);
        while (token.n > 0 && (unsigned char)token.p[token.n - 1] <= ' ')
                token.n--;
        while (token.n > 0 && (unsigned char)token.p[0] <= ' ')
                token.p++, token.n--;
        if (token.n < TOKEN_MIN)
                return explain(ret_problem, LESSOR_E_INVALID, path,
                               "a token has 16 characters at least; `openssl rand -hex 32` makes one");
        hash_token(token, ret_hash);
        return 0;
}

int control_token_check(const char *path, struct buf *ret_problem)
{
        unsigned char hash[CONTROL_TOKEN_HASH_BYTES];
        int e = read_token(path, hash, ret_problem);

        sodium_memzero(hash, sizeof(hash));
        return e;
}

/* --- Life --- */

/* What the HTTP server itself refuses, in our words. */
static void refuse_stream(struct http_request *http, unsigned status, const char *why, void *context)
{
        struct buf body = {0};
        struct json_writer w;

        (void)context;
        json_writer_init(&w, &body);
        json_open_object(&w);
        json_member_cstr(&w, "error",
                         status == 413   ? "too-large"
                         : status == 503 ? "unavailable"
                         : status == 408 ? "timeout"
                                         : "malformed");
        json_member_cstr(&w, "message", why);
        json_close_object(&w);
        buf_char(&body, '\n');
        http_answer(http, status, "application/json", &body);
}

static const struct http_gate streamed_gate = {.streamed = true, .refuse = refuse_stream};

/* One route an endpoint, then one that takes the rest, then the end. */
static struct http_route *make_routes(http_handler *handler, http_handler *rest)
{
        struct http_route *routes = calloc(control_n_endpoints + 2, sizeof(*routes));

        if (routes == NULL)
                return NULL;
        for (size_t i = 0; i < control_n_endpoints; i++) {
                const struct control_endpoint *e = &control_endpoints[i];

                routes[i] = (struct http_route){.method = e->method,
                                                .path = e->path,
                                                .handler = handler,
                                                .body_limit = e->body_limit == 0 ? LIMIT_BODY_CONTROL
                                                                                 : e->body_limit,
                                                .name = e->name,
                                                .summary = e->summary,
                                                .gate = e->streamed ? &streamed_gate : NULL};
        }
        routes[control_n_endpoints] = (struct http_route){.path = "*",
                                                          .handler = rest,
                                                          .body_limit = LIMIT_BODY_CONTROL,
                                                          .name = "-",
                                                          .summary = "There is no such endpoint"};
        return routes;
}

int control_new(const struct control_parts *parts, struct buf *ret_problem, struct control **ret_control)
{
        _cleanup_(control_freep) struct control *control = calloc(1, sizeof(*control));

        if (control == NULL)
                return LESSOR_E_NOMEM;
        control->parts = *parts;
        pthread_mutex_init(&control->backup.lock, NULL);
        control->started_ms = clock_now_ms(clock_wall());
        control->started_monotonic_ms = clock_monotonic_ms();
        control->chore = control_chore_new();
        if (control->chore == NULL)
                return LESSOR_E_NOMEM;
        if (parts->rack != NULL) {
                int e = control_watch_open(control);

                if (e == 0)
                        e = control_events_open(control, ret_problem);
                if (e < 0)
                        return e;
        }
        control->routes = make_routes(handle, handle_nothing);
        if (control->routes == NULL)
                return LESSOR_E_NOMEM;
        if (parts->token_file != NULL) {
                int e = read_token(parts->token_file, control->token_hash, ret_problem);

                if (e < 0)
                        return e;
                control->token_routes = make_routes(handle_with_token, handle_nothing_with_token);
                if (control->token_routes == NULL)
                        return LESSOR_E_NOMEM;
        }
        *ret_control = TAKE(control);
        return 0;
}

struct control *control_free(struct control *control)
{
        if (control == NULL)
                return NULL;
        if (control->backup.joinable)
                pthread_join(control->backup.thread, NULL);
        free(control->backup.path);
        free(control->backup.leases_path);
        pthread_mutex_destroy(&control->backup.lock);
        control_chore_free(control->chore);
        control_events_close(control);
        parking_lot_free(control->watchers);
        free(control->routes);
        free(control->token_routes);
        sodium_memzero(control->token_hash, sizeof(control->token_hash));
        free(control);
        return NULL;
}

const struct http_route *control_routes(const struct control *control)
{
        return control->routes;
}

const struct http_route *control_token_routes(const struct control *control)
{
        return control->token_routes;
}

void control_index(struct control_call *call, const void *body)
{
        struct buf json = {0};
        struct json_writer w;

        (void)body;
        json_writer_init(&w, &json);
        json_open_object(&w);
        json_key(&w, "endpoints");
        json_open_array(&w);
        for (size_t i = 0; i < control_n_endpoints; i++) {
                json_open_object(&w);
                json_member_cstr(&w, "method", control_endpoints[i].method);
                json_member_cstr(&w, "path", control_endpoints[i].path);
                json_member_cstr(&w, "summary", control_endpoints[i].summary);
                json_close_object(&w);
        }
        json_close_array(&w);
        json_close_object(&w);
        control_answer(call, &json);
}
