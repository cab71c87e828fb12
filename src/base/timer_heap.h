/* SPDX-License-Identifier: MIT */
#ifndef BASE_TIMER_HEAP_H
#define BASE_TIMER_HEAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * What is due when: a binary heap of timers that are members of the caller's own structs and know their
 * place, so that any of them can be moved or taken out. Equal times go by `seq`, so the order is total.
 *
 * Room is reserved beforehand: setting a timer never fails.
 */
struct timer {
        int64_t at_ms;
        uint64_t seq; /* breaks ties; the owner sets it once */
        size_t place; /* from 1; 0: not set */
};

struct timer_heap {
        struct timer **items;
        size_t n;
        size_t cap;
};

void timer_heap_done(struct timer_heap *h);

/* Makes room for `n` timers to be set at one time. Returns 0 or LESSOR_E_NOMEM. */
int timer_heap_reserve(struct timer_heap *h, size_t n);

static inline bool timer_is_set(const struct timer *t)
{
        return t->place != 0;
}

/* Sets a timer, or moves one that is set. */
void timer_set(struct timer_heap *h, struct timer *t, int64_t at_ms);

/* Takes a timer out; one that is not set is left alone. */
void timer_unset(struct timer_heap *h, struct timer *t);

/* Tells the heap that a set timer's memory has moved to `t`. */
void timer_moved(struct timer_heap *h, struct timer *t);

/* The earliest timer, or NULL. */
static inline struct timer *timer_first(const struct timer_heap *h)
{
        return h->n == 0 ? NULL : h->items[0];
}

/* The earliest timer if it is due (at_ms <= now_ms), or NULL. */
static inline struct timer *timer_due(const struct timer_heap *h, int64_t now_ms)
{
        return h->n == 0 || h->items[0]->at_ms > now_ms ? NULL : h->items[0];
}

#endif
