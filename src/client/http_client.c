/* SPDX-License-Identifier: MIT */
#include "client/http_client.h"

#include <curl/curl.h>
#include <errno.h>
#include <pthread.h>
#include <sodium.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "client/address_guard.h"

#define CONNECT_TIMEOUT_MS  10000L
#define RETRY_AFTER_LONGEST 3600
#define IDLE_HANDLES_KEPT   4
#define UPLOAD_STEP         262144L

struct http_client {
        CURLM *multi;
        char *ca_file;
        char *proxy;
        char *unix_socket;
        bool guarded;
        atomic_bool woken;
        CURL *idle[IDLE_HANDLES_KEPT];
        size_t n_idle;
};

struct http_transfer {
        struct http_client *client;
        CURL *easy;
        struct curl_slist *headers;
        struct buf body;
        struct buf answer;
        size_t max_answer_bytes;
        bool has_file;
        int file;
        int64_t file_bytes, file_at;
        int (*take)(void *context, long status, struct lessor_slice bytes);
        void (*sent)(void *context, int64_t n_bytes);
        void *context;
        bool done;
        bool forbidden; /* the guard stopped it */
        int error;
        long status;
        int64_t retry_after_ms;
        char problem[CURL_ERROR_SIZE];
};

static pthread_once_t global_once = PTHREAD_ONCE_INIT;
static CURLcode global_result;

static void global_start(void)
{
        global_result = curl_global_init(CURL_GLOBAL_DEFAULT);
}

static int copy_text(const char *text, char **ret_copy)
{
        *ret_copy = NULL;
        if (text == NULL)
                return 0;
        *ret_copy = strdup(text);
        return *ret_copy == NULL ? LESSOR_E_NOMEM : 0;
}

int http_client_new(const struct http_client_options *options, struct http_client **ret_client)
{
        _cleanup_(http_client_freep) struct http_client *client = NULL;
        int r;

        pthread_once(&global_once, global_start);
        if (global_result != CURLE_OK)
                return LESSOR_E_NOMEM;
        if (options->guarded && options->proxy != NULL)
                return LESSOR_E_INVALID;
        client = calloc(1, sizeof(*client));
        if (client == NULL)
                return LESSOR_E_NOMEM;
        client->guarded = options->guarded;
        r = copy_text(options->ca_file, &client->ca_file);
        if (r == 0)
                r = copy_text(options->proxy, &client->proxy);
        if (r == 0)
                r = copy_text(options->unix_socket, &client->unix_socket);
        if (r < 0)
                return r;
        client->multi = curl_multi_init();
        if (client->multi == NULL)
                return LESSOR_E_NOMEM;
        *ret_client = TAKE(client);
        return 0;
}

struct http_client *http_client_free(struct http_client *client)
{
        if (client == NULL)
                return NULL;
        for (size_t i = 0; i < client->n_idle; i++)
                curl_easy_cleanup(client->idle[i]);
        if (client->multi != NULL)
                curl_multi_cleanup(client->multi);
        free(client->ca_file);
        free(client->proxy);
        free(client->unix_socket);
        free(client);
        return NULL;
}

static size_t take_body(char *bytes, size_t size, size_t n, void *context)
{
        struct http_transfer *t = context;

        (void)size; /* is 1 */
        if (t->take != NULL && n > 0) {
                long status = 0;

                curl_easy_getinfo(t->easy, CURLINFO_RESPONSE_CODE, &status);
                if (status >= 200 && status <= 299) {
                        t->error = t->take(t->context, status, (struct lessor_slice){bytes, n});
                        return t->error < 0 ? 0 : n;
                }
        }
        if (n > t->max_answer_bytes - t->answer.n) {
                t->error = LESSOR_E_TOO_LARGE;
                return 0;
        }
        if (buf_append(&t->answer, bytes, n) < 0) {
                t->error = LESSOR_E_NOMEM;
                return 0;
        }
        return n;
}

static size_t give_file(char *bytes, size_t size, size_t n, void *context)
{
        struct http_transfer *t = context;
        int64_t left = t->file_bytes - t->file_at;
        ssize_t got;

        (void)size; /* is 1 */
        if ((int64_t)n > left)
                n = (size_t)left;
        do {
                got = pread(t->file, bytes, n, t->file_at);
        } while (got < 0 && errno == EINTR);
        if (got < 0 || (got == 0 && n > 0)) {
                t->error = LESSOR_E_IO;
                return CURL_READFUNC_ABORT;
        }
        t->file_at += got;
        if (t->sent != NULL)
                t->sent(t->context, t->file_at);
        return (size_t)got;
}

/* A connection that breaks before anything came back is tried again, from the beginning. */
static int seek_file(void *context, curl_off_t offset, int origin)
{
        struct http_transfer *t = context;

        if (origin != SEEK_SET || offset < 0 || offset > t->file_bytes)
                return CURL_SEEKFUNC_FAIL;
        t->file_at = offset;
        return CURL_SEEKFUNC_OK;
}

static curl_socket_t open_guarded(void *context, curlsocktype purpose, struct curl_sockaddr *address)
{
        struct http_transfer *t = context;

        (void)purpose;
        if (address_is_forbidden(&address->addr)) {
                t->forbidden = true;
                return CURL_SOCKET_BAD;
        }
        return socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
}

/*
 * A socket that is already open was judged when it was opened; but the file descriptor must not leak into the
 * programs that other threads start, which curl's own sockets would.
 */
static curl_socket_t open_plain(void *context, curlsocktype purpose, struct curl_sockaddr *address)
{
        (void)context;
        (void)purpose;
        return socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
}

static CURLcode set_policy(struct http_transfer *t)
{
        struct http_client *c = t->client;
        CURL *easy = t->easy;
        CURLcode r = CURLE_OK;

#define SET(option, value)                                         \
        do {                                                       \
                if (r == CURLE_OK)                                 \
                        r = curl_easy_setopt(easy, option, value); \
        } while (0)
        SET(CURLOPT_NOSIGNAL, 1L);
        SET(CURLOPT_PROTOCOLS_STR, "http,https");
        SET(CURLOPT_FOLLOWLOCATION, 0L);
        SET(CURLOPT_SSL_VERIFYPEER, 1L);
        SET(CURLOPT_SSL_VERIFYHOST, 2L);
        SET(CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
        SET(CURLOPT_TCP_NODELAY, 1L);
        SET(CURLOPT_TCP_KEEPALIVE, 1L);
        SET(CURLOPT_CONNECTTIMEOUT_MS, CONNECT_TIMEOUT_MS);
        SET(CURLOPT_USERAGENT, "lessor/" LESSOR_VERSION);
        if (c->ca_file != NULL)
                SET(CURLOPT_CAINFO, c->ca_file);
        if (c->unix_socket != NULL)
                SET(CURLOPT_UNIX_SOCKET_PATH, c->unix_socket);
        /* An empty proxy keeps curl from reading http_proxy and its kin. */
        if (c->proxy == NULL || strcmp(c->proxy, "env") != 0)
                SET(CURLOPT_PROXY, c->proxy == NULL ? "" : c->proxy);
        SET(CURLOPT_OPENSOCKETFUNCTION, c->guarded ? open_guarded : open_plain);
        SET(CURLOPT_OPENSOCKETDATA, t);
        SET(CURLOPT_WRITEFUNCTION, take_body);
        SET(CURLOPT_WRITEDATA, t);
        SET(CURLOPT_ERRORBUFFER, t->problem);
        SET(CURLOPT_PRIVATE, t);
        return r;
}

static CURLcode set_request(struct http_transfer *t, const struct http_request *request)
{
        CURL *easy = t->easy;
        CURLcode r = CURLE_OK;

        SET(CURLOPT_URL, request->url);
        SET(CURLOPT_TIMEOUT_MS, (long)request->timeout_ms);
        SET(CURLOPT_HTTPHEADER, t->headers);
        if (request->stall_ms > 0) {
                SET(CURLOPT_LOW_SPEED_LIMIT, 1L);
                SET(CURLOPT_LOW_SPEED_TIME, (long)((request->stall_ms + 999) / 1000));
        }
        if (t->has_file) {
                SET(CURLOPT_UPLOAD, 1L);
                SET(CURLOPT_CUSTOMREQUEST, request->method);
                SET(CURLOPT_INFILESIZE_LARGE, (curl_off_t)t->file_bytes);
                SET(CURLOPT_READFUNCTION, give_file);
                SET(CURLOPT_READDATA, t);
                SET(CURLOPT_SEEKFUNCTION, seek_file);
                SET(CURLOPT_SEEKDATA, t);
                SET(CURLOPT_UPLOAD_BUFFERSIZE, UPLOAD_STEP);
        } else if (strcmp(request->method, "GET") != 0) {
                SET(CURLOPT_POST, 1L);
                if (strcmp(request->method, "POST") != 0)
                        SET(CURLOPT_CUSTOMREQUEST, request->method);
                SET(CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)t->body.n);
                SET(CURLOPT_POSTFIELDS, t->body.n == 0 ? "" : t->body.p);
        } else {
                SET(CURLOPT_HTTPGET, 1L);
        }
#undef SET
        return r;
}

static int copy_request(struct http_transfer *t, const struct http_request *request)
{
        struct curl_slist *grown;

        /* "Expect:" without a value keeps curl from waiting for a 100 that few servers send. */
        t->headers = curl_slist_append(NULL, "Expect:");
        if (t->headers == NULL)
                return LESSOR_E_NOMEM;
        for (size_t i = 0; i < request->n_headers; i++) {
                grown = curl_slist_append(t->headers, request->headers[i]);
                if (grown == NULL)
                        return LESSOR_E_NOMEM;
                t->headers = grown;
        }
        return request->body.p == NULL ? 0 : buf_slice(&t->body, request->body);
}

/* The host is looked at too, for a resolver that answers a metadata name with an address of its own. */
static bool url_is_forbidden(const char *url)
{
        CURLU *u = curl_url();
        char *host = NULL;
        bool forbidden;

        if (u == NULL)
                return true;
        forbidden = curl_url_set(u, CURLUPART_URL, url, 0) != CURLUE_OK ||
                    curl_url_get(u, CURLUPART_HOST, &host, 0) != CURLUE_OK || host_is_forbidden(host);
        curl_free(host);
        curl_url_cleanup(u);
        return forbidden;
}

int http_client_start(struct http_client *client, const struct http_request *request,
                      struct http_transfer **ret_transfer)
{
        _cleanup_(http_transfer_freep) struct http_transfer *t = calloc(1, sizeof(*t));
        int r;

        if (t == NULL)
                return LESSOR_E_NOMEM;
        t->client = client;
        buf_init(&t->body);
        buf_init(&t->answer);
        t->max_answer_bytes = request->max_answer_bytes;
        t->has_file = request->has_file;
        t->file = request->file;
        t->file_bytes = request->file_bytes;
        t->take = request->take;
        t->sent = request->sent;
        t->context = request->context;
        r = copy_request(t, request);
        if (r < 0)
                return r;
        if (client->guarded && url_is_forbidden(request->url)) {
                t->done = true;
                t->error = LESSOR_E_PERMISSION;
                *ret_transfer = TAKE(t);
                return 0;
        }
        t->easy = client->n_idle > 0 ? client->idle[--client->n_idle] : curl_easy_init();
        if (t->easy == NULL || set_policy(t) != CURLE_OK || set_request(t, request) != CURLE_OK)
                return LESSOR_E_NOMEM;
        if (curl_multi_add_handle(client->multi, t->easy) != CURLM_OK)
                return LESSOR_E_NOMEM;
        *ret_transfer = TAKE(t);
        return 0;
}

static void finish(struct http_transfer *t, CURLcode result)
{
        curl_off_t retry_after = 0;

        t->done = true;
        curl_multi_remove_handle(t->client->multi, t->easy);
        if (result == CURLE_OK) {
                t->error = 0;
                curl_easy_getinfo(t->easy, CURLINFO_RESPONSE_CODE, &t->status);
                curl_easy_getinfo(t->easy, CURLINFO_RETRY_AFTER, &retry_after);
                if (retry_after > RETRY_AFTER_LONGEST)
                        retry_after = RETRY_AFTER_LONGEST;
                t->retry_after_ms = retry_after > 0 ? (int64_t)retry_after * 1000 : 0;
                return;
        }
        if (t->problem[0] == '\0')
                strncpy(t->problem, curl_easy_strerror(result), sizeof(t->problem) - 1);
        if (t->error != 0)
                return; /* take_body or give_file said why */
        if (t->forbidden)
                t->error = LESSOR_E_PERMISSION;
        else if (result == CURLE_OUT_OF_MEMORY)
                t->error = LESSOR_E_NOMEM;
        else
                t->error = LESSOR_E_LATER;
}

static bool collect_finished(struct http_client *client)
{
        bool any = false;
        CURLMsg *message;
        int left;

        while ((message = curl_multi_info_read(client->multi, &left)) != NULL) {
                struct http_transfer *t = NULL;
                CURLcode result = message->data.result;

                if (message->msg != CURLMSG_DONE)
                        continue;
                curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, (char **)&t);
                finish(t, result);
                any = true;
        }
        return any;
}

int http_client_wait(struct http_client *client, struct lessor_stop *stop, int64_t timeout_ms)
{
        int64_t until_ms = clock_monotonic_ms() + timeout_ms;
        struct curl_waitfd extra = {.fd = lessor_stop_fd(stop), .events = CURL_WAIT_POLLIN};
        int running;

        for (;;) {
                int64_t left_ms;

                if (lessor_stop_raised(stop))
                        return LESSOR_E_CLOSED;
                if (curl_multi_perform(client->multi, &running) != CURLM_OK)
                        return LESSOR_E_NOMEM;
                if (collect_finished(client) || atomic_exchange(&client->woken, false))
                        return 0;
                left_ms = until_ms - clock_monotonic_ms();
                if (left_ms <= 0)
                        return LESSOR_E_TIMEOUT;
                if (left_ms > 60000)
                        left_ms = 60000;
                if (curl_multi_poll(client->multi, &extra, stop == NULL ? 0 : 1, (int)left_ms, NULL) !=
                    CURLM_OK)
                        return LESSOR_E_NOMEM;
        }
}

void http_client_wake(struct http_client *client)
{
        atomic_store(&client->woken, true);
        curl_multi_wakeup(client->multi);
}

bool http_transfer_done(const struct http_transfer *transfer)
{
        return transfer->done;
}

int http_transfer_error(const struct http_transfer *transfer)
{
        return transfer->error;
}

const char *http_transfer_problem(const struct http_transfer *transfer)
{
        if (transfer->error == LESSOR_E_PERMISSION)
                return "the address is link-local or a cloud metadata service";
        if (transfer->error == LESSOR_E_TOO_LARGE)
                return "the answer is too large";
        return transfer->problem;
}

long http_transfer_status(const struct http_transfer *transfer)
{
        return transfer->status;
}

struct lessor_slice http_transfer_body(const struct http_transfer *transfer)
{
        return buf_view(&transfer->answer);
}

const char *http_transfer_header(const struct http_transfer *transfer, const char *name)
{
        struct curl_header *header = NULL;

        if (transfer->easy == NULL ||
            curl_easy_header(transfer->easy, name, 0, CURLH_HEADER, -1, &header) != CURLHE_OK)
                return NULL;
        return header->value;
}

int64_t http_transfer_retry_after_ms(const struct http_transfer *transfer)
{
        return transfer->retry_after_ms;
}

struct http_transfer *http_transfer_free(struct http_transfer *t)
{
        if (t == NULL)
                return NULL;
        if (t->easy != NULL) {
                struct http_client *c = t->client;

                if (!t->done)
                        curl_multi_remove_handle(c->multi, t->easy);
                curl_easy_reset(t->easy);
                if (c->n_idle < IDLE_HANDLES_KEPT)
                        c->idle[c->n_idle++] = t->easy;
                else
                        curl_easy_cleanup(t->easy);
        }
        for (struct curl_slist *h = t->headers; h != NULL; h = h->next)
                sodium_memzero(h->data, strlen(h->data)); /* one of them may carry an API key */
        curl_slist_free_all(t->headers);
        buf_wipe(&t->body);
        buf_wipe(&t->answer);
        free(t);
        return NULL;
}

int http_client_call(struct http_client *client, const struct http_request *request, struct lessor_stop *stop,
                     struct http_transfer **ret_transfer)
{
        struct http_transfer *t = NULL;
        int r;

        *ret_transfer = NULL;
        r = http_client_start(client, request, &t);
        if (r < 0)
                return r;
        *ret_transfer = t;
        while (!t->done) {
                r = http_client_wait(client, stop, request->timeout_ms + 1000);
                if (r < 0 && r != LESSOR_E_TIMEOUT)
                        return r;
        }
        return t->error;
}

static int check_url(CURLU *u, const char *text, bool *ret_has_path)
{
        char *scheme = NULL, *host = NULL, *path = NULL, *extra = NULL;
        int r = 0;

        if (curl_url_set(u, CURLUPART_URL, text, 0) != CURLUE_OK ||
            curl_url_get(u, CURLUPART_SCHEME, &scheme, 0) != CURLUE_OK ||
            curl_url_get(u, CURLUPART_HOST, &host, 0) != CURLUE_OK ||
            curl_url_get(u, CURLUPART_PATH, &path, 0) != CURLUE_OK)
                r = LESSOR_E_INVALID;
        else if (strcmp(scheme, "http") != 0 && strcmp(scheme, "https") != 0)
                r = LESSOR_E_INVALID;
        else if (curl_url_get(u, CURLUPART_USER, &extra, 0) == CURLUE_OK ||
                 curl_url_get(u, CURLUPART_PASSWORD, &extra, 0) == CURLUE_OK ||
                 curl_url_get(u, CURLUPART_QUERY, &extra, 0) == CURLUE_OK ||
                 curl_url_get(u, CURLUPART_FRAGMENT, &extra, 0) == CURLUE_OK)
                r = LESSOR_E_INVALID;
        else
                *ret_has_path = path[strspn(path, "/")] != '\0';
        curl_free(scheme);
        curl_free(host);
        curl_free(path);
        curl_free(extra);
        return r;
}

int http_base_url(const char *text, char **ret_url, bool *ret_has_path)
{
        bool has_path = false;
        CURLU *u;
        char *url;
        size_t n;
        int r;

        pthread_once(&global_once, global_start);
        u = curl_url();
        if (u == NULL)
                return LESSOR_E_NOMEM;
        r = text == NULL ? LESSOR_E_INVALID : check_url(u, text, &has_path);
        curl_url_cleanup(u);
        if (r < 0)
                return r;
        url = strdup(text);
        if (url == NULL)
                return LESSOR_E_NOMEM;
        for (n = strlen(url); n > 0 && url[n - 1] == '/'; n--)
                url[n - 1] = '\0';
        *ret_url = url;
        if (ret_has_path != NULL)
                *ret_has_path = has_path;
        return 0;
}
