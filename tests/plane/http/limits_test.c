/* SPDX-License-Identifier: MIT */
/* Times, numbers of connections, and the end of the server. Times are real here, and short. */
#include "fixture.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "lessor/error.h"

#define SHORT_MS    200
#define HOST        "Host: here\r\n"
#define GET(target) "GET " target " HTTP/1.1\r\n" HOST "\r\n"

static struct fixture *f;
static int fd;

static int setup(void **state)
{
        struct http_options options;

        (void)state;
        http_options_init(&options);
        options.no_access_log = true;
        options.idle_ms = options.header_ms = options.body_ms = SHORT_MS;
        options.body_rate = 1000000;
        options.max_connections = 4;
        f = fixture_new(&options, true, false);
        fd = client_connect(f);
        return 0;
}

static int setup_patient(void **state)
{
        struct http_options options;

        (void)state;
        http_options_init(&options);
        options.no_access_log = true;
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

static void expect_408(int from)
{
        struct reply reply = client_read(from);

        assert_int_equal(reply.status, 408);
        assert_true(reply.closes);
        assert_non_null(strstr(reply.head, "\r\nDate: "));
        assert_string_equal(
                reply.body,
                "{\"error\":\"bad-request\",\"message\":\"the request took too long to arrive\"}");
        client_expect_closed(from);
}

static void connection_that_says_nothing_is_closed(void **state)
{
        (void)state;
        client_expect_closed(fd);
}

static void idle_connection_is_closed_without_an_answer(void **state)
{
        (void)state;
        assert_int_equal(client_ask(fd, GET("/show")).status, 200);
        client_expect_closed(fd);
        assert_int_equal(fixture_stats(f).timed_out, 0);
}

static void headers_that_do_not_end_are_408(void **state)
{
        (void)state;
        client_send(fd, "GET /show HTTP/1.1\r\nHost: ");
        expect_408(fd);
        assert_int_equal(fixture_stats(f).timed_out, 1);
}

static void body_that_stops_is_408(void **state)
{
        (void)state;
        client_send(fd, "POST /echo HTTP/1.1\r\n" HOST "Content-Length: 10\r\n\r\nhello");
        expect_408(fd);
        assert_int_equal(f->n_arrived, 0);
}

static void body_that_trickles_is_408(void **state)
{
        struct pollfd p = {.fd = fd, .events = POLLIN};

        (void)state;
        client_send(fd, "POST /echo HTTP/1.1\r\n" HOST "Content-Length: 60000\r\n\r\n");
        /* Each byte would have started an inactivity time anew. */
        while (poll(&p, 1, SHORT_MS / 10) == 0)
                client_send(fd, "x");
        expect_408(fd);
}

static void large_body_that_keeps_the_rate_has_time(void **state)
{
        char *part = calloc(1, 1000000);

        (void)state;
        assert_non_null(part);
        client_send(fd, "POST /big HTTP/1.1\r\n" HOST "Content-Length: 4000000\r\n\r\n");
        for (int i = 0; i < 4; i++) {
                poll(NULL, 0, SHORT_MS / 2); /* 400 ms in all: more than a small body has */
                client_send_bytes(fd, part, 1000000);
        }
        assert_int_equal(client_read(fd).body_len, 4000000);
        free(part);
}

static int setup_fast_readers(void **state)
{
        struct http_options options;

        (void)state;
        http_options_init(&options);
        options.no_access_log = true;
        options.body_ms = SHORT_MS;
        options.body_rate = 1000000000;
        f = fixture_new(&options, false, false);
        fd = client_connect(f);
        return 0;
}

static void answer_that_nobody_reads_is_given_up(void **state)
{
        (void)state;
        client_send(fd, GET("/large?n=67108864")); /* more than both sides' buffers hold */
        fixture_await(f, &f->n_undelivered, 1);
        fixture_await_connections(f, 0);
}

static void connections_over_the_limit_are_closed(void **state)
{
        int more[3], over;

        (void)state;
        for (int i = 0; i < 3; i++) {
                more[i] = client_connect(f);
                assert_int_equal(client_ask(more[i], GET("/show")).status, 200);
        }
        fixture_await_connections(f, 4);
        over = client_connect(f);
        client_expect_closed(over);
        assert_int_equal(fixture_stats(f).refused, 1);
        close(over);
        for (int i = 0; i < 3; i++)
                close(more[i]);
}

static void drain_wakes_the_parked_and_answers_them(void **state)
{
        struct reply reply;
        int idle = client_connect(f), silent = client_connect(f);

        (void)state;
        assert_int_equal(client_ask(idle, GET("/show")).status, 200);
        client_send(fd, GET("/park?key=a&wait=600000"));
        fixture_await_parked(f, 1);
        fixture_await_connections(f, 3);
        assert_int_equal(http_server_drain(f->server, 5000), 0);
        reply = client_read(fd);
        assert_int_equal(reply.status, 200);
        assert_string_equal(reply.body, "over");
        assert_true(reply.closes);
        client_expect_closed(fd);
        client_expect_closed(idle);
        client_expect_closed(silent);
        assert_int_equal(access(f->socket_path, F_OK), -1);
        close(idle);
        close(silent);
}

static void *tell_later(void *context)
{
        poll(NULL, 0, 50);
        fixture_tell(f, 0);
        return context;
}

static void drain_waits_for_held_answers(void **state)
{
        pthread_t thread;
        struct reply reply;

        (void)state;
        client_send(fd, GET("/hold"));
        fixture_await(f, &f->n_held, 1);
        assert_int_equal(pthread_create(&thread, NULL, tell_later, NULL), 0);
        assert_int_equal(http_server_drain(f->server, 5000), 0);
        reply = client_read(fd);
        assert_string_equal(reply.body, "held");
        assert_true(reply.closes);
        pthread_join(thread, NULL);
        assert_int_equal(f->n_undelivered, 0);
}

static void drain_cuts_off_at_its_deadline(void **state)
{
        int64_t began_ms = clock_monotonic_ms();

        (void)state;
        client_send(fd, GET("/hold"));
        fixture_await(f, &f->n_held, 1);
        assert_int_equal(http_server_drain(f->server, 100), LESSOR_E_TIMEOUT);
        assert_true(clock_monotonic_ms() - began_ms < 5000);
        assert_int_equal(client_read(fd).status, 0);
        assert_int_equal(f->n_undelivered, 1);
        fixture_tell(f, 0); /* too late, and harmless */
}

static void *send_the_rest(void *context)
{
        poll(NULL, 0, 50);
        client_send(fd, "world");
        return context;
}

static void drain_lets_a_request_arrive_that_has_begun(void **state)
{
        struct reply reply;
        pthread_t thread;

        (void)state;
        client_send(fd, "POST /echo HTTP/1.1\r\n" HOST "Content-Length: 10\r\nExpect: 100-continue\r\n\r\n");
        assert_int_equal(client_read(fd).status, 100); /* so it has begun */
        client_send(fd, "hello");
        assert_int_equal(pthread_create(&thread, NULL, send_the_rest, NULL), 0);
        assert_int_equal(http_server_drain(f->server, 5000), 0);
        reply = client_read(fd);
        assert_string_equal(reply.body, "helloworld");
        assert_true(reply.closes);
        pthread_join(thread, NULL);
}

static int bind_unix(int to, const char *path)
{
        struct sockaddr_un address = {.sun_family = AF_UNIX};

        snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
        return bind(to, (struct sockaddr *)&address, sizeof(address));
}

static void abandoned_socket_file_is_replaced_and_a_live_one_is_not(void **state)
{
        struct http_options options;
        struct http_server *second = NULL;
        struct http_listen listen = {0};
        const struct http_route none[] = {{0}};
        const char *problem = NULL;
        char *address = NULL;

        (void)state;
        http_options_init(&options);
        assert_true(asprintf(&address, "unix:%s", f->socket_path) > 0);
        listen = (struct http_listen){address, false, none, NULL, "control"};
        options.listen = &listen;
        options.n_listen = 1;
        assert_int_equal(http_server_new(&options, f->arena, &second, &problem), LESSOR_E_BUSY);
        assert_non_null(strstr(problem, f->socket_path));

        http_server_free(f->server);
        f->server = NULL;
        { /* as a killed server leaves it */
                int old = socket(AF_UNIX, SOCK_STREAM, 0);

                assert_int_equal(bind_unix(old, f->socket_path), 0);
                close(old);
        }
        assert_int_equal(http_server_new(&options, f->arena, &second, &problem), 0);
        http_server_free(second);
        free(address);
}

static void bad_addresses_are_refused_with_a_sentence(void **state)
{
        static const char *const addresses[] = {"localhost:80", "127.0.0.1",  "127.0.0.1:65536",
                                                "127.0.0.1:-1", "127.0.0.1:", "::1:80",
                                                "[::1:80",      "unix:",      ":80",
                                                "127.0.0.1:80x"};
        const struct http_route none[] = {{0}};

        (void)state;
        for (size_t i = 0; i < sizeof(addresses) / sizeof(addresses[0]); i++) {
                struct http_listen listen = {addresses[i], false, none, NULL, "x"};
                struct http_options options;
                struct http_server *server;
                const char *problem = NULL;

                http_options_init(&options);
                options.listen = &listen;
                options.n_listen = 1;
                assert_int_equal(http_server_new(&options, f->arena, &server, &problem), LESSOR_E_INVALID);
                assert_non_null(strstr(problem, addresses[i]));
        }
}

#define SHORT(name)   cmocka_unit_test_setup_teardown(name, setup, teardown)
#define PATIENT(name) cmocka_unit_test_setup_teardown(name, setup_patient, teardown)

int main(void)
{
        const struct CMUnitTest tests[] = {
                SHORT(connection_that_says_nothing_is_closed),
                SHORT(idle_connection_is_closed_without_an_answer),
                SHORT(headers_that_do_not_end_are_408),
                SHORT(body_that_stops_is_408),
                SHORT(body_that_trickles_is_408),
                SHORT(large_body_that_keeps_the_rate_has_time),
                cmocka_unit_test_setup_teardown(answer_that_nobody_reads_is_given_up, setup_fast_readers,
                                                teardown),
                SHORT(connections_over_the_limit_are_closed),
                PATIENT(drain_wakes_the_parked_and_answers_them),
                PATIENT(drain_waits_for_held_answers),
                PATIENT(drain_cuts_off_at_its_deadline),
                PATIENT(drain_lets_a_request_arrive_that_has_begun),
                PATIENT(abandoned_socket_file_is_replaced_and_a_live_one_is_not),
                PATIENT(bad_addresses_are_refused_with_a_sentence),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
