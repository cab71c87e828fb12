/* SPDX-License-Identifier: MIT */
#include "plane/control_figures.h"

#include <inttypes.h>

#include "plane/control_lease_json.h"
#include "wire/relay_shapes.h"

static void head(struct buf *out, const char *name, const char *type, const char *help)
{
        buf_printf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static void one(struct buf *out, const char *name, const char *type, const char *help, uint64_t value)
{
        head(out, name, type, help);
        buf_printf(out, "%s %" PRIu64 "\n", name, value);
}

/* Microseconds as seconds, without a detour over doubles. */
static void seconds(struct buf *out, uint64_t us)
{
        buf_printf(out, "%" PRIu64 ".%06" PRIu64 "\n", us / 1000000, us % 1000000);
}

/* Names of listeners and routes are our own, of letters and dashes, so labels need no escaping. */
static void label(struct buf *out, const char *name, const struct http_route_stats *r)
{
        buf_printf(out, "%s{listener=\"%s\",route=\"%s\"} ", name, r->listener, r->route);
}

static void write_answers(const struct http_stats *http, struct buf *out)
{
        static const char *const classes[HTTP_N_CLASSES] = {"none", "1xx", "2xx", "3xx", "4xx", "5xx"};

        head(out, "lessor_http_requests_total", "counter",
             "Requests that are over, by route and class of status.");
        for (size_t i = 0; i < http->n_routes; i++)
                for (size_t c = 0; c < HTTP_N_CLASSES; c++) {
                        const struct http_route_stats *r = &http->routes[i];

                        if (r->answers[c] == 0 && c != 2)
                                continue;
                        buf_printf(out,
                                   "lessor_http_requests_total{listener=\"%s\",route=\"%s\",status=\"%s\"} "
                                   "%" PRIu64 "\n",
                                   r->listener, r->route, classes[c], r->answers[c]);
                }
}

static void write_durations(const struct http_stats *http, struct buf *out)
{
        head(out, "lessor_http_request_seconds", "summary",
             "From the request line to the last byte of the answer, waiting included.");
        for (size_t i = 0; i < http->n_routes; i++) {
                const struct http_route_stats *r = &http->routes[i];
                uint64_t n = 0;

                for (size_t c = 0; c < HTTP_N_CLASSES; c++)
                        n += r->answers[c];
                label(out, "lessor_http_request_seconds_sum", r);
                seconds(out, r->duration_us);
                label(out, "lessor_http_request_seconds_count", r);
                buf_printf(out, "%" PRIu64 "\n", n);
        }
}

static void write_bytes(const struct http_stats *http, struct buf *out)
{
        head(out, "lessor_http_received_bytes_total", "counter", "Bytes of request bodies.");
        for (size_t i = 0; i < http->n_routes; i++) {
                label(out, "lessor_http_received_bytes_total", &http->routes[i]);
                buf_printf(out, "%" PRIu64 "\n", http->routes[i].bytes_in);
        }
        head(out, "lessor_http_sent_bytes_total", "counter", "Bytes of answers.");
        for (size_t i = 0; i < http->n_routes; i++) {
                label(out, "lessor_http_sent_bytes_total", &http->routes[i]);
                buf_printf(out, "%" PRIu64 "\n", http->routes[i].bytes_out);
        }
}

static void write_http(const struct http_stats *http, struct buf *out)
{
        write_answers(http, out);
        write_durations(http, out);
        write_bytes(http, out);
        one(out, "lessor_http_accepted_total", "counter", "Connections accepted.", http->accepted);
        one(out, "lessor_http_refused_total", "counter", "Connections over a limit or of a foreign user.",
            http->refused);
        one(out, "lessor_http_timed_out_total", "counter", "Requests that were too slow in arriving.",
            http->timed_out);
        one(out, "lessor_http_undelivered_total", "counter", "Answers whose peer was gone.",
            http->undelivered);
        one(out, "lessor_http_connections", "gauge", "Connections open now.", http->connections);
        one(out, "lessor_http_requests", "gauge", "Requests under way now.", http->requests);
        one(out, "lessor_http_parked_requests", "gauge", "Requests that wait for something now.",
            http->parked);
        one(out, "lessor_http_body_bytes", "gauge", "Memory in large bodies now.", http->body_memory);
}

static void write_store(const struct figures *f, struct buf *out)
{
        const struct relay_fixture *fixture = projection_fixture(f->projection);

        head(out, "lessor_jobs", "gauge", "Jobs in the store, by state.");
        for (int state = 0; state < 5; state++)
                buf_printf(out, "lessor_jobs{state=\"%s\"} %" PRIu64 "\n",
                           message_word(&job_state_words, state), f->store.n_jobs[state]);
        one(out, "lessor_devices_seen", "gauge", "Devices that were ever seen.", f->store.n_presence);
        one(out, "lessor_rows_set_aside", "gauge", "Stored rows that could not be read and are left alone.",
            f->store.n_set_aside);
        one(out, "lessor_store_writable", "gauge", "Whether the store takes writes.", f->store_check == 0);
        head(out, "lessor_projection_records", "gauge", "Records of the projection in use.");
        buf_printf(out,
                   "lessor_projection_records{kind=\"sites\"} %zu\n"
                   "lessor_projection_records{kind=\"consents\"} %zu\n"
                   "lessor_projection_records{kind=\"devices\"} %zu\n"
                   "lessor_projection_records{kind=\"rosters\"} %zu\n",
                   fixture->n_sites, fixture->n_consents, fixture->n_devices, fixture->n_rosters);
}

static void write_racks(const struct rack_figures *f, struct buf *out)
{
        head(out, "lessor_leases", "gauge", "Leases in the store, by status.");
        for (int status = 0; status < LESSOR_N_LEASE_STATUSES; status++)
                buf_printf(out, "lessor_leases{status=\"%s\"} %" PRIu64 "\n",
                           message_word(&lease_status_words, status), f->store.n_leases[status]);
        one(out, "lessor_leases_lapsed", "gauge", "Claimed leases whose deadline has passed.",
            f->store.n_lapsed);
        one(out, "lessor_lease_store_writable", "gauge", "Whether the store of leases takes writes.",
            f->store_check == 0);
        one(out, "lessor_lease_rows_set_aside", "gauge",
            "Stored rows of leases that could not be read and are left alone.", f->store.n_set_aside);
        one(out, "lessor_capabilities", "gauge", "URLs of objects that are good now.",
            f->store.n_capabilities);
        head(out, "lessor_racks", "gauge", "Racks, by how they are.");
        for (int state = 0; state < N_RACK_STATES; state++)
                buf_printf(out, "lessor_racks{state=\"%s\"} %zu\n", message_word(&rack_state_words, state),
                           f->n_states[state]);
        one(out, "lessor_webhooks", "gauge", "Webhooks.", f->webhooks.n_webhooks);
        one(out, "lessor_webhook_events_total", "counter", "Events that were delivered to webhooks.",
            f->webhooks.n_delivered);
        one(out, "lessor_webhook_failures_total", "counter", "Attempts to deliver that failed.",
            f->webhooks.n_failed);
        one(out, "lessor_webhook_dropped_total", "counter", "Events that webhooks were too slow for.",
            f->webhooks.n_dropped);
        one(out, "lessor_transfers", "gauge", "Objects that are on their way now, in or out.",
            f->n_transfers);
        one(out, "lessor_racks_waiting", "gauge", "Polls and watches of racks that wait now.", f->n_waiting);
}

int figures_write(const struct figures *f, struct buf *out)
{
        head(out, "lessor_build_info", "gauge", "The version that runs.");
        buf_printf(out, "lessor_build_info{version=\"%s\"} 1\n", f->version);
        write_store(f, out);
        if (f->has_racks)
                write_racks(&f->racks, out);
        write_http(&f->http, out);
        head(out, "process_start_time_seconds", "gauge", "When the server started.");
        buf_printf(out, "process_start_time_seconds %" PRId64 ".%03" PRId64 "\n", f->started_ms / 1000,
                   f->started_ms % 1000);
        head(out, "process_cpu_seconds_total", "counter", "Processor time, user and system.");
        buf_text(out, "process_cpu_seconds_total ");
        seconds(out, (uint64_t)f->process.cpu_us);
        one(out, "process_resident_memory_bytes", "gauge", "Resident memory.",
            (uint64_t)f->process.rss_bytes);
        one(out, "process_open_fds", "gauge", "Open file descriptors.", (uint64_t)f->process.n_open_files);
        return buf_failed(out);
}
