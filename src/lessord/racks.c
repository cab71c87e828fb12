/* SPDX-License-Identifier: MIT */
#include "lessord/racks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/macro.h"
#include "leasing/memory.h"
#include "leasing/sqlite.h"
#include "objects/fs.h"

/* A lease that is claimed after a sweep may lapse before what that sweep said was due next. */
#define SWEEP_MS 1000

static void freep(char **text)
{
        free(*text);
}

static int explain(struct buf *problem, int error, const char *what, const char *which)
{
        if (problem->n == 0)
                buf_printf(problem, "%s %s: %s", what, which, lessor_error_text(error));
        return error;
}

/* --- Parts --- */

static void lease_options(const struct rack_settings *s, struct lessor_lease_options *ret_options)
{
        struct lessor_lease_options o = LESSOR_LEASE_OPTIONS;

        o.visibility_ms = s->visibility_ms;
        o.healthy_ms = s->healthy_ms;
        o.rotation_ms = s->rotation_ms;
        o.reoffer_ms = s->reoffer_ms;
        o.grace_ms = s->grace_ms;
        o.capability_ms = s->capability_ms;
        o.retention_ms = s->retention_ms;
        o.rack_expiry_ms = s->expiry_ms;
        o.interleave = s->fair;
        o.heed_health = s->heed_health;
        *ret_options = o;
}

static int open_store(struct racks *r, const struct options *o, struct clock *clock, struct buf *problem)
{
        const struct lessor_lease_listener listener = {.context = r->events, .happened = rack_events_tell};
        struct lessor_lease_options options;
        int e;

        /* 0 means the store's default to it, and no mark to whoever said it. */
        const struct lease_sqlite_options disk = {
                .low_space_bytes = o->low_disk_bytes == 0 ? 1 : (uint64_t)o->low_disk_bytes};

        lease_options(&o->rack, &options);
        if (strcmp(o->store, "memory") == 0)
                e = lease_memory_store_new(&options, clock, &listener, &r->store);
        else
                e = lease_sqlite_store_new(o->data, &options, clock, &listener, &disk, &r->store, problem);
        return e < 0 ? explain(problem, e, "--data: cannot keep leases in", o->data) : 0;
}

static int open_files(struct racks *r, const struct options *o, struct clock *clock, struct buf *problem)
{
        const struct object_fs_options options = {.clock = clock, .low_space_bytes = o->low_disk_bytes};
        const struct log_files_options logs = {.low_space_bytes = -1};
        _cleanup_(freep) char *objects_path = NULL, *logs_path = NULL;
        int e;

        if (asprintf(&objects_path, "%s/objects", o->data) < 0) {
                objects_path = NULL;
                return LESSOR_E_NOMEM;
        }
        if (asprintf(&logs_path, "%s/logs", o->data) < 0) {
                logs_path = NULL;
                return LESSOR_E_NOMEM;
        }
        e = object_fs_open(objects_path, &options, &r->objects);
        if (e < 0)
                return explain(problem, e, "--data: cannot use", objects_path);
        e = log_files_open(logs_path, &logs, &r->logs);
        return e < 0 ? explain(problem, e, "--data: cannot use", logs_path) : 0;
}

/* The parts of "A,B" in the arena; none of an absent text. Returns 0 or LESSOR_E_NOMEM. */
static int split(const char *text, struct lessor_arena *arena, const struct lessor_slice **ret_items,
                 size_t *ret_n)
{
        struct lessor_slice *items;
        size_t n = 1;

        *ret_items = NULL;
        *ret_n = 0;
        if (text == NULL)
                return 0;
        for (const char *p = text; *p != '\0'; p++)
                n += *p == ',';
        items = lessor_arena_array(arena, n, sizeof(*items));
        if (items == NULL)
                return LESSOR_E_NOMEM;
        for (size_t i = 0; i < n; i++) {
                size_t len = strcspn(text, ",");

                items[i] = (struct lessor_slice){text, len};
                text += len + 1;
        }
        *ret_items = items;
        *ret_n = n;
        return 0;
}

static int open_plane(struct racks *r, const struct options *o, struct lessor_arena *arena)
{
        const struct rack_settings *s = &o->rack;
        const struct rack_parts parts = {.store = r->store,
                                         .store_kind = o->store,
                                         .objects = r->objects,
                                         .logs = r->logs,
                                         .log_watch = r->log_watch,
                                         .events = r->events};
        struct rack_options options = {.window_ms = s->window_ms,
                                       .poll_ms = s->poll_ms,
                                       .poll_max_ms = s->poll_max_ms,
                                       .policy_recheck_ms = s->policy_recheck_ms,
                                       .watch_window_ms = s->watch_window_ms,
                                       .watch_poll_ms = s->watch_poll_ms,
                                       .origin = lessor_slice_of(s->origin),
                                       .e3_version = lessor_slice_of(s->version)};
        int e;

        e = split(s->repos, arena, &options.filter.repos, &options.filter.n_repos);
        if (e == 0)
                e = split(s->sizes, arena, &options.filter.compute_sizes, &options.filter.n_compute_sizes);
        return e < 0 ? e : rack_plane_new(&options, &parts, &r->plane);
}

static int open_house(struct racks *r, const struct options *o)
{
        const struct housekeeper_parts parts = {.store = r->store,
                                                .objects = r->objects,
                                                .logs = r->logs,
                                                .log_watch = r->log_watch,
                                                .transfers = r->plane->transfers,
                                                .events = r->events};

        return housekeeper_new(&(struct housekeeper_options){.collect_ms = o->rack.collect_ms,
                                                             .collect_grace_ms = o->rack.collect_grace_ms,
                                                             .retention_ms = o->rack.retention_ms},
                               &parts, &r->house);
}

/* --- Life --- */

int racks_open(struct racks *r, const struct options *options, struct clock *clock,
               struct lessor_arena *arena, struct buf *ret_problem)
{
        int e;

        if (!options->rack.on)
                return 0;
        r->events = rack_events_new();
        r->log_watch = log_watch_new();
        if (r->events == NULL || r->log_watch == NULL)
                return LESSOR_E_NOMEM;
        e = rack_events_add(r->events, log_watch_heard, r->log_watch);
        if (e == 0)
                e = open_store(r, options, clock, ret_problem);
        if (e == 0)
                e = open_files(r, options, clock, ret_problem);
        if (e == 0)
                e = open_plane(r, options, arena);
        return e < 0 ? e : open_house(r, options);
}

void racks_close_store(struct racks *r)
{
        housekeeper_stop(r->house);
        r->store = lessor_lease_store_free(r->store);
}

void racks_done(struct racks *r)
{
        racks_close_store(r);
        r->house = housekeeper_free(r->house);
        r->plane = rack_plane_free(r->plane);
        r->objects = lessor_object_store_free(r->objects);
        r->logs = log_files_free(r->logs);
        r->log_watch = log_watch_free(r->log_watch);
        r->events = rack_events_free(r->events);
}

/* --- Keeping house --- */

int racks_check(void *racks)
{
        const struct racks *r = racks;

        return r->store == NULL ? 0 : lessor_lease_check(r->store);
}

static void report(const struct lessor_lease_swept *swept)
{
        if (swept->n_lost > 0 || swept->n_expired > 0)
                log_info("leases-lost", LOG_INT("lost", (int64_t)swept->n_lost),
                         LOG_INT("expired", (int64_t)swept->n_expired));
        if (swept->n_racks > 0)
                log_info("racks-expired", LOG_INT("racks", (int64_t)swept->n_racks));
}

/* Returns when there is something to do again, by the store's clock and by the monotonic one. */
static int64_t sweep(struct racks *r)
{
        struct lessor_lease_swept swept = {0};
        int64_t next_ms = INT64_MAX, now_ms, wait_ms = SWEEP_MS;
        struct lessor_ticket ticket;

        if (lessor_lease_sweep(r->store, &swept, &next_ms, &ticket) == 0)
                report(&swept);
        if (next_ms != INT64_MAX && lessor_lease_now(r->store, &now_ms) == 0 && next_ms - now_ms < wait_ms)
                wait_ms = next_ms > now_ms ? next_ms - now_ms : 1;
        return clock_monotonic_ms() + wait_ms;
}

void racks_sweep(void *racks)
{
        struct racks *r = racks;

        if (r->store != NULL)
                sweep(r);
}

int64_t racks_tick(struct racks *r, int64_t most_ms)
{
        int64_t wait_ms;

        if (r->store == NULL)
                return most_ms;
        if (r->next_sweep_ms <= clock_monotonic_ms())
                r->next_sweep_ms = sweep(r);
        wait_ms = r->next_sweep_ms - clock_monotonic_ms();
        return wait_ms < 0 ? 0 : wait_ms < most_ms ? wait_ms : most_ms;
}
