/* SPDX-License-Identifier: MIT */
#include "plane/collection.h"

#include "base/macro.h"
#include "lessor/rack_registry.h"
#include "plane/rack_closure.h"
#include "wire/env_manifest.h"
#include "wire/lease_event.h"

DEFINE_CLEANUP(struct lessor_arena, lessor_arena_free)

/* Leases that are looked at with one question to the store. */
#define PAGE 256

struct roots {
        struct lessor_object_store *objects;
        struct lessor_lease_store *leases;
        struct lessor_object_keeper *keeper;
        struct lessor_arena *arena; /* of one step */
};

/* What says that a text is no closure, as opposed to a store that cannot read it just now. */
static bool is_unreadable(int e)
{
        return e == LESSOR_E_MALFORMED || e == LESSOR_E_INVALID || e == LESSOR_E_TOO_LARGE ||
               e == LESSOR_E_NOT_FOUND || e == LESSOR_E_CORRUPT;
}

static int keep_all(struct roots *r, struct lessor_slice repo, const struct lessor_slice *hashes, size_t n)
{
        int e = 0;

        for (size_t i = 0; e == 0 && i < n; i++)
                if (lessor_object_hash_valid(hashes[i]))
                        e = r->keeper->keep(r->keeper, repo, hashes[i]);
        return e;
}

static int keep_closure(struct roots *r, const struct lessor_lease_name *name)
{
        struct lessor_lease lease;
        struct lease_closure closure;
        struct lessor_slice *hashes = NULL;
        size_t n = 0;
        int e = lessor_lease_get(r->leases, name, LESSOR_WITH_EVENT, r->arena, &lease, NULL);

        if (e == LESSOR_E_NOT_FOUND)
                return 0;
        if (e == 0)
                e = lease_event_read_closure(lease.event, r->arena, &closure, NULL);
        if (e == 0 && closure.object.p != NULL)
                e = r->keeper->keep(r->keeper, name->repo, closure.object);
        if (e == 0)
                e = closure_list(r->objects, name->repo, &closure, r->arena, &hashes, &n);
        if (e < 0)
                return is_unreadable(e) ? 0 : e; /* nobody can read anything by it either */
        return keep_all(r, name->repo, hashes, n);
}

static int keep_targets(struct roots *r, const struct lessor_lease_name *name)
{
        struct lessor_slice *hashes;
        size_t n;
        int e = lessor_lease_targets(r->leases, name, r->arena, &hashes, &n, NULL);

        if (e == LESSOR_E_NOT_FOUND)
                return 0;
        return e < 0 ? e : keep_all(r, name->repo, hashes, n);
}

static bool may_run(enum lessor_lease_status status)
{
        return status == LESSOR_LEASE_PENDING || status == LESSOR_LEASE_CLAIMED ||
               status == LESSOR_LEASE_POISONED || status == LESSOR_LEASE_EXPIRED;
}

static int keep_lease(struct roots *r, const struct lessor_lease *lease)
{
        int e = 0;

        if (may_run(lease->status)) {
                e = keep_closure(r, &lease->name);
                if (e == 0 && lease->n_targets > 0)
                        e = keep_targets(r, &lease->name);
        } else if (lease->status == LESSOR_LEASE_COMPLETED && lease->verdict.output_hash.p != NULL) {
                e = keep_all(r, lease->name.repo, &lease->verdict.output_hash, 1);
        }
        return e;
}

/* Keeps what a page of leases needs. Returns 1 after the last one. */
static int keep_page(struct roots *r, uint64_t *after)
{
        _cleanup_(lessor_arena_freep) struct lessor_arena *page = lessor_arena_new();
        struct lessor_lease_list list;
        int e;

        if (page == NULL)
                return LESSOR_E_NOMEM;
        e = lessor_lease_list(r->leases, &(struct lessor_lease_query){.after = *after, .max = PAGE}, page,
                              &list, NULL);
        for (size_t i = 0; e == 0 && i < list.n; i++) {
                lessor_arena_clear(r->arena);
                e = keep_lease(r, &list.items[i]);
                *after = list.items[i].seq;
        }
        return e == 0 && list.n < PAGE ? 1 : e;
}

static int keep_environment(struct roots *r, const struct lessor_environment *environment)
{
        struct lessor_environment whole;
        struct env_manifest manifest;
        int e = lessor_environment_resolve(r->leases, environment->env_hash, environment->e3_version,
                                           r->arena, &whole, NULL);

        if (e == 0)
                e = env_manifest_read(whole.manifest, r->arena, &manifest, NULL);
        if (e < 0)
                return is_unreadable(e) ? 0 : e;
        for (size_t i = 0; e == 0 && i < manifest.n_layers; i++)
                e = keep_all(r, LESSOR_SLICE(RACK_LAYER_REPO), &manifest.layers[i].hash, 1);
        return e;
}

static int keep_environments(struct roots *r)
{
        _cleanup_(lessor_arena_freep) struct lessor_arena *arena = lessor_arena_new();
        struct lessor_environment_list list;
        int e;

        if (arena == NULL)
                return LESSOR_E_NOMEM;
        e = lessor_environment_list(r->leases, arena, &list, NULL);
        for (size_t i = 0; e == 0 && i < list.n; i++) {
                lessor_arena_clear(r->arena);
                e = keep_environment(r, &list.items[i]);
        }
        return e;
}

static int tell_roots(void *context, struct lessor_object_keeper *keeper)
{
        struct roots *r = context;
        uint64_t after = 0;
        int e = 0;

        r->keeper = keeper;
        while (e == 0)
                e = keep_page(r, &after);
        return e < 0 ? e : keep_environments(r);
}

int collection_run(struct lessor_object_store *objects, struct lessor_lease_store *leases, int64_t grace_ms,
                   bool dry, struct lessor_object_collected *ret_collected)
{
        struct roots r = {.objects = objects, .leases = leases, .arena = lessor_arena_new()};
        const struct lessor_object_collection collection = {
                .grace_ms = grace_ms, .roots = tell_roots, .context = &r, .dry = dry};
        int e = r.arena == NULL ? LESSOR_E_NOMEM : lessor_object_collect(objects, &collection, ret_collected);

        lessor_arena_free(r.arena);
        return e;
}
