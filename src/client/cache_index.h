/* SPDX-License-Identifier: MIT */
#ifndef CLIENT_CACHE_INDEX_H
#define CLIENT_CACHE_INDEX_H

#include <stdbool.h>
#include <stdint.h>

#include "base/table.h"
#include "crypto/sha256.h"

/*
 * What a cache of objects has, and what goes first when it is full: data only. No I/O, no locks, no clock.
 *
 *  1. An entry is in the table from its first mention until it is removed.
 *  2. One that is on disk (not COMING) and has no pins is in the list, the least recently used first; no
 * other is.
 *  3. `bytes` is the sum of the sizes of those that are on disk.
 */
enum cache_state {
        CACHE_COMING,    /* somebody fetches it, or looks whether it is whole */
        CACHE_UNCHECKED, /* on disk since before this process: whole if the last one was not interrupted */
        CACHE_PRESENT,
};

struct cache_entry {
        struct table_node node;
        char hash[SHA256_HEX_LEN + 1];
        enum cache_state state;
        int64_t size;    /* bytes on disk; 0 while it is coming for the first time */
        int64_t used_ms; /* when its file was last told that it is used; monotonic, 0: by an earlier process
                          */
        unsigned pins;   /* jobs that need it to stay */
        struct cache_entry *older, *newer; /* in the list */
        bool in_list;
};

struct cache_index {
        struct table table;
        struct cache_entry *oldest, *newest;
        int64_t bytes;
        size_t n_entries;
};

/* Returns 0 or LESSOR_E_NOMEM. */
int cache_index_init(struct cache_index *index, const unsigned char key[16]);

/* Frees every entry. */
void cache_index_done(struct cache_index *index);

/* NULL: there is none. */
struct cache_entry *cache_index_find(struct cache_index *index, struct lessor_slice hash);

/* A new entry, CACHE_COMING; there must be none. NULL when memory is short. */
struct cache_entry *cache_index_add(struct cache_index *index, struct lessor_slice hash);

/* It is on disk. `state`: CACHE_UNCHECKED or CACHE_PRESENT. It becomes the most recently used. */
void cache_index_arrived(struct cache_index *index, struct cache_entry *entry, int64_t size,
                         enum cache_state state);

/* It is looked at: an entry that was CACHE_UNCHECKED is CACHE_COMING, and its size counts no more. */
void cache_index_check(struct cache_index *index, struct cache_entry *entry);

/* It is needed, and what was needed and now is not. The last unpin makes it the most recently used. */
void cache_index_pin(struct cache_index *index, struct cache_entry *entry);
void cache_index_unpin(struct cache_index *index, struct cache_entry *entry);

/* Removes and frees it. Nobody may wait for it. */
void cache_index_remove(struct cache_index *index, struct cache_entry *entry);

/*
 * What has to go first for the cache to be at most `budget` bytes; NULL: nothing, or nothing that may. The
 * caller removes it and asks again.
 */
struct cache_entry *cache_index_excess(const struct cache_index *index, int64_t budget);

#endif
