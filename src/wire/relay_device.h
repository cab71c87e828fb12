/* SPDX-License-Identifier: MIT */
#ifndef WIRE_RELAY_DEVICE_H
#define WIRE_RELAY_DEVICE_H

#include "wire/relay_shapes.h"

/* The messages of the device plane (relay-protocol 6), requests and answers. */

enum pair_platform { PAIR_PLATFORM_DARWIN, PAIR_PLATFORM_LINUX, PAIR_PLATFORM_WIN32 };

/* The program that wants to pair, in its own words. */
struct pair_daemon {
        struct lessor_slice version;
        struct lessor_slice label; /* 1..LIMIT_PAIRING_LABEL code points */
        enum pair_platform platform;
};

struct pair_start_request {
        struct pair_daemon daemon;
        struct lessor_public_identity device;
        struct lessor_device_capability *capabilities;
        size_t n_capabilities;
};

struct pair_poll_request {
        struct lessor_slice device_code;
};

/* The form without codes, for devices that the projection names already. */
struct pair_fixture_request {
        struct lessor_slice owner;
        struct lessor_public_identity device;
};

enum pair_form { PAIR_FORM_START, PAIR_FORM_POLL, PAIR_FORM_FIXTURE };

struct pair_request {
        enum pair_form form;
        union {
                struct pair_start_request start;
                struct pair_poll_request poll;
                struct pair_fixture_request fixture;
        };
};

/*
 * Reads a pair request in whichever of the three forms fits. As message_read(); body may be NULL (absent),
 * which fits none.
 */
int pair_request_read(const struct json *body, struct lessor_arena *arena, struct pair_request *ret_request);

struct pair_start_answer {
        struct lessor_slice device_code;
        struct lessor_slice user_code;
        struct lessor_slice verification_url;
        int64_t expires_ms;
        int64_t poll_interval_ms;
};

enum pair_status { PAIR_STATUS_PENDING, PAIR_STATUS_DENIED, PAIR_STATUS_EXPIRED, PAIR_STATUS_APPROVED };

/* All but `status` only when approved. */
struct pair_poll_answer {
        enum pair_status status;
        struct lessor_slice runner_id;
        struct lessor_slice owner;
        struct pinned_site *sites;
        size_t n_sites;
        struct lessor_slice control_plane_public; /* absent: the relay has no control plane */
};

struct pair_fixture_answer {
        struct lessor_slice runner_id;
        struct pinned_site *sites;
        size_t n_sites;
        struct lessor_slice control_plane_public; /* absent: the relay has no control plane */
};

struct claim_request {
        struct lessor_slice runner_id;
        struct lessor_device_capability *capabilities;
        size_t n_capabilities;
        int64_t max; /* 1..64 */
};

struct claimed_lease {
        struct lessor_slice id;
        struct lessor_slice runner_id;
        int64_t expires_ms;
};

struct claimed_stub {
        struct lessor_stub stub;
        struct claimed_lease lease;
        bool has_grant;
        struct lessor_grant grant;
};

struct claim_answer {
        struct claimed_stub *jobs;
        size_t n_jobs;
        int64_t lease_ms;
};

struct fetch_request {
        struct lessor_slice runner_id;
        struct lessor_lease_ref lease;
};

struct fetch_answer {
        struct envelope_member envelope;
};

struct result_request {
        struct lessor_slice runner_id;
        struct lessor_lease_ref lease;
        struct envelope_member envelope;
        enum lessor_disposition disposition;
};

struct result_answer {
        bool accepted;
        bool duplicate;
        struct lessor_slice state; /* "done" */
};

struct heartbeat_request {
        struct lessor_slice runner_id;
        struct lessor_slice daemon_version;
        struct lessor_device_capability *capabilities;
        size_t n_capabilities;
        struct withheld *withheld; /* NULL when absent, which means none */
        size_t n_withheld;
        struct lessor_lease_ref *active_leases;
        size_t n_active_leases;
};

/* One entry of `successions`: the predecessors of a site, under its current key id. */
struct site_succession {
        struct lessor_slice key_id;
        struct lessor_succession_link *succeeds; /* oldest first */
        size_t n_succeeds;
        int64_t retiring_until_ms; /* 0: not set */
};

struct heartbeat_answer {
        struct pinned_site *sites;
        size_t n_sites;
        struct site_succession *successions; /* NULL: left out */
        size_t n_successions;
        struct lessor_slice update_to; /* absent: no offer */
        struct lessor_slice *awaiting_consent;
        size_t n_awaiting_consent;
        struct lessor_lease_ref *cancel;
        size_t n_cancel;
        struct lessor_lease_ref *lost;
        size_t n_lost;
        int64_t server_time_ms;
};

struct release_request {
        struct lessor_slice runner_id;
        struct lessor_lease_ref *leases;
        size_t n_leases;
        enum lessor_release_reason reason;
};

struct release_answer {
        struct lessor_slice *released; /* job ids */
        size_t n_released;
};

extern const struct message_table pair_start_request_table;
extern const struct message_table pair_start_answer_table;
extern const struct message_table pair_poll_request_table;
extern const struct message_table pair_poll_answer_table;
extern const struct message_table pair_fixture_request_table;
extern const struct message_table pair_fixture_answer_table;
extern const struct message_table claim_request_table;
extern const struct message_table claim_answer_table;
extern const struct message_table claimed_stub_table;
extern const struct message_table fetch_request_table;
extern const struct message_table fetch_answer_table;
extern const struct message_table result_request_table;
extern const struct message_table result_answer_table;
extern const struct message_table heartbeat_request_table;
extern const struct message_table heartbeat_answer_table;
extern const struct message_table release_request_table;
extern const struct message_table release_answer_table;

#endif
