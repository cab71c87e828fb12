/* SPDX-License-Identifier: MIT */
#include "lessord/server.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/macro.h"
#include "http/server.h"
#include "lessor/error.h"
#include "lessord/descriptors.h"
#include "lessord/racks.h"
#include "plane/control.h"
#include "plane/redirect.h"
#include "plane/relay.h"
#include "plane/relay_hooks.h"
#include "routing/directory/source.h"
#include "routing/memory.h"
#include "routing/sqlite.h"

#define DRAIN_MS          8000
#define SIGNER_TIMEOUT_MS 2000

/* All parts of a running server, in the order in which they are made. server_done takes down what is there.
 */
struct server {
        const struct options *options;
        struct buf *problem;
        struct lessor_arena *arena;
        struct clock *store_clock, *wall_clock;
        bool clock_is_manual; /* time moves only when a test says so, and then nothing sweeps by itself */
        struct parking_lot *lot;
        struct lessor_routing_store *store;
        struct projection_cell projections;
        struct policy_cell policies;
        bool has_cells;
        struct directory *directory; /* NULL when both projection and policy come from files */
        struct source *projection_source, *policy_source; /* NULL: the built-in tables */
        struct pairing_table *pairings;
        struct grant_author author;
        struct racks racks;
        struct relay *relay;
        const struct http_route
                *routes; /* of the relay's listeners: the racks' and the relay's; in the arena */
        struct control *control;
        const char *const *addresses; /* of the relay's listeners, as people read them; in the arena */
        struct http_server *http;
        int64_t n_connections; /* that there may be: what was asked for, or what open files allow */
};

/* --- Parts --- */

static int explain(struct server *s, int error, const char *what, const char *which)
{
        if (s->problem->n == 0)
                buf_printf(s->problem, "%s %s: %s", what, which, lessor_error_text(error));
        return error;
}

static int explain_text(struct server *s, int error, const char *problem)
{
        if (s->problem->n == 0)
                buf_text(s->problem, problem == NULL ? lessor_error_text(error) : problem);
        return error;
}

static void on_churn(void *context, const struct lessor_churn *churn)
{
        (void)context;
        log_warning("site-does-not-seal", LOG_TEXT("site", churn->site_id), LOG_TEXT("owner", churn->owner),
                    LOG_INT("expiries", churn->expiries), LOG_INT("window_ms", churn->window_ms));
}

static void choose_clocks(struct server *s)
{
        struct clock *manual = test_clock();

        s->clock_is_manual = manual != NULL;
        s->store_clock = manual != NULL ? manual : clock_steady();
        s->wall_clock = manual != NULL ? manual : clock_wall();
}

static bool in_memory(const struct server *s)
{
        return strcmp(s->options->store, "memory") == 0;
}

static int open_store(struct server *s)
{
        const struct lessor_routing_listener listener = {.context = s->lot,
                                                         .awaiting = relay_on_awaiting,
                                                         .finished = relay_on_finished,
                                                         .churn = on_churn};
        /* 0 means the store's default to it, and no mark to whoever said it. */
        const struct sqlite_store_options options = {
                .low_space_bytes =
                        s->options->low_disk_bytes == 0 ? 1 : (uint64_t)s->options->low_disk_bytes};
        int e;

        if (mkdir(s->options->data, 0700) < 0 && errno != EEXIST) {
                buf_printf(s->problem, "--data: cannot make %s: %s", s->options->data, strerror(errno));
                return LESSOR_E_IO;
        }
        if (in_memory(s))
                e = memory_store_new(s->store_clock, &listener, &s->store);
        else
                e = sqlite_store_new(s->options->data, s->store_clock, &listener, &options, &s->store,
                                     s->problem);
        return e < 0 ? explain(s, e, "--data: cannot use", s->options->data) : 0;
}

static int open_source(struct server *s, const char *path, const char *option,
                       int (*open)(const char *path, void *cell, struct source **ret_source), void *cell,
                       struct source **ret_source)
{
        int e = open(path, cell, ret_source);

        if (e == 0)
                e = source_reload(*ret_source);
        if (e < 0)
                buf_printf(s->problem, "%s: cannot use %s: %s; the log says where", option, path,
                           lessor_error_text(e));
        return e;
}

static int open_projection(const char *path, void *cell, struct source **ret_source)
{
        return source_new_projection(path, cell, ret_source);
}

static int open_policy(const char *path, void *cell, struct source **ret_source)
{
        return source_new_policy(path, cell, ret_source);
}

/* Sites, consents, devices and rosters: from files, or from the built-in tables. */
static int open_control_plane(struct server *s, const char *database)
{
        const struct options *o = s->options;
        int e = 0;

        projection_cell_init(&s->projections);
        policy_cell_init(&s->policies);
        s->has_cells = true;
        if (o->projection != NULL)
                e = open_source(s, o->projection, "--projection", open_projection, &s->projections,
                                &s->projection_source);
        if (e == 0 && o->policy != NULL)
                e = open_source(s, o->policy, "--policy", open_policy, &s->policies, &s->policy_source);
        if (e == 0 && (o->projection == NULL || o->policy == NULL)) {
                e = directory_open(database, o->projection == NULL ? &s->projections : NULL,
                                   o->policy == NULL ? &s->policies : NULL, &s->directory, s->problem);
                if (e < 0)
                        explain(s, e, "cannot use the tables in", database);
        }
        return e;
}

static int open_signer(struct server *s)
{
        const struct options *o = s->options;
        const char *problem = NULL;
        int e = 0;

        s->author.policy = &s->policies;
        if (o->grant_key != NULL)
                e = signer_open_file(o->grant_key, s->arena, &s->author.signer, &problem);
        else if (o->grant_signer != NULL)
                e = signer_open_socket(o->grant_signer, SIGNER_TIMEOUT_MS, &s->author.signer);
        if (e < 0 && o->grant_key != NULL)
                buf_printf(s->problem, "--grant-key: %s", problem == NULL ? lessor_error_text(e) : problem);
        return e < 0 ? explain(s, e, "--grant-signer: cannot use", o->grant_signer) : 0;
}

static int open_relay(struct server *s)
{
        const struct options *o = s->options;
        const struct relay_options options = {.base_path = o->base_path,
                                              .lease_ms = o->lease_ms,
                                              .verification_url = lessor_slice_of(o->verification_url),
                                              .update_offer = lessor_slice_of(o->update_offer),
                                              .daemon_floor = lessor_slice_of(o->daemon_floor),
                                              .grants = o->grants && s->author.signer != NULL,
                                              .satisfiable = o->satisfiable,
                                              .debug = o->debug};
        const struct relay_parts parts = {.store = s->store,
                                          .projections = &s->projections,
                                          .author = &s->author,
                                          .pairings = s->pairings,
                                          .lot = s->lot,
                                          .wall = s->wall_clock,
                                          .also_ready = racks_check,
                                          .also_ready_context = &s->racks};

        return relay_new(&options, &parts, &s->relay);
}

static int open_racks(struct server *s)
{
        int e = racks_open(&s->racks, s->options, s->store_clock, s->arena, s->problem);

        if (e == 0 && s->clock_is_manual)
                test_clock_followed_by(racks_sweep, &s->racks);
        return e;
}

static size_t count_routes(const struct http_route *routes)
{
        size_t n = 0;

        while (routes[n].handler != NULL)
                n++;
        return n;
}

/* One table for both planes: the racks' first, since the relay takes all that is left. */
static int join_routes(struct server *s)
{
        const struct http_route *relay = relay_routes(s->relay), *racks;
        size_t n_relay = count_routes(relay), n_racks;
        struct http_route *joined;

        s->routes = relay;
        if (s->racks.plane == NULL)
                return 0;
        racks = rack_routes(s->racks.plane);
        n_racks = count_routes(racks);
        joined = lessor_arena_array(s->arena, n_racks + n_relay + 1, sizeof(*joined));
        if (joined == NULL)
                return LESSOR_E_NOMEM;
        memcpy(joined, racks, n_racks * sizeof(*joined));
        memcpy(joined + n_racks, relay, n_relay * sizeof(*joined));
        s->routes = joined;
        return 0;
}

static int open_control(struct server *s)
{
        const struct options *o = s->options;
        const struct control_parts parts = {.store = s->store,
                                            .store_kind = o->store,
                                            .data = o->data,
                                            .directory = s->directory,
                                            .pairings = s->pairings,
                                            .projections = &s->projections,
                                            .policies = &s->policies,
                                            .projection_file = o->projection,
                                            .projection_source = s->projection_source,
                                            .policy_file = o->policy,
                                            .http = &s->http,
                                            .listeners = &s->addresses,
                                            .n_listeners = &o->n_listen,
                                            .rack = s->racks.plane,
                                            .token_file = o->control_token};

        return control_new(&parts, s->problem, &s->control);
}

/* The control API: the socket in the data directory, and TCP when asked for. */
static int add_control_doors(struct server *s, struct http_listen *listen, size_t *n)
{
        const struct options *o = s->options;
        struct lessor_slice socket;
        char *path;
        int e;

        if (asprintf(&path, "unix:%s/control.sock", o->data) < 0)
                return LESSOR_E_NOMEM;
        e = lessor_arena_copy(s->arena, lessor_slice_of(path), &socket);
        free(path);
        if (e < 0)
                return e;
        listen[(*n)++] = (struct http_listen){.address = socket.p,
                                              .routes = control_routes(s->control),
                                              .context = s->control,
                                              .name = "control"};
        if (o->control_listen != NULL)
                listen[(*n)++] = (struct http_listen){.address = o->control_listen,
                                                      .tls = o->tls_cert != NULL,
                                                      .routes = control_token_routes(s->control),
                                                      .context = s->control,
                                                      .name = "control-tcp"};
        return 0;
}

static int open_http(struct server *s)
{
        const struct options *o = s->options;
        struct http_options options;
        struct http_listen *listen = lessor_arena_array(s->arena, o->n_listen + 3, sizeof(*listen));
        const char *problem = NULL;
        size_t n_listen = o->n_listen;
        int e;

        if (listen == NULL)
                return LESSOR_E_NOMEM;
        for (size_t i = 0; i < o->n_listen; i++)
                listen[i] = (struct http_listen){.address = o->listen[i],
                                                 .tls = o->tls_cert != NULL,
                                                 .routes = s->routes,
                                                 .context = s->relay,
                                                 .name = "relay",
                                                 .allow_from = o->allow_from};
        if (o->redirect_listen != NULL)
                listen[n_listen++] = (struct http_listen){
                        .address = o->redirect_listen, .routes = redirect_routes, .name = "redirect"};
        e = add_control_doors(s, listen, &n_listen);
        if (e < 0)
                return e;
        http_options_init(&options);
        options.listen = listen;
        options.n_listen = n_listen;
        if (o->threads > 0)
                options.threads = (unsigned)o->threads;
        options.tls_cert = o->tls_cert;
        options.tls_key = o->tls_key;
        options.max_connections = (unsigned)s->n_connections;
        options.max_per_address = (unsigned)o->max_connections_per_address;
        e = http_server_new(&options, s->arena, &s->http, &problem);
        return e < 0 ? explain_text(s, e, problem) : 0;
}

static int server_open(struct server *s)
{
        char *database = NULL;
        int e = 0;

        s->arena = lessor_arena_new();
        s->lot = parking_lot_new();
        if (s->arena == NULL || s->lot == NULL)
                return LESSOR_E_NOMEM;
        choose_clocks(s);
        e = open_store(s);
        if (e == 0) {
                if (asprintf(&database, "%s/" SQLITE_STORE_FILE, s->options->data) < 0)
                        return LESSOR_E_NOMEM;
                e = open_control_plane(s, in_memory(s) ? ":memory:" : database);
                if (e == 0)
                        e = pairing_open(in_memory(s) ? ":memory:" : database, &s->pairings, s->problem);
                free(database);
        }
        if (e == 0)
                e = open_signer(s);
        if (e == 0)
                e = open_racks(s);
        if (e == 0)
                e = open_relay(s);
        if (e == 0)
                e = join_routes(s);
        if (e == 0)
                e = open_control(s);
        if (e == 0)
                e = open_http(s);
        return e;
}

static void server_done(struct server *s)
{
        /* Nobody asks the stores any more, then they end, which tells every answer that still waits. */
        if (s->http != NULL)
                http_server_drain(s->http, 0);
        s->store = lessor_routing_store_free(s->store);
        racks_close_store(&s->racks);
        s->http = http_server_free(s->http);
        s->control = control_free(s->control);
        s->relay = relay_free(s->relay);
        racks_done(&s->racks);
        s->author.signer = signer_free(s->author.signer);
        s->pairings = pairing_free(s->pairings);
        s->directory = directory_free(s->directory);
        s->projection_source = source_free(s->projection_source);
        s->policy_source = source_free(s->policy_source);
        if (s->has_cells) {
                projection_cell_done(&s->projections);
                policy_cell_done(&s->policies);
        }
        s->lot = parking_lot_free(s->lot);
        s->arena = lessor_arena_free(s->arena);
}

/* --- Serving --- */

/* The URLs that are served, with the real ports: for whoever started us, and for `lessor status`. */
static int name_addresses(struct server *s)
{
        const struct options *o = s->options;
        const char **addresses = lessor_arena_array(s->arena, o->n_listen, sizeof(*addresses));
        _cleanup_(buf_done) struct buf url = {0};

        if (addresses == NULL)
                return LESSOR_E_NOMEM;
        for (size_t i = 0; i < o->n_listen; i++) {
                const char *colon = strrchr(o->listen[i], ':');
                struct lessor_slice copy;

                buf_clear(&url);
                buf_printf(&url, "%s://%.*s:%u", o->tls_cert != NULL ? "https" : "http",
                           (int)(colon - o->listen[i]), o->listen[i], http_server_port(s->http, i));
                if (buf_failed(&url) < 0 || lessor_arena_copy(s->arena, buf_view(&url), &copy) < 0)
                        return LESSOR_E_NOMEM;
                addresses[i] = copy.p;
        }
        s->addresses = addresses;
        return 0;
}

static void announce(const struct server *s)
{
        for (size_t i = 0; i < s->options->n_listen; i++)
                printf("listening on %s\n", s->addresses[i]);
        if (s->options->redirect_listen != NULL)
                printf("redirecting on port %u\n", http_server_port(s->http, s->options->n_listen));
        fflush(stdout);
}

static void reload(struct server *s)
{
        const char *why = NULL;
        struct lessor_arena *arena = lessor_arena_new();

        log_info("reload", LOG_BOOL("tls", s->options->tls_cert != NULL));
        if (arena != NULL && s->options->tls_cert != NULL && http_server_reload_tls(s->http, arena, &why) < 0)
                log_error("certificate-not-reloaded", LOG_CSTR("problem", why));
        if (s->projection_source != NULL)
                source_reload(s->projection_source);
        if (s->policy_source != NULL)
                source_reload(s->policy_source);
        lessor_arena_free(arena);
}

#define TICK_MS 1000

/* What is due once a second: files that changed, and the sweep that lets no deadline wait for a request. */
static void tick(struct server *s)
{
        struct lessor_ticket ticket;

        if (s->projection_source != NULL)
                source_check(s->projection_source);
        if (s->policy_source != NULL)
                source_check(s->policy_source);
        if (!s->clock_is_manual)
                lessor_routing_sweep(s->store, NULL, NULL, &ticket);
}

/* Waits for signals, and ticks in between, until one says to end. */
static void attend(struct server *s, const sigset_t *signals)
{
        int64_t next_tick_ms = 0;

        for (;;) {
                int64_t wait_ms = next_tick_ms - clock_monotonic_ms();
                struct timespec wait;
                int number;

                if (wait_ms <= 0) {
                        tick(s);
                        next_tick_ms = clock_monotonic_ms() + TICK_MS;
                        wait_ms = TICK_MS;
                }
                if (!s->clock_is_manual) /* a lapsed lease goes to a waiting rack to the millisecond */
                        wait_ms = racks_tick(&s->racks, wait_ms);
                wait = (struct timespec){.tv_sec = wait_ms / 1000, .tv_nsec = wait_ms % 1000 * 1000000};
                number = sigtimedwait(signals, NULL, &wait);
                if (number == SIGTERM || number == SIGINT)
                        return;
                if (number == SIGHUP)
                        reload(s);
        }
}

static int64_t worker_threads(const struct options *options)
{
        return options->threads > 0 ? options->threads : sysconf(_SC_NPROCESSORS_ONLN);
}

int server_run(const struct options *options, struct buf *ret_problem)
{
        struct server s = {.options = options, .problem = ret_problem};
        sigset_t signals;
        int e;

        s.n_connections = descriptors_reserve(options->max_connections,
                                              (int64_t)options->n_listen + 2 + worker_threads(options));

        /* Blocked before any thread is made, so that only attend() receives them. */
        sigemptyset(&signals);
        sigaddset(&signals, SIGTERM);
        sigaddset(&signals, SIGINT);
        sigaddset(&signals, SIGHUP);
        pthread_sigmask(SIG_BLOCK, &signals, NULL);
        signal(SIGPIPE, SIG_IGN);
        signal(SIGXFSZ, SIG_IGN); /* a limit on file sizes is a full disk, which is survived */

        e = server_open(&s);
        if (e == 0)
                e = name_addresses(&s);
        if (e == 0)
                e = http_server_start(s.http);
        if (e == 0) {
                announce(&s);
                attend(&s, &signals);
                log_info("draining", LOG_INT("deadline_ms", DRAIN_MS));
                e = http_server_drain(s.http, DRAIN_MS);
                if (e < 0)
                        buf_text(ret_problem, "some requests were cut off at the end");
        }
        server_done(&s);
        return e;
}

/* The files of TLS and of the control API over TCP. */
static int check_doors(struct server *s)
{
        const struct options *o = s->options;
        const char *problem = NULL;
        int e = 0;

        if (o->tls_cert != NULL)
                e = http_tls_check(o->tls_cert, o->tls_key, s->arena, &problem);
        if (e < 0)
                return explain_text(s, e, problem);
        return o->control_token == NULL ? 0 : control_token_check(o->control_token, s->problem);
}

int server_check(const struct options *options, struct buf *ret_problem)
{
        struct server s = {.options = options, .problem = ret_problem};
        int e;

        s.arena = lessor_arena_new();
        s.lot = parking_lot_new();
        if (s.arena == NULL || s.lot == NULL)
                e = LESSOR_E_NOMEM;
        else
                e = open_control_plane(&s, ":memory:");
        if (e == 0)
                e = open_signer(&s);
        if (e == 0)
                e = check_doors(&s);
        server_done(&s);
        return e;
}
