/* SPDX-License-Identifier: MIT */
#ifndef TESTS_HTTP_FIXTURE_H
#define TESTS_HTTP_FIXTURE_H

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "http/parking.h"
#include "http/server.h"

/*
 * A server with a few endpoints that show what the http room does, and a client that speaks bytes. Every wait
 * ends with the event that it is for; WAIT_MS only bounds a test that fails.
 */
#define WAIT_MS 10000

struct fixture {
        struct http_server *server;
        const struct http_route *routes; /* of listener 0; NULL: those of the fixture */
        struct parking_lot *lot;
        struct lessor_arena *arena;
        char *directory;
        char *socket_path;
        char *cert_path;
        char *key_path;

        pthread_mutex_t lock;
        pthread_cond_t changed;
        http_told *told; /* of the held answer */
        void *told_context;
        unsigned n_held;        /* answers that began to be held */
        unsigned n_undelivered; /* calls of the handler */
        unsigned n_resumed;     /* continuations that ran */
        unsigned n_arrived;     /* handlers that ran */
        bool leave_early;       /* /claim and /park-slowly block until this is set */
};

/* For tests that start the server by themselves: everything but the server. */
struct fixture *fixture_new_unstarted(void);
int fixture_start(struct fixture *f, const struct http_options *options, bool with_unix, bool tls,
                  const char **ret_problem);

/* Serves on a free TCP port (listener 0) and, if `with_unix`, on a Unix socket (listener 1). */
struct fixture *fixture_new(const struct http_options *options, bool with_unix, bool tls);
/* Serves these routes, with the fixture as their context. */
struct fixture *fixture_new_with(const struct http_options *options, const struct http_route *routes);
void fixture_free(struct fixture *f);

/* Counts one more, and lets who awaits it go on. */
void fixture_note(struct fixture *f, unsigned *counter);
/* Lets handlers go on that wait in fixture_until_let_go(), which count themselves among the arrived. */
void fixture_let_go(struct fixture *f);
void fixture_until_let_go(struct fixture *f);
/* A http_when that leaves its answer to fixture_tell(). `context` is the fixture. */
int fixture_when_told(void *context, http_told *told, void *told_context);
/* Waits until the counter, which the fixture's lock guards, is at least n. */
void fixture_await(struct fixture *f, const unsigned *counter, unsigned n);
/* Waits until the statistic says so. */
void fixture_await_parked(struct fixture *f, size_t n);
void fixture_await_connections(struct fixture *f, size_t n);
void fixture_await_body_memory(struct fixture *f, size_t n);
/* Tells the one held answer. */
void fixture_tell(struct fixture *f, int result);
struct http_stats fixture_stats(struct fixture *f);

/* The client. Descriptors are for the test to close. */
int client_connect(struct fixture *f);
int client_connect_unix(struct fixture *f);
void client_send(int fd, const char *text);
void client_send_bytes(int fd, const void *bytes, size_t n);

struct reply {
        unsigned status; /* 0: the connection ended without one */
        char head[4096];
        char body[4096]; /* NUL-terminated, the beginning of it */
        size_t body_len;
        bool closes; /* says `Connection: close` */
};

/* Reads one answer with its Content-Length. `head_only` for answers to HEAD. */
struct reply client_read(int fd);
struct reply client_read_head(int fd);
/* Sends and reads. */
struct reply client_ask(int fd, const char *text);
/* Reads until the connection ends, at most n bytes. Returns how many. */
size_t client_read_all(int fd, void *to, size_t n);
/* Reads exactly n bytes. */
void client_read_bytes(int fd, void *to, size_t n);
/* Waits for the end of the connection, and fails when bytes come. */
void client_expect_closed(int fd);

#endif
