/* SPDX-License-Identifier: MIT */
/* Parked requests, held answers, and peers that leave. */
#include "fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "lessor/error.h"

#define N_CROWD 200

static struct fixture *f;
static int fd;

static int setup_workers(unsigned n)
{
        struct http_options options;

        http_options_init(&options);
        options.no_access_log = true;
        options.threads = n;
        f = fixture_new(&options, false, false);
        fd = client_connect(f);
        return 0;
}

static int setup(void **state)
{
        (void)state;
        return setup_workers(0);
}

static int setup_two_workers(void **state)
{
        (void)state;
        return setup_workers(2);
}

static int teardown(void **state)
{
        (void)state;
        if (fd >= 0)
                close(fd);
        fixture_free(f);
        return 0;
}

#define HOST        "Host: here\r\n"
#define GET(target) "GET " target " HTTP/1.1\r\n" HOST "\r\n"

static void leave(void)
{
        close(fd);
        fd = -1;
}

/* A reset, as when a machine is switched off and its router answers for it. */
static void leave_by_reset(void)
{
        struct linger hard = {.l_onoff = 1};

        setsockopt(fd, SOL_SOCKET, SO_LINGER, &hard, sizeof(hard));
        leave();
}

static void parked_request_is_woken_by_its_key(void **state)
{
        int one = client_connect(f);

        (void)state;
        client_send(fd, GET("/park?key=a&wait=60000"));
        fixture_await_parked(f, 1);
        assert_string_equal(client_ask(one, GET("/wake?key=b")).body, "0");
        assert_string_equal(client_ask(one, GET("/wake?key=a")).body, "1");
        assert_string_equal(client_read(fd).body, "woken");
        assert_string_equal(client_ask(one, GET("/wake?key=a")).body, "0");
        assert_int_equal(f->n_resumed, 1);
        assert_int_equal(parking_count(f->lot), 0);
        /* the connection serves on */
        assert_int_equal(client_ask(fd, GET("/show")).status, 200);
        close(one);
}

static void parked_request_ends_with_its_time(void **state)
{
        int64_t began_ms = clock_monotonic_ms();

        (void)state;
        assert_string_equal(client_ask(fd, GET("/park?key=a&wait=50")).body, "over");
        assert_true(clock_monotonic_ms() - began_ms >= 50);
        assert_string_equal(client_ask(fd, GET("/park?key=a&wait=0")).body, "over");
        assert_int_equal(f->n_resumed, 2);
}

static void shorter_waits_end_first(void **state)
{
        int one = client_connect(f);

        (void)state;
        client_send(fd, GET("/park?key=a&wait=60000"));
        fixture_await_parked(f, 1);
        assert_string_equal(client_ask(one, GET("/park?key=b&wait=20")).body, "over");
        assert_int_equal(parking_count(f->lot), 1);
        close(one);
}

static void event_between_looking_and_parking_is_not_lost(void **state)
{
        (void)state;
        assert_string_equal(client_ask(fd, GET("/park-late?key=a")).body, "woken");
        assert_int_equal(f->n_resumed, 1);
}

static void resuming_before_suspending_counts(void **state)
{
        (void)state;
        assert_string_equal(client_ask(fd, GET("/resume-early")).body, "woken");
        assert_int_equal(f->n_resumed, 1);
}

static void whole_crowd_is_woken_once(void **state)
{
        int crowd[N_CROWD];

        (void)state;
        for (int i = 0; i < N_CROWD; i++) {
                crowd[i] = client_connect(f);
                client_send(crowd[i], GET("/park?key=crowd&wait=60000"));
        }
        fixture_await_parked(f, N_CROWD);
        assert_int_equal(parking_wake_some(f->lot, LESSOR_SLICE("crowd"), 1), 1);
        fixture_await(f, &f->n_resumed, 1);
        assert_int_equal(parking_wake(f->lot, LESSOR_SLICE("crowd")), N_CROWD - 1);
        for (int i = 0; i < N_CROWD; i++) {
                assert_string_equal(client_read(crowd[i]).body, "woken");
                close(crowd[i]);
        }
        assert_int_equal(f->n_resumed, N_CROWD);
}

/* Wakes while requests come, park for a moment and go: whoever loses a race here crashes, hangs or runs
 * twice. */
static void waking_and_timing_out_at_once_runs_each_once(void **state)
{
        int crowd[16];

        (void)state;
        for (int i = 0; i < 16; i++)
                crowd[i] = client_connect(f);
        for (int round = 0; round < 50; round++) {
                for (int i = 0; i < 16; i++)
                        client_send(crowd[i], i % 2 ? GET("/park?key=r&wait=1") : GET("/park?key=r&wait=2"));
                while (parking_wake(f->lot, LESSOR_SLICE("r")) > 0)
                        ;
                for (int i = 0; i < 16; i++)
                        assert_int_equal(client_read(crowd[i]).status, 200);
        }
        assert_int_equal(f->n_resumed, 50 * 16);
        assert_int_equal(f->n_undelivered, 0);
        for (int i = 0; i < 16; i++)
                close(crowd[i]);
}

static void leaving_while_parked_is_noticed_at_once(void **state)
{
        (void)state;
        client_send(fd, GET("/park?key=a&wait=600000"));
        fixture_await_parked(f, 1);
        leave();
        fixture_await(f, &f->n_undelivered, 1);
        assert_int_equal(f->n_resumed, 1);
        fixture_await_connections(f, 0);
        assert_int_equal(parking_count(f->lot), 0);
}

static void reset_while_parked_is_noticed_at_once(void **state)
{
        (void)state;
        client_send(fd, GET("/park?key=a&wait=600000"));
        fixture_await_parked(f, 1);
        leave_by_reset();
        fixture_await(f, &f->n_undelivered, 1);
        assert_int_equal(f->n_resumed, 1);
        fixture_await_connections(f, 0);
}

/* What notices peers that leave takes them in their order, and so tells us when it has noticed the first. */
static void leaving_before_parking_is_noticed_at_once(void **state)
{
        int second;

        (void)state;
        fixture_await_connections(f, 1); /* so that the next one is the other worker's */
        second = client_connect(f);
        client_send(second, GET("/park?key=b&wait=600000"));
        fixture_await_parked(f, 1);
        client_send(fd, GET("/park-slowly?key=a&wait=600000"));
        fixture_await(f, &f->n_arrived, 1);
        leave();
        close(second);
        fixture_await(f, &f->n_resumed, 1);
        pthread_mutex_lock(&f->lock);
        f->leave_early = true;
        pthread_cond_broadcast(&f->changed);
        pthread_mutex_unlock(&f->lock);
        fixture_await(f, &f->n_undelivered, 2);
        fixture_await_connections(f, 0);
        assert_int_equal(parking_count(f->lot), 0);
}

static void pipelined_request_waits_behind_a_parked_one(void **state)
{
        (void)state;
        client_send(fd, GET("/park?key=a&wait=60000") GET("/show"));
        fixture_await_parked(f, 1);
        parking_wake(f->lot, LESSOR_SLICE("a"));
        assert_string_equal(client_read(fd).body, "woken");
        assert_string_equal(client_read(fd).body, "GET /show - - here");
}

static void held_answer_goes_when_told(void **state)
{
        (void)state;
        for (unsigned i = 1; i <= 3; i++) {
                client_send(fd, GET("/hold"));
                fixture_await(f, &f->n_held, i);
                fixture_tell(f, 0);
                assert_string_equal(client_read(fd).body, "held");
        }
        assert_int_equal(f->n_undelivered, 0);
}

static void held_answer_is_never_seen_when_its_write_failed(void **state)
{
        struct reply reply;

        (void)state;
        client_send(fd, GET("/hold"));
        fixture_await(f, &f->n_held, 1);
        fixture_tell(f, LESSOR_E_UNAVAILABLE);
        reply = client_read(fd);
        assert_int_equal(reply.status, 503);
        assert_string_equal(reply.body, "unavailable");
        reply = client_ask(fd, GET("/hold-failing"));
        assert_int_equal(reply.status, 503);
        assert_string_equal(reply.body, "unavailable");
}

static void answer_that_need_not_wait_does_not(void **state)
{
        (void)state;
        assert_string_equal(client_ask(fd, GET("/hold-now")).body, "now");
        assert_string_equal(client_ask(fd, GET("/hold-already")).body, "already");
}

static void leaving_while_an_answer_is_held_makes_it_undelivered(void **state)
{
        (void)state;
        client_send(fd, GET("/hold"));
        fixture_await(f, &f->n_held, 1);
        leave();
        fixture_tell(f, 0);
        fixture_await(f, &f->n_undelivered, 1);
        fixture_await_connections(f, 0);
}

static void leaving_before_the_answer_makes_it_undelivered(void **state)
{
        (void)state;
        client_send(fd, "POST /claim HTTP/1.1\r\n" HOST "Content-Length: 2\r\n\r\n{}");
        fixture_await(f, &f->n_arrived, 1);
        leave();
        pthread_mutex_lock(&f->lock);
        f->leave_early = true;
        pthread_cond_broadcast(&f->changed);
        pthread_mutex_unlock(&f->lock);
        fixture_await(f, &f->n_undelivered, 1);
        fixture_await_connections(f, 0);
}

static void leaving_within_the_answer_makes_it_undelivered(void **state)
{
        char byte;

        (void)state;
        client_send(fd, GET("/large?n=67108864")); /* more than both sides' buffers hold */
        assert_int_equal(recv(fd, &byte, 1, 0), 1);
        leave_by_reset();
        fixture_await(f, &f->n_undelivered, 1);
        fixture_await_connections(f, 0);
}

static void delivered_answers_are_not_undelivered(void **state)
{
        (void)state;
        assert_int_equal(client_ask(fd, GET("/large?n=16777216")).body_len, 16777216);
        assert_int_equal(client_ask(fd, GET("/show")).status, 200);
        assert_int_equal(f->n_undelivered, 0);
}

static void leaving_at_any_byte_of_a_request_leaves_nothing_behind(void **state)
{
        static const char request[] = "POST /echo HTTP/1.1\r\n" HOST "Content-Length: 11\r\n\r\nhello world"
                                      "POST /echo HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n"
                                      "5\r\nhello\r\n0\r\n\r\n";
        struct http_stats stats;

        (void)state;
        leave();
        for (size_t n = 0; n < sizeof(request); n++) {
                fd = client_connect(f);
                client_send_bytes(fd, request, n);
                if (n % 2 == 0)
                        leave();
                else
                        leave_by_reset();
        }
        fixture_await_connections(f, 0);
        stats = fixture_stats(f);
        assert_int_equal(stats.requests, 0);
        assert_int_equal(stats.body_memory, 0);
        fd = client_connect(f);
        assert_int_equal(client_ask(fd, GET("/show")).status, 200);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
        const struct CMUnitTest tests[] = {
                CASE(parked_request_is_woken_by_its_key),
                CASE(parked_request_ends_with_its_time),
                CASE(shorter_waits_end_first),
                CASE(event_between_looking_and_parking_is_not_lost),
                CASE(resuming_before_suspending_counts),
                CASE(whole_crowd_is_woken_once),
                CASE(waking_and_timing_out_at_once_runs_each_once),
                CASE(leaving_while_parked_is_noticed_at_once),
                CASE(reset_while_parked_is_noticed_at_once),
                cmocka_unit_test_setup_teardown(leaving_before_parking_is_noticed_at_once, setup_two_workers,
                                                teardown),
                CASE(pipelined_request_waits_behind_a_parked_one),
                CASE(held_answer_goes_when_told),
                CASE(held_answer_is_never_seen_when_its_write_failed),
                CASE(answer_that_need_not_wait_does_not),
                CASE(leaving_while_an_answer_is_held_makes_it_undelivered),
                CASE(leaving_before_the_answer_makes_it_undelivered),
                CASE(leaving_within_the_answer_makes_it_undelivered),
                CASE(delivered_answers_are_not_undelivered),
                CASE(leaving_at_any_byte_of_a_request_leaves_nothing_behind),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
