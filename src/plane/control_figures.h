/* SPDX-License-Identifier: MIT */
#ifndef PLANE_CONTROL_FIGURES_H
#define PLANE_CONTROL_FIGURES_H

#include "base/buf.h"
#include "http/server.h"
#include "lessor/routing_store.h"
#include "routing/directory/projection.h"

struct process_figures {
        int64_t pid;
        int64_t rss_bytes;
        int64_t n_open_files;
        int64_t cpu_us;
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
};

/* Appends them in Prometheus' text format, version 0.0.4. Returns 0 or LESSOR_E_NOMEM. */
int figures_write(const struct figures *f, struct buf *out);

#endif
