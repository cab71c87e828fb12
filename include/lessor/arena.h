/* SPDX-License-Identifier: MIT */
#ifndef LESSOR_ARENA_H
#define LESSOR_ARENA_H

#include "lessor/slice.h"

/*
 * Memory that is given back all at once: what one request needs lives in its arena and goes with it.
 * One thread at a time.
 */
struct lessor_arena;

/* A new, empty arena, or NULL when memory is short. */
struct lessor_arena *lessor_arena_new(void);

/* Gives back the arena and everything in it. Takes NULL, returns NULL. */
struct lessor_arena *lessor_arena_free(struct lessor_arena *arena);

/*
 * As lessor_arena_free, but overwrites what was in it with zeros first: for arenas that held secrets. Large
 * pieces that lessor_arena_clear gave back are gone as they were.
 */
struct lessor_arena *lessor_arena_wipe(struct lessor_arena *arena);

/* Forgets everything in it and keeps one block for what comes next. */
void lessor_arena_clear(struct lessor_arena *arena);

/*
 * `n` bytes, zeroed, aligned for any type. NULL when memory is short. n = 0 gives a valid pointer.
 * Lives until the arena is cleared or freed.
 */
void *lessor_arena_alloc(struct lessor_arena *arena, size_t n);

/* An array of `count` items of `size` bytes, zeroed; NULL when memory is short or the product overflows. */
void *lessor_arena_array(struct lessor_arena *arena, size_t count, size_t size);

/*
 * A copy of `from`, followed by a NUL that its length does not count. An absent slice stays absent.
 * Returns 0 or LESSOR_E_NOMEM.
 */
int lessor_arena_copy(struct lessor_arena *arena, struct lessor_slice from, struct lessor_slice *ret_copy);

/*
 * Lets the arena call `free_fn(object)` when it is cleared or freed, in reverse order of registration.
 * Returns 0, or LESSOR_E_NOMEM, in which case the object still belongs to the caller.
 */
int lessor_arena_own(struct lessor_arena *arena, void *object, void (*free_fn)(void *object));

#endif
