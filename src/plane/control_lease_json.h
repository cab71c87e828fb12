/* SPDX-License-Identifier: MIT */
#ifndef PLANE_CONTROL_LEASE_JSON_H
#define PLANE_CONTROL_LEASE_JSON_H

#include "base/json_write.h"
#include "lessor/lease_store.h"
#include "plane/control_call.h"

/* How leases and attempts read in the control API (docs/control-api.md), and how a request names a lease. */

/* --- Answers --- */

/*
 * What changes with a lease's status, view, claim and deadline, as text of digits and dots: whoever watches a
 * lease says which version was seen last.
 */
#define LEASE_VERSION_BYTES 96
void lease_version(const struct lessor_lease *lease, char ret_version[LEASE_VERSION_BYTES]);

/* A lease as one value: with its long texts, if it has them. */
void lease_put(struct json_writer *w, const struct lessor_lease *lease);

/* The member `attempts`, inside an open object. */
void lease_put_attempts(struct json_writer *w, const struct lessor_attempt_list *attempts);

/* How a completed lease ended: the place of its word. */
#define N_VERDICTS 4
extern const struct message_words verdict_words; /* success, failed, error, cancelled */
int verdict_number(const struct lessor_verdict *verdict);

/* Whether nothing more will become of it, unless it is replayed. */
bool lease_has_ended(const struct lessor_lease *lease);

/* Words of the enums, for answers and queries. */
extern const struct message_words lease_status_words;
extern const struct message_words lease_view_words;
extern const struct message_words lease_mode_words;
extern const struct message_words attempt_state_words;
extern const struct message_words lease_cause_words; /* the first, "", stands for none */

/* --- Requests --- */

/* Which lease: by repo and leaseId, or by number. The first members of every body that names one. */
struct lease_ref {
        struct lessor_slice repo;
        struct lessor_slice lease_id;
        int64_t number; /* 0: not said */
};

/* For the tables of such bodies, whose struct begins with a `struct lease_ref ref`. */
#define LEASE_REF_FIELDS(struct_type)                                                         \
        FIELD_TEXT1(struct_type, ref.repo, "repo", .flags = MESSAGE_OPTIONAL),                \
                FIELD_TEXT1(struct_type, ref.lease_id, "leaseId", .flags = MESSAGE_OPTIONAL), \
                FIELD_INT(struct_type, ref.number, "number", 1, INT64_MAX, .flags = MESSAGE_OPTIONAL)

/* For message_table.holds: exactly one of the two ways is used. */
bool lease_ref_holds(const void *body);

/* The lease that `?repo=&lease=` or `?number=` name. False when the call was refused. */
bool lease_ref_of_query(struct control_call *call, struct lease_ref *ret_ref);

/*
 * The name of a lease that was referred to: costs a look into the store if it was by number. False when the
 * call was refused, because there is no such lease.
 */
bool lease_ref_resolve(struct control_call *call, const struct lease_ref *ref,
                       struct lessor_lease_name *ret_name);

/* Refuses what an operation on this lease came to. */
void lease_refuse(struct control_call *call, int error, struct lessor_slice lease_id);

#endif
