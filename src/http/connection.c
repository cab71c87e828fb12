/* SPDX-License-Identifier: MIT */
#include <poll.h>
#include <stdlib.h>
#include <sys/ioctl.h>

#include "base/clock.h"
#include "http/internal.h"

#define CUT_AGAIN_MS 100
/* Who has just been answered is likely to ask again; a drain answers that too, and says that it was the last.
 */
#define JUST_ANSWERED_MS 250

struct connection *connection_new(struct http_server *server)
{
        struct connection *c;

        pthread_mutex_lock(&server->lock);
        c = server->free;
        if (c != NULL)
                server->free = c->next;
        pthread_mutex_unlock(&server->lock);
        if (c == NULL)
                c = calloc(1, sizeof(*c));
        if (c != NULL) {
                c->event = KEEPER_CONNECTION;
                c->next = c->prev = NULL;
        }
        return c;
}

/* Server lock held. */
static void connection_retire(struct http_server *server, struct connection *c)
{
        address_table_leave(server->addresses, c);
        if (c->admitted)
                server->n_admitted--;
        c->admitted = false;
        c->identity = tls_identity_unref(c->identity);
        c->mhd = NULL;
        c->fd = -1;
        c->prev = NULL;
        c->next = server->free;
        server->free = c;
}

void connection_discard(struct http_server *server, struct connection *c)
{
        pthread_mutex_lock(&server->lock);
        connection_retire(server, c);
        pthread_mutex_unlock(&server->lock);
}

void connections_free(struct http_server *server)
{
        while (server->free != NULL) {
                struct connection *c = server->free;

                server->free = c->next;
                free(c);
        }
}

static struct connection *connection_begin(struct worker *worker, struct MHD_Connection *mhd)
{
        struct http_server *server = worker->server;
        struct connection *c = worker->adding;

        worker->adding = NULL;
        atomic_fetch_add_explicit(&worker->n_connections, 1, memory_order_relaxed);
        c->mhd = mhd;
        c->request = NULL;
        c->peer_text[0] = '\0';
        atomic_store(&c->busy, false);
        atomic_store(&c->read_closed, false);
        atomic_store(&c->left, false);
        atomic_store(&c->overdue, false);
        atomic_store(&c->sending, false);
        atomic_store(&c->aborted, false);
        c->asleep = c->on_job = c->ended = false;
        c->detained = NULL;
        atomic_store(&c->suspension, SUSPENSION_NONE);
        atomic_store(&c->idle_since_ms, clock_monotonic_ms());
        connection_due(c, clock_monotonic_ms() + server->options.header_ms);

        pthread_mutex_lock(&server->lock);
        c->prev = NULL;
        c->next = server->live;
        if (c->next != NULL)
                c->next->prev = c;
        server->live = c;
        c->live = true;
        server->n_live++;
        pthread_mutex_unlock(&server->lock);
        keeper_follow(server->keeper, c);
        return c;
}

/* Before MHD closes the descriptor, so that whoever finds the connection in the live list may use it. */
static void connection_end(struct http_server *server, struct connection *c)
{
        atomic_fetch_sub_explicit(&c->worker->n_connections, 1, memory_order_relaxed);
        pthread_mutex_lock(&server->lock);
        if (c->next != NULL)
                c->next->prev = c->prev;
        if (c->prev != NULL)
                c->prev->next = c->next;
        else
                server->live = c->next;
        c->live = false;
        server->n_live--;
        worker_forget(c); /* nobody queues it from here on */
        if (c->detained == NULL)
                connection_retire(server, c);
        else
                c->ended = true;
        if (server->n_live == 0)
                pthread_cond_broadcast(&server->emptied);
        pthread_mutex_unlock(&server->lock);
}

void connection_notify(void *context, struct MHD_Connection *mhd, void **socket_context,
                       enum MHD_ConnectionNotificationCode code)
{
        struct worker *worker = context;

        if (code == MHD_CONNECTION_NOTIFY_STARTED) {
                *socket_context = connection_begin(worker, mhd);
        } else if (*socket_context != NULL) {
                connection_end(worker->server, *socket_context);
                *socket_context = NULL;
        }
}

/*
 * Server lock held. MHD then reads an end of file, or fails to write, and ends the connection on its own
 * thread. It may miss that when bytes come at the same moment, so whoever cuts comes again while the
 * connection lives.
 */
static void connection_cut(struct connection *c, int how)
{
        atomic_store(&c->read_closed, true);
        shutdown(c->fd, how);
}

int64_t connections_cut_overdue(struct http_server *server, int64_t now_ms)
{
        int64_t next_ms = INT64_MAX;

        pthread_mutex_lock(&server->lock);
        for (struct connection *c = server->live; c != NULL; c = c->next) {
                int64_t due_ms = atomic_load_explicit(&c->due_ms, memory_order_relaxed);

                if (due_ms == 0)
                        continue;
                if (due_ms > now_ms) {
                        next_ms = due_ms < next_ms ? due_ms : next_ms;
                        continue;
                }
                atomic_store(&c->overdue, true);
                connection_due(c, now_ms + CUT_AGAIN_MS);
                next_ms = now_ms + CUT_AGAIN_MS < next_ms ? now_ms + CUT_AGAIN_MS : next_ms;
                connection_cut(c, atomic_load(&c->sending) ? SHUT_RDWR : SHUT_RD);
        }
        pthread_mutex_unlock(&server->lock);
        return next_ms;
}

void connection_abort(struct http_server *server, struct connection *c)
{
        struct linger reset = {.l_onoff = 1};

        pthread_mutex_lock(&server->lock);
        if (c->live) {
                /* A reset cannot be taken for the end of a whole answer, and frees a peer that still sends.
                 */
                setsockopt(c->fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
                atomic_store(&c->left, true);
                connection_wake(c, SUSPENSION_GONE);
                connection_cut(c, SHUT_RDWR);
        }
        pthread_mutex_unlock(&server->lock);
}

void connection_left(struct http_server *server, struct connection *c)
{
        struct pollfd fd = {.events = POLLRDHUP};

        pthread_mutex_lock(&server->lock);
        if (c->live)
                fd.fd = c->fd;
        if (c->live && !atomic_load(&c->read_closed) && !atomic_load(&c->left) && poll(&fd, 1, 0) > 0) {
                atomic_store(&c->left, true);
                connection_wake(c, SUSPENSION_GONE);
                worker_left(c);
        }
        pthread_mutex_unlock(&server->lock);
}

/* Nothing has begun, nothing lies unread, and nothing is likely to come. */
static bool is_idle(const struct connection *c, int64_t now_ms)
{
        int unread = 0;

        if (atomic_load(&c->busy) || now_ms - atomic_load(&c->idle_since_ms) < JUST_ANSWERED_MS)
                return false;
        return ioctl(c->fd, FIONREAD, &unread) != 0 || unread == 0;
}

void connections_drain(struct http_server *server, bool abort)
{
        int64_t now_ms = clock_monotonic_ms();

        pthread_mutex_lock(&server->lock);
        for (struct connection *c = server->live; c != NULL; c = c->next) {
                if (abort) {
                        connection_wake(c, SUSPENSION_ABORT);
                        connection_cut(c, SHUT_RDWR);
                } else if (atomic_load(&c->busy)) {
                        connection_wake(c, SUSPENSION_DRAIN);
                } else if (is_idle(c, now_ms)) {
                        connection_cut(c, SHUT_RD);
                }
        }
        pthread_mutex_unlock(&server->lock);
}
