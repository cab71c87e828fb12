/* SPDX-License-Identifier: MIT */
#ifndef WIRE_RELAY_DOCUMENTS_H
#define WIRE_RELAY_DOCUMENTS_H

#include "wire/relay_shapes.h"

/*
 * The documents that tell a relay who may route to whom: the projection (RelayFixture, relay-protocol 9) and
 * the policy of the control plane (relay-protocol 11).
 */

struct fixture_site {
        struct lessor_slice site_id;
        struct lessor_public_identity site;
        struct lessor_succession_link
                *succeeds; /* oldest first, at most LIMIT_SUCCESSION_LINKS; NULL: absent */
        size_t n_succeeds;
        int64_t retiring_until_ms; /* 0: not set */
};

struct fixture_consent {
        struct lessor_slice owner;
        struct lessor_slice site_id;
        bool paused;
};

struct fixture_device {
        struct lessor_slice owner;
        struct lessor_slice runner_id;
        struct lessor_public_identity device;
        bool revoked;
};

struct fixture_roster {
        struct lessor_slice id;
        struct lessor_slice owner;
        struct lessor_slice *members;
        size_t n_members;
};

/* A revoked route: this owner and this site. */
struct fixture_revocation {
        struct lessor_slice owner;
        struct lessor_slice site_id;
};

struct relay_fixture {
        struct fixture_site *sites;
        size_t n_sites;
        struct fixture_consent *consents;
        size_t n_consents;
        struct fixture_device *devices;
        size_t n_devices;
        struct fixture_roster *rosters;
        size_t n_rosters;
        struct fixture_revocation *revoked;
        size_t n_revoked;
};

/* What answers a purpose of a site: a service of the user's own devices, or of another owner's. */
struct policy_mapping {
        struct lessor_slice purpose;
        enum lessor_kind kind;
        struct lessor_slice service;
        struct lessor_slice owner; /* absent: the user */
};

struct policy_consent {
        struct lessor_slice site_id;
        struct lessor_slice user;
        struct policy_mapping *mappings;
        size_t n_mappings;
        bool paused;
};

/* `user` is a member of the team of `owner`. */
struct policy_member {
        struct lessor_slice owner;
        struct lessor_slice user;
};

struct policy_declaration {
        struct lessor_slice site_id;
        struct lessor_slice *purposes;
        size_t n_purposes;
};

struct policy_advertisement {
        struct lessor_slice owner;
        struct lessor_slice service;
};

struct relay_policy {
        struct policy_consent *consents;
        size_t n_consents;
        struct policy_member *members;
        size_t n_members;
        struct policy_declaration
                *declares; /* NULL: absent, the policy cannot say; a site not named: likewise */
        size_t n_declares;
        struct policy_advertisement *advertising; /* NULL: absent, the policy cannot say */
        size_t n_advertising;
        bool unavailable; /* every question fails: for tests */
};

extern const struct message_table relay_fixture_table;
extern const struct message_table fixture_site_table;
extern const struct message_table fixture_consent_table;
extern const struct message_table fixture_device_table;
extern const struct message_table fixture_roster_table;
extern const struct message_table fixture_revocation_table;
extern const struct message_table relay_policy_table;

#endif
