/* SPDX-License-Identifier: MIT */
#include "wire/rack_error.h"

#include "wire/rack_members.h"

/* Types that differ only in the name of their one text. */
#define TEXT_TYPE(object, key)                                                            \
        static const struct beast2_member object##_members[] = {                          \
                RACK_TEXT(struct rack_error_text, text, key)};                            \
        static const struct beast2_type object = {.kind = BEAST2_STRUCT,                  \
                                                  .size = sizeof(struct rack_error_text), \
                                                  .members = object##_members,            \
                                                  .n_members = 1}

TEXT_TYPE(message_type, "message");
TEXT_TYPE(task_type, "task");
TEXT_TYPE(hash_type, "hash");
TEXT_TYPE(reason_type, "reason");
TEXT_TYPE(path_type, "path");
TEXT_TYPE(repo_type, "repo");
TEXT_TYPE(workspace_type, "workspace");

#define STRUCT_TYPE(object, struct_type, member_array)                         \
        static const struct beast2_type object = {.kind = BEAST2_STRUCT,       \
                                                  .size = sizeof(struct_type), \
                                                  .members = (member_array),   \
                                                  .n_members = ARRAY_SIZE(member_array)}

static const struct beast2_member dataset_members[] = {
        RACK_TEXT(struct rack_error_dataset, workspace, "workspace"),
        RACK_TEXT(struct rack_error_dataset, path, "path"),
};
STRUCT_TYPE(dataset_type, struct rack_error_dataset, dataset_members);

static const struct beast2_member mismatch_members[] = {
        RACK_TEXT(struct rack_error_mismatch, workspace, "workspace"),
        RACK_TEXT(struct rack_error_mismatch, path, "path"),
        RACK_TEXT(struct rack_error_mismatch, message, "message"),
};
STRUCT_TYPE(mismatch_type, struct rack_error_mismatch, mismatch_members);

static const struct beast2_member name_members[] = {
        RACK_TEXT(struct rack_error_name, kind, "kind"),
        RACK_TEXT(struct rack_error_name, name, "name"),
        RACK_TEXT(struct rack_error_name, message, "message"),
};
STRUCT_TYPE(name_type, struct rack_error_name, name_members);

static const struct beast2_member package_members[] = {
        RACK_TEXT(struct rack_error_package, name, "packageName"),
        RACK_TEXT(struct rack_error_package, version, "version"),
};
STRUCT_TYPE(package_type, struct rack_error_package, package_members);

static const struct beast2_member missing_package_members[] = {
        RACK_TEXT(struct rack_error_package, name, "packageName"),
        RACK_MAYBE_TEXT(struct rack_error_package, version, "version"),
};
STRUCT_TYPE(missing_package_type, struct rack_error_package, missing_package_members);

static const struct beast2_member lock_holder_members[] = {
        RACK_INT(struct rack_lock_holder, pid, "pid"),
        RACK_TEXT(struct rack_lock_holder, acquired_at, "acquiredAt"),
        RACK_MAYBE_TEXT(struct rack_lock_holder, boot_id, "bootId"),
        RACK_MAYBE_TEXT(struct rack_lock_holder, command, "command"),
};
RACK_STRUCT(rack_lock_holder_type, "LockHolderType", struct rack_lock_holder, lock_holder_members);

/* Its members' offsets are within `holder`. */
#define IN_HOLDER(member) \
        (offsetof(struct rack_error_lock, holder.member) - offsetof(struct rack_error_lock, holder))

static const struct beast2_member holder_cases[] = {
        {{"known", 5}, &rack_lock_holder_type, IN_HOLDER(known)},
        RACK_BARE("unknown"),
};
static const struct beast2_type holder_type = {.kind = BEAST2_VARIANT,
                                               .size = sizeof(((struct rack_error_lock *)0)->holder),
                                               .members = holder_cases,
                                               .n_members = ARRAY_SIZE(holder_cases)};

static const struct beast2_member lock_members[] = {
        RACK_TEXT(struct rack_error_lock, workspace, "workspace"),
        {{"holder", 6}, &holder_type, offsetof(struct rack_error_lock, holder)},
};
STRUCT_TYPE(lock_type, struct rack_error_lock, lock_members);

#define ERROR_CASE(number, key, wire_type, member, wanted) \
        [number] = RACK_MEMBER(struct rack_error, member, key, wire_type, struct wanted)

static const struct beast2_member error_cases[] = {
        [RACK_ERROR_DATAFLOW_ABORTED] = RACK_BARE("dataflow_aborted"),
        ERROR_CASE(RACK_ERROR_DATAFLOW_ERROR, "dataflow_error", message_type, only, rack_error_text),
        ERROR_CASE(RACK_ERROR_DATASET_NOT_FOUND, "dataset_not_found", dataset_type, dataset,
                   rack_error_dataset),
        ERROR_CASE(RACK_ERROR_DATASET_TYPE_MISMATCH, "dataset_type_mismatch", mismatch_type, mismatch,
                   rack_error_mismatch),
        ERROR_CASE(RACK_ERROR_EXECUTION_NOT_FOUND, "execution_not_found", task_type, only, rack_error_text),
        ERROR_CASE(RACK_ERROR_INTERNAL, "internal", message_type, only, rack_error_text),
        ERROR_CASE(RACK_ERROR_INVALID_NAME, "invalid_name", name_type, name, rack_error_name),
        ERROR_CASE(RACK_ERROR_OBJECT_NOT_FOUND, "object_not_found", hash_type, only, rack_error_text),
        ERROR_CASE(RACK_ERROR_PACKAGE_EXISTS, "package_exists", package_type, package, rack_error_package),
        ERROR_CASE(RACK_ERROR_PACKAGE_INVALID, "package_invalid", reason_type, only, rack_error_text),
        ERROR_CASE(RACK_ERROR_PACKAGE_NOT_FOUND, "package_not_found", missing_package_type, package,
                   rack_error_package),
        ERROR_CASE(RACK_ERROR_PERMISSION_DENIED, "permission_denied", path_type, only, rack_error_text),
        ERROR_CASE(RACK_ERROR_REPOSITORY_NOT_FOUND, "repository_not_found", repo_type, only, rack_error_text),
        ERROR_CASE(RACK_ERROR_TASK_NOT_FOUND, "task_not_found", task_type, only, rack_error_text),
        ERROR_CASE(RACK_ERROR_WORKSPACE_EXISTS, "workspace_exists", workspace_type, only, rack_error_text),
        ERROR_CASE(RACK_ERROR_WORKSPACE_LOCKED, "workspace_locked", lock_type, lock, rack_error_lock),
        ERROR_CASE(RACK_ERROR_WORKSPACE_NOT_DEPLOYED, "workspace_not_deployed", workspace_type, only,
                   rack_error_text),
        ERROR_CASE(RACK_ERROR_WORKSPACE_NOT_FOUND, "workspace_not_found", workspace_type, only,
                   rack_error_text),
};
RACK_VARIANT(rack_error_type, "ErrorType", struct rack_error, error_cases);
