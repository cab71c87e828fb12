/* SPDX-License-Identifier: MIT */
#include <string.h>

#include "http/internal.h"
#include "lessor/error.h"

static void add_counters(struct http_route_stats *to, const struct counters *from)
{
        for (size_t i = 0; i < HTTP_N_CLASSES; i++)
                to->answers[i] += atomic_load_explicit(&from->answers[i], memory_order_relaxed);
        to->bytes_in += atomic_load_explicit(&from->bytes_in, memory_order_relaxed);
        to->bytes_out += atomic_load_explicit(&from->bytes_out, memory_order_relaxed);
        to->duration_us += atomic_load_explicit(&from->duration_us, memory_order_relaxed);
}

static void name_routes(const struct http_server *server, struct http_route_stats *routes)
{
        for (size_t i = 0; i < server->n_listeners; i++) {
                const struct listener *l = &server->listeners[i];

                for (size_t k = 0; k < l->n_slots; k++) {
                        routes[l->slots[k].counter].listener = l->name;
                        routes[l->slots[k].counter].route = l->slots[k].route->name;
                }
                routes[l->no_route_counter].listener = l->name;
                routes[l->no_route_counter].route = "-";
        }
}

/* The numbers are not read in one instant. */
static size_t at_least_none(int64_t n)
{
        return n > 0 ? (size_t)n : 0;
}

static void add_route(struct http_route_stats *to, const struct http_route_stats *from)
{
        for (size_t i = 0; i < HTTP_N_CLASSES; i++)
                to->answers[i] += from->answers[i];
        to->bytes_in += from->bytes_in;
        to->bytes_out += from->bytes_out;
        to->duration_us += from->duration_us;
}

/* Several doors or paths may bear one name, and a name stands once in what is read of the numbers. */
static size_t merge_names(struct http_route_stats *routes, size_t n)
{
        size_t n_kept = 0, k;

        for (size_t i = 0; i < n; i++) {
                for (k = 0; k < n_kept; k++)
                        if (strcmp(routes[k].listener, routes[i].listener) == 0 &&
                            strcmp(routes[k].route, routes[i].route) == 0)
                                break;
                if (k < n_kept)
                        add_route(&routes[k], &routes[i]);
                else
                        routes[n_kept++] = routes[i];
        }
        return n_kept;
}

int http_server_stats(struct http_server *server, struct lessor_arena *arena, struct http_stats *ret_stats)
{
        struct http_stats stats = {
                .n_routes = server->n_counters,
                .accepted = atomic_load(&server->accepted),
                .refused = atomic_load(&server->refused),
                .timed_out = atomic_load(&server->timed_out),
                .undelivered = atomic_load(&server->n_undelivered),
                .body_memory = atomic_load(&server->body_memory),
        };
        int64_t n_requests = 0, n_parked = 0;

        stats.routes = lessor_arena_array(arena, stats.n_routes, sizeof(*stats.routes));
        if (stats.routes == NULL)
                return LESSOR_E_NOMEM;
        name_routes(server, stats.routes);
        for (size_t i = 0; i < server->options.threads; i++) {
                struct worker *worker = &server->workers[i];

                for (size_t k = 0; k < stats.n_routes; k++)
                        add_counters(&stats.routes[k], &worker->counters[k]);
                n_requests += atomic_load(&worker->n_requests);
                n_parked += atomic_load(&worker->n_parked);
        }
        stats.n_routes = merge_names(stats.routes, stats.n_routes);
        stats.requests = at_least_none(n_requests);
        stats.parked = at_least_none(n_parked);
        pthread_mutex_lock(&server->lock);
        stats.connections = server->n_live;
        pthread_mutex_unlock(&server->lock);
        *ret_stats = stats;
        return 0;
}
