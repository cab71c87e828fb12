/* SPDX-License-Identifier: MIT */
#include "client/cache_index.h"

#include <stdlib.h>
#include <string.h>

#include "base/macro.h"
#include "lessor/error.h"

int cache_index_init(struct cache_index *index, const unsigned char key[16])
{
        memset(index, 0, sizeof(*index));
        return table_init(&index->table, key);
}

static void free_entry(struct table_node *node, void *context)
{
        (void)context;
        free(container_of(node, struct cache_entry, node));
}

void cache_index_done(struct cache_index *index)
{
        table_each(&index->table, free_entry, NULL);
        table_done(&index->table);
        memset(index, 0, sizeof(*index));
}

struct cache_entry *cache_index_find(struct cache_index *index, struct lessor_slice hash)
{
        uint64_t h = table_hash(&index->table, hash);

        for (struct table_node *node = table_first(&index->table, h); node != NULL; node = table_next(node)) {
                struct cache_entry *entry = container_of(node, struct cache_entry, node);

                if (lessor_slice_equal(lessor_slice_of(entry->hash), hash))
                        return entry;
        }
        return NULL;
}

struct cache_entry *cache_index_add(struct cache_index *index, struct lessor_slice hash)
{
        struct cache_entry *entry = hash.n == SHA256_HEX_LEN ? calloc(1, sizeof(*entry)) : NULL;

        if (entry == NULL)
                return NULL;
        memcpy(entry->hash, hash.p, hash.n);
        entry->state = CACHE_COMING;
        table_add(&index->table, &entry->node, table_hash(&index->table, hash));
        index->n_entries++;
        return entry;
}

static void unlist(struct cache_index *index, struct cache_entry *entry)
{
        if (!entry->in_list)
                return;
        *(entry->older != NULL ? &entry->older->newer : &index->oldest) = entry->newer;
        *(entry->newer != NULL ? &entry->newer->older : &index->newest) = entry->older;
        entry->older = entry->newer = NULL;
        entry->in_list = false;
}

static void list(struct cache_index *index, struct cache_entry *entry)
{
        unlist(index, entry);
        if (entry->state == CACHE_COMING || entry->pins > 0)
                return;
        entry->older = index->newest;
        *(index->newest != NULL ? &index->newest->newer : &index->oldest) = entry;
        index->newest = entry;
        entry->in_list = true;
}

void cache_index_arrived(struct cache_index *index, struct cache_entry *entry, int64_t size,
                         enum cache_state state)
{
        entry->state = state;
        entry->size = size;
        index->bytes += size;
        list(index, entry);
}

void cache_index_check(struct cache_index *index, struct cache_entry *entry)
{
        unlist(index, entry);
        index->bytes -= entry->size;
        entry->state = CACHE_COMING;
}

void cache_index_pin(struct cache_index *index, struct cache_entry *entry)
{
        entry->pins++;
        unlist(index, entry);
}

void cache_index_unpin(struct cache_index *index, struct cache_entry *entry)
{
        if (--entry->pins == 0)
                list(index, entry);
}

void cache_index_remove(struct cache_index *index, struct cache_entry *entry)
{
        unlist(index, entry);
        if (entry->state != CACHE_COMING)
                index->bytes -= entry->size;
        table_remove(&index->table, &entry->node);
        index->n_entries--;
        free(entry);
}

struct cache_entry *cache_index_excess(const struct cache_index *index, int64_t budget)
{
        return index->bytes > budget ? index->oldest : NULL;
}
