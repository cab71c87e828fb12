/* SPDX-License-Identifier: MIT */
#include "base/buf.h"

#include <sodium.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/size.h"
#include "lessor/error.h"

#define CAP_FIRST 128u

void buf_init(struct buf *b)
{
        *b = (struct buf){0};
}

void buf_done(struct buf *b)
{
        free(b->p);
        buf_init(b);
}

void buf_wipe(struct buf *b)
{
        if (b->p != NULL)
                sodium_memzero(b->p, b->cap);
        buf_done(b);
}

void buf_clear(struct buf *b)
{
        b->n = 0;
        b->error = 0;
        if (b->p != NULL)
                b->p[0] = '\0';
}

static int failed(struct buf *b)
{
        b->error = LESSOR_E_NOMEM;
        return LESSOR_E_NOMEM;
}

/* Makes room for `extra` bytes and the NUL, with `cap` bytes at least. */
static int grow(struct buf *b, size_t extra, size_t cap)
{
        size_t need;
        char *p;

        if (b->error != 0)
                return b->error;
        if (!size_add(b->n, extra, &need) || !size_add(need, 1, &need))
                return failed(b);
        if (need <= b->cap)
                return 0;

        if (cap < need)
                cap = need;
        p = realloc(b->p, cap);
        if (p == NULL)
                return failed(b);
        p[b->n] = '\0';
        b->p = p;
        b->cap = cap;
        return 0;
}

int buf_reserve(struct buf *b, size_t extra)
{
        size_t cap;

        if (!size_mul(b->cap, 2, &cap))
                cap = 0;
        return grow(b, extra, cap < CAP_FIRST ? CAP_FIRST : cap);
}

int buf_reserve_exactly(struct buf *b, size_t extra)
{
        return grow(b, extra, 0);
}

/* Whether `n` bytes and the NUL fit without more memory: nearly always, and then nothing is called. */
static inline bool has_room(const struct buf *b, size_t n)
{
        return b->error == 0 && b->cap > b->n && n < b->cap - b->n;
}

int buf_append(struct buf *b, const void *bytes, size_t n)
{
        int r = has_room(b, n) ? 0 : buf_reserve(b, n);

        if (r < 0)
                return r;
        if (n > 0)
                memcpy(b->p + b->n, bytes, n);
        b->n += n;
        b->p[b->n] = '\0';
        return 0;
}

int buf_slice(struct buf *b, struct lessor_slice s)
{
        return buf_append(b, s.p, s.n);
}

int buf_text(struct buf *b, const char *text)
{
        return buf_append(b, text, strlen(text));
}

int buf_char(struct buf *b, char c)
{
        if (!has_room(b, 1))
                return buf_append(b, &c, 1);
        b->p[b->n++] = c;
        b->p[b->n] = '\0';
        return 0;
}

int buf_vprintf(struct buf *b, const char *format, va_list args)
{
        va_list again;
        size_t room;
        int n, r;

        r = buf_reserve(b, 0);
        if (r < 0)
                return r;
        room = b->cap - b->n;
        va_copy(again, args);
        n = vsnprintf(b->p + b->n, room, format, again);
        va_end(again);
        if (n < 0) {
                b->p[b->n] = '\0';
                return failed(b);
        }
        if ((size_t)n >= room) {
                b->p[b->n] = '\0';
                r = buf_reserve(b, (size_t)n);
                if (r < 0)
                        return r;
                vsnprintf(b->p + b->n, (size_t)n + 1, format, args);
        }
        b->n += (size_t)n;
        return 0;
}

int buf_printf(struct buf *b, const char *format, ...)
{
        va_list args;
        int r;

        va_start(args, format);
        r = buf_vprintf(b, format, args);
        va_end(args);
        return r;
}

int buf_int(struct buf *b, long long value)
{
        char digits[24];
        size_t at = sizeof(digits);
        /* The magnitude of LLONG_MIN does not fit a long long. */
        unsigned long long rest = value < 0 ? 0 - (unsigned long long)value : (unsigned long long)value;

        do {
                digits[--at] = (char)('0' + rest % 10);
                rest /= 10;
        } while (rest > 0);
        if (value < 0)
                digits[--at] = '-';
        return buf_append(b, digits + at, sizeof(digits) - at);
}
