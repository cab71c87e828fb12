/* SPDX-License-Identifier: MIT */
#ifndef TESTS_CONTRACT_DRIVER_JSON_H
#define TESTS_CONTRACT_DRIVER_JSON_H

#include "base/json_write.h"
#include "json_values.h"
#include "store_kinds.h"
#include "wire/message.h"

/* What the store driver reads and writes: the peers' objects as JSON. */
struct driver {
        const struct store_kind *kind;
        const char *directory;
        struct clock_manual clock;
        struct lessor_routing_store *store;
        struct lessor_arena *arena; /* of the request under way */
        const struct json *args;
        struct json_writer w; /* writes the result */
};

/*
 * Arguments of the request under way. Each `need_` returns 0, LESSOR_E_INVALID when the argument is missing
 * or is not what it should be, or LESSOR_E_NOMEM. Results, in turn, are written to the driver's writer.
 */
struct lessor_slice text_arg(const struct driver *d, const char *name);
int need_text(const struct driver *d, const char *name, struct lessor_slice *ret_text);
int need_int(const struct driver *d, const char *name, int64_t *ret_number);
int need_object(struct driver *d, const char *name, const struct message_table *table, void *ret_object);
int need_envelope(struct driver *d, struct lessor_envelope *ret_envelope);
int need_leases(struct driver *d, struct lessor_lease_ref **ret_leases, size_t *ret_n);
int need_routes(struct driver *d, struct lessor_claim *claim);
int need_kinds(struct driver *d, unsigned *ret_kinds);
void put_job(struct json_writer *w, const struct lessor_job *job, struct lessor_slice result);
int answer_job(struct driver *d, const struct lessor_job *job);
int answer_jobs(struct driver *d, const struct lessor_job *jobs, size_t n);
void put_presence(struct json_writer *w, const struct lessor_presence *p);
int answer_refused(struct driver *d, int code);
bool is_refusal(int code);
void put_refs(struct json_writer *w, const struct lessor_lease_ref *refs, size_t n);

#endif
