/* SPDX-License-Identifier: MIT */
#ifndef DIRECTORY_DIRECTORY_H
#define DIRECTORY_DIRECTORY_H

#include "base/buf.h"
#include "lessor/arena.h"
#include "lessor/error.h"
#include "routing/directory/policy.h"
#include "routing/directory/projection.h"

/*
 * The built-in control plane: sites, consents, devices and rosters in the server's own database, which is
 * what `lessor site|consent|device|roster` edit.
 *
 * Every change is one transaction. It is on disk when the function returns, and by then the projection and
 * the policy that follow from it are the current ones: the next claim sees it. If either cannot be had,
 * nothing changed.
 *
 * The tables are in the routing store's database file but its own: their names begin with `directory_`, they
 * have their own connection and their own version (`directory_version`). Thread-safe; changes wait for each
 * other.
 *
 * All texts passed in are borrowed for the call, all that come back are in the caller's arena. Every function
 * may return LESSOR_E_NOMEM; LESSOR_E_UNAVAILABLE (the database cannot be written just now); LESSOR_E_IO;
 * LESSOR_E_CORRUPT; and LESSOR_E_INVALID or LESSOR_E_TOO_LARGE for an id that is empty, is not UTF-8 or is
 * longer than LIMIT_ID_BYTES.
 */
struct directory;

/*
 * Opens the tables, and makes or migrates them as needed.
 *
 * path         the database file; ":memory:" for tables that are forgotten
 * projections  where to put each new projection; NULL when the projection comes from elsewhere
 * policies     where to put each new policy; NULL when the policy comes from elsewhere
 *
 * ret_problem  initialised; on failure a sentence for people may be appended
 *
 * Both cells are borrowed and outlive the directory.
 * Returns 0; LESSOR_E_NEWER (made by a newer version); or as sqlite_db_open (database/sqlite_db.h).
 */
int directory_open(const char *path, struct projection_cell *projections, struct policy_cell *policies,
                   struct directory **ret_directory, struct buf *ret_problem);
/* Takes NULL, returns NULL. Nobody may be using it. */
struct directory *directory_free(struct directory *d);
DEFINE_CLEANUP(struct directory, directory_free)

/*
 * Makes several changes one: they are on disk and projected together when it returns 0, and none is when
 * `work`, or what follows it, fails. Within `work`, which runs in the calling thread, all functions here can
 * be used on `d`; a change that fails there is undone alone, and `work` decides whether that ends the batch.
 * Each change rebuilds the snapshots, so this is also how thousands of records are loaded.
 */
int directory_batch(struct directory *d, int (*work)(struct directory *d, void *context), void *context);

/* Sites. */

struct directory_site {
        struct lessor_slice site_id;
        struct lessor_public_identity site;
        struct lessor_slice key_id;
        struct lessor_succession_link *succeeds; /* retired keys, oldest first */
        size_t n_succeeds;
        int64_t retiring_until_ms; /* epoch ms; 0: never rotated, or the window was closed */
        bool declares;             /* it has said which purposes it has */
        struct lessor_slice *purposes;
        size_t n_purposes;
        int64_t created_ms;
};
struct directory_site_list {
        struct directory_site *items;
        size_t n;
};

/* Registers a site. LESSOR_E_EXISTS (the id, or the key under another id); LESSOR_E_BAD_SIGNATURE
 * (inconsistent keys). */
int directory_site_add(struct directory *d, struct lessor_slice site_id,
                       const struct lessor_public_identity *site, int64_t now_ms);

/* Forgets a site with its consents, mappings and revocations. LESSOR_E_NOT_FOUND. */
int directory_site_remove(struct directory *d, struct lessor_slice site_id);

/*
 * Gives a site a new key (relay-protocol 13).
 *
 * link_signature     by the current identity, over the succession text naming the two key ids
 * retiring_until_ms  until when requests signed with retired keys are still taken; 0: not at all
 *
 * A chain holds LIMIT_SUCCESSION_LINKS keys; with more the oldest is dropped, and a device that has missed
 * all of them pins the site anew. LESSOR_E_NOT_FOUND; LESSOR_E_EXISTS (a site has that key, now or retired);
 * LESSOR_E_BAD_SIGNATURE (inconsistent keys); LESSOR_E_BROKEN_LINK (the signature is not the current key's).
 */
int directory_site_rotate(struct directory *d, struct lessor_slice site_id,
                          const struct lessor_public_identity *next, struct lessor_slice link_signature,
                          int64_t retiring_until_ms);

/* Says which purposes a site has, in place of what it said before. LESSOR_E_NOT_FOUND. */
int directory_site_declare(struct directory *d, struct lessor_slice site_id,
                           const struct lessor_slice *purposes, size_t n_purposes);
/* Takes that back: the site has not said. LESSOR_E_NOT_FOUND. */
int directory_site_undeclare(struct directory *d, struct lessor_slice site_id);

/* In the order of registration. */
int directory_sites(struct directory *d, struct lessor_arena *arena, struct directory_site_list *ret_sites);

/* Consents, and the mappings that belong to them. */

struct directory_consent {
        struct lessor_slice owner;
        struct lessor_slice site_id;
        bool given; /* false: all there is about this pair is that its route is revoked */
        bool paused;
        bool revoked;                    /* the route is revoked: nothing else about it counts */
        struct policy_mapping *mappings; /* in the order in which they were made */
        size_t n_mappings;
        int64_t created_ms;
};
struct directory_consent_list {
        struct directory_consent *items;
        size_t n;
};

/*
 * The owner lets a site's work for them be routed, and chooses what answers it; all of it or nothing. Lifts a
 * revocation of the pair: the newer decision counts, and its mappings, if it has any, take the place of those
 * from before. LESSOR_E_NOT_FOUND (no such site); LESSOR_E_EXISTS.
 */
int directory_consent_add(struct directory *d, struct lessor_slice owner, struct lessor_slice site_id,
                          const struct policy_mapping *mappings, size_t n_mappings, int64_t now_ms);
/* Pauses or resumes; doing so twice is no error. LESSOR_E_NOT_FOUND; LESSOR_E_REFUSED (it is revoked). */
int directory_consent_pause(struct directory *d, struct lessor_slice owner, struct lessor_slice site_id,
                            bool paused);
/* Forgets the consent with its mappings, and a revocation of the pair. LESSOR_E_NOT_FOUND. */
int directory_consent_remove(struct directory *d, struct lessor_slice owner, struct lessor_slice site_id);
/* Revokes the route and keeps a record of that; needs no consent. Twice is no error. LESSOR_E_NOT_FOUND (no
 * such site). */
int directory_route_revoke(struct directory *d, struct lessor_slice owner, struct lessor_slice site_id,
                           int64_t now_ms);
/* Of one owner, or of all when `owner` is absent; in the order in which they were given. */
int directory_consents(struct directory *d, struct lessor_slice owner, struct lessor_arena *arena,
                       struct directory_consent_list *ret_consents);

/*
 * Chooses what answers the owner's jobs at a site. Of several for one purpose and kind the first counts.
 * An absent purpose is the default one. LESSOR_E_NOT_FOUND (no such consent); LESSOR_E_EXISTS (this very
 * mapping).
 */
int directory_mapping_add(struct directory *d, struct lessor_slice owner, struct lessor_slice site_id,
                          const struct policy_mapping *mapping);
/* Takes one back, named in full. LESSOR_E_NOT_FOUND. */
int directory_mapping_remove(struct directory *d, struct lessor_slice owner, struct lessor_slice site_id,
                             const struct policy_mapping *mapping);

/* Devices. */

struct directory_device {
        struct lessor_slice runner_id;
        struct lessor_slice owner;
        struct lessor_public_identity device;
        struct lessor_slice key_id;
        struct lessor_slice label;    /* what it called itself when pairing; may be empty */
        struct lessor_slice platform; /* likewise */
        bool revoked;
        int64_t created_ms;
};
struct directory_device_list {
        struct directory_device *items;
        size_t n;
};

/*
 * Approves a device for an owner and mints its runner id. A device that this owner has already, and that is
 * not revoked, comes back as it is. LESSOR_E_EXISTS (it belongs to another owner, or is revoked: remove it
 * first); LESSOR_E_BAD_SIGNATURE (inconsistent keys).
 */
int directory_device_add(struct directory *d, struct lessor_slice owner,
                         const struct lessor_public_identity *device, struct lessor_slice label,
                         struct lessor_slice platform, int64_t now_ms, struct lessor_arena *arena,
                         struct directory_device *ret_device);
/* Its next request is refused, for good. Twice is no error. LESSOR_E_NOT_FOUND. */
int directory_device_revoke(struct directory *d, struct lessor_slice runner_id);
/*
 * Takes a device off the list, revoked or not. Its runner id stays revoked for ever, since the routing store
 * remembers devices that it has seen and would go on taking their requests (relay-protocol 5); its keys may
 * be approved anew. LESSOR_E_NOT_FOUND.
 */
int directory_device_remove(struct directory *d, struct lessor_slice runner_id);
/* In the order of approval. */
int directory_devices(struct directory *d, struct lessor_arena *arena,
                      struct directory_device_list *ret_devices);

/* Rosters: whose jobs an owner's devices may run too. */

struct directory_roster {
        struct lessor_slice roster_id;
        struct lessor_slice owner;
        struct lessor_slice *members;
        size_t n_members;
        int64_t created_ms;
};
struct directory_roster_list {
        struct directory_roster *items;
        size_t n;
};

/* LESSOR_E_EXISTS. */
int directory_roster_add(struct directory *d, struct lessor_slice roster_id, struct lessor_slice owner,
                         int64_t now_ms);
/* LESSOR_E_NOT_FOUND. */
int directory_roster_remove(struct directory *d, struct lessor_slice roster_id);
/* LESSOR_E_NOT_FOUND (no such roster); LESSOR_E_EXISTS. */
int directory_member_add(struct directory *d, struct lessor_slice roster_id, struct lessor_slice member);
/* LESSOR_E_NOT_FOUND. */
int directory_member_remove(struct directory *d, struct lessor_slice roster_id, struct lessor_slice member);
/* In the order of creation. */
int directory_rosters(struct directory *d, struct lessor_arena *arena,
                      struct directory_roster_list *ret_rosters);

#endif
