/* SPDX-License-Identifier: MIT */
#include "traffic.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "lessor/error.h"
#include "machine.h"
#include "response.h"

#define READ_STEP      65536
#define EVENTS_AT_ONCE 256
#define PATIENCE_MS    60000

struct lane {
        int fd;
        struct lessor_slice request;
        size_t sent;
        uint64_t started_ns;
        struct response response;
        bool waits_to_write;
        bool busy;
};

struct traffic {
        int epoll;
        unsigned n_lanes, n_busy;
        struct lane *lanes;
        const struct traffic_plan *plan;
};

static int connect_lane(struct traffic *t, unsigned index, unsigned port)
{
        struct sockaddr_in address = {.sin_family = AF_INET,
                                      .sin_port = htons((uint16_t)port),
                                      .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        struct epoll_event event = {.events = EPOLLIN, .data.u32 = index};
        struct lane *lane = &t->lanes[index];
        int on = 1;

        lane->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (lane->fd < 0 || connect(lane->fd, (struct sockaddr *)&address, sizeof(address)) < 0)
                return LESSOR_E_IO;
        (void)setsockopt(lane->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
        return epoll_ctl(t->epoll, EPOLL_CTL_ADD, lane->fd, &event) < 0 ? LESSOR_E_IO : 0;
}

int traffic_open(unsigned port, unsigned n_lanes, struct traffic **ret_traffic)
{
        _cleanup_(traffic_freep) struct traffic *t = calloc(1, sizeof(*t));
        int e;

        if (t == NULL)
                return LESSOR_E_NOMEM;
        t->epoll = epoll_create1(EPOLL_CLOEXEC);
        t->lanes = calloc(n_lanes, sizeof(*t->lanes));
        if (t->lanes == NULL)
                return LESSOR_E_NOMEM;
        for (unsigned i = 0; i < n_lanes; i++, t->n_lanes++)
                t->lanes[i].fd = -1;
        for (unsigned i = 0; i < n_lanes; i++) {
                e = connect_lane(t, i, port);
                if (e < 0)
                        return e;
        }
        *ret_traffic = TAKE(t);
        return 0;
}

struct traffic *traffic_free(struct traffic *t)
{
        if (t == NULL)
                return NULL;
        for (unsigned i = 0; i < t->n_lanes; i++) {
                if (t->lanes[i].fd >= 0)
                        close(t->lanes[i].fd);
                response_done(&t->lanes[i].response);
        }
        if (t->epoll >= 0)
                close(t->epoll);
        free(t->lanes);
        free(t);
        return NULL;
}

static int watch(struct traffic *t, struct lane *lane, bool write_too)
{
        struct epoll_event event = {.events = write_too ? EPOLLIN | EPOLLOUT : EPOLLIN,
                                    .data.u32 = (uint32_t)(lane - t->lanes)};

        if (lane->waits_to_write == write_too)
                return 0;
        lane->waits_to_write = write_too;
        return epoll_ctl(t->epoll, EPOLL_CTL_MOD, lane->fd, &event) < 0 ? LESSOR_E_IO : 0;
}

static int write_some(struct traffic *t, struct lane *lane)
{
        while (lane->sent < lane->request.n) {
                ssize_t n = send(lane->fd, lane->request.p + lane->sent, lane->request.n - lane->sent,
                                 MSG_DONTWAIT | MSG_NOSIGNAL);

                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0 && errno == EAGAIN)
                        return watch(t, lane, true);
                if (n < 0)
                        return LESSOR_E_CLOSED;
                lane->sent += (size_t)n;
        }
        return watch(t, lane, false);
}

/* Sends the lane's next request, or puts the lane to rest. */
static int start_next(struct traffic *t, struct lane *lane)
{
        int e = t->plan->next(t->plan->context, (unsigned)(lane - t->lanes), &lane->request);

        if (e <= 0) {
                t->n_busy -= lane->busy;
                lane->busy = false;
                return e;
        }
        t->n_busy += !lane->busy;
        lane->busy = true;
        lane->sent = 0;
        lane->started_ns = now_ns();
        response_clear(&lane->response);
        return write_some(t, lane);
}

static int finish(struct traffic *t, struct lane *lane)
{
        const struct traffic_answer answer = {.status = lane->response.status,
                                              .body = response_body(&lane->response),
                                              .elapsed_ns = now_ns() - lane->started_ns};
        int e = t->plan->answered(t->plan->context, (unsigned)(lane - t->lanes), &answer);

        if (e < 0)
                return e;
        return lane->response.closes ? LESSOR_E_CLOSED : start_next(t, lane);
}

static int read_some(struct traffic *t, struct lane *lane)
{
        struct buf *raw = &lane->response.raw;

        for (;;) {
                ssize_t n;
                size_t room;
                int e;

                if (raw->cap - raw->n < READ_STEP / 16 && buf_reserve(raw, READ_STEP) < 0)
                        return LESSOR_E_NOMEM;
                room = raw->cap - raw->n - 1;
                n = recv(lane->fd, raw->p + raw->n, room, MSG_DONTWAIT);
                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0 && errno == EAGAIN)
                        return 0;
                if (n <= 0)
                        return LESSOR_E_CLOSED;
                raw->n += (size_t)n;
                e = response_read(&lane->response);
                if (e < 0)
                        return e;
                if (e > 0)
                        return finish(t, lane);
                if ((size_t)n < room)
                        return 0;
        }
}

/* Waits for lanes that are ready. Returns how many, as epoll_wait; 0 when the patience is at an end. */
static int wait_for_lanes(struct traffic *t, struct epoll_event events[EVENTS_AT_ONCE])
{
        const struct timespec nap = {.tv_nsec = (long)t->plan->nap_ns};
        uint64_t end_ns;
        int n;

        if (t->plan->nap_ns == 0)
                return epoll_wait(t->epoll, events, EVENTS_AT_ONCE, PATIENCE_MS);
        end_ns = now_ns() + PATIENCE_MS * 1000000ull;
        do {
                nanosleep(&nap, NULL);
                n = epoll_wait(t->epoll, events, EVENTS_AT_ONCE, 0);
        } while (n == 0 && now_ns() < end_ns);
        return n;
}

int traffic_run(struct traffic *t, const struct traffic_plan *plan)
{
        struct epoll_event events[EVENTS_AT_ONCE];
        int e;

        t->plan = plan;
        for (unsigned i = 0; i < t->n_lanes; i++) {
                e = start_next(t, &t->lanes[i]);
                if (e < 0)
                        return e;
        }
        while (t->n_busy > 0) {
                int n = wait_for_lanes(t, events);

                if (n == 0)
                        return LESSOR_E_TIMEOUT;
                if (n < 0 && errno != EINTR)
                        return LESSOR_E_IO;
                for (int i = 0; i < n; i++) {
                        struct lane *lane = &t->lanes[events[i].data.u32];

                        e = 0;
                        if ((events[i].events & EPOLLOUT) != 0)
                                e = write_some(t, lane);
                        if (e == 0 && (events[i].events & ~(uint32_t)EPOLLOUT) != 0)
                                e = read_some(t, lane);
                        if (e < 0)
                                return e;
                }
        }
        return 0;
}
