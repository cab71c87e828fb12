/* SPDX-License-Identifier: MIT */
/* Bodies that stream to a sink. */
#include "fixture.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/limits.h"
#include "http/offload.h"
#include "http/upload.h"
#include "lessor/error.h"

#define PIECE             (LIMIT_HTTP_UPLOAD_MEMORY / 2)
#define SINK_LIMIT        100000000
#define N_CROWD           16
#define HOST              "Host: here\r\n"
#define PUT(target, head) "PUT " target " HTTP/1.1\r\n" HOST head
#define CHUNKED           "Transfer-Encoding: chunked\r\n\r\n"
#define SHOW              "GET /show HTTP/1.1\r\n" HOST "\r\n"

static struct fixture *f;
static int fd;

/* What became of the uploads; under the fixture's lock. */
static struct {
        unsigned n_done, n_failed, n_cleaned, n_written;
        int error;
        struct http_request *request; /* for http_abort() */
        bool blocks;                  /* `write` waits until it is let go */
        int write_error, finish_error;
        int64_t deadline_ms;
} seen;

/* One upload: adds up what it gets. */
struct sum {
        uint64_t n;
        uint64_t sum;
        bool finished;
        struct http_request *request;
};

static uint64_t sum_of(const unsigned char *bytes, size_t n, uint64_t from)
{
        uint64_t sum = 0;

        for (size_t i = 0; i < n; i++)
                sum += (from + i + 1) * bytes[i];
        return sum;
}

static int sink_write(void *context, struct lessor_slice bytes)
{
        struct sum *s = context;

        assert_true(bytes.n > 0 && bytes.n <= PIECE);
        assert_false(s->finished);
        s->sum += sum_of((const unsigned char *)bytes.p, bytes.n, s->n);
        s->n += bytes.n;
        fixture_note(f, &seen.n_written);
        if (seen.blocks)
                fixture_until_let_go(f);
        return seen.write_error;
}

static int sink_finish(void *context)
{
        struct sum *s = context;

        assert_false(s->finished);
        s->finished = true;
        return seen.finish_error;
}

static void sink_done(struct http_request *request, void *context)
{
        struct sum *s = context;
        struct buf body;

        assert_true(s->finished || seen.deadline_ms < 0);
        assert_int_equal(http_receive_error(request), 0);
        buf_init(&body);
        buf_printf(&body, "%llu %llu", (unsigned long long)http_received(request),
                   (unsigned long long)s->sum);
        http_answer(request, 200, "text/plain", &body);
        fixture_note(f, &seen.n_done);
}

static void clean(void *context)
{
        (void)context;
        fixture_note(f, &seen.n_cleaned);
}

static void answer_failure(struct http_request *request, void *context)
{
        struct buf body;

        (void)context;
        buf_init(&body);
        buf_text(&body, lessor_error_name(http_receive_error(request)));
        http_answer(request, 400, "text/plain", &body);
}

static void sink_failed(struct http_request *request, void *context)
{
        (void)context;
        pthread_mutex_lock(&f->lock);
        seen.error = http_receive_error(request);
        pthread_mutex_unlock(&f->lock);
        fixture_note(f, &seen.n_failed);
        answer_failure(request, NULL);
}

/* Removes what it has written, which takes time, and answers then. */
static void sink_failed_cleaning(struct http_request *request, void *context)
{
        (void)context;
        seen.error = http_receive_error(request);
        fixture_note(f, &seen.n_failed);
        http_offload(request, clean, answer_failure, NULL);
}

static void forget_request(void *object)
{
        (void)object;
        pthread_mutex_lock(&f->lock);
        seen.request = NULL;
        pthread_mutex_unlock(&f->lock);
}

static void receive(struct http_request *request, http_handler *failed, uint64_t limit)
{
        struct sum *s = lessor_arena_array(request->arena, 1, sizeof(*s));
        struct http_sink sink = {sink_write, sink_finish, sink_done, failed, s, limit};

        assert_int_equal(request->body.n, 0);
        assert_int_equal(lessor_arena_own(request->arena, s, forget_request), 0);
        pthread_mutex_lock(&f->lock);
        seen.request = request;
        pthread_mutex_unlock(&f->lock);
        if (seen.deadline_ms > 0)
                http_deadline(request, seen.deadline_ms);
        http_receive(request, &sink);
        fixture_note(f, &f->n_arrived);
}

static void put(struct http_request *request, void *context)
{
        (void)context;
        receive(request, sink_failed, SINK_LIMIT);
}

static void put_little(struct http_request *request, void *context)
{
        (void)context;
        receive(request, sink_failed, 10);
}

static void put_cleaning(struct http_request *request, void *context)
{
        (void)context;
        receive(request, sink_failed_cleaning, 10);
}

static void put_after_looking(struct http_request *request, void *context)
{
        http_offload(request, clean, put, context);
}

static void read_over(struct http_request *request, void *context)
{
        struct sum *s = lessor_arena_array(request->arena, 1, sizeof(*s));
        struct http_sink sink = {NULL, NULL, sink_done, sink_failed, s, SINK_LIMIT};

        (void)context;
        seen.deadline_ms = -1;
        http_receive(request, &sink);
}

static void answer_text(struct http_request *request, unsigned status, const char *text)
{
        struct buf body;

        buf_init(&body);
        buf_text(&body, text);
        http_answer(request, status, "text/plain", &body);
}

static void answer_at_once(struct http_request *request, void *context)
{
        (void)context;
        answer_text(request, 404, "no such thing");
}

static void show(struct http_request *request, void *context)
{
        (void)context;
        answer_text(request, 200, "shown");
}

static void forgetful(struct http_request *request, void *context)
{
        (void)request;
        (void)context;
}

#define MOST 5368709120

static const struct http_gate gate = {.streamed = true};
static const struct http_route routes[] = {
        {"PUT", "/put", put, MOST, "put", "", NULL, &gate},
        {"PUT", "/little", put_little, MOST, "little", "", NULL, &gate},
        {"PUT", "/cleaning", put_cleaning, MOST, "cleaning", "", NULL, &gate},
        {"PUT", "/looking", put_after_looking, MOST, "looking", "", NULL, &gate},
        {"PUT", "/over", read_over, MOST, "over", "", NULL, &gate},
        {"PUT", "/no", answer_at_once, MOST, "no", "", NULL, &gate},
        {"PUT", "/forgetful", forgetful, MOST, "forgetful", "", NULL, &gate},
        {"GET", "/show", show, 0, "show", ""},
        {0},
};

static int setup(void **state)
{
        struct http_options options;

        (void)state;
        memset(&seen, 0, sizeof(seen));
        http_options_init(&options);
        options.no_access_log = true;
        f = fixture_new_with(&options, routes);
        fd = client_connect(f);
        return 0;
}

static int teardown(void **state)
{
        (void)state;
        if (fd >= 0)
                close(fd);
        fixture_free(f);
        return 0;
}

static void leave(void)
{
        close(fd);
        fd = -1;
}

static unsigned char *bytes_new(size_t n)
{
        unsigned char *bytes = malloc(n + 1);

        assert_non_null(bytes);
        for (size_t i = 0; i < n; i++)
                bytes[i] = (unsigned char)(i * 31 + (i >> 9));
        return bytes;
}

static void send_head(int to, const char *target, size_t n)
{
        char head[128];

        snprintf(head, sizeof(head), "PUT %s HTTP/1.1\r\n" HOST "Content-Length: %zu\r\n\r\n", target, n);
        client_send(to, head);
}

static void expect_sum(struct reply reply, const unsigned char *bytes, size_t n)
{
        char sum[64];

        snprintf(sum, sizeof(sum), "%zu %llu", n, (unsigned long long)sum_of(bytes, n, 0));
        assert_int_equal(reply.status, 200);
        assert_string_equal(reply.body, sum);
}

static const size_t lengths[] = {0,         1,         PIECE - 1,     PIECE,  PIECE + 1,
                                 2 * PIECE, 3 * PIECE, 3 * PIECE + 7, 5000000};
#define N_LENGTHS (sizeof(lengths) / sizeof(lengths[0]))

static void bodies_arrive_whole_and_the_connection_stays(void **state)
{
        (void)state;
        for (size_t i = 0; i < N_LENGTHS; i++) {
                unsigned char *bytes = bytes_new(lengths[i]);

                send_head(fd, "/put", lengths[i]);
                client_send_bytes(fd, bytes, lengths[i]);
                expect_sum(client_read(fd), bytes, lengths[i]);
                assert_int_equal(client_ask(fd, SHOW).status, 200);
                free(bytes);
        }
        assert_int_equal(seen.n_done, N_LENGTHS);
        assert_int_equal(seen.n_failed, 0);
}

static void send_chunked(int to, const unsigned char *bytes, size_t n, size_t chunk)
{
        char head[32];

        for (size_t at = 0; at < n; at += chunk) {
                size_t now = n - at < chunk ? n - at : chunk;

                snprintf(head, sizeof(head), "%zx\r\n", now);
                client_send(to, head);
                client_send_bytes(to, bytes + at, now);
                client_send(to, "\r\n");
        }
        client_send(to, "0\r\n\r\n");
}

static void chunked_bodies_arrive_whole(void **state)
{
        static const size_t chunks[] = {1, 7, 4096, 100000, 1000000};
        size_t n = 700001;
        unsigned char *bytes = bytes_new(n);

        (void)state;
        for (size_t i = 0; i < sizeof(chunks) / sizeof(chunks[0]); i++) {
                size_t some = chunks[i] == 1 ? 3000 : n;

                client_send(fd, PUT("/put", CHUNKED));
                send_chunked(fd, bytes, some, chunks[i]);
                expect_sum(client_read(fd), bytes, some);
        }
        client_send(fd, PUT("/put", CHUNKED) "0\r\n\r\n");
        expect_sum(client_read(fd), bytes, 0);
        assert_int_equal(client_ask(fd, SHOW).status, 200);
        free(bytes);
}

static void pipelined_uploads_are_each_received(void **state)
{
        (void)state;
        client_send(fd, PUT("/put", "Content-Length: 2\r\n\r\n") "on" PUT(
                                "/put",
                                CHUNKED) "3\r\ntwo\r\n0\r\n\r\n" SHOW PUT("/put",
                                                                          "Content-Length: 1\r\n\r\n") "x");
        expect_sum(client_read(fd), (const unsigned char *)"on", 2);
        expect_sum(client_read(fd), (const unsigned char *)"two", 3);
        assert_string_equal(client_read(fd).body, "shown");
        expect_sum(client_read(fd), (const unsigned char *)"x", 1);
}

static void is_told_to_continue_when_it_is_wanted(void **state)
{
        struct reply reply;

        (void)state;
        assert_int_equal(
                client_ask(fd, PUT("/put", "Expect: 100-continue\r\nContent-Length: 2\r\n\r\n")).status, 100);
        expect_sum(client_ask(fd, "on"), (const unsigned char *)"on", 2);
        reply = client_ask(fd, PUT("/no", "Expect: 100-continue\r\nContent-Length: 2\r\n\r\n"));
        assert_int_equal(reply.status, 404);
        assert_true(reply.closes);
        client_expect_closed(fd);
}

static void blocking_work_may_come_first(void **state)
{
        unsigned char *bytes = bytes_new(400000);

        (void)state;
        send_head(fd, "/looking", 400000);
        client_send_bytes(fd, bytes, 400000);
        expect_sum(client_read(fd), bytes, 400000);
        send_head(fd, "/looking", 0);
        expect_sum(client_read(fd), bytes, 0);
        assert_int_equal(seen.n_cleaned, 2);
        free(bytes);
}

static void body_may_be_read_over(void **state)
{
        unsigned char *bytes = bytes_new(3000000);

        (void)state;
        send_head(fd, "/over", 3000000);
        client_send_bytes(fd, bytes, 3000000);
        assert_string_equal(client_read(fd).body, "3000000 0");
        assert_int_equal(client_ask(fd, SHOW).status, 200);
        free(bytes);
}

static void handler_that_forgets_the_body_is_500(void **state)
{
        (void)state;
        send_head(fd, "/forgetful", 5);
        assert_int_equal(client_read(fd).status, 500);
        client_expect_closed(fd);
}

struct sender {
        pthread_t thread;
        int fd;
        size_t n;
};

static void *send_much(void *context)
{
        struct sender *s = context;
        unsigned char *bytes = bytes_new(s->n);

        client_send_bytes(s->fd, bytes, s->n);
        free(bytes);
        return NULL;
}

/* What the sockets hold is the kernel's; of what was read only the two pieces are in memory. */
static void slow_sink_holds_the_sender_up(void **state)
{
        struct sender s = {.fd = fd, .n = 60000000};
        unsigned char *bytes = bytes_new(s.n);

        (void)state;
        seen.blocks = true;
        send_head(fd, "/put", s.n);
        assert_int_equal(pthread_create(&s.thread, NULL, send_much, &s), 0);
        fixture_await(f, &seen.n_written, 1);
        for (int i = 0; i < 20; i++) {
                poll(NULL, 0, 10);
                assert_true(fixture_stats(f).body_memory <= LIMIT_HTTP_UPLOAD_MEMORY);
        }
        assert_int_equal(seen.n_written, 1);
        fixture_let_go(f);
        expect_sum(client_read(fd), bytes, s.n);
        pthread_join(s.thread, NULL);
        assert_int_equal(client_ask(fd, SHOW).status, 200);
        assert_int_equal(fixture_stats(f).body_memory, 0);
        free(bytes);
}

static void leaving_in_the_middle_fails_once(void **state)
{
        static const size_t sent[] = {0, 1, PIECE - 1, PIECE, PIECE + 1, 3 * PIECE + 1};
        unsigned char *bytes = bytes_new(4 * PIECE);
        unsigned n = 0;

        (void)state;
        leave();
        for (int hard = 0; hard < 2; hard++)
                for (size_t i = 0; i < sizeof(sent) / sizeof(sent[0]); i++) {
                        struct linger linger = {.l_onoff = hard};

                        fd = client_connect(f);
                        send_head(fd, "/put", 4 * PIECE);
                        fixture_await(f, &f->n_arrived, ++n);
                        client_send_bytes(fd, bytes, sent[i]);
                        setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger));
                        leave();
                }
        fixture_await_connections(f, 0);
        fixture_await(f, &seen.n_failed, n);
        assert_int_equal(seen.n_failed, n);
        assert_int_equal(seen.error, LESSOR_E_CLOSED);
        assert_int_equal(seen.n_done, 0);
        assert_int_equal(fixture_stats(f).requests, 0);
        free(bytes);
}

/* The request outlives its connection, until the sink is let go. */
static void leaving_while_the_sink_writes_fails_when_it_is_over(void **state)
{
        unsigned char *bytes = bytes_new(PIECE + 1);
        int other;

        (void)state;
        seen.blocks = true;
        send_head(fd, "/put", 3 * PIECE);
        client_send_bytes(fd, bytes, PIECE + 1);
        fixture_await(f, &seen.n_written, 1);
        leave();
        fixture_await_connections(f, 0);
        assert_int_equal(seen.n_failed, 0);
        other = client_connect(f); /* the worker serves on */
        assert_int_equal(client_ask(other, SHOW).status, 200);
        fixture_let_go(f);
        fixture_await(f, &seen.n_failed, 1);
        assert_int_equal(seen.error, LESSOR_E_CLOSED);
        close(other);
        fixture_await_connections(f, 0);
        free(bytes);
}

static void time_that_the_plane_gives_is_kept(void **state)
{
        struct pollfd p = {.fd = fd, .events = POLLIN};
        int64_t began_ms = clock_monotonic_ms();
        struct reply reply;

        (void)state;
        seen.deadline_ms = 200;
        send_head(fd, "/put", 1000);
        while (poll(&p, 1, 10) == 0)
                client_send(fd, "x");
        reply = client_read(fd);
        assert_int_equal(reply.status, 400); /* as `failed` words it */
        assert_string_equal(reply.body, "timeout");
        assert_true(reply.closes);
        client_expect_closed(fd);
        assert_true(clock_monotonic_ms() - began_ms >= 200);
        assert_true(clock_monotonic_ms() - began_ms < 5000);
        assert_int_equal(seen.n_failed, 1);
        assert_int_equal(seen.error, LESSOR_E_TIMEOUT);
}

static void being_late_while_the_sink_writes_fails_when_it_is_over(void **state)
{
        unsigned char *bytes = bytes_new(PIECE + 1);
        struct reply reply;

        (void)state;
        seen.deadline_ms = 100;
        seen.blocks = true;
        send_head(fd, "/put", 3 * PIECE);
        client_send_bytes(fd, bytes, PIECE + 1);
        reply = client_read(fd);
        assert_int_equal(reply.status, 408);
        assert_int_equal(seen.n_failed, 0);
        fixture_let_go(f);
        fixture_await(f, &seen.n_failed, 1);
        assert_int_equal(seen.error, LESSOR_E_TIMEOUT);
        free(bytes);
}

static void declared_length_over_the_limit_fails_before_the_body(void **state)
{
        struct reply reply;

        (void)state;
        send_head(fd, "/little", 11);
        reply = client_read(fd);
        assert_int_equal(reply.status, 400);
        assert_string_equal(reply.body, "too-large");
        assert_true(reply.closes);
        client_expect_closed(fd);
        assert_int_equal(seen.n_failed, 1);
        assert_int_equal(seen.n_written, 0);
}

static void more_than_the_limit_in_chunks_fails(void **state)
{
        struct reply reply;

        (void)state;
        reply = client_ask(fd, PUT("/little", CHUNKED) "a\r\n1234567890\r\n0\r\n\r\n");
        assert_int_equal(reply.status, 200);
        reply = client_ask(fd, PUT("/little", CHUNKED) "a\r\n1234567890\r\n1\r\nx");
        assert_int_equal(reply.status, 400);
        assert_string_equal(reply.body, "too-large");
        assert_true(reply.closes);
        client_expect_closed(fd);
        assert_int_equal(seen.n_failed, 1);
        assert_int_equal(seen.n_done, 1);
}

static void failing_may_do_blocking_work(void **state)
{
        struct reply reply;

        (void)state;
        reply = client_ask(fd, PUT("/cleaning", CHUNKED) "b\r\n12345678901\r\n0\r\n\r\n");
        assert_string_equal(reply.body, "too-large");
        client_expect_closed(fd);
        assert_int_equal(seen.n_cleaned, 1);
        leave();
        fd = client_connect(f);
        send_head(fd, "/cleaning", 11);
        assert_string_equal(client_read(fd).body, "too-large");
        assert_int_equal(seen.n_cleaned, 2);
        leave();
        fd = client_connect(f);
        client_send(fd, PUT("/cleaning", CHUNKED) "1\r\nx");
        leave();
        fixture_await(f, &seen.n_cleaned, 3);
        fixture_await_connections(f, 0);
        assert_int_equal(seen.n_failed, 3);
}

static void error_of_the_sink_fails_in_the_middle(void **state)
{
        struct sender s = {.fd = fd, .n = 20000000};
        struct reply reply;

        (void)state;
        seen.write_error = LESSOR_E_LOW_SPACE;
        send_head(fd, "/put", s.n);
        assert_int_equal(pthread_create(&s.thread, NULL, send_much, &s), 0);
        reply = client_read(fd);
        assert_int_equal(reply.status, 400);
        assert_string_equal(reply.body, "low-space");
        assert_true(reply.closes);
        pthread_join(s.thread, NULL);
        assert_int_equal(seen.n_failed, 1);
        assert_true(seen.n_written <= 1);
        fixture_await_connections(f, 0);
}

static void error_at_the_end_leaves_the_connection(void **state)
{
        struct reply reply;

        (void)state;
        seen.finish_error = LESSOR_E_MISMATCH;
        send_head(fd, "/put", 5);
        reply = client_ask(fd, "hello");
        assert_int_equal(reply.status, 400);
        assert_string_equal(reply.body, "mismatch");
        assert_false(reply.closes);
        seen.finish_error = 0;
        seen.write_error = LESSOR_E_IO;
        send_head(fd, "/put", 5);
        assert_string_equal(client_ask(fd, "hello").body, "io");
        seen.write_error = 0;
        send_head(fd, "/put", 5);
        assert_int_equal(client_ask(fd, "hello").status, 200);
        assert_int_equal(seen.n_failed, 2);
        assert_int_equal(seen.n_done, 1);
}

static void abort_request(void)
{
        pthread_mutex_lock(&f->lock);
        assert_non_null(seen.request);
        http_abort(seen.request);
        pthread_mutex_unlock(&f->lock);
}

static void can_be_aborted_from_outside(void **state)
{
        unsigned char *bytes = bytes_new(PIECE);

        (void)state;
        send_head(fd, "/put", 10 * PIECE);
        client_send_bytes(fd, bytes, PIECE);
        fixture_await(f, &f->n_arrived, 1);
        abort_request();
        fixture_await(f, &seen.n_failed, 1);
        assert_int_equal(seen.error, LESSOR_E_ABORTED);
        assert_int_equal(client_read(fd).status, 0);
        fixture_await_connections(f, 0);
        free(bytes);
}

static void can_be_aborted_while_the_sink_writes(void **state)
{
        struct sender s = {.fd = fd, .n = 20000000};

        (void)state;
        seen.blocks = true;
        send_head(fd, "/put", s.n);
        assert_int_equal(pthread_create(&s.thread, NULL, send_much, &s), 0);
        fixture_await(f, &seen.n_written, 1);
        poll(NULL, 0, 20); /* most often both pieces are full by then, and the connection sleeps */
        abort_request();
        assert_int_equal(seen.n_failed, 0);
        fixture_let_go(f);
        fixture_await(f, &seen.n_failed, 1);
        assert_int_equal(seen.error, LESSOR_E_ABORTED);
        pthread_join(s.thread, NULL);
        fixture_await_connections(f, 0);
}

static void only_so_many_at_once(void **state)
{
        int *crowd = calloc(LIMIT_HTTP_UPLOADS, sizeof(*crowd));
        struct reply reply;

        (void)state;
        assert_non_null(crowd);
        for (int i = 0; i < LIMIT_HTTP_UPLOADS; i++) {
                crowd[i] = client_connect(f);
                assert_int_equal(
                        client_ask(crowd[i], PUT("/put", "Expect: 100-continue\r\nContent-Length: 9\r\n\r\n"))
                                .status,
                        100);
        }
        send_head(fd, "/put", 1);
        reply = client_read(fd);
        assert_string_equal(reply.body, "full");
        for (int i = 0; i < LIMIT_HTTP_UPLOADS; i++)
                close(crowd[i]);
        fixture_await(f, &seen.n_failed, LIMIT_HTTP_UPLOADS + 1);
        leave();
        fd = client_connect(f);
        send_head(fd, "/put", 1);
        assert_int_equal(client_ask(fd, "x").status, 200);
        free(crowd);
}

static void *upload_often(void *context)
{
        struct sender *s = context;
        unsigned seed = (unsigned)s->n;

        for (int i = 0; i < 12; i++) {
                size_t n = (size_t)rand_r(&seed) % 900000;
                unsigned char *bytes = bytes_new(n);

                send_head(s->fd, "/put", n);
                client_send_bytes(s->fd, bytes, n);
                expect_sum(client_read(s->fd), bytes, n);
                free(bytes);
        }
        return NULL;
}

static void many_at_once_do_not_mix(void **state)
{
        struct sender crowd[N_CROWD];

        (void)state;
        for (size_t i = 0; i < N_CROWD; i++) {
                crowd[i] = (struct sender){.fd = client_connect(f), .n = i};
                assert_int_equal(pthread_create(&crowd[i].thread, NULL, upload_often, &crowd[i]), 0);
        }
        for (size_t i = 0; i < N_CROWD; i++) {
                pthread_join(crowd[i].thread, NULL);
                close(crowd[i].fd);
        }
        assert_int_equal(seen.n_done, N_CROWD * 12);
}

static void *send_the_rest(void *context)
{
        poll(NULL, 0, 50);
        client_send(fd, "lo");
        return context;
}

static void drain_lets_an_upload_arrive(void **state)
{
        struct reply reply;
        pthread_t thread;

        (void)state;
        assert_int_equal(
                client_ask(fd, PUT("/put", "Expect: 100-continue\r\nContent-Length: 5\r\n\r\n")).status, 100);
        client_send(fd, "hel");
        assert_int_equal(pthread_create(&thread, NULL, send_the_rest, NULL), 0);
        assert_int_equal(http_server_drain(f->server, 5000), 0);
        reply = client_read(fd);
        expect_sum(reply, (const unsigned char *)"hello", 5);
        assert_true(reply.closes);
        pthread_join(thread, NULL);
}

static void drain_cuts_off_at_its_deadline(void **state)
{
        (void)state;
        assert_int_equal(
                client_ask(fd, PUT("/put", "Expect: 100-continue\r\nContent-Length: 5\r\n\r\n")).status, 100);
        assert_int_equal(http_server_drain(f->server, 50), LESSOR_E_TIMEOUT);
        assert_int_equal(seen.n_failed, 1);
        assert_int_equal(seen.error, LESSOR_E_ABORTED);
}

static void *let_go_later(void *context)
{
        poll(NULL, 0, 300);
        fixture_let_go(f);
        return context;
}

static void drain_waits_for_the_sink_even_after_its_deadline(void **state)
{
        unsigned char *bytes = bytes_new(3 * PIECE);
        pthread_t thread;

        (void)state;
        seen.blocks = true;
        send_head(fd, "/put", 4 * PIECE);
        client_send_bytes(fd, bytes, 3 * PIECE);
        fixture_await(f, &seen.n_written, 1);
        assert_int_equal(pthread_create(&thread, NULL, let_go_later, NULL), 0);
        assert_int_equal(http_server_drain(f->server, 50), LESSOR_E_TIMEOUT);
        pthread_join(thread, NULL);
        assert_int_equal(seen.n_failed, 1);
        assert_int_equal(seen.error, LESSOR_E_ABORTED);
        free(bytes);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
        const struct CMUnitTest tests[] = {
                CASE(bodies_arrive_whole_and_the_connection_stays),
                CASE(chunked_bodies_arrive_whole),
                CASE(pipelined_uploads_are_each_received),
                CASE(is_told_to_continue_when_it_is_wanted),
                CASE(blocking_work_may_come_first),
                CASE(body_may_be_read_over),
                CASE(handler_that_forgets_the_body_is_500),
                CASE(slow_sink_holds_the_sender_up),
                CASE(leaving_in_the_middle_fails_once),
                CASE(leaving_while_the_sink_writes_fails_when_it_is_over),
                CASE(time_that_the_plane_gives_is_kept),
                CASE(being_late_while_the_sink_writes_fails_when_it_is_over),
                CASE(declared_length_over_the_limit_fails_before_the_body),
                CASE(more_than_the_limit_in_chunks_fails),
                CASE(failing_may_do_blocking_work),
                CASE(error_of_the_sink_fails_in_the_middle),
                CASE(error_at_the_end_leaves_the_connection),
                CASE(can_be_aborted_from_outside),
                CASE(can_be_aborted_while_the_sink_writes),
                CASE(only_so_many_at_once),
                CASE(many_at_once_do_not_mix),
                CASE(drain_lets_an_upload_arrive),
                CASE(drain_cuts_off_at_its_deadline),
                CASE(drain_waits_for_the_sink_even_after_its_deadline),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
