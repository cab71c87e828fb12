/* SPDX-License-Identifier: MIT */
#ifndef PLANE_WEBHOOKS_H
#define PLANE_WEBHOOKS_H

#include "base/json_write.h"
#include "plane/event_feed.h"

/*
 * Webhooks: URLs that are told what happens, by POST, on a thread of their own that has no part in what it
 * tells of. Each has its place in the feed, so one that does not answer holds up nobody, and loses what the
 * feed no longer has, which is counted. Registrations are kept in a file; places are not, so a server that
 * starts tells of what happens from then on, beginning with `server.started`. What is sent, and how it is
 * signed: docs/control-api.md.
 *
 * Thread-safe.
 */
struct webhooks;

/* What is asked for, checked already but for the URL. Absent texts: any. */
struct webhook_wish {
        struct lessor_slice url;    /* http or https */
        struct lessor_slice secret; /* absent: one is made */
        struct lessor_slice repo;
        struct lessor_slice run;
        uint32_t types; /* as in event_filter */
};

/*
 * Reads the file, if there is one, and begins to tell.
 *
 * path  of the file, which holds secrets: mode 0600
 * feed  borrowed; must outlive them
 *
 * Returns 0; LESSOR_E_CORRUPT (no such file is written by us); LESSOR_E_UNAVAILABLE (there is no libcurl);
 * what file_read returns; LESSOR_E_NOMEM; LESSOR_E_IO.
 */
int webhooks_open(const char *path, struct event_feed *feed, struct webhooks **ret_webhooks);

/* Breaks off what is under way. Takes NULL, returns NULL. */
struct webhooks *webhooks_free(struct webhooks *w);

/* As long as a UUID. */
#define WEBHOOK_ID_LEN 36

/*
 * Adds one, which is told of what happens from now on; it is in the file when this returns. Blocks.
 *
 * ret_secret  what deliveries are signed with; wipe it
 *
 * Returns 0; LESSOR_E_INVALID (the URL); LESSOR_E_FULL (LIMIT_WEBHOOKS); LESSOR_E_UNAVAILABLE (there is no
 * libcurl); what file_replace returns; LESSOR_E_NOMEM.
 */
int webhooks_add(struct webhooks *w, const struct webhook_wish *wish, char ret_id[WEBHOOK_ID_LEN + 1],
                 struct buf *ret_secret);

/* Returns 0; LESSOR_E_NOT_FOUND; what file_replace returns. Blocks. */
int webhooks_remove(struct webhooks *w, struct lessor_slice id);

/* Writes them as an array of objects, without their secrets. */
void webhooks_write(struct webhooks *w, struct json_writer *out);

struct webhook_totals {
        uint64_t n_webhooks;
        uint64_t n_delivered; /* events */
        uint64_t n_failed;    /* attempts */
        uint64_t n_dropped;   /* events that were overtaken */
};
void webhooks_totals(struct webhooks *w, struct webhook_totals *ret_totals);

#endif
