/* SPDX-License-Identifier: MIT */
#include "lessor/control_client.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/json_read.h"
#include "base/macro.h"
#include "lessor/control_link.h"
#include "lessor/output.h"

#define TIMEOUT_MS        30000
#define BACKUP_TIMEOUT_MS 86400000

static int take_answer(const struct control_link *link, struct cli *cli, const struct http_transfer *transfer,
                       bool is_json, struct control_answer *ret_answer)
{
        struct control_answer answer = {0};

        if (http_transfer_status(transfer) != 200)
                return control_link_fail(link, 0, transfer);
        if (lessor_arena_copy(cli->arena, http_transfer_body(transfer), &answer.text) < 0)
                return cli_fail_nomem(cli);
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
        _cleanup_(control_link_freep) struct control_link *link = NULL;
        _cleanup_(http_transfer_freep) struct http_transfer *transfer = NULL;
        struct http_request request = {.method = method, .url = path, .timeout_ms = TIMEOUT_MS};
        int e = control_link_open(cli, &link);

        if (e != CLI_EXIT_OK)
                return e;
        if (strcmp(path, "/backup") == 0)
                request.timeout_ms = BACKUP_TIMEOUT_MS;
        if (body != NULL && buf_failed(body) < 0)
                return cli_fail_nomem(cli);
        if (body != NULL)
                request.body = buf_view(body);
        e = control_link_call(link, &request, NULL, &transfer);
        if (e < 0)
                return control_link_fail(link, e, transfer);
        if (passed != 0 && http_transfer_status(transfer) == passed) {
                *ret_answer = (struct control_answer){0};
                return CLI_EXIT_OK;
        }
        return take_answer(link, cli, transfer, is_json, ret_answer);
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
