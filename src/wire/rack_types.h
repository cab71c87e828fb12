/* SPDX-License-Identifier: MIT */
#ifndef WIRE_RACK_TYPES_H
#define WIRE_RACK_TYPES_H

#include "wire/rack_error.h"

/*
 * The messages of the rack plane (rack-protocol 5), one table a message for both of its wires. How kinds lie
 * in memory is in beast2_type.h; in short: a list is a pointer and a count, an optional text is absent,
 * anything else that is optional is NULL, a union begins with its case. What only the JSON form has is marked
 * [JSON].
 *
 * Tables say shapes, not rules: what a hash or a size must look like, and how many there may be, is the
 * plane's to ask.
 */

/* --- Enrolling --- */

struct rack_host_info {
        struct lessor_slice label;
        struct lessor_slice *tiers;
        size_t n_tiers;
        int64_t capacity;
        struct lessor_slice agent_version;
};

struct rack_enroll_request {
        struct lessor_slice enrollment_token;
        struct rack_host_info host_info;
};

struct rack_enroll_response {
        struct lessor_slice rack_id;
        struct lessor_slice rack_token;
};

/* --- Leases --- */

struct rack_lease_ref {
        struct lessor_slice repo;
        struct lessor_slice lease_id;
};

struct rack_lease_request {
        struct lessor_slice *tiers;
        size_t n_tiers;
        struct lessor_slice boot_id;
};

struct rack_lease_grant {
        struct lessor_slice repo;
        struct lessor_slice workspace;
        struct lessor_slice lease_id;
        struct lessor_slice tier;
        struct lessor_slice compute_size;
        struct lessor_slice event_json;
        int64_t visibility_deadline_ms;
        struct lessor_slice attempt; /* [JSON] absent for a function */
        int64_t server_time_ms;      /* [JSON] */
};

struct rack_extend_request {
        struct lessor_slice repo;
        struct lessor_slice lease_id;
        struct lessor_slice attempt; /* [JSON] absent: not said */
};

struct rack_watch_request {
        struct rack_lease_ref *leases;
        size_t n_leases;
        struct lessor_slice boot_id; /* absent: not said */
};

struct rack_watch_response {
        struct rack_lease_ref *stop;
        size_t n_stop;
};

/* --- Heartbeat --- */

struct rack_heartbeat_request {
        bool healthy;
        int64_t free_capacity;
        struct rack_lease_ref *running_leases;
        size_t n_running_leases;
        struct lessor_slice agent_version;
        struct lessor_slice boot_id;
        int64_t cache_bytes;
};

struct rack_heartbeat_response {
        struct rack_lease_ref *stop;
        size_t n_stop;
        struct lessor_slice rotated_token; /* absent: none */
        bool pending_approval;
};

/* --- Storage --- */

struct rack_object_size {
        struct lessor_slice hash;
        int64_t size; /* bytes */
};

struct rack_object_commit {
        struct lessor_slice hash;
        int64_t size; /* bytes */
        struct lessor_slice version;
};

struct rack_storage_request {
        struct lessor_slice repo;
        struct lessor_slice lease_id;
        struct lessor_slice *need;
        size_t n_need;
        struct rack_object_size *output;  /* NULL: none */
        struct lessor_slice env_manifest; /* absent: none */
        struct rack_object_size *outputs;
        size_t n_outputs;
        struct rack_object_commit *commits;
        size_t n_commits;
        struct lessor_slice attempt; /* [JSON] absent: not said */
};

struct rack_inline_object {
        struct lessor_slice hash;
        struct lessor_slice data;
};

struct rack_object_url {
        struct lessor_slice hash;
        struct lessor_slice url;
};

enum rack_descriptor_case { RACK_DESCRIPTOR_INLINE, RACK_DESCRIPTOR_URL };

struct rack_object_descriptor {
        enum rack_descriptor_case kind;
        union {
                struct rack_inline_object inlined;
                struct rack_object_url url;
        };
};

struct rack_output_upload {
        struct lessor_slice url;
        struct lessor_slice upload_id;
};

struct rack_env_layer {
        struct lessor_slice digest;
        struct lessor_slice url;
        int64_t size_bytes;
};

struct rack_env {
        struct lessor_slice manifest_json;
        struct rack_env_layer *layers;
        size_t n_layers;
};

/* An entry of a Dict: the key first. */
struct rack_header {
        struct lessor_slice name;
        struct lessor_slice value;
};

struct rack_put {
        struct lessor_slice url;
        struct rack_header *headers;
        size_t n_headers;
};

enum rack_target_case { RACK_TARGET_HELD, RACK_TARGET_PUT };

struct rack_write_target {
        enum rack_target_case kind;
        struct rack_put put; /* of RACK_TARGET_PUT */
};

struct rack_object_target {
        struct lessor_slice hash;
        struct rack_write_target target;
};

struct rack_object_committed {
        struct lessor_slice hash;
        bool committed;
};

struct rack_storage_response {
        struct rack_object_descriptor *objects;
        size_t n_objects;
        struct rack_output_upload *output; /* NULL: none */
        struct rack_env *env;              /* NULL: none */
        struct rack_object_target *targets;
        size_t n_targets;
        struct rack_object_committed *committed;
        size_t n_committed;
};

/* --- Logs and completion --- */

enum rack_stream { RACK_STREAM_STDERR, RACK_STREAM_STDOUT };

struct rack_log_chunk {
        enum rack_stream stream;
        struct lessor_slice data;
};

struct rack_logs_request {
        struct lessor_slice repo;
        struct lessor_slice lease_id;
        struct rack_log_chunk *chunks;
        size_t n_chunks;
        struct lessor_slice attempt; /* [JSON] absent: not said */
};

struct rack_complete_request {
        struct lessor_slice repo;
        struct lessor_slice lease_id;
        struct lessor_slice result_json;
        struct lessor_slice output_upload_id; /* absent: none */
        struct lessor_slice inline_output;    /* absent: none */
        struct lessor_slice attempt;          /* [JSON] absent: not said */
};

enum rack_disposition { RACK_DISPOSITION_DISCARDED, RACK_DISPOSITION_IDEMPOTENT, RACK_DISPOSITION_RECORDED };

struct rack_complete_response {
        enum rack_disposition disposition;
};

/* --- Records and objects that no endpoint sends --- */

struct rack_closure_list {
        struct lessor_slice *hashes;
        size_t n_hashes;
};

struct rack_security_policy {
        bool require_start_approval;
};

struct rack_registration {
        struct lessor_slice rack_id;
        struct lessor_slice label;
        int64_t enrolled_at_ms;
        struct lessor_slice *tiers;
        size_t n_tiers;
        int64_t capacity;
        int64_t last_seen_at_ms;
        struct lessor_slice agent_version;
        bool healthy;
        struct lessor_slice last_boot_id;     /* absent: none */
        struct lessor_slice approved_boot_id; /* absent: none */
};

struct rack_activity_entry {
        struct lessor_slice repo;
        struct lessor_slice workspace;
        struct lessor_slice task_name;
        struct lessor_slice tier;
        struct lessor_slice status;
        struct lessor_slice outcome; /* absent: none */
        struct lessor_slice error;   /* absent: none */
        int64_t claimed_at_ms;
        int64_t *completed_at_ms; /* NULL: not yet */
};

extern const struct beast2_type rack_host_info_type, rack_enroll_request_type, rack_enroll_response_type,
        rack_lease_ref_type, rack_lease_request_type, rack_lease_grant_type, rack_extend_request_type,
        rack_watch_request_type, rack_watch_response_type, rack_heartbeat_request_type,
        rack_heartbeat_response_type, rack_object_size_type, rack_object_commit_type,
        rack_storage_request_type, rack_object_descriptor_type, rack_env_layer_type, rack_write_target_type,
        rack_storage_response_type, rack_log_chunk_type, rack_logs_request_type, rack_complete_request_type,
        rack_complete_response_type, rack_closure_list_type, rack_security_policy_type,
        rack_registration_type, rack_activity_entry_type;

/*
 * Every answer with status 200 in BEAST2 is an envelope: ResponseType(T). Whoever answers writes it with
 * beast2_write_case, from the success or the error that is at hand; whoever asks reads it into these.
 */
enum rack_outcome { RACK_OUTCOME_ERROR, RACK_OUTCOME_SUCCESS };

struct rack_enroll_reply {
        enum rack_outcome outcome;
        union {
                struct rack_error error;
                struct rack_enroll_response success;
        };
};

struct rack_lease_reply {
        enum rack_outcome outcome;
        union {
                struct rack_error error;
                struct rack_lease_grant success;
        };
};

struct rack_watch_reply {
        enum rack_outcome outcome;
        union {
                struct rack_error error;
                struct rack_watch_response success;
        };
};

/* Of extend and logs. */
struct rack_boolean_reply {
        enum rack_outcome outcome;
        union {
                struct rack_error error;
                bool success;
        };
};

struct rack_heartbeat_reply {
        enum rack_outcome outcome;
        union {
                struct rack_error error;
                struct rack_heartbeat_response success;
        };
};

struct rack_storage_reply {
        enum rack_outcome outcome;
        union {
                struct rack_error error;
                struct rack_storage_response success;
        };
};

struct rack_complete_reply {
        enum rack_outcome outcome;
        union {
                struct rack_error error;
                struct rack_complete_response success;
        };
};

extern const struct beast2_type rack_enroll_reply_type, rack_lease_reply_type, rack_watch_reply_type,
        rack_boolean_reply_type, rack_heartbeat_reply_type, rack_storage_reply_type, rack_complete_reply_type;

/* Every type that has a name, envelopes included ("ResponseType(RackLeaseGrantType)"); ended by NULL. */
extern const struct beast2_type *const rack_types[];

/* The type of that name, or NULL. */
const struct beast2_type *rack_type_named(struct lessor_slice name);

#endif
