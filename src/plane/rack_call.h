/* SPDX-License-Identifier: MIT */
#ifndef PLANE_RACK_CALL_H
#define PLANE_RACK_CALL_H

#include "http/http.h"
#include "plane/rack.h"
#include "wire/rack_types.h"

/*
 * What the files of the rack plane share: one request under way, and how to answer it on either wire
 * (rack-protocol 4, 19 and 20).
 *
 * A serve function gets the message that was read, and answers exactly once in one of its runs: by one of the
 * functions below, or by suspending `http` and answering in the continuation. It does not look at `form`
 * unless the wires differ in more than their spelling.
 */

enum rack_form {
        RACK_FORM_BEAST2,
        RACK_FORM_JSON,
        RACK_FORM_OTHER, /* a content type that is neither: answered as BEAST2, and never decoded (R015) */
};

struct rack_call;

/* One endpoint: a row of rack_endpoints, in rack_routes.c. */
struct rack_endpoint {
        const char *path;                  /* whole */
        const char *name;                  /* in logs and metrics */
        const struct beast2_type *request; /* of the body */
        const struct beast2_type *success; /* T: what a JSON answer is */
        const struct beast2_type *reply;   /* ResponseType(T): what a BEAST2 answer is */
        void (*serve)(struct rack_call *call, const void *request);
        size_t body_limit;
        bool open; /* no rack token: the body says who asks */
        const char *summary;
};

extern const struct rack_endpoint rack_endpoints[];
extern const size_t rack_n_endpoints;

/* Time for a whole body (section 4). */
#define RACK_BODY_MS 15000

/* A request under way. In the request's arena. */
struct rack_call {
        struct rack_plane *plane;
        struct lessor_lease_store *store; /* plane->parts.store */
        const struct rack_endpoint *endpoint;
        struct http_request *http;
        struct lessor_arena *arena;
        enum rack_form form;
        struct lessor_rack_caller caller; /* who asks; all zero on an open endpoint */
        struct lessor_ticket ticket;      /* what the answer rests on */
        struct lessor_arena *message;     /* owns what was read of the body; NULL once forgotten */
};

/*
 * How a request is refused. In BEAST2 the first three are bodies of their own with their status, and all else
 * is the error `internal` of the endpoint's envelope, with status 200. In JSON each has a status and a code.
 */
enum rack_refusal {
        RACK_UNAUTHORIZED, /* 401, U401 */
        RACK_FORBIDDEN,    /* 403, F403: not this rack's lease, or outside of it */
        RACK_NO_SUCH_PATH, /* 404 on both wires */
        RACK_BAD_REQUEST,  /* 400 bad_request */
        RACK_NOT_FOUND,    /* 404 not_found: an environment that is not published */
        RACK_CONFLICT,     /* 409 conflict */
        RACK_TOO_LARGE,    /* 413 too_large: the inline output; bodies are refused by the HTTP server */
        RACK_TOO_OLD,      /* 426 agent_too_old */
        RACK_RATE_LIMITED, /* 429 rate_limited */
        RACK_UNAVAILABLE,  /* 503 unavailable, with Retry-After */
        RACK_INTERNAL,     /* 500 internal */
};

/* Answers 200 with the endpoint's success value (a struct of `success`, or a bool), once all that it rests on
 * is durable. */
void rack_answer(struct rack_call *call, const void *success);

/* Answers 204 without a body. */
void rack_answer_nothing(struct rack_call *call);

/* Refuses, with a sentence for people; it too waits for what was decided before. */
void rack_refuse(struct rack_call *call, enum rack_refusal refusal, const char *format, ...)
        __attribute__((format(printf, 3, 4)));

/*
 * Refuses with what a store's error usually means: NOT_HELD and PERMISSION are FORBIDDEN, INVALID, MALFORMED
 * and TOO_LARGE are BAD_REQUEST, SIZE_CHANGED, TARGET_LIMIT and MISMATCH are CONFLICT, NOT_FOUND is
 * NOT_FOUND, AGENT_TOO_OLD is TOO_OLD, FULL, BUSY, LOW_SPACE and UNAVAILABLE are UNAVAILABLE, the rest is
 * INTERNAL and logged.
 */
void rack_refuse_error(struct rack_call *call, int error);

/* Refuses a rack that is registered no longer (R011). */
void rack_refuse_gone(struct rack_call *call);

/* Notes that the answer also rests on this. */
void rack_call_rests_on(struct rack_call *call, struct lessor_ticket ticket);

/*
 * Gives the memory of the message back, for calls that wait: it may be many times that of the body. What is
 * still needed must have been copied into call->arena.
 */
void rack_call_forget_message(struct rack_call *call);

/* Who speaks about which lease: the caller, with the attempt that a JSON request named. */
struct lessor_lease_holder rack_call_holder(const struct rack_call *call, struct lessor_slice repo,
                                            struct lessor_slice lease_id, struct lessor_slice attempt);

/* Refs as the store takes them, in the call's arena. Returns 0 or LESSOR_E_NOMEM. */
int rack_call_names(struct rack_call *call, const struct rack_lease_ref *refs, size_t n,
                    struct lessor_lease_name **ret_names);

/* The same refs, picked by index. Returns 0 or LESSOR_E_NOMEM. */
int rack_call_pick(struct rack_call *call, const struct rack_lease_ref *refs,
                   const struct lessor_index_list *picked, struct rack_lease_ref **ret_refs);

/*
 * Where URLs that lead back here begin, without a slash at the end: the option, else what the request itself
 * came to. Absent when neither is known (HTTP/1.0 without Host). Returns 0 or LESSOR_E_NOMEM.
 */
int rack_call_origin(struct rack_call *call, struct lessor_slice *ret_origin);

/* The serve functions, by file. */
void rack_serve_enroll(struct rack_call *call, const void *request);    /* rack_machine.c */
void rack_serve_heartbeat(struct rack_call *call, const void *request); /* rack_machine.c */
void rack_serve_lease(struct rack_call *call, const void *request);     /* rack_lease.c */
void rack_serve_extend(struct rack_call *call, const void *request);    /* rack_machine.c */
void rack_serve_watch(struct rack_call *call, const void *request);     /* rack_watch.c */
void rack_serve_storage(struct rack_call *call, const void *request);   /* rack_storage.c */
void rack_serve_logs(struct rack_call *call, const void *request);      /* rack_logs.c */
void rack_serve_complete(struct rack_call *call, const void *request);  /* rack_complete.c */

/* The handlers of routes, each with the plane as context. */
void rack_handle(struct http_request *http, void *context); /* endpoints, behind rack_gate */
extern const struct http_gate rack_gate; /* authenticates, and leaves the call in `admitted` */
void rack_handle_unknown(struct http_request *http, void *context); /* the rest of /api/rack/ */

#endif
