/* SPDX-License-Identifier: MIT */
#ifndef WIRE_RACK_ERROR_H
#define WIRE_RACK_ERROR_H

#include "wire/beast2_type.h"

/*
 * The error of a rack answer in BEAST2 (rack-protocol 4). It names every failure of the whole API that the
 * rack protocol is part of; rack endpoints only ever answer `internal`, and whoever reads must understand
 * all.
 */
enum rack_error_case {
        RACK_ERROR_DATAFLOW_ABORTED,
        RACK_ERROR_DATAFLOW_ERROR,
        RACK_ERROR_DATASET_NOT_FOUND,
        RACK_ERROR_DATASET_TYPE_MISMATCH,
        RACK_ERROR_EXECUTION_NOT_FOUND,
        RACK_ERROR_INTERNAL,
        RACK_ERROR_INVALID_NAME,
        RACK_ERROR_OBJECT_NOT_FOUND,
        RACK_ERROR_PACKAGE_EXISTS,
        RACK_ERROR_PACKAGE_INVALID,
        RACK_ERROR_PACKAGE_NOT_FOUND,
        RACK_ERROR_PERMISSION_DENIED,
        RACK_ERROR_REPOSITORY_NOT_FOUND,
        RACK_ERROR_TASK_NOT_FOUND,
        RACK_ERROR_WORKSPACE_EXISTS,
        RACK_ERROR_WORKSPACE_LOCKED,
        RACK_ERROR_WORKSPACE_NOT_DEPLOYED,
        RACK_ERROR_WORKSPACE_NOT_FOUND,
};

/* The one text of the many cases that have just one. */
struct rack_error_text {
        struct lessor_slice text;
};

struct rack_error_dataset {
        struct lessor_slice workspace;
        struct lessor_slice path;
};

struct rack_error_mismatch {
        struct lessor_slice workspace;
        struct lessor_slice path;
        struct lessor_slice message;
};

struct rack_error_name {
        struct lessor_slice kind;
        struct lessor_slice name;
        struct lessor_slice message;
};

struct rack_error_package {
        struct lessor_slice name;
        struct lessor_slice version; /* absent: none, in package_not_found only */
};

struct rack_lock_holder {
        int64_t pid;
        struct lessor_slice acquired_at; /* a text, not an instant */
        struct lessor_slice boot_id;     /* absent: none */
        struct lessor_slice command;     /* absent: none */
};

enum rack_lock_case { RACK_LOCK_KNOWN, RACK_LOCK_UNKNOWN };

struct rack_error_lock {
        struct lessor_slice workspace;
        struct {
                enum rack_lock_case kind;
                struct rack_lock_holder known;
        } holder;
};

struct rack_error {
        enum rack_error_case kind;
        union {
                struct rack_error_text only; /* message, task, hash, reason, path, repo or workspace */
                struct rack_error_dataset dataset;
                struct rack_error_mismatch mismatch;
                struct rack_error_name name;
                struct rack_error_package package;
                struct rack_error_lock lock;
        };
};

extern const struct beast2_type rack_error_type, rack_lock_holder_type;

#endif
