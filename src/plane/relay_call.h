/* SPDX-License-Identifier: MIT */
#ifndef PLANE_RELAY_CALL_H
#define PLANE_RELAY_CALL_H

#include "base/json_read.h"
#include "http/http.h"
#include "plane/relay.h"
#include "wire/message.h"
#include "wire/relay_errors.h"

/* What the files of the relay plane share: one request under way, and how to answer it. */

struct relay {
        struct relay_options options;
        struct relay_parts parts;
        struct http_route *routes;
        char **paths; /* of the routes under the base path */
        size_t n_paths;
        _Atomic(struct lessor_arena *) spare_json; /* cleared, for the next body; NULL: none */
};

struct relay_call;

/* One endpoint behind its authentication. */
struct relay_endpoint {
        const char *name;                   /* the last segment of the path, as it is signed */
        const struct message_table *schema; /* of the body; NULL: the endpoint reads the query */
        void (*serve)(struct relay_call *call, const void *request);
};

/* A request under way. In the request's arena. */
struct relay_call {
        struct relay *relay;
        struct http_request *http;
        struct lessor_arena *arena;
        struct json *body;             /* NULL: absent, or no JSON; or no longer wanted */
        struct lessor_arena *json;     /* owns `body` and its texts; NULL with it */
        struct projection *projection; /* held until the request ends */
        struct lessor_ticket ticket;   /* what the answer rests on */
        const struct relay_endpoint *endpoint;

        /* Who asks; one of the two, after authentication. */
        struct lessor_presence device;
        const struct projection_site *site;

        /* Held reads of the site plane. */
        int64_t wait_until_ms; /* monotonic; 0: does not wait */
};

/*
 * Begins a call: reads the body and checks the version where the path wants it (relay-protocol 5, steps 2 and
 * 3). NULL when the request was answered already.
 */
struct relay_call *relay_call_begin(struct http_request *http, struct relay *relay);

/* What a request's three headers say; see relay_call_signature. */
struct relay_signature {
        struct lessor_slice caller;
        struct lessor_slice signature;
        int64_t issued_ms;
};

/* Reads the signature headers. Returns false when one is missing or malformed: "not signed". */
bool relay_call_signature(struct relay_call *call, const char *caller_header,
                          struct relay_signature *ret_signature);

/*
 * Gives back the memory of the parsed body, which may be forty times that of its text, and which nobody has
 * to be known for. Every answer does so; so that a request that waits for its answer to be sent, for the disk
 * or for an event holds none, and only as many bodies are parsed at once as there are threads.
 */
void relay_call_forget_body(struct relay_call *call);

/* The body as it is signed: empty for any method but POST. */
struct lessor_slice relay_call_signed_body(const struct relay_call *call);

/* Notes that the answer also rests on this. */
void relay_call_rests_on(struct relay_call *call, struct lessor_ticket ticket);

/* Answers 200 with a message, once what it rests on is durable. */
void relay_call_answer(struct relay_call *call, const struct message_table *table, const void *message);

/* Refuses, with what the refusal names; `details` may be NULL. Waits for what was decided before, too. */
void relay_call_refuse(struct relay_call *call, enum relay_refusal refusal,
                       const struct relay_refusal_details *details);

/* Refuses with the word that belongs to a store's error. */
void relay_call_refuse_error(struct relay_call *call, int error);

/* Reads an envelope for keeping. False when the call was refused: larger than the ceiling, or no memory. */
bool relay_call_envelope(struct relay_call *call, const struct lessor_sealed_envelope *sealed,
                         struct lessor_envelope *ret_envelope);

/* The sites that a device of this owner pins, as answers carry them. Returns 0 or LESSOR_E_NOMEM. */
struct pinned_site;
int relay_call_pins(struct relay_call *call, struct lessor_slice owner, struct pinned_site **ret_sites,
                    size_t *ret_n);

/* The handlers, each with the relay as context. Their endpoint is the route's name. */
void relay_handle_pair(struct http_request *http, void *context);
void relay_handle_device(struct http_request *http, void *context);
void relay_handle_site(struct http_request *http, void *context);
void relay_handle_debug(struct http_request *http, void *context);

#endif
