/* SPDX-License-Identifier: MIT */
#include "client/ask_table.h"

#include <sodium.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/macro.h"

#define BUCKETS_FIRST 64

DEFINE_CLEANUP(struct ask, ask_free)

static size_t hash_of(struct lessor_slice text)
{
        uint64_t h = 14695981039346656037u; /* FNV-1a; the ids are our own */

        for (size_t i = 0; i < text.n; i++)
                h = (h ^ (unsigned char)text.p[i]) * 1099511628211u;
        return (size_t)(h ^ (h >> 32));
}

void ask_table_done(struct ask_table *table)
{
        struct ask *next;

        for (struct ask *ask = table->oldest; ask != NULL; ask = next) {
                next = ask->next;
                ask_free(ask);
        }
        free(table->buckets);
        *table = (struct ask_table){0};
}

struct ask *ask_free(struct ask *ask)
{
        if (ask == NULL)
                return NULL;
        if (ask->payload_block != NULL)
                sodium_memzero(ask->payload_block, ask->payload.n);
        free(ask->payload_block);
        lessor_arena_free(ask->arena);
        free(ask->devices);
        free(ask);
        return NULL;
}

static int grow(struct ask_table *table)
{
        size_t n = table->n_buckets == 0 ? BUCKETS_FIRST : table->n_buckets * 2;
        struct ask **buckets;

        if (table->n < table->n_buckets)
                return 0;
        buckets = calloc(n, sizeof(struct ask *));
        if (buckets == NULL)
                return LESSOR_E_NOMEM;
        for (struct ask *ask = table->oldest; ask != NULL; ask = ask->next) {
                struct ask **bucket = &buckets[hash_of(ask->stub.id) & (n - 1)];

                ask->chain = *bucket;
                *bucket = ask;
        }
        free(table->buckets);
        table->buckets = buckets;
        table->n_buckets = n;
        return 0;
}

static int copy_allowed(struct ask *ask, const struct lessor_ask *from)
{
        if (from->n_device_key_ids == 0)
                return 0;
        ask->allowed = lessor_arena_array(ask->arena, from->n_device_key_ids, sizeof(*ask->allowed));
        if (ask->allowed == NULL)
                return LESSOR_E_NOMEM;
        for (; ask->n_allowed < from->n_device_key_ids; ask->n_allowed++) {
                int r = lessor_arena_copy(ask->arena, from->device_key_ids[ask->n_allowed],
                                          &ask->allowed[ask->n_allowed]);

                if (r < 0)
                        return r;
        }
        return 0;
}

static int fill(struct ask *ask, const struct lessor_ask *from, enum lessor_size_class size_class)
{
        int r;

        ask->arena = lessor_arena_new();
        ask->payload_block = malloc(from->payload.n + 1);
        if (ask->arena == NULL || ask->payload_block == NULL)
                return LESSOR_E_NOMEM;
        memcpy(ask->payload_block, from->payload.p, from->payload.n);
        ask->payload = (struct lessor_slice){ask->payload_block, from->payload.n};
        ask->stub.kind = from->kind;
        ask->stub.audience = from->audience;
        ask->stub.size_class = size_class;
        ask->stub.deadline_ms = from->deadline_ms;
        r = lessor_arena_copy(ask->arena, from->job_id, &ask->stub.id);
        if (r == 0)
                r = lessor_arena_copy(ask->arena, from->owner, &ask->stub.owner);
        if (r == 0)
                r = lessor_arena_copy(ask->arena, from->purpose, &ask->stub.purpose);
        return r < 0 ? r : copy_allowed(ask, from);
}

int ask_table_add(struct ask_table *table, const struct lessor_ask *from, enum lessor_size_class size_class,
                  struct ask **ret_ask)
{
        _cleanup_(ask_freep) struct ask *ask = NULL;
        struct ask **bucket;
        int r;

        if (ask_table_find(table, from->job_id) != NULL)
                return LESSOR_E_EXISTS;
        r = grow(table);
        if (r < 0)
                return r;
        ask = calloc(1, sizeof(*ask));
        if (ask == NULL)
                return LESSOR_E_NOMEM;
        r = fill(ask, from, size_class);
        if (r < 0)
                return r;
        bucket = &table->buckets[hash_of(ask->stub.id) & (table->n_buckets - 1)];
        ask->chain = *bucket;
        *bucket = ask;
        ask->previous = table->newest;
        if (table->newest != NULL)
                table->newest->next = ask;
        else
                table->oldest = ask;
        table->newest = ask;
        table->n++;
        *ret_ask = TAKE(ask);
        return 0;
}

struct ask *ask_table_find(const struct ask_table *table, struct lessor_slice job_id)
{
        struct ask *ask;

        if (table->n_buckets == 0)
                return NULL;
        ask = table->buckets[hash_of(job_id) & (table->n_buckets - 1)];
        while (ask != NULL && !lessor_slice_equal(ask->stub.id, job_id))
                ask = ask->chain;
        return ask;
}

void ask_table_take(struct ask_table *table, struct ask *ask)
{
        struct ask **link = &table->buckets[hash_of(ask->stub.id) & (table->n_buckets - 1)];

        while (*link != ask)
                link = &(*link)->chain;
        *link = ask->chain;
        if (ask->previous != NULL)
                ask->previous->next = ask->next;
        else
                table->oldest = ask->next;
        if (ask->next != NULL)
                ask->next->previous = ask->previous;
        else
                table->newest = ask->previous;
        table->n--;
}

int ask_note_sealed(struct ask *ask, struct lessor_slice lease_id, struct lessor_slice device_key_id)
{
        struct lessor_slice *grown;
        int r = lessor_arena_copy(ask->arena, lease_id, &ask->lease_id);

        if (r < 0 || (ask->n_devices > 0 && ask_may_come_from(ask, device_key_id)))
                return r;
        grown = realloc(ask->devices, (ask->n_devices + 1) * sizeof(*grown));
        if (grown == NULL)
                return LESSOR_E_NOMEM;
        ask->devices = grown;
        r = lessor_arena_copy(ask->arena, device_key_id, &grown[ask->n_devices]);
        if (r == 0)
                ask->n_devices++;
        return r;
}

static bool is_among(const struct lessor_slice *ids, size_t n, struct lessor_slice id)
{
        for (size_t i = 0; i < n; i++)
                if (lessor_slice_equal(ids[i], id))
                        return true;
        return false;
}

bool ask_may_go_to(const struct ask *ask, struct lessor_slice device_key_id)
{
        return ask->n_allowed == 0 || is_among(ask->allowed, ask->n_allowed, device_key_id);
}

bool ask_may_come_from(const struct ask *ask, struct lessor_slice device_key_id)
{
        if (ask->n_devices == 0) /* sealed by an earlier pump, which may have been free to choose */
                return ask_may_go_to(ask, device_key_id);
        return is_among(ask->devices, ask->n_devices, device_key_id);
}
