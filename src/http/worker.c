/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "http/internal.h"
#include "lessor/error.h"

/*
 * Why we turn MHD's wheel ourselves instead of letting its own thread pool do it (0.9.75):
 *
 * - When exactly 128 events are there, MHD's loop waits for more before it looks at these, however long that
 * takes. Called with MHD_run() it never waits.
 * - Its threads are woken by a write for each resumed connection, and look through all suspended ones each
 * time. Our queue wakes a worker once for all that was told while it was busy, and MHD looks once for all of
 * them.
 * - One worker can serve plain and TLS connections.
 */

/* What an event of a worker's epoll is about. */
#define EVENT_WAKE N_ENGINES

static void push(struct worker *w, enum queue which, struct connection *c)
{
        struct connection *first = atomic_load(&w->queues[which]);
        uint64_t one = 1;

        do {
                c->queued[which] = first;
        } while (!atomic_compare_exchange_weak(&w->queues[which], &first, c));
        /* Whoever found it empty wakes; the worker takes all or nothing. */
        if (first == NULL)
                (void)!write(w->wake_fd, &one, sizeof(one));
}

/* Takes all, oldest first. */
static struct connection *take_all(struct worker *w, enum queue which)
{
        struct connection *c, *oldest = NULL;

        if (atomic_load_explicit(&w->queues[which], memory_order_relaxed) == NULL)
                return NULL;
        c = atomic_exchange(&w->queues[which], NULL);
        while (c != NULL) {
                struct connection *next = c->queued[which];

                c->queued[which] = oldest;
                oldest = c;
                c = next;
        }
        return oldest;
}

void worker_hand_over(struct http_server *server, struct connection *c)
{
        struct worker *fewest = &server->workers[0];

        for (size_t i = 1; i < server->options.threads; i++) {
                if (atomic_load(&server->workers[i].n_connections) < atomic_load(&fewest->n_connections))
                        fewest = &server->workers[i];
        }
        c->worker = fewest;
        push(fewest, QUEUE_ARRIVING, c);
}

void worker_resume(struct connection *c)
{
        push(c->worker, QUEUE_WOKEN, c);
}

void worker_left(struct connection *c)
{
        push(c->worker, QUEUE_LEFT, c);
}

void worker_orphaned(struct connection *c)
{
        push(c->worker, QUEUE_ORPHANED, c);
}

static void take_orphaned(struct worker *w)
{
        struct connection *c = take_all(w, QUEUE_ORPHANED);

        while (c != NULL) {
                struct connection *next = c->queued[QUEUE_ORPHANED];

                orphan_continue(c);
                c = next;
        }
}

static void take_left(struct worker *w)
{
        struct connection *c = take_all(w, QUEUE_LEFT);

        while (c != NULL) {
                struct connection *next = c->queued[QUEUE_LEFT];

                c->queued[QUEUE_LEFT] = w->left;
                w->left = c;
                c = next;
        }
}

void worker_forget(struct connection *c)
{
        struct worker *w = c->worker;
        struct connection **at = &w->left;

        if (!atomic_load(&c->left))
                return;
        take_left(w);
        while (*at != NULL && *at != c)
                at = &(*at)->queued[QUEUE_LEFT];
        if (*at == c)
                *at = c->queued[QUEUE_LEFT];
}

/*
 * MHD (0.9.75) reads until a read is short and then waits for the next edge, so an end that came together
 * with the last bytes goes unnoticed. Once it has read all there is, closing the reading side ourselves makes
 * that edge.
 */
static void show_left(struct worker *w)
{
        struct connection **at = &w->left;

        take_left(w);
        while (*at != NULL) {
                struct connection *c = *at;
                int unread = 0;

                if (ioctl(c->fd, FIONREAD, &unread) == 0 && unread > 0) {
                        at = &c->queued[QUEUE_LEFT];
                        continue;
                }
                *at = c->queued[QUEUE_LEFT];
                shutdown(c->fd, SHUT_RD);
        }
}

static struct engine *engine_of(struct worker *w, const struct connection *c)
{
        return &w->engines[c->listener->tls ? ENGINE_SECURE : ENGINE_PLAIN];
}

static void add_arriving(struct worker *w)
{
        struct connection *c = take_all(w, QUEUE_ARRIVING);

        while (c != NULL) {
                struct connection *next = c->queued[QUEUE_ARRIVING];
                struct engine *engine = engine_of(w, c);

                w->adding = c;
                MHD_add_connection(engine->mhd, c->fd, &c->peer.any, sizeof(c->peer));
                if (w->adding != NULL) { /* MHD closed it before it told us of it */
                        w->adding = NULL;
                        connection_discard(w->server, c);
                        atomic_fetch_add_explicit(&w->server->refused, 1, memory_order_relaxed);
                }
                engine->due = true;
                c = next;
        }
}

static void resume_woken(struct worker *w)
{
        struct connection *c = take_all(w, QUEUE_WOKEN);

        while (c != NULL) {
                struct connection *next = c->queued[QUEUE_WOKEN];

                engine_of(w, c)->due = true;
                c->asleep = false;
                if (c->on_job) {
                        c->on_job = false;
                        w->n_jobs--;
                        atomic_store(&c->suspension, SUSPENSION_NONE);
                }
                MHD_resume_connection(c->mhd);
                c = next;
        }
}

static int poll_timeout(struct worker *w)
{
        int timeout = -1;

        for (size_t i = 0; i < N_ENGINES; i++) {
                MHD_UNSIGNED_LONG_LONG ms;

                if (w->engines[i].mhd == NULL || MHD_get_timeout(w->engines[i].mhd, &ms) != MHD_YES || ms > 0)
                        continue;
                w->engines[i].due = true;
                timeout = 0;
        }
        return timeout;
}

static void wait_for_work(struct worker *w)
{
        struct epoll_event events[N_ENGINES + 1];
        int n = epoll_wait(w->epoll_fd, events, N_ENGINES + 1, poll_timeout(w));
        uint64_t told;

        for (int i = 0; i < n; i++) {
                if (events[i].data.u32 == EVENT_WAKE)
                        (void)!read(w->wake_fd, &told, sizeof(told));
                else
                        w->engines[events[i].data.u32].due = true;
        }
}

static void run_engines(struct worker *w)
{
        for (size_t i = 0; i < N_ENGINES; i++) {
                if (!w->engines[i].due)
                        continue;
                w->engines[i].due = false;
                MHD_run(w->engines[i].mhd);
        }
}

/* MHD closes what is left, and calls back for each, on this thread like all else. */
static void worker_finish(struct worker *w)
{
        struct connection *c = take_all(w, QUEUE_ARRIVING);

        while (c != NULL) {
                struct connection *next = c->queued[QUEUE_ARRIVING];

                close(c->fd);
                connection_discard(w->server, c);
                c = next;
        }
        resume_woken(w);
        for (size_t i = 0; i < N_ENGINES; i++) {
                if (w->engines[i].mhd != NULL)
                        MHD_stop_daemon(w->engines[i].mhd);
                w->engines[i].mhd = NULL;
        }
}

static void *worker_main(void *context)
{
        struct worker *w = context;

        while (!atomic_load(&w->stop) || w->n_jobs > 0) {
                wait_for_work(w);
                add_arriving(w);
                resume_woken(w);
                run_engines(w);
                take_orphaned(w);
                show_left(w);
        }
        worker_finish(w);
        return NULL;
}

/* We do not want paths and arguments decoded: the planes compare and sign what was sent. */
static size_t leave_as_it_is(void *context, struct MHD_Connection *mhd, char *text)
{
        (void)context;
        (void)mhd;
        return strlen(text);
}

/*
 * MHD's times are off, since keeping them costs a lock and a list operation a read, and they cannot answer
 * 408; the keeper has the times (connections_cut_overdue). So are its limits of connections; the keeper
 * counts.
 */
static struct MHD_Daemon *engine_start(struct worker *w, enum engine_kind kind)
{
        const struct http_options *o = &w->server->options;
        unsigned flags = MHD_USE_EPOLL | MHD_USE_NO_LISTEN_SOCKET | MHD_ALLOW_SUSPEND_RESUME;
        struct MHD_OptionItem options[] = {
                {MHD_OPTION_CONNECTION_MEMORY_LIMIT, (intptr_t)o->max_header_bytes, NULL},
                {MHD_OPTION_CONNECTION_LIMIT, (intptr_t)o->max_connections + 1, NULL},
                {MHD_OPTION_CONNECTION_TIMEOUT, 0, NULL},
                /* We block it in all threads; MHD does not dare to send files without being told so. */
                {MHD_OPTION_SIGPIPE_HANDLED_BY_APP, 1, NULL},
                {MHD_OPTION_UNESCAPE_CALLBACK, (intptr_t)leave_as_it_is, NULL},
                {MHD_OPTION_URI_LOG_CALLBACK, (intptr_t)request_begin, w},
                {MHD_OPTION_NOTIFY_COMPLETED, (intptr_t)request_completed, w},
                {MHD_OPTION_NOTIFY_CONNECTION, (intptr_t)connection_notify, w},
                {MHD_OPTION_END, 0, NULL},
        };

        if (kind == ENGINE_PLAIN)
                return MHD_start_daemon(flags, 0, NULL, NULL, request_access, w, MHD_OPTION_ARRAY, options,
                                        MHD_OPTION_END);
        return MHD_start_daemon(flags | MHD_USE_TLS, 0, NULL, NULL, request_access, w, MHD_OPTION_ARRAY,
                                options, MHD_OPTION_HTTPS_CERT_CALLBACK2, tls_certificate,
                                MHD_OPTION_HTTPS_PRIORITIES, "NORMAL:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2",
                                MHD_OPTION_END);
}

static int watch(struct worker *w, int fd, uint32_t about)
{
        struct epoll_event event = {.events = EPOLLIN, .data.u32 = about};

        return epoll_ctl(w->epoll_fd, EPOLL_CTL_ADD, fd, &event) < 0 ? LESSOR_E_IO : 0;
}

static int worker_start(struct worker *w, const bool wanted[N_ENGINES])
{
        char name[16];

        for (size_t i = 0; i < N_ENGINES; i++) {
                const union MHD_DaemonInfo *info;

                if (!wanted[i])
                        continue;
                w->engines[i].mhd = engine_start(w, (enum engine_kind)i);
                if (w->engines[i].mhd == NULL)
                        return LESSOR_E_IO;
                info = MHD_get_daemon_info(w->engines[i].mhd, MHD_DAEMON_INFO_EPOLL_FD);
                if (info == NULL || watch(w, info->epoll_fd, (uint32_t)i) < 0)
                        return LESSOR_E_IO;
        }
        if (pthread_create(&w->thread, NULL, worker_main, w) != 0)
                return LESSOR_E_IO;
        w->running = true;
        snprintf(name, sizeof(name), "http-%u", (unsigned)(w - w->server->workers));
        pthread_setname_np(w->thread, name);
        return 0;
}

int workers_start(struct http_server *server)
{
        bool wanted[N_ENGINES] = {false};
        int r = 0;

        for (size_t i = 0; i < server->n_listeners; i++)
                wanted[server->listeners[i].tls ? ENGINE_SECURE : ENGINE_PLAIN] = true;
        for (size_t i = 0; r == 0 && i < server->options.threads; i++)
                r = worker_start(&server->workers[i], wanted);
        return r;
}

int workers_new(struct http_server *server)
{
        server->workers = calloc(server->options.threads, sizeof(*server->workers));
        if (server->workers == NULL)
                return LESSOR_E_NOMEM;
        for (size_t i = 0; i < server->options.threads; i++) {
                struct worker *w = &server->workers[i];

                w->server = server;
                w->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
                w->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
                w->counters = calloc(server->n_counters, sizeof(*w->counters));
                if (w->counters == NULL)
                        return LESSOR_E_NOMEM;
                if (w->epoll_fd < 0 || w->wake_fd < 0 || watch(w, w->wake_fd, EVENT_WAKE) < 0)
                        return LESSOR_E_IO;
        }
        return 0;
}

static void worker_stop(struct worker *w)
{
        uint64_t one = 1;

        atomic_store(&w->stop, true);
        if (w->running) {
                (void)!write(w->wake_fd, &one, sizeof(one));
                pthread_join(w->thread, NULL);
                w->running = false;
        } else {
                worker_finish(w);
        }
}

void workers_stop(struct http_server *server)
{
        for (size_t i = 0; server->workers != NULL && i < server->options.threads; i++) {
                if (server->workers[i].counters != NULL) /* set up at all */
                        worker_stop(&server->workers[i]);
        }
}

void workers_free(struct http_server *server)
{
        for (size_t i = 0; server->workers != NULL && i < server->options.threads; i++) {
                struct worker *w = &server->workers[i];

                if (w->server == NULL)
                        break;
                while (w->free != NULL) {
                        struct request *r = w->free;

                        w->free = r->next_free;
                        request_free(r);
                }
                if (w->epoll_fd >= 0)
                        close(w->epoll_fd);
                if (w->wake_fd >= 0)
                        close(w->wake_fd);
                free(w->counters);
        }
        free(server->workers);
        server->workers = NULL;
}
