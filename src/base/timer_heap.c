/* SPDX-License-Identifier: MIT */
#include "base/timer_heap.h"

#include <stdlib.h>

#include "base/size.h"
#include "lessor/error.h"

void timer_heap_done(struct timer_heap *h)
{
        free(h->items);
        *h = (struct timer_heap){0};
}

int timer_heap_reserve(struct timer_heap *h, size_t n)
{
        struct timer **items;
        size_t cap = h->cap == 0 ? 16 : h->cap;
        size_t bytes;

        if (n <= h->cap)
                return 0;
        while (cap < n)
                if (!size_mul(cap, 2, &cap))
                        return LESSOR_E_NOMEM;
        if (!size_mul(cap, sizeof(struct timer *), &bytes))
                return LESSOR_E_NOMEM;
        items = realloc(h->items, bytes);
        if (items == NULL)
                return LESSOR_E_NOMEM;
        h->items = items;
        h->cap = cap;
        return 0;
}

static bool before(const struct timer *a, const struct timer *b)
{
        return a->at_ms != b->at_ms ? a->at_ms < b->at_ms : a->seq < b->seq;
}

static void put(struct timer_heap *h, struct timer *t, size_t at)
{
        h->items[at] = t;
        t->place = at + 1;
}

static void settle(struct timer_heap *h, struct timer *t, size_t at)
{
        while (at > 0 && before(t, h->items[(at - 1) / 2])) {
                put(h, h->items[(at - 1) / 2], at);
                at = (at - 1) / 2;
        }
        for (;;) {
                size_t child = 2 * at + 1;

                if (child >= h->n)
                        break;
                if (child + 1 < h->n && before(h->items[child + 1], h->items[child]))
                        child++;
                if (!before(h->items[child], t))
                        break;
                put(h, h->items[child], at);
                at = child;
        }
        put(h, t, at);
}

void timer_set(struct timer_heap *h, struct timer *t, int64_t at_ms)
{
        t->at_ms = at_ms;
        if (!timer_is_set(t)) {
                h->n++;
                settle(h, t, h->n - 1);
        } else {
                settle(h, t, t->place - 1);
        }
}

void timer_unset(struct timer_heap *h, struct timer *t)
{
        size_t at = t->place - 1;
        struct timer *last;

        if (!timer_is_set(t))
                return;
        t->place = 0;
        last = h->items[--h->n];
        if (last != t)
                settle(h, last, at);
}

void timer_moved(struct timer_heap *h, struct timer *t)
{
        h->items[t->place - 1] = t;
}
