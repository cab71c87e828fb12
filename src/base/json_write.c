/* SPDX-License-Identifier: MIT */
#include "base/json_write.h"

#include <assert.h>

#include "base/macro.h"

#define EACH_BYTE(c) (UINT64_C(0x0101010101010101) * (c))
#define HIGH_BITS    EACH_BYTE(0x80)

/* A mark in the high bit of every byte that is zero; borrows make false ones, but only above a true one. */
static uint64_t zeros(uint64_t word)
{
        return (word - EACH_BYTE(1)) & ~word & HIGH_BITS;
}

/* The same for bytes that are a quote, a backslash or below U+0020. */
static uint64_t specials(uint64_t word)
{
        uint64_t control = (word - EACH_BYTE(0x20)) & ~word & HIGH_BITS;

        return control | zeros(word ^ EACH_BYTE('"')) | zeros(word ^ EACH_BYTE('\\'));
}

static bool is_special(char c)
{
        return (unsigned char)c < 0x20 || c == '"' || c == '\\';
}

/* How many bytes from p on stand for themselves. Ciphertext is one run of megabytes, hence the words. */
static size_t plain_run(const char *p, size_t n)
{
        size_t i = 0;

        while (n - i >= sizeof(uint64_t)) {
                uint64_t word, special;

                memcpy(&word, p + i, sizeof(word));
                special = specials(word);
                if (special != 0 && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__)
                        return i + (size_t)__builtin_ctzll(special) / 8;
                if (special != 0)
                        break;
                i += sizeof(word);
        }
        while (i < n && !is_special(p[i]))
                i++;
        return i;
}

static void write_escape(struct buf *out, char c)
{
        static const char digits[] = "0123456789abcdef";
        char escape[6] = {'\\', 'u', '0', '0', 0, 0};

        switch (c) {
        case '"':
        case '\\':
                escape[1] = c;
                break;
        case '\b':
                escape[1] = 'b';
                break;
        case '\t':
                escape[1] = 't';
                break;
        case '\n':
                escape[1] = 'n';
                break;
        case '\f':
                escape[1] = 'f';
                break;
        case '\r':
                escape[1] = 'r';
                break;
        default:
                escape[4] = digits[c >> 4];
                escape[5] = digits[c & 0x0f];
                buf_append(out, escape, 6);
                return;
        }
        buf_append(out, escape, 2);
}

/* A text that stands for itself, as nearly all do, in one piece. */
static int write_plain(struct buf *out, struct lessor_slice text)
{
        char *to;
        int r = buf_reserve(out, text.n + 2);

        if (r < 0)
                return r;
        to = out->p + out->n;
        *to++ = '"';
        if (text.n > 0)
                memcpy(to, text.p, text.n);
        memcpy(to + text.n, "\"", 2); /* and the NUL */
        out->n += text.n + 2;
        return 0;
}

int json_write_text(struct buf *out, struct lessor_slice text)
{
        size_t i = plain_run(text.p, text.n);

        if (i == text.n && text.n < SIZE_MAX - 2)
                return write_plain(out, text);
        i = 0;
        buf_char(out, '"');
        while (i < text.n) {
                size_t run = plain_run(text.p + i, text.n - i);

                if (run > 0)
                        buf_append(out, text.p + i, run);
                i += run;
                if (i < text.n)
                        write_escape(out, text.p[i++]);
        }
        buf_char(out, '"');
        return buf_failed(out);
}

void json_writer_init(struct json_writer *w, struct buf *out)
{
        *w = (struct json_writer){.out = out};
}

/* has_item[depth - 1] says whether the innermost brace needs a comma before what comes next. */
static void before_value(struct json_writer *w)
{
        if (w->depth == 0)
                return;
        if (w->has_item[w->depth - 1])
                buf_char(w->out, ',');
        w->has_item[w->depth - 1] = true;
}

static void open_brace(struct json_writer *w, char brace)
{
        assert(w->depth < ARRAY_SIZE(w->has_item));
        before_value(w);
        buf_char(w->out, brace);
        w->has_item[w->depth++] = false;
}

static void close_brace(struct json_writer *w, char brace)
{
        assert(w->depth > 0);
        w->depth--;
        buf_char(w->out, brace);
}

void json_open_object(struct json_writer *w)
{
        open_brace(w, '{');
}

void json_close_object(struct json_writer *w)
{
        close_brace(w, '}');
}

void json_open_array(struct json_writer *w)
{
        open_brace(w, '[');
}

void json_close_array(struct json_writer *w)
{
        close_brace(w, ']');
}

/* After its key a value needs no comma, as if it were the first. */
static void after_key(struct json_writer *w)
{
        buf_char(w->out, ':');
        w->has_item[w->depth - 1] = false;
}

void json_key(struct json_writer *w, const char *key)
{
        size_t n = strlen(key);
        char *to;

        assert(w->depth > 0);
        before_value(w);
        w->has_item[w->depth - 1] = false; /* after its key a value needs no comma */
        if (buf_reserve(w->out, n + 3) < 0)
                return;
        to = w->out->p + w->out->n;
        *to++ = '"';
        memcpy(to, key, n);
        memcpy(to + n, "\":", 3); /* and the NUL */
        w->out->n += n + 3;
}

void json_key_text(struct json_writer *w, struct lessor_slice key)
{
        assert(w->depth > 0);
        before_value(w);
        json_write_text(w->out, key);
        after_key(w);
}

void json_put_text(struct json_writer *w, struct lessor_slice value)
{
        before_value(w);
        json_write_text(w->out, value);
}

void json_put_cstr(struct json_writer *w, const char *value)
{
        json_put_text(w, lessor_slice_of(value));
}

void json_put_int(struct json_writer *w, int64_t value)
{
        before_value(w);
        buf_int(w->out, value);
}

void json_put_bool(struct json_writer *w, bool value)
{
        json_put_raw(w, value ? LESSOR_SLICE("true") : LESSOR_SLICE("false"));
}

void json_put_null(struct json_writer *w)
{
        json_put_raw(w, LESSOR_SLICE("null"));
}

void json_put_raw(struct json_writer *w, struct lessor_slice json)
{
        before_value(w);
        buf_slice(w->out, json);
}

void json_member_text(struct json_writer *w, const char *key, struct lessor_slice value)
{
        if (value.p == NULL)
                return;
        json_key(w, key);
        json_put_text(w, value);
}

void json_member_cstr(struct json_writer *w, const char *key, const char *value)
{
        json_member_text(w, key, lessor_slice_of(value));
}

void json_member_int(struct json_writer *w, const char *key, int64_t value)
{
        json_key(w, key);
        json_put_int(w, value);
}

void json_member_bool(struct json_writer *w, const char *key, bool value)
{
        json_key(w, key);
        json_put_bool(w, value);
}

void json_member_raw(struct json_writer *w, const char *key, struct lessor_slice json)
{
        if (json.p == NULL)
                return;
        json_key(w, key);
        json_put_raw(w, json);
}
