/* SPDX-License-Identifier: MIT */
#include "plane/waiting.h"

#include <pthread.h>
#include <sodium.h>
#include <stdlib.h>

#include "base/macro.h"
#include "base/table.h"
#include "lessor/error.h"

/* Where a waiter stands in one row. */
struct stand {
        struct row *row;
        struct waiter *waiter;
        struct stand *next, *prev;
        uint64_t seen; /* the row's events when the waiter looked last */
        bool listed;
};

/* All who stand at one place, those who have stood longest first. There as long as somebody stands there. */
struct row {
        struct table_node node;
        size_t refs; /* stands, listed or not */
        struct stand *first, *last;
        uint64_t n_events;
        enum place_kind kind;
        struct lessor_slice a, b; /* the bytes follow the struct */
};

enum waiter_state { AWAKE, ASLEEP, WOKEN };

/*
 * 1. A waiter is ASLEEP from waiter_sleep() until somebody wakes it or its continuation runs, WOKEN from then
 * until its continuation runs, and else AWAKE.
 * 2. A request of a waiter that has not left is alive: the arena's end has it leave first, and needs the lock
 * for that. So whoever holds the lock may resume whom he finds.
 * 3. Only one stand has the turn, and every turn ends by being spent, dropped or passed on. Whoever stands
 * before the one that has it has looked since the event or is about to.
 */
struct waiter {
        struct waiting *waiting;
        struct http_request *request;
        http_handler *resumed;
        void *context;
        enum waiter_state state;
        bool left;
        struct stand *turn; /* NULL: none */
        size_t n_stands;
        struct stand stands[];
};

struct waiting {
        pthread_mutex_t lock;
        struct table rows;
        size_t n_waiters;
};

struct waiting *waiting_new(void)
{
        struct waiting *w = calloc(1, sizeof(*w));
        unsigned char key[16];

        if (w == NULL)
                return NULL;
        randombytes_buf(key, sizeof(key));
        if (table_init(&w->rows, key) < 0) {
                free(w);
                return NULL;
        }
        pthread_mutex_init(&w->lock, NULL);
        return w;
}

struct waiting *waiting_free(struct waiting *w)
{
        if (w == NULL)
                return NULL;
        table_done(&w->rows);
        pthread_mutex_destroy(&w->lock);
        free(w);
        return NULL;
}

/* --- Rows; lock held --- */

static struct row *row_find(const struct waiting *w, const struct place *place, uint64_t hash)
{
        for (struct table_node *n = table_first(&w->rows, hash); n != NULL; n = table_next(n)) {
                struct row *row = container_of(n, struct row, node);

                if (row->kind == place->kind && lessor_slice_equal(row->a, place->a) &&
                    lessor_slice_equal(row->b, place->b))
                        return row;
        }
        return NULL;
}

/* A row with one more reference, or NULL when memory is short. */
static struct row *row_get(struct waiting *w, const struct place *place)
{
        uint64_t hash = table_hash_pair(&w->rows, place->a, place->b);
        struct row *row = row_find(w, place, hash);
        char *text;

        if (row != NULL) {
                row->refs++;
                return row;
        }
        if (place->a.n > SIZE_MAX / 4 || place->b.n > SIZE_MAX / 4)
                return NULL;
        row = calloc(1, sizeof(*row) + place->a.n + place->b.n);
        if (row == NULL)
                return NULL;
        text = (char *)(row + 1);
        if (place->a.n > 0)
                memcpy(text, place->a.p, place->a.n);
        if (place->b.n > 0)
                memcpy(text + place->a.n, place->b.p, place->b.n);
        row->a = (struct lessor_slice){text, place->a.n};
        row->b = (struct lessor_slice){text + place->a.n, place->b.n};
        row->kind = place->kind;
        row->refs = 1;
        table_add(&w->rows, &row->node, hash);
        return row;
}

static void row_unref(struct waiting *w, struct row *row)
{
        if (--row->refs > 0)
                return;
        table_remove(&w->rows, &row->node);
        free(row);
}

static void stand_up(struct stand *s)
{
        struct row *row = s->row;

        if (s->listed)
                return;
        s->prev = row->last;
        s->next = NULL;
        *(row->last == NULL ? &row->first : &row->last->next) = s;
        row->last = s;
        s->listed = true;
}

static void stand_down(struct stand *s)
{
        struct row *row = s->row;

        if (!s->listed)
                return;
        *(s->prev == NULL ? &row->first : &s->prev->next) = s->next;
        *(s->next == NULL ? &row->last : &s->next->prev) = s->prev;
        s->next = s->prev = NULL;
        s->listed = false;
}

/* --- Waking; lock held --- */

/* False when it was not asleep, or wakes for another reason just now: it looks again in any case. */
static bool wake(struct waiter *w)
{
        if (w->state != ASLEEP || !http_resume(w->request))
                return false;
        w->state = WOKEN;
        return true;
}

/* Gives the turn to the first sleeper from here on. */
static bool give_turn(struct stand *from)
{
        for (struct stand *s = from; s != NULL; s = s->next)
                if (wake(s->waiter)) {
                        s->waiter->turn = s;
                        return true;
                }
        return false;
}

static void pass_on(struct waiter *w)
{
        struct stand *turn = TAKE(w->turn);

        if (turn == NULL)
                return;
        /* It may have stepped out of the row since, and then it does not know who is behind it. */
        give_turn(turn->listed ? turn->next : turn->row->first);
}

size_t waiting_wake_all(struct waiting *waiting, const struct place *place)
{
        struct row *row;
        size_t n = 0;

        pthread_mutex_lock(&waiting->lock);
        row = row_find(waiting, place, table_hash_pair(&waiting->rows, place->a, place->b));
        if (row != NULL) {
                row->n_events++;
                for (struct stand *s = row->first; s != NULL; s = s->next)
                        n += wake(s->waiter);
        }
        pthread_mutex_unlock(&waiting->lock);
        return n;
}

size_t waiting_wake_one(struct waiting *waiting, const struct place *place)
{
        struct row *row;
        size_t n = 0;

        pthread_mutex_lock(&waiting->lock);
        row = row_find(waiting, place, table_hash_pair(&waiting->rows, place->a, place->b));
        if (row != NULL) {
                row->n_events++;
                n = give_turn(row->first);
        }
        pthread_mutex_unlock(&waiting->lock);
        return n;
}

/* --- Waiters --- */

/* Lock held. */
static void leave(struct waiter *w)
{
        if (w->left)
                return;
        w->left = true;
        w->state = AWAKE;
        pass_on(w);
        for (size_t i = 0; i < w->n_stands; i++) {
                stand_down(&w->stands[i]);
                row_unref(w->waiting, w->stands[i].row);
        }
        w->waiting->n_waiters--;
}

void waiter_leave(struct waiter *w)
{
        pthread_mutex_lock(&w->waiting->lock);
        leave(w);
        pthread_mutex_unlock(&w->waiting->lock);
}

static void leave_with_arena(void *waiter)
{
        waiter_leave(waiter);
}

/* Lock held. */
static bool stands_at(const struct waiter *w, const struct row *row)
{
        for (size_t i = 0; i < w->n_stands; i++)
                if (w->stands[i].row == row)
                        return true;
        return false;
}

/* Lock held. Returns 0 or LESSOR_E_NOMEM. */
static int stand_at(struct waiter *w, const struct place *place)
{
        struct row *row = row_get(w->waiting, place);
        struct stand *s = &w->stands[w->n_stands];

        if (row == NULL)
                return LESSOR_E_NOMEM;
        if (stands_at(w, row)) {
                row_unref(w->waiting, row);
                return 0;
        }
        s->row = row;
        s->waiter = w;
        w->n_stands++;
        stand_up(s);
        return 0;
}

int waiting_enter(struct waiting *waiting, struct http_request *request, const struct place *places,
                  size_t n_places, struct waiter **ret_waiter)
{
        struct waiter *w;
        int e = 0;

        if (n_places > (SIZE_MAX - sizeof(*w)) / sizeof(w->stands[0]))
                return LESSOR_E_NOMEM;
        w = lessor_arena_alloc(request->arena, sizeof(*w) + n_places * sizeof(w->stands[0]));
        if (w == NULL)
                return LESSOR_E_NOMEM;
        w->waiting = waiting;
        w->request = request;
        w->left = true;
        if (lessor_arena_own(request->arena, w, leave_with_arena) < 0)
                return LESSOR_E_NOMEM;
        pthread_mutex_lock(&waiting->lock);
        w->left = false;
        waiting->n_waiters++;
        for (size_t i = 0; i < n_places && e == 0; i++)
                e = stand_at(w, &places[i]);
        if (e < 0)
                leave(w);
        pthread_mutex_unlock(&waiting->lock);
        if (e == 0)
                *ret_waiter = w;
        return e;
}

void waiter_look(struct waiter *w)
{
        pthread_mutex_lock(&w->waiting->lock);
        for (size_t i = 0; i < w->n_stands; i++)
                w->stands[i].seen = w->stands[i].row->n_events;
        pthread_mutex_unlock(&w->waiting->lock);
}

static void resumed(struct http_request *request, void *context)
{
        struct waiter *w = context;

        pthread_mutex_lock(&w->waiting->lock);
        w->state = AWAKE;
        pthread_mutex_unlock(&w->waiting->lock);
        w->resumed(request, w->context);
}

/* Lock held: whether something happened since it looked, where a turn may come to it. */
static bool missed_something(const struct waiter *w)
{
        for (size_t i = 0; i < w->n_stands; i++)
                if (w->stands[i].listed && w->stands[i].seen != w->stands[i].row->n_events)
                        return true;
        return false;
}

void waiter_sleep(struct waiter *w, int64_t wait_ms, http_handler *handler, void *context)
{
        w->resumed = handler;
        w->context = context;
        http_suspend_prepare(w->request);
        pthread_mutex_lock(&w->waiting->lock);
        pass_on(w);
        w->state = ASLEEP;
        if (missed_something(w))
                wake(w);
        pthread_mutex_unlock(&w->waiting->lock);
        http_suspend(w->request, wait_ms, resumed, w);
}

void waiter_spend(struct waiter *w, const struct place *place)
{
        pthread_mutex_lock(&w->waiting->lock);
        if (w->turn != NULL && w->turn->row->kind == place->kind &&
            lessor_slice_equal(w->turn->row->a, place->a) && lessor_slice_equal(w->turn->row->b, place->b))
                w->turn = NULL;
        pass_on(w);
        pthread_mutex_unlock(&w->waiting->lock);
}

void waiter_drop(struct waiter *w)
{
        pthread_mutex_lock(&w->waiting->lock);
        w->turn = NULL;
        pthread_mutex_unlock(&w->waiting->lock);
}

void waiter_pass_by(struct waiter *w, enum place_kind kind, bool pass_by)
{
        pthread_mutex_lock(&w->waiting->lock);
        for (size_t i = 0; i < w->n_stands && !w->left; i++) {
                struct stand *s = &w->stands[i];

                if (s->row->kind != kind)
                        continue;
                if (!pass_by) {
                        stand_up(s);
                        continue;
                }
                if (w->turn == s)
                        pass_on(w);
                stand_down(s);
        }
        pthread_mutex_unlock(&w->waiting->lock);
}

size_t waiting_count(struct waiting *waiting)
{
        size_t n;

        pthread_mutex_lock(&waiting->lock);
        n = waiting->n_waiters;
        pthread_mutex_unlock(&waiting->lock);
        return n;
}
