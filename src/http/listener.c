/* SPDX-License-Identifier: MIT */
#include <arpa/inet.h>
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/log.h"
#include "http/internal.h"
#include "http/problem.h"
#include "lessor/error.h"

#define BACKLOG 4096
/* At most so many at once, so that timers are not late while a crowd arrives. */
#define ACCEPTS_AT_ONCE 64

static int parse_port(const char *text, unsigned *ret_port)
{
        char *end;
        unsigned long port;

        if (text[0] < '0' || text[0] > '9')
                return LESSOR_E_INVALID;
        errno = 0;
        port = strtoul(text, &end, 10);
        if (errno != 0 || *end != '\0' || port > 65535)
                return LESSOR_E_INVALID;
        *ret_port = (unsigned)port;
        return 0;
}

/* "1.2.3.4:80" or "[::1]:80"; names are not looked up. */
static int parse_address(const char *text, struct sockaddr_storage *ret_address, socklen_t *ret_len)
{
        struct sockaddr_in *four = (struct sockaddr_in *)ret_address;
        struct sockaddr_in6 *six = (struct sockaddr_in6 *)ret_address;
        const char *colon = strrchr(text, ':');
        char host[INET6_ADDRSTRLEN];
        size_t n;
        unsigned port;

        if (colon == NULL || parse_port(colon + 1, &port) < 0)
                return LESSOR_E_INVALID;
        n = (size_t)(colon - text);
        memset(ret_address, 0, sizeof(*ret_address));
        if (n >= 2 && text[0] == '[' && text[n - 1] == ']') {
                if (n - 2 >= sizeof(host))
                        return LESSOR_E_INVALID;
                memcpy(host, text + 1, n - 2);
                host[n - 2] = '\0';
                six->sin6_family = AF_INET6;
                six->sin6_port = htons((uint16_t)port);
                *ret_len = sizeof(*six);
                return inet_pton(AF_INET6, host, &six->sin6_addr) == 1 ? 0 : LESSOR_E_INVALID;
        }
        if (n >= sizeof(host))
                return LESSOR_E_INVALID;
        memcpy(host, text, n);
        host[n] = '\0';
        four->sin_family = AF_INET;
        four->sin_port = htons((uint16_t)port);
        *ret_len = sizeof(*four);
        return inet_pton(AF_INET, host, &four->sin_addr) == 1 ? 0 : LESSOR_E_INVALID;
}

int http_address_check(const char *text)
{
        struct sockaddr_storage address;
        socklen_t n;

        return parse_address(text, &address, &n);
}

static int bind_problem(const struct listener *l, struct lessor_arena *arena, const char **ret_problem)
{
        int error = errno;

        if (error == EADDRINUSE)
                return problem(arena, ret_problem, LESSOR_E_BUSY,
                               "cannot listen on %s: somebody else listens there", l->address);
        return problem(arena, ret_problem, error == EACCES ? LESSOR_E_PERMISSION : LESSOR_E_IO,
                       "cannot listen on %s: %s", l->address, strerror(error));
}

static int open_tcp(struct listener *l, struct lessor_arena *arena, const char **ret_problem)
{
        struct sockaddr_storage address;
        socklen_t n;
        int one = 1;

        if (parse_address(l->address, &address, &n) < 0)
                return problem(arena, ret_problem, LESSOR_E_INVALID,
                               "cannot listen on %s: it must be ADDRESS:PORT, for example 127.0.0.1:5327 or "
                               "[::1]:5327",
                               l->address);
        l->fd = socket(address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (l->fd < 0)
                return bind_problem(l, arena, ret_problem);
        setsockopt(l->fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
        if (address.ss_family == AF_INET6)
                setsockopt(l->fd, IPPROTO_IPV6, IPV6_V6ONLY, &one, sizeof(one));
        if (bind(l->fd, (struct sockaddr *)&address, n) < 0 || listen(l->fd, BACKLOG) < 0)
                return bind_problem(l, arena, ret_problem);
        n = sizeof(address);
        if (getsockname(l->fd, (struct sockaddr *)&address, &n) < 0)
                return bind_problem(l, arena, ret_problem);
        l->port = ntohs(address.ss_family == AF_INET ? ((struct sockaddr_in *)&address)->sin_port
                                                     : ((struct sockaddr_in6 *)&address)->sin6_port);
        return 0;
}

/* A socket file stays behind when its server dies; connecting tells whether anybody is there. */
static bool is_abandoned(const struct sockaddr_un *address)
{
        int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), error;

        if (fd < 0)
                return false;
        error = connect(fd, (const struct sockaddr *)address, sizeof(*address)) < 0 ? errno : 0;
        close(fd);
        return error == ECONNREFUSED;
}

static int open_unix(struct listener *l, struct lessor_arena *arena, const char **ret_problem)
{
        struct sockaddr_un address = {.sun_family = AF_UNIX};
        const char *path = l->address + strlen("unix:");
        size_t n = strlen(path);
        int r;

        if (n == 0 || n >= sizeof(address.sun_path))
                return problem(
                        arena, ret_problem, LESSOR_E_INVALID,
                        "cannot listen on %s: the path of a socket has 1 to %zu bytes, so choose a shorter "
                        "directory",
                        l->address, sizeof(address.sun_path) - 1);
        memcpy(address.sun_path, path, n);
        l->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (l->fd < 0)
                return bind_problem(l, arena, ret_problem);
        /* Linux makes the file with the mode that the socket has, so it is never there with another. */
        if (fchmod(l->fd, 0600) < 0)
                return bind_problem(l, arena, ret_problem);
        r = bind(l->fd, (struct sockaddr *)&address, sizeof(address));
        if (r < 0 && errno == EADDRINUSE && is_abandoned(&address) && unlink(path) == 0)
                r = bind(l->fd, (struct sockaddr *)&address, sizeof(address));
        if (r < 0)
                return bind_problem(l, arena, ret_problem);
        l->unix_path = strdup(path);
        if (l->unix_path == NULL)
                return LESSOR_E_NOMEM;
        return listen(l->fd, BACKLOG) < 0 ? bind_problem(l, arena, ret_problem) : 0;
}

int listener_open(struct listener *l, struct lessor_arena *arena, const char **ret_problem)
{
        if (strncmp(l->address, "unix:", 5) == 0)
                return open_unix(l, arena, ret_problem);
        return open_tcp(l, arena, ret_problem);
}

void listener_close(struct listener *l)
{
        if (l->fd >= 0)
                close(l->fd);
        l->fd = -1;
        if (l->unix_path != NULL)
                unlink(l->unix_path);
        free(l->unix_path);
        l->unix_path = NULL;
}

/* Whether we serve whoever this is; also writes down who. */
static bool is_welcome(struct listener *l, struct connection *c)
{
        struct http_server *server = l->server;
        struct ucred peer;
        socklen_t n = sizeof(peer);
        bool welcome;

        if (c->peer.any.sa_family == AF_UNIX) {
                if (getsockopt(c->fd, SOL_SOCKET, SO_PEERCRED, &peer, &n) < 0)
                        return false;
                c->peer_uid = peer.uid;
                welcome = peer.uid == geteuid() || peer.uid == 0;
                if (!welcome)
                        log_warning("foreign user refused", LOG_CSTR("address", l->address),
                                    LOG_INT("uid", peer.uid));
                if (!welcome)
                        return false;
        }
        pthread_mutex_lock(&server->lock);
        welcome = server->n_admitted < server->options.max_connections &&
                  address_table_enter(server->addresses, c, server->options.max_per_address);
        c->admitted = welcome;
        server->n_admitted += welcome;
        pthread_mutex_unlock(&server->lock);
        return welcome;
}

bool listener_accept(struct listener *l)
{
        struct http_server *server = l->server;

        for (int i = 0; i < ACCEPTS_AT_ONCE; i++) {
                struct connection *c = connection_new(server);
                socklen_t n = sizeof(c->peer);
                int fd;

                if (c == NULL)
                        return false;
                memset(&c->peer, 0, sizeof(c->peer));
                fd = accept4(l->fd, &c->peer.any, &n, SOCK_NONBLOCK | SOCK_CLOEXEC);
                c->fd = fd;
                c->listener = l;
                c->counted = false;
                if (fd < 0) {
                        int error = errno;

                        connection_discard(server, c);
                        if (error == ECONNABORTED || error == EINTR)
                                continue;
                        return error != EMFILE && error != ENFILE && error != ENOBUFS && error != ENOMEM;
                }
                atomic_fetch_add_explicit(&server->accepted, 1, memory_order_relaxed);
                if (is_welcome(l, c)) {
                        worker_hand_over(server, c);
                        continue;
                }
                atomic_fetch_add_explicit(&server->refused, 1, memory_order_relaxed);
                connection_discard(server, c);
                close(fd);
        }
        return true;
}
