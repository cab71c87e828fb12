/* SPDX-License-Identifier: MIT */
/* What happens before a body. */
#include "fixture.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "http/offload.h"
#include "lessor/error.h"

#define BODY_MS            200
#define LIMIT              32
#define HOST               "Host: here\r\n"
#define GOOD               "X-Who: good\r\n"
#define POST(target, head) "POST " target " HTTP/1.1\r\n" HOST head
#define LENGTH(n)          "Content-Length: " n "\r\n\r\n"
#define CHUNKED            "Transfer-Encoding: chunked\r\n\r\n"

static struct fixture *f;
static int fd;

static void answer_text(struct http_request *request, unsigned status, const char *text)
{
        struct buf body;

        buf_init(&body);
        buf_text(&body, text);
        http_answer(request, status, "text/plain", &body);
}

/* Admits who says that he is good. */
static void admit(struct http_request *request, void *context)
{
        struct lessor_slice who = http_header(request, "X-Who");

        fixture_note(context, &((struct fixture *)context)->n_arrived);
        assert_int_equal(request->body.n, 0);
        if (!lessor_slice_equal(who, LESSOR_SLICE("good"))) {
                answer_text(request, 401, "who are you?");
                return;
        }
        request->admitted = (void *)"somebody good";
}

static void admit_durably(struct http_request *request, void *context)
{
        http_answer_after(request, fixture_when_told, NULL, context);
        admit(request, context);
}

static void look(void *context)
{
        fixture_until_let_go(context);
}

static void admit_after_looking(struct http_request *request, void *context)
{
        http_offload(request, look, admit, context);
}

static void refuse(struct http_request *request, unsigned status, const char *why, void *context)
{
        struct buf body;

        (void)context;
        buf_init(&body);
        buf_printf(&body, "mine %u: %s", status, why);
        http_answer(request, status, "text/x-mine", &body);
}

static void handle(struct http_request *request, void *context)
{
        struct buf body;

        (void)context;
        buf_init(&body);
        buf_printf(&body, "%s: ", request->admitted == NULL ? "nobody" : (const char *)request->admitted);
        buf_slice(&body, request->body);
        http_answer(request, 200, "text/plain", &body);
}

static void other_row(struct http_request *request, void *context)
{
        (void)context;
        answer_text(request, 200, "put");
}

static void catch_all(struct http_request *request, void *context)
{
        (void)context;
        answer_text(request, 404, "nothing here");
}

static const struct http_gate gate = {
        .admit = admit, .refuse = refuse, .body_ms = BODY_MS, .any_method = true};
static const struct http_gate durable_gate = {.admit = admit_durably, .refuse = refuse};
static const struct http_gate looking_gate = {.admit = admit_after_looking};
static const struct http_gate silent_gate = {.body_ms = BODY_MS};

static const struct http_route routes[] = {
        {"POST", "/in", handle, LIMIT, "in", "", NULL, &gate},
        {"PUT", "/in", other_row, LIMIT, "put", ""},
        {"POST", "/durable", handle, LIMIT, "durable", "", NULL, &durable_gate},
        {"POST", "/looking", handle, LIMIT, "looking", "", NULL, &looking_gate},
        {"POST", "/own-words", handle, LIMIT, "own-words", "", NULL, &silent_gate},
        {NULL, "*", catch_all, LIMIT, "not-found", ""},
        {0},
};

static int setup(void **state)
{
        struct http_options options;

        (void)state;
        http_options_init(&options);
        options.no_access_log = true;
        f = fixture_new_with(&options, routes);
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

static void expect(struct reply reply, unsigned status, const char *body)
{
        assert_int_equal(reply.status, status);
        assert_string_equal(reply.body, body);
}

static void refused_before_the_body_is_sent(void **state)
{
        struct reply reply;

        (void)state;
        reply = client_ask(fd, POST("/in", LENGTH("10")));
        expect(reply, 401, "who are you?");
        assert_true(reply.closes);
        client_expect_closed(fd);
}

static void refused_without_being_told_to_continue(void **state)
{
        (void)state;
        expect(client_ask(fd, POST("/in", "Expect: 100-continue\r\n" LENGTH("10"))), 401, "who are you?");
        client_expect_closed(fd);
}

static void admitted_before_being_told_to_continue(void **state)
{
        (void)state;
        assert_int_equal(client_ask(fd, POST("/in", GOOD "Expect: 100-continue\r\n" LENGTH("5"))).status,
                         100);
        assert_int_equal(f->n_arrived, 1);
        expect(client_ask(fd, "hello"), 200, "somebody good: hello");
        expect(client_ask(fd, POST("/in", GOOD LENGTH("2")) "on"), 200, "somebody good: on");
}

/* More than both sides' buffers hold, so that a reset would come before the client has read. */
static void refusal_reaches_a_client_that_goes_on_sending(void **state)
{
        char *much = calloc(1, 6000000);
        struct reply reply;

        (void)state;
        assert_non_null(much);
        client_send(fd, POST("/in", LENGTH("6000000")));
        client_send_bytes(fd, much, 6000000);
        reply = client_read(fd);
        expect(reply, 401, "who are you?");
        assert_true(reply.closes);
        client_expect_closed(fd);
        free(much);
        fixture_await_connections(f, 0);
}

static void connection_stays_after_a_refusal_without_a_body(void **state)
{
        (void)state;
        expect(client_ask(fd, POST("/in", LENGTH("0"))), 401, "who are you?");
        expect(client_ask(fd, POST("/in", GOOD LENGTH("0"))), 200, "somebody good: ");
        expect(client_ask(fd, POST("/in", "\r\n")), 401, "who are you?");
        expect(client_ask(fd, POST("/in", GOOD "\r\n")), 200, "somebody good: ");
}

static void other_methods_are_admitted_and_then_refused(void **state)
{
        (void)state;
        expect(client_ask(fd, "GET /in HTTP/1.1\r\n" HOST "\r\n"), 401, "who are you?");
        expect(client_ask(fd, "GET /in HTTP/1.1\r\n" HOST GOOD "\r\n"), 404,
               "mine 404: that method is not served here");
        expect(client_ask(fd, "OPTIONS /in HTTP/1.1\r\n" HOST GOOD "\r\n"), 404,
               "mine 404: that method is not served here");
        client_send(fd, "HEAD /in HTTP/1.1\r\n" HOST GOOD "\r\n");
        assert_int_equal(client_read_head(fd).status, 404);
        assert_int_equal(f->n_arrived, 4);
        expect(client_ask(fd, "PUT /in HTTP/1.1\r\n" HOST "\r\n"), 200, "put");
        expect(client_ask(fd, "GET /own-words HTTP/1.1\r\n" HOST "\r\n"), 404, "nothing here");
        assert_int_equal(f->n_arrived, 4);
}

static void credential_is_looked_at_before_the_length(void **state)
{
        struct reply reply;

        (void)state;
        reply = client_ask(fd, POST("/in", LENGTH("33")));
        expect(reply, 401, "who are you?");
        close(fd);
        fd = client_connect(f);
        reply = client_ask(fd, POST("/in", GOOD LENGTH("33")));
        expect(reply, 413, "mine 413: the body is larger than this endpoint takes");
        assert_true(reply.closes);
        assert_non_null(strstr(reply.head, "\r\nContent-Type: text/x-mine\r\n"));
        client_expect_closed(fd);
}

#define BYTES_32 "12345678123456781234567812345678"

static void exactly_the_limit_passes(void **state)
{
        (void)state;
        expect(client_ask(fd, POST("/in", GOOD LENGTH("32")) BYTES_32), 200, "somebody good: " BYTES_32);
        expect(client_ask(fd, POST("/in", GOOD CHUNKED) "20\r\n" BYTES_32 "\r\n0\r\n\r\n"), 200,
               "somebody good: " BYTES_32);
}

static void one_more_in_chunks_is_given_up_at_once(void **state)
{
        struct reply reply;

        (void)state;
        client_send(fd, POST("/in", GOOD CHUNKED) "20\r\n" BYTES_32 "\r\n1\r\nx");
        reply = client_read(fd);
        expect(reply, 413, "mine 413: the body is larger than this endpoint takes");
        assert_true(reply.closes);
        assert_non_null(strstr(reply.head, "HTTP/1.1 413 Content Too Large\r\n"));
        assert_non_null(strstr(reply.head, "\r\nDate: "));
        client_expect_closed(fd);
        fixture_await_connections(f, 0);
}

static void expect_408(const char *words)
{
        struct reply reply = client_read(fd);

        expect(reply, 408, words);
        assert_true(reply.closes);
        client_expect_closed(fd);
        assert_int_equal(fixture_stats(f).timed_out, 1);
}

static void body_that_stops_is_408_in_the_routes_words(void **state)
{
        (void)state;
        client_send(fd, POST("/in", GOOD LENGTH("10")) "hello");
        expect_408("mine 408: the request took too long to arrive");
}

static void body_that_trickles_gets_no_more_time(void **state)
{
        struct pollfd p = {.fd = fd, .events = POLLIN};
        int64_t began_ms = clock_monotonic_ms();

        (void)state;
        client_send(fd, POST("/own-words", LENGTH("32")));
        while (poll(&p, 1, BODY_MS / 4) == 0)
                client_send(fd, "x");
        expect_408("{\"error\":\"bad-request\",\"message\":\"the request took too long to arrive\"}");
        assert_true(clock_monotonic_ms() - began_ms >= BODY_MS);
}

static void refusal_waits_for_what_its_admission_rests_on(void **state)
{
        struct pollfd p = {.fd = fd, .events = POLLIN};

        (void)state;
        client_send(fd, POST("/durable", LENGTH("10")));
        fixture_await(f, &f->n_held, 1);
        assert_int_equal(poll(&p, 1, 0), 0);
        fixture_tell(f, 0);
        expect(client_read(fd), 401, "who are you?");
        client_expect_closed(fd);
}

static void answer_waits_for_what_its_admission_rests_on(void **state)
{
        (void)state;
        client_send(fd, POST("/durable", GOOD LENGTH("2")) "on");
        fixture_await(f, &f->n_held, 1);
        fixture_tell(f, 0);
        expect(client_read(fd), 200, "somebody good: on");
        client_send(fd, POST("/durable", GOOD LENGTH("2")) "on");
        fixture_await(f, &f->n_held, 2);
        fixture_tell(f, LESSOR_E_UNAVAILABLE);
        assert_int_equal(client_read(fd).status, 503);
        client_send(fd, POST("/durable", GOOD LENGTH("33")));
        fixture_await(f, &f->n_held, 3);
        fixture_tell(f, 0);
        assert_int_equal(client_read(fd).status, 413);
}

static void admission_may_do_blocking_work(void **state)
{
        struct pollfd p = {.fd = fd, .events = POLLIN};

        (void)state;
        client_send(fd, POST("/looking", GOOD "Expect: 100-continue\r\n" LENGTH("2")));
        fixture_await(f, &f->n_arrived, 1);
        assert_int_equal(poll(&p, 1, 0), 0);
        fixture_let_go(f);
        assert_int_equal(client_read(fd).status, 100);
        expect(client_ask(fd, "on"), 200, "somebody good: on");
        expect(client_ask(fd, POST("/looking", LENGTH("2"))), 401, "who are you?");
        client_expect_closed(fd);
}

static void pipelined_requests_are_each_admitted(void **state)
{
        (void)state;
        client_send(fd, POST("/in", GOOD LENGTH("2")) "on" POST(
                                "/in", GOOD CHUNKED) "3\r\ntwo\r\n0\r\n\r\n" POST("/in", LENGTH("2")) "no");
        expect(client_read(fd), 200, "somebody good: on");
        expect(client_read(fd), 200, "somebody good: two");
        expect(client_read(fd), 401, "who are you?");
        client_expect_closed(fd);
        assert_int_equal(f->n_arrived, 3);
}

static void *send_the_rest(void *context)
{
        poll(NULL, 0, 50);
        client_send(fd, "lo");
        return context;
}

static void drain_lets_an_admitted_body_arrive(void **state)
{
        struct reply reply;
        pthread_t thread;

        (void)state;
        client_send(fd, POST("/in", GOOD LENGTH("5")) "hel");
        fixture_await(f, &f->n_arrived, 1);
        assert_int_equal(pthread_create(&thread, NULL, send_the_rest, NULL), 0);
        assert_int_equal(http_server_drain(f->server, 5000), 0);
        reply = client_read(fd);
        expect(reply, 200, "somebody good: hello");
        assert_true(reply.closes);
        pthread_join(thread, NULL);
}

static void leaving_at_any_byte_leaves_nothing_behind(void **state)
{
        static const char request[] =
                POST("/in", GOOD LENGTH("5")) "hello" POST("/in", GOOD CHUNKED) "2\r\non\r\n0\r\n\r\n";

        (void)state;
        for (size_t n = 0; n < sizeof(request); n++) {
                int other = client_connect(f);

                client_send_bytes(other, request, n);
                close(other);
        }
        fixture_await_connections(f, 1);
        assert_int_equal(fixture_stats(f).requests, 0);
        expect(client_ask(fd, POST("/in", GOOD LENGTH("2")) "on"), 200, "somebody good: on");
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
        const struct CMUnitTest tests[] = {
                CASE(refused_before_the_body_is_sent),
                CASE(refused_without_being_told_to_continue),
                CASE(admitted_before_being_told_to_continue),
                CASE(refusal_reaches_a_client_that_goes_on_sending),
                CASE(connection_stays_after_a_refusal_without_a_body),
                CASE(other_methods_are_admitted_and_then_refused),
                CASE(credential_is_looked_at_before_the_length),
                CASE(exactly_the_limit_passes),
                CASE(one_more_in_chunks_is_given_up_at_once),
                CASE(body_that_stops_is_408_in_the_routes_words),
                CASE(body_that_trickles_gets_no_more_time),
                CASE(refusal_waits_for_what_its_admission_rests_on),
                CASE(answer_waits_for_what_its_admission_rests_on),
                CASE(admission_may_do_blocking_work),
                CASE(pipelined_requests_are_each_admitted),
                CASE(drain_lets_an_admitted_body_arrive),
                CASE(leaving_at_any_byte_leaves_nothing_behind),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
