/* SPDX-License-Identifier: MIT */
#ifndef HTTP_SERVER_H
#define HTTP_SERVER_H

#include "http/http.h"

/*
 * The HTTP/1.1 server: several listeners, one pool of workers, and one thread that keeps house (accepts,
 * times, watches parked peers). Made and ended by the program's main; planes see only http.h.
 *
 * A request that is too slow in arriving is answered 408 and its connection closed; over TLS it is only
 * closed.
 *
 * Life: http_server_new() binds, http_server_start() serves, http_server_drain() ends what is in flight and
 * stops, http_server_free(). Stores whose `told` a held answer waits for are closed between the last two.
 */
struct http_server;

/* One door. */
struct http_listen {
        const char *address;             /* "127.0.0.1:5327", "[::1]:0", or a Unix socket as "unix:PATH" */
        bool tls;                        /* with the server's certificate */
        const struct http_route *routes; /* borrowed for the server's life */
        void *context;                   /* given to the handlers of these routes */
        const char *name;                /* in logs and metrics: "relay", "control" */
        const char *allow_from;          /* who may ask, as http_networks_check(); others are answered 403.
                                            NULL: everybody. Not for Unix sockets */
};

/* Whether `text` is a list of networks: "192.0.2.0/24,2001:db8::1". Returns 0, LESSOR_E_INVALID or
 * LESSOR_E_NOMEM. */
int http_networks_check(const char *text);

/* Whether `text` is an address to listen on: "127.0.0.1:5327", "[::1]:0". Returns 0 or LESSOR_E_INVALID. */
int http_address_check(const char *text);

/*
 * Whether a server could serve TLS with these two files; reads them and keeps nothing.
 *
 * ret_problem  a sentence for people, on failure, in the arena
 *
 * Returns 0; LESSOR_E_INVALID; LESSOR_E_PERMISSION; what file_read returns; LESSOR_E_NOMEM.
 */
int http_tls_check(const char *cert_path, const char *key_path, struct lessor_arena *arena,
                   const char **ret_problem);

/* Zero means the default, but where 0 is given a meaning. http_options_init() fills in the defaults. */
struct http_options {
        const struct http_listen *listen; /* borrowed for the call */
        size_t n_listen;
        unsigned threads;     /* workers; default: one a processor */
        const char *tls_cert; /* PEM files; NULL without TLS */
        const char *tls_key;
        unsigned max_connections;
        unsigned max_per_address; /* connections of one IPv4 address or IPv6 /64; loopback is not counted */
        size_t max_header_bytes;  /* request line and headers; also what an idle connection costs */
        size_t max_body_memory;   /* bytes of large bodies in memory at once, over all requests; then 503 */
        int64_t idle_ms;          /* keep-alive without a request */
        int64_t header_ms;        /* for a request's headers from the connection's start */
        int64_t body_ms;          /* for a body, plus the time that it takes at body_rate */
        size_t body_rate;         /* bytes a second that a large body must at least make */
        bool no_access_log;
};

void http_options_init(struct http_options *options);

/*
 * Binds every listener and reads the certificate. Port 0 picks a free port. A Unix socket gets mode 0600,
 * serves only its owner and root, and replaces a socket of that name on which nobody listens.
 *
 * arena        owns ret_problem
 * ret_problem  on failure a sentence that names the thing and the way out
 *
 * Returns 0; LESSOR_E_INVALID (an address, or a certificate that does not fit its key); LESSOR_E_NOT_FOUND,
 * LESSOR_E_PERMISSION, LESSOR_E_IO (a file, or binding); LESSOR_E_BUSY (somebody listens there);
 * LESSOR_E_NOMEM.
 */
int http_server_new(const struct http_options *options, struct lessor_arena *arena,
                    struct http_server **ret_server, const char **ret_problem);

/* Begins to serve. Returns 0, or LESSOR_E_NOMEM or LESSOR_E_IO when threads cannot be had. */
int http_server_start(struct http_server *server);

/* The port of the listener at `index` of the options, the real one where 0 was asked for; 0 for a Unix
 * socket. */
unsigned http_server_port(const struct http_server *server, size_t index);

/*
 * Reads certificate and key again, for connections from now on; open ones go on undisturbed. On failure the
 * old ones stay. Thread-safe. Returns as http_server_new.
 */
int http_server_reload_tls(struct http_server *server, struct lessor_arena *arena, const char **ret_problem);

/*
 * Ends well: accepts no more, wakes the parked, closes idle connections, answers what is in flight with
 * `Connection: close`, and stops all threads. What is not over at the deadline is cut off. Returns 0, or
 * LESSOR_E_TIMEOUT when something was cut off. Once; not on a worker.
 */
int http_server_drain(struct http_server *server, int64_t deadline_ms);

/* Drains without patience, should that not have happened yet, and frees. Takes NULL, returns NULL. */
struct http_server *http_server_free(struct http_server *server);

#define HTTP_N_CLASSES 6

/* What the routes of one name did so far, on the listeners of one name. */
struct http_route_stats {
        const char *listener;
        const char *route;                /* the route's name; "-" for requests that no route took */
        uint64_t answers[HTTP_N_CLASSES]; /* by status / 100; [0]: ended without an answer */
        uint64_t bytes_in;                /* of bodies */
        uint64_t bytes_out;
        uint64_t duration_us; /* summed, from the request line to the answer's last byte */
};

struct http_stats {
        struct http_route_stats *routes; /* in the arena */
        size_t n_routes;
        uint64_t accepted;  /* connections so far */
        uint64_t refused;   /* connections over a limit, or of a foreign user */
        uint64_t timed_out; /* requests too slow in arriving */
        uint64_t undelivered;
        size_t connections; /* right now */
        size_t requests;    /* right now, suspended ones included */
        size_t parked;      /* right now */
        size_t body_memory; /* right now, bytes */
};

/* Returns 0 or LESSOR_E_NOMEM. Thread-safe; the numbers are not one instant's. */
int http_server_stats(struct http_server *server, struct lessor_arena *arena, struct http_stats *ret_stats);

#endif
