/* SPDX-License-Identifier: MIT */
#ifndef CLIENT_RACK_CALL_H
#define CLIENT_RACK_CALL_H

#include "client/http_client.h"
#include "client/rack_identity.h"
#include "lessor/arena.h"
#include "wire/beast2_type.h"

/* Calls to a server's rack endpoints in the JSON form (rack-protocol 19). */

/* Why a call failed. */
struct rack_failure {
        int code;    /* rack_verdict, or what the transfer failed with */
        long status; /* 0: there was no answer */
        int64_t retry_after_ms;
        struct buf message; /* for people */
};

void rack_failure_init(struct rack_failure *failure);
void rack_failure_done(struct rack_failure *failure);
const char *rack_failure_message(const struct rack_failure *failure);

/* One thread's way to a server. */
struct rack_caller {
        struct http_client *http;       /* borrowed */
        struct rack_identity *identity; /* borrowed; NULL: no token is sent (enrolling) */
        const char *url;                /* borrowed */
        struct lessor_stop *stop;       /* borrowed; ends rack_call. May be NULL */
};

/* A call under way. Zeroed: none is. */
struct rack_exchange {
        struct http_transfer *transfer;
        char token[RACK_TOKEN_LEN + 1]; /* that it was made with */
        int64_t started_ms;             /* monotonic */
};

/* Ends it, if it is under way, and leaves it zeroed. */
void rack_exchange_clear(struct rack_exchange *exchange);

/*
 * Starts a call. `endpoint`: below /api/rack/. Returns 0; LESSOR_E_NOMEM; LESSOR_E_INVALID,
 * LESSOR_E_TOO_LARGE (the request cannot be written).
 */
int rack_call_start(const struct rack_caller *caller, const char *endpoint, const struct beast2_type *type,
                    const void *request, int64_t timeout_ms, struct rack_exchange *exchange);

/*
 * Reads the answer of a call that is done, and tells the identity whether its token worked.
 *
 * reply_type  of what a success is
 * ret_reply   reply_type->size bytes; in the arena is what it points to
 * ret_empty   whether the answer was 204; NULL: that would be LESSOR_E_PROTOCOL
 *
 * Returns 0; LESSOR_E_PERMISSION (the rack is none any more: no token is good); LESSOR_E_LATER (also: another
 * token is to be tried); and as rack_verdict and http_transfer_error; LESSOR_E_PROTOCOL; LESSOR_E_NOMEM.
 */
int rack_call_finish(const struct rack_caller *caller, const struct rack_exchange *exchange,
                     const struct beast2_type *reply_type, struct lessor_arena *arena, void *ret_reply,
                     bool *ret_empty, struct rack_failure *failure);

/* A whole call, once. As rack_call_finish; LESSOR_E_CLOSED (caller->stop). */
int rack_call(const struct rack_caller *caller, const char *endpoint, const struct beast2_type *type,
              const void *request, int64_t timeout_ms, const struct beast2_type *reply_type,
              struct lessor_arena *arena, void *ret_reply, struct rack_failure *failure);

#endif
