/* SPDX-License-Identifier: MIT */
#ifndef LESSOR_SLICE_H
#define LESSOR_SLICE_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

/*
 * Text or bytes that somebody else owns: a pointer and its bound, travelling together.
 *
 * Not terminated by NUL, and may contain NUL. `p` is NULL only where a field says that absence has a
 * meaning ("absent: p is NULL"); an empty but present text has a pointer and n = 0.
 */
struct lessor_slice {
        const char *p;
        size_t n; /* bytes */
};

/* A slice over a string literal, without counting it at run time. */
#define LESSOR_SLICE(literal) ((struct lessor_slice){"" literal, sizeof(literal) - 1})

/* A slice over a NUL-terminated string; NULL gives the absent slice. Borrows. */
static inline struct lessor_slice lessor_slice_of(const char *text)
{
        return (struct lessor_slice){text, text == NULL ? 0 : strlen(text)};
}

/* Same length and same bytes. Not constant-time: never for secrets. */
static inline bool lessor_slice_equal(struct lessor_slice a, struct lessor_slice b)
{
        return a.n == b.n && (a.n == 0 || memcmp(a.p, b.p, a.n) == 0);
}

/* Total order by bytes, a prefix before what it is a prefix of. Returns <0, 0 or >0. */
static inline int lessor_slice_cmp(struct lessor_slice a, struct lessor_slice b)
{
        size_t n = a.n < b.n ? a.n : b.n;
        int order = n == 0 ? 0 : memcmp(a.p, b.p, n);

        if (order != 0)
                return order;
        return (a.n > b.n) - (a.n < b.n);
}

#endif
