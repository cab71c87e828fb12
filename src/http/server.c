/* SPDX-License-Identifier: MIT */
#include "http/server.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/size.h"
#include "http/internal.h"
#include "http/problem.h"
#include "lessor/error.h"

/* Between two looks at what is left while draining; an event (the last connection's end) comes sooner. */
#define DRAIN_LOOK_MS 20
/* What is left after the deadline is cut off, and gets this long to notice. */
#define ABORT_MS 1000

void http_options_init(struct http_options *options)
{
        *options = (struct http_options){
                .max_connections = 16000,
                .max_per_address = 1000,
                .max_header_bytes = 8192,
                .max_body_memory = 268435456,
                .idle_ms = 75000,
                .header_ms = 10000,
                .body_ms = 30000,
                .body_rate = 65536,
        };
}

/* Zero means the default. */
static void options_complete(struct http_options *o)
{
        struct http_options d;
        long n = sysconf(_SC_NPROCESSORS_ONLN);

        http_options_init(&d);
        if (o->threads == 0)
                o->threads = n > 0 ? (unsigned)n : 1;
        if (o->max_connections == 0)
                o->max_connections = d.max_connections;
        if (o->max_per_address == 0)
                o->max_per_address = d.max_per_address;
        if (o->max_header_bytes == 0)
                o->max_header_bytes = d.max_header_bytes;
        if (o->max_body_memory == 0)
                o->max_body_memory = d.max_body_memory;
        if (o->idle_ms <= 0)
                o->idle_ms = d.idle_ms;
        if (o->header_ms <= 0)
                o->header_ms = d.header_ms;
        if (o->body_ms <= 0)
                o->body_ms = d.body_ms;
        if (o->body_rate == 0)
                o->body_rate = d.body_rate;
}

static int slots_new(struct listener *l, const struct http_route *routes, unsigned *n_counters)
{
        size_t n = 0;

        while (routes[n].handler != NULL)
                n++;
        l->slots = calloc(n + 1, sizeof(*l->slots));
        if (l->slots == NULL)
                return LESSOR_E_NOMEM;
        for (size_t i = 0; i < n; i++)
                route_slot_init(&l->slots[i], &routes[i], (*n_counters)++);
        l->n_slots = n;
        l->no_route_counter = (*n_counters)++;
        return 0;
}

static int listener_copy(struct http_server *server, struct listener *l, const struct http_listen *from)
{
        l->event = KEEPER_LISTENER;
        l->server = server;
        l->fd = -1;
        l->tls = from->tls;
        l->context = from->context;
        l->address = strdup(from->address);
        l->name = strdup(from->name);
        if (l->address == NULL || l->name == NULL)
                return LESSOR_E_NOMEM;
        if (from->allow_from != NULL) {
                int r = networks_read(from->allow_from, &l->allowed, &l->n_allowed);

                if (r < 0)
                        return r;
        }
        return slots_new(l, from->routes, &server->n_counters);
}

static int listeners_new(struct http_server *server, const struct http_options *options,
                         struct lessor_arena *arena, const char **ret_problem)
{
        int r;

        server->listeners = calloc(options->n_listen + 1, sizeof(*server->listeners));
        if (server->listeners == NULL)
                return LESSOR_E_NOMEM;
        for (size_t i = 0; i < options->n_listen; i++) {
                server->n_listeners = i + 1;
                r = listener_copy(server, &server->listeners[i], &options->listen[i]);
                if (r == LESSOR_E_INVALID)
                        return problem(arena, ret_problem, r, "\"%s\" is no list of networks",
                                       options->listen[i].allow_from);
                if (r < 0)
                        return r;
        }
        return 0;
}

static int tables_new(struct http_server *server)
{
        int r;

        server->addresses = address_table_new();
        if (server->addresses == NULL)
                return LESSOR_E_NOMEM;
        server->pool = pool_new();
        if (server->pool == NULL)
                return LESSOR_E_NOMEM;
        r = workers_new(server);
        return r < 0 ? r : keeper_new(server, &server->keeper);
}

static int tls_open(struct http_server *server, const struct http_options *options,
                    struct lessor_arena *arena, const char **ret_problem)
{
        bool wanted = false;

        for (size_t i = 0; i < server->n_listeners; i++)
                wanted |= server->listeners[i].tls;
        if (!wanted)
                return 0;
        if (options->tls_cert == NULL || options->tls_key == NULL)
                return problem(arena, ret_problem, LESSOR_E_INVALID,
                               "TLS needs a certificate and a key: give both");
        server->tls_cert = strdup(options->tls_cert);
        server->tls_key = strdup(options->tls_key);
        if (server->tls_cert == NULL || server->tls_key == NULL)
                return LESSOR_E_NOMEM;
        return tls_new(server->tls_cert, server->tls_key, arena, &server->tls, ret_problem);
}

static struct http_server *server_alloc(const struct http_options *options)
{
        struct http_server *server = calloc(1, sizeof(*server));

        if (server == NULL)
                return NULL;
        server->options = *options;
        server->options.listen = NULL;
        server->options.tls_cert = server->options.tls_key = NULL;
        options_complete(&server->options);
        pthread_mutex_init(&server->lock, NULL);
        pthread_cond_init(&server->emptied, NULL);
        return server;
}

int http_server_new(const struct http_options *options, struct lessor_arena *arena,
                    struct http_server **ret_server, const char **ret_problem)
{
        struct http_server *server = server_alloc(options);
        int r = server == NULL ? LESSOR_E_NOMEM : 0;

        *ret_problem = NULL;
        if (r == 0)
                r = listeners_new(server, options, arena, ret_problem);
        if (r == 0)
                r = tables_new(server);
        if (r == 0)
                r = tls_open(server, options, arena, ret_problem);
        for (size_t i = 0; r == 0 && i < server->n_listeners; i++)
                r = listener_open(&server->listeners[i], arena, ret_problem);
        if (r < 0) {
                if (*ret_problem == NULL)
                        *ret_problem = lessor_error_text(r);
                http_server_free(server);
                return r;
        }
        *ret_server = server;
        return 0;
}

int http_server_start(struct http_server *server)
{
        sigset_t all, before;
        int r;

        sigfillset(&all); /* signals are for the program's own thread, not for ours */
        pthread_sigmask(SIG_SETMASK, &all, &before);
        r = workers_start(server);
        if (r == 0)
                r = keeper_start(server->keeper);
        pthread_sigmask(SIG_SETMASK, &before, NULL);
        server->started = r == 0;
        return r;
}

unsigned http_server_port(const struct http_server *server, size_t index)
{
        return index < server->n_listeners ? server->listeners[index].port : 0;
}

int http_server_reload_tls(struct http_server *server, struct lessor_arena *arena, const char **ret_problem)
{
        *ret_problem = NULL;
        if (server->tls == NULL)
                return 0;
        return tls_reload(server->tls, server->tls_cert, server->tls_key, arena, ret_problem);
}

/* Drains until nobody is connected or the time is over. Returns how many are left. */
static size_t drain_until(struct http_server *server, int64_t until_ms, bool abort)
{
        size_t n;

        for (;;) {
                struct timespec look;
                int64_t left_ms = until_ms - clock_monotonic_ms();

                connections_drain(server, abort);
                pthread_mutex_lock(&server->lock);
                n = server->n_live;
                if (n > 0 && left_ms > 0) {
                        clock_gettime(CLOCK_REALTIME, &look);
                        look.tv_nsec += DRAIN_LOOK_MS * 1000000L;
                        look.tv_sec += look.tv_nsec / 1000000000L;
                        look.tv_nsec %= 1000000000L;
                        pthread_cond_timedwait(&server->emptied, &server->lock, &look);
                        n = server->n_live;
                }
                pthread_mutex_unlock(&server->lock);
                if (n == 0 || left_ms <= 0)
                        return n;
        }
}

int http_server_drain(struct http_server *server, int64_t deadline_ms)
{
        int64_t until_ms = clock_monotonic_ms() + deadline_ms;
        size_t left;

        if (server->stopped)
                return 0;
        server->stopped = true;
        atomic_store(&server->draining, true);
        keeper_stop_listening(server->keeper);
        left = drain_until(server, until_ms, false);
        atomic_store(&server->aborting, true);
        /* MHD does not stop while a connection is suspended. */
        drain_until(server, clock_monotonic_ms() + ABORT_MS, true);
        workers_stop(server);
        server->keeper = keeper_free(server->keeper);
        return left > 0 ? LESSOR_E_TIMEOUT : 0;
}

struct http_server *http_server_free(struct http_server *server)
{
        if (server == NULL)
                return NULL;
        http_server_drain(server, 0);
        keeper_free(server->keeper);
        pool_free(server->pool);
        for (size_t i = 0; i < server->n_listeners; i++) {
                struct listener *l = &server->listeners[i];

                listener_close(l);
                free(l->address);
                free(l->name);
                free(l->slots);
                free(l->allowed);
        }
        free(server->listeners);
        connections_free(server);
        address_table_free(server->addresses);
        workers_free(server);
        tls_free(server->tls);
        free(server->tls_cert);
        free(server->tls_key);
        pthread_cond_destroy(&server->emptied);
        pthread_mutex_destroy(&server->lock);
        free(server);
        return NULL;
}
