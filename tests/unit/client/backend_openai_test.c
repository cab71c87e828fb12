/* SPDX-License-Identifier: MIT */
#include <arpa/inet.h>
#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/file.h"
#include "check.h"
#include "lessor/backend.h"

/* A model server that says what it is told to, once a connection, and keeps what it was asked. */
struct model_server {
        int fd;
        int port;
        const char *answer; /* the whole HTTP answer; NULL: never answers */
        struct buf request;
        struct lessor_stop *asked; /* raised when a request has come */
        struct lessor_stop *over;
        pthread_t thread;
};

static bool request_is_whole(const struct buf *request)
{
        const char *head_end = request->n == 0 ? NULL : strstr(request->p, "\r\n\r\n");
        const char *length = request->n == 0 ? NULL : strcasestr(request->p, "content-length:");
        size_t body;

        if (head_end == NULL)
                return false;
        body = length == NULL || length > head_end ? 0 : (size_t)strtoul(length + 15, NULL, 10);
        return request->n >= (size_t)(head_end + 4 - request->p) + body;
}

static void serve_one(struct model_server *server, int fd)
{
        char chunk[4096];

        while (!request_is_whole(&server->request)) {
                ssize_t n = read(fd, chunk, sizeof(chunk));

                if (n <= 0)
                        return;
                buf_append(&server->request, chunk, (size_t)n);
        }
        lessor_stop_raise(server->asked);
        if (server->answer != NULL) {
                ssize_t n = write(fd, server->answer, strlen(server->answer));

                (void)n;
        } else {
                struct pollfd p = {.fd = lessor_stop_fd(server->over), .events = POLLIN};

                poll(&p, 1, -1);
        }
}

static void *serve(void *context)
{
        struct model_server *server = context;
        struct pollfd fds[] = {{.fd = server->fd, .events = POLLIN},
                               {.fd = lessor_stop_fd(server->over), .events = POLLIN}};

        while (poll(fds, 2, -1) > 0 && fds[1].revents == 0) {
                int fd = accept(server->fd, NULL, NULL);

                if (fd < 0)
                        continue;
                serve_one(server, fd);
                close(fd);
        }
        return NULL;
}

static void server_start(struct model_server *server, const char *answer)
{
        struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        socklen_t len = sizeof(address);

        memset(server, 0, sizeof(*server));
        server->answer = answer;
        buf_init(&server->request);
        assert_int_equal(lessor_stop_new(&server->asked), 0);
        assert_int_equal(lessor_stop_new(&server->over), 0);
        server->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        assert_int_equal(bind(server->fd, (struct sockaddr *)&address, sizeof(address)), 0);
        assert_int_equal(listen(server->fd, 8), 0);
        assert_int_equal(getsockname(server->fd, (struct sockaddr *)&address, &len), 0);
        server->port = ntohs(address.sin_port);
        assert_int_equal(pthread_create(&server->thread, NULL, serve, server), 0);
}

static void server_stop(struct model_server *server)
{
        lessor_stop_raise(server->over);
        pthread_join(server->thread, NULL);
        close(server->fd);
        buf_done(&server->request);
        lessor_stop_free(server->asked);
        lessor_stop_free(server->over);
}

#define ANSWER(body) "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n\r\n" body
#define COMPLETION(reason)                                                                                   \
        ANSWER("{\"model\":\"tiny-1\",\"choices\":[{\"message\":{\"role\":\"assistant\",\"content\":\"hi\"}" \
               ","                                                                                           \
               "\"finish_reason\":" reason "}]}")

static const struct lessor_prompt generate = {.kind = LESSOR_KIND_LLM_GENERATE,
                                              .prompt = LESSOR_SLICE("say \"hi\""),
                                              .system = LESSOR_SLICE("be brief")};

static struct lessor_outcome ask(const struct lessor_openai_options *options,
                                 const struct lessor_prompt *prompt, struct lessor_stop *stop,
                                 struct lessor_arena *arena)
{
        struct lessor_backend *backend = NULL;
        struct lessor_outcome outcome;

        assert_int_equal(lessor_backend_openai_new(options, &backend), 0);
        assert_int_equal(backend->ops->run(backend, prompt, stop, arena, &outcome), 0);
        lessor_backend_free(backend);
        return outcome;
}

static struct lessor_outcome ask_server(const struct model_server *server, const char *path,
                                        struct lessor_arena *arena)
{
        struct lessor_openai_options options = {
                .model = "tiny", .timeout_ms = 5000, .max_answer_bytes = 1000};
        char url[64];

        snprintf(url, sizeof(url), "http://127.0.0.1:%d%s", server->port, path);
        options.base_url = url;
        return ask(&options, &generate, NULL, arena);
}

static void a_prompt_becomes_a_chat_completion(void **state)
{
        struct lessor_arena *arena = lessor_arena_new();
        struct model_server server;
        struct lessor_outcome outcome;

        (void)state;
        server_start(&server, COMPLETION("\"stop\""));
        outcome = ask_server(&server, "", arena);
        assert_int_equal(outcome.disposition, LESSOR_DISPOSITION_OK);
        assert_text_equal(outcome.text, "hi");
        assert_text_equal(outcome.model, "tiny-1");
        assert_int_equal(outcome.stop, LESSOR_STOPPED_END);
        assert_true(outcome.stop_reported);
        assert_non_null(strstr(server.request.p, "POST /v1/chat/completions HTTP/1.1\r\n"));
        assert_non_null(strstr(
                server.request.p,
                "\r\n\r\n{\"model\":\"tiny\",\"messages\":[{\"role\":\"system\",\"content\":\"be brief\"},"
                "{\"role\":\"user\",\"content\":\"say \\\"hi\\\"\"}],\"stream\":false}"));
        assert_null(strcasestr(server.request.p, "authorization"));
        server_stop(&server);
        lessor_arena_free(arena);
}

static void a_base_url_with_a_path_is_taken_as_it_is(void **state)
{
        struct lessor_arena *arena = lessor_arena_new();
        struct model_server server;

        (void)state;
        server_start(&server, COMPLETION("\"length\""));
        assert_int_equal(ask_server(&server, "/openai/v1/", arena).stop, LESSOR_STOPPED_LENGTH);
        assert_non_null(strstr(server.request.p, "POST /openai/v1/chat/completions HTTP/1.1\r\n"));
        server_stop(&server);
        lessor_arena_free(arena);
}

static void a_stop_that_was_not_said_is_unknown(void **state)
{
        struct lessor_arena *arena = lessor_arena_new();
        struct model_server server;
        struct lessor_outcome outcome;

        (void)state;
        server_start(&server, COMPLETION("null"));
        outcome = ask_server(&server, "", arena);
        assert_int_equal(outcome.stop, LESSOR_STOPPED_UNKNOWN);
        assert_false(outcome.stop_reported);
        server_stop(&server);
        lessor_arena_free(arena);
}

static void failures_of_the_server_are_errors_of_the_job(void **state)
{
        static const struct {
                const char *answer, *code;
                bool retryable;
        } cases[] = {
                {"HTTP/1.1 503 Busy\r\nconnection: close\r\n\r\nsecret", "backend-status", true},
                {"HTTP/1.1 429 Slow\r\nconnection: close\r\n\r\n", "backend-status", true},
                {"HTTP/1.1 400 No\r\nconnection: close\r\n\r\n", "backend-status", false},
                {"HTTP/1.1 401 Who\r\nconnection: close\r\n\r\nkey sk-1", "backend-auth", false},
                {"HTTP/1.1 307 There\r\nlocation: http://127.0.0.1:1/\r\nconnection: close\r\n\r\n",
                 "backend-redirect", false},
                {ANSWER("no json"), "backend-answer", true},
                {ANSWER("{\"choices\":[]}"), "backend-answer", true},
                {ANSWER("[[[[]]]]"), "backend-answer", true},
                {"", "backend-unreachable", true},
        };

        (void)state;
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                struct lessor_arena *arena = lessor_arena_new();
                struct model_server server;
                struct lessor_outcome outcome;

                server_start(&server, cases[i].answer);
                outcome = ask_server(&server, "", arena);
                assert_int_equal(outcome.disposition, LESSOR_DISPOSITION_ERROR);
                assert_text_equal(outcome.code, cases[i].code);
                assert_int_equal(outcome.retryable, cases[i].retryable);
                /* What the server wrote is not passed on. */
                assert_null(strstr(outcome.message.p, "secret"));
                assert_null(strstr(outcome.message.p, "sk-1"));
                server_stop(&server);
                lessor_arena_free(arena);
        }
}

static void an_answer_past_the_limit_is_refused(void **state)
{
        struct lessor_arena *arena = lessor_arena_new();
        struct model_server server;
        struct buf answer;

        (void)state;
        buf_init(&answer);
        buf_text(&answer, "HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n\"");
        for (int i = 0; i < 2000; i++)
                buf_char(&answer, 'x');
        server_start(&server, answer.p);
        assert_text_equal(ask_server(&server, "", arena).code, "backend-output");
        server_stop(&server);
        buf_done(&answer);
        lessor_arena_free(arena);
}

static void a_server_that_takes_too_long_is_left(void **state)
{
        struct lessor_arena *arena = lessor_arena_new();
        struct lessor_openai_options options = {.model = "tiny", .timeout_ms = 50};
        struct model_server server;
        char url[64];

        (void)state;
        server_start(&server, NULL);
        snprintf(url, sizeof(url), "http://127.0.0.1:%d", server.port);
        options.base_url = url;
        assert_text_equal(ask(&options, &generate, NULL, arena).code, "backend-unreachable");
        server_stop(&server);
        lessor_arena_free(arena);
}

static void *cancel_when_asked(void *context)
{
        struct model_server *server = ((void **)context)[0];
        struct lessor_stop *stop = ((void **)context)[1];
        struct pollfd p = {.fd = lessor_stop_fd(server->asked), .events = POLLIN};

        poll(&p, 1, -1);
        lessor_stop_raise(stop);
        return NULL;
}

static void a_raised_stop_cancels_a_request_under_way(void **state)
{
        struct lessor_arena *arena = lessor_arena_new();
        struct lessor_openai_options options = {.model = "tiny", .timeout_ms = 30000};
        struct lessor_stop *stop = NULL;
        struct model_server server;
        void *context[2];
        pthread_t thread;
        char url[64];

        (void)state;
        server_start(&server, NULL);
        assert_int_equal(lessor_stop_new(&stop), 0);
        snprintf(url, sizeof(url), "http://127.0.0.1:%d", server.port);
        options.base_url = url;
        context[0] = &server;
        context[1] = stop;
        assert_int_equal(pthread_create(&thread, NULL, cancel_when_asked, context), 0);
        assert_int_equal(ask(&options, &generate, stop, arena).disposition, LESSOR_DISPOSITION_CANCELED);
        pthread_join(thread, NULL);
        server_stop(&server);
        lessor_stop_free(stop);
        lessor_arena_free(arena);
}

static void the_key_comes_from_a_private_file_or_the_environment(void **state)
{
        struct lessor_arena *arena = lessor_arena_new();
        char *dir = scratch_make();
        const char *path = scratch_path(dir, "key");
        struct lessor_openai_options options = {.model = "tiny", .api_key_file = path, .timeout_ms = 5000};
        struct lessor_backend *backend = NULL;
        struct model_server server;
        char url[64];

        (void)state;
        server_start(&server, COMPLETION("\"stop\""));
        snprintf(url, sizeof(url), "http://127.0.0.1:%d", server.port);
        options.base_url = url;
        assert_int_equal(file_create(path, LESSOR_SLICE("sk-file\n"), 0600), 0);
        assert_int_equal(ask(&options, &generate, NULL, arena).disposition, LESSOR_DISPOSITION_OK);
        assert_non_null(strstr(server.request.p, "authorization: Bearer sk-file\r\n"));
        assert_int_equal(chmod(path, 0640), 0);
        assert_int_equal(lessor_backend_openai_new(&options, &backend), LESSOR_E_PERMISSION);
        options.api_key_file = NULL;
        options.api_key_env = "LESSOR_TEST_KEY";
        setenv("LESSOR_TEST_KEY", "sk-1\r\nx: y", 1);
        assert_int_equal(lessor_backend_openai_new(&options, &backend), LESSOR_E_INVALID);
        setenv("LESSOR_TEST_KEY", " sk-env ", 1);
        buf_clear(&server.request);
        assert_int_equal(ask(&options, &generate, NULL, arena).disposition, LESSOR_DISPOSITION_OK);
        assert_non_null(strstr(server.request.p, "authorization: Bearer sk-env\r\n"));
        server_stop(&server);
        scratch_remove(dir);
        lessor_arena_free(arena);
}

static void metadata_services_are_never_asked(void **state)
{
        static const char *const urls[] = {"http://169.254.169.254/v1",
                                           "http://[fe80::1]/v1",
                                           "http://[::ffff:169.254.169.254]",
                                           "http://0xa9fea9fe/v1",
                                           "http://2852039166",
                                           "http://[fd00:ec2::254]",
                                           "http://100.100.100.200",
                                           "http://metadata.google.internal/v1",
                                           "http://METADATA.google.internal."};
        (void)state;
        /* A proxy in the environment would be asked in our place. */
        setenv("http_proxy", "http://127.0.0.1:1", 1);
        for (size_t i = 0; i < sizeof(urls) / sizeof(urls[0]); i++) {
                struct lessor_arena *arena = lessor_arena_new();
                struct lessor_openai_options options = {
                        .base_url = urls[i], .model = "tiny", .timeout_ms = 3000};
                struct lessor_outcome outcome = ask(&options, &generate, NULL, arena);

                if (!lessor_slice_equal(outcome.code, LESSOR_SLICE("backend-forbidden")))
                        fail_msg("%s: %.*s", urls[i], (int)outcome.code.n, outcome.code.p);
                lessor_arena_free(arena);
        }
        unsetenv("http_proxy");
}

static void chats_keep_their_roles_and_order(void **state)
{
        static const struct lessor_message messages[] = {{LESSOR_ROLE_USER, LESSOR_SLICE("a")},
                                                         {LESSOR_ROLE_ASSISTANT, LESSOR_SLICE("b")},
                                                         {LESSOR_ROLE_SYSTEM, LESSOR_SLICE("c")}};
        static const struct lessor_prompt chat = {
                .kind = LESSOR_KIND_LLM_CHAT, .messages = messages, .n_messages = 3};
        struct lessor_openai_options options = {.model = "tiny", .timeout_ms = 5000};
        struct lessor_arena *arena = lessor_arena_new();
        struct model_server server;
        char url[64];

        (void)state;
        server_start(&server, COMPLETION("\"stop_sequence\""));
        snprintf(url, sizeof(url), "http://127.0.0.1:%d", server.port);
        options.base_url = url;
        assert_int_equal(ask(&options, &chat, NULL, arena).stop, LESSOR_STOPPED_SEQUENCE);
        assert_non_null(strstr(server.request.p,
                               "[{\"role\":\"user\",\"content\":\"a\"},{\"role\":\"assistant\","
                               "\"content\":\"b\"},{\"role\":\"system\",\"content\":\"c\"}]"));
        server_stop(&server);
        lessor_arena_free(arena);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(a_prompt_becomes_a_chat_completion),
                cmocka_unit_test(a_base_url_with_a_path_is_taken_as_it_is),
                cmocka_unit_test(a_stop_that_was_not_said_is_unknown),
                cmocka_unit_test(failures_of_the_server_are_errors_of_the_job),
                cmocka_unit_test(an_answer_past_the_limit_is_refused),
                cmocka_unit_test(a_server_that_takes_too_long_is_left),
                cmocka_unit_test(a_raised_stop_cancels_a_request_under_way),
                cmocka_unit_test(the_key_comes_from_a_private_file_or_the_environment),
                cmocka_unit_test(metadata_services_are_never_asked),
                cmocka_unit_test(chats_keep_their_roles_and_order),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
