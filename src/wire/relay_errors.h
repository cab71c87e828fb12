/* SPDX-License-Identifier: MIT */
#ifndef WIRE_RELAY_ERRORS_H
#define WIRE_RELAY_ERRORS_H

#include <stdint.h>

#include "base/buf.h"
#include "wire/message.h"

/*
 * Every refusal of the relay plane: name, HTTP status, error code, message (relay-protocol 5, 6 and 8). The
 * texts are part of the protocol. In a message `{}` stands for the subject of the refusal and `{floor}` for
 * the floor. A NULL message makes the bare body that section 5 has in a few places.
 */
#define RELAY_UPGRADE "npm i -g byollm@latest"
#define RELAY_REFUSALS(X)                                                                                    \
        /* Before anybody is known */                                                                        \
        X(NO_SUCH_PATH, 404, "not-found", NULL)                                                              \
        X(DEBUG_BAD_SITE, 400, "bad-request", NULL)                                                          \
        X(NO_VERSION, 400, "unsupported-protocol-version",                                                   \
          "this request declared no protocol version. Upgrade the daemon: `" RELAY_UPGRADE "`.")             \
        X(OLDER_VERSION, 400, "unsupported-protocol-version",                                                \
          "this server speaks protocol 2 and the daemon asked for {}. "                                      \
          "Upgrade the daemon: `" RELAY_UPGRADE "`.")                                                        \
        X(NEWER_VERSION, 400, "unsupported-protocol-version",                                                \
          "this server speaks protocol 2 and the daemon asked for {}. "                                      \
          "This daemon is newer than the server; the server needs upgrading.")                               \
        /* Who is asking */                                                                                  \
        X(NOT_SIGNED, 401, "unauthorized", "this request is not signed")                                     \
        X(UNKNOWN_RUNNER, 401, "unauthorized", "this runner is not recognised")                              \
        X(UNKNOWN_SITE, 401, "unauthorized", "this site is not registered")                                  \
        X(CLOCK_SKEW, 401, "clock-skew",                                                                     \
          "this request's timestamp is too far from the server's clock; "                                    \
          "check the machine's time and try again")                                                          \
        X(BAD_SIGNATURE, 401, "unauthorized", "signature check failed")                                      \
        X(RUNNER_REVOKED, 403, "revoked", "routing for this runner has been revoked")                        \
        X(BAD_SCHEMA, 400, "bad-request", "request failed schema validation")                                \
        X(WRONG_SITE, 403, "forbidden", "that is not your site")                                             \
        /* pair */                                                                                           \
        X(BAD_PAIR_SCHEMA, 400, "bad-request", "pair request failed schema validation")                      \
        X(NO_PAIRING, 501, "bad-request", "this relay does not offer device-code pairing")                   \
        X(INCONSISTENT_DEVICE, 400, "bad-request", "the device identity is not consistent")                  \
        X(PAIRING_FULL, 429, "rate-limited",                                                                 \
          "too many pairings are in progress right now \u2014 try again in a few minutes")                   \
        X(NO_CONSENT, 403, "forbidden", "no consent record for this user")                                   \
        X(NOT_APPROVED, 403, "forbidden", "this device has not been approved by its owner")                  \
        X(OTHER_OWNER, 403, "forbidden", "this device belongs to another owner")                             \
        /* The device's own endpoints */                                                                     \
        X(WRONG_RUNNER, 403, "forbidden", "runner id does not match the key")                                \
        X(UNKNOWN_JOB, 404, "not-found", "unknown job")                                                      \
        X(NOT_HOLDER, 403, "forbidden", "this runner does not hold the job")                                 \
        X(STALE_LEASE, 403, "forbidden", "that lease is no longer current")                                  \
        X(NOT_READY, 409, "not-ready", "the site has not sealed this job yet")                               \
        X(FINISHED, 409, "too-late", "this job has already finished")                                        \
        X(ENVELOPE_TOO_LARGE, 400, "bad-request",                                                            \
          "this message is {} and the limit is 6.0 MB \u2014 it is a limit on one message rather than on "   \
          "how many you send. Split the work into smaller jobs and send them separately. "                   \
          "Every plan has the same ceiling.")                                                                \
        X(BELOW_FLOOR, 426, "daemon-below-floor",                                                            \
          "byollm {} is below the supported floor ({floor}). Run `" RELAY_UPGRADE "`, then `byollm start`.") \
        /* The site's own endpoints */                                                                       \
        X(FOREIGN_STUB, 403, "forbidden", "that stub does not name the site that signed it")                 \
        X(CANNOT_CHECK, 503, "server-error", "we could not check this just now \u2014 try again shortly")    \
        X(PURPOSE_NOT_DECLARED, 409, "purpose-not-declared",                                                 \
          "this site does not declare {} \u2014 declare it on Developer Sites, and the people who have "     \
          "already connected will each map the new slot before it routes")                                   \
        X(SLOT_UNSATISFIABLE, 409, "slot-unsatisfiable", "nobody has chosen what answers this yet")          \
        X(SLOT_WAITING, 409, "slot-waiting", "nothing can answer this right now \u2014 try again later")     \
        X(NOT_AWAITING, 409, "too-late", "job is {}, not awaiting payload")                                  \
        /* Our own: the reference does not refuse in these cases */                                          \
        X(BODY_TOO_LARGE, 413, "bad-request", "the request body is larger than this endpoint takes")         \
        X(LOW_SPACE, 503, "server-error", "this relay takes no new work just now \u2014 try again later")    \
        X(UNAVAILABLE, 503, "server-error", "this relay cannot answer just now \u2014 try again shortly")    \
        X(INTERNAL, 500, "server-error", "something went wrong on the server")

enum relay_refusal {
#define RELAY_REFUSAL_NAME(name, status, code, message) RELAY_REFUSAL_##name,
        RELAY_REFUSALS(RELAY_REFUSAL_NAME)
#undef RELAY_REFUSAL_NAME
                RELAY_N_REFUSALS
};

/* What a refusal says beyond its text. Only what that refusal needs is looked at. */
struct relay_refusal_details {
        struct lessor_slice subject; /* fills the {} of the message: a version, a size, a purpose, a state */
        struct lessor_slice floor;   /* BELOW_FLOOR */
        int64_t server_time_ms;      /* CLOCK_SKEW */
};

unsigned relay_refusal_status(enum relay_refusal refusal);

/* The error code on the wire. Static. */
const char *relay_refusal_code(enum relay_refusal refusal);

/*
 * Appends the JSON body of a refusal: error, message, and with their codes only serverTime and maxSkewMs,
 * floor, supported and minimum.
 *
 * details  may be NULL when the message has no subject
 *
 * Returns 0 or LESSOR_E_NOMEM.
 */
int relay_refusal_append(enum relay_refusal refusal, const struct relay_refusal_details *details,
                         struct buf *out);

/*
 * How a holder is refused fetch and result (relay-protocol 6.3), and a store's failures besides: from the
 * code that the store returned.
 */
enum relay_refusal relay_refusal_of_store(int error);

/* An error body, as a client reads it. Members other than `error` are there or not as section 5 says. */
struct relay_error_answer {
        struct lessor_slice error;
        struct lessor_slice message; /* absent in the bare bodies */
        struct lessor_slice *supported;
        size_t n_supported;
        struct lessor_slice minimum;
        struct lessor_slice floor;
        int64_t retry_after; /* 0: absent */
        int64_t server_time_ms;
        int64_t max_skew_ms;
};

extern const struct message_table relay_error_answer_table;

#endif
