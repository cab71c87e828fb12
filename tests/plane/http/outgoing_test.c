/* SPDX-License-Identifier: MIT */
/* Answers that are files, and answers that have no length. */
#include "tls_client.h"

#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/limits.h"
#include "http/file_answer.h"
#include "http/offload.h"
#include "http/parking.h"
#include "http/stream.h"
#include "lessor/error.h"

#define FILE_BYTES        3000001u
#define HOST              "Host: here\r\n"
#define GET(target, head) "GET " target " HTTP/1.1\r\n" HOST head "\r\n"
#define ETAG              "\"one\""

static struct fixture *f;
static int fd;
static char file_path[64];

/* What a stream is to say; under the fixture's lock. */
static struct {
        char text[4096];
        size_t n;
        bool finished;
        unsigned n_produced, n_quiet;
        struct http_request *request;
        unsigned n_worked;
} said;

static char byte_at(size_t i)
{
        return (char)('a' + (i * 7 + i / 1000) % 26);
}

static void write_file(void)
{
        int to = mkstemp(file_path);
        char *bytes = malloc(FILE_BYTES);

        assert_true(to >= 0);
        assert_non_null(bytes);
        for (size_t i = 0; i < FILE_BYTES; i++)
                bytes[i] = byte_at(i);
        assert_int_equal(write(to, bytes, FILE_BYTES), FILE_BYTES);
        close(to);
        free(bytes);
}

static int open_file(void)
{
        int from = open(file_path, O_RDONLY | O_CLOEXEC);

        assert_true(from >= 0);
        return from;
}

static void answer_text(struct http_request *request, unsigned status, const char *text)
{
        struct buf body;

        buf_init(&body);
        buf_text(&body, text);
        http_answer(request, status, "text/plain", &body);
}

static void show(struct http_request *request, void *context)
{
        (void)context;
        answer_text(request, 200, "shown");
}

static void undelivered(struct http_request *request, void *context)
{
        (void)request;
        fixture_note(context, &((struct fixture *)context)->n_undelivered);
}

static void forget(void *object)
{
        (void)object;
        pthread_mutex_lock(&f->lock);
        said.request = NULL;
        pthread_mutex_unlock(&f->lock);
}

static void remember(struct http_request *request, void *context)
{
        assert_int_equal(lessor_arena_own(request->arena, request, forget), 0);
        http_on_undelivered(request, undelivered, context);
        pthread_mutex_lock(&f->lock);
        said.request = request;
        pthread_mutex_unlock(&f->lock);
        fixture_note(f, &f->n_arrived);
}

static void whole_file(struct http_request *request, void *context)
{
        remember(request, context);
        http_answer_ranges(request, "application/octet-stream", open_file(), FILE_BYTES, ETAG);
}

static void part_of_file(struct http_request *request, void *context)
{
        (void)context;
        http_answer_file(request, 200, "text/plain", open_file(), 10, 5);
}

static void empty_file(struct http_request *request, void *context)
{
        (void)context;
        http_answer_ranges(request, "text/plain", open_file(), 0, ETAG);
}

static void short_file(struct http_request *request, void *context)
{
        http_on_undelivered(request, undelivered, context);
        http_answer_file(request, 200, "text/plain", open_file(), 10, FILE_BYTES);
}

static void held_file(struct http_request *request, void *context)
{
        http_answer_file(request, 200, "text/plain", open_file(), 0, 5);
        http_answer_after(request, fixture_when_told, NULL, context);
}

/* Far more than the peer's buffers hold; sparse. */
static void large_file(struct http_request *request, void *context)
{
        int from;
        char path[] = "/tmp/http-large-XXXXXX";

        from = mkstemp(path);
        assert_true(from >= 0);
        assert_int_equal(ftruncate(from, 100000000), 0);
        unlink(path);
        remember(request, context);
        if (lessor_slice_equal(request->query, LESSOR_SLICE("hurry")))
                http_deadline(request, 100);
        http_answer_file(request, 200, "application/octet-stream", from, 0, 100000000);
}

/* --- A stream that says what the test tells it to say --- */

static int produce(struct http_request *request, void *context, struct buf *out)
{
        size_t *at = context;
        int more;

        pthread_mutex_lock(&f->lock);
        buf_append(out, said.text + *at, said.n - *at);
        *at = said.n;
        more = said.finished ? HTTP_FINISH : HTTP_WAIT;
        said.n_produced++;
        if (http_wait_over(request)) {
                said.n_quiet++;
                http_event_comment(out);
        }
        if (http_draining(request))
                buf_text(out, "bye");
        pthread_cond_broadcast(&f->changed);
        pthread_mutex_unlock(&f->lock);
        return more;
}

static void stream(struct http_request *request, void *context)
{
        struct http_source source = {produce, lessor_arena_array(request->arena, 1, sizeof(size_t)), -1};

        remember(request, context);
        assert_int_equal(parking_follow(((struct fixture *)context)->lot, request, LESSOR_SLICE("said")), 0);
        if (lessor_slice_equal(request->query, LESSOR_SLICE("alive")))
                source.wait_ms = 20;
        http_answer_stream(request, 200, "text/event-stream", &source);
}

#define N_ROUNDS 300

/* Many pieces of 10 kB, with no wait. */
static int produce_much(struct http_request *request, void *context, struct buf *out)
{
        size_t *n = context;

        (void)request;
        for (int i = 0; i < 1000; i++)
                buf_printf(out, "%09zu\n", *n * 1000 + (size_t)i);
        return ++*n == N_ROUNDS ? HTTP_FINISH : HTTP_MORE;
}

static void stream_much(struct http_request *request, void *context)
{
        struct http_source source = {produce_much, lessor_arena_array(request->arena, 1, sizeof(size_t)), -1};

        (void)context;
        http_answer_stream(request, 200, "text/plain", &source);
}

static int produce_badly(struct http_request *request, void *context, struct buf *out)
{
        (void)request;
        (void)context;
        buf_text(out, "never seen");
        return LESSOR_E_IO;
}

static void stream_badly(struct http_request *request, void *context)
{
        struct http_source source = {produce_badly, NULL, -1};

        http_on_undelivered(request, undelivered, context);
        http_answer_stream(request, 200, "text/plain", &source);
}

static void work(void *context)
{
        fixture_note(f, &said.n_worked);
        fixture_until_let_go(f);
        (void)context;
}

static void offload(struct http_request *request, void *context)
{
        http_on_undelivered(request, undelivered, context);
        http_offload(request, work, show, context);
}

static const struct http_route routes[] = {
        {"GET", "/show", show, 0, "show", ""},          {NULL, "/file", whole_file, 0, "file", ""},
        {"GET", "/part", part_of_file, 0, "part", ""},  {"GET", "/empty", empty_file, 0, "empty", ""},
        {"GET", "/held", held_file, 0, "held", ""},     {"GET", "/short", short_file, 0, "short", ""},
        {"GET", "/large", large_file, 0, "large", ""},  {"GET", "/stream", stream, 0, "stream", ""},
        {"GET", "/much", stream_much, 0, "much", ""},   {"GET", "/badly", stream_badly, 0, "badly", ""},
        {"GET", "/offload", offload, 0, "offload", ""}, {0},
};

static void start(bool tls)
{
        struct http_options options;
        const char *problem;

        memset(&said, 0, sizeof(said));
        strcpy(file_path, "/tmp/http-file-XXXXXX");
        write_file();
        http_options_init(&options);
        options.no_access_log = true;
        f = fixture_new_unstarted();
        f->routes = routes;
        if (tls)
                tls_write_pair(1, f->cert_path, f->key_path);
        assert_int_equal(fixture_start(f, &options, false, tls, &problem), 0);
}

static int setup(void **state)
{
        (void)state;
        start(false);
        fd = client_connect(f);
        return 0;
}

static int setup_tls(void **state)
{
        (void)state;
        start(true);
        fd = -1;
        return 0;
}

static int teardown(void **state)
{
        (void)state;
        if (fd >= 0)
                close(fd);
        fixture_free(f);
        unlink(file_path);
        return 0;
}

static void leave(void)
{
        close(fd);
        fd = -1;
}

static void say(const char *text, bool last)
{
        pthread_mutex_lock(&f->lock);
        assert_true(said.n + strlen(text) < sizeof(said.text));
        memcpy(said.text + said.n, text, strlen(text));
        said.n += strlen(text);
        said.finished = last;
        pthread_mutex_unlock(&f->lock);
        parking_wake(f->lot, LESSOR_SLICE("said"));
}

/* --- Files --- */

static bool is_file_from(const char *bytes, size_t n, size_t offset)
{
        for (size_t i = 0; i < n; i++)
                if (bytes[i] != byte_at(offset + i))
                        return false;
        return true;
}

static void file_goes_whole_and_the_connection_stays(void **state)
{
        char *bytes = malloc(FILE_BYTES);
        char head[512];
        size_t n = 0;

        (void)state;
        for (int round = 0; round < 3; round++) {
                client_send(fd, GET("/file", ""));
                for (n = 0; n < 4 || memcmp(head + n - 4, "\r\n\r\n", 4) != 0; n++)
                        client_read_bytes(fd, head + n, 1);
                head[n] = '\0';
                assert_non_null(strstr(head, "HTTP/1.1 200 "));
                assert_non_null(strstr(head, "\r\nContent-Length: 3000001\r\n"));
                assert_non_null(strstr(head, "\r\nAccept-Ranges: bytes\r\n"));
                assert_non_null(strstr(head, "\r\nETag: " ETAG "\r\n"));
                client_read_bytes(fd, bytes, FILE_BYTES);
                assert_true(is_file_from(bytes, FILE_BYTES, 0));
                assert_string_equal(client_ask(fd, GET("/show", "")).body, "shown");
        }
        assert_int_equal(f->n_undelivered, 0);
        free(bytes);
}

static void ranges_are_served(void **state)
{
        static const struct {
                const char *head;
                unsigned status;
                const char *range;
                size_t offset, length;
        } cases[] = {
                {"Range: bytes=0-0\r\n", 206, "bytes 0-0/3000001", 0, 1},
                {"Range: bytes=100-199\r\n", 206, "bytes 100-199/3000001", 100, 100},
                {"Range: bytes=2999990-\r\n", 206, "bytes 2999990-3000000/3000001", 2999990, 11},
                {"Range: bytes=2999990-99999999999999999999999\r\n", 206, "bytes 2999990-3000000/3000001",
                 2999990, 11},
                {"Range: bytes=-1\r\n", 206, "bytes 3000000-3000000/3000001", 3000000, 1},
                {"Range: BYTES= 5-6 \r\n", 206, "bytes 5-6/3000001", 5, 2},
                {"Range: bytes=-99999999\r\n", 206, "bytes 0-3000000/3000001", 0, FILE_BYTES},
                {"Range: bytes=1-2\r\nIf-Range: " ETAG "\r\n", 206, "bytes 1-2/3000001", 1, 2},
                {"Range: bytes=1-2\r\nIf-Range: \"two\"\r\n", 200, NULL, 0, FILE_BYTES},
                {"Range: bytes=1-2\r\nIf-Range: W/" ETAG "\r\n", 200, NULL, 0, FILE_BYTES},
                {"Range: bytes=1-2\r\nIf-Range: Tue, 01 Dec 2026 00:00:00 GMT\r\n", 200, NULL, 0, FILE_BYTES},
                {"Range: bytes=1-2,5-6\r\n", 200, NULL, 0, FILE_BYTES},
                {"Range: bytes=1-2\r\nRange: bytes=5-6\r\n", 200, NULL, 0, FILE_BYTES},
                {"Range: bytes=2-1\r\n", 200, NULL, 0, FILE_BYTES},
                {"Range: bytes=-\r\n", 200, NULL, 0, FILE_BYTES},
                {"Range: bytes=a-b\r\n", 200, NULL, 0, FILE_BYTES},
                {"Range: bytes=+1-2\r\n", 200, NULL, 0, FILE_BYTES},
                {"Range: lines=1-2\r\n", 200, NULL, 0, FILE_BYTES},
                {"Range: bytes=3000001-\r\n", 416, "bytes */3000001", 0, 0},
                {"Range: bytes=99999999999999999999999-\r\n", 416, "bytes */3000001", 0, 0},
                {"Range: bytes=-0\r\n", 416, "bytes */3000001", 0, 0},
        };

        (void)state;
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                char text[256], expected[128];
                struct reply reply;

                snprintf(text, sizeof(text), "GET /file HTTP/1.1\r\n" HOST "%s\r\n", cases[i].head);
                reply = client_ask(fd, text);
                assert_int_equal(reply.status, cases[i].status);
                assert_int_equal(reply.body_len, cases[i].length);
                snprintf(expected, sizeof(expected), "\r\nContent-Range: %s\r\n",
                         cases[i].range == NULL ? "" : cases[i].range);
                if (cases[i].range != NULL)
                        assert_non_null(strstr(reply.head, expected));
                else
                        assert_null(strstr(reply.head, "Content-Range"));
                assert_true(is_file_from(reply.body, cases[i].length < 4000 ? cases[i].length : 4000,
                                         cases[i].offset));
        }
}

static void range_of_another_method_is_not_looked_at(void **state)
{
        struct reply reply;

        (void)state;
        client_send(fd, "HEAD /file HTTP/1.1\r\n" HOST "Range: bytes=1-2\r\n\r\n");
        reply = client_read_head(fd);
        assert_int_equal(reply.status, 200);
        assert_non_null(strstr(reply.head, "\r\nContent-Length: 3000001\r\n"));
        assert_string_equal(client_ask(fd, GET("/show", "")).body, "shown");
}

static void part_of_a_file_and_none_of_it(void **state)
{
        struct reply reply;

        (void)state;
        reply = client_ask(fd, GET("/part", ""));
        assert_int_equal(reply.body_len, 5);
        assert_true(is_file_from(reply.body, 5, 10));
        assert_int_equal(client_ask(fd, GET("/empty", "")).status, 200);
        assert_int_equal(client_ask(fd, GET("/empty", "Range: bytes=0-\r\n")).status, 416);
        assert_string_equal(client_ask(fd, GET("/show", "")).body, "shown");
}

static void held_file_is_not_seen_when_its_write_failed(void **state)
{
        (void)state;
        client_send(fd, GET("/held", ""));
        fixture_await(f, &f->n_held, 1);
        fixture_tell(f, 0);
        assert_true(is_file_from(client_read(fd).body, 5, 0));
        client_send(fd, GET("/held", ""));
        fixture_await(f, &f->n_held, 2);
        fixture_tell(f, LESSOR_E_UNAVAILABLE);
        assert_int_equal(client_read(fd).status, 503);
}

static void abort_request(void)
{
        pthread_mutex_lock(&f->lock);
        assert_non_null(said.request);
        http_abort(said.request);
        pthread_mutex_unlock(&f->lock);
}

static void file_can_be_aborted_while_it_goes(void **state)
{
        char byte;

        (void)state;
        client_send(fd, GET("/large", ""));
        client_read_bytes(fd, &byte, 1);
        abort_request();
        fixture_await(f, &f->n_undelivered, 1);
        fixture_await_connections(f, 0);
}

static void file_that_nobody_takes_in_time_is_given_up(void **state)
{
        int64_t began_ms = clock_monotonic_ms();
        char byte;

        (void)state;
        client_send(fd, GET("/large?hurry", ""));
        client_read_bytes(fd, &byte, 1);
        fixture_await(f, &f->n_undelivered, 1);
        assert_true(clock_monotonic_ms() - began_ms < 5000);
        fixture_await_connections(f, 0);
}

static void leaving_within_a_file_makes_it_undelivered(void **state)
{
        char byte;

        (void)state;
        client_send(fd, GET("/large", ""));
        client_read_bytes(fd, &byte, 1);
        leave();
        fixture_await(f, &f->n_undelivered, 1);
        fixture_await_connections(f, 0);
}

static void *read_much(void *context)
{
        size_t *n = context;
        char *bytes = malloc(1000000);

        for (size_t got = 1; got > 0; *n += got)
                got = client_read_all(fd, bytes, 1000000);
        free(bytes);
        return NULL;
}

static void drain_lets_a_file_go(void **state)
{
        pthread_t thread;
        size_t n = 0;
        char byte;

        (void)state;
        client_send(fd, GET("/large", ""));
        client_read_bytes(fd, &byte, 1);
        assert_int_equal(pthread_create(&thread, NULL, read_much, &n), 0);
        assert_int_equal(http_server_drain(f->server, 5000), 0);
        pthread_join(thread, NULL);
        assert_true(n > 100000000);
        assert_int_equal(f->n_undelivered, 0);
}

/* --- Streams --- */

static void expect_text(const char *text)
{
        char got[4096];

        assert_true(strlen(text) < sizeof(got));
        client_read_bytes(fd, got, strlen(text));
        got[strlen(text)] = '\0';
        assert_string_equal(got, text);
}

static void expect_head(const char *part)
{
        char head[1024];
        size_t n;

        for (n = 0; n < 4 || memcmp(head + n - 4, "\r\n\r\n", 4) != 0; n++)
                client_read_bytes(fd, head + n, 1);
        head[n] = '\0';
        assert_non_null(strstr(head, part));
}

static void stream_says_what_comes_when_it_comes(void **state)
{
        (void)state;
        client_send(fd, GET("/stream", ""));
        expect_head("\r\nTransfer-Encoding: chunked\r\n");
        fixture_await_parked(f, 1);
        say("hello", false);
        expect_text("5\r\nhello\r\n");
        fixture_await_parked(f, 1);
        say("world!", false);
        expect_text("6\r\nworld!\r\n");
        say(".", true);
        expect_text("1\r\n.\r\n0\r\n\r\n");
        assert_string_equal(client_ask(fd, GET("/show", "")).body, "shown");
        assert_int_equal(parking_count(f->lot), 0);
        assert_int_equal(f->n_undelivered, 0);
}

static void stream_that_ends_at_once_ends(void **state)
{
        (void)state;
        say("", true);
        client_send(fd, GET("/stream", ""));
        expect_head("chunked");
        expect_text("0\r\n\r\n");
        assert_string_equal(client_ask(fd, GET("/show", "")).body, "shown");
}

/* Says one word after the other without waiting for anything: none may be missing, and the last must come. */
static void no_wake_is_lost(void **state)
{
        char expected[4096] = "", got[8192], text[4096] = "";
        size_t n, at = 0, n_text = 0;

        (void)state;
        client_send(fd, GET("/stream", "Connection: close\r\n"));
        expect_head("chunked");
        for (int i = 0; i < 500; i++) {
                char word[16];

                snprintf(word, sizeof(word), "%d,", i);
                strcat(expected, word);
                say(word, i == 499);
        }
        n = client_read_all(fd, got, sizeof(got) - 1);
        got[n] = '\0';
        while (at < n) { /* take the chunks apart */
                char *end;
                size_t length = strtoul(got + at, &end, 16);

                memcpy(text + n_text, end + 2, length);
                n_text += length;
                at = (size_t)(end - got) + 2 + length + 2;
        }
        text[n_text] = '\0';
        assert_string_equal(text, expected);
}

static void stream_may_speak_when_nothing_happens(void **state)
{
        (void)state;
        client_send(fd, GET("/stream?alive", ""));
        expect_head("chunked");
        expect_text("3\r\n:\n\n\r\n3\r\n:\n\n\r\n");
        assert_true(said.n_quiet >= 2);
        say("x", true);
}

static void old_client_gets_it_without_chunks(void **state)
{
        char got[64];

        (void)state;
        client_send(fd, "GET /stream HTTP/1.0\r\n\r\n");
        expect_head("HTTP/1.");
        fixture_await_parked(f, 1);
        say("hello", false);
        expect_text("hello");
        say(" world", true);
        assert_int_equal(client_read_all(fd, got, sizeof(got)), 6);
        assert_memory_equal(got, " world", 6);
        fixture_await_connections(f, 0); /* though we have not closed it */
}

/* With every order of words, being woken, and leaving by reset or not. */
static void leaving_at_any_moment_ends_a_stream(void **state)
{
        (void)state;
        leave();
        for (unsigned i = 0; i < 200; i++) {
                struct linger linger = {.l_onoff = i % 3 == 0};

                fd = client_connect(f);
                client_send(fd, i % 2 == 0 ? "GET /stream HTTP/1.0\r\n\r\n" : GET("/stream", ""));
                fixture_await(f, &f->n_arrived, i + 1);
                if (i % 5 > 0)
                        fixture_await_parked(f, 1);
                if (i % 5 > 1)
                        say("w", false);
                setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger));
                leave();
                if (i % 5 == 4)
                        say("w", false);
                fixture_await_connections(f, 0);
        }
}

static void much_goes_in_order(void **state)
{
        size_t cap = N_ROUNDS * 10000 * 2, n, lines = 0;
        char *got = malloc(cap);

        (void)state;
        client_send(fd, "GET /much HTTP/1.0\r\n\r\n");
        expect_head("HTTP/1.");
        n = client_read_all(fd, got, cap);
        assert_int_equal(n, N_ROUNDS * 10000);
        for (size_t i = 0; i < n; i += 10, lines++)
                assert_int_equal(strtoul(got + i, NULL, 10), lines);
        free(got);
}

static void failing_source_cuts_the_answer_off(void **state)
{
        char got[64];

        (void)state;
        client_send(fd, GET("/badly", ""));
        expect_head("chunked");
        assert_int_equal(client_read_all(fd, got, sizeof(got)), 0); /* no last chunk */
        fixture_await(f, &f->n_undelivered, 1);
        fixture_await_connections(f, 0);
}

static void leaving_ends_a_stream(void **state)
{
        (void)state;
        client_send(fd, GET("/stream", ""));
        fixture_await_parked(f, 1);
        leave();
        fixture_await(f, &f->n_undelivered, 1);
        fixture_await_connections(f, 0);
        assert_int_equal(parking_count(f->lot), 0);
        assert_int_equal(fixture_stats(f).parked, 0);
}

static void stream_can_be_aborted(void **state)
{
        (void)state;
        client_send(fd, GET("/stream", ""));
        fixture_await_parked(f, 1);
        abort_request();
        fixture_await(f, &f->n_undelivered, 1);
        fixture_await_connections(f, 0);
        assert_int_equal(fixture_stats(f).parked, 0);
}

static void drain_ends_streams_with_a_last_word(void **state)
{
        (void)state;
        client_send(fd, GET("/stream", ""));
        expect_head("chunked");
        fixture_await_parked(f, 1);
        assert_int_equal(http_server_drain(f->server, 5000), 0);
        expect_text("3\r\nbye\r\n0\r\n\r\n");
        assert_int_equal(f->n_undelivered, 0);
}

static void crowd_of_streams_hears_the_same(void **state)
{
        int crowd[100];

        (void)state;
        for (size_t i = 0; i < 100; i++) {
                crowd[i] = client_connect(f);
                client_send(crowd[i], "GET /stream HTTP/1.0\r\n\r\n");
        }
        fixture_await_parked(f, 100);
        say("hello", false);
        say("world", true);
        for (size_t i = 0; i < 100; i++) {
                char got[512];
                size_t n = client_read_all(crowd[i], got, sizeof(got) - 1);

                got[n] = '\0';
                assert_non_null(strstr(got, "\r\n\r\nhelloworld"));
                close(crowd[i]);
        }
}

static void events_are_written_as_readers_read_them(void **state)
{
        struct buf out;

        (void)state;
        buf_init(&out);
        http_event(&out, LESSOR_SLICE("7"), "lease", LESSOR_SLICE("one\ntwo"));
        http_event(&out, (struct lessor_slice){0}, NULL, LESSOR_SLICE(""));
        http_event_comment(&out);
        assert_string_equal(out.p, "id: 7\nevent: lease\ndata: one\ndata: two\n\ndata: \n\n:\n\n");
        buf_done(&out);
}

/* --- Blocking work --- */

static void only_so_much_waits_for_the_disk(void **state)
{
        static int crowd[LIMIT_HTTP_OFFLOADS];
        struct reply reply;

        (void)state;
        leave();
        for (size_t i = 0; i < LIMIT_HTTP_OFFLOADS; i++) {
                crowd[i] = client_connect(f);
                client_send(crowd[i], GET("/offload", ""));
        }
        fixture_await(f, &said.n_worked, 16);
        fixture_await_connections(f, LIMIT_HTTP_OFFLOADS);
        do { /* until all have arrived, of which nothing tells */
                fd = client_connect(f);
                client_send(fd, GET("/offload", ""));
                struct pollfd p = {.fd = fd, .events = POLLIN};

                if (poll(&p, 1, 100) > 0)
                        break;
                leave();
        } while (true);
        reply = client_read(fd);
        assert_int_equal(reply.status, 503);
        assert_non_null(strstr(reply.head, "\r\nRetry-After: 1\r\n"));
        fixture_let_go(f);
        for (size_t i = 0; i < LIMIT_HTTP_OFFLOADS; i++) {
                struct pollfd p = {.fd = crowd[i], .events = POLLIN};

                assert_int_equal(poll(&p, 1, WAIT_MS), 1);
                close(crowd[i]);
        }
}

static void leaving_during_blocking_work_makes_it_undelivered(void **state)
{
        (void)state;
        client_send(fd, GET("/offload", ""));
        fixture_await(f, &said.n_worked, 1);
        leave();
        fixture_let_go(f);
        fixture_await(f, &f->n_undelivered, 1);
        fixture_await_connections(f, 0);
}

/* --- TLS --- */

static void file_and_stream_go_over_tls(void **state)
{
        char *bytes = malloc(FILE_BYTES);
        struct tls_client c;
        char byte;
        size_t n = 0, got;

        (void)state;
        tls_good(tls_connect(f, &c, "NORMAL"));
        for (int round = 0; round < 2; round++) {
                tls_expect(&c, GET("/part", ""), "\r\n\r\nszgnu");
                tls_send(&c, GET("/file", ""));
                for (n = 0; n < 4; n = "\r\n\r\n"[n] == byte ? n + 1 : byte == '\r')
                        assert_int_equal(tls_receive(&c, &byte, 1), 1);
                for (n = 0; n < FILE_BYTES; n += got) {
                        got = tls_receive(&c, bytes + n, FILE_BYTES - n);
                        assert_true(got > 0);
                }
                assert_true(is_file_from(bytes, FILE_BYTES, 0));
        }
        tls_send(&c, GET("/stream", ""));
        fixture_await_parked(f, 1);
        say("hello", false);
        fixture_await_parked(f, 1);
        say("world", true);
        tls_expect(&c, "", "0\r\n\r\n");
        tls_expect(&c, GET("/show", ""), "shown");
        tls_close(&c);
        fixture_await_connections(f, 0);
        free(bytes);
}

static void file_that_got_shorter_ends_its_connection_over_tls(void **state)
{
        struct tls_client c;
        char bytes[4096];

        (void)state;
        tls_good(tls_connect(f, &c, "NORMAL"));
        tls_send(&c, GET("/short", ""));
        while (tls_receive(&c, bytes, sizeof(bytes)) > 0)
                ;
        fixture_await(f, &f->n_undelivered, 1);
        fixture_await_connections(f, 0);
        tls_close(&c);
}

static void leaving_over_tls_ends_files_and_streams(void **state)
{
        struct tls_client c;
        char byte;

        (void)state;
        tls_good(tls_connect(f, &c, "NORMAL"));
        tls_send(&c, GET("/large", ""));
        assert_int_equal(tls_receive(&c, &byte, 1), 1);
        tls_close(&c);
        fixture_await(f, &f->n_undelivered, 1);
        tls_good(tls_connect(f, &c, "NORMAL"));
        tls_send(&c, GET("/stream", ""));
        fixture_await_parked(f, 1);
        tls_close(&c);
        fixture_await(f, &f->n_undelivered, 2);
        fixture_await_connections(f, 0);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
#define TLS(name)  cmocka_unit_test_setup_teardown(name, setup_tls, teardown)

int main(void)
{
        const struct CMUnitTest tests[] = {
                CASE(file_goes_whole_and_the_connection_stays),
                CASE(ranges_are_served),
                CASE(range_of_another_method_is_not_looked_at),
                CASE(part_of_a_file_and_none_of_it),
                CASE(held_file_is_not_seen_when_its_write_failed),
                CASE(file_can_be_aborted_while_it_goes),
                CASE(file_that_nobody_takes_in_time_is_given_up),
                CASE(leaving_within_a_file_makes_it_undelivered),
                CASE(drain_lets_a_file_go),
                CASE(stream_says_what_comes_when_it_comes),
                CASE(stream_that_ends_at_once_ends),
                CASE(no_wake_is_lost),
                CASE(stream_may_speak_when_nothing_happens),
                CASE(old_client_gets_it_without_chunks),
                CASE(leaving_at_any_moment_ends_a_stream),
                CASE(much_goes_in_order),
                CASE(failing_source_cuts_the_answer_off),
                CASE(leaving_ends_a_stream),
                CASE(stream_can_be_aborted),
                CASE(drain_ends_streams_with_a_last_word),
                CASE(crowd_of_streams_hears_the_same),
                cmocka_unit_test(events_are_written_as_readers_read_them),
                CASE(only_so_much_waits_for_the_disk),
                CASE(leaving_during_blocking_work_makes_it_undelivered),
                TLS(file_and_stream_go_over_tls),
                TLS(file_that_got_shorter_ends_its_connection_over_tls),
                TLS(leaving_over_tls_ends_files_and_streams),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
