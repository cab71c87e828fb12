/* SPDX-License-Identifier: MIT */
#include "http/internal.h"

const char *http_scheme(struct http_request *request)
{
        return request_of(request)->connection->listener->tls ? "https" : "http";
}

struct lessor_slice http_host(struct http_request *request)
{
        return request_of(request)->host;
}

bool http_peer_uid(struct http_request *request, uint32_t *ret_uid)
{
        const struct connection *c = request_of(request)->connection;

        if (c->peer.any.sa_family != AF_UNIX)
                return false;
        *ret_uid = c->peer_uid;
        return true;
}
