/* SPDX-License-Identifier: MIT */
#include <strings.h>

#include "http/internal.h"

static struct lessor_slice cut(struct lessor_slice s, size_t from, size_t to)
{
        return (struct lessor_slice){s.p + from, to - from};
}

/* Where `c` stands first, or the length. */
static size_t find(struct lessor_slice s, char c)
{
        const char *at = s.n == 0 ? NULL : memchr(s.p, c, s.n);

        return at == NULL ? s.n : (size_t)(at - s.p);
}

/* RFC 9112 3.2.2: a server takes the absolute form, and what it says goes before the Host header. */
static unsigned absolute_form(struct request *r, struct lessor_slice *target)
{
        size_t scheme = find(*target, ':') + 3, authority_end;
        struct lessor_slice rest, authority;

        if (scheme > target->n || memcmp(target->p + scheme - 3, "://", 3) != 0)
                return 400;
        if ((scheme != 7 || strncasecmp(target->p, "http", 4) != 0) &&
            (scheme != 8 || strncasecmp(target->p, "https", 5) != 0))
                return 400;
        rest = cut(*target, scheme, target->n);
        for (authority_end = 0; authority_end < rest.n; authority_end++) {
                if (rest.p[authority_end] == '/' || rest.p[authority_end] == '?')
                        break;
        }
        authority = cut(rest, 0, authority_end);
        if (authority.n == 0 || find(authority, '@') < authority.n)
                return 400; /* user information is not for us, and a classic disguise */
        r->host = authority;
        *target = cut(rest, authority_end, rest.n);
        return 0;
}

/* 1 for `.`, 2 for `..`, also with their dots escaped; 0 for any other segment. */
static size_t dots(struct lessor_slice segment)
{
        size_t n = 0;

        for (size_t i = 0; i < segment.n; n++) {
                if (segment.p[i] == '.')
                        i++;
                else if (segment.n - i >= 3 && strncasecmp(segment.p + i, "%2e", 3) == 0)
                        i += 3;
                else
                        return 0;
        }
        return n <= 2 ? n : 0;
}

static bool has_dot_segment(struct lessor_slice path)
{
        for (size_t at = 0; at < path.n;) { /* path.p[at] is a slash */
                struct lessor_slice rest = cut(path, at + 1, path.n);
                size_t n = find(rest, '/');

                if (dots(cut(rest, 0, n)) > 0)
                        return true;
                at += n + 1;
        }
        return false;
}

/*
 * RFC 3986 5.2.4: a path means what is left when its dot segments are resolved, to every proxy in front, to
 * the reference relay (relay-protocol 5) and so to us. `ret` has room for path.n bytes.
 */
static size_t resolve(struct lessor_slice path, char *ret)
{
        size_t n = 0;

        for (size_t at = 0; at < path.n;) { /* path.p[at] is a slash */
                struct lessor_slice rest = cut(path, at + 1, path.n);
                struct lessor_slice segment = cut(rest, 0, find(rest, '/'));
                size_t n_dots = dots(segment);

                at += segment.n + 1;
                if (n_dots == 2)
                        while (n > 0 && ret[--n] != '/')
                                ;
                if (n_dots == 0 || at >= path.n)
                        ret[n++] = '/';
                if (n_dots == 0 && segment.n > 0) {
                        memcpy(ret + n, segment.p, segment.n);
                        n += segment.n;
                }
        }
        return n;
}

unsigned target_read(struct request *r)
{
        struct lessor_slice target = r->target;
        unsigned refusal;
        size_t query;

        for (size_t i = 0; i < target.n; i++) {
                unsigned char c = (unsigned char)target.p[i];

                if (c <= 0x20 || c >= 0x7f || c == '#')
                        return 400;
        }
        if (target.n == 0)
                return 400;
        if (target.p[0] != '/') {
                refusal = absolute_form(r, &target);
                if (refusal != 0)
                        return refusal;
        }
        query = find(target, '?');
        r->public.path = cut(target, 0, query);
        if (query < target.n)
                r->public.query = cut(target, query + 1, target.n);
        if (r->public.path.n == 0)
                r->public.path = LESSOR_SLICE("/"); /* RFC 9110 4.2.3: an absolute target without a path */
        if (has_dot_segment(r->public.path)) {
                char *resolved = lessor_arena_alloc(r->public.arena, r->public.path.n);

                if (resolved == NULL)
                        return 503;
                r->public.path = (struct lessor_slice){resolved, resolve(r->public.path, resolved)};
        }
        return 0;
}

void route_slot_init(struct route_slot *slot, const struct http_route *route, unsigned counter)
{
        size_t n = strlen(route->path);
        bool prefix = n > 0 && route->path[n - 1] == '*';

        *slot = (struct route_slot){
                .route = route, .path_len = prefix ? n - 1 : n, .prefix = prefix, .counter = counter};
}

static bool takes_path(const struct route_slot *slot, struct lessor_slice path)
{
        if (slot->prefix ? path.n < slot->path_len : path.n != slot->path_len)
                return false;
        return memcmp(path.p, slot->route->path, slot->path_len) == 0;
}

struct route_slot *route_find(const struct listener *l, struct lessor_slice method, struct lessor_slice path)
{
        struct route_slot *other = NULL;

        for (size_t i = 0; i < l->n_slots; i++) {
                struct route_slot *slot = &l->slots[i];

                if (!takes_path(slot, path))
                        continue;
                if (slot->route->method == NULL ||
                    lessor_slice_equal(method, lessor_slice_of(slot->route->method)))
                        return other != NULL && slot->prefix ? other : slot;
                if (other == NULL && slot->route->gate != NULL && slot->route->gate->any_method)
                        other = slot;
        }
        return other;
}
