/* SPDX-License-Identifier: MIT */
#include "wire.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "lessor/error.h"

#define READ_STEP   65536
#define PATIENCE_MS 60000

static int open_to(int family, const struct sockaddr *address, socklen_t n, struct wire **ret_wire)
{
        _cleanup_(wire_freep) struct wire *wire = calloc(1, sizeof(*wire));
        int on = 1;

        if (wire == NULL)
                return LESSOR_E_NOMEM;
        wire->fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (wire->fd < 0 || connect(wire->fd, address, n) < 0)
                return LESSOR_E_IO;
        if (family == AF_INET)
                (void)setsockopt(wire->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
        *ret_wire = TAKE(wire);
        return 0;
}

int wire_open(unsigned port, struct wire **ret_wire)
{
        const struct sockaddr_in address = {.sin_family = AF_INET,
                                            .sin_port = htons((uint16_t)port),
                                            .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};

        return open_to(AF_INET, (const struct sockaddr *)&address, sizeof(address), ret_wire);
}

int wire_open_unix(const char *path, struct wire **ret_wire)
{
        struct sockaddr_un address = {.sun_family = AF_UNIX};

        if (strlen(path) >= sizeof(address.sun_path))
                return LESSOR_E_IO;
        memcpy(address.sun_path, path, strlen(path));
        return open_to(AF_UNIX, (const struct sockaddr *)&address, sizeof(address), ret_wire);
}

struct wire *wire_free(struct wire *wire)
{
        if (wire == NULL)
                return NULL;
        if (wire->fd >= 0)
                (void)close(wire->fd);
        response_done(&wire->response);
        free(wire);
        return NULL;
}

int wire_send(struct wire *wire, struct lessor_slice request)
{
        size_t sent = 0;

        response_clear(&wire->response);
        while (sent < request.n) {
                ssize_t n = send(wire->fd, request.p + sent, request.n - sent, MSG_NOSIGNAL);

                if (n < 0 && errno != EINTR)
                        return LESSOR_E_CLOSED;
                if (n > 0)
                        sent += (size_t)n;
        }
        return 0;
}

int wire_answer(struct wire *wire, int *ret_status, struct lessor_slice *ret_body)
{
        static char piece[READ_STEP];
        int e = 0;

        while (e == 0) {
                struct pollfd wait = {.fd = wire->fd, .events = POLLIN};
                ssize_t n;

                if (poll(&wait, 1, PATIENCE_MS) <= 0)
                        return LESSOR_E_TIMEOUT;
                n = recv(wire->fd, piece, sizeof(piece), 0);
                if (n <= 0)
                        return LESSOR_E_CLOSED;
                e = buf_slice(&wire->response.raw, (struct lessor_slice){piece, (size_t)n});
                if (e == 0)
                        e = response_read(&wire->response);
        }
        if (e < 0)
                return e;
        *ret_status = wire->response.status;
        *ret_body = response_body(&wire->response);
        return 0;
}

int wire_ask(struct wire *wire, struct lessor_slice request, struct lessor_slice *ret_body)
{
        struct lessor_slice body;
        int status, e = wire_send(wire, request);

        if (e == 0)
                e = wire_answer(wire, &status, &body);
        if (e < 0)
                return e;
        if (status != 200 && status != 204) {
                fprintf(stderr, "load: %d %.*s\n", status, (int)body.n, body.p);
                return LESSOR_E_REFUSED;
        }
        if (ret_body != NULL)
                *ret_body = body;
        return 0;
}
