/* SPDX-License-Identifier: MIT */
#include "base/limits.h"
#include "plane/rack_call.h"

/* The table that dispatch, limits, metrics and the API's description are made from. */
const struct rack_endpoint rack_endpoints[] = {
        {"/api/rack/enroll", "rack-enroll", &rack_enroll_request_type, &rack_enroll_response_type,
         &rack_enroll_reply_type, rack_serve_enroll, LIMIT_RACK_ENROLL, true,
         "Make a machine a rack, with an enrolment token"},
        {"/api/rack/lease", "rack-lease", &rack_lease_request_type, &rack_lease_grant_type,
         &rack_lease_reply_type, rack_serve_lease, LIMIT_RACK_BODY, false, "Wait for a lease"},
        {"/api/rack/lease/watch", "rack-watch", &rack_watch_request_type, &rack_watch_response_type,
         &rack_watch_reply_type, rack_serve_watch, LIMIT_RACK_BODY, false,
         "Wait for a reason to stop one of several leases"},
        {"/api/rack/lease/extend", "rack-extend", &rack_extend_request_type, &beast2_boolean,
         &rack_boolean_reply_type, rack_serve_extend, LIMIT_RACK_BODY, false, "Keep a lease for longer"},
        {"/api/rack/heartbeat", "rack-heartbeat", &rack_heartbeat_request_type, &rack_heartbeat_response_type,
         &rack_heartbeat_reply_type, rack_serve_heartbeat, LIMIT_RACK_BODY, false,
         "Say that the rack is there, and hear what to stop"},
        {"/api/rack/storage", "rack-storage", &rack_storage_request_type, &rack_storage_response_type,
         &rack_storage_reply_type, rack_serve_storage, LIMIT_RACK_BODY, false,
         "Have objects of a lease read, and written"},
        {"/api/rack/logs", "rack-logs", &rack_logs_request_type, &beast2_boolean, &rack_boolean_reply_type,
         rack_serve_logs, LIMIT_RACK_BODY, false, "Keep what a guest wrote to stdout and stderr"},
        {"/api/rack/complete", "rack-complete", &rack_complete_request_type, &rack_complete_response_type,
         &rack_complete_reply_type, rack_serve_complete, LIMIT_RACK_BODY, false,
         "End a lease with its result"},
};
const size_t rack_n_endpoints = sizeof(rack_endpoints) / sizeof(rack_endpoints[0]);
