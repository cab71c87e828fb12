/* SPDX-License-Identifier: MIT */
#include "wire/relay_device.h"

#include <string.h>

#include "base/limits.h"
#include "base/macro.h"
#include "wire/relay_fields.h"

static const char *const platform_names[] = {"darwin", "linux", "win32"};
static const struct message_words platform_words = {platform_names, ARRAY_SIZE(platform_names)};

static const char *const pair_status_names[] = {"pending", "denied", "expired", "approved"};
static const struct message_words pair_status_words = {pair_status_names, ARRAY_SIZE(pair_status_names)};

/* pair */

static const struct message_field pair_daemon_fields[] = {
        FIELD_TEXT1(struct pair_daemon, version, "version"),
        FIELD_TEXT(struct pair_daemon, label, "label", 1, LIMIT_PAIRING_LABEL),
        FIELD_ENUM(struct pair_daemon, platform, "platform", &platform_words),
};
static const struct message_table pair_daemon_table =
        MESSAGE_TABLE("PairDaemon", struct pair_daemon, pair_daemon_fields);

static const struct message_field pair_start_request_fields[] = {
        FIELD_PROTOCOL_VERSION,
        FIELD_LITERAL("action", "start"),
        FIELD_OBJECT(struct pair_start_request, daemon, "daemon", &pair_daemon_table),
        FIELD_OBJECT(struct pair_start_request, device, "device", &public_identity_table),
        FIELD_LIST(struct pair_start_request, capabilities, n_capabilities, "capabilities", &capability_table,
                   0, INT64_MAX),
};
const struct message_table pair_start_request_table =
        MESSAGE_TABLE("PairStartRequest", struct pair_start_request, pair_start_request_fields);

static const struct message_field pair_start_answer_fields[] = {
        FIELD_TEXT(struct pair_start_answer, device_code, "deviceCode", 20, INT64_MAX),
        FIELD_TEXT(struct pair_start_answer, user_code, "userCode", 4, 16),
        FIELD_URL(struct pair_start_answer, verification_url, "verificationUrl"),
        FIELD_POSINT(struct pair_start_answer, expires_ms, "expiresAt"),
        FIELD_INT(struct pair_start_answer, poll_interval_ms, "pollIntervalMs", 500, 60000),
};
const struct message_table pair_start_answer_table =
        MESSAGE_TABLE("PairStartResponse", struct pair_start_answer, pair_start_answer_fields);

static const struct message_field pair_poll_request_fields[] = {
        FIELD_PROTOCOL_VERSION,
        FIELD_LITERAL("action", "poll"),
        FIELD_TEXT(struct pair_poll_request, device_code, "deviceCode", 20, INT64_MAX),
};
const struct message_table pair_poll_request_table =
        MESSAGE_TABLE("PairPollRequest", struct pair_poll_request, pair_poll_request_fields);

#define APPROVED (1u << PAIR_STATUS_APPROVED)
static const struct message_field pair_poll_answer_fields[] = {
        FIELD_ENUM(struct pair_poll_answer, status, "status", &pair_status_words),
        FIELD_TEXT1(struct pair_poll_answer, runner_id, "runnerId", .when = APPROVED),
        FIELD_TEXT1(struct pair_poll_answer, owner, "owner", .when = APPROVED),
        FIELD_MAP(struct pair_poll_answer, sites, n_sites, "sites", struct pinned_site, key_id,
                  &pinned_site_item, .when = APPROVED),
        FIELD_TEXT1(struct pair_poll_answer, control_plane_public, "controlPlanePublic", .when = APPROVED,
                    .flags = MESSAGE_OPTIONAL),
};
const struct message_table pair_poll_answer_table = MESSAGE_TABLE("PairPollResponse", struct pair_poll_answer,
                                                                  pair_poll_answer_fields, .has_forms = true);

static const struct message_field pair_fixture_request_fields[] = {
        FIELD_PROTOCOL_VERSION,
        FIELD_TEXT1(struct pair_fixture_request, owner, "owner"),
        FIELD_OBJECT(struct pair_fixture_request, device, "device", &public_identity_table),
};
const struct message_table pair_fixture_request_table =
        MESSAGE_TABLE("PairFixtureRequest", struct pair_fixture_request, pair_fixture_request_fields);

static const struct message_field pair_fixture_answer_fields[] = {
        FIELD_PROTOCOL_VERSION,
        FIELD_TEXT1(struct pair_fixture_answer, runner_id, "runnerId"),
        FIELD_MAP(struct pair_fixture_answer, sites, n_sites, "sites", struct pinned_site, key_id,
                  &pinned_site_item),
        FIELD_TEXT1(struct pair_fixture_answer, control_plane_public, "controlPlanePublic",
                    .flags = MESSAGE_OPTIONAL),
};
const struct message_table pair_fixture_answer_table =
        MESSAGE_TABLE("PairFixtureResponse", struct pair_fixture_answer, pair_fixture_answer_fields);

int pair_request_read(const struct json *body, struct lessor_arena *arena, struct pair_request *ret_request)
{
        const struct json *action = json_member_named(body, "action");
        struct pair_request request = {.form = PAIR_FORM_FIXTURE};
        int e;

        if (body == NULL)
                return LESSOR_E_INVALID;
        if (lessor_slice_equal(json_text(action), LESSOR_SLICE("start"))) {
                request.form = PAIR_FORM_START;
                e = message_read(&pair_start_request_table, body, arena, &request.start, NULL);
        } else if (action != NULL) {
                request.form = PAIR_FORM_POLL;
                e = message_read(&pair_poll_request_table, body, arena, &request.poll, NULL);
        } else {
                e = message_read(&pair_fixture_request_table, body, arena, &request.fixture, NULL);
        }
        if (e == 0)
                *ret_request = request;
        return e;
}

/* claim */

static const struct message_field claim_request_fields[] = {
        FIELD_PROTOCOL_VERSION,
        FIELD_TEXT1(struct claim_request, runner_id, "runnerId"),
        FIELD_LIST(struct claim_request, capabilities, n_capabilities, "capabilities", &capability_table, 0,
                   INT64_MAX),
        FIELD_INT(struct claim_request, max, "max", 1, LIMIT_CLAIM_MAX),
};
const struct message_table claim_request_table =
        MESSAGE_TABLE("ClaimRequest", struct claim_request, claim_request_fields);

static const struct message_field claimed_lease_fields[] = {
        FIELD_TEXT1(struct claimed_lease, id, "id"),
        FIELD_TEXT1(struct claimed_lease, runner_id, "runnerId"),
        FIELD_POSINT(struct claimed_lease, expires_ms, "expiresAt"),
};
static const struct message_table claimed_lease_table =
        MESSAGE_TABLE("Lease", struct claimed_lease, claimed_lease_fields);

static const struct message_field claimed_stub_fields[] = {
        STUB_FIELDS(struct claimed_stub, stub.),
        FIELD_OBJECT(struct claimed_stub, lease, "lease", &claimed_lease_table),
        FIELD_OBJECT(struct claimed_stub, grant, "grant", &grant_table,
                     FIELD_IF(struct claimed_stub, has_grant)),
};
const struct message_table claimed_stub_table =
        MESSAGE_TABLE("ClaimedStub", struct claimed_stub, claimed_stub_fields);

static const struct message_field claim_answer_fields[] = {
        FIELD_LIST(struct claim_answer, jobs, n_jobs, "jobs", &claimed_stub_table, 0, INT64_MAX),
        FIELD_POSINT(struct claim_answer, lease_ms, "leaseMs"),
};
const struct message_table claim_answer_table =
        MESSAGE_TABLE("ClaimResponse", struct claim_answer, claim_answer_fields);

/* fetch and result */

static const struct message_field fetch_request_fields[] = {
        FIELD_PROTOCOL_VERSION,
        FIELD_TEXT1(struct fetch_request, runner_id, "runnerId"),
        FIELD_TEXT1(struct fetch_request, lease.job_id, "jobId"),
        FIELD_TEXT1(struct fetch_request, lease.lease_id, "leaseId"),
};
const struct message_table fetch_request_table =
        MESSAGE_TABLE("FetchRequest", struct fetch_request, fetch_request_fields);

static const struct message_field fetch_answer_fields[] = {
        FIELD_OBJECT(struct fetch_answer, envelope, "envelope", &envelope_member_table),
};
const struct message_table fetch_answer_table =
        MESSAGE_TABLE("FetchResponse", struct fetch_answer, fetch_answer_fields);

static const struct message_field result_request_fields[] = {
        FIELD_PROTOCOL_VERSION,
        FIELD_TEXT1(struct result_request, runner_id, "runnerId"),
        FIELD_TEXT1(struct result_request, lease.job_id, "jobId"),
        FIELD_TEXT1(struct result_request, lease.lease_id, "leaseId"),
        FIELD_OBJECT(struct result_request, envelope, "envelope", &envelope_member_table),
        FIELD_ENUM(struct result_request, disposition, "disposition", &disposition_words),
};
const struct message_table result_request_table =
        MESSAGE_TABLE("ResultRequest", struct result_request, result_request_fields);

static const struct message_field result_answer_fields[] = {
        FIELD_BOOL(struct result_answer, accepted, "accepted"),
        FIELD_BOOL(struct result_answer, duplicate, "duplicate", .flags = MESSAGE_OPTIONAL),
        FIELD_TEXT1(struct result_answer, state, "state"),
};
const struct message_table result_answer_table =
        MESSAGE_TABLE("ResultResponse", struct result_answer, result_answer_fields);

/* heartbeat */

static const struct message_field heartbeat_request_fields[] = {
        FIELD_PROTOCOL_VERSION,
        FIELD_TEXT1(struct heartbeat_request, runner_id, "runnerId"),
        FIELD_TEXT1(struct heartbeat_request, daemon_version, "daemonVersion"),
        FIELD_LIST(struct heartbeat_request, capabilities, n_capabilities, "capabilities", &capability_table,
                   0, INT64_MAX),
        FIELD_LIST(struct heartbeat_request, withheld, n_withheld, "withheld", &withheld_table, 0, INT64_MAX,
                   .flags = MESSAGE_OPTIONAL),
        FIELD_LIST(struct heartbeat_request, active_leases, n_active_leases, "activeLeases", &lease_ref_table,
                   0, INT64_MAX),
};
const struct message_table heartbeat_request_table =
        MESSAGE_TABLE("HeartbeatRequest", struct heartbeat_request, heartbeat_request_fields);

static const struct message_field site_succession_fields[] = {
        FIELD_LIST(struct site_succession, succeeds, n_succeeds, "succeeds", &succession_link_table, 0,
                   LIMIT_SUCCESSION_LINKS),
        FIELD_POSINT(struct site_succession, retiring_until_ms, "retiringUntil", .flags = MESSAGE_OPTIONAL),
};
static const struct message_table site_succession_table =
        MESSAGE_TABLE("SiteSuccession", struct site_succession, site_succession_fields);
static const struct message_field site_succession_item = {
        .name = "", .type = MESSAGE_OBJECT, .table = &site_succession_table};

static const struct message_field heartbeat_answer_fields[] = {
        FIELD_MAP(struct heartbeat_answer, sites, n_sites, "sites", struct pinned_site, key_id,
                  &pinned_site_item),
        FIELD_MAP(struct heartbeat_answer, successions, n_successions, "successions", struct site_succession,
                  key_id, &site_succession_item, .flags = MESSAGE_OPTIONAL),
        FIELD_TEXT1(struct heartbeat_answer, update_to, "updateTo", .flags = MESSAGE_OPTIONAL),
        FIELD_TEXTS(struct heartbeat_answer, awaiting_consent, n_awaiting_consent, "awaitingConsent", 0,
                    INT64_MAX),
        FIELD_LIST(struct heartbeat_answer, cancel, n_cancel, "cancel", &lease_ref_table, 0, INT64_MAX),
        FIELD_LIST(struct heartbeat_answer, lost, n_lost, "lost", &lease_ref_table, 0, INT64_MAX),
        FIELD_POSINT(struct heartbeat_answer, server_time_ms, "serverTime"),
};
const struct message_table heartbeat_answer_table =
        MESSAGE_TABLE("HeartbeatResponse", struct heartbeat_answer, heartbeat_answer_fields);

/* release */

static const struct message_field release_request_fields[] = {
        FIELD_PROTOCOL_VERSION,
        FIELD_TEXT1(struct release_request, runner_id, "runnerId"),
        FIELD_LIST(struct release_request, leases, n_leases, "leases", &lease_ref_table, 0, INT64_MAX),
        FIELD_ENUM(struct release_request, reason, "reason", &release_reason_words),
};
const struct message_table release_request_table =
        MESSAGE_TABLE("ReleaseRequest", struct release_request, release_request_fields);

static const struct message_field release_answer_fields[] = {
        FIELD_TEXTS(struct release_answer, released, n_released, "released", 0, INT64_MAX),
};
const struct message_table release_answer_table =
        MESSAGE_TABLE("ReleaseResponse", struct release_answer, release_answer_fields);
