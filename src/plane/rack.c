/* SPDX-License-Identifier: MIT */
#include "plane/rack.h"

#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "base/macro.h"
#include "plane/rack_call.h"
#include "plane/rack_data.h"

/* --- Events --- */

static bool repo_is_granted(const struct lessor_lease_filter *filter, struct lessor_slice repo)
{
        for (size_t i = 0; i < filter->n_repos; i++)
                if (lessor_slice_equal(filter->repos[i], repo))
                        return true;
        return filter->n_repos == 0;
}

/* What may have to do with a lease that a watch names. */
static bool may_stop(enum lessor_lease_event_kind kind)
{
        return kind != LESSOR_EVENT_CLAIMABLE && kind != LESSOR_EVENT_EXTENDED &&
               kind != LESSOR_EVENT_COMPLETED && kind != LESSOR_EVENT_DISCARDED;
}

static void on_event(void *context, const struct lessor_lease_event *event)
{
        struct rack_plane *plane = context;

        switch (event->kind) {
        case LESSOR_EVENT_CLAIMABLE:
                if (repo_is_granted(&plane->options.filter, event->name.repo))
                        waiting_wake_one(plane->waiting, &(struct place){PLACE_TIER, .a = event->tier});
                break;
        case LESSOR_EVENT_RACK:
                waiting_wake_all(plane->waiting, &(struct place){PLACE_RACK, .a = event->rack_id});
                break;
        case LESSOR_EVENT_POLICY:
                waiting_wake_all(plane->waiting, &(struct place){PLACE_RACKS});
                break;
        default:
                if (may_stop(event->kind))
                        waiting_wake_all(plane->waiting, &(struct place){PLACE_LEASE, event->name.repo,
                                                                         event->name.lease_id});
                break;
        }
}

/* --- Routes --- */

/* One route an endpoint, then what is not for endpoints, then the end. */
static struct http_route *make_routes(struct rack_plane *plane)
{
        const struct http_route others[] = {
                {.method = "PUT",
                 .path = RACK_DATA_PATH "*",
                 .handler = rack_data_put,
                 .body_limit = LIMIT_RACK_OBJECT_BYTES,
                 .name = "rack-data-put",
                 .summary = "Send an object, by its capability URL",
                 .context = plane,
                 .gate = &rack_data_put_gate,
                 .is_secret = true},
                {.path = RACK_DATA_PATH "*",
                 .handler = rack_data_get,
                 .name = "rack-data",
                 .summary = "Fetch an object, by its capability URL",
                 .context = plane,
                 .gate = &rack_data_gate,
                 .is_secret = true},
                {.path = "/api/rack/*",
                 .handler = rack_handle_unknown,
                 .body_limit = LIMIT_RACK_BODY,
                 .name = "rack-unknown",
                 .summary = "There is nothing else here",
                 .context = plane},
        };
        struct http_route *routes = calloc(rack_n_endpoints + ARRAY_SIZE(others) + 1, sizeof(*routes));

        if (routes == NULL)
                return NULL;
        for (size_t i = 0; i < rack_n_endpoints; i++)
                routes[i] = (struct http_route){.method = "POST",
                                                .path = rack_endpoints[i].path,
                                                .handler = rack_handle,
                                                .body_limit = rack_endpoints[i].body_limit,
                                                .name = rack_endpoints[i].name,
                                                .summary = rack_endpoints[i].summary,
                                                .context = plane,
                                                .gate = &rack_gate};
        memcpy(routes + rack_n_endpoints, others, sizeof(others));
        return routes;
}

static bool options_are_valid(const struct rack_options *o)
{
        return o->window_ms >= 1 && o->window_ms <= RACK_WINDOW_MOST_MS && o->poll_ms >= 1 &&
               o->policy_recheck_ms >= 0 && o->watch_window_ms >= 1 &&
               o->watch_window_ms <= RACK_WATCH_WINDOW_MOST_MS && o->watch_poll_ms >= 1;
}

int rack_plane_new(const struct rack_options *options, const struct rack_parts *parts,
                   struct rack_plane **ret_plane)
{
        struct rack_plane *plane;
        int e;

        if (!options_are_valid(options))
                return LESSOR_E_INVALID;
        plane = calloc(1, sizeof(*plane));
        if (plane == NULL)
                return LESSOR_E_NOMEM;
        plane->options = *options;
        plane->parts = *parts;
        plane->waiting = waiting_new();
        plane->closures = closure_cache_new(parts->objects);
        plane->transfers = transfers_new();
        plane->routes = make_routes(plane);
        e = plane->waiting == NULL || plane->closures == NULL || plane->transfers == NULL ||
                            plane->routes == NULL
                    ? LESSOR_E_NOMEM
                    : rack_events_add(parts->events, on_event, plane);
        if (e < 0) {
                rack_plane_free(plane);
                return e;
        }
        *ret_plane = plane;
        return 0;
}

struct rack_plane *rack_plane_free(struct rack_plane *plane)
{
        if (plane == NULL)
                return NULL;
        waiting_free(plane->waiting);
        closure_cache_free(plane->closures);
        transfers_free(plane->transfers);
        free(plane->routes);
        free(plane);
        return NULL;
}

const struct http_route *rack_routes(const struct rack_plane *plane)
{
        return plane->routes;
}

size_t rack_plane_n_waiting(const struct rack_plane *plane)
{
        return waiting_count(plane->waiting);
}

size_t rack_plane_n_transfers(const struct rack_plane *plane)
{
        return transfers_count(plane->transfers);
}
