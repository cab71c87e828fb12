/* SPDX-License-Identifier: MIT */
#ifndef CLIENT_SITE_CLIENT_H
#define CLIENT_SITE_CLIENT_H

#include "client/relay_call.h"
#include "crypto/stored_keys.h"
#include "lessor/site_client.h"

/* What the pump needs of a site client beyond its public face. */
struct lessor_site_client {
        char *site_id;
        char *base_url;
        struct stored_keys *keys;
        struct http_client *http;
        struct relay_caller caller;
        struct relay_failure failure; /* of the last call */
        bool no_ack;                  /* the relay does not know `ack` */
};

/* The public calls, but returning all that relay_verdict can say. */
int site_enqueue(struct lessor_site_client *client, const struct lessor_stub *stub,
                 enum lessor_job_state *ret_state);
int site_seal(struct lessor_site_client *client, const struct lessor_pending *pending,
              struct lessor_slice payload, int64_t deadline_ms);

/* Reads what a transfer of relay_get_start has brought. */
int site_pending_read(struct lessor_site_client *client, const struct http_transfer *transfer,
                      struct lessor_arena *arena, struct lessor_pending_list *ret_pending);
int site_results_read(struct lessor_site_client *client, const struct http_transfer *transfer,
                      struct lessor_arena *arena, struct lessor_site_result_list *ret_results);

#endif
