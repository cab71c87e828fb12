/* SPDX-License-Identifier: MIT */
#ifndef BASE_TABLE_H
#define BASE_TABLE_H

#include <stddef.h>
#include <stdint.h>

#include "lessor/slice.h"

/*
 * A hash table whose entries are members of the caller's own structs.
 *
 * Adding and removing never fail and take no memory: only the array of chains does, and where it cannot grow
 * the chains get longer. That is what lets an engine do everything that may fail before its first change. The
 * hash is SipHash under a key that the maker gives, so that nobody outside can choose colliding names.
 */
struct table_node {
        struct table_node *next;
        uint64_t hash;
};

struct table {
        struct table_node **chains;
        size_t n_chains; /* a power of two */
        size_t n;
        unsigned char key[16];
};

/* Returns 0 or LESSOR_E_NOMEM. */
int table_init(struct table *t, const unsigned char key[16]);

/* Frees the chains; the entries are the caller's. */
void table_done(struct table *t);

uint64_t table_hash(const struct table *t, struct lessor_slice bytes);

/* The hash of two texts as a pair, told apart from any other split of the same bytes. */
uint64_t table_hash_pair(const struct table *t, struct lessor_slice a, struct lessor_slice b);

/* Adds an entry, which must not be in a table. */
void table_add(struct table *t, struct table_node *node, uint64_t hash);

/* Removes an entry, which must be in this table. */
void table_remove(struct table *t, struct table_node *node);

/* The first entry with this hash, and the next one after an entry; NULL: none. The caller compares what is in
 * it. */
struct table_node *table_first(const struct table *t, uint64_t hash);
struct table_node *table_next(const struct table_node *node);

/* Calls `each` for every entry, in no order; it may free the entry. */
void table_each(const struct table *t, void (*each)(struct table_node *node, void *context), void *context);

#endif
