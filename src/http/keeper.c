/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/size.h"
#include "http/internal.h"
#include "lessor/error.h"

/* How long accepting pauses when descriptors are short: they come back only when somebody leaves. */
#define PAUSE_MS 100
#define N_EVENTS 64

/*
 * The one thread beside the workers.
 *
 * 1. `heap` is a binary heap of the waiting connections that have a time, by (wake_ms, address); heap_at of
 *    each is its index + 1.
 * 2. A connection is in the heap or watched only between keeper_watch() and keeper_forget(), both on its
 * worker, so whatever the thread finds under the lock is waiting, or has just been woken by somebody else.
 * 3. The lock is taken before none but MHD's.
 */
struct keeper {
        enum keeper_event event; /* of the eventfd */
        struct http_server *server;
        pthread_t thread;
        bool running;
        int epoll_fd;
        int wake_fd;
        pthread_mutex_t lock;
        pthread_cond_t stopped_listening;
        struct connection **heap;
        size_t n_heap;
        size_t heap_cap;
        int64_t sleeps_until_ms; /* what the thread has told epoll; 0 while it is awake */
        bool stop;
        bool stop_listening;
        bool listening;
        int64_t accept_again_ms;      /* 0 unless accepting pauses; the thread's own */
        int64_t linger_again_ms;      /* the thread's own */
        _Atomic int64_t cut_again_ms; /* INT64_MAX while the thread looks */
        int64_t due_ms;               /* what keeper_due() has asked for; else INT64_MAX */
        struct lingerers *lingerers;
};

static bool earlier(const struct connection *a, const struct connection *b)
{
        return a->wake_ms != b->wake_ms ? a->wake_ms < b->wake_ms : a < b;
}

static void heap_put(struct keeper *k, size_t i, struct connection *c)
{
        k->heap[i] = c;
        c->heap_at = i + 1;
}

static void heap_settle(struct keeper *k, size_t i, struct connection *c)
{
        while (i > 0 && earlier(c, k->heap[(i - 1) / 2])) {
                heap_put(k, i, k->heap[(i - 1) / 2]);
                i = (i - 1) / 2;
        }
        for (;;) {
                size_t child = 2 * i + 1;

                if (child + 1 < k->n_heap && earlier(k->heap[child + 1], k->heap[child]))
                        child++;
                if (child >= k->n_heap || !earlier(k->heap[child], c))
                        break;
                heap_put(k, i, k->heap[child]);
                i = child;
        }
        heap_put(k, i, c);
}

static int heap_insert(struct keeper *k, struct connection *c)
{
        if (k->n_heap == k->heap_cap) {
                size_t cap = k->heap_cap == 0 ? 64 : k->heap_cap * 2, size;
                struct connection **heap;

                /* NOLINTNEXTLINE(bugprone-sizeof-expression): an array of pointers is meant */
                if (!size_mul(cap, sizeof(*heap), &size))
                        return LESSOR_E_NOMEM;
                heap = realloc(k->heap, size);
                if (heap == NULL)
                        return LESSOR_E_NOMEM;
                k->heap = heap;
                k->heap_cap = cap;
        }
        k->n_heap++;
        heap_settle(k, k->n_heap - 1, c);
        return 0;
}

static void heap_remove(struct keeper *k, struct connection *c)
{
        struct connection *last;
        size_t i;

        if (c->heap_at == 0)
                return;
        i = c->heap_at - 1;
        last = k->heap[--k->n_heap];
        c->heap_at = 0;
        if (last != c)
                heap_settle(k, i, last);
}

static void keeper_wake(struct keeper *k)
{
        uint64_t one = 1;

        (void)!write(k->wake_fd, &one, sizeof(one)); /* full means that it is awake anyhow */
}

void keeper_follow(struct keeper *k, struct connection *c)
{
        struct epoll_event event = {.events = EPOLLRDHUP | EPOLLONESHOT, .data.ptr = c};

        /* Without it the end is noticed later, by reading or by time. Closing takes it out of the set again.
         */
        (void)!epoll_ctl(k->epoll_fd, EPOLL_CTL_ADD, c->fd, &event);
}

void keeper_time(struct keeper *k, struct connection *c, int64_t wait_ms)
{
        bool sooner, failed;

        pthread_mutex_lock(&k->lock);
        c->wake_ms = clock_monotonic_ms() + wait_ms;
        failed = heap_insert(k, c) < 0;
        sooner = !failed && c->wake_ms < k->sleeps_until_ms;
        pthread_mutex_unlock(&k->lock);
        if (failed)
                connection_wake(c, SUSPENSION_TIME); /* better no wait than one without an end */
        if (sooner)
                keeper_wake(k);
}

void keeper_forget(struct keeper *k, struct connection *c)
{
        pthread_mutex_lock(&k->lock);
        heap_remove(k, c);
        pthread_mutex_unlock(&k->lock);
}

void keeper_due(struct keeper *k, int64_t due_ms)
{
        int64_t again_ms = atomic_load(&k->cut_again_ms);
        bool sooner;

        if (due_ms >= again_ms && again_ms != INT64_MAX)
                return;
        pthread_mutex_lock(&k->lock);
        if (due_ms < k->due_ms)
                k->due_ms = due_ms;
        sooner = due_ms < k->sleeps_until_ms;
        pthread_mutex_unlock(&k->lock);
        if (sooner)
                keeper_wake(k);
}

void keeper_linger(struct keeper *k, struct connection *c)
{
        linger(k->lingerers, c->fd, clock_monotonic_ms());
}

static void listeners_watch(struct keeper *k, int operation)
{
        for (size_t i = 0; i < k->server->n_listeners; i++) {
                struct listener *l = &k->server->listeners[i];
                struct epoll_event event = {.events = EPOLLIN, .data.ptr = l};

                if (l->fd >= 0 && epoll_ctl(k->epoll_fd, operation, l->fd, &event) < 0 && errno != ENOENT)
                        log_error("listener not watched", LOG_CSTR("address", l->address));
        }
}

static void listeners_shut(struct keeper *k)
{
        for (size_t i = 0; i < k->server->n_listeners; i++)
                listener_close(&k->server->listeners[i]); /* which takes it out of the epoll set too */
        pthread_mutex_lock(&k->lock);
        k->listening = false;
        pthread_cond_broadcast(&k->stopped_listening);
        pthread_mutex_unlock(&k->lock);
}

static void accept_or_pause(struct keeper *k, struct listener *l, int64_t now_ms)
{
        if (listener_accept(l) || k->accept_again_ms != 0)
                return;
        log_warning("out of descriptors, accepting pauses", LOG_CSTR("address", l->address));
        listeners_watch(k, EPOLL_CTL_DEL);
        k->accept_again_ms = now_ms + PAUSE_MS;
}

static void handle_event(struct keeper *k, void *about, int64_t now_ms)
{
        uint64_t n;

        switch (*(enum keeper_event *)about) {
        case KEEPER_WAKE:
                (void)!read(k->wake_fd, &n, sizeof(n));
                break;
        case KEEPER_LISTENER:
                accept_or_pause(k, about, now_ms);
                break;
        case KEEPER_CONNECTION:
                connection_left(k->server, about);
                break;
        case KEEPER_LINGERER:
                linger_read(k->lingerers, about);
                break;
        }
}

static void fire_timers(struct keeper *k, int64_t now_ms)
{
        pthread_mutex_lock(&k->lock);
        while (k->n_heap > 0 && k->heap[0]->wake_ms <= now_ms) {
                struct connection *c = k->heap[0];

                heap_remove(k, c);
                connection_wake(c, SUSPENSION_TIME);
        }
        pthread_mutex_unlock(&k->lock);
}

/* Whether it is time for a look. Until it is over, keeper_due() asks for another, since it may come too late
 * for this one. */
static bool cut_begin(struct keeper *k, int64_t now_ms)
{
        bool asked;

        pthread_mutex_lock(&k->lock);
        asked = k->due_ms <= now_ms;
        if (asked)
                k->due_ms = INT64_MAX;
        pthread_mutex_unlock(&k->lock);
        if (!asked && now_ms < atomic_load(&k->cut_again_ms))
                return false;
        atomic_store(&k->cut_again_ms, INT64_MAX);
        return true;
}

/*
 * Looks through all connections for what is overdue, but only when the earliest can be: nothing that became
 * due after a look is due before the shortest of the times has passed, or keeper_due() was told.
 */
static void cut_overdue(struct keeper *k, int64_t now_ms)
{
        const struct http_options *o = &k->server->options;
        int64_t shortest_ms = o->idle_ms < o->header_ms ? o->idle_ms : o->header_ms, next_ms, soonest_ms;

        if (!cut_begin(k, now_ms))
                return;
        shortest_ms = o->body_ms < shortest_ms ? o->body_ms : shortest_ms;
        next_ms = connections_cut_overdue(k->server, now_ms);
        if (next_ms > now_ms + shortest_ms)
                next_ms = now_ms + shortest_ms;
        /* A look costs as much as there are connections, so a crowd with staggered times must not make it
         * frequent. */
        soonest_ms = now_ms + (shortest_ms < 4000 ? shortest_ms / 16 : 250) + 1;
        atomic_store(&k->cut_again_ms, next_ms < soonest_ms ? soonest_ms : next_ms);
}

static int64_t next_wake(struct keeper *k)
{
        int64_t next_ms = atomic_load(&k->cut_again_ms);

        if (k->due_ms < next_ms)
                next_ms = k->due_ms;
        if (k->linger_again_ms < next_ms)
                next_ms = k->linger_again_ms;
        if (k->n_heap > 0 && k->heap[0]->wake_ms < next_ms)
                next_ms = k->heap[0]->wake_ms;
        if (k->accept_again_ms != 0 && k->accept_again_ms < next_ms)
                next_ms = k->accept_again_ms;
        return next_ms;
}

static int poll_timeout(struct keeper *k)
{
        int64_t wait_ms = k->sleeps_until_ms - clock_monotonic_ms();

        if (wait_ms < 0)
                return 0;
        return wait_ms > 60000 ? 60000 : (int)wait_ms;
}

static void *keeper_main(void *context)
{
        struct keeper *k = context;
        struct epoll_event events[N_EVENTS];

        for (;;) {
                bool stop, shut;
                int64_t now_ms;
                int n;

                pthread_mutex_lock(&k->lock);
                stop = k->stop;
                shut = k->stop_listening && k->listening;
                k->sleeps_until_ms = next_wake(k);
                pthread_mutex_unlock(&k->lock);
                if (stop)
                        return NULL;
                if (shut) {
                        listeners_shut(k);
                        continue;
                }
                n = epoll_wait(k->epoll_fd, events, N_EVENTS, poll_timeout(k));
                now_ms = clock_monotonic_ms();
                for (int i = 0; i < n; i++)
                        handle_event(k, events[i].data.ptr, now_ms);
                if (k->accept_again_ms != 0 && now_ms >= k->accept_again_ms) {
                        k->accept_again_ms = 0;
                        listeners_watch(k, EPOLL_CTL_ADD);
                }
                fire_timers(k, now_ms);
                cut_overdue(k, now_ms);
                k->linger_again_ms = lingerers_expire(k->lingerers, now_ms);
        }
}

int keeper_new(struct http_server *server, struct keeper **ret_keeper)
{
        struct keeper *k = calloc(1, sizeof(*k));
        struct epoll_event event = {.events = EPOLLIN};

        if (k == NULL)
                return LESSOR_E_NOMEM;
        k->event = KEEPER_WAKE;
        k->server = server;
        k->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
        k->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        k->due_ms = k->linger_again_ms = INT64_MAX;
        k->lingerers = k->epoll_fd < 0 ? NULL : lingerers_new(k->epoll_fd);
        pthread_mutex_init(&k->lock, NULL);
        pthread_cond_init(&k->stopped_listening, NULL);
        event.data.ptr = k;
        if (k->epoll_fd < 0 || k->wake_fd < 0 || k->lingerers == NULL ||
            epoll_ctl(k->epoll_fd, EPOLL_CTL_ADD, k->wake_fd, &event) < 0) {
                keeper_free(k);
                return LESSOR_E_IO;
        }
        *ret_keeper = k;
        return 0;
}

int keeper_start(struct keeper *k)
{
        listeners_watch(k, EPOLL_CTL_ADD);
        k->listening = true;
        if (pthread_create(&k->thread, NULL, keeper_main, k) != 0)
                return LESSOR_E_IO;
        k->running = true;
        return 0;
}

void keeper_stop_listening(struct keeper *k)
{
        if (!k->running)
                return;
        pthread_mutex_lock(&k->lock);
        k->stop_listening = true;
        keeper_wake(k);
        while (k->listening)
                pthread_cond_wait(&k->stopped_listening, &k->lock);
        pthread_mutex_unlock(&k->lock);
}

struct keeper *keeper_free(struct keeper *k)
{
        if (k == NULL)
                return NULL;
        if (k->running) {
                pthread_mutex_lock(&k->lock);
                k->stop = true;
                pthread_mutex_unlock(&k->lock);
                keeper_wake(k);
                pthread_join(k->thread, NULL);
        }
        lingerers_free(k->lingerers);
        if (k->epoll_fd >= 0)
                close(k->epoll_fd);
        if (k->wake_fd >= 0)
                close(k->wake_fd);
        pthread_mutex_destroy(&k->lock);
        pthread_cond_destroy(&k->stopped_listening);
        free(k->heap);
        free(k);
        return NULL;
}
