/* SPDX-License-Identifier: MIT */
#include <strings.h>

#include "http/file_answer.h"

/* Takes a number off the front, as large as it may be. False when there is none. */
static bool number(struct lessor_slice *text, uint64_t *ret_n)
{
        uint64_t n = 0;
        size_t i;

        for (i = 0; i < text->n && text->p[i] >= '0' && text->p[i] <= '9'; i++) {
                uint64_t digit = (uint64_t)(text->p[i] - '0');

                n = n > (UINT64_MAX - digit) / 10 ? UINT64_MAX : n * 10 + digit;
        }
        text->p += i;
        text->n -= i;
        *ret_n = n;
        return i > 0;
}

static void skip_blanks(struct lessor_slice *text)
{
        while (text->n > 0 && (text->p[0] == ' ' || text->p[0] == '\t')) {
                text->p++;
                text->n--;
        }
}

struct bounds {
        bool has_first, has_last;
        uint64_t first, last;
};

/* "bytes=FIRST-LAST", "bytes=FIRST-" or "bytes=-COUNT", and nothing else. */
static bool range_read(struct lessor_slice text, struct bounds *ret)
{
        static const char unit[] = "bytes=";

        if (text.n < sizeof(unit) - 1 || strncasecmp(text.p, unit, sizeof(unit) - 1) != 0)
                return false;
        text.p += sizeof(unit) - 1;
        text.n -= sizeof(unit) - 1;
        skip_blanks(&text);
        ret->has_first = number(&text, &ret->first);
        if (text.n == 0 || text.p[0] != '-')
                return false;
        text.p++;
        text.n--;
        ret->has_last = number(&text, &ret->last);
        skip_blanks(&text);
        if (text.n > 0 || (!ret->has_first && !ret->has_last))
                return false;
        return !ret->has_first || !ret->has_last || ret->first <= ret->last;
}

/* RFC 9110 13.1.5: only a strong comparison counts, and a date is none. */
static bool is_same_version(struct http_request *request, const char *etag)
{
        struct lessor_slice condition = http_header(request, "If-Range");

        if (condition.p == NULL)
                return true;
        return etag != NULL && lessor_slice_equal(condition, lessor_slice_of(etag));
}

enum http_range http_range(struct http_request *request, uint64_t size, const char *etag,
                           uint64_t *ret_offset, uint64_t *ret_length)
{
        struct lessor_slice text = http_header(request, "Range");
        struct bounds b = {0};
        uint64_t offset, length;

        *ret_offset = 0;
        *ret_length = size;
        if (text.p == NULL || !lessor_slice_equal(request->method, LESSOR_SLICE("GET")) ||
            !range_read(text, &b) || !is_same_version(request, etag))
                return HTTP_RANGE_WHOLE;
        if (!b.has_first) { /* the last so many */
                length = b.last < size ? b.last : size;
                offset = size - length;
        } else {
                offset = b.first;
                length = offset >= size ? 0 : size - offset;
                if (b.has_last && length > 0 && b.last - offset < length)
                        length = b.last - offset + 1;
        }
        if (length == 0)
                return HTTP_RANGE_NONE;
        *ret_offset = offset;
        *ret_length = length;
        return HTTP_RANGE_PART;
}
