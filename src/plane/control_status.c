/* SPDX-License-Identifier: MIT */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "plane/control_call.h"
#include "plane/control_figures.h"
#include "plane/control_lease_json.h"
#include "wire/relay_shapes.h"

/* How the server is: for people, for Prometheus, and the level of its log. */

static const char *const level_names[] = {"debug", "info", "warning", "error"};
static const struct message_words level_words = {level_names, 4};

struct log_level_body {
        enum log_level level;
};

static const struct message_field log_level_fields[] = {
        FIELD_ENUM(struct log_level_body, level, "level", &level_words),
};
const struct message_table control_log_level_body =
        MESSAGE_TABLE("LogLevel", struct log_level_body, log_level_fields);

static const char *level_now(void)
{
        size_t level = 0;

        while (level < 3 && !log_enabled((enum log_level)level))
                level++;
        return level_names[level];
}

static void answer_level(struct control_call *call)
{
        struct buf json = {0};

        buf_printf(&json, "{\"level\":\"%s\"}", level_now());
        control_answer(call, &json);
}

void control_log_level_get(struct control_call *call, const void *body)
{
        (void)body;
        answer_level(call);
}

void control_log_level_put(struct control_call *call, const void *body)
{
        const struct log_level_body *in = body;

        log_set_level(in->level);
        answer_level(call);
}

/* --- Figures --- */

/* file_read() wants to know a file's size beforehand, which files of /proc do not tell. */
static int read_small(const char *path, struct buf *out)
{
        char text[256];
        FILE *f = fopen(path, "re");
        size_t n;

        if (f == NULL)
                return LESSOR_E_IO;
        n = fread(text, 1, sizeof(text), f);
        fclose(f);
        return n == 0 ? LESSOR_E_IO : buf_append(out, text, n);
}

static void read_process(struct process_figures *ret_process)
{
        struct process_figures p = {.pid = getpid()};
        struct rusage usage;
        _cleanup_(buf_done) struct buf statm = {0};
        const char *resident;
        DIR *dir = opendir("/proc/self/fd");

        /* Pages in all, then those in memory. */
        if (read_small("/proc/self/statm", &statm) == 0 && (resident = strchr(statm.p, ' ')) != NULL)
                p.rss_bytes = strtoll(resident, NULL, 10) * sysconf(_SC_PAGESIZE);
        if (dir != NULL) {
                while (readdir(dir) != NULL)
                        p.n_open_files++;
                p.n_open_files -= 3; /* `.`, `..` and this directory */
                closedir(dir);
        }
        if (getrusage(RUSAGE_SELF, &usage) == 0)
                p.cpu_us = ((int64_t)usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000000 +
                           usage.ru_utime.tv_usec + usage.ru_stime.tv_usec;
        *ret_process = p;
}

static int read_racks(struct control_call *call, struct rack_figures *ret_racks)
{
        const struct rack_plane *plane = call->parts->rack;
        struct lessor_lease_store *store = plane->parts.store;
        struct rack_figures f = {.n_waiting = rack_plane_n_waiting(plane),
                                 .n_transfers = rack_plane_n_transfers(plane)};
        struct lessor_ticket ticket; /* of what is only counted */
        struct lessor_rack_list racks = {0};
        int64_t now_ms = 0;
        int e = lessor_lease_stats(store, &f.store);

        if (e == 0)
                e = lessor_rack_list(store, call->arena, &racks, &ticket);
        if (e == 0)
                e = lessor_lease_now(store, &now_ms);
        if (e < 0)
                return e;
        for (size_t i = 0; i < racks.n; i++)
                f.n_states[rack_state(&racks.items[i], now_ms)]++;
        f.store_check = lessor_lease_check(store);
        webhooks_totals(call->control->webhooks, &f.webhooks);
        *ret_racks = f;
        return 0;
}

/* False when the call was refused. */
static bool read_figures(struct control_call *call, struct figures *ret_figures)
{
        const struct control_parts *parts = call->parts;
        struct figures f = {.version = LESSOR_VERSION, .started_ms = call->control->started_ms};
        int e;

        f.uptime_ms = clock_monotonic_ms() - call->control->started_monotonic_ms;
        f.projection = control_projection(call);
        if (f.projection == NULL)
                return false;
        e = lessor_routing_stats(parts->store, &f.store);
        if (e == 0)
                e = lessor_routing_now(parts->store, &f.now_ms);
        if (e == 0 && parts->http != NULL && *parts->http != NULL)
                e = http_server_stats(*parts->http, call->arena, &f.http);
        f.has_racks = parts->rack != NULL;
        if (e == 0 && f.has_racks)
                e = read_racks(call, &f.racks);
        if (e < 0) {
                control_refuse_error(call, e, NULL, (struct lessor_slice){0});
                return false;
        }
        f.store_check = lessor_routing_check(parts->store);
        read_process(&f.process);
        *ret_figures = f;
        return true;
}

/* --- Status --- */

static void put_store(struct json_writer *w, const struct control_parts *parts, const struct figures *f)
{
        json_key(w, "store");
        json_open_object(w);
        json_member_cstr(w, "kind", parts->store_kind);
        json_member_cstr(w, "data", parts->data);
        json_member_bool(w, "writable", f->store_check == 0);
        if (f->store_check < 0)
                json_member_cstr(w, "problem", lessor_error_text(f->store_check));
        json_key(w, "jobs");
        json_open_object(w);
        for (int state = 0; state < 5; state++)
                json_member_int(w, message_word(&job_state_words, state), (int64_t)f->store.n_jobs[state]);
        json_close_object(w);
        json_member_int(w, "devicesSeen", (int64_t)f->store.n_presence);
        json_member_int(w, "setAside", (int64_t)f->store.n_set_aside);
        json_close_object(w);
}

static void put_sources(struct json_writer *w, const struct control_parts *parts, const struct figures *f)
{
        const struct relay_fixture *fixture = projection_fixture(f->projection);

        json_key(w, "projection");
        json_open_object(w);
        json_member_cstr(w, "source", parts->projection_file == NULL ? "tables" : "file");
        json_member_cstr(w, "file", parts->projection_file);
        json_member_int(w, "sites", (int64_t)fixture->n_sites);
        json_member_int(w, "consents", (int64_t)fixture->n_consents);
        json_member_int(w, "devices", (int64_t)fixture->n_devices);
        json_member_int(w, "rosters", (int64_t)fixture->n_rosters);
        json_member_int(w, "revoked", (int64_t)fixture->n_revoked);
        json_close_object(w);
        json_key(w, "policy");
        json_open_object(w);
        json_member_cstr(w, "source", parts->policy_file == NULL ? "tables" : "file");
        json_member_cstr(w, "file", parts->policy_file);
        json_close_object(w);
}

static void put_racks(struct json_writer *w, const struct control_parts *parts, const struct rack_figures *f)
{
        json_key(w, "rackPlane");
        json_open_object(w);
        json_member_cstr(w, "kind", parts->rack->parts.store_kind);
        json_member_bool(w, "writable", f->store_check == 0);
        if (f->store_check < 0)
                json_member_cstr(w, "problem", lessor_error_text(f->store_check));
        json_key(w, "leases");
        json_open_object(w);
        for (int status = 0; status < LESSOR_N_LEASE_STATUSES; status++)
                json_member_int(w, message_word(&lease_status_words, status),
                                (int64_t)f->store.n_leases[status]);
        json_close_object(w);
        json_member_int(w, "lapsed", (int64_t)f->store.n_lapsed);
        json_key(w, "racks");
        json_open_object(w);
        for (int state = 0; state < N_RACK_STATES; state++)
                json_member_int(w, message_word(&rack_state_words, state), (int64_t)f->n_states[state]);
        json_close_object(w);
        json_member_int(w, "waiting", (int64_t)f->n_waiting);
        json_member_int(w, "capabilities", (int64_t)f->store.n_capabilities);
        json_member_int(w, "environments", (int64_t)f->store.n_environments);
        json_member_int(w, "setAside", (int64_t)f->store.n_set_aside);
        json_close_object(w);
}

static void put_http(struct json_writer *w, const struct control_parts *parts, const struct figures *f)
{
        size_t n = parts->n_listeners == NULL ? 0 : *parts->n_listeners;

        json_key(w, "http");
        json_open_object(w);
        json_key(w, "listeners");
        json_open_array(w);
        for (size_t i = 0; i < n; i++)
                json_put_cstr(w, (*parts->listeners)[i]);
        json_close_array(w);
        json_member_int(w, "connections", (int64_t)f->http.connections);
        json_member_int(w, "requests", (int64_t)f->http.requests);
        json_member_int(w, "parked", (int64_t)f->http.parked);
        json_member_int(w, "accepted", (int64_t)f->http.accepted);
        json_member_int(w, "refused", (int64_t)f->http.refused);
        json_close_object(w);
}

static void put_process(struct json_writer *w, const struct process_figures *p)
{
        json_key(w, "process");
        json_open_object(w);
        json_member_int(w, "pid", p->pid);
        json_member_int(w, "rssBytes", p->rss_bytes);
        json_member_int(w, "openFiles", p->n_open_files);
        json_member_int(w, "cpuMs", p->cpu_us / 1000);
        json_close_object(w);
}

void control_status(struct control_call *call, const void *body)
{
        struct figures f;
        struct buf json = {0};
        struct json_writer w;

        (void)body;
        if (!read_figures(call, &f))
                return;
        json_writer_init(&w, &json);
        json_open_object(&w);
        json_member_cstr(&w, "version", f.version);
        json_member_int(&w, "startedAt", f.started_ms);
        json_member_int(&w, "uptimeMs", f.uptime_ms);
        json_member_int(&w, "now", f.now_ms);
        json_member_cstr(&w, "logLevel", level_now());
        put_store(&w, call->parts, &f);
        put_sources(&w, call->parts, &f);
        if (f.has_racks)
                put_racks(&w, call->parts, &f.racks);
        put_http(&w, call->parts, &f);
        put_process(&w, &f.process);
        json_close_object(&w);
        control_answer(call, &json);
}

void control_metrics(struct control_call *call, const void *body)
{
        struct figures f;
        struct buf text = {0};

        (void)body;
        if (!read_figures(call, &f))
                return;
        figures_write(&f, &text);
        http_answer(call->http, 200, "text/plain; version=0.0.4; charset=utf-8", &text);
}
