/* SPDX-License-Identifier: MIT */
#ifndef CLIENT_RELAY_CALL_H
#define CLIENT_RELAY_CALL_H

#include <stdint.h>

#include "base/buf.h"
#include "base/clock.h"
#include "client/http_client.h"
#include "crypto/request_signature.h"
#include "lessor/arena.h"
#include "wire/message.h"

/*
 * Calls to a relay: signed requests out, answers and refusals in (relay-protocol 4 and 5).
 */

/* Who calls, and where. Everything is borrowed. One thread at a time, like its HTTP client. */
struct relay_caller {
        struct http_client *http;
        const char *base_url; /* as http_base_url gives it */
        enum request_plane plane;
        struct lessor_slice id;        /* runner id or site id */
        const struct signing_key *key; /* NULL: calls are not signed, as pairing is not */
        struct lessor_stop *stop;      /* may be NULL */
        struct clock *clock;           /* the wall clock */
        int64_t timeout_ms;            /* for one call, not counting `wait_ms` */
};

/* Ids travel in a header: anything but printable ASCII without spaces would not arrive as it is. Pure. */
bool relay_id_is_sendable(struct lessor_slice id);

/* Why a call failed. */
struct relay_failure {
        int code;               /* what the call returned */
        long status;            /* HTTP; 0: there was no answer */
        struct buf error;       /* the relay's error code; empty: none */
        struct buf message;     /* for people; never empty after a failure unless memory was short */
        int64_t retry_after_ms; /* 0: the relay did not say */
        int64_t server_time_ms; /* of a clock-skew answer; 0: none */
};

void relay_failure_init(struct relay_failure *failure);
void relay_failure_done(struct relay_failure *failure);

/* Always followed by a NUL; borrowed from the failure. */
const char *relay_failure_message(const struct relay_failure *failure);
const char *relay_failure_error(const struct relay_failure *failure);

/* Notes a failure. `message` NULL or "": the code's own text. Returns the code. */
int relay_fail(struct relay_failure *failure, int code, const char *message);

/*
 * What a refusal means to whoever asked (relay-protocol 5, last paragraph, and 8, last paragraph). Pure.
 *
 * error  the error code in the body; absent: none was found
 *
 * Returns LESSOR_E_LATER (ask again), LESSOR_E_PERMISSION (revoked: stop), LESSOR_E_TOO_LATE (abandon the
 * job), LESSOR_E_NOT_READY (a device's 409: ask again soon), LESSOR_E_NEWER (the version is not served: tell
 * the owner), LESSOR_E_STALE (the clocks differ), LESSOR_E_NOT_FOUND (404) or LESSOR_E_REFUSED (never).
 */
int relay_verdict(enum request_plane plane, long status, struct lessor_slice error);

/*
 * Posts a message and reads the answer.
 *
 * endpoint     "claim"; on the site plane "enqueue"
 * answer       table of `ret_answer`; its texts live in the arena
 * failure      overwritten; says why on failure
 *
 * Returns 0; what relay_verdict says; LESSOR_E_LATER (no connection); LESSOR_E_PROTOCOL (the answer is none);
 * LESSOR_E_TOO_LARGE; LESSOR_E_CLOSED (stopped); LESSOR_E_NOMEM.
 */
int relay_post(const struct relay_caller *caller, const char *endpoint,
               const struct message_table *request_table, const void *request,
               const struct message_table *answer_table, struct lessor_arena *arena, void *ret_answer,
               struct relay_failure *failure);

/*
 * Starts a signed GET of the site plane, `pending` or `results`; its HTTP client moves it along.
 *
 * wait_ms  how long the relay may hold the answer; 0: not at all
 *
 * Returns 0 or LESSOR_E_NOMEM.
 */
int relay_get_start(const struct relay_caller *caller, const char *endpoint, int64_t wait_ms,
                    struct http_transfer **ret_transfer);

/* Reads the answer of a transfer that is done. As relay_post. */
int relay_answer_read(const struct relay_caller *caller, const struct http_transfer *transfer,
                      const struct message_table *answer_table, struct lessor_arena *arena, void *ret_answer,
                      struct relay_failure *failure);

#endif
