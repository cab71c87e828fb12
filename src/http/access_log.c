/* SPDX-License-Identifier: MIT */
#include <arpa/inet.h>

#include "base/log.h"
#include "http/internal.h"

/* Empty for a Unix socket. */
static struct lessor_slice peer_text(struct connection *c)
{
        const struct in6_addr *six = &c->peer.v6.sin6_addr;

        if (c->peer_text[0] != '\0')
                return lessor_slice_of(c->peer_text);
        if (c->peer.any.sa_family == AF_INET)
                inet_ntop(AF_INET, &c->peer.v4.sin_addr, c->peer_text, PEER_TEXT_LEN);
        else if (c->peer.any.sa_family == AF_INET6 && IN6_IS_ADDR_V4MAPPED(six))
                inet_ntop(AF_INET, six->s6_addr + 12, c->peer_text, PEER_TEXT_LEN);
        else if (c->peer.any.sa_family == AF_INET6)
                inet_ntop(AF_INET6, six, c->peer_text, PEER_TEXT_LEN);
        return lessor_slice_of(c->peer_text);
}

static struct lessor_slice or_absent(struct lessor_slice text)
{
        return text.n == 0 ? (struct lessor_slice){NULL, 0} : text;
}

static struct lessor_slice path_text(const struct request *r)
{
        if (r->slot != NULL && r->slot->route->is_secret)
                return lessor_slice_of(r->slot->route->path);
        return or_absent(r->public.path);
}

void access_log_write(const struct request *r, unsigned status, bool delivered, int64_t duration_us)
{
        struct connection *c = r->connection;

        if (r->server->options.no_access_log || !log_enabled(LOG_LEVEL_INFO))
                return;
        log_info("request", LOG_CSTR("listener", c->listener->name),
                 LOG_TEXT("method", or_absent(r->public.method)),
                 LOG_CSTR("route", r->slot == NULL ? "-" : r->slot->route->name),
                 LOG_TEXT("path", path_text(r)), LOG_INT("status", status),
                 LOG_INT("in", (int64_t)r->received), LOG_INT("out", (int64_t)r->answer_bytes),
                 LOG_INT("us", duration_us), LOG_TEXT("peer", or_absent(peer_text(c))),
                 LOG_TEXT("caller", or_absent(r->caller)), LOG_BOOL("delivered", delivered));
}

void http_log_caller(struct http_request *request, struct lessor_slice caller)
{
        /* Without memory the line says nothing of the caller, which is better than no answer. */
        (void)!lessor_arena_copy(request->arena, caller, &request_of(request)->caller);
}

struct lessor_slice http_peer(struct http_request *request)
{
        struct lessor_slice copy = {"", 0};

        (void)!lessor_arena_copy(request->arena, peer_text(request_of(request)->connection), &copy);
        return copy;
}
