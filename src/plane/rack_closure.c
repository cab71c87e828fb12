/* SPDX-License-Identifier: MIT */
#include "plane/rack_closure.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/encode.h"
#include "base/limits.h"
#include "objects/io.h"
#include "wire/rack_message.h"

#define HASH_BYTES 32

/* Referenced this many at a time, so that no list of sizes gets long. */
#define TOUCH_STEP 1024

/*
 * One lease's closure. Counted, since a closure that is being searched may be forgotten meanwhile. Nothing
 * but the count changes once it is made.
 */
struct closure {
        struct closure *next; /* in the cache, the one asked about last first */
        unsigned n_refs;      /* guarded by the cache's lock */
        char *name;           /* repository and lease id, one behind the other */
        size_t repo_len;
        size_t lease_id_len;
        size_t n; /* sorted hashes of 32 bytes */
        unsigned char hashes[];
};

struct closure_cache {
        struct lessor_object_store *objects;
        pthread_mutex_t lock;
        struct closure *first;
        size_t n;
        size_t n_bytes;
};

static size_t bytes_of(const struct closure *closure)
{
        return sizeof(*closure) + closure->n * HASH_BYTES + closure->repo_len + closure->lease_id_len;
}

static void free_closure(struct closure *closure)
{
        free(closure->name);
        free(closure);
}

static void closure_unref(struct closure_cache *cache, struct closure *closure)
{
        bool last;

        pthread_mutex_lock(&cache->lock);
        last = --closure->n_refs == 0;
        pthread_mutex_unlock(&cache->lock);
        if (last)
                free_closure(closure);
}

/* --- The cache --- */

static bool is_of(const struct closure *closure, const struct lessor_lease_name *name)
{
        return lessor_slice_equal((struct lessor_slice){closure->name, closure->repo_len}, name->repo) &&
               lessor_slice_equal(
                       (struct lessor_slice){closure->name + closure->repo_len, closure->lease_id_len},
                       name->lease_id);
}

/* Under the lock. Where the closure hangs; points at NULL if it is not there. */
static struct closure **place_of(struct closure_cache *cache, const struct lessor_lease_name *name)
{
        struct closure **at = &cache->first;

        while (*at != NULL && !is_of(*at, name))
                at = &(*at)->next;
        return at;
}

/* Under the lock. Takes it out of the list; the reference that the list had is the caller's now. */
static struct closure *take_out(struct closure_cache *cache, struct closure **at)
{
        struct closure *closure = *at;

        *at = closure->next;
        cache->n--;
        cache->n_bytes -= bytes_of(closure);
        return closure;
}

static void put_first(struct closure_cache *cache, struct closure *closure)
{
        closure->next = cache->first;
        cache->first = closure;
        cache->n++;
        cache->n_bytes += bytes_of(closure);
}

/* A reference to a remembered closure, or NULL. */
static struct closure *recall(struct closure_cache *cache, const struct lessor_lease_name *name)
{
        struct closure **at;
        struct closure *closure = NULL;

        pthread_mutex_lock(&cache->lock);
        at = place_of(cache, name);
        if (*at != NULL) {
                closure = take_out(cache, at);
                put_first(cache, closure);
                closure->n_refs++;
        }
        pthread_mutex_unlock(&cache->lock);
        return closure;
}

/* Under the lock. Forgets the one asked about longest ago. */
static void forget_last(struct closure_cache *cache)
{
        struct closure **at = &cache->first;
        struct closure *last;

        while ((*at)->next != NULL)
                at = &(*at)->next;
        last = take_out(cache, at);
        if (--last->n_refs == 0)
                free_closure(last);
}

static void remember(struct closure_cache *cache, struct closure *closure,
                     const struct lessor_lease_name *name)
{
        pthread_mutex_lock(&cache->lock);
        /* Two may have read the same closure at once. */
        if (*place_of(cache, name) == NULL) {
                closure->n_refs++;
                put_first(cache, closure);
                while (cache->n > CLOSURE_CACHE_LEASES ||
                       (cache->n > 1 && cache->n_bytes > CLOSURE_CACHE_BYTES))
                        forget_last(cache);
        }
        pthread_mutex_unlock(&cache->lock);
}

/* --- Reading --- */

static int read_list(struct lessor_object_store *objects, struct lessor_slice repo,
                     const struct lease_closure *closure, struct lessor_arena *arena,
                     struct rack_closure_list *ret_list)
{
        static const struct beast2_limits limits = {LIMIT_BEAST2_LOGICAL_MOST, LIMIT_BEAST2_MEMORY};
        _cleanup_(object_io_close) int fd = -1;
        int64_t size;
        char *bytes;
        size_t n;
        int e = lessor_object_open(objects, repo, closure->object, &fd, &size);

        if (e < 0)
                return e;
        /* A hash takes 66 bytes; nobody compresses hashes to less than half, or makes them more than twice
         * as long. */
        if (closure->count > LIMIT_GRAPH_OBJECTS || size > 4096 + closure->count * 132)
                return LESSOR_E_TOO_LARGE;
        bytes = lessor_arena_alloc(arena, (size_t)size);
        if (bytes == NULL)
                return LESSOR_E_NOMEM;
        e = object_io_read(fd, bytes, (size_t)size, 0, &n);
        if (e < 0)
                return e;
        return beast2_read(&rack_closure_list_type, (struct lessor_slice){bytes, n}, &limits, arena, ret_list,
                           NULL);
}

static int compare_hashes(const void *a, const void *b)
{
        return memcmp(a, b, HASH_BYTES);
}

/* The closure as it is kept; with one reference, which is the caller's. */
static int make_closure(const struct lessor_lease_name *name, const struct rack_closure_list *list,
                        struct lessor_slice object, struct closure **ret_closure)
{
        size_t n = list->n_hashes + (object.p != NULL), name_len = name->repo.n + name->lease_id.n;
        struct closure *closure = calloc(1, sizeof(*closure) + n * HASH_BYTES);

        if (closure != NULL)
                closure->name = malloc(name_len + 1);
        if (closure == NULL || closure->name == NULL) {
                free(closure);
                return LESSOR_E_NOMEM;
        }
        closure->n_refs = 1;
        closure->repo_len = name->repo.n;
        closure->lease_id_len = name->lease_id.n;
        memcpy(closure->name, name->repo.p, name->repo.n);
        memcpy(closure->name + name->repo.n, name->lease_id.p, name->lease_id.n);
        closure->n = n;
        for (size_t i = 0; i < n; i++)
                hex_read(i < list->n_hashes ? list->hashes[i] : object, closure->hashes + i * HASH_BYTES,
                         HASH_BYTES);
        if (n > 0)
                qsort(closure->hashes, n, HASH_BYTES, compare_hashes);
        *ret_closure = closure;
        return 0;
}

/* References every object of the closure. `whole`: each must be there. */
static int touch_all(struct lessor_object_store *objects, struct lessor_slice repo,
                     const struct rack_closure_list *list, bool whole)
{
        int64_t sizes[TOUCH_STEP];

        for (size_t from = 0; from < list->n_hashes; from += TOUCH_STEP) {
                size_t n = list->n_hashes - from < TOUCH_STEP ? list->n_hashes - from : TOUCH_STEP;
                int e = lessor_object_touch(objects, repo, list->hashes + from, n, sizes);

                if (e < 0)
                        return e;
                for (size_t i = 0; whole && i < n; i++)
                        if (sizes[i] < 0)
                                return LESSOR_E_NOT_FOUND;
        }
        return 0;
}

static const char *problem_of(int e)
{
        return e == LESSOR_E_NOT_FOUND ? "an object of the closure is missing" : lessor_error_text(e);
}

int closure_list(struct lessor_object_store *objects, struct lessor_slice repo,
                 const struct lease_closure *closure, struct lessor_arena *arena,
                 struct lessor_slice **ret_hashes, size_t *ret_n)
{
        struct rack_closure_list list = {closure->hashes, closure->n_hashes};
        int e = 0;

        if (closure->object.p != NULL) {
                e = read_list(objects, repo, closure, arena, &list);
                if (e == 0 && (int64_t)list.n_hashes != closure->count)
                        e = LESSOR_E_INVALID;
                for (size_t i = 0; e == 0 && i < list.n_hashes; i++)
                        if (!lessor_object_hash_valid(list.hashes[i]))
                                e = LESSOR_E_INVALID;
        }
        if (e < 0)
                return e;
        *ret_hashes = list.hashes;
        *ret_n = list.n_hashes;
        return 0;
}

static int read_closure(struct closure_cache *cache, const struct lessor_lease *lease,
                        struct lessor_arena *arena, struct closure **ret_closure, const char **problem)
{
        struct lessor_slice repo = lease->name.repo;
        struct rack_closure_list list;
        struct lease_closure closure;
        int e = lease_event_read_closure(lease->event, arena, &closure, problem);

        if (e < 0)
                return e;
        e = closure_list(cache->objects, repo, &closure, arena, &list.hashes, &list.n_hashes);
        if (e == 0)
                e = touch_all(cache->objects, repo, &list, true);
        if (e == 0 && closure.object.p != NULL)
                e = touch_all(cache->objects, repo, &(struct rack_closure_list){&closure.object, 1}, true);
        if (e == 0)
                e = make_closure(&lease->name, &list, closure.object, ret_closure);
        if (e < 0)
                *problem = problem_of(e);
        return e;
}

int closure_reference(struct lessor_object_store *objects, struct lessor_slice repo,
                      struct lessor_slice event, struct lessor_arena *arena)
{
        struct lease_closure closure;
        struct rack_closure_list list;
        int e = lease_event_read_closure(event, arena, &closure, NULL);

        if (e == 0 && closure.object.p != NULL)
                e = touch_all(objects, repo, &(struct rack_closure_list){&closure.object, 1}, false);
        if (e == 0)
                e = closure_list(objects, repo, &closure, arena, &list.hashes, &list.n_hashes);
        if (e == 0)
                e = touch_all(objects, repo, &list, false);
        /* A closure that cannot be read protects nothing; storage will say so. */
        return e == LESSOR_E_NOMEM || e == LESSOR_E_IO || e == LESSOR_E_PERMISSION ? e : 0;
}

/* --- Asking --- */

static bool holds(const struct closure *closure, struct lessor_slice hash)
{
        unsigned char bytes[HASH_BYTES];

        return lessor_object_hash_valid(hash) && hex_read(hash, bytes, sizeof(bytes)) && closure->n > 0 &&
               bsearch(bytes, closure->hashes, closure->n, HASH_BYTES, compare_hashes) != NULL;
}

int closure_cache_admits(struct closure_cache *cache, const struct lessor_lease *lease,
                         const struct lessor_slice *need, size_t n_need, struct lessor_arena *arena,
                         bool *ret_admitted, const char **ret_problem)
{
        struct closure *closure = recall(cache, &lease->name);
        const char *problem = NULL;
        bool admitted = true;

        if (closure == NULL) {
                int e = read_closure(cache, lease, arena, &closure, &problem);

                if (e < 0) {
                        if (ret_problem != NULL)
                                *ret_problem = problem;
                        return e;
                }
                remember(cache, closure, &lease->name);
        }
        for (size_t i = 0; admitted && i < n_need; i++)
                admitted = holds(closure, need[i]); /* R096 */
        closure_unref(cache, closure);
        *ret_admitted = admitted;
        return 0;
}

bool closure_cache_knows(struct closure_cache *cache, const struct lessor_lease_name *name)
{
        bool knows;

        pthread_mutex_lock(&cache->lock);
        knows = *place_of(cache, name) != NULL;
        pthread_mutex_unlock(&cache->lock);
        return knows;
}

struct closure_cache *closure_cache_new(struct lessor_object_store *objects)
{
        struct closure_cache *cache = calloc(1, sizeof(*cache));

        if (cache == NULL)
                return NULL;
        cache->objects = objects;
        pthread_mutex_init(&cache->lock, NULL);
        return cache;
}

struct closure_cache *closure_cache_free(struct closure_cache *cache)
{
        if (cache == NULL)
                return NULL;
        while (cache->first != NULL)
                forget_last(cache);
        pthread_mutex_destroy(&cache->lock);
        free(cache);
        return NULL;
}
