/* SPDX-License-Identifier: MIT */
#include <strings.h>

#include "base/limits.h"
#include "http/internal.h"
#include "lessor/error.h"

struct reading {
        struct request *request;
        size_t cap;
        size_t n_host, n_length, n_coding;
        bool bad_name, bad_value, bad_host, bad_coding;
        const char *next_at; /* where the next line begins if MHD shows all that was sent */
        bool left_out;
        bool one_zero; /* HTTP/1.0 */
};

static bool is_named(struct lessor_slice name, struct lessor_slice lower)
{
        return name.n == lower.n && strncasecmp(name.p, lower.p, lower.n) == 0;
}

/* What a byte may stand in: RFC 9110 5.6.2; of a host only what no proxy may read otherwise. */
enum { IN_TOKEN = 1, IN_HOST = 2, IN_BOTH = 3 };
static const uint8_t allowed[256] = {
        ['0' ... '9'] = IN_BOTH,  ['A' ... 'Z'] = IN_BOTH, ['a' ... 'z'] = IN_BOTH, ['!'] = IN_BOTH,
        ['$' ... '\''] = IN_BOTH, ['*' ... '+'] = IN_BOTH, ['-' ... '.'] = IN_BOTH, ['^' ... '`'] = IN_BOTH,
        ['|'] = IN_BOTH,          ['~'] = IN_BOTH,         ['#'] = IN_TOKEN,        ['(' ... ')'] = IN_HOST,
        [':' ... ';'] = IN_HOST,  ['='] = IN_HOST,         ['['] = IN_HOST,         [']'] = IN_HOST,
        ['{'] = IN_HOST,          ['}'] = IN_HOST,
};

static bool all_in(struct lessor_slice text, int what)
{
        for (size_t i = 0; i < text.n; i++) {
                if ((allowed[(unsigned char)text.p[i]] & what) == 0)
                        return false;
        }
        return true;
}

static bool is_token(struct lessor_slice text)
{
        return text.n > 0 && all_in(text, IN_TOKEN);
}

static bool is_host(struct lessor_slice text)
{
        return all_in(text, IN_HOST);
}

/* Not zero if one of eight bytes may be a control character; a false alarm costs a closer look. */
static uint64_t may_have_control(const char *p)
{
        const uint64_t ones = UINT64_C(0x0101010101010101), high = ones * 0x80;
        uint64_t word, deleted;

        memcpy(&word, p, sizeof(word));
        deleted = word ^ (ones * 0x7f);
        return (((word - ones * 0x20) & ~word) | ((deleted - ones) & ~deleted)) & high;
}

/* RFC 9110 5.5: a carriage return, a NUL and their like may be another thing to the next reader. */
static bool is_value(struct lessor_slice text)
{
        size_t i = 0;

        while (i < text.n) {
                unsigned char c = (unsigned char)text.p[i];

                if (text.n - i >= 8 && may_have_control(text.p + i) == 0) {
                        i += 8;
                        continue;
                }
                if ((c < 0x20 && c != '\t') || c == 0x7f)
                        return false;
                i++;
        }
        return true;
}

static struct lessor_slice trimmed(struct lessor_slice value)
{
        while (value.n > 0 && (value.p[value.n - 1] == ' ' || value.p[value.n - 1] == '\t'))
                value.n--;
        return value;
}

static void note(struct reading *reading, struct lessor_slice name, struct lessor_slice value)
{
        struct request *r = reading->request;

        switch (name.n) {
        case 4:
                if (is_named(name, LESSOR_SLICE("host"))) {
                        reading->n_host++;
                        reading->bad_host |= !is_host(value);
                        if (r->host.p == NULL)
                                r->host = value;
                }
                break;
        case 6:
                if (is_named(name, LESSOR_SLICE("expect")))
                        r->expects_continue = is_named(value, LESSOR_SLICE("100-continue"));
                break;
        case 14:
                if (is_named(name, LESSOR_SLICE("content-length")))
                        reading->n_length++;
                break;
        case 17:
                if (is_named(name, LESSOR_SLICE("transfer-encoding"))) {
                        reading->n_coding++;
                        reading->bad_coding |= !is_named(value, LESSOR_SLICE("chunked"));
                }
                break;
        default:
                break;
        }
}

static enum MHD_Result collect(void *context, enum MHD_ValueKind kind, const char *key, size_t key_len,
                               const char *text, size_t text_len)
{
        struct reading *reading = context;
        struct request *r = reading->request;
        struct lessor_slice name = {key, key_len};
        struct lessor_slice value = trimmed((struct lessor_slice){text == NULL ? "" : text, text_len});

        (void)kind;
        reading->left_out |= key != reading->next_at;
        reading->next_at = (text == NULL ? key + key_len : text + text_len) + 2;
        if (r->n_headers >= reading->cap)
                return MHD_NO;
        reading->bad_name |= !is_token(name);
        reading->bad_value |= !is_value(value);
        r->headers[r->n_headers++] = (struct header){name, value};
        note(reading, name, value);
        return MHD_YES;
}

/* MHD has read the number already; this cannot fail. */
static uint64_t length_of(const struct request *r)
{
        for (size_t i = 0; i < r->n_headers; i++) {
                uint64_t n = 0;

                if (!is_named(r->headers[i].name, LESSOR_SLICE("content-length")))
                        continue;
                for (size_t k = 0; k < r->headers[i].value.n; k++)
                        n = n * 10 + (uint64_t)(r->headers[i].value.p[k] - '0');
                return n;
        }
        return 0;
}

/*
 * MHD (0.9.75) ends a text at a NUL, mixes up folded lines, and takes a bare line feed for the end of a line:
 * what it shows may be other than what was sent, and than what a proxy before us has read. It parses in
 * place, so where nothing of the kind is there every part begins where the one before it ended, and all of
 * them make up the size of the whole.
 */
static void begin_comparing(struct reading *reading, const char *version)
{
        const struct request *r = reading->request;
        struct lessor_slice method = r->public.method;

        reading->left_out =
                r->target_at != method.p + method.n + 1 || version != r->target_at + r->target.n + 1;
        reading->next_at = version + strlen(version) + 2;
}

static bool left_out_something(const struct reading *reading, struct MHD_Connection *mhd)
{
        const union MHD_ConnectionInfo *info =
                MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE);

        return reading->left_out || info == NULL ||
               reading->request->public.method.p + info->header_size != reading->next_at + 2;
}

unsigned headers_read(struct request *r, struct MHD_Connection *mhd, const char *version,
                      const char **ret_why)
{
        int n = MHD_get_connection_values_n(mhd, MHD_HEADER_KIND, NULL, NULL);
        struct reading reading = {.request = r, .one_zero = strcmp(version, "HTTP/1.0") == 0};

        *ret_why = NULL;
        if (n < 0 || n > LIMIT_HTTP_HEADERS) {
                *ret_why = "too many headers";
                return 431;
        }
        reading.cap = (size_t)n;
        r->headers = lessor_arena_array(r->public.arena, reading.cap, sizeof(*r->headers));
        if (r->headers == NULL)
                return 503;
        begin_comparing(&reading, version);
        MHD_get_connection_values_n(mhd, MHD_HEADER_KIND, collect, &reading);

        r->has_length = reading.n_length > 0;
        r->chunked = reading.n_coding > 0;
        if (reading.bad_name)
                *ret_why = "a header's name is not valid";
        else if (reading.bad_value)
                *ret_why = "a header's value is not valid";
        else if (left_out_something(&reading, mhd))
                *ret_why = "there is a NUL, a folded line or a bare line feed in the head";
        else if (reading.n_host > 1 || reading.bad_host || (reading.n_host == 0 && !reading.one_zero))
                *ret_why = "there must be one valid Host header";
        else if (reading.n_length > 1 || (r->has_length && r->chunked))
                *ret_why = "the body's length is given more than once";
        else if (reading.n_coding > 1 || reading.bad_coding || (r->chunked && reading.one_zero))
                *ret_why = "that transfer coding is not served";
        if (*ret_why != NULL)
                return 400;
        r->content_length = r->has_length ? length_of(r) : 0;
        return 0;
}

int64_t http_body_length(struct http_request *request)
{
        const struct request *r = request_of(request);

        if (r->chunked)
                return -1;
        return r->content_length > INT64_MAX ? INT64_MAX : (int64_t)r->content_length;
}

struct lessor_slice http_header(struct http_request *request, const char *name)
{
        struct request *r = request_of(request);
        struct lessor_slice wanted = lessor_slice_of(name), first = {NULL, 0};
        struct buf joined;
        size_t n = 0;

        for (size_t i = 0; i < r->n_headers; i++) {
                if (is_named(r->headers[i].name, wanted) && n++ == 0)
                        first = r->headers[i].value;
        }
        if (n < 2)
                return first;

        buf_init(&joined); /* relay-protocol 4: repeated headers are joined */
        for (size_t i = 0; i < r->n_headers; i++) {
                if (!is_named(r->headers[i].name, wanted))
                        continue;
                if (joined.n > 0 || r->headers[i].value.p != first.p)
                        buf_text(&joined, ", ");
                buf_slice(&joined, r->headers[i].value);
        }
        if (buf_failed(&joined) < 0 || lessor_arena_copy(request->arena, buf_view(&joined), &first) < 0)
                first = (struct lessor_slice){NULL, 0};
        buf_done(&joined);
        return first;
}
