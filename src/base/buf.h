/* SPDX-License-Identifier: MIT */
#ifndef BASE_BUF_H
#define BASE_BUF_H

#include <stdarg.h>
#include <stddef.h>

#include "lessor/slice.h"

/*
 * Bytes that grow. Always followed by a NUL that `n` does not count, once anything was appended.
 *
 * A failed append leaves the buffer as it was and marks it: buf_failed() tells at the end whether any append
 * failed, so that a writer of many pieces checks once. Until buf_clear, further appends fail at once.
 */
struct buf {
        char *p;
        size_t n;   /* bytes used */
        size_t cap; /* bytes allocated */
        int error;  /* 0, or LESSOR_E_NOMEM once an append has failed */
};

void buf_init(struct buf *b);

/* Frees the memory; the buffer is as after buf_init. */
void buf_done(struct buf *b);

/*
 * Overwrites the memory with zeros before freeing it. Growing leaves copies behind: reserve what a secret
 * needs first.
 */
void buf_wipe(struct buf *b);

/* Empties it and keeps the memory. Clears the error. */
void buf_clear(struct buf *b);

/* Makes room for `extra` more bytes. Returns 0 or LESSOR_E_NOMEM. */
int buf_reserve(struct buf *b, size_t extra);

/* As buf_reserve, but takes no more memory than that needs: for who knows how much will come, or counts it.
 */
int buf_reserve_exactly(struct buf *b, size_t extra);

/* Each appends and returns 0 or LESSOR_E_NOMEM. */
int buf_append(struct buf *b, const void *bytes, size_t n);
int buf_slice(struct buf *b, struct lessor_slice s);
int buf_text(struct buf *b, const char *text);
int buf_char(struct buf *b, char c);
int buf_printf(struct buf *b, const char *format, ...) __attribute__((format(printf, 2, 3)));
int buf_vprintf(struct buf *b, const char *format, va_list args) __attribute__((format(printf, 2, 0)));

/* Appends the decimal form of a number, faster than buf_printf. */
int buf_int(struct buf *b, long long value);

static inline struct lessor_slice buf_view(const struct buf *b)
{
        return (struct lessor_slice){b->p == NULL ? "" : b->p, b->n};
}

/* 0, or LESSOR_E_NOMEM if any append since buf_init or buf_clear failed. */
static inline int buf_failed(const struct buf *b)
{
        return b->error;
}

#endif
