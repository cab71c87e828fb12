/* SPDX-License-Identifier: MIT */
#include "http/parking.h"

#include <pthread.h>
#include <stdlib.h>

#include "lessor/error.h"

#define N_BUCKETS 1024u

/* One waiting request; in its arena, which takes it out of the lot at the latest. */
struct waiter {
        struct waiter *next;
        struct waiter *prev;
        struct bucket *bucket; /* NULL: not waiting any more; under the lot's lock */
        struct parking_lot *lot;
        struct lessor_slice key;
        struct http_request *request;
        http_handler *resumed; /* NULL: it follows, and stays when it is woken */
        void *context;
};

/* Those who wait for the keys of one hash, oldest first, and how often one of these keys was woken. */
struct bucket {
        struct waiter *first;
        struct waiter *last;
        uint64_t generation;
};

/*
 * 1. A waiter is in its bucket's list if and only if `bucket` is set.
 * 2. A request of a listed waiter is alive: both the continuation and the arena's end take it out first, and
 * need the lock for it. So parking_wake() may resume whatever it finds while it holds the lock.
 */
struct parking_lot {
        pthread_mutex_t lock;
        size_t n_waiters;
        struct bucket buckets[N_BUCKETS];
};

struct parking_lot *parking_lot_new(void)
{
        struct parking_lot *lot = calloc(1, sizeof(*lot));

        if (lot != NULL)
                pthread_mutex_init(&lot->lock, NULL);
        return lot;
}

struct parking_lot *parking_lot_free(struct parking_lot *lot)
{
        if (lot == NULL)
                return NULL;
        pthread_mutex_destroy(&lot->lock);
        free(lot);
        return NULL;
}

/* FNV-1a. Somebody who makes keys collide makes requests wake for nothing, and only those of his own bucket.
 */
static struct bucket *bucket_of(struct parking_lot *lot, struct lessor_slice key)
{
        uint64_t hash = UINT64_C(0xcbf29ce484222325);

        for (size_t i = 0; i < key.n; i++)
                hash = (hash ^ (unsigned char)key.p[i]) * UINT64_C(0x100000001b3);
        return &lot->buckets[(hash ^ (hash >> 32)) % N_BUCKETS];
}

/* Lock held. */
static void waiter_enter(struct waiter *w, struct bucket *b)
{
        w->bucket = b;
        w->next = NULL;
        w->prev = b->last;
        if (b->last != NULL)
                b->last->next = w;
        else
                b->first = w;
        b->last = w;
        w->lot->n_waiters++;
}

/* Lock held. */
static void waiter_leave(struct waiter *w)
{
        struct bucket *b = w->bucket;

        if (b == NULL)
                return;
        if (w->prev != NULL)
                w->prev->next = w->next;
        else
                b->first = w->next;
        if (w->next != NULL)
                w->next->prev = w->prev;
        else
                b->last = w->prev;
        w->bucket = NULL;
        w->lot->n_waiters--;
}

static void waiter_leave_locked(void *object)
{
        struct waiter *w = object;

        pthread_mutex_lock(&w->lot->lock);
        waiter_leave(w);
        pthread_mutex_unlock(&w->lot->lock);
}

static void waiter_resumed(struct http_request *request, void *context)
{
        struct waiter *w = context;

        waiter_leave_locked(w);
        w->resumed(request, w->context);
}

uint64_t parking_generation(struct parking_lot *lot, struct lessor_slice key)
{
        uint64_t generation;

        pthread_mutex_lock(&lot->lock);
        generation = bucket_of(lot, key)->generation;
        pthread_mutex_unlock(&lot->lock);
        return generation;
}

static struct waiter *waiter_new(struct http_request *request, struct parking_lot *lot,
                                 struct lessor_slice key)
{
        struct waiter *w = lessor_arena_alloc(request->arena, sizeof(*w));

        if (w == NULL || lessor_arena_copy(request->arena, key, &w->key) < 0)
                return NULL;
        w->lot = lot;
        w->request = request;
        /* For a request that ends without its continuation: cut off, or gone before it could park. */
        return lessor_arena_own(request->arena, w, waiter_leave_locked) < 0 ? NULL : w;
}

int parking_follow(struct parking_lot *lot, struct http_request *request, struct lessor_slice key)
{
        struct waiter *w = waiter_new(request, lot, key);

        if (w == NULL)
                return LESSOR_E_NOMEM;
        pthread_mutex_lock(&lot->lock);
        waiter_enter(w, bucket_of(lot, key));
        pthread_mutex_unlock(&lot->lock);
        return 0;
}

void parking_wait(struct parking_lot *lot, struct http_request *request, struct lessor_slice key,
                  uint64_t generation, int64_t wait_ms, http_handler *resumed, void *context)
{
        struct waiter *w = waiter_new(request, lot, key);
        struct bucket *b;

        if (w == NULL) {
                http_suspend(request, 0, resumed, context);
                return;
        }
        w->resumed = resumed;
        w->context = context;
        http_suspend_prepare(request);
        pthread_mutex_lock(&lot->lock);
        b = bucket_of(lot, key);
        waiter_enter(w, b);
        if (b->generation != generation)
                http_resume(request);
        pthread_mutex_unlock(&lot->lock);
        http_suspend(request, wait_ms, waiter_resumed, w);
}

size_t parking_wake_some(struct parking_lot *lot, struct lessor_slice key, size_t max)
{
        struct bucket *b;
        struct waiter *w, *next;
        size_t n = 0;

        pthread_mutex_lock(&lot->lock);
        b = bucket_of(lot, key);
        b->generation++;
        for (w = b->first; w != NULL && n < max; w = next) {
                next = w->next;
                if (!lessor_slice_equal(w->key, key))
                        continue;
                if (w->resumed != NULL)
                        waiter_leave(w);
                if (http_resume(w->request))
                        n++;
        }
        pthread_mutex_unlock(&lot->lock);
        return n;
}

size_t parking_wake(struct parking_lot *lot, struct lessor_slice key)
{
        return parking_wake_some(lot, key, SIZE_MAX);
}

size_t parking_count(struct parking_lot *lot)
{
        size_t n;

        pthread_mutex_lock(&lot->lock);
        n = lot->n_waiters;
        pthread_mutex_unlock(&lot->lock);
        return n;
}
