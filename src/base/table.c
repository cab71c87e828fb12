/* SPDX-License-Identifier: MIT */
#include "base/table.h"

#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#include "base/size.h"
#include "lessor/error.h"

_Static_assert(crypto_shorthash_KEYBYTES == sizeof(((struct table *)0)->key), "the key is SipHash's");

#define FIRST_CHAINS 16
/* So much at once, since growing touches every entry; chains then stay short, too. */
#define GROWTH 4

int table_init(struct table *t, const unsigned char key[16])
{
        *t = (struct table){.n_chains = FIRST_CHAINS};
        memcpy(t->key, key, sizeof(t->key));
        t->chains = calloc(FIRST_CHAINS, sizeof(struct table_node *));
        return t->chains == NULL ? LESSOR_E_NOMEM : 0;
}

void table_done(struct table *t)
{
        free(t->chains);
        *t = (struct table){0};
}

uint64_t table_hash(const struct table *t, struct lessor_slice bytes)
{
        unsigned char out[crypto_shorthash_BYTES];
        uint64_t hash;

        crypto_shorthash(out, (const unsigned char *)bytes.p, bytes.n, t->key);
        memcpy(&hash, out, sizeof(hash));
        return hash;
}

uint64_t table_hash_pair(const struct table *t, struct lessor_slice a, struct lessor_slice b)
{
        const uint64_t halves[2] = {table_hash(t, a), table_hash(t, b)};

        return table_hash(t, (struct lessor_slice){(const char *)halves, sizeof(halves)});
}

static void rehash(struct table *t, struct table_node **chains, size_t n_chains)
{
        for (size_t i = 0; i < t->n_chains; i++) {
                struct table_node *node = t->chains[i];

                while (node != NULL) {
                        struct table_node *next = node->next;
                        struct table_node **at = &chains[node->hash & (n_chains - 1)];

                        node->next = *at;
                        *at = node;
                        node = next;
                }
        }
        free(t->chains);
        t->chains = chains;
        t->n_chains = n_chains;
}

void table_add(struct table *t, struct table_node *node, uint64_t hash)
{
        struct table_node **at;
        size_t more;

        if (t->n >= t->n_chains && size_mul(t->n_chains, GROWTH, &more)) {
                struct table_node **chains = calloc(more, sizeof(struct table_node *));

                if (chains != NULL)
                        rehash(t, chains, more);
        }
        node->hash = hash;
        at = &t->chains[hash & (t->n_chains - 1)];
        node->next = *at;
        *at = node;
        t->n++;
}

void table_remove(struct table *t, struct table_node *node)
{
        struct table_node **at = &t->chains[node->hash & (t->n_chains - 1)];

        while (*at != node)
                at = &(*at)->next;
        *at = node->next;
        node->next = NULL;
        t->n--;
}

struct table_node *table_next(const struct table_node *node)
{
        struct table_node *next = node->next;

        while (next != NULL && next->hash != node->hash)
                next = next->next;
        return next;
}

struct table_node *table_first(const struct table *t, uint64_t hash)
{
        struct table_node *node = t->chains[hash & (t->n_chains - 1)];

        while (node != NULL && node->hash != hash)
                node = node->next;
        return node;
}

void table_each(const struct table *t, void (*each)(struct table_node *node, void *context), void *context)
{
        for (size_t i = 0; i < t->n_chains; i++) {
                struct table_node *node = t->chains[i];

                while (node != NULL) {
                        struct table_node *next = node->next;

                        each(node, context);
                        node = next;
                }
        }
}
