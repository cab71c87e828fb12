/* SPDX-License-Identifier: MIT */
#include "lessor/arena.h"

#include <sodium.h>
#include <stdalign.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/size.h"
#include "lessor/error.h"

#define BLOCK_FIRST 2048u
#define BLOCK_MOST  262144u

struct block {
        struct block *next;
        size_t cap;  /* bytes of data */
        size_t used; /* bytes handed out, rounded up to the alignment */
        alignas(max_align_t) char data[];
};

struct owned {
        struct owned *next;
        void *object;
        void (*free_fn)(void *object);
};

/*
 * 1. `blocks` is the block that small allocations come from, or NULL; the rest of its list is full or not
 * worth looking at again.
 * 2. A large allocation has a block of its own in `large`, so that it does not waste the rest of a small one.
 * 3. `owned` lives in the blocks, newest first.
 */
struct lessor_arena {
        struct block *blocks;
        struct block *large;
        struct owned *owned;
        size_t next_cap;
};

struct lessor_arena *lessor_arena_new(void)
{
        struct lessor_arena *arena = calloc(1, sizeof(*arena));

        if (arena != NULL)
                arena->next_cap = BLOCK_FIRST;
        return arena;
}

static void blocks_free(struct block *block)
{
        while (block != NULL) {
                struct block *next = block->next;

                free(block);
                block = next;
        }
}

/* An object's free function may still look at what is in the arena, so this comes before any block goes. */
static void owned_free(struct lessor_arena *arena)
{
        while (arena->owned != NULL) {
                struct owned *o = arena->owned;

                arena->owned = o->next;
                o->free_fn(o->object);
        }
}

struct lessor_arena *lessor_arena_free(struct lessor_arena *arena)
{
        if (arena == NULL)
                return NULL;
        owned_free(arena);
        blocks_free(arena->blocks);
        blocks_free(arena->large);
        free(arena);
        return NULL;
}

static void blocks_wipe(struct block *block)
{
        /* All of it, not only what is used: an arena that was cleared still holds what was there before. */
        for (; block != NULL; block = block->next)
                sodium_memzero(block->data, block->cap);
}

struct lessor_arena *lessor_arena_wipe(struct lessor_arena *arena)
{
        if (arena == NULL)
                return NULL;
        owned_free(arena);
        blocks_wipe(arena->blocks);
        blocks_wipe(arena->large);
        return lessor_arena_free(arena);
}

void lessor_arena_clear(struct lessor_arena *arena)
{
        owned_free(arena);
        blocks_free(arena->large);
        arena->large = NULL;
        if (arena->blocks != NULL) {
                blocks_free(arena->blocks->next);
                arena->blocks->next = NULL;
                arena->blocks->used = 0;
        }
}

static struct block *block_push(struct block **list, size_t cap)
{
        struct block *block;
        size_t size;

        if (!size_add(sizeof(*block), cap, &size))
                return NULL;
        block = malloc(size);
        if (block == NULL)
                return NULL;
        block->next = *list;
        block->cap = cap;
        block->used = 0;
        *list = block;
        return block;
}

/* As lessor_arena_alloc, but what it gives is not zeroed. */
static void *take(struct lessor_arena *arena, size_t n)
{
        const size_t align = alignof(max_align_t);
        struct block *block = arena->blocks;
        size_t rounded;
        void *p;

        if (!size_add(n == 0 ? 1 : n, align - 1, &rounded))
                return NULL;
        rounded -= rounded % align;

        if (block == NULL || block->cap - block->used < rounded) {
                if (rounded > arena->next_cap / 4) {
                        block = block_push(&arena->large, rounded);
                } else {
                        block = block_push(&arena->blocks, arena->next_cap);
                        if (block != NULL && arena->next_cap < BLOCK_MOST)
                                arena->next_cap *= 2;
                }
                if (block == NULL)
                        return NULL;
        }
        p = block->data + block->used;
        block->used += rounded;
        return p;
}

void *lessor_arena_alloc(struct lessor_arena *arena, size_t n)
{
        void *p = take(arena, n);

        if (p != NULL)
                memset(p, 0, n);
        return p;
}

void *lessor_arena_array(struct lessor_arena *arena, size_t count, size_t size)
{
        size_t n;

        if (!size_mul(count, size, &n))
                return NULL;
        return lessor_arena_alloc(arena, n);
}

int lessor_arena_copy(struct lessor_arena *arena, struct lessor_slice from, struct lessor_slice *ret_copy)
{
        size_t n;
        char *p;

        if (from.p == NULL) {
                *ret_copy = (struct lessor_slice){NULL, 0};
                return 0;
        }
        if (!size_add(from.n, 1, &n))
                return LESSOR_E_NOMEM;
        p = take(arena, n);
        if (p == NULL)
                return LESSOR_E_NOMEM;
        memcpy(p, from.p, from.n);
        p[from.n] = '\0';
        *ret_copy = (struct lessor_slice){p, from.n};
        return 0;
}

int lessor_arena_own(struct lessor_arena *arena, void *object, void (*free_fn)(void *object))
{
        struct owned *o = take(arena, sizeof(*o));

        if (o == NULL)
                return LESSOR_E_NOMEM;
        *o = (struct owned){.next = arena->owned, .object = object, .free_fn = free_fn};
        arena->owned = o;
        return 0;
}
