/* SPDX-License-Identifier: MIT */
#include "lessor/control_client.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/json_read.h"
#include "base/limits.h"
#include "base/macro.h"
#include "client/http_client.h"
#include "lessor/output.h"

#define DATA_DEFAULT      "./lessor-data"
#define SOCKET_NAME       "control.sock"
#define API               "/api/control/v1"
#define ANSWER_MAX        (256u << 20)
#define TIMEOUT_MS        30000
#define BACKUP_TIMEOUT_MS 86400000

/* Where the server is. */
struct place {
        struct buf socket;        /* path; empty: over TCP */
        struct buf url;           /* without the API's own path */
        struct buf authorization; /* a header; empty: none */
};

static void place_done(struct place *p)
{
        buf_done(&p->socket);
        buf_done(&p->url);
        buf_wipe(&p->authorization);
}

static int read_token(struct cli *cli, const char *path, struct buf *ret_header)
{
        _cleanup_(buf_wipe) struct buf text = {0};
        mode_t mode;
        int e;

        buf_reserve(&text, LIMIT_KEY_FILE_BYTES);
        e = file_read_private(path, LIMIT_KEY_FILE_BYTES, &text, &mode);
        if (e < 0)
                return cli_fail_error(cli, e, path, NULL);
        if ((mode & (S_IRWXG | S_IRWXO)) != 0)
                return cli_fail(cli, CLI_EXIT_REFUSED, "%s: others may read this token; chmod 600 it", path);
        while (text.n > 0 && (unsigned char)text.p[text.n - 1] <= ' ')
                text.n--;
        buf_reserve(ret_header, text.n + 32);
        buf_text(ret_header, "authorization: Bearer ");
        buf_slice(ret_header, buf_view(&text));
        return buf_failed(ret_header) < 0 ? cli_fail_nomem(cli) : CLI_EXIT_OK;
}

static int find_place(struct cli *cli, struct place *ret_place)
{
        const char *url = cli_option(cli, "control"), *token = cli_option(cli, "token");
        const char *data = cli_option(cli, "data");
        _cleanup_(place_done) struct place p = {0};
        char *base;
        int e;

        if (url != NULL) {
                if (token == NULL)
                        return cli_misuse(cli, "--control needs --token FILE");
                if (http_base_url(url, &base, NULL) < 0)
                        return cli_misuse(cli, "--control: \"%s\" is no URL", url);
                buf_text(&p.url, base);
                free(base);
                e = read_token(cli, token, &p.authorization);
                if (e != CLI_EXIT_OK)
                        return e;
        } else {
                if (data == NULL)
                        data = getenv("LESSOR_DATA");
                if (data == NULL || data[0] == '\0')
                        data = DATA_DEFAULT;
                buf_text(&p.socket, data);
                buf_text(&p.socket, data[strlen(data) - 1] == '/' ? SOCKET_NAME : "/" SOCKET_NAME);
                buf_text(&p.url, "http://localhost");
        }
        if (buf_failed(&p.url) < 0 || buf_failed(&p.socket) < 0)
                return cli_fail_nomem(cli);
        *ret_place = p;
        memset(&p, 0, sizeof(p)); /* handed over */
        return CLI_EXIT_OK;
}

static int unreachable(struct cli *cli, const struct place *place, const char *problem)
{
        if (place->socket.n == 0)
                return cli_fail(cli, CLI_EXIT_UNREACHABLE, "cannot reach the server at %s: %s", place->url.p,
                                problem);
        return cli_fail(cli, CLI_EXIT_UNREACHABLE, "cannot reach the server at %s: is lessord running?",
                        place->socket.p);
}

static int code_of_status(long status)
{
        switch (status) {
        case 404:
                return CLI_EXIT_NOT_FOUND;
        case 401:
        case 403:
        case 409:
                return CLI_EXIT_REFUSED;
        case 503:
                return CLI_EXIT_UNREACHABLE;
        default:
                return CLI_EXIT_FAILED;
        }
}

/* The server's own sentence. */
static int refused(struct cli *cli, long status, struct lessor_slice text)
{
        _cleanup_(buf_done) struct buf shown = {0};
        const char *message = "";
        struct json *root;

        if (json_read_copy(text, cli->arena, &root) == 0)
                message = control_text(root, "message");
        if (message[0] == '\0')
                return cli_fail(cli, code_of_status(status), "the server answered %ld", status);
        output_safe(&shown, lessor_slice_of(message));
        return cli_fail(cli, code_of_status(status), "%s", shown.p == NULL ? "" : shown.p);
}

static int take_answer(struct cli *cli, const struct http_transfer *transfer, bool is_json,
                       struct control_answer *ret_answer)
{
        struct control_answer answer = {0};
        long status = http_transfer_status(transfer);

        if (lessor_arena_copy(cli->arena, http_transfer_body(transfer), &answer.text) < 0)
                return cli_fail_nomem(cli);
        if (status != 200)
                return refused(cli, status, answer.text);
        if (is_json && (json_read_file_text(answer.text, cli->arena, &answer.root, NULL) < 0 ||
                        !json_is(answer.root, JSON_OBJECT)))
                return cli_fail(cli, CLI_EXIT_FAILED, "the server's answer is no JSON object");
        *ret_answer = answer;
        return CLI_EXIT_OK;
}

/* `passed` is a status that is no failure, and leaves the answer empty; 0: none. */
static int call_passing(struct cli *cli, const char *method, const char *path, const struct buf *body,
                        bool is_json, long passed, struct control_answer *ret_answer)
{
        _cleanup_(place_done) struct place place = {0};
        _cleanup_(buf_done) struct buf url = {0};
        _cleanup_(http_client_freep) struct http_client *client = NULL;
        _cleanup_(http_transfer_freep) struct http_transfer *transfer = NULL;
        const char *headers[2] = {"content-type: application/json"};
        struct http_request request = {.method = method,
                                       .headers = headers,
                                       .n_headers = 1,
                                       .max_answer_bytes = ANSWER_MAX,
                                       .timeout_ms = TIMEOUT_MS};
        int e;

        e = find_place(cli, &place);
        if (e != CLI_EXIT_OK)
                return e;
        if (place.authorization.n > 0)
                headers[request.n_headers++] = place.authorization.p;
        if (strcmp(path, "/backup") == 0)
                request.timeout_ms = BACKUP_TIMEOUT_MS;
        buf_printf(&url, "%s" API "%s", place.url.p, path);
        if (buf_failed(&url) < 0 || (body != NULL && buf_failed(body) < 0))
                return cli_fail_nomem(cli);
        request.url = url.p;
        if (body != NULL)
                request.body = buf_view(body);
        e = http_client_new(
                &(struct http_client_options){.unix_socket = place.socket.n > 0 ? place.socket.p : NULL,
                                              .ca_file = cli_option(cli, "ca")},
                &client);
        if (e == 0)
                e = http_client_call(client, &request, NULL, &transfer);
        if (e == LESSOR_E_LATER)
                return unreachable(cli, &place, http_transfer_problem(transfer));
        if (e < 0)
                return cli_fail_error(cli, e, "cannot ask the server",
                                      transfer == NULL ? NULL : http_transfer_problem(transfer));
        if (passed != 0 && http_transfer_status(transfer) == passed) {
                *ret_answer = (struct control_answer){0};
                return CLI_EXIT_OK;
        }
        return take_answer(cli, transfer, is_json, ret_answer);
}

static int call(struct cli *cli, const char *method, const char *path, const struct buf *body, bool is_json,
                struct control_answer *ret_answer)
{
        return call_passing(cli, method, path, body, is_json, 0, ret_answer);
}

int control_get(struct cli *cli, const char *path, struct control_answer *ret_answer)
{
        return call(cli, "GET", path, NULL, true, ret_answer);
}

int control_get_text(struct cli *cli, const char *path, struct control_answer *ret_answer)
{
        return call(cli, "GET", path, NULL, false, ret_answer);
}

int control_post_passing(struct cli *cli, const char *path, const struct buf *body, long passed,
                         struct control_answer *ret_answer)
{
        return call_passing(cli, "POST", path, body, true, passed, ret_answer);
}

int control_post(struct cli *cli, const char *path, const struct buf *body, struct control_answer *ret_answer)
{
        return call(cli, "POST", path, body, true, ret_answer);
}

int control_put(struct cli *cli, const char *path, const struct buf *body, struct control_answer *ret_answer)
{
        return call(cli, "PUT", path, body, true, ret_answer);
}

int control_post_texts(struct cli *cli, const char *path, struct control_answer *ret_answer, ...)
{
        _cleanup_(buf_done) struct buf body = {0};
        struct json_writer w;
        const char *key;
        va_list args;

        json_writer_init(&w, &body);
        json_open_object(&w);
        va_start(args, ret_answer);
        while ((key = va_arg(args, const char *)) != NULL)
                json_member_cstr(&w, key, va_arg(args, const char *));
        va_end(args);
        json_close_object(&w);
        return control_post(cli, path, &body, ret_answer);
}

void control_query(struct buf *path, const char *name, const char *value)
{
        static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~";

        if (value == NULL)
                return;
        buf_char(path, path->p != NULL && strchr(path->p, '?') != NULL ? '&' : '?');
        buf_text(path, name);
        buf_char(path, '=');
        for (; *value != '\0'; value++) {
                if (strchr(plain, *value) != NULL)
                        buf_char(path, *value);
                else
                        buf_printf(path, "%%%02X", (unsigned char)*value);
        }
}

const char *control_value(const struct json *value)
{
        return json_is(value, JSON_STRING) ? json_text(value).p : "";
}

const char *control_text(const struct json *object, const char *key)
{
        return control_value(json_member_named(object, key));
}

struct lessor_slice control_slice(const struct json *object, const char *key)
{
        const struct json *value = json_member_named(object, key);

        return json_is(value, JSON_STRING) ? json_text(value) : LESSOR_SLICE("");
}

int64_t control_int(const struct json *object, const char *key)
{
        int64_t number;

        return json_int(json_member_named(object, key), &number) ? number : 0;
}

bool control_true(const struct json *object, const char *key)
{
        return json_is(json_member_named(object, key), JSON_TRUE);
}

static int print(struct cli *cli, struct lessor_slice text)
{
        if (fwrite(text.p, 1, text.n, stdout) != text.n || fflush(stdout) != 0)
                return cli_fail(cli, CLI_EXIT_FAILED, "cannot write to stdout");
        return CLI_EXIT_OK;
}

int control_print(struct cli *cli, const struct control_answer *answer)
{
        return print(cli, answer->text);
}

int control_report(struct cli *cli, const struct control_answer *answer, const char *format, ...)
{
        _cleanup_(buf_done) struct buf sentence = {0}, shown = {0};
        va_list args;

        if (cli->json)
                return control_print(cli, answer);
        va_start(args, format);
        buf_vprintf(&sentence, format, args);
        va_end(args);
        output_safe(&shown, buf_view(&sentence));
        buf_char(&shown, '\n');
        if (buf_failed(&sentence) < 0 || buf_failed(&shown) < 0)
                return cli_fail_nomem(cli);
        return print(cli, buf_view(&shown));
}
