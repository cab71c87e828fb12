/* SPDX-License-Identifier: MIT */
#ifndef LESSOR_ERROR_H
#define LESSOR_ERROR_H

/*
 * Every way in which a function of this project can fail, in one list: name and what it says to a person.
 *
 * Functions return 0 or one of these as a negative number, and nothing else beside it. What a code means on
 * a wire (status, error, message) is that plane's table, since the same fact is worded differently to a
 * device, a site and an operator.
 */
#define LESSOR_ERRORS(X)                                                                        \
        X(NOMEM, "out of memory")                                                               \
        X(INVALID, "a value is not valid")                                                      \
        X(TOO_LARGE, "a value is larger than its limit")                                        \
        X(MALFORMED, "the text is not well formed")                                             \
        X(IO, "reading or writing failed")                                                      \
        X(EXISTS, "it exists already")                                                          \
        X(PERMISSION, "permission denied")                                                      \
        X(UNAVAILABLE, "the store cannot be reached or cannot write just now")                  \
        X(LOW_SPACE, "the disk is nearly full, so no new work is taken")                        \
        X(CORRUPT, "stored data is damaged")                                                    \
        X(NEWER, "the data was written by a newer version")                                     \
        X(BUSY, "somebody else is using it")                                                    \
        X(TIMEOUT, "it took too long")                                                          \
        X(CLOSED, "the other side closed the connection")                                       \
        X(PROTOCOL, "the other side answered something unexpected")                             \
        X(REFUSED, "the other side refused")                                                    \
        X(LATER, "not now: the other side cannot be reached or asks to try again")              \
        X(NOT_FOUND, "there is no such thing")                                                  \
        X(NOT_HOLDER, "somebody else holds that job")                                           \
        X(STALE_LEASE, "that lease is no longer current")                                       \
        X(NOT_READY, "the payload is not sealed yet")                                           \
        X(TERMINAL, "that job has already finished")                                            \
        X(TOO_LATE, "that job is not awaiting a payload")                                       \
        X(BAD_SIGNATURE, "the signature does not verify")                                       \
        X(STALE, "the time stamp is too far from the clock")                                    \
        X(NOT_FOR_US, "the envelope is addressed to somebody else or comes from somebody else") \
        X(UNOPENABLE, "the envelope does not open with this key")                               \
        X(CONTEXT_MISMATCH, "the envelope was sealed for another job or direction")             \
        X(WRONG_OWNER, "the grant names another device owner")                                  \
        X(WRONG_JOB, "the grant names another job")                                             \
        X(FROM_THE_FUTURE, "the grant was issued in the future")                                \
        X(EXPIRED, "it has expired")                                                            \
        X(NO_CHAIN, "there is no succession chain")                                             \
        X(TOO_LONG, "the succession chain is too long")                                         \
        X(BROKEN_LINK, "a link of the succession chain does not verify")                        \
        X(UNKNOWN_ORIGIN, "the succession chain leads to no known key")                         \
        X(NOT_HELD, "the caller does not hold that lease")                                      \
        X(AGENT_TOO_OLD, "the agent is older than the oldest that is given work")               \
        X(SIZE_CHANGED, "that object was declared with another size")                           \
        X(TARGET_LIMIT, "the lease has declared as many objects as it may")                     \
        X(BOOT_CHANGED, "the rack has started again since")                                     \
        X(MISMATCH, "the bytes are not those that were announced")                              \
        X(FULL, "there is no room for more")                                                    \
        X(ABORTED, "it was broken off")

enum lessor_error {
        LESSOR_OK = 0,
#define LESSOR_ERROR_POSITIVE(name, text) LESSOR_ERROR_NUMBER_##name,
        LESSOR_ERRORS(LESSOR_ERROR_POSITIVE)
#undef LESSOR_ERROR_POSITIVE
#define LESSOR_ERROR_NEGATIVE(name, text) LESSOR_E_##name = -LESSOR_ERROR_NUMBER_##name,
                LESSOR_ERRORS(LESSOR_ERROR_NEGATIVE)
#undef LESSOR_ERROR_NEGATIVE
};

/*
 * The sentence that belongs to a code, for people; "success" for 0 and "unknown error" for anything that is
 * not in the list. Static text, never NULL. Thread-safe.
 */
const char *lessor_error_text(int code);

/* The code's own name in lower case with dashes, for logs and JSON: "stale-lease". Static, never NULL. */
const char *lessor_error_name(int code);

#endif
