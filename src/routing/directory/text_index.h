/* SPDX-License-Identifier: MIT */
#ifndef DIRECTORY_TEXT_INDEX_H
#define DIRECTORY_TEXT_INDEX_H

#include <stdbool.h>
#include <stdint.h>

#include "lessor/arena.h"

/*
 * A number under a text or a pair of texts. Built once, with its size known, then only read, by any number of
 * threads. Of two numbers for one key the first stays. Hashing is keyed, so that nobody who chooses ids can
 * make it slow.
 */
struct text_index {
        struct text_index_slot *slots;    /* a power of two of them, at most half in use */
        struct text_index_entry *entries; /* in the order in which they were put; both in the arena */
        size_t mask;
        size_t n;
        size_t n_max;
        unsigned char key[16];
};

/* Makes room for n_max keys. Returns 0, LESSOR_E_NOMEM or LESSOR_E_TOO_LARGE. */
int text_index_init(struct text_index *x, struct lessor_arena *arena, size_t n_max);

/*
 * Files `value` under (a, b), whose texts are borrowed for the index's life. `b` is the empty slice where one
 * text is the key. Returns false, and changes nothing, when the key is there already.
 */
bool text_index_put(struct text_index *x, struct lessor_slice a, struct lessor_slice b, uint32_t value);

/* False when there is no such key. */
bool text_index_find(const struct text_index *x, struct lessor_slice a, struct lessor_slice b,
                     uint32_t *ret_value);

/* The number under a key, to change it while the index is being built; NULL when there is no such key. */
uint32_t *text_index_at(struct text_index *x, struct lessor_slice a, struct lessor_slice b);

#define TEXT_INDEX_NO_PAIR ((struct lessor_slice){"", 0})

#endif
