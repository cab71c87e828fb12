/* SPDX-License-Identifier: MIT */
#include "response.h"

#include <stdint.h>
#include <stdlib.h>
#include <strings.h>

#include "lessor/error.h"

void response_done(struct response *r)
{
        buf_done(&r->raw);
        buf_done(&r->body);
}

void response_clear(struct response *r)
{
        buf_clear(&r->raw);
        buf_clear(&r->body);
        r->head_n = r->length = r->at = 0;
        r->chunked = r->closes = false;
        r->status = 0;
}

/* The value of a header line, when the line has that name. */
static bool header_is(struct lessor_slice line, const char *name, struct lessor_slice *ret_value)
{
        size_t n = strlen(name);

        if (line.n <= n || line.p[n] != ':' || strncasecmp(line.p, name, n) != 0)
                return false;
        for (n++; n < line.n && line.p[n] == ' '; n++)
                ;
        *ret_value = (struct lessor_slice){line.p + n, line.n - n};
        return true;
}

static bool contains(struct lessor_slice text, const char *word)
{
        size_t n = strlen(word);

        for (size_t i = 0; i + n <= text.n; i++)
                if (strncasecmp(text.p + i, word, n) == 0)
                        return true;
        return false;
}

static int read_number(struct lessor_slice text, int base, size_t *ret_number)
{
        char digits[24], *end;
        size_t n = text.n < sizeof(digits) - 1 ? text.n : sizeof(digits) - 1;
        unsigned long long value;

        memcpy(digits, text.p, n);
        digits[n] = '\0';
        value = strtoull(digits, &end, base);
        if (end == digits || value > SIZE_MAX / 4)
                return LESSOR_E_PROTOCOL;
        *ret_number = (size_t)value;
        return 0;
}

static int read_head(struct response *r)
{
        static const char status_line[] = "HTTP/1.1 ";
        const char *end = memmem(r->raw.p, r->raw.n, "\r\n\r\n", 4);
        const char *at = r->raw.p;
        struct lessor_slice value;
        bool has_length = false;

        if (end == NULL)
                return 0;
        if (r->raw.n < sizeof(status_line) + 3 || memcmp(at, status_line, sizeof(status_line) - 1) != 0)
                return LESSOR_E_PROTOCOL;
        r->status = atoi(at + sizeof(status_line) - 1);
        while (at < end) {
                const char *next = memmem(at, (size_t)(end + 2 - at), "\r\n", 2);
                struct lessor_slice line = {at, (size_t)(next - at)};

                if (header_is(line, "content-length", &value)) {
                        if (read_number(value, 10, &r->length) < 0)
                                return LESSOR_E_PROTOCOL;
                        has_length = true;
                } else if (header_is(line, "transfer-encoding", &value)) {
                        r->chunked = contains(value, "chunked");
                } else if (header_is(line, "connection", &value)) {
                        r->closes = contains(value, "close");
                }
                at = next + 2;
        }
        if (!has_length && !r->chunked && r->status != 204)
                return LESSOR_E_PROTOCOL;
        r->head_n = r->at = (size_t)(end + 4 - r->raw.p);
        return 1;
}

/* Takes over the chunks that have arrived whole. Trailers are not expected of anybody. */
static int read_chunks(struct response *r)
{
        for (;;) {
                const char *at = r->raw.p + r->at, *line_end;
                size_t left = r->raw.n - r->at, size, line_n;

                line_end = memmem(at, left, "\r\n", 2);
                if (line_end == NULL)
                        return 0;
                line_n = (size_t)(line_end - at) + 2;
                if (read_number((struct lessor_slice){at, line_n - 2}, 16, &size) < 0)
                        return LESSOR_E_PROTOCOL;
                if (left < line_n + size + 2)
                        return 0;
                if (memcmp(at + line_n + size, "\r\n", 2) != 0)
                        return LESSOR_E_PROTOCOL;
                if (buf_append(&r->body, at + line_n, size) < 0)
                        return LESSOR_E_NOMEM;
                r->at += line_n + size + 2;
                if (size == 0)
                        return r->at == r->raw.n ? 1 : LESSOR_E_PROTOCOL;
        }
}

int response_read(struct response *r)
{
        int e;

        if (r->head_n == 0) {
                e = read_head(r);
                if (e <= 0)
                        return e;
        }
        if (r->chunked)
                return read_chunks(r);
        if (r->raw.n > r->head_n + r->length)
                return LESSOR_E_PROTOCOL;
        return r->raw.n == r->head_n + r->length;
}

struct lessor_slice response_body(const struct response *r)
{
        if (r->chunked)
                return buf_view(&r->body);
        return (struct lessor_slice){r->raw.p + r->head_n, r->length};
}
