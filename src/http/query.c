/* SPDX-License-Identifier: MIT */
#include "base/size.h"
#include "base/utf8.h"
#include "http/internal.h"
#include "lessor/error.h"

static int hex_digit(char c)
{
        if (c >= '0' && c <= '9')
                return c - '0';
        if (c >= 'a' && c <= 'f')
                return c - 'a' + 10;
        if (c >= 'A' && c <= 'F')
                return c - 'A' + 10;
        return -1;
}

/* What is no escape stands for itself, as in application/x-www-form-urlencoded. `ret` has room for text.n
 * bytes. */
static size_t decode(struct lessor_slice text, char *ret)
{
        size_t n = 0;

        for (size_t i = 0; i < text.n; i++) {
                int high = i + 2 < text.n ? hex_digit(text.p[i + 1]) : -1;
                int low = high < 0 ? -1 : hex_digit(text.p[i + 2]);

                if (text.p[i] == '+') {
                        ret[n++] = ' ';
                } else if (text.p[i] == '%' && low >= 0) {
                        ret[n++] = (char)(high * 16 + low);
                        i += 2;
                } else {
                        ret[n++] = text.p[i];
                }
        }
        return n;
}

static int decoded(struct lessor_arena *arena, struct lessor_slice text, struct lessor_slice *ret_text)
{
        char *p = lessor_arena_alloc(arena, text.n), *mended;
        struct lessor_slice plain;
        size_t room;

        if (p == NULL)
                return LESSOR_E_NOMEM;
        plain = (struct lessor_slice){p, decode(text, p)};
        if (!utf8_valid(plain)) {
                /* What a query says may come back in an answer, which is text. */
                if (!size_mul(plain.n, UTF8_MENDED_MAX(1), &room))
                        return LESSOR_E_NOMEM;
                mended = lessor_arena_alloc(arena, room);
                if (mended == NULL)
                        return LESSOR_E_NOMEM;
                plain = (struct lessor_slice){mended, utf8_mend(plain, mended)};
        }
        *ret_text = plain;
        return 0;
}

int http_query(struct http_request *request, const char *name, struct lessor_slice *ret_value)
{
        struct lessor_slice rest = request->query, wanted = lessor_slice_of(name);

        while (rest.n > 0) {
                const char *end = memchr(rest.p, '&', rest.n);
                struct lessor_slice pair = {rest.p, end == NULL ? rest.n : (size_t)(end - rest.p)};
                const char *equals = pair.n == 0 ? NULL : memchr(pair.p, '=', pair.n);
                struct lessor_slice key = {pair.p, equals == NULL ? pair.n : (size_t)(equals - pair.p)};
                struct lessor_slice value = {pair.p + pair.n, 0};
                int r;

                if (equals != NULL)
                        value = (struct lessor_slice){equals + 1, pair.n - key.n - 1};
                r = decoded(request->arena, key, &key);
                if (r < 0)
                        return r;
                if (pair.n > 0 && lessor_slice_equal(key, wanted))
                        return decoded(request->arena, value, ret_value);
                rest.p += pair.n;
                rest.n -= pair.n;
                if (rest.n > 0) { /* the `&` */
                        rest.p++;
                        rest.n--;
                }
        }
        *ret_value = (struct lessor_slice){NULL, 0};
        return 0;
}
