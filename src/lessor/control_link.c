/* SPDX-License-Identifier: MIT */
#include "lessor/control_link.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/json_read.h"
#include "base/limits.h"
#include "lessor/control_client.h"
#include "lessor/output.h"

#define DATA_DEFAULT "./lessor-data"
#define SOCKET_NAME  "control.sock"
#define API          "/api/control/v1"
#define ANSWER_MAX   (256u << 20)
#define HEADERS_MAX  8
#define WAIT_MS      60000 /* at a time; the transfer knows its own end */

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

struct control_link {
        struct cli *cli;
        struct place place;
        struct http_client *http;
};

int control_link_open(struct cli *cli, struct control_link **ret_link)
{
        _cleanup_(control_link_freep) struct control_link *link = calloc(1, sizeof(*link));
        int e;

        if (link == NULL)
                return cli_fail_nomem(cli);
        link->cli = cli;
        e = find_place(cli, &link->place);
        if (e != CLI_EXIT_OK)
                return e;
        e = http_client_new(&(struct http_client_options){.unix_socket = link->place.socket.n > 0
                                                                                 ? link->place.socket.p
                                                                                 : NULL,
                                                          .ca_file = cli_option(cli, "ca")},
                            &link->http);
        if (e < 0)
                return cli_fail_error(cli, e, "cannot ask the server", NULL);
        *ret_link = TAKE(link);
        return CLI_EXIT_OK;
}

struct control_link *control_link_free(struct control_link *link)
{
        if (link == NULL)
                return NULL;
        http_client_free(link->http);
        place_done(&link->place);
        free(link);
        return NULL;
}

struct cli *control_link_cli(const struct control_link *link)
{
        return link->cli;
}

struct http_client *control_link_http(struct control_link *link)
{
        return link->http;
}

int control_link_start(struct control_link *link, const struct http_request *request,
                       struct http_transfer **ret_transfer)
{
        _cleanup_(buf_done) struct buf url = {0};
        struct http_request whole = *request;
        const char *headers[HEADERS_MAX];

        if (request->n_headers + 2 > HEADERS_MAX)
                return LESSOR_E_INVALID;
        whole.n_headers = 0;
        if (!request->has_file)
                headers[whole.n_headers++] = "content-type: application/json";
        if (link->place.authorization.n > 0)
                headers[whole.n_headers++] = link->place.authorization.p;
        for (size_t i = 0; i < request->n_headers; i++)
                headers[whole.n_headers++] = request->headers[i];
        whole.headers = headers;
        if (whole.max_answer_bytes == 0)
                whole.max_answer_bytes = ANSWER_MAX;
        buf_printf(&url, "%s" API "%s", link->place.url.p, request->url);
        if (buf_failed(&url) < 0)
                return LESSOR_E_NOMEM;
        whole.url = url.p;
        return http_client_start(link->http, &whole, ret_transfer);
}

int control_link_call(struct control_link *link, const struct http_request *request, struct lessor_stop *stop,
                      struct http_transfer **ret_transfer)
{
        int e;

        *ret_transfer = NULL;
        e = control_link_start(link, request, ret_transfer);
        if (e < 0)
                return e;
        while (!http_transfer_done(*ret_transfer)) {
                e = http_client_wait(link->http, stop, WAIT_MS);
                if (e < 0 && e != LESSOR_E_TIMEOUT)
                        return e;
        }
        return http_transfer_error(*ret_transfer);
}

int control_link_fail(const struct control_link *link, int error, const struct http_transfer *transfer)
{
        const char *problem = transfer == NULL ? NULL : http_transfer_problem(transfer);

        if (error == LESSOR_E_LATER)
                return unreachable(link->cli, &link->place, problem == NULL ? "no connection" : problem);
        if (error < 0)
                return cli_fail_error(link->cli, error, "cannot ask the server", problem);
        return refused(link->cli, http_transfer_status(transfer), http_transfer_body(transfer));
}

struct json *control_link_json(const struct http_transfer *transfer, struct lessor_arena *arena)
{
        struct lessor_slice text;
        struct json *root;

        if (lessor_arena_copy(arena, http_transfer_body(transfer), &text) < 0 ||
            json_read_file_text(text, arena, &root, NULL) < 0)
                return NULL;
        return json_is(root, JSON_OBJECT) ? root : NULL;
}
