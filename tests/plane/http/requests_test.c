/* SPDX-License-Identifier: MIT */
/* How requests are received, dispatched and answered. */
#include "fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

static struct fixture *f;
static int fd;

static int setup(void **state)
{
        struct http_options options;

        (void)state;
        http_options_init(&options);
        options.no_access_log = true;
        options.max_body_memory = 8388608;
        f = fixture_new(&options, true, false);
        fd = client_connect(f);
        return 0;
}

static int teardown(void **state)
{
        (void)state;
        close(fd);
        fixture_free(f);
        return 0;
}

#define HOST "Host: here\r\n"

static void expect(const char *request, unsigned status, const char *body)
{
        struct reply reply = client_ask(fd, request);

        assert_int_equal(reply.status, status);
        if (body != NULL)
                assert_string_equal(reply.body, body);
}

static void whole_body_comes_back_and_the_connection_stays(void **state)
{
        (void)state;
        for (int i = 0; i < 3; i++)
                expect("POST /echo HTTP/1.1\r\n" HOST "Content-Length: 5\r\n\r\nhello", 200, "hello");
}

static void answers_carry_a_date_and_no_server_banner(void **state)
{
        struct reply reply = client_ask(fd, "GET /show HTTP/1.1\r\n" HOST "\r\n");

        (void)state;
        assert_non_null(strstr(reply.head, "\r\nDate: "));
        assert_non_null(strstr(reply.head, "\r\nX-Shown: yes\r\n"));
        assert_null(strstr(reply.head, "Server:"));
        assert_null(strstr(reply.head, "ibmicrohttpd"));
}

static void pipelined_requests_are_answered_in_order(void **state)
{
        (void)state;
        client_send(fd, "POST /echo HTTP/1.1\r\n" HOST "Content-Length: 3\r\n\r\none"
                        "POST /echo HTTP/1.1\r\n" HOST "Content-Length: 3\r\n\r\ntwo"
                        "GET /resume-early HTTP/1.1\r\n" HOST "\r\n"
                        "GET /show?q=3 HTTP/1.1\r\n" HOST "\r\n");
        assert_string_equal(client_read(fd).body, "one");
        assert_string_equal(client_read(fd).body, "two");
        assert_string_equal(client_read(fd).body, "woken");
        assert_string_equal(client_read(fd).body, "GET /show 3 - here");
}

static void chunked_bodies_are_put_together(void **state)
{
        (void)state;
        expect("POST /echo HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n"
               "3\r\nabc\r\n2;x=y\r\nde\r\n0\r\nTrailer: t\r\n\r\n",
               200, "abcde");
        expect("GET /show HTTP/1.1\r\n" HOST "\r\n", 200, NULL);
}

static void malformed_framing_is_400_and_the_end(void **state)
{
        /* The first two are libmicrohttpd's own, and 0.9.75 writes their head twice before it closes. */
        static const char *const requests[] = {
                "POST /echo HTTP/1.1\r\n" HOST "Content-Length: five\r\n\r\nhello",
                "POST /echo HTTP/1.1\r\n" HOST "Content-Length: -1\r\n\r\n",
                "POST /echo HTTP/1.1\r\n" HOST "Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
                "POST /echo HTTP/1.1\r\n" HOST
                "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
                "POST /echo HTTP/1.1\r\n" HOST "Transfer-Encoding: gzip\r\n\r\n",
                "POST /echo HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\nzz\r\n",
                "POST /echo HTTP/1.0\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
                "POST /echo HTTP/1.1\r\n" HOST "Content-Length : 5\r\n\r\nhello",
        };

        (void)state;
        for (size_t i = 0; i < sizeof(requests) / sizeof(requests[0]); i++) {
                int one = client_connect(f);
                struct reply reply = client_ask(one, requests[i]);

                assert_int_equal(reply.status, 400);
                assert_true(reply.closes);
                if (i >= 2)
                        client_expect_closed(one);
                close(one);
        }
        fixture_await_connections(f, 1); /* the server's side has ended too */
        assert_int_equal(f->n_arrived, 0);
}

static void malformed_targets_and_hosts_are_400(void **state)
{
        static const char *const requests[] = {
                "GET /show HTTP/1.1\r\n\r\n",
                "GET /show HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
                "GET /show HTTP/1.1\r\nHost: a b\r\n\r\n",
                "GET /show HTTP/1.1\r\nHost: user@a\r\n\r\n",
                "GET show HTTP/1.1\r\n" HOST "\r\n",
                "GET ftp://here/show HTTP/1.1\r\n" HOST "\r\n",
                "GET http://user@here/show HTTP/1.1\r\n" HOST "\r\n",
                "GET http:///show HTTP/1.1\r\n" HOST "\r\n",
                "GET /sh\x01ow HTTP/1.1\r\n" HOST "\r\n",
                "GET /sh\xc3\xa4 HTTP/1.1\r\n" HOST "\r\n",
                "CONNECT here:80 HTTP/1.1\r\n" HOST "\r\n",
        };

        (void)state;
        for (size_t i = 0; i < sizeof(requests) / sizeof(requests[0]); i++) {
                int one = client_connect(f);
                struct reply reply = client_ask(one, requests[i]);

                assert_int_equal(reply.status, 400);
                close(one);
        }
}

/* Each by itself in a request that is good without it: what a proxy reads otherwise than we do. */
static void heads_that_can_be_read_in_two_ways_are_400(void **state)
{
#define HEAD(text)                     \
        {                              \
                text, sizeof(text) - 1 \
        }
        static const struct {
                const char *p;
                size_t n;
        } requests[] = {
                HEAD("GET /show HTTP/1.1\r\n" HOST "X-A: b\0c\r\nX-B: d\r\n\r\n"),
                HEAD("GET /show HTTP/1.1\r\n" HOST "X-A: b\0\r\nX-B: d\r\n\r\n"),
                HEAD("GET /show HTTP/1.1\r\n" HOST "X-A: \0b\r\nX-B: d\r\n\r\n"),
                HEAD("GET /show HTTP/1.1\r\n" HOST "X-A: b\0c\r\n\r\n"),
                HEAD("GET /show HTTP/1.1\r\n" HOST "X-A: b\0\0\0\0\0c\r\n\r\n"),
                HEAD("GET /show HTTP/1.1\r\n" HOST "X-A: b\0\r\n\r\n"),
                HEAD("GET /show HTTP/1.1\r\nHost: here\0there\r\n\r\n"),
                HEAD("GET /show HTTP/1.1\r\n" HOST "X-A\0: b\r\n\r\n"),
                HEAD("GET /show\0x HTTP/1.1\r\n" HOST "\r\n"),
                HEAD("GET /show?q=\0x HTTP/1.1\r\n" HOST "\r\n"),
                HEAD("GET\0 /show HTTP/1.1\r\n" HOST "\r\n"),
                HEAD("GET /show HTTP/1.1\0\r\n" HOST "\r\n"),
                HEAD("GET /show HTTP/1.1\r\n" HOST "X-A: b\rX-B: c\r\n\r\n"),
                HEAD("GET /show HTTP/1.1\r\n" HOST "X-A: b\x7f\r\n\r\n"),
                HEAD("GET /show HTTP/1.1\r\n" HOST "X-A: b\nX-B: c\r\n\r\n"),
                HEAD("GET /show HTTP/1.1\n" HOST "\r\n"),
                HEAD("GET /show HTTP/1.1\r\n" HOST "X-A: b\n\n"),
                HEAD("GET /show HTTP/1.1\r\n" HOST "X-A: b\r\n c\r\nX-B: d\r\n\r\n"),
                HEAD("GET /show HTTP/1.1\r\n" HOST "X-A: b\r\n\tc\r\n\r\n"),
                HEAD("GET /show HTTP/1.1\r\nHost: here\r\n there\r\n\r\n"),
                HEAD("GET  /show HTTP/1.1\r\n" HOST "\r\n"),
        };
#undef HEAD

        (void)state;
        expect("GET /show HTTP/1.1\r\n" HOST "X-A:b\r\nX-B: \t c \t\r\nX-C:\r\nX-D: \xc3\xa4\r\n\r\n", 200,
               NULL);
        for (size_t i = 0; i < sizeof(requests) / sizeof(requests[0]); i++) {
                int one = client_connect(f);
                struct reply reply;

                client_send_bytes(one, requests[i].p, requests[i].n);
                reply = client_read(one);
                if (reply.status != 400)
                        print_error("request %zu: %d\n", i, reply.status);
                assert_int_equal(reply.status, 400);
                assert_true(reply.closes);
                close(one);
        }
}

/* MHD's buffer grows and moves meanwhile, which must not look like a damaged head. */
static void long_heads_may_come_in_pieces(void **state)
{
        char head[6000] = "GET /show?q=long HTTP/1.1\r\n" HOST;
        size_t n = strlen(head);

        (void)state;
        for (int i = 0; i < 60; i++)
                n += (size_t)snprintf(head + n, sizeof(head) - n, "X-%d: %0*d\r\n", i, 1 + i, i);
        n += (size_t)snprintf(head + n, sizeof(head) - n, "\r\n");
        for (size_t piece = 1; piece < 3000; piece = piece * 3 + 4) {
                int one = client_connect(f);

                for (int again = 0; again < 3; again++) {
                        for (size_t at = 0; at < n; at += piece)
                                client_send_bytes(one, head + at, n - at < piece ? n - at : piece);
                        assert_string_equal(client_read(one).body, "GET /show long - here");
                }
                close(one);
        }
}

static void absolute_target_names_path_and_host(void **state)
{
        (void)state;
        expect("GET http://there:8080/show?q=1 HTTP/1.1\r\n" HOST "\r\n", 200, "GET /show 1 - there:8080");
        expect("GET HTTPS://there HTTP/1.1\r\n" HOST "\r\n", 404, "mine");
}

static void only_dot_segments_of_a_path_are_resolved(void **state)
{
        (void)state;
        expect("GET /show/ HTTP/1.1\r\n" HOST "\r\n", 404, "mine");
        expect("GET //show HTTP/1.1\r\n" HOST "\r\n", 404, "mine");
        expect("GET /%73how HTTP/1.1\r\n" HOST "\r\n", 404, "mine");
        expect("GET /x/show HTTP/1.1\r\n" HOST "\r\n", 404, "mine");
        expect("GET /SHOW HTTP/1.1\r\n" HOST "\r\n", 404, "mine");
        expect("GET /under/a//b HTTP/1.1\r\n" HOST "\r\n", 200, "GET /under/a//b - - here");
        expect("GET /under/a/../../show HTTP/1.1\r\n" HOST "\r\n", 200, NULL);
        expect("GET /under/a/%2e%2E/../show/.. HTTP/1.1\r\n" HOST "\r\n", 404, "mine");
        expect("GET /. HTTP/1.1\r\n" HOST "\r\n", 404, "mine");
        expect("GET /under/..a HTTP/1.1\r\n" HOST "\r\n", 200, NULL);
}

static void any_method_reaches_a_handler_that_takes_any(void **state)
{
        struct reply reply;

        (void)state;
        expect("BREW /show HTTP/1.1\r\n" HOST "\r\n", 200, "BREW /show - - here");
        expect("PUT /show HTTP/1.1\r\n" HOST "Content-Length: 2\r\n\r\nab", 200, "PUT /show - - here");
        client_send(fd, "HEAD /show HTTP/1.1\r\n" HOST "\r\n");
        reply = client_read_head(fd);
        assert_int_equal(reply.status, 200);
        assert_non_null(strstr(reply.head, "Content-Length: 19\r\n"));
        expect("GET /show HTTP/1.1\r\n" HOST "\r\n", 200, NULL); /* nothing of a body came after HEAD */
}

static void repeated_headers_are_joined(void **state)
{
        (void)state;
        expect("GET /show HTTP/1.1\r\n" HOST "x-test: a\r\nX-TEST: b \r\n\r\n", 200, "GET /show - a, b here");
}

static void query_values_are_decoded(void **state)
{
        (void)state;
        expect("GET /show?p=1&q=a%20b+c%2&q=2 HTTP/1.1\r\n" HOST "\r\n", 200, "GET /show a b c%2 - here");
        expect("GET /show?&&q HTTP/1.1\r\n" HOST "\r\n", 200, "GET /show  - here");
}

static void declared_oversize_is_413(void **state)
{
        int one = client_connect(f);
        struct reply reply;

        (void)state;
        /* a little too much: read over, and the connection stays */
        expect("POST /small HTTP/1.1\r\n" HOST "Content-Length: 17\r\n\r\n12345678901234567", 413, NULL);
        expect("POST /small HTTP/1.1\r\n" HOST "Content-Length: 16\r\n\r\n1234567890123456", 200,
               "1234567890123456");
        /* far too much: refused before it comes */
        reply = client_ask(one, "POST /small HTTP/1.1\r\n" HOST "Content-Length: 99999999999\r\n\r\n");
        assert_int_equal(reply.status, 413);
        assert_true(reply.closes);
        client_expect_closed(one);
        close(one);
}

static void undeclared_oversize_is_413(void **state)
{
        (void)state;
        expect("POST /small HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n"
               "a\r\n0123456789\r\na\r\n0123456789\r\n0\r\n\r\n",
               413, NULL);
        expect("GET /show HTTP/1.1\r\n" HOST "\r\n", 200, NULL);
}

static void endless_undeclared_body_is_cut_off_with_413(void **state)
{
        char chunk[4096 + 8];
        struct reply reply;

        (void)state;
        snprintf(chunk, sizeof(chunk), "1000\r\n%4096s\r", "x");
        chunk[sizeof(chunk) - 1] = '\n';
        client_send(fd, "POST /small HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n");
        for (int i = 0; i < 4096; i++) /* 16 MiB: twice of what is read over */
                client_send_bytes(fd, chunk, sizeof(chunk));
        reply = client_read(fd);
        if (reply.status != 0) /* else the reset overtook it, which TCP allows */
                assert_int_equal(reply.status, 413);
        fixture_await_connections(f, 0);
}

static void expectation_is_met_only_for_a_body_that_is_wanted(void **state)
{
        struct reply reply;

        (void)state;
        client_send(fd, "POST /echo HTTP/1.1\r\n" HOST "Content-Length: 5\r\nExpect: 100-continue\r\n\r\n");
        reply = client_read(fd);
        assert_int_equal(reply.status, 100);
        client_send(fd, "hello");
        assert_string_equal(client_read(fd).body, "hello");

        client_send(fd, "POST /small HTTP/1.1\r\n" HOST "Content-Length: 17\r\nExpect: 100-continue\r\n\r\n");
        reply = client_read(fd);
        assert_int_equal(reply.status, 413);
        client_expect_closed(fd);
}

static void large_bodies_share_a_budget(void **state)
{
        char *body = malloc(6291456);
        struct reply reply;
        int one = client_connect(f), two = client_connect(f);

        (void)state;
        assert_non_null(body);
        memset(body, 'b', 6291456);
        client_send(one, "POST /big HTTP/1.1\r\n" HOST "Content-Length: 6291456\r\n\r\n");
        client_send_bytes(one, body, 6291455); /* all but one byte stays in memory */
        fixture_await_body_memory(f, 6291456);
        client_send(two, "POST /big HTTP/1.1\r\n" HOST "Content-Length: 6291456\r\n\r\n");
        client_send_bytes(two, body, 6291456);
        reply = client_read(two);
        assert_int_equal(reply.status, 503);
        client_send(one, "b");
        reply = client_read(one);
        assert_int_equal(reply.status, 200);
        assert_int_equal(reply.body_len, 6291456);
        expect("GET /show HTTP/1.1\r\n" HOST "\r\n", 200, NULL);
        close(one);
        fixture_await_connections(f, 2);
        assert_int_equal(fixture_stats(f).body_memory, 0);
        client_send(two, "POST /big HTTP/1.1\r\n" HOST "Content-Length: 6291456\r\n\r\n");
        client_send_bytes(two, body, 6291456);
        assert_int_equal(client_read(two).status, 200);
        close(two);
        free(body);
}

static void too_many_or_too_long_headers_are_431(void **state)
{
        static char request[65536];
        int one = client_connect(f);
        size_t n;

        (void)state;
        n = (size_t)snprintf(request, sizeof(request), "GET /show HTTP/1.1\r\n" HOST);
        for (int i = 0; i < 101; i++)
                n += (size_t)snprintf(request + n, sizeof(request) - n, "X: 1\r\n");
        snprintf(request + n, sizeof(request) - n, "\r\n");
        expect(request, 431, NULL);

        n = (size_t)snprintf(request, sizeof(request), "GET /show HTTP/1.1\r\n" HOST "X: ");
        memset(request + n, 'x', 10000);
        memcpy(request + n + 10000, "\r\n\r\n", 5);
        assert_int_equal(client_ask(one, request).status, 431);
        close(one);
}

static void run_without_an_answer_is_500(void **state)
{
        (void)state;
        expect("GET /silent HTTP/1.1\r\n" HOST "\r\n", 500, NULL);
}

static void http_1_0_is_served_and_closed(void **state)
{
        (void)state;
        expect("GET /show HTTP/1.0\r\n\r\n", 200, "GET /show - - -");
        client_expect_closed(fd);
}

static void unix_socket_is_private_and_names_its_peer(void **state)
{
        int one = client_connect_unix(f);
        char expected[64];
        struct stat s;

        (void)state;
        snprintf(expected, sizeof(expected), "uid %u http", (unsigned)geteuid());
        assert_string_equal(client_ask(one, "GET /who HTTP/1.1\r\n" HOST "\r\n").body, expected);
        /* its table is its own */
        assert_string_equal(client_ask(one, "GET /show HTTP/1.1\r\n" HOST "\r\n").body,
                            "{\"error\":\"not-found\"}");
        assert_int_equal(stat(f->socket_path, &s), 0);
        assert_int_equal(s.st_mode & 0777, 0600);
        assert_true(S_ISSOCK(s.st_mode));
        expect("GET /who HTTP/1.1\r\n" HOST "\r\n", 200, "address 127.0.0.1 http");
        close(one);
}

static void counters_tell_what_happened(void **state)
{
        struct http_stats stats;
        uint64_t ok = 0, not_found = 0;

        (void)state;
        expect("POST /echo HTTP/1.1\r\n" HOST "Content-Length: 5\r\n\r\nhello", 200, "hello");
        expect("GET /nowhere HTTP/1.1\r\n" HOST "\r\n", 404, "mine");
        expect("GET /show HTTP/1.1\r\n" HOST "\r\n", 200, NULL); /* the two before are counted by now */
        stats = fixture_stats(f);
        for (size_t i = 0; i < stats.n_routes; i++) {
                if (strcmp(stats.routes[i].route, "echo") == 0 &&
                    strcmp(stats.routes[i].listener, "relay") == 0) {
                        ok = stats.routes[i].answers[2];
                        assert_int_equal(stats.routes[i].bytes_in, 5);
                        assert_int_equal(stats.routes[i].bytes_out, 5);
                }
                if (strcmp(stats.routes[i].route, "not-found") == 0)
                        not_found = stats.routes[i].answers[4];
        }
        assert_int_equal(ok, 1);
        assert_int_equal(not_found, 1);
        assert_int_equal(stats.accepted, 1);
        assert_int_equal(stats.connections, 1);
}

static char *file_text(int from)
{
        off_t n = lseek(from, 0, SEEK_END);
        char *text = calloc(1, (size_t)n + 1);

        assert_non_null(text);
        assert_int_equal(pread(from, text, (size_t)n, 0), n);
        return text;
}

static void access_log_names_the_request_and_no_secret(void **state)
{
        char path[] = "/tmp/http-log-XXXXXX", *log;
        int file = mkstemp(path), before = dup(STDERR_FILENO), one;
        struct http_options options;
        struct fixture *logged;

        (void)state;
        assert_true(file >= 0 && before >= 0);
        unlink(path);
        http_options_init(&options);
        logged = fixture_new(&options, false, false);
        one = client_connect(logged);
        dup2(file, STDERR_FILENO);
        client_ask(one, "POST /echo?token=SECRET1 HTTP/1.1\r\nHost: SECRET2\r\nAuthorization: SECRET3\r\n"
                        "Content-Length: 7\r\n\r\nSECRET4");
        close(one);
        fixture_free(logged); /* after which every line is written */
        dup2(before, STDERR_FILENO);
        close(before);

        log = file_text(file);
        assert_null(strstr(log, "SECRET"));
        assert_non_null(strstr(
                log, "\"event\":\"request\",\"listener\":\"relay\",\"method\":\"POST\",\"route\":\"echo\","
                     "\"path\":\"/echo\",\"status\":200,\"in\":7,\"out\":7,\"us\":"));
        assert_non_null(strstr(log, "\"peer\":\"127.0.0.1\",\"delivered\":true}\n"));
        free(log);
        close(file);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
        const struct CMUnitTest tests[] = {
                CASE(whole_body_comes_back_and_the_connection_stays),
                CASE(answers_carry_a_date_and_no_server_banner),
                CASE(pipelined_requests_are_answered_in_order),
                CASE(chunked_bodies_are_put_together),
                CASE(malformed_framing_is_400_and_the_end),
                CASE(malformed_targets_and_hosts_are_400),
                CASE(heads_that_can_be_read_in_two_ways_are_400),
                CASE(long_heads_may_come_in_pieces),
                CASE(absolute_target_names_path_and_host),
                CASE(only_dot_segments_of_a_path_are_resolved),
                CASE(any_method_reaches_a_handler_that_takes_any),
                CASE(repeated_headers_are_joined),
                CASE(query_values_are_decoded),
                CASE(declared_oversize_is_413),
                CASE(undeclared_oversize_is_413),
                CASE(endless_undeclared_body_is_cut_off_with_413),
                CASE(expectation_is_met_only_for_a_body_that_is_wanted),
                CASE(large_bodies_share_a_budget),
                CASE(too_many_or_too_long_headers_are_431),
                CASE(run_without_an_answer_is_500),
                CASE(http_1_0_is_served_and_closed),
                CASE(unix_socket_is_private_and_names_its_peer),
                CASE(counters_tell_what_happened),
                CASE(access_log_names_the_request_and_no_secret),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
