/* SPDX-License-Identifier: MIT */
#include "plane/redirect.h"

#include "base/buf.h"
#include "base/limits.h"
#include "base/macro.h"

/* The host of an authority, without its port; brackets of an IPv6 address stay. */
static struct lessor_slice without_port(struct lessor_slice authority)
{
        for (size_t i = authority.n; i > 0 && authority.p[i - 1] != ']'; i--)
                if (authority.p[i - 1] == ':')
                        return (struct lessor_slice){authority.p, i - 1};
        return authority;
}

static void refuse(struct http_request *request, void *context)
{
        (void)context;
        http_answer_json(
                request, 403,
                LESSOR_SLICE("{\"error\":\"forbidden\",\"message\":\"this server speaks TLS only\"}"));
}

static void redirect(struct http_request *request, void *context)
{
        _cleanup_(buf_done) struct buf url = {0};
        struct lessor_slice host = without_port(http_host(request));

        if (host.n == 0) { /* HTTP/1.0 without a name to lead to */
                refuse(request, context);
                return;
        }
        buf_text(&url, "https://");
        buf_append(&url, host.p, host.n);
        buf_append(&url, request->path.p, request->path.n);
        if (request->query.p != NULL) {
                buf_text(&url, "?");
                buf_append(&url, request->query.p, request->query.n);
        }
        buf_char(&url, '\0');
        if (buf_failed(&url) < 0 || http_answer_header(request, "Location", url.p) < 0)
                http_answer(request, 503, NULL, NULL);
        else
                http_answer(request, 308, NULL, NULL);
}

const struct http_route redirect_routes[] = {
        {"GET", "*", redirect, LIMIT_BODY_CONTROL, "redirect", "Lead to https"},
        {"HEAD", "*", redirect, LIMIT_BODY_CONTROL, "redirect", "Lead to https"},
        {NULL, "*", refuse, LIMIT_BODY_CONTROL, "plain", "Refuse what came in the clear"},
        {NULL, NULL, NULL, 0, NULL, NULL},
};
