/* SPDX-License-Identifier: MIT */
#include "routing/directory/projection.h"

#include <stdlib.h>

#include "base/limits.h"
#include "base/utf8.h"
#include "crypto/key_id.h"
#include "lessor/error.h"
#include "routing/directory/text_index.h"

DEFINE_CLEANUP(struct lessor_arena, lessor_arena_free)

/* The routes of one owner, found when first asked for. */
struct route_set {
        size_t n;
        struct lessor_route items[];
};

/* Somebody who has consented, owns a roster or is in one. */
struct owner {
        struct lessor_slice name;
        struct projection_pin *pins; /* sorted by site id as UTF-16 */
        size_t n_pins;
        struct lessor_slice *runnable; /* themselves first */
        size_t n_runnable;
        _Atomic(struct route_set *) routes; /* NULL until asked for; then it stays */
};

/*
 * Invariants, from projection_new on:
 *  1. Nothing changes but `routes` of an owner, once, from NULL.
 *  2. sites and devices hold first records only; every index leads into them.
 *  3. consents holds, per pair, the place of the record that counts and the enum projection_consent that it
 * comes to (consent_value); revoked pairs are NONE.
 *  4. All of it is in the arena, but the route sets.
 */
struct projection {
        struct snapshot snapshot;
        struct lessor_arena *arena;
        struct relay_fixture fixture;
        struct projection_site *sites;
        size_t n_sites;
        struct projection_device *devices;
        size_t n_devices;
        struct owner *owners;
        size_t n_owners;
        struct text_index site_ids;
        struct text_index site_keys;
        struct text_index runner_ids;
        struct text_index device_identities;
        struct text_index consents; /* (owner, site id) */
        struct text_index owner_names;
};

/* --- Making one --- */

static int copy_text(struct lessor_arena *arena, struct lessor_slice *text)
{
        return lessor_arena_copy(arena, *text, text);
}

static int copy_texts(struct lessor_arena *arena, struct lessor_slice **texts, size_t n)
{
        struct lessor_slice *copies = lessor_arena_array(arena, n, sizeof(*copies));

        if (copies == NULL)
                return LESSOR_E_NOMEM;
        for (size_t i = 0; i < n; i++) {
                if (lessor_arena_copy(arena, (*texts)[i], &copies[i]) < 0)
                        return LESSOR_E_NOMEM;
        }
        *texts = copies;
        return 0;
}

static int copy_identity(struct lessor_arena *arena, struct lessor_public_identity *identity)
{
        if (copy_text(arena, &identity->identity) < 0 || copy_text(arena, &identity->encryption) < 0)
                return LESSOR_E_NOMEM;
        return copy_text(arena, &identity->encryption_sig);
}

/* Copies an array of plain structs; their texts still are the giver's. */
static int copy_items(struct lessor_arena *arena, void *items_pointer, size_t n, size_t size)
{
        void *items;
        void *copies;

        memcpy(&items, items_pointer, sizeof(items));
        copies = lessor_arena_array(arena, n, size);
        if (copies == NULL)
                return LESSOR_E_NOMEM;
        if (n > 0)
                memcpy(copies, items, n * size);
        memcpy(items_pointer, &copies, sizeof(copies));
        return 0;
}

static int copy_sites(struct lessor_arena *arena, struct relay_fixture *f)
{
        if (copy_items(arena, &f->sites, f->n_sites, sizeof(*f->sites)) < 0)
                return LESSOR_E_NOMEM;
        for (size_t i = 0; i < f->n_sites; i++) {
                struct fixture_site *s = &f->sites[i];

                if (copy_text(arena, &s->site_id) < 0 || copy_identity(arena, &s->site) < 0)
                        return LESSOR_E_NOMEM;
                if (s->succeeds == NULL) /* absent differs from empty when it is written again */
                        continue;
                if (copy_items(arena, &s->succeeds, s->n_succeeds, sizeof(*s->succeeds)) < 0)
                        return LESSOR_E_NOMEM;
                for (size_t j = 0; j < s->n_succeeds; j++) {
                        struct lessor_succession_link *link = &s->succeeds[j];

                        if (copy_identity(arena, &link->identity) < 0 ||
                            copy_text(arena, &link->signature) < 0)
                                return LESSOR_E_NOMEM;
                }
        }
        return 0;
}

static int copy_people(struct lessor_arena *arena, struct relay_fixture *f)
{
        if (copy_items(arena, &f->consents, f->n_consents, sizeof(*f->consents)) < 0 ||
            copy_items(arena, &f->rosters, f->n_rosters, sizeof(*f->rosters)) < 0 ||
            copy_items(arena, &f->revoked, f->n_revoked, sizeof(*f->revoked)) < 0)
                return LESSOR_E_NOMEM;
        for (size_t i = 0; i < f->n_consents; i++) {
                if (copy_text(arena, &f->consents[i].owner) < 0 ||
                    copy_text(arena, &f->consents[i].site_id) < 0)
                        return LESSOR_E_NOMEM;
        }
        for (size_t i = 0; i < f->n_rosters; i++) {
                struct fixture_roster *r = &f->rosters[i];

                if (copy_text(arena, &r->id) < 0 || copy_text(arena, &r->owner) < 0 ||
                    copy_texts(arena, &r->members, r->n_members) < 0)
                        return LESSOR_E_NOMEM;
        }
        for (size_t i = 0; i < f->n_revoked; i++) {
                if (copy_text(arena, &f->revoked[i].owner) < 0 ||
                    copy_text(arena, &f->revoked[i].site_id) < 0)
                        return LESSOR_E_NOMEM;
        }
        return 0;
}

static int copy_devices(struct lessor_arena *arena, struct relay_fixture *f)
{
        if (copy_items(arena, &f->devices, f->n_devices, sizeof(*f->devices)) < 0)
                return LESSOR_E_NOMEM;
        for (size_t i = 0; i < f->n_devices; i++) {
                struct fixture_device *d = &f->devices[i];

                if (copy_text(arena, &d->owner) < 0 || copy_text(arena, &d->runner_id) < 0 ||
                    copy_identity(arena, &d->device) < 0)
                        return LESSOR_E_NOMEM;
        }
        return 0;
}

/*
 * Decodes a key once, so that no request does. `ret_key_id` is in the arena; may be NULL. Identities are not
 * verified on load (relay-protocol 9): what is no key has a key id all the same, and is pinned under it.
 */
static int read_key(struct lessor_arena *arena, struct lessor_slice identity, bool *ret_has_key,
                    struct identity_key *ret_key, struct lessor_slice *ret_key_id)
{
        struct key_id id;

        *ret_has_key = identity_key_read(identity, ret_key) == 0;
        if (ret_key_id == NULL)
                return 0;
        if (key_id_of_text(identity, &id) < 0)
                return LESSOR_E_NOMEM;
        return lessor_arena_copy(arena, key_id_text(&id), ret_key_id);
}

static int read_links(struct projection *p, struct projection_site *s)
{
        const struct fixture_site *record = s->record;
        struct projection_link *links;

        links = lessor_arena_array(p->arena, record->n_succeeds, sizeof(*links));
        if (links == NULL)
                return LESSOR_E_NOMEM;
        for (size_t i = 0; i < record->n_succeeds; i++) {
                links[i].record = &record->succeeds[i];
                (void)read_key(p->arena, record->succeeds[i].identity.identity, &links[i].has_key,
                               &links[i].key, NULL);
        }
        s->succeeds = links;
        s->n_succeeds = record->n_succeeds;
        return 0;
}

static int index_sites(struct projection *p)
{
        const struct relay_fixture *f = &p->fixture;
        int r;

        p->sites = lessor_arena_array(p->arena, f->n_sites, sizeof(*p->sites));
        if (p->sites == NULL)
                return LESSOR_E_NOMEM;
        if ((r = text_index_init(&p->site_ids, p->arena, f->n_sites)) < 0 ||
            (r = text_index_init(&p->site_keys, p->arena, f->n_sites)) < 0)
                return r;
        for (size_t i = 0; i < f->n_sites; i++) {
                const struct fixture_site *record = &f->sites[i];
                struct projection_site *s = &p->sites[p->n_sites];

                if (!text_index_put(&p->site_ids, record->site_id, TEXT_INDEX_NO_PAIR, (uint32_t)p->n_sites))
                        continue;
                s->site_id = record->site_id;
                s->record = record;
                if (read_key(p->arena, record->site.identity, &s->has_key, &s->key, &s->key_id) < 0 ||
                    read_links(p, s) < 0)
                        return LESSOR_E_NOMEM;
                (void)text_index_put(&p->site_keys, s->key_id, TEXT_INDEX_NO_PAIR, (uint32_t)p->n_sites);
                p->n_sites++;
        }
        return 0;
}

/*
 * Unlike for sites, a record that is a duplicate by its runner id may still be the first one with its keys:
 * each question looks for its own first record.
 */
static int index_devices(struct projection *p)
{
        const struct relay_fixture *f = &p->fixture;
        int r;

        p->devices = lessor_arena_array(p->arena, f->n_devices, sizeof(*p->devices));
        if (p->devices == NULL)
                return LESSOR_E_NOMEM;
        if ((r = text_index_init(&p->runner_ids, p->arena, f->n_devices)) < 0 ||
            (r = text_index_init(&p->device_identities, p->arena, f->n_devices)) < 0)
                return r;
        for (size_t i = 0; i < f->n_devices; i++) {
                const struct fixture_device *record = &f->devices[i];
                struct projection_device *d = &p->devices[i];

                d->runner_id = record->runner_id;
                d->owner = record->owner;
                d->record = record;
                if (read_key(p->arena, record->device.identity, &d->has_key, &d->key, &d->key_id) < 0)
                        return LESSOR_E_NOMEM;
                (void)text_index_put(&p->runner_ids, d->runner_id, TEXT_INDEX_NO_PAIR, (uint32_t)i);
                (void)text_index_put(&p->device_identities, record->device.identity, TEXT_INDEX_NO_PAIR,
                                     (uint32_t)i);
        }
        p->n_devices = f->n_devices;
        return 0;
}

/* LIMIT_PROJECTION_RECORDS leaves the two bits free. */
static uint32_t consent_value(size_t record, enum projection_consent state)
{
        return (uint32_t)record << 2 | (uint32_t)state;
}

static int index_consents(struct projection *p)
{
        const struct relay_fixture *f = &p->fixture;
        int r;

        if ((r = text_index_init(&p->consents, p->arena, f->n_consents)) < 0)
                return r;
        for (size_t i = 0; i < f->n_consents; i++) {
                const struct fixture_consent *c = &f->consents[i];

                (void)text_index_put(
                        &p->consents, c->owner, c->site_id,
                        consent_value(i, c->paused ? PROJECTION_CONSENT_PAUSED : PROJECTION_CONSENT_LIVE));
        }
        for (size_t i = 0; i < f->n_revoked; i++) {
                uint32_t *value = text_index_at(&p->consents, f->revoked[i].owner, f->revoked[i].site_id);

                if (value != NULL)
                        *value = consent_value(*value >> 2, PROJECTION_CONSENT_NONE);
        }
        return 0;
}

static struct owner *find_owner(const struct projection *p, struct lessor_slice name)
{
        uint32_t i;

        return text_index_find(&p->owner_names, name, TEXT_INDEX_NO_PAIR, &i) ? &p->owners[i] : NULL;
}

static void note_owner(struct projection *p, struct lessor_slice name)
{
        if (text_index_put(&p->owner_names, name, TEXT_INDEX_NO_PAIR, (uint32_t)p->n_owners))
                p->owners[p->n_owners++].name = name;
}

/* Members need no entry of their own: without a consent nothing of theirs is routed. */
static int collect_owners(struct projection *p)
{
        const struct relay_fixture *f = &p->fixture;
        size_t most = f->n_consents + f->n_rosters;
        int r;

        p->owners = lessor_arena_array(p->arena, most, sizeof(*p->owners));
        if (p->owners == NULL)
                return LESSOR_E_NOMEM;
        if ((r = text_index_init(&p->owner_names, p->arena, most)) < 0)
                return r;
        for (size_t i = 0; i < f->n_consents; i++)
                note_owner(p, f->consents[i].owner);
        for (size_t i = 0; i < f->n_rosters; i++)
                note_owner(p, f->rosters[i].owner);
        return 0;
}

static int pin_order(const void *a, const void *b)
{
        const struct projection_pin *left = a;
        const struct projection_pin *right = b;

        return utf8_utf16_cmp(left->site->site_id, right->site->site_id);
}

/* The pin that a consent record makes. False when it makes none: no such site, revoked, or a duplicate. */
static bool pin_of(const struct projection *p, size_t record, struct projection_pin *ret_pin)
{
        const struct fixture_consent *c = &p->fixture.consents[record];
        const struct projection_site *site = projection_site(p, c->site_id);
        uint32_t value;

        if (site == NULL || !text_index_find(&p->consents, c->owner, c->site_id, &value))
                return false;
        if (value >> 2 != record || (value & 3) == PROJECTION_CONSENT_NONE)
                return false;
        *ret_pin = (struct projection_pin){.site = site, .paused = (value & 3) == PROJECTION_CONSENT_PAUSED};
        return true;
}

/* Counts first, so that each owner's pins are one array. */
static int collect_pins(struct projection *p)
{
        const struct relay_fixture *f = &p->fixture;
        struct projection_pin pin;

        for (size_t i = 0; i < f->n_consents; i++) {
                if (pin_of(p, i, &pin))
                        find_owner(p, f->consents[i].owner)->n_pins++;
        }
        for (size_t i = 0; i < p->n_owners; i++) {
                struct owner *o = &p->owners[i];

                o->pins = lessor_arena_array(p->arena, o->n_pins, sizeof(*o->pins));
                if (o->pins == NULL)
                        return LESSOR_E_NOMEM;
                o->n_pins = 0;
        }
        for (size_t i = 0; i < f->n_consents; i++) {
                struct owner *o = find_owner(p, f->consents[i].owner);

                if (pin_of(p, i, &pin))
                        o->pins[o->n_pins++] = pin;
        }
        for (size_t i = 0; i < p->n_owners; i++)
                qsort(p->owners[i].pins, p->owners[i].n_pins, sizeof(struct projection_pin), pin_order);
        return 0;
}

/* Each owner's list, sized for the case that nobody is in two rosters; then filled, each name once. */
static int collect_runnable(struct projection *p, struct lessor_arena *scratch)
{
        const struct relay_fixture *f = &p->fixture;
        struct text_index seen;
        size_t total = p->n_owners;
        int r;

        for (size_t i = 0; i < f->n_rosters; i++) {
                find_owner(p, f->rosters[i].owner)->n_runnable += f->rosters[i].n_members;
                total += f->rosters[i].n_members;
        }
        if (total > (size_t)LIMIT_PROJECTION_RECORDS * 4)
                return LESSOR_E_TOO_LARGE;
        if ((r = text_index_init(&seen, scratch, total)) < 0)
                return r;
        for (size_t i = 0; i < p->n_owners; i++) {
                struct owner *o = &p->owners[i];

                o->runnable = lessor_arena_array(p->arena, o->n_runnable + 1, sizeof(*o->runnable));
                if (o->runnable == NULL)
                        return LESSOR_E_NOMEM;
                o->runnable[0] = o->name;
                o->n_runnable = 1;
                (void)text_index_put(&seen, o->name, o->name, 0);
        }
        for (size_t i = 0; i < f->n_rosters; i++) {
                const struct fixture_roster *roster = &f->rosters[i];
                struct owner *o = find_owner(p, roster->owner);

                for (size_t j = 0; j < roster->n_members; j++) {
                        if (text_index_put(&seen, o->name, roster->members[j], 0))
                                o->runnable[o->n_runnable++] = roster->members[j];
                }
        }
        return 0;
}

static void projection_free(struct snapshot *snapshot)
{
        struct projection *p = container_of(snapshot, struct projection, snapshot);

        for (size_t i = 0; i < p->n_owners; i++)
                free(atomic_load_explicit(&p->owners[i].routes, memory_order_relaxed));
        lessor_arena_free(p->arena);
        free(p);
}

static int fill(struct projection *p)
{
        _cleanup_(lessor_arena_freep) struct lessor_arena *scratch = lessor_arena_new();
        int r;

        if (scratch == NULL)
                return LESSOR_E_NOMEM;

        if ((r = copy_sites(p->arena, &p->fixture)) < 0 || (r = copy_people(p->arena, &p->fixture)) < 0 ||
            (r = copy_devices(p->arena, &p->fixture)) < 0)
                return r;
        if ((r = index_sites(p)) < 0 || (r = index_devices(p)) < 0 || (r = index_consents(p)) < 0)
                return r;
        if ((r = collect_owners(p)) < 0 || (r = collect_pins(p)) < 0)
                return r;
        return collect_runnable(p, scratch);
}

int projection_new(const struct relay_fixture *fixture, struct projection **ret_projection)
{
        _cleanup_(projection_unrefp) struct projection *p = NULL;
        int r;

        if (fixture->n_sites > LIMIT_PROJECTION_RECORDS || fixture->n_consents > LIMIT_PROJECTION_RECORDS ||
            fixture->n_devices > LIMIT_PROJECTION_RECORDS || fixture->n_rosters > LIMIT_PROJECTION_RECORDS ||
            fixture->n_revoked > LIMIT_PROJECTION_RECORDS)
                return LESSOR_E_TOO_LARGE;
        p = calloc(1, sizeof(*p));
        if (p == NULL)
                return LESSOR_E_NOMEM;
        snapshot_init(&p->snapshot, projection_free);
        p->fixture = *fixture;
        p->arena = lessor_arena_new();
        if (p->arena == NULL)
                return LESSOR_E_NOMEM;
        r = fill(p);
        if (r < 0)
                return r;
        *ret_projection = TAKE(p);
        return 0;
}

struct projection *projection_ref(struct projection *p)
{
        snapshot_ref(&p->snapshot);
        return p;
}

struct projection *projection_unref(struct projection *p)
{
        if (p != NULL)
                snapshot_unref(&p->snapshot);
        return NULL;
}

void projection_cell_init(struct projection_cell *cell)
{
        snapshot_cell_init(&cell->cell);
}

void projection_cell_done(struct projection_cell *cell)
{
        snapshot_cell_done(&cell->cell);
}

struct projection *projection_cell_get(struct projection_cell *cell)
{
        struct snapshot *s = snapshot_cell_get(&cell->cell);

        return s == NULL ? NULL : container_of(s, struct projection, snapshot);
}

void projection_cell_put(struct projection_cell *cell, struct projection *next)
{
        snapshot_cell_put(&cell->cell, &next->snapshot);
}

/* --- The questions --- */

const struct projection_site *projection_site(const struct projection *p, struct lessor_slice site_id)
{
        uint32_t i;

        return text_index_find(&p->site_ids, site_id, TEXT_INDEX_NO_PAIR, &i) ? &p->sites[i] : NULL;
}

const struct projection_site *projection_site_for_key(const struct projection *p, struct lessor_slice key_id)
{
        uint32_t i;

        return text_index_find(&p->site_keys, key_id, TEXT_INDEX_NO_PAIR, &i) ? &p->sites[i] : NULL;
}

const struct projection_device *projection_device(const struct projection *p, struct lessor_slice runner_id)
{
        uint32_t i;

        return text_index_find(&p->runner_ids, runner_id, TEXT_INDEX_NO_PAIR, &i) ? &p->devices[i] : NULL;
}

const struct projection_device *projection_device_by_identity(const struct projection *p,
                                                              struct lessor_slice identity)
{
        uint32_t i;

        if (!text_index_find(&p->device_identities, identity, TEXT_INDEX_NO_PAIR, &i))
                return NULL;
        return &p->devices[i];
}

bool projection_device_revoked(const struct projection *p, struct lessor_slice runner_id)
{
        const struct projection_device *d = projection_device(p, runner_id);

        return d != NULL && d->record->revoked;
}

enum projection_consent projection_consent(const struct projection *p, struct lessor_slice owner,
                                           struct lessor_slice site_id)
{
        uint32_t value;

        if (!text_index_find(&p->consents, owner, site_id, &value))
                return PROJECTION_CONSENT_NONE;
        return (enum projection_consent)(value & 3);
}

bool projection_may_route(const struct projection *p, struct lessor_slice owner, struct lessor_slice site_id)
{
        return projection_consent(p, owner, site_id) == PROJECTION_CONSENT_LIVE;
}

struct projection_pins projection_sites_for(const struct projection *p, struct lessor_slice owner)
{
        const struct owner *o = find_owner(p, owner);

        if (o == NULL)
                return (struct projection_pins){0};
        return (struct projection_pins){.items = o->pins, .n = o->n_pins};
}

int projection_owners_runnable(const struct projection *p, struct lessor_slice owner,
                               struct lessor_arena *arena, struct lessor_slice **ret_owners, size_t *ret_n)
{
        const struct owner *o = find_owner(p, owner);
        const struct lessor_slice *from = o == NULL ? &owner : o->runnable;
        size_t n = o == NULL ? 1 : o->n_runnable;
        struct lessor_slice *owners = lessor_arena_array(arena, n, sizeof(*owners));

        if (owners == NULL)
                return LESSOR_E_NOMEM;
        memcpy(owners, from, n * sizeof(*owners));
        *ret_owners = owners;
        *ret_n = n;
        return 0;
}

static int route_order(const void *a, const void *b)
{
        const struct lessor_route *left = a;
        const struct lessor_route *right = b;
        int order = lessor_slice_cmp(left->site_id, right->site_id);

        return order != 0 ? order : lessor_slice_cmp(left->owner, right->owner);
}

/*
 * Walks what the job owners have consented to, not sites times owners: the cost is the consents of the people
 * in the rosters. Counts without `items`, fills with them.
 */
static size_t walk_routes(const struct projection *p, const struct owner *o, struct lessor_route *items)
{
        size_t n = 0;

        for (size_t i = 0; i < o->n_runnable; i++) {
                const struct owner *job_owner = find_owner(p, o->runnable[i]);

                for (size_t j = 0; job_owner != NULL && j < job_owner->n_pins; j++) {
                        const struct projection_pin *pin = &job_owner->pins[j];

                        if (pin->paused || !projection_may_route(p, o->name, pin->site->site_id))
                                continue;
                        if (items != NULL)
                                items[n] = (struct lessor_route){.site_id = pin->site->site_id,
                                                                 .owner = job_owner->name};
                        n++;
                }
        }
        return n;
}

/* Two threads may find the same routes at once; one set is kept. */
static struct route_set *find_routes(const struct projection *p, struct owner *o)
{
        struct route_set *set = atomic_load_explicit(&o->routes, memory_order_acquire);
        struct route_set *first = NULL;
        size_t n;

        if (set != NULL)
                return set;
        n = walk_routes(p, o, NULL);
        set = calloc(1, sizeof(*set) + n * sizeof(set->items[0]));
        if (set == NULL)
                return NULL;
        set->n = walk_routes(p, o, set->items);
        qsort(set->items, set->n, sizeof(set->items[0]), route_order);
        if (!atomic_compare_exchange_strong_explicit(&o->routes, &first, set, memory_order_acq_rel,
                                                     memory_order_acquire)) {
                free(set);
                return first;
        }
        return set;
}

int projection_routes(const struct projection *p, struct lessor_slice owner,
                      struct projection_routes *ret_routes)
{
        struct owner *o = find_owner(p, owner);
        const struct route_set *set;

        if (o == NULL) {
                *ret_routes = (struct projection_routes){0};
                return 0;
        }
        set = find_routes(p, o);
        if (set == NULL)
                return LESSOR_E_NOMEM;
        *ret_routes = (struct projection_routes){.items = set->items, .n = set->n};
        return 0;
}

const struct relay_fixture *projection_fixture(const struct projection *p)
{
        return &p->fixture;
}
