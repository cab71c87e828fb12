/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/limits.h"
#include "http/internal.h"

/* For how long a peer may take to notice that we have answered and are not interested in the rest. */
#define LINGER_MS  2000
#define READ_BYTES 65536u

/*
 * A socket that is closed while bytes lie unread is reset, and a peer that gets a reset may throw away an
 * answer that it has not read yet. So a connection whose body we refuse is closed for writing by MHD, but
 * read on here.
 */
struct lingerer {
        enum keeper_event event;
        struct lingerer *next;
        struct lingerer *prev;
        int fd;
        int64_t until_ms;
        size_t n_read;
};

/* All are given the same time, so the first is the one that ends first. Removed by the keeper only. */
struct lingerers {
        pthread_mutex_t lock;
        int epoll_fd;
        struct lingerer *first;
        struct lingerer *last;
        size_t n;
};

struct lingerers *lingerers_new(int epoll_fd)
{
        struct lingerers *l = calloc(1, sizeof(*l));

        if (l == NULL)
                return NULL;
        pthread_mutex_init(&l->lock, NULL);
        l->epoll_fd = epoll_fd;
        return l;
}

/* Lock held. */
static void lingerer_end(struct lingerers *l, struct lingerer *e)
{
        if (e->prev != NULL)
                e->prev->next = e->next;
        else
                l->first = e->next;
        if (e->next != NULL)
                e->next->prev = e->prev;
        else
                l->last = e->prev;
        l->n--;
        /* MHD may still have its own descriptor of the same socket, so closing ours does not do this. */
        epoll_ctl(l->epoll_fd, EPOLL_CTL_DEL, e->fd, NULL);
        close(e->fd);
        free(e);
}

struct lingerers *lingerers_free(struct lingerers *l)
{
        if (l == NULL)
                return NULL;
        while (l->first != NULL)
                lingerer_end(l, l->first);
        pthread_mutex_destroy(&l->lock);
        free(l);
        return NULL;
}

static struct lingerer *lingerer_new(int fd, int64_t until_ms)
{
        struct lingerer *e = calloc(1, sizeof(*e));

        if (e == NULL)
                return NULL;
        e->event = KEEPER_LINGERER;
        e->until_ms = until_ms;
        e->fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
        if (e->fd < 0) {
                free(e);
                return NULL;
        }
        return e;
}

/* Without room the connection is closed as ever, and its peer may have luck. */
void linger(struct lingerers *l, int fd, int64_t now_ms)
{
        struct epoll_event event = {.events = EPOLLIN | EPOLLRDHUP};
        struct lingerer *e;

        pthread_mutex_lock(&l->lock);
        e = l->n < LIMIT_HTTP_LINGERING ? lingerer_new(fd, now_ms + LINGER_MS) : NULL;
        if (e != NULL) {
                e->prev = l->last;
                if (l->last != NULL)
                        l->last->next = e;
                else
                        l->first = e;
                l->last = e;
                l->n++;
                event.data.ptr = e;
                if (epoll_ctl(l->epoll_fd, EPOLL_CTL_ADD, e->fd, &event) < 0)
                        lingerer_end(l, e);
        }
        pthread_mutex_unlock(&l->lock);
}

void linger_read(struct lingerers *l, void *lingerer)
{
        struct lingerer *e = lingerer;
        static char forgotten[READ_BYTES]; /* the keeper's only */
        ssize_t n = recv(e->fd, forgotten, sizeof(forgotten), MSG_DONTWAIT);

        if (n < 0 && errno == EAGAIN)
                return;
        if (n > 0 && (e->n_read += (size_t)n) <= LIMIT_HTTP_DISCARD)
                return;
        pthread_mutex_lock(&l->lock);
        lingerer_end(l, e);
        pthread_mutex_unlock(&l->lock);
}

int64_t lingerers_expire(struct lingerers *l, int64_t now_ms)
{
        int64_t next_ms;

        pthread_mutex_lock(&l->lock);
        while (l->first != NULL && l->first->until_ms <= now_ms)
                lingerer_end(l, l->first);
        next_ms = l->first == NULL ? INT64_MAX : l->first->until_ms;
        pthread_mutex_unlock(&l->lock);
        return next_ms;
}
