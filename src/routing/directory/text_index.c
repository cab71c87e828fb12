/* SPDX-License-Identifier: MIT */
#include "routing/directory/text_index.h"

#include <sodium.h>

#include "lessor/error.h"

/* Apart from the entries and small, so that looking for a place stays within the caches. */
struct text_index_slot {
        uint32_t tag;   /* of the hash, those bits that do not choose the slot */
        uint32_t entry; /* its place plus one; 0 in a free slot */
};

struct text_index_entry {
        struct lessor_slice a;
        struct lessor_slice b;
        uint32_t value;
};

int text_index_init(struct text_index *x, struct lessor_arena *arena, size_t n_max)
{
        size_t n_slots = 8;

        if (n_max > UINT32_MAX / 4)
                return LESSOR_E_TOO_LARGE;
        while (n_slots < n_max * 2)
                n_slots *= 2;
        x->slots = lessor_arena_array(arena, n_slots, sizeof(*x->slots));
        x->entries = lessor_arena_array(arena, n_max, sizeof(*x->entries));
        if (x->slots == NULL || x->entries == NULL)
                return LESSOR_E_NOMEM;
        x->mask = n_slots - 1;
        x->n = 0;
        x->n_max = n_max;
        _Static_assert(sizeof(x->key) == crypto_shorthash_KEYBYTES, "the key is one of SipHash");
        randombytes_buf(x->key, sizeof(x->key));
        return 0;
}

static uint64_t hash_text(const struct text_index *x, struct lessor_slice text)
{
        unsigned char out[crypto_shorthash_BYTES];
        uint64_t hash;

        crypto_shorthash(out, (const unsigned char *)text.p, text.n, x->key);
        memcpy(&hash, out, sizeof(hash));
        return hash;
}

/* The halves are hashed apart, so that ("ab", "c") and ("a", "bc") differ, and mixed so that order counts. */
static uint64_t hash_pair(const struct text_index *x, struct lessor_slice a, struct lessor_slice b)
{
        uint64_t hash = hash_text(x, a);

        if (b.n != 0)
                hash = ((hash << 29) | (hash >> 35)) ^ hash_text(x, b);
        return hash;
}

static uint32_t tag_of(uint64_t hash)
{
        return (uint32_t)(hash >> 32);
}

/* The key's slot, or the free one where it would go: the table is never full, so the walk ends. */
static struct text_index_slot *slot_of(const struct text_index *x, uint64_t hash, struct lessor_slice a,
                                       struct lessor_slice b)
{
        for (size_t i = hash & x->mask;; i = (i + 1) & x->mask) {
                struct text_index_slot *slot = &x->slots[i];
                const struct text_index_entry *entry;

                if (slot->entry == 0)
                        return slot;
                if (slot->tag != tag_of(hash))
                        continue;
                entry = &x->entries[slot->entry - 1];
                if (lessor_slice_equal(entry->a, a) && lessor_slice_equal(entry->b, b))
                        return slot;
        }
}

bool text_index_put(struct text_index *x, struct lessor_slice a, struct lessor_slice b, uint32_t value)
{
        uint64_t hash = hash_pair(x, a, b);
        struct text_index_slot *slot = slot_of(x, hash, a, b);

        if (slot->entry != 0 || x->n == x->n_max)
                return false;
        x->entries[x->n++] = (struct text_index_entry){.a = a, .b = b, .value = value};
        *slot = (struct text_index_slot){.tag = tag_of(hash), .entry = (uint32_t)x->n};
        return true;
}

uint32_t *text_index_at(struct text_index *x, struct lessor_slice a, struct lessor_slice b)
{
        const struct text_index_slot *slot = slot_of(x, hash_pair(x, a, b), a, b);

        return slot->entry == 0 ? NULL : &x->entries[slot->entry - 1].value;
}

bool text_index_find(const struct text_index *x, struct lessor_slice a, struct lessor_slice b,
                     uint32_t *ret_value)
{
        const struct text_index_slot *slot = slot_of(x, hash_pair(x, a, b), a, b);

        if (slot->entry == 0)
                return false;
        *ret_value = x->entries[slot->entry - 1].value;
        return true;
}
