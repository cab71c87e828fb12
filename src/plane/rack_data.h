/* SPDX-License-Identifier: MIT */
#ifndef PLANE_RACK_DATA_H
#define PLANE_RACK_DATA_H

#include "plane/rack_call.h"

/*
 * What the endpoints share that move data: storage, complete, logs and the capability URLs (rack-protocol 6.5
 * to 7). Their work waits for the disk, so it is done by http_offload, in one function that returns how it
 * went; the answer is written afterwards, on a worker.
 */

/* Why a piece of work could not be done; zeroed, nothing is the matter. */
struct rack_trouble {
        enum rack_refusal refusal;
        const char *sentence; /* for people, static or in the call's arena; NULL: what the error means */
};

/* Notes a refusal with its words. Returns LESSOR_E_REFUSED, for the work to end with. */
int rack_trouble(struct rack_call *call, struct rack_trouble *trouble, enum rack_refusal refusal,
                 const char *format, ...) __attribute__((format(printf, 4, 5)));

/* Answers work that ended with this error; not 0. */
void rack_refuse_trouble(struct rack_call *call, const struct rack_trouble *trouble, int error);

/*
 * For whom an attempt's uploads are kept aside. The attempt is the claim's number, since that is what a
 * capability knows; its text is written to `room`.
 */
#define RACK_CLAIM_TEXT 16
struct lessor_object_stage rack_stage(const struct lessor_lease_name *name, unsigned claim_number,
                                      char room[RACK_CLAIM_TEXT]);

/* Objects up to this size come inline, and so may outputs (section 15). */
#define RACK_INLINE_BYTES 4096

/* Where the URLs of capabilities are; an id follows. */
#define RACK_DATA_PATH "/api/rack/data/"

/* Serves them: whatever method is not PUT, and PUT. With the plane as context. */
extern const struct http_gate rack_data_gate, rack_data_put_gate;
void rack_data_get(struct http_request *http, void *context);
void rack_data_put(struct http_request *http, void *context);

#endif
