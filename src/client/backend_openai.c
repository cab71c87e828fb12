/* SPDX-License-Identifier: MIT */
#include <pthread.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json_read.h"
#include "base/json_write.h"
#include "base/limits.h"
#include "client/backend.h"
#include "client/http_client.h"

#define ANSWER_DEFAULT_BYTES ((size_t)8 * 1024 * 1024)
#define CLIENTS_KEPT         64

struct openai_backend {
        struct lessor_backend backend;
        char *url; /* of chat completions */
        char *model;
        char *ca_file;
        char *authorization; /* the whole header; NULL: no key. Secret */
        int64_t timeout_ms;
        size_t max_answer_bytes;

        pthread_mutex_t mutex; /* guards what follows */
        struct http_client *idle[CLIENTS_KEPT];
        size_t n_idle;
};

/* A client belongs to one thread at a time; keeping it keeps its connection to the model server open. */
static int take_client(struct openai_backend *b, struct http_client **ret_client)
{
        struct http_client_options options = {.ca_file = b->ca_file, .guarded = true};
        struct http_client *client = NULL;

        pthread_mutex_lock(&b->mutex);
        if (b->n_idle > 0)
                client = b->idle[--b->n_idle];
        pthread_mutex_unlock(&b->mutex);
        if (client == NULL)
                return http_client_new(&options, ret_client);
        *ret_client = client;
        return 0;
}

static void give_client(struct openai_backend *b, struct http_client *client)
{
        pthread_mutex_lock(&b->mutex);
        if (b->n_idle < CLIENTS_KEPT)
                b->idle[b->n_idle++] = TAKE(client);
        pthread_mutex_unlock(&b->mutex);
        http_client_free(client);
}

static void put_message(struct json_writer *w, const char *role, struct lessor_slice content)
{
        json_open_object(w);
        json_member_cstr(w, "role", role);
        json_member_text(w, "content", content);
        json_close_object(w);
}

static int put_request(const struct openai_backend *b, const struct lessor_prompt *prompt, struct buf *out)
{
        static const char *const roles[] = {
                [LESSOR_ROLE_SYSTEM] = "system",
                [LESSOR_ROLE_USER] = "user",
                [LESSOR_ROLE_ASSISTANT] = "assistant",
        };
        struct json_writer w;

        json_writer_init(&w, out);
        json_open_object(&w);
        json_member_cstr(&w, "model", b->model);
        json_key(&w, "messages");
        json_open_array(&w);
        if (prompt->system.p != NULL)
                put_message(&w, "system", prompt->system);
        if (prompt->prompt.p != NULL)
                put_message(&w, "user", prompt->prompt);
        for (size_t i = 0; i < prompt->n_messages; i++)
                put_message(&w, roles[prompt->messages[i].role], prompt->messages[i].content);
        json_close_array(&w);
        json_member_bool(&w, "stream", false);
        json_close_object(&w);
        return buf_failed(out);
}

static enum lessor_stop_reason stop_of(struct lessor_slice word)
{
        static const struct {
                const char *word;
                enum lessor_stop_reason reason;
        } words[] = {
                /* "stop" is also what is said of a stop sequence, but we never send one. */
                {"stop", LESSOR_STOPPED_END},          {"eos", LESSOR_STOPPED_END},
                {"end_turn", LESSOR_STOPPED_END},      {"length", LESSOR_STOPPED_LENGTH},
                {"max_tokens", LESSOR_STOPPED_LENGTH}, {"stop_sequence", LESSOR_STOPPED_SEQUENCE},
        };

        for (size_t i = 0; i < ARRAY_SIZE(words); i++)
                if (lessor_slice_equal(word, lessor_slice_of(words[i].word)))
                        return words[i].reason;
        return LESSOR_STOPPED_UNKNOWN;
}

static int bad_answer(struct lessor_outcome *outcome)
{
        return backend_error(outcome, "backend-answer", "the model server's answer is no chat completion",
                             true);
}

static int read_answer(struct lessor_slice body, struct lessor_arena *arena,
                       struct lessor_outcome *ret_outcome)
{
        struct lessor_outcome outcome = {.disposition = LESSOR_DISPOSITION_OK,
                                         .stop = LESSOR_STOPPED_UNKNOWN};
        struct json *value, *choice, *content, *reason, *model;
        int r = json_read_copy(body, arena, &value);

        if (r == LESSOR_E_NOMEM)
                return r;
        if (r < 0)
                return bad_answer(ret_outcome);
        choice = json_first(json_member_named(value, "choices"));
        content = json_member_named(json_member_named(choice, "message"), "content");
        reason = json_member_named(choice, "finish_reason");
        model = json_member_named(value, "model");
        if (!json_is(content, JSON_STRING))
                return bad_answer(ret_outcome);
        if (json_is(reason, JSON_STRING)) {
                outcome.stop = stop_of(json_text(reason));
                outcome.stop_reported = true;
        }
        if (json_is(model, JSON_STRING) && json_text(model).n > 0)
                outcome.model = json_text(model);
        outcome.text = json_text(content);
        *ret_outcome = outcome; /* its texts are the value's, which the arena owns */
        return 0;
}

/*
 * What the server wrote beside its status stays here: it would travel to the site, and some servers repeat
 * the API key or the prompt in it.
 */
static int bad_status(long status, struct lessor_arena *arena, struct lessor_outcome *ret_outcome)
{
        bool retryable = status >= 500 || status == 429 || status == 408;
        struct lessor_slice message = {0};
        struct buf text;
        int r;

        if (status == 401 || status == 403)
                return backend_error(ret_outcome, "backend-auth", "the model server did not accept our key",
                                     false);
        if (status >= 300 && status < 400)
                return backend_error(ret_outcome, "backend-redirect",
                                     "the model server answered with a redirect, which is not followed",
                                     false);
        buf_init(&text);
        buf_printf(&text, "the model server answered with HTTP status %ld", status);
        r = buf_failed(&text);
        if (r == 0)
                r = lessor_arena_copy(arena, buf_view(&text), &message);
        buf_done(&text);
        return r < 0 ? r : backend_error(ret_outcome, "backend-status", message.p, retryable);
}

static int judge(const struct http_transfer *transfer, int error, struct lessor_arena *arena,
                 struct lessor_outcome *ret_outcome)
{
        long status;

        switch (error) {
        case 0:
                break;
        case LESSOR_E_NOMEM:
                return LESSOR_E_NOMEM;
        case LESSOR_E_CLOSED:
                return backend_canceled(ret_outcome);
        case LESSOR_E_PERMISSION:
                return backend_error(ret_outcome, "backend-forbidden",
                                     "the model server's address is link-local or a metadata service", false);
        case LESSOR_E_TOO_LARGE:
                return backend_error(ret_outcome, "backend-output", "the model server's answer is too large",
                                     false);
        default:
                return backend_error(ret_outcome, "backend-unreachable",
                                     "the model server cannot be reached or took too long", true);
        }
        status = http_transfer_status(transfer);
        if (status != 200)
                return bad_status(status, arena, ret_outcome);
        return read_answer(http_transfer_body(transfer), arena, ret_outcome);
}

static int openai_run(struct lessor_backend *backend, const struct lessor_prompt *prompt,
                      struct lessor_stop *stop, struct lessor_arena *arena,
                      struct lessor_outcome *ret_outcome)
{
        struct openai_backend *b = container_of(backend, struct openai_backend, backend);
        const char *headers[] = {"content-type: application/json", "accept: application/json",
                                 b->authorization};
        struct http_request request = {
                .method = "POST",
                .url = b->url,
                .headers = headers,
                .n_headers = b->authorization == NULL ? 2 : 3,
                .max_answer_bytes = b->max_answer_bytes,
                .timeout_ms = b->timeout_ms,
        };
        struct http_transfer *transfer = NULL;
        struct http_client *client = NULL;
        _cleanup_(buf_wipe) struct buf body;
        int r, error;

        buf_init(&body);
        r = put_request(b, prompt, &body);
        if (r == 0)
                r = take_client(b, &client);
        if (r < 0)
                return r;
        request.body = buf_view(&body);
        error = http_client_call(client, &request, stop, &transfer);
        r = judge(transfer, error, arena, ret_outcome);
        http_transfer_free(transfer);
        give_client(b, client);
        return r;
}

static struct lessor_backend *openai_free(struct lessor_backend *backend)
{
        struct openai_backend *b = container_of(backend, struct openai_backend, backend);

        for (size_t i = 0; i < b->n_idle; i++)
                http_client_free(b->idle[i]);
        if (b->authorization != NULL)
                sodium_memzero(b->authorization, strlen(b->authorization));
        free(b->authorization);
        free(b->url);
        free(b->model);
        free(b->ca_file);
        pthread_mutex_destroy(&b->mutex);
        free(b);
        return NULL;
}

static const struct lessor_backend_ops openai_ops = {
        .name = "openai",
        .backend_id = "openai-http",
        .backend_class = LESSOR_BACKEND_HTTP,
        .run = openai_run,
        .free = openai_free,
};

/* Makes the header from a key, without the white space that a file or a paste leaves around it. */
static int set_key(struct openai_backend *b, struct lessor_slice key)
{
        static const char prefix[] = "authorization: Bearer ";

        while (key.n > 0 && (unsigned char)key.p[key.n - 1] <= ' ')
                key.n--;
        while (key.n > 0 && (unsigned char)key.p[0] <= ' ') {
                key.p++;
                key.n--;
        }
        for (size_t i = 0; i < key.n; i++)
                if ((unsigned char)key.p[i] <= ' ' || key.p[i] == 0x7f)
                        return LESSOR_E_INVALID;
        if (key.n == 0)
                return 0;
        b->authorization = calloc(1, sizeof(prefix) + key.n);
        if (b->authorization == NULL)
                return LESSOR_E_NOMEM;
        memcpy(b->authorization, prefix, sizeof(prefix) - 1);
        memcpy(b->authorization + sizeof(prefix) - 1, key.p, key.n);
        return 0;
}

static int read_key(struct openai_backend *b, const struct lessor_openai_options *options)
{
        _cleanup_(buf_wipe) struct buf text;
        const char *value;
        mode_t mode = 0;
        int r;

        buf_init(&text);
        if (options->api_key_file != NULL) {
                r = file_read_private(options->api_key_file, LIMIT_KEY_FILE_BYTES, &text, &mode);
                if (r == 0 && (mode & 077) != 0)
                        r = LESSOR_E_PERMISSION;
                return r < 0 ? r : set_key(b, buf_view(&text));
        }
        value = options->api_key_env == NULL ? NULL : getenv(options->api_key_env);
        return value == NULL ? 0 : set_key(b, lessor_slice_of(value));
}

static int copy_text(const char *text, char **ret_copy)
{
        if (text == NULL)
                return 0;
        *ret_copy = strdup(text);
        return *ret_copy == NULL ? LESSOR_E_NOMEM : 0;
}

static int set_url(struct openai_backend *b, const char *base_url)
{
        bool has_path = false;
        char *base = NULL;
        int r = http_base_url(base_url, &base, &has_path);

        if (r < 0)
                return r;
        if (asprintf(&b->url, "%s%s/chat/completions", base, has_path ? "" : "/v1") < 0) {
                b->url = NULL;
                r = LESSOR_E_NOMEM;
        }
        free(base);
        return r;
}

int lessor_backend_openai_new(const struct lessor_openai_options *options,
                              struct lessor_backend **ret_backend)
{
        struct openai_backend *b;
        int r;

        if (options->model == NULL || options->model[0] == '\0')
                return LESSOR_E_INVALID;
        b = calloc(1, sizeof(*b));
        if (b == NULL)
                return LESSOR_E_NOMEM;
        b->backend.ops = &openai_ops;
        pthread_mutex_init(&b->mutex, NULL);
        b->timeout_ms = options->timeout_ms > 0 ? options->timeout_ms : BACKEND_TIMEOUT_DEFAULT_MS;
        b->max_answer_bytes =
                options->max_answer_bytes > 0 ? options->max_answer_bytes : ANSWER_DEFAULT_BYTES;
        r = set_url(b, options->base_url);
        if (r == 0)
                r = copy_text(options->model, &b->model);
        if (r == 0)
                r = copy_text(options->ca_file, &b->ca_file);
        if (r == 0)
                r = read_key(b, options);
        if (r < 0) {
                openai_free(&b->backend);
                return r;
        }
        *ret_backend = &b->backend;
        return 0;
}
