/* SPDX-License-Identifier: MIT */
#ifndef PLANE_CONTROL_FIGURES_H
#define PLANE_CONTROL_FIGURES_H

#include "base/buf.h"
#include "http/server.h"
#include "lessor/lease_store.h"
#include "lessor/routing_store.h"
#include "plane/rack_state.h"
#include "plane/webhooks.h"
#include "routing/directory/projection.h"

struct process_figures {
        int64_t pid;
        int64_t rss_bytes;
        int64_t n_open_files;
        int64_t cpu_us;
};

/* Of the rack plane. */
struct rack_figures {
        struct lessor_lease_stats store;
        int store_check;                /* 0, or why it cannot be written */
        size_t n_states[N_RACK_STATES]; /* racks */
        size_t n_waiting;               /* polls and watches of theirs */
        size_t n_transfers;             /* objects on their way */
        struct webhook_totals webhooks;
};

/* All that is counted anywhere in the server, read at about one moment. */
struct figures {
        const char *version;
        int64_t started_ms; /* epoch ms */
        int64_t uptime_ms;
        int64_t now_ms; /* store clock */
        struct lessor_routing_stats store;
        int store_check; /* 0, or why it cannot be written */
        struct http_stats http;
        struct process_figures process;
        const struct projection *projection; /* borrowed */
        bool has_racks;                      /* else there is no rack plane */
        struct rack_figures racks;
};

/* Appends them in Prometheus' text format, version 0.0.4. Returns 0 or LESSOR_E_NOMEM. */
int figures_write(const struct figures *f, struct buf *out);

#endif
