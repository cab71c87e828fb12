/* SPDX-License-Identifier: MIT */
#include "wire/relay_documents.h"

#include "base/limits.h"
#include "base/macro.h"

/* RelayFixture: `consents` is the only member that must be there. */

static const struct message_field fixture_site_fields[] = {
        FIELD_TEXT1(struct fixture_site, site_id, "siteId"),
        FIELD_OBJECT(struct fixture_site, site, "site", &public_identity_table),
        FIELD_LIST(struct fixture_site, succeeds, n_succeeds, "succeeds", &succession_link_table, 0,
                   LIMIT_SUCCESSION_LINKS, .flags = MESSAGE_OPTIONAL),
        FIELD_POSINT(struct fixture_site, retiring_until_ms, "retiringUntil", .flags = MESSAGE_OPTIONAL),
};
const struct message_table fixture_site_table =
        MESSAGE_TABLE("SiteRecord", struct fixture_site, fixture_site_fields);

static const struct message_field fixture_consent_fields[] = {
        FIELD_TEXT1(struct fixture_consent, owner, "owner"),
        FIELD_TEXT1(struct fixture_consent, site_id, "siteId"),
        FIELD_BOOL(struct fixture_consent, paused, "paused", .flags = MESSAGE_OPTIONAL),
};
const struct message_table fixture_consent_table =
        MESSAGE_TABLE("ConsentRecord", struct fixture_consent, fixture_consent_fields);

static const struct message_field fixture_device_fields[] = {
        FIELD_TEXT1(struct fixture_device, owner, "owner"),
        FIELD_TEXT1(struct fixture_device, runner_id, "runnerId"),
        FIELD_OBJECT(struct fixture_device, device, "device", &public_identity_table),
        FIELD_BOOL(struct fixture_device, revoked, "revoked", .flags = MESSAGE_OPTIONAL),
};
const struct message_table fixture_device_table =
        MESSAGE_TABLE("DeviceRecord", struct fixture_device, fixture_device_fields);

static const struct message_field fixture_roster_fields[] = {
        FIELD_TEXT1(struct fixture_roster, id, "id"),
        FIELD_TEXT1(struct fixture_roster, owner, "owner"),
        FIELD_TEXTS(struct fixture_roster, members, n_members, "members", 0, INT64_MAX),
};
const struct message_table fixture_roster_table =
        MESSAGE_TABLE("RosterRecord", struct fixture_roster, fixture_roster_fields);

static const struct message_field fixture_revocation_fields[] = {
        FIELD_TEXT1(struct fixture_revocation, owner, "owner"),
        FIELD_TEXT1(struct fixture_revocation, site_id, "siteId"),
};
const struct message_table fixture_revocation_table =
        MESSAGE_TABLE("RevocationRecord", struct fixture_revocation, fixture_revocation_fields);

static const struct message_field relay_fixture_fields[] = {
        FIELD_LIST(struct relay_fixture, sites, n_sites, "sites", &fixture_site_table, 0, INT64_MAX,
                   .flags = MESSAGE_OPTIONAL),
        FIELD_LIST(struct relay_fixture, consents, n_consents, "consents", &fixture_consent_table, 0,
                   INT64_MAX),
        FIELD_LIST(struct relay_fixture, devices, n_devices, "devices", &fixture_device_table, 0, INT64_MAX,
                   .flags = MESSAGE_OPTIONAL),
        FIELD_LIST(struct relay_fixture, rosters, n_rosters, "rosters", &fixture_roster_table, 0, INT64_MAX,
                   .flags = MESSAGE_OPTIONAL),
        FIELD_LIST(struct relay_fixture, revoked, n_revoked, "revoked", &fixture_revocation_table, 0,
                   INT64_MAX, .flags = MESSAGE_OPTIONAL),
};
const struct message_table relay_fixture_table =
        MESSAGE_TABLE("RelayFixture", struct relay_fixture, relay_fixture_fields);

/* The policy: everything is optional, an empty one satisfies nobody. */

static const struct message_field policy_mapping_fields[] = {
        FIELD_TEXT1(struct policy_mapping, purpose, "purpose"),
        FIELD_ENUM(struct policy_mapping, kind, "kind", &kind_words),
        FIELD_TEXT1(struct policy_mapping, service, "service"),
        FIELD_TEXT1(struct policy_mapping, owner, "owner", .flags = MESSAGE_OPTIONAL | MESSAGE_NULLABLE),
};
static const struct message_table policy_mapping_table =
        MESSAGE_TABLE("PolicyMapping", struct policy_mapping, policy_mapping_fields);

static const struct message_field policy_consent_fields[] = {
        FIELD_TEXT1(struct policy_consent, site_id, "siteId"),
        FIELD_TEXT1(struct policy_consent, user, "user"),
        FIELD_LIST(struct policy_consent, mappings, n_mappings, "mappings", &policy_mapping_table, 0,
                   INT64_MAX, .flags = MESSAGE_OPTIONAL),
        FIELD_BOOL(struct policy_consent, paused, "paused", .flags = MESSAGE_OPTIONAL),
};
static const struct message_table policy_consent_table =
        MESSAGE_TABLE("PolicyConsent", struct policy_consent, policy_consent_fields);

static const struct message_field policy_member_fields[] = {
        FIELD_TEXT1(struct policy_member, owner, "owner"),
        FIELD_TEXT1(struct policy_member, user, "user"),
};
static const struct message_table policy_member_table =
        MESSAGE_TABLE("PolicyMember", struct policy_member, policy_member_fields);

static const struct message_field policy_declaration_item =
        FIELD_TEXTS(struct policy_declaration, purposes, n_purposes, "purposes", 0, INT64_MAX);

static const struct message_field policy_advertisement_fields[] = {
        FIELD_TEXT1(struct policy_advertisement, owner, "owner"),
        FIELD_TEXT1(struct policy_advertisement, service, "service"),
};
static const struct message_table policy_advertisement_table =
        MESSAGE_TABLE("PolicyAdvertisement", struct policy_advertisement, policy_advertisement_fields);

static const struct message_field relay_policy_fields[] = {
        FIELD_LIST(struct relay_policy, consents, n_consents, "consents", &policy_consent_table, 0, INT64_MAX,
                   .flags = MESSAGE_OPTIONAL),
        FIELD_LIST(struct relay_policy, members, n_members, "members", &policy_member_table, 0, INT64_MAX,
                   .flags = MESSAGE_OPTIONAL),
        FIELD_MAP(struct relay_policy, declares, n_declares, "declares", struct policy_declaration, site_id,
                  &policy_declaration_item, .flags = MESSAGE_OPTIONAL),
        FIELD_LIST(struct relay_policy, advertising, n_advertising, "advertising",
                   &policy_advertisement_table, 0, INT64_MAX, .flags = MESSAGE_OPTIONAL),
        FIELD_BOOL(struct relay_policy, unavailable, "unavailable", .flags = MESSAGE_OPTIONAL),
};
const struct message_table relay_policy_table =
        MESSAGE_TABLE("Policy", struct relay_policy, relay_policy_fields);
