/* SPDX-License-Identifier: MIT */
#ifndef WIRE_RELAY_SITE_H
#define WIRE_RELAY_SITE_H

#include "wire/relay_shapes.h"

/*
 * The messages of the site plane (relay-protocol 8), requests and answers. Answers are read leniently, as the
 * reference's site client does: a relay may say more than we know of.
 */

struct enqueue_request {
        struct lessor_slice site_id;
        struct lessor_stub stub;
};

/* Of enqueue and of payload. */
struct job_state_answer {
        struct lessor_slice job_id;
        enum lessor_job_state state;
};

struct payload_request {
        struct lessor_slice site_id;
        struct lessor_slice job_id;
        struct envelope_member envelope;
};

struct cancel_request {
        struct lessor_slice site_id;
        struct lessor_slice job_id;
};

struct cancel_answer {
        bool cancelled;
};

/* Our own: the results that the site has stored and the relay may forget. */
struct ack_request {
        struct lessor_slice site_id;
        struct lessor_slice *job_ids; /* 1..LIMIT_ACK_JOBS */
        size_t n_job_ids;
};

struct ack_answer {
        struct lessor_slice *acked;
        size_t n_acked;
};

/* A claimed job that waits for its payload, and whom to seal it to. */
struct pending_job {
        struct lessor_slice job_id;
        struct lessor_public_identity device;
        struct lessor_slice runner_id;
        struct lessor_slice lease_id;
        int64_t awaiting_until_ms;
        int64_t lease_expires_ms;
};

struct pending_answer {
        struct pending_job *jobs;
        size_t n_jobs;
};

struct result_job {
        struct lessor_slice job_id;
        struct envelope_member envelope;
        enum lessor_disposition disposition;
        struct lessor_slice runner_id;
        struct lessor_slice lease_id;
        struct lessor_public_identity device;
        struct lessor_slice runner_owner;
};

struct results_answer {
        struct result_job *jobs;
        size_t n_jobs;
};

/* The query of pending and results. */
struct site_query {
        struct lessor_slice site_id;
        int64_t wait_ms; /* our own: hold the answer until there is something; 0: answer at once */
};

/*
 * Reads that query from its decoded parameters, each absent when the query does not have it. A `wait` longer
 * than LIMIT_HELD_WAIT_MS is cut to that. Returns 0 or LESSOR_E_INVALID (no site id, or a wait that is no
 * decimal).
 */
int site_query_read(struct lessor_slice site_id, struct lessor_slice wait, struct site_query *ret_query);

extern const struct message_table enqueue_request_table;
extern const struct message_table job_state_answer_table;
extern const struct message_table payload_request_table;
extern const struct message_table cancel_request_table;
extern const struct message_table cancel_answer_table;
extern const struct message_table ack_request_table;
extern const struct message_table ack_answer_table;
extern const struct message_table pending_job_table;
extern const struct message_table pending_answer_table;
extern const struct message_table result_job_table;
extern const struct message_table results_answer_table;

#endif
