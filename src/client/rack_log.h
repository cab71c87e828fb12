/* SPDX-License-Identifier: MIT */
#ifndef CLIENT_RACK_LOG_H
#define CLIENT_RACK_LOG_H

#include "client/rack_call.h"
#include "client/task_run.h"

/*
 * Sends what a task prints, while it runs, by a thread of its own (rack-protocol 6.7): one stream a request,
 * a second or 32 KiB after its first byte, again and again until the server has it.
 *
 * What is not UTF-8 cannot be said in a JSON text: each such sequence becomes U+FFFD. A character is never
 * split between two requests. Everything else, NUL included, is kept byte for byte. When the server is slower
 * than the task, the task waits; nothing is dropped but what is beyond the limit of a stream, which ends with
 * a line that says so.
 */
struct rack_log;

/* Whose log it is. Texts are borrowed until the log is freed. */
struct rack_log_options {
        const struct rack_caller *caller; /* `http` and `stop` are not used: it has its own */
        struct http_client_options http;
        struct lessor_slice repo, lease_id, attempt;
        int64_t limit_bytes;      /* of a stream */
        struct lessor_stop *stop; /* ends the sending. May not be NULL */
        /* The lease is not held any more, or the rack is none: called once, by the log's thread. */
        void (*lost)(void *context, int code);
        void *context;
};

/* Starts the thread. Returns 0 or LESSOR_E_NOMEM. */
int rack_log_new(const struct rack_log_options *options, struct rack_log **ret_log);

/* As task_run's callbacks want them: the context is the log. */
bool rack_log_room(void *context, enum task_stream stream);
void rack_log_add(void *context, enum task_stream stream, struct lessor_slice bytes);

/*
 * Nothing will follow: waits until the server has everything. Returns 0; LESSOR_E_CLOSED (stop was raised, or
 * the lease lost); LESSOR_E_REFUSED (the server does not take this log; the task can still complete).
 */
int rack_log_finish(struct rack_log *log);

/* Stops at once. Takes NULL, returns NULL. */
struct rack_log *rack_log_free(struct rack_log *log);
DEFINE_CLEANUP(struct rack_log, rack_log_free)

#endif
