/* SPDX-License-Identifier: MIT */
#include "wire/relay_site.h"

#include "base/limits.h"
#include "base/macro.h"
#include "wire/relay_fields.h"

static const struct message_field enqueue_request_fields[] = {
        FIELD_PROTOCOL_VERSION,
        FIELD_TEXT1(struct enqueue_request, site_id, "siteId"),
        FIELD_OBJECT(struct enqueue_request, stub, "stub", &stub_table),
};
const struct message_table enqueue_request_table =
        MESSAGE_TABLE("EnqueueRequest", struct enqueue_request, enqueue_request_fields);

static const struct message_field job_state_answer_fields[] = {
        FIELD_TEXT1(struct job_state_answer, job_id, "jobId"),
        FIELD_ENUM(struct job_state_answer, state, "state", &job_state_words),
};
const struct message_table job_state_answer_table =
        MESSAGE_TABLE("JobStateResponse", struct job_state_answer, job_state_answer_fields, .open = true);

static const struct message_field payload_request_fields[] = {
        FIELD_PROTOCOL_VERSION,
        FIELD_TEXT1(struct payload_request, site_id, "siteId"),
        FIELD_TEXT1(struct payload_request, job_id, "jobId"),
        FIELD_OBJECT(struct payload_request, envelope, "envelope", &envelope_member_table),
};
const struct message_table payload_request_table =
        MESSAGE_TABLE("PayloadRequest", struct payload_request, payload_request_fields);

static const struct message_field cancel_request_fields[] = {
        FIELD_PROTOCOL_VERSION,
        FIELD_TEXT1(struct cancel_request, site_id, "siteId"),
        FIELD_TEXT1(struct cancel_request, job_id, "jobId"),
};
const struct message_table cancel_request_table =
        MESSAGE_TABLE("CancelRequest", struct cancel_request, cancel_request_fields);

static const struct message_field cancel_answer_fields[] = {
        FIELD_BOOL(struct cancel_answer, cancelled, "cancelled"),
};
const struct message_table cancel_answer_table =
        MESSAGE_TABLE("CancelResponse", struct cancel_answer, cancel_answer_fields, .open = true);

static const struct message_field ack_request_fields[] = {
        FIELD_PROTOCOL_VERSION,
        FIELD_TEXT1(struct ack_request, site_id, "siteId"),
        FIELD_TEXTS(struct ack_request, job_ids, n_job_ids, "jobIds", 1, LIMIT_ACK_JOBS),
};
const struct message_table ack_request_table =
        MESSAGE_TABLE("AckRequest", struct ack_request, ack_request_fields);

static const struct message_field ack_answer_fields[] = {
        FIELD_TEXTS(struct ack_answer, acked, n_acked, "acked", 0, INT64_MAX),
};
const struct message_table ack_answer_table =
        MESSAGE_TABLE("AckResponse", struct ack_answer, ack_answer_fields, .open = true);

static const struct message_field pending_job_fields[] = {
        FIELD_TEXT1(struct pending_job, job_id, "jobId"),
        FIELD_OBJECT(struct pending_job, device, "device", &public_identity_table),
        FIELD_TEXT1(struct pending_job, runner_id, "runnerId"),
        FIELD_TEXT1(struct pending_job, lease_id, "leaseId"),
        FIELD_POSINT(struct pending_job, awaiting_until_ms, "awaitingUntil"),
        FIELD_POSINT(struct pending_job, lease_expires_ms, "leaseExpiresAt"),
};
const struct message_table pending_job_table =
        MESSAGE_TABLE("PendingJob", struct pending_job, pending_job_fields, .open = true);

static const struct message_field pending_answer_fields[] = {
        FIELD_LIST(struct pending_answer, jobs, n_jobs, "jobs", &pending_job_table, 0, INT64_MAX),
};
const struct message_table pending_answer_table =
        MESSAGE_TABLE("PendingResponse", struct pending_answer, pending_answer_fields, .open = true);

static const struct message_field result_job_fields[] = {
        FIELD_TEXT1(struct result_job, job_id, "jobId"),
        FIELD_OBJECT(struct result_job, envelope, "envelope", &envelope_member_table),
        FIELD_ENUM(struct result_job, disposition, "disposition", &disposition_words),
        FIELD_TEXT1(struct result_job, runner_id, "runnerId"),
        FIELD_TEXT1(struct result_job, lease_id, "leaseId"),
        FIELD_OBJECT(struct result_job, device, "device", &public_identity_table),
        FIELD_TEXT1(struct result_job, runner_owner, "runnerOwner"),
};
const struct message_table result_job_table =
        MESSAGE_TABLE("ResultJob", struct result_job, result_job_fields, .open = true);

static const struct message_field results_answer_fields[] = {
        FIELD_LIST(struct results_answer, jobs, n_jobs, "jobs", &result_job_table, 0, INT64_MAX),
};
const struct message_table results_answer_table =
        MESSAGE_TABLE("ResultsResponse", struct results_answer, results_answer_fields, .open = true);

/* A decimal, no more than `most`, which larger ones are cut to. */
static int decimal_read(struct lessor_slice text, int64_t most, int64_t *ret_number)
{
        int64_t number = 0;

        if (text.n == 0)
                return LESSOR_E_INVALID;
        for (size_t i = 0; i < text.n; i++) {
                if (text.p[i] < '0' || text.p[i] > '9')
                        return LESSOR_E_INVALID;
                if (number <= most)
                        number = number * 10 + (text.p[i] - '0');
        }
        *ret_number = number < most ? number : most;
        return 0;
}

int site_query_read(struct lessor_slice site_id, struct lessor_slice wait, struct site_query *ret_query)
{
        struct site_query query = {.site_id = site_id};
        int e;

        if (site_id.n == 0)
                return LESSOR_E_INVALID;
        if (wait.p != NULL) {
                e = decimal_read(wait, LIMIT_HELD_WAIT_MS, &query.wait_ms);
                if (e < 0)
                        return e;
        }
        *ret_query = query;
        return 0;
}
