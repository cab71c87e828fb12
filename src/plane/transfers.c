/* SPDX-License-Identifier: MIT */
#include "plane/transfers.h"

#include <pthread.h>
#include <sodium.h>
#include <stdlib.h>

#include "base/macro.h"
#include "base/table.h"

DEFINE_CLEANUP(struct lessor_arena, lessor_arena_free)

struct transfers {
        pthread_mutex_t lock;
        struct table by_lease; /* several may be of one */
};

/* One of them. In its request's arena. */
struct transfer {
        struct table_node node;
        struct transfers *transfers;
        struct http_request *request;
        const struct lessor_capability *capability;
};

struct transfers *transfers_new(void)
{
        struct transfers *transfers = calloc(1, sizeof(*transfers));
        unsigned char key[16];

        if (transfers == NULL)
                return NULL;
        randombytes_buf(key, sizeof(key));
        if (table_init(&transfers->by_lease, key) < 0) {
                free(transfers);
                return NULL;
        }
        pthread_mutex_init(&transfers->lock, NULL);
        return transfers;
}

struct transfers *transfers_free(struct transfers *transfers)
{
        if (transfers == NULL)
                return NULL;
        pthread_mutex_destroy(&transfers->lock);
        table_done(&transfers->by_lease);
        free(transfers);
        return NULL;
}

static uint64_t hash_of(const struct transfers *transfers, const struct lessor_lease_name *name)
{
        return table_hash_pair(&transfers->by_lease, name->repo, name->lease_id);
}

/* The transfer of a lease at this node or behind it, or NULL. */
static struct transfer *of_lease(struct table_node *node, const struct lessor_lease_name *name)
{
        for (; node != NULL; node = table_next(node)) {
                struct transfer *transfer = container_of(node, struct transfer, node);
                const struct lessor_lease_name *own = &transfer->capability->name;

                if (lessor_slice_equal(own->lease_id, name->lease_id) &&
                    lessor_slice_equal(own->repo, name->repo))
                        return transfer;
        }
        return NULL;
}

static void transfer_end(void *object)
{
        struct transfer *transfer = object;

        pthread_mutex_lock(&transfer->transfers->lock);
        table_remove(&transfer->transfers->by_lease, &transfer->node);
        pthread_mutex_unlock(&transfer->transfers->lock);
}

int transfers_add(struct transfers *transfers, struct http_request *request,
                  const struct lessor_capability *capability)
{
        struct transfer *transfer = lessor_arena_alloc(request->arena, sizeof(*transfer));

        if (transfer == NULL)
                return LESSOR_E_NOMEM;
        transfer->transfers = transfers;
        transfer->request = request;
        transfer->capability = capability;
        pthread_mutex_lock(&transfers->lock);
        table_add(&transfers->by_lease, &transfer->node, hash_of(transfers, &capability->name));
        pthread_mutex_unlock(&transfers->lock);
        if (lessor_arena_own(request->arena, transfer, transfer_end) < 0) {
                transfer_end(transfer);
                return LESSOR_E_NOMEM;
        }
        return 0;
}

bool transfers_of(struct transfers *transfers, const struct lessor_lease_name *name)
{
        bool any;

        pthread_mutex_lock(&transfers->lock);
        any = transfers->by_lease.n > 0 &&
              of_lease(table_first(&transfers->by_lease, hash_of(transfers, name)), name) != NULL;
        pthread_mutex_unlock(&transfers->lock);
        return any;
}

static bool is_dead(const struct transfer *transfer, struct lessor_lease_store *store)
{
        _cleanup_(lessor_arena_freep) struct lessor_arena *arena = lessor_arena_new();
        enum lessor_capability_kind kind = transfer->capability->kind;
        struct lessor_capability now;
        struct lessor_ticket ticket;

        return arena != NULL &&
               lessor_capability_open(store, transfer->capability->id,
                                      kind == LESSOR_CAPABILITY_PUT || kind == LESSOR_CAPABILITY_PUT_STAGED,
                                      arena, &now, &ticket) == LESSOR_E_NOT_FOUND;
}

void transfers_check(struct transfers *transfers, struct lessor_lease_store *store,
                     const struct lessor_lease_name *name)
{
        struct transfer *transfer;

        /* The lock keeps the requests alive; the store never asks for it. */
        pthread_mutex_lock(&transfers->lock);
        transfer = of_lease(table_first(&transfers->by_lease, hash_of(transfers, name)), name);
        for (; transfer != NULL; transfer = of_lease(table_next(&transfer->node), name))
                if (is_dead(transfer, store))
                        http_abort(transfer->request);
        pthread_mutex_unlock(&transfers->lock);
}

size_t transfers_count(struct transfers *transfers)
{
        size_t n;

        pthread_mutex_lock(&transfers->lock);
        n = transfers->by_lease.n;
        pthread_mutex_unlock(&transfers->lock);
        return n;
}
