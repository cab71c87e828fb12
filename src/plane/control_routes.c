/* SPDX-License-Identifier: MIT */
#include "plane/control_routes.h"

#include "base/limits.h"

#define V1 "/api/control/v1"

/* The table that dispatch, limits, metrics and the index are made from. */
const struct control_endpoint control_endpoints[] = {
        {"GET", V1, "index", control_index, .summary = "List the endpoints"},
        {"GET", V1 "/status", "status", control_status, .summary = "How the server is"},
        {"GET", V1 "/metrics", "metrics", control_metrics, .summary = "Figures as Prometheus text"},
        {"GET", V1 "/log-level", "log-level", control_log_level_get, .summary = "The log's level"},
        {"PUT", V1 "/log-level", "log-level-set", control_log_level_put, &control_log_level_body,
         .summary = "Change the log's level until the server ends"},
        {"POST", V1 "/backup", "backup", control_backup, &control_backup_body,
         .summary = "Copy the database to a new file on the server's machine"},

        {"GET", V1 "/sites", "sites", control_site_list, .summary = "List the sites"},
        {"POST", V1 "/sites/add", "site-add", control_site_add, &control_site_body, EDIT_EITHER,
         .summary = "Register a site"},
        {"POST", V1 "/sites/remove", "site-remove", control_site_remove, &control_site_name_body, EDIT_EITHER,
         .summary = "Forget a site with its consents"},
        {"POST", V1 "/sites/rotate", "site-rotate", control_site_rotate, &control_site_rotate_body,
         EDIT_PROJECTION, .summary = "Give a site its next key"},
        {"POST", V1 "/sites/declare", "site-declare", control_site_declare, &control_site_declare_body,
         EDIT_POLICY, .summary = "Say which purposes a site has"},
        {"POST", V1 "/sites/undeclare", "site-undeclare", control_site_undeclare, &control_site_name_body,
         EDIT_POLICY, .summary = "Take back what a site declares"},

        {"GET", V1 "/consents", "consents", control_consent_list,
         .summary = "List consents with their mappings; ?owner="},
        {"POST", V1 "/consents/add", "consent-add", control_consent_add, &control_consent_body, EDIT_EITHER,
         .summary = "Let a site's work for an owner be routed"},
        {"POST", V1 "/consents/remove", "consent-remove", control_consent_remove, &control_consent_name_body,
         EDIT_EITHER, .summary = "Forget a consent"},
        {"POST", V1 "/consents/pause", "consent-pause", control_consent_pause, &control_consent_name_body,
         EDIT_EITHER, .summary = "Hold a consent's work back"},
        {"POST", V1 "/consents/resume", "consent-resume", control_consent_resume, &control_consent_name_body,
         EDIT_EITHER, .summary = "Let a paused consent's work go on"},
        {"POST", V1 "/consents/revoke", "consent-revoke", control_consent_revoke, &control_consent_name_body,
         EDIT_PROJECTION, .summary = "Revoke the route from a site to an owner"},
        {"POST", V1 "/mappings/add", "mapping-add", control_mapping_add, &control_mapping_body, EDIT_POLICY,
         .summary = "Choose the service that answers a purpose"},
        {"POST", V1 "/mappings/remove", "mapping-remove", control_mapping_remove, &control_mapping_body,
         EDIT_POLICY, .summary = "Take such a choice back"},

        {"GET", V1 "/devices", "devices", control_device_list, .summary = "List the devices; ?owner="},
        {"POST", V1 "/devices/approve", "device-approve", control_device_approve, &control_approve_body,
         EDIT_PROJECTION, .summary = "Approve the device that shows a code"},
        {"POST", V1 "/devices/revoke", "device-revoke", control_device_revoke, &control_device_body,
         EDIT_PROJECTION, .summary = "Refuse a device for good"},
        {"POST", V1 "/devices/remove", "device-remove", control_device_remove, &control_device_body,
         EDIT_PROJECTION, .summary = "Take a device off the list, and refuse it for good"},
        {"GET", V1 "/pairings", "pairings", control_pairing_list,
         .summary = "List the pairings in progress, or the one of ?userCode="},

        {"GET", V1 "/rosters", "rosters", control_roster_list, .summary = "List the rosters"},
        {"POST", V1 "/rosters/add", "roster-add", control_roster_add, &control_roster_body, EDIT_EITHER,
         .summary = "Make a roster: whose work an owner's devices may do too"},
        {"POST", V1 "/rosters/remove", "roster-remove", control_roster_remove, &control_roster_name_body,
         EDIT_EITHER, .summary = "Forget a roster"},
        {"POST", V1 "/members/add", "member-add", control_member_add, &control_member_body, EDIT_EITHER,
         .summary = "Add a member to a roster"},
        {"POST", V1 "/members/remove", "member-remove", control_member_remove, &control_member_body,
         EDIT_EITHER, .summary = "Take a member off a roster"},

        {"GET", V1 "/jobs", "jobs", control_job_list,
         .summary = "List jobs, the oldest first; ?site= ?state= ?owner= ?limit="},
        {"GET", V1 "/jobs/show", "job", control_job_show, .summary = "One job: ?site= &job="},
        {"POST", V1 "/jobs/cancel", "job-cancel", control_job_cancel, &control_job_body,
         .summary = "Withdraw a job"},

        {"GET", V1 "/projection", "projection", control_projection_get,
         .summary = "The projection in use, as a RelayFixture"},
        {"PUT", V1 "/projection", "projection-set", control_projection_put, .body_limit = LIMIT_FILE_BYTES,
         .summary = "Replace the projection's file"},
};
const size_t control_n_endpoints = sizeof(control_endpoints) / sizeof(control_endpoints[0]);
