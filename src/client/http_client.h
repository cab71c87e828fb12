/* SPDX-License-Identifier: MIT */
#ifndef CLIENT_HTTP_CLIENT_H
#define CLIENT_HTTP_CLIENT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/macro.h"
#include "lessor/error.h"
#include "lessor/stop.h"

/*
 * HTTP(S) requests over kept-alive connections, several at once, on one thread.
 *
 * Certificates are verified, redirects are not followed, the environment's proxies are not used unless asked
 * for, and an answer has a size limit. One thread at a time.
 */
struct http_client;
struct http_transfer;

struct http_client_options {
        const char *ca_file; /* PEM; NULL: the system's */
        const char *proxy;   /* NULL: none; "env": what the environment says; else a URL */
        bool guarded; /* refuse link-local and metadata addresses (address_guard.h); then never by proxy */
        const char *unix_socket; /* path; every request goes there, whatever its URL's host. NULL: none */
};

struct http_request {
        const char *method;         /* "GET", "POST" or "PUT" */
        const char *url;            /* absolute, http or https */
        const char *const *headers; /* "name: value" */
        size_t n_headers;
        struct lessor_slice body; /* copied; absent: none */
        size_t max_answer_bytes;
        int64_t timeout_ms; /* for the whole exchange; 0: without end, but for stall_ms */
        int64_t stall_ms;   /* fail when so long, in whole seconds, nothing moved; 0: never */

        /* Instead of `body`: the first `file_bytes` of an open file, read as it is sent, wherever it stands.
         */
        bool has_file;
        int file; /* borrowed until the transfer is freed */
        int64_t file_bytes;

        /*
         * Takes the body of an answer with a status from 200 to 299, piece by piece, instead of keeping it.
         * Returns 0, or a code that ends the transfer with that. Refusals are kept as ever. May be NULL.
         */
        int (*take)(void *context, long status, struct lessor_slice bytes);
        /* How far a file has been sent, bytes. May be NULL. */
        void (*sent)(void *context, int64_t n_bytes);
        void *context;
};

/* Copies the options. Returns 0, LESSOR_E_INVALID (proxy) or LESSOR_E_NOMEM. */
int http_client_new(const struct http_client_options *options, struct http_client **ret_client);

/* Ends transfers that are under way; they must have been freed. Takes NULL, returns NULL. */
struct http_client *http_client_free(struct http_client *client);

/* Sends a request; http_client_wait moves it along. Copies everything. Returns 0 or LESSOR_E_NOMEM. */
int http_client_start(struct http_client *client, const struct http_request *request,
                      struct http_transfer **ret_transfer);

/*
 * Moves the client's transfers along until one of them is newly done, `stop` (may be NULL) is raised,
 * http_client_wake is called, or `timeout_ms` have passed.
 *
 * Returns 0 (look which are done); LESSOR_E_TIMEOUT; LESSOR_E_CLOSED (stop); LESSOR_E_NOMEM.
 */
int http_client_wait(struct http_client *client, struct lessor_stop *stop, int64_t timeout_ms);

/* Lets http_client_wait return 0 soon, now or when it is called next. Thread-safe. */
void http_client_wake(struct http_client *client);

bool http_transfer_done(const struct http_transfer *transfer);

/*
 * How a transfer that is done went: 0 (there is an answer, of whatever status); LESSOR_E_LATER (no
 * connection, a broken one, or no time left); LESSOR_E_PERMISSION (a guarded client would have connected to a
 * forbidden address); LESSOR_E_TOO_LARGE (the answer); LESSOR_E_IO (the file could not be read, or is shorter
 * than was said); what `take` said; LESSOR_E_NOMEM.
 */
int http_transfer_error(const struct http_transfer *transfer);

/* What went wrong, in curl's words. "" if nothing did. Lives as long as the transfer. */
const char *http_transfer_problem(const struct http_transfer *transfer);

long http_transfer_status(const struct http_transfer *transfer);
struct lessor_slice http_transfer_body(const struct http_transfer *transfer);

/* A header of the answer, without blanks around it; NULL: there is none. Lives as long as the transfer. */
const char *http_transfer_header(const struct http_transfer *transfer, const char *name);

/* Seconds of a Retry-After header, at most an hour; 0: none. */
int64_t http_transfer_retry_after_ms(const struct http_transfer *transfer);

/* Ends it if it is under way and wipes the bodies. Takes NULL, returns NULL. */
struct http_transfer *http_transfer_free(struct http_transfer *transfer);

/*
 * One request and its end: start, and wait until it is done.
 *
 * ret_transfer  always written, NULL or to be freed: what it failed with is in it
 *
 * Returns what http_transfer_error says, or LESSOR_E_CLOSED.
 */
int http_client_call(struct http_client *client, const struct http_request *request, struct lessor_stop *stop,
                     struct http_transfer **ret_transfer);

/*
 * Checks and trims a base URL: http or https, a host, no user, query or fragment; final slashes are cut.
 *
 * ret_url       to be freed with free()
 * ret_has_path  may be NULL; whether there is a path beyond "/"
 *
 * Returns 0, LESSOR_E_INVALID or LESSOR_E_NOMEM.
 */
int http_base_url(const char *text, char **ret_url, bool *ret_has_path);

DEFINE_CLEANUP(struct http_client, http_client_free)
DEFINE_CLEANUP(struct http_transfer, http_transfer_free)

#endif
