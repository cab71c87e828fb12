/* SPDX-License-Identifier: MIT */
#include "fixture.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "lessor/error.h"

void fixture_note(struct fixture *f, unsigned *counter)
{
        pthread_mutex_lock(&f->lock);
        (*counter)++;
        pthread_cond_broadcast(&f->changed);
        pthread_mutex_unlock(&f->lock);
}

static void answer_text(struct http_request *request, unsigned status, struct lessor_slice text)
{
        struct buf body;

        buf_init(&body);
        buf_slice(&body, text);
        http_answer(request, status, "text/plain", &body);
}

static void echo(struct http_request *request, void *context)
{
        fixture_note(((struct fixture *)context), &((struct fixture *)context)->n_arrived);
        answer_text(request, 200, request->body);
}

/* method path query x-test host */
static void show(struct http_request *request, void *context)
{
        struct lessor_slice header = http_header(request, "X-Test"), host = http_host(request), value;
        struct buf body;

        (void)context;
        assert_int_equal(http_query(request, "q", &value), 0);
        buf_init(&body);
        buf_slice(&body, request->method);
        buf_char(&body, ' ');
        buf_slice(&body, request->path);
        buf_char(&body, ' ');
        buf_slice(&body, value.p == NULL ? LESSOR_SLICE("-") : value);
        buf_char(&body, ' ');
        buf_slice(&body, header.p == NULL ? LESSOR_SLICE("-") : header);
        buf_char(&body, ' ');
        buf_slice(&body, host.p == NULL ? LESSOR_SLICE("-") : host);
        http_answer_header(request, "X-Shown", "yes");
        http_answer(request, 200, "text/plain", &body);
}

static void own_not_found(struct http_request *request, void *context)
{
        (void)context;
        answer_text(request, 404, LESSOR_SLICE("mine"));
}

static void undelivered(struct http_request *request, void *context)
{
        struct fixture *f = context;

        assert_non_null(request->arena);
        fixture_note(f, &f->n_undelivered);
}

static void parked_done(struct http_request *request, void *context)
{
        struct fixture *f = context;

        fixture_note(f, &f->n_resumed);
        answer_text(request, 200, http_wait_over(request) ? LESSOR_SLICE("over") : LESSOR_SLICE("woken"));
}

static int64_t number_of(struct http_request *request, const char *name)
{
        struct lessor_slice text;
        char copy[32] = "";

        assert_int_equal(http_query(request, name, &text), 0);
        if (text.n < sizeof(copy))
                memcpy(copy, text.p == NULL ? "" : text.p, text.n);
        return strtoll(copy, NULL, 10);
}

static struct lessor_slice key_of(struct http_request *request)
{
        struct lessor_slice key;

        assert_int_equal(http_query(request, "key", &key), 0);
        return key;
}

static void park(struct http_request *request, void *context)
{
        struct fixture *f = context;
        struct lessor_slice key = key_of(request);

        http_on_undelivered(request, undelivered, f);
        parking_wait(f->lot, request, key, parking_generation(f->lot, key), number_of(request, "wait"),
                     parked_done, f);
}

/* The event happens between looking and parking. */
static void park_late(struct http_request *request, void *context)
{
        struct fixture *f = context;
        struct lessor_slice key = key_of(request);
        uint64_t generation = parking_generation(f->lot, key);

        parking_wake(f->lot, key);
        parking_wait(f->lot, request, key, generation, 60000, parked_done, f);
}

static void wake(struct http_request *request, void *context)
{
        struct fixture *f = context;
        struct buf body;

        buf_init(&body);
        buf_int(&body, (long long)parking_wake(f->lot, key_of(request)));
        http_answer(request, 200, "text/plain", &body);
}

/* Resumed before it is suspended. */
static void resume_early(struct http_request *request, void *context)
{
        http_suspend_prepare(request);
        assert_true(http_resume(request));
        assert_false(http_resume(request));
        http_suspend(request, 60000, parked_done, context);
}

int fixture_when_told(void *context, http_told *told, void *told_context)
{
        struct fixture *f = context;

        pthread_mutex_lock(&f->lock);
        f->told = told;
        f->told_context = told_context;
        f->n_held++;
        pthread_cond_broadcast(&f->changed);
        pthread_mutex_unlock(&f->lock);
        return 0;
}

static int when_now(void *context, http_told *told, void *told_context)
{
        (void)context;
        (void)told;
        (void)told_context;
        return 1;
}

static int when_failing(void *context, http_told *told, void *told_context)
{
        (void)context;
        (void)told;
        (void)told_context;
        return LESSOR_E_UNAVAILABLE;
}

static int when_already(void *context, http_told *told, void *told_context)
{
        (void)context;
        told(told_context, 0);
        return 0;
}

static void held_failed(struct http_request *request, void *context)
{
        (void)context;
        answer_text(request, 503, lessor_slice_of(lessor_error_name(http_held_result(request))));
}

static void hold(struct http_request *request, void *context)
{
        http_on_undelivered(request, undelivered, context);
        answer_text(request, 200, LESSOR_SLICE("held"));
        http_answer_after(request, fixture_when_told, held_failed, context);
}

static void hold_now(struct http_request *request, void *context)
{
        http_answer_after(request, when_now, held_failed, context);
        answer_text(request, 200, LESSOR_SLICE("now"));
}

static void hold_failing(struct http_request *request, void *context)
{
        answer_text(request, 200, LESSOR_SLICE("a secret of the future"));
        http_answer_after(request, when_failing, held_failed, context);
}

static void hold_already(struct http_request *request, void *context)
{
        answer_text(request, 200, LESSOR_SLICE("already"));
        http_answer_after(request, when_already, NULL, context);
}

void fixture_until_let_go(struct fixture *f)
{
        pthread_mutex_lock(&f->lock);
        f->n_arrived++;
        pthread_cond_broadcast(&f->changed);
        while (!f->leave_early)
                pthread_cond_wait(&f->changed, &f->lock);
        pthread_mutex_unlock(&f->lock);
}

/* Runs until the test lets it, so that the peer can leave before the answer is there. */
static void claim(struct http_request *request, void *context)
{
        http_on_undelivered(request, undelivered, context);
        fixture_until_let_go(context);
        answer_text(request, 200, LESSOR_SLICE("claimed"));
}

/* The same for a peer that leaves before the request is parked. */
static void park_slowly(struct http_request *request, void *context)
{
        fixture_until_let_go(context);
        park(request, context);
}

static void large(struct http_request *request, void *context)
{
        size_t n = (size_t)number_of(request, "n");
        struct buf body;

        http_on_undelivered(request, undelivered, context);
        buf_init(&body);
        assert_int_equal(buf_reserve(&body, n), 0);
        memset(body.p, 'x', n);
        body.n = n;
        http_answer(request, 200, "text/plain", &body);
}

static void silent(struct http_request *request, void *context)
{
        (void)request;
        (void)context;
}

static void who(struct http_request *request, void *context)
{
        uint32_t uid = 0;
        struct buf body;

        (void)context;
        buf_init(&body);
        buf_text(&body, http_peer_uid(request, &uid) ? "uid " : "address ");
        if (http_peer(request).n > 0)
                buf_slice(&body, http_peer(request));
        else
                buf_int(&body, uid);
        buf_char(&body, ' ');
        buf_text(&body, http_scheme(request));
        http_answer(request, 200, "text/plain", &body);
}

static const struct http_route routes[] = {
        {"POST", "/echo", echo, 65536, "echo", ""},
        {"POST", "/small", echo, 16, "small", ""},
        {"POST", "/big", echo, 33554432, "big", ""},
        {NULL, "/show", show, 16, "show", ""},
        {"GET", "/under/*", show, 0, "under", ""},
        {"GET", "/park", park, 0, "park", ""},
        {"GET", "/park-slowly", park_slowly, 0, "park-slowly", ""},
        {"GET", "/park-late", park_late, 0, "park-late", ""},
        {"GET", "/wake", wake, 0, "wake", ""},
        {"GET", "/resume-early", resume_early, 0, "resume-early", ""},
        {"GET", "/hold", hold, 0, "hold", ""},
        {"GET", "/hold-now", hold_now, 0, "hold-now", ""},
        {"GET", "/hold-failing", hold_failing, 0, "hold-failing", ""},
        {"GET", "/hold-already", hold_already, 0, "hold-already", ""},
        {"POST", "/claim", claim, 1024, "claim", ""},
        {"GET", "/large", large, 0, "large", ""},
        {"GET", "/silent", silent, 0, "silent", ""},
        {"GET", "/who", who, 0, "who", ""},
        {NULL, "*", own_not_found, 1024, "not-found", ""},
        {0},
};

static const struct http_route control_routes[] = {
        {"GET", "/who", who, 0, "who", ""},
        {0},
};

static char *path_in(const char *directory, const char *name)
{
        char *path = NULL;

        assert_true(asprintf(&path, "%s/%s", directory, name) > 0);
        return path;
}

struct fixture *fixture_new_unstarted(void)
{
        struct fixture *f = calloc(1, sizeof(*f));
        char directory[] = "/tmp/http-test-XXXXXX";

        assert_non_null(f);
        assert_non_null(mkdtemp(directory));
        f->directory = strdup(directory);
        f->socket_path = path_in(directory, "control.sock");
        f->cert_path = path_in(directory, "cert.pem");
        f->key_path = path_in(directory, "key.pem");
        pthread_mutex_init(&f->lock, NULL);
        pthread_cond_init(&f->changed, NULL);
        f->arena = lessor_arena_new();
        f->lot = parking_lot_new();
        return f;
}

int fixture_start(struct fixture *f, const struct http_options *options, bool with_unix, bool tls,
                  const char **ret_problem)
{
        struct http_options o = *options;
        struct http_listen listen[2] = {{0}};
        char *address = NULL;
        int r;

        assert_true(asprintf(&address, "unix:%s", f->socket_path) > 0);
        listen[0] =
                (struct http_listen){"127.0.0.1:0", tls, f->routes == NULL ? routes : f->routes, f, "relay"};
        listen[1] = (struct http_listen){address, false, control_routes, f, "control"};
        o.listen = listen;
        o.n_listen = with_unix ? 2 : 1;
        o.tls_cert = f->cert_path;
        o.tls_key = f->key_path;
        if (o.threads == 0)
                o.threads = 2;
        r = http_server_new(&o, f->arena, &f->server, ret_problem);
        if (r == 0)
                r = http_server_start(f->server);
        free(address);
        return r;
}

struct fixture *fixture_new(const struct http_options *options, bool with_unix, bool tls)
{
        struct fixture *f = fixture_new_unstarted();
        const char *problem;

        assert_int_equal(fixture_start(f, options, with_unix, tls, &problem), 0);
        return f;
}

struct fixture *fixture_new_with(const struct http_options *options, const struct http_route *routes_of_test)
{
        struct fixture *f = fixture_new_unstarted();
        const char *problem;

        f->routes = routes_of_test;
        assert_int_equal(fixture_start(f, options, false, false, &problem), 0);
        return f;
}

void fixture_let_go(struct fixture *f)
{
        pthread_mutex_lock(&f->lock);
        f->leave_early = true;
        pthread_cond_broadcast(&f->changed);
        pthread_mutex_unlock(&f->lock);
}

void fixture_free(struct fixture *f)
{
        fixture_let_go(f);
        http_server_free(f->server);
        assert_int_equal(parking_count(f->lot), 0);
        parking_lot_free(f->lot);
        lessor_arena_free(f->arena);
        unlink(f->socket_path);
        unlink(f->cert_path);
        unlink(f->key_path);
        assert_int_equal(rmdir(f->directory), 0);
        free(f->directory);
        free(f->socket_path);
        free(f->cert_path);
        free(f->key_path);
        pthread_mutex_destroy(&f->lock);
        pthread_cond_destroy(&f->changed);
        free(f);
}

void fixture_await(struct fixture *f, const unsigned *counter, unsigned n)
{
        struct timespec until;

        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_sec += WAIT_MS / 1000;
        pthread_mutex_lock(&f->lock);
        while (*counter < n)
                assert_int_equal(pthread_cond_timedwait(&f->changed, &f->lock, &until), 0);
        pthread_mutex_unlock(&f->lock);
}

struct http_stats fixture_stats(struct fixture *f)
{
        struct http_stats stats;

        assert_int_equal(http_server_stats(f->server, f->arena, &stats), 0);
        return stats;
}

enum figure { FIGURE_PARKED, FIGURE_CONNECTIONS, FIGURE_BODY_MEMORY };

static bool is_there(struct fixture *f, enum figure figure, size_t n)
{
        struct http_stats stats = fixture_stats(f);

        if (figure == FIGURE_BODY_MEMORY)
                return stats.body_memory >= n;
        return (figure == FIGURE_PARKED ? stats.parked : stats.connections) == n;
}

/* The server tells nobody of these, so they are asked for until they come. */
static void await_figure(struct fixture *f, enum figure figure, size_t n)
{
        int64_t until_ms = clock_monotonic_ms() + WAIT_MS;

        while (!is_there(f, figure, n)) {
                assert_true(clock_monotonic_ms() < until_ms);
                poll(NULL, 0, 1);
        }
}

void fixture_await_parked(struct fixture *f, size_t n)
{
        await_figure(f, FIGURE_PARKED, n);
}

void fixture_await_connections(struct fixture *f, size_t n)
{
        await_figure(f, FIGURE_CONNECTIONS, n);
}

void fixture_await_body_memory(struct fixture *f, size_t n)
{
        await_figure(f, FIGURE_BODY_MEMORY, n);
}

void fixture_tell(struct fixture *f, int result)
{
        http_told *told;
        void *context;

        pthread_mutex_lock(&f->lock);
        told = f->told;
        context = f->told_context;
        f->told = NULL;
        pthread_mutex_unlock(&f->lock);
        assert_non_null(told);
        told(context, result);
}

int client_connect(struct fixture *f)
{
        struct sockaddr_in address = {.sin_family = AF_INET,
                                      .sin_port = htons((uint16_t)http_server_port(f->server, 0)),
                                      .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

        assert_true(fd >= 0);
        assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
        return fd;
}

int client_connect_unix(struct fixture *f)
{
        struct sockaddr_un address = {.sun_family = AF_UNIX};
        int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

        assert_true(fd >= 0);
        snprintf(address.sun_path, sizeof(address.sun_path), "%s", f->socket_path);
        assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
        return fd;
}

void client_send_bytes(int fd, const void *bytes, size_t n)
{
        const char *p = bytes;

        while (n > 0) {
                ssize_t sent = send(fd, p, n, MSG_NOSIGNAL);

                if (sent < 0)
                        return; /* the server has had enough; its answer tells */
                p += sent;
                n -= (size_t)sent;
        }
}

void client_send(int fd, const char *text)
{
        client_send_bytes(fd, text, strlen(text));
}

/* One byte at a time for the head, so that nothing of the next answer is taken. Returns 0 at the end. */
static ssize_t receive(int fd, void *to, size_t n)
{
        struct pollfd p = {.fd = fd, .events = POLLIN};
        ssize_t got;

        assert_int_equal(poll(&p, 1, WAIT_MS), 1);
        got = recv(fd, to, n, 0);
        return got < 0 ? 0 : got;
}

static const char *head_value(const struct reply *reply, const char *name)
{
        const char *at = strcasestr(reply->head, name);

        return at == NULL ? NULL : at + strlen(name);
}

static struct reply read_reply(int fd, bool head_only)
{
        struct reply reply = {0};
        const char *value;
        size_t n = 0, length;

        while (n < 4 || memcmp(reply.head + n - 4, "\r\n\r\n", 4) != 0) {
                assert_true(n < sizeof(reply.head) - 1);
                if (receive(fd, reply.head + n, 1) == 0)
                        return reply;
                n++;
        }
        assert_memory_equal(reply.head, "HTTP/1.1 ", 9);
        reply.status = (unsigned)strtoul(reply.head + 9, NULL, 10);
        value = head_value(&reply, "\r\nConnection: ");
        reply.closes = value != NULL && strncasecmp(value, "close", 5) == 0;
        value = head_value(&reply, "\r\nContent-Length: ");
        length = value == NULL || head_only ? 0 : strtoul(value, NULL, 10);
        while (reply.body_len < length) {
                char rest[65536],
                        *to = reply.body_len < sizeof(reply.body) - 1 ? reply.body + reply.body_len : rest;
                size_t room = to == rest ? sizeof(rest) : sizeof(reply.body) - 1 - reply.body_len;
                size_t want = length - reply.body_len < room ? length - reply.body_len : room;
                ssize_t got = receive(fd, to, want);

                if (got == 0)
                        break;
                reply.body_len += (size_t)got;
        }
        return reply;
}

struct reply client_read(int fd)
{
        return read_reply(fd, false);
}

struct reply client_read_head(int fd)
{
        return read_reply(fd, true);
}

struct reply client_ask(int fd, const char *text)
{
        client_send(fd, text);
        return client_read(fd);
}

size_t client_read_all(int fd, void *to, size_t n)
{
        size_t at = 0;

        while (at < n) {
                ssize_t got = receive(fd, (char *)to + at, n - at);

                if (got == 0)
                        break;
                at += (size_t)got;
        }
        return at;
}

void client_read_bytes(int fd, void *to, size_t n)
{
        assert_int_equal(client_read_all(fd, to, n), n);
}

void client_expect_closed(int fd)
{
        char byte;

        assert_int_equal(receive(fd, &byte, 1), 0);
}
