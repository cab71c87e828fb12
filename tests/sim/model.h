/* SPDX-License-Identifier: MIT */
#ifndef TESTS_SIM_MODEL_H
#define TESTS_SIM_MODEL_H

#include <stdbool.h>
#include <stdint.h>

#include "lessor/relay_types.h"

/*
 * The routing store of relay-protocol 10 as plainly as it can be written: arrays that are walked from end to
 * end, names that are small numbers. It shares nothing with the engine, so that what both say is likely to be
 * true.
 *
 * A lease is a number that the caller hands out: 1, 2, 3… in the order in which jobs were granted. 0: none.
 */
#define MODEL_JOBS    512
#define MODEL_RUNNERS 8
#define MODEL_SITES   4
#define MODEL_OWNERS  4
#define MODEL_NOTES   512
#define MODEL_CHURNS  64

struct model_job {
        bool there;
        int site, id, owner;
        enum lessor_kind kind;
        enum lessor_audience audience;
        int64_t deadline_ms;
        int64_t enqueued_ms;
        enum lessor_job_state state;
        int runner; /* -1: no claim */
        uint64_t lease;
        int64_t lease_expires_ms;
        int64_t awaiting_until_ms;
        unsigned seal_attempts;
        int reoffer_to; /* -1: anybody */
        bool refused_by[MODEL_RUNNERS];
        int64_t retry_after_ms[MODEL_RUNNERS];
        bool cancelled;
        uint64_t payload; /* which envelope; 0: none */
        uint64_t result;
        enum lessor_disposition disposition;
};

struct model_presence {
        bool there;
        unsigned order; /* of first sight */
        int owner, device, capabilities;
        int64_t last_seen_ms;
};

struct model_churn {
        int site, owner;
        unsigned expiries;
};

struct model {
        struct model_job jobs[MODEL_JOBS]; /* in enqueue order */
        int n_jobs;
        uint64_t n_leases; /* the last one handed out */
        struct model_presence presences[MODEL_RUNNERS];
        unsigned n_presences;
        int64_t notes[MODEL_SITES][MODEL_OWNERS][MODEL_NOTES];
        int n_notes[MODEL_SITES][MODEL_OWNERS];
        int64_t told_ms[MODEL_SITES][MODEL_OWNERS]; /* 0: never */
        struct model_churn churns[MODEL_CHURNS];    /* reports of the last sweep */
        int n_churns;
};

struct model_claim {
        int runner, owner; /* the device's owner */
        bool routes[MODEL_SITES][MODEL_OWNERS];
        unsigned kinds, max;
        int64_t lease_ms;
};

/* What a call said. Indexes are into jobs. */
struct model_list {
        int items[MODEL_JOBS];
        int n;
};

void model_init(struct model *m);

/* Makes room by forgetting the gaps. Indexes handed out before are void. */
void model_pack(struct model *m);

int model_find(const struct model *m, int site, int id);

/* Returns the index; -1 when the model is full. `stub` gives site to enqueued_ms. */
int model_enqueue(struct model *m, const struct model_job *stub);

void model_claim(struct model *m, const struct model_claim *claim, int64_t now_ms,
                 struct model_list *ret_granted);

/* These return 0 or a LESSOR_E_ code. */
int model_take_payload(struct model *m, int id, int runner, uint64_t lease, uint64_t *ret_payload);
int model_complete(struct model *m, int id, int runner, uint64_t lease, uint64_t result,
                   enum lessor_disposition disposition, bool *ret_duplicate);
int model_seal(struct model *m, int site, int id, uint64_t payload, enum lessor_job_state *ret_was);
int model_cancel(struct model *m, int site, int id);

/* True if it was given back. */
bool model_release(struct model *m, int id, int runner, uint64_t lease, bool refused, int64_t retry_after_ms);

/* True if it was renewed, false if it is lost. */
bool model_renew(struct model *m, int id, int runner, uint64_t lease, int64_t expires_ms);

/* True if it was forgotten. */
bool model_ack(struct model *m, int site, int id);

void model_seen(struct model *m, int runner, int owner, int device, int capabilities, int64_t now_ms);

/* The jobs are copied as they are afterwards, or, if forgotten, as they were. */
struct model_swept {
        struct model_job requeued[MODEL_JOBS], removed[MODEL_JOBS];
        int n_requeued, n_removed;
};
void model_sweep(struct model *m, int64_t now_ms, struct model_swept *ret_swept);

#endif
