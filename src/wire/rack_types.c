/* SPDX-License-Identifier: MIT */
#include "wire/rack_types.h"

#include "wire/rack_members.h"

/* A list type is made once for each type of item: an alias must find that two lists have the same. */

/* --- Enrolling --- */

static const struct beast2_member host_info_members[] = {
        RACK_TEXT(struct rack_host_info, label, "label"),
        RACK_TEXTS(struct rack_host_info, tiers, n_tiers, "tiers"),
        RACK_INT(struct rack_host_info, capacity, "capacity"),
        RACK_TEXT(struct rack_host_info, agent_version, "agentVersion"),
};
RACK_STRUCT(rack_host_info_type, "RackHostInfoType", struct rack_host_info, host_info_members);

static const struct beast2_member enroll_request_members[] = {
        RACK_TEXT(struct rack_enroll_request, enrollment_token, "enrollmentToken"),
        RACK_MEMBER(struct rack_enroll_request, host_info, "hostInfo", rack_host_info_type,
                    struct rack_host_info),
};
RACK_STRUCT(rack_enroll_request_type, "RackEnrollRequestType", struct rack_enroll_request,
            enroll_request_members);

static const struct beast2_member enroll_response_members[] = {
        RACK_TEXT(struct rack_enroll_response, rack_id, "rackId"),
        RACK_TEXT(struct rack_enroll_response, rack_token, "rackToken"),
};
RACK_STRUCT(rack_enroll_response_type, "RackEnrollResponseType", struct rack_enroll_response,
            enroll_response_members);

/* --- Leases --- */

static const struct beast2_member lease_ref_members[] = {
        RACK_TEXT(struct rack_lease_ref, repo, "repo"),
        RACK_TEXT(struct rack_lease_ref, lease_id, "leaseId"),
};
RACK_STRUCT(rack_lease_ref_type, "RackLeaseRefType", struct rack_lease_ref, lease_ref_members);

RACK_LIST_OF(lease_ref_list, rack_lease_ref_type);

static const struct beast2_member lease_request_members[] = {
        RACK_TEXTS(struct rack_lease_request, tiers, n_tiers, "tiers"),
        RACK_TEXT(struct rack_lease_request, boot_id, "bootId"),
};
RACK_STRUCT(rack_lease_request_type, "RackLeaseRequestType", struct rack_lease_request,
            lease_request_members);

static const struct beast2_member lease_grant_members[] = {
        RACK_TEXT(struct rack_lease_grant, repo, "repo"),
        RACK_TEXT(struct rack_lease_grant, workspace, "workspace"),
        RACK_TEXT(struct rack_lease_grant, lease_id, "leaseId"),
        RACK_TEXT(struct rack_lease_grant, tier, "tier"),
        RACK_TEXT(struct rack_lease_grant, compute_size, "computeSize"),
        RACK_TEXT(struct rack_lease_grant, event_json, "eventJson"),
        RACK_TIME(struct rack_lease_grant, visibility_deadline_ms, "visibilityDeadline"),
        RACK_MAYBE_TEXT(struct rack_lease_grant, attempt, "attempt", BEAST2_JSON_ONLY),
        RACK_TIME(struct rack_lease_grant, server_time_ms, "serverTimeMs", BEAST2_JSON_ONLY),
};
RACK_STRUCT(rack_lease_grant_type, "RackLeaseGrantType", struct rack_lease_grant, lease_grant_members);

static const struct beast2_member extend_request_members[] = {
        RACK_TEXT(struct rack_extend_request, repo, "repo"),
        RACK_TEXT(struct rack_extend_request, lease_id, "leaseId"),
        RACK_MAYBE_TEXT(struct rack_extend_request, attempt, "attempt", BEAST2_JSON_ONLY),
};
RACK_STRUCT(rack_extend_request_type, "RackExtendRequestType", struct rack_extend_request,
            extend_request_members);

static const struct beast2_member watch_request_members[] = {
        RACK_LIST(struct rack_watch_request, leases, n_leases, "leases", lease_ref_list,
                  struct rack_lease_ref),
        RACK_MAYBE_TEXT(struct rack_watch_request, boot_id, "bootId"),
};
RACK_STRUCT(rack_watch_request_type, "RackWatchRequestType", struct rack_watch_request,
            watch_request_members);

static const struct beast2_member watch_response_members[] = {
        RACK_LIST(struct rack_watch_response, stop, n_stop, "stop", lease_ref_list, struct rack_lease_ref),
};
RACK_STRUCT(rack_watch_response_type, "RackWatchResponseType", struct rack_watch_response,
            watch_response_members);

/* --- Heartbeat --- */

static const struct beast2_member heartbeat_request_members[] = {
        RACK_BOOL(struct rack_heartbeat_request, healthy, "healthy"),
        RACK_INT(struct rack_heartbeat_request, free_capacity, "freeCapacity"),
        RACK_LIST(struct rack_heartbeat_request, running_leases, n_running_leases, "runningLeases",
                  lease_ref_list, struct rack_lease_ref),
        RACK_TEXT(struct rack_heartbeat_request, agent_version, "agentVersion"),
        RACK_TEXT(struct rack_heartbeat_request, boot_id, "bootId"),
        RACK_INT(struct rack_heartbeat_request, cache_bytes, "cacheBytes"),
};
RACK_STRUCT(rack_heartbeat_request_type, "RackHeartbeatRequestType", struct rack_heartbeat_request,
            heartbeat_request_members);

static const struct beast2_member heartbeat_response_members[] = {
        RACK_LIST(struct rack_heartbeat_response, stop, n_stop, "stop", lease_ref_list,
                  struct rack_lease_ref),
        RACK_MAYBE_TEXT(struct rack_heartbeat_response, rotated_token, "rotatedToken"),
        RACK_BOOL(struct rack_heartbeat_response, pending_approval, "pendingApproval"),
};
RACK_STRUCT(rack_heartbeat_response_type, "RackHeartbeatResponseType", struct rack_heartbeat_response,
            heartbeat_response_members);

/* --- Storage --- */

static const struct beast2_member object_size_members[] = {
        RACK_TEXT(struct rack_object_size, hash, "hash"),
        RACK_INT(struct rack_object_size, size, "size"),
};
RACK_STRUCT(rack_object_size_type, "RackObjectSizeType", struct rack_object_size, object_size_members);

RACK_LIST_OF(object_size_list, rack_object_size_type);

RACK_OPTION_OF(optional_object_size, rack_object_size_type);

static const struct beast2_member object_commit_members[] = {
        RACK_TEXT(struct rack_object_commit, hash, "hash"),
        RACK_INT(struct rack_object_commit, size, "size"),
        RACK_TEXT(struct rack_object_commit, version, "version"),
};
RACK_STRUCT(rack_object_commit_type, "RackObjectCommitType", struct rack_object_commit,
            object_commit_members);

RACK_LIST_OF(object_commit_list, rack_object_commit_type);

static const struct beast2_member storage_request_members[] = {
        RACK_TEXT(struct rack_storage_request, repo, "repo"),
        RACK_TEXT(struct rack_storage_request, lease_id, "leaseId"),
        RACK_TEXTS(struct rack_storage_request, need, n_need, "need"),
        RACK_MAYBE(struct rack_storage_request, output, "output", optional_object_size,
                   struct rack_object_size),
        RACK_MAYBE_TEXT(struct rack_storage_request, env_manifest, "envManifest"),
        RACK_LIST(struct rack_storage_request, outputs, n_outputs, "outputs", object_size_list,
                  struct rack_object_size),
        RACK_LIST(struct rack_storage_request, commits, n_commits, "commits", object_commit_list,
                  struct rack_object_commit),
        RACK_MAYBE_TEXT(struct rack_storage_request, attempt, "attempt", BEAST2_JSON_ONLY),
};
RACK_STRUCT(rack_storage_request_type, "RackStorageRequestType", struct rack_storage_request,
            storage_request_members);

static const struct beast2_member inline_object_members[] = {
        RACK_TEXT(struct rack_inline_object, hash, "hash"),
        RACK_BLOB(struct rack_inline_object, data, "data"),
};
static const struct beast2_type inline_object_type = {.kind = BEAST2_STRUCT,
                                                      .size = sizeof(struct rack_inline_object),
                                                      .members = inline_object_members,
                                                      .n_members = ARRAY_SIZE(inline_object_members)};

static const struct beast2_member object_url_members[] = {
        RACK_TEXT(struct rack_object_url, hash, "hash"),
        RACK_TEXT(struct rack_object_url, url, "url"),
};
static const struct beast2_type object_url_type = {.kind = BEAST2_STRUCT,
                                                   .size = sizeof(struct rack_object_url),
                                                   .members = object_url_members,
                                                   .n_members = ARRAY_SIZE(object_url_members)};

static const struct beast2_member object_descriptor_members[] = {
        RACK_MEMBER(struct rack_object_descriptor, inlined, "inline", inline_object_type,
                    struct rack_inline_object),
        RACK_MEMBER(struct rack_object_descriptor, url, "url", object_url_type, struct rack_object_url),
};
RACK_VARIANT(rack_object_descriptor_type, "RackObjectDescriptorType", struct rack_object_descriptor,
             object_descriptor_members);

RACK_LIST_OF(object_descriptor_list, rack_object_descriptor_type);

static const struct beast2_member output_upload_members[] = {
        RACK_TEXT(struct rack_output_upload, url, "url"),
        RACK_TEXT(struct rack_output_upload, upload_id, "uploadId"),
};
static const struct beast2_type output_upload_type = {.kind = BEAST2_STRUCT,
                                                      .size = sizeof(struct rack_output_upload),
                                                      .members = output_upload_members,
                                                      .n_members = ARRAY_SIZE(output_upload_members)};

RACK_OPTION_OF(optional_output_upload, output_upload_type);

static const struct beast2_member env_layer_members[] = {
        RACK_TEXT(struct rack_env_layer, digest, "digest"),
        RACK_TEXT(struct rack_env_layer, url, "url"),
        RACK_INT(struct rack_env_layer, size_bytes, "sizeBytes"),
};
RACK_STRUCT(rack_env_layer_type, "RackEnvLayerType", struct rack_env_layer, env_layer_members);

RACK_LIST_OF(env_layer_list, rack_env_layer_type);

static const struct beast2_member env_members[] = {
        RACK_TEXT(struct rack_env, manifest_json, "manifestJson"),
        RACK_LIST(struct rack_env, layers, n_layers, "layers", env_layer_list, struct rack_env_layer),
};
static const struct beast2_type env_type = {.kind = BEAST2_STRUCT,
                                            .size = sizeof(struct rack_env),
                                            .members = env_members,
                                            .n_members = ARRAY_SIZE(env_members)};

RACK_OPTION_OF(optional_env, env_type);

static const struct beast2_member header_members[] = {
        RACK_TEXT(struct rack_header, name, "key"),
        RACK_TEXT(struct rack_header, value, "value"),
};
static const struct beast2_type header_type = {.kind = BEAST2_STRUCT,
                                               .size = sizeof(struct rack_header),
                                               .members = header_members,
                                               .n_members = ARRAY_SIZE(header_members)};

static const struct beast2_type header_dict = {
        .kind = BEAST2_DICT, .size = sizeof(struct beast2_list), .element = &header_type};

static const struct beast2_member put_members[] = {
        RACK_TEXT(struct rack_put, url, "url"),
        RACK_LIST(struct rack_put, headers, n_headers, "headers", header_dict, struct rack_header),
};
static const struct beast2_type put_type = {.kind = BEAST2_STRUCT,
                                            .size = sizeof(struct rack_put),
                                            .members = put_members,
                                            .n_members = ARRAY_SIZE(put_members)};

static const struct beast2_member write_target_members[] = {
        RACK_BARE("held"),
        RACK_MEMBER(struct rack_write_target, put, "put", put_type, struct rack_put),
};
RACK_VARIANT(rack_write_target_type, "RackWriteTargetType", struct rack_write_target, write_target_members);

static const struct beast2_member object_target_members[] = {
        RACK_TEXT(struct rack_object_target, hash, "hash"),
        RACK_MEMBER(struct rack_object_target, target, "target", rack_write_target_type,
                    struct rack_write_target),
};
static const struct beast2_type object_target_type = {.kind = BEAST2_STRUCT,
                                                      .size = sizeof(struct rack_object_target),
                                                      .members = object_target_members,
                                                      .n_members = ARRAY_SIZE(object_target_members)};

RACK_LIST_OF(object_target_list, object_target_type);

static const struct beast2_member object_committed_members[] = {
        RACK_TEXT(struct rack_object_committed, hash, "hash"),
        RACK_BOOL(struct rack_object_committed, committed, "committed"),
};
static const struct beast2_type object_committed_type = {.kind = BEAST2_STRUCT,
                                                         .size = sizeof(struct rack_object_committed),
                                                         .members = object_committed_members,
                                                         .n_members = ARRAY_SIZE(object_committed_members)};

RACK_LIST_OF(object_committed_list, object_committed_type);

static const struct beast2_member storage_response_members[] = {
        RACK_LIST(struct rack_storage_response, objects, n_objects, "objects", object_descriptor_list,
                  struct rack_object_descriptor),
        RACK_MAYBE(struct rack_storage_response, output, "output", optional_output_upload,
                   struct rack_output_upload),
        RACK_MAYBE(struct rack_storage_response, env, "env", optional_env, struct rack_env),
        RACK_LIST(struct rack_storage_response, targets, n_targets, "targets", object_target_list,
                  struct rack_object_target),
        RACK_LIST(struct rack_storage_response, committed, n_committed, "committed", object_committed_list,
                  struct rack_object_committed),
};
RACK_STRUCT(rack_storage_response_type, "RackStorageResponseType", struct rack_storage_response,
            storage_response_members);

/* --- Logs and completion --- */

static const struct beast2_member stream_members[] = {
        RACK_BARE("stderr"),
        RACK_BARE("stdout"),
};
static const struct beast2_type stream_type = {.kind = BEAST2_VARIANT,
                                               .size = sizeof(enum rack_stream),
                                               .members = stream_members,
                                               .n_members = ARRAY_SIZE(stream_members)};

static const struct beast2_member log_chunk_members[] = {
        RACK_MEMBER(struct rack_log_chunk, stream, "stream", stream_type, enum rack_stream),
        RACK_TEXT(struct rack_log_chunk, data, "data"),
};
RACK_STRUCT(rack_log_chunk_type, "RackLogChunkType", struct rack_log_chunk, log_chunk_members);

RACK_LIST_OF(log_chunk_list, rack_log_chunk_type);

static const struct beast2_member logs_request_members[] = {
        RACK_TEXT(struct rack_logs_request, repo, "repo"),
        RACK_TEXT(struct rack_logs_request, lease_id, "leaseId"),
        RACK_LIST(struct rack_logs_request, chunks, n_chunks, "chunks", log_chunk_list,
                  struct rack_log_chunk),
        RACK_MAYBE_TEXT(struct rack_logs_request, attempt, "attempt", BEAST2_JSON_ONLY),
};
RACK_STRUCT(rack_logs_request_type, "RackLogsRequestType", struct rack_logs_request, logs_request_members);

static const struct beast2_member complete_request_members[] = {
        RACK_TEXT(struct rack_complete_request, repo, "repo"),
        RACK_TEXT(struct rack_complete_request, lease_id, "leaseId"),
        RACK_TEXT(struct rack_complete_request, result_json, "resultJson"),
        RACK_MAYBE_TEXT(struct rack_complete_request, output_upload_id, "outputUploadId"),
        RACK_MAYBE_BLOB(struct rack_complete_request, inline_output, "inlineOutput"),
        RACK_MAYBE_TEXT(struct rack_complete_request, attempt, "attempt", BEAST2_JSON_ONLY),
};
RACK_STRUCT(rack_complete_request_type, "RackCompleteRequestType", struct rack_complete_request,
            complete_request_members);

static const struct beast2_member disposition_members[] = {
        RACK_BARE("discarded"),
        RACK_BARE("idempotent"),
        RACK_BARE("recorded"),
};
static const struct beast2_type disposition_type = {.kind = BEAST2_VARIANT,
                                                    .size = sizeof(enum rack_disposition),
                                                    .members = disposition_members,
                                                    .n_members = ARRAY_SIZE(disposition_members)};

static const struct beast2_member complete_response_members[] = {
        RACK_MEMBER(struct rack_complete_response, disposition, "disposition", disposition_type,
                    enum rack_disposition),
};
RACK_STRUCT(rack_complete_response_type, "RackCompleteResponseType", struct rack_complete_response,
            complete_response_members);

/* --- Records and objects that no endpoint sends --- */

static struct beast2_memo closure_list_memo;
const struct beast2_type rack_closure_list_type = {.name = "ClosureListType",
                                                   .kind = BEAST2_ARRAY,
                                                   .size = sizeof(struct rack_closure_list),
                                                   .element = &beast2_string,
                                                   .memo = &closure_list_memo};
_Static_assert(offsetof(struct rack_closure_list, n_hashes) == offsetof(struct beast2_list, n),
               "it is a list");

static const struct beast2_member security_policy_members[] = {
        RACK_BOOL(struct rack_security_policy, require_start_approval, "requireStartApproval"),
};
RACK_STRUCT(rack_security_policy_type, "RackSecurityPolicyType", struct rack_security_policy,
            security_policy_members);

static const struct beast2_member registration_members[] = {
        RACK_TEXT(struct rack_registration, rack_id, "rackId"),
        RACK_TEXT(struct rack_registration, label, "label"),
        RACK_TIME(struct rack_registration, enrolled_at_ms, "enrolledAt"),
        RACK_TEXTS(struct rack_registration, tiers, n_tiers, "tiers"),
        RACK_INT(struct rack_registration, capacity, "capacity"),
        RACK_TIME(struct rack_registration, last_seen_at_ms, "lastSeenAt"),
        RACK_TEXT(struct rack_registration, agent_version, "agentVersion"),
        RACK_BOOL(struct rack_registration, healthy, "healthy"),
        RACK_MAYBE_TEXT(struct rack_registration, last_boot_id, "lastBootId"),
        RACK_MAYBE_TEXT(struct rack_registration, approved_boot_id, "approvedBootId"),
};
RACK_STRUCT(rack_registration_type, "RackRegistrationType", struct rack_registration, registration_members);

RACK_OPTION_OF(optional_time, beast2_datetime);

static const struct beast2_member activity_entry_members[] = {
        RACK_TEXT(struct rack_activity_entry, repo, "repo"),
        RACK_TEXT(struct rack_activity_entry, workspace, "workspace"),
        RACK_TEXT(struct rack_activity_entry, task_name, "taskName"),
        RACK_TEXT(struct rack_activity_entry, tier, "tier"),
        RACK_TEXT(struct rack_activity_entry, status, "status"),
        RACK_MAYBE_TEXT(struct rack_activity_entry, outcome, "outcome"),
        RACK_MAYBE_TEXT(struct rack_activity_entry, error, "error"),
        RACK_TIME(struct rack_activity_entry, claimed_at_ms, "claimedAt"),
        RACK_MAYBE(struct rack_activity_entry, completed_at_ms, "completedAt", optional_time, int64_t),
};
RACK_STRUCT(rack_activity_entry_type, "RackActivityEntryType", struct rack_activity_entry,
            activity_entry_members);

/* --- Envelopes --- */

#define REPLY(stem, title, success_type, wanted)                                                             \
        static const struct beast2_member stem##_reply_cases[] = {                                           \
                RACK_MEMBER(struct rack_##stem##_reply, error, "error", rack_error_type, struct rack_error), \
                RACK_MEMBER(struct rack_##stem##_reply, success, "success", success_type, wanted),           \
        };                                                                                                   \
        RACK_VARIANT(rack_##stem##_reply_type, "ResponseType(" title ")", struct rack_##stem##_reply,        \
                     stem##_reply_cases)

REPLY(enroll, "RackEnrollResponseType", rack_enroll_response_type, struct rack_enroll_response);
REPLY(lease, "RackLeaseGrantType", rack_lease_grant_type, struct rack_lease_grant);
REPLY(watch, "RackWatchResponseType", rack_watch_response_type, struct rack_watch_response);
REPLY(boolean, "BooleanType", beast2_boolean, bool);
REPLY(heartbeat, "RackHeartbeatResponseType", rack_heartbeat_response_type, struct rack_heartbeat_response);
REPLY(storage, "RackStorageResponseType", rack_storage_response_type, struct rack_storage_response);
REPLY(complete, "RackCompleteResponseType", rack_complete_response_type, struct rack_complete_response);

const struct beast2_type *const rack_types[] = {
        &beast2_boolean,
        &rack_host_info_type,
        &rack_enroll_request_type,
        &rack_enroll_response_type,
        &rack_lease_ref_type,
        &rack_lease_request_type,
        &rack_lease_grant_type,
        &rack_extend_request_type,
        &rack_watch_request_type,
        &rack_watch_response_type,
        &rack_heartbeat_request_type,
        &rack_heartbeat_response_type,
        &rack_object_size_type,
        &rack_object_commit_type,
        &rack_storage_request_type,
        &rack_object_descriptor_type,
        &rack_env_layer_type,
        &rack_write_target_type,
        &rack_storage_response_type,
        &rack_log_chunk_type,
        &rack_logs_request_type,
        &rack_complete_request_type,
        &rack_complete_response_type,
        &rack_closure_list_type,
        &rack_security_policy_type,
        &rack_registration_type,
        &rack_activity_entry_type,
        &rack_lock_holder_type,
        &rack_error_type,
        &rack_enroll_reply_type,
        &rack_lease_reply_type,
        &rack_watch_reply_type,
        &rack_boolean_reply_type,
        &rack_heartbeat_reply_type,
        &rack_storage_reply_type,
        &rack_complete_reply_type,
        NULL,
};

const struct beast2_type *rack_type_named(struct lessor_slice name)
{
        for (const struct beast2_type *const *type = rack_types; *type != NULL; type++)
                if (lessor_slice_equal(name, lessor_slice_of((*type)->name)))
                        return *type;
        return NULL;
}
