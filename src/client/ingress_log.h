/* SPDX-License-Identifier: MIT */
#ifndef CLIENT_INGRESS_LOG_H
#define CLIENT_INGRESS_LOG_H

#include <stdint.h>

#include "lessor/backend.h"

/*
 * The owner's record of everything that this machine was asked: one JSON object a line,
 * `{"at":"2026-01-01T00:00:00.000Z","jobId":...,"leaseId":...,"site":...,"owner":...,"kind":...,"service":...,
 * "payload":{...}}`, in a file of mode 0600 that nothing but its owner ever shortens. Thread-safe.
 */
struct ingress_log;

/* Returns 0, LESSOR_E_PERMISSION, LESSOR_E_INVALID, LESSOR_E_IO or LESSOR_E_NOMEM. */
int ingress_log_open(const char *path, struct ingress_log **ret_log);
struct ingress_log *ingress_log_close(struct ingress_log *log);

struct ingress_entry {
        int64_t at_ms; /* epoch ms */
        struct lessor_slice job_id;
        struct lessor_slice lease_id;
        struct lessor_slice site;
        struct lessor_slice owner;
        const char *kind;
        const char *service;
        struct lessor_slice payload; /* JSON, well formed */
};

/* Appends an entry; when it returns 0 the kernel has it, and the job may run. Returns 0, LESSOR_E_IO or
 * _NOMEM. */
int ingress_log_append(struct ingress_log *log, const struct ingress_entry *entry);

#endif
