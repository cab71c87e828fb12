/* SPDX-License-Identifier: MIT */
#ifndef DIRECTORY_PROJECTION_H
#define DIRECTORY_PROJECTION_H

#include <stdbool.h>
#include <stdint.h>

#include "base/macro.h"
#include "crypto/identity_key.h"
#include "lessor/arena.h"
#include "routing/directory/snapshot.h"
#include "wire/relay_documents.h"

/*
 * The projection: who may route to whom, as data that was decided elsewhere (relay-protocol 9). A snapshot
 * never changes; a new one replaces it as a whole. Every question of section 9 is answered from an index, so
 * that no request walks a list, decodes base64 or hashes a key.
 *
 * Of duplicate records the first counts. Identities are not verified (section 9).
 */

/* One retired key of a site (relay-protocol 13). */
struct projection_link {
        const struct lessor_succession_link *record;
        bool has_key; /* its identity text is a key at all; else nothing verifies with it */
        struct identity_key key;
};

struct projection_site {
        struct lessor_slice site_id;
        const struct fixture_site *record;
        bool has_key;
        struct identity_key key;
        struct lessor_slice key_id;             /* of the current identity, even of one that is no key */
        const struct projection_link *succeeds; /* oldest first */
        size_t n_succeeds;
};

struct projection_device {
        struct lessor_slice runner_id;
        struct lessor_slice owner;
        const struct fixture_device *record;
        bool has_key;
        struct identity_key key;
        struct lessor_slice key_id; /* even of what is no key */
};

struct projection;

/*
 * Builds a snapshot; copies everything. The caller holds its one reference.
 * Returns 0; LESSOR_E_NOMEM; LESSOR_E_TOO_LARGE (more than LIMIT_PROJECTION_RECORDS of a kind).
 */
int projection_new(const struct relay_fixture *fixture, struct projection **ret_projection);

/* A further reference; returns its argument. */
struct projection *projection_ref(struct projection *p);
/* Lets go. Takes NULL, returns NULL. */
struct projection *projection_unref(struct projection *p);
DEFINE_CLEANUP(struct projection, projection_unref)

/*
 * The place where the current projection is found; one per server. Thread-safe. get() never returns NULL once
 * something was put; a server puts an empty projection before it listens.
 */
struct projection_cell {
        struct snapshot_cell cell;
};
void projection_cell_init(struct projection_cell *cell);
void projection_cell_done(struct projection_cell *cell);
struct projection *projection_cell_get(struct projection_cell *cell);
/* Takes the reference. */
void projection_cell_put(struct projection_cell *cell, struct projection *next);

/*
 * The questions. Thread-safe. Whatever comes back is borrowed from the snapshot and lives as long as the
 * caller's reference to it.
 */

/* siteFor: the registered site, or NULL. */
const struct projection_site *projection_site(const struct projection *p, struct lessor_slice site_id);

/* siteIdForKey: the site whose current identity has this key id, or NULL. */
const struct projection_site *projection_site_for_key(const struct projection *p, struct lessor_slice key_id);

/* deviceFor: the device record, or NULL. */
const struct projection_device *projection_device(const struct projection *p, struct lessor_slice runner_id);

/* deviceByFingerprint: the first device whose `device.identity` is this exact text, or NULL. */
const struct projection_device *projection_device_by_identity(const struct projection *p,
                                                              struct lessor_slice identity);

/* revokedDevice: the record says so. A runner that is unknown here is not revoked. */
bool projection_device_revoked(const struct projection *p, struct lessor_slice runner_id);

/* consentFor. NONE also when the pair is revoked. The site need not be registered. */
enum projection_consent { PROJECTION_CONSENT_NONE, PROJECTION_CONSENT_PAUSED, PROJECTION_CONSENT_LIVE };
enum projection_consent projection_consent(const struct projection *p, struct lessor_slice owner,
                                           struct lessor_slice site_id);

/* mayRouteFor: a consent that is neither revoked nor paused. */
bool projection_may_route(const struct projection *p, struct lessor_slice owner, struct lessor_slice site_id);

/*
 * sitesFor: what a device of this owner pins; paused sites are included, sorted by site id as UTF-16. A site
 * whose identity is no key cannot be pinned and is left out.
 */
struct projection_pin {
        const struct projection_site *site;
        bool paused;
};
struct projection_pins {
        const struct projection_pin *items;
        size_t n;
};
struct projection_pins projection_sites_for(const struct projection *p, struct lessor_slice owner);

/*
 * ownersRunnableBy: the owner, then the members of every roster that this owner owns, in record order, each
 * once. `owner` is the first item even when the projection has never heard of them. The list is in the arena
 * of the caller, its texts in the snapshot. Returns 0 or LESSOR_E_NOMEM.
 */
int projection_owners_runnable(const struct projection *p, struct lessor_slice owner,
                               struct lessor_arena *arena, struct lessor_slice **ret_owners, size_t *ret_n);

/*
 * routesFor: (site, job owner) pairs over registered sites where both the device owner and the job owner may
 * route. Each pair once, sorted by site id, then owner, by bytes. Found once per owner and snapshot, then
 * remembered. Returns 0 or LESSOR_E_NOMEM.
 */
struct projection_routes {
        const struct lessor_route *items;
        size_t n;
};
int projection_routes(const struct projection *p, struct lessor_slice owner,
                      struct projection_routes *ret_routes);

/* Whether a retired key of this site may still sign (relay-protocol 5, site endpoints, check 4). */
static inline bool projection_site_retiring(const struct projection_site *s, int64_t now_ms)
{
        return now_ms < s->record->retiring_until_ms;
}

/* Every record, duplicates included, in the order given: for operators and for export. */
const struct relay_fixture *projection_fixture(const struct projection *p);

#endif
