/* SPDX-License-Identifier: MIT */
#include "base/limits.h"
#include "client/agent_rules.h"
#include "crypto/key_id.h"
#include "crypto/public_identity.h"
#include "crypto/succession.h"

/* Which site keys a device believes (relay-protocol 13). */

bool known_site_is_served(const struct known_site *site, int64_t now_ms)
{
        return site->served || site->retiring_until_ms > now_ms;
}

const struct known_site *known_site_find(const struct known_site *sites, size_t n, struct lessor_slice key_id)
{
        for (size_t i = 0; i < n; i++)
                if (lessor_slice_equal(sites[i].key_id, key_id))
                        return &sites[i];
        return NULL;
}

static bool same_identity(const struct lessor_public_identity *a, const struct lessor_public_identity *b)
{
        return lessor_slice_equal(a->identity, b->identity) &&
               lessor_slice_equal(a->encryption, b->encryption) &&
               lessor_slice_equal(a->encryption_sig, b->encryption_sig);
}

static void note(struct site_changes *changes, struct site_note what)
{
        changes->notes[changes->n_notes++] = what;
}

static void refuse_site(struct site_changes *changes, struct lessor_slice key_id, const char *reason)
{
        note(changes, (struct site_note){.type = SITE_REFUSED, .key_id = key_id, .reason = reason});
}

static struct known_site *find(struct site_changes *changes, struct lessor_slice key_id)
{
        for (size_t i = 0; i < changes->n_sites; i++)
                if (lessor_slice_equal(changes->sites[i].key_id, key_id))
                        return &changes->sites[i];
        return NULL;
}

static const char *identity_problem(const struct pinned_site *site)
{
        struct identity_key key;
        struct key_id id;

        if (public_identity_check(&site->identity, &key) < 0)
                return "its encryption key is not signed by its identity";
        key_id_of(&key, &id);
        if (!lessor_slice_equal(key_id_text(&id), site->key_id))
                return "it is not filed under its own key id";
        return NULL;
}

static const struct site_succession *succession_of(const struct site_succession *successions, size_t n,
                                                   struct lessor_slice key_id)
{
        for (size_t i = 0; i < n; i++)
                if (lessor_slice_equal(successions[i].key_id, key_id))
                        return &successions[i];
        return NULL;
}

/* Opens the window in which the predecessor is still served. */
static void retire(struct known_site *predecessor, const struct site_succession *succession, int64_t now_ms)
{
        int64_t until_ms = now_ms + SUCCESSION_RETIREMENT_MS;

        if (succession->retiring_until_ms > 0 && succession->retiring_until_ms < until_ms)
                until_ms = succession->retiring_until_ms;
        predecessor->retiring_until_ms = until_ms;
}

/*
 * Walks from an unknown key to one that is known.
 *
 * ret_from  key id of the known one; absent when the site is to be pinned as new
 *
 * Returns 0; LESSOR_E_BROKEN_LINK or LESSOR_E_TOO_LONG (refuse it); LESSOR_E_NOMEM.
 */
static int walk(const struct site_changes *changes, const struct site_succession *succession,
                struct lessor_arena *arena, struct lessor_slice *ret_from)
{
        struct lessor_slice *approved = lessor_arena_array(arena, changes->n_sites, sizeof(*approved));
        struct succession_path path;
        int r;

        *ret_from = (struct lessor_slice){NULL, 0};
        if (approved == NULL)
                return LESSOR_E_NOMEM;
        for (size_t i = 0; i < changes->n_sites; i++)
                approved[i] = changes->sites[i].key_id;
        r = succession_walk(succession->key_id, succession->succeeds, succession->n_succeeds, approved,
                            changes->n_sites, arena, &path);
        if (r == LESSOR_E_NO_CHAIN || r == LESSOR_E_UNKNOWN_ORIGIN)
                return 0;
        if (r == 0)
                *ret_from = path.ids[0];
        return r;
}

static int pin(struct site_changes *changes, const struct pinned_site *site,
               const struct site_succession *succession, int64_t now_ms, struct lessor_arena *arena)
{
        struct lessor_slice from = {NULL, 0};
        int r = succession == NULL ? 0 : walk(changes, succession, arena, &from);

        if (r == LESSOR_E_BROKEN_LINK || r == LESSOR_E_TOO_LONG) {
                refuse_site(changes, site->key_id,
                            r == LESSOR_E_TOO_LONG ? "its succession chain is too long"
                                                   : "a link of its succession chain does not verify");
                return 0;
        }
        if (r < 0)
                return r;
        if (from.p != NULL)
                retire(find(changes, from), succession, now_ms);
        changes->sites[changes->n_sites++] = (struct known_site){
                .key_id = site->key_id,
                .identity = site->identity,
                .served = true,
        };
        changes->changed = true;
        note(changes, (struct site_note){
                              .type = from.p != NULL ? SITE_ROTATED : SITE_PINNED,
                              .key_id = site->key_id,
                              .from = from,
                      });
        return 0;
}

static int apply_one(struct site_changes *changes, const struct pinned_site *site,
                     const struct site_succession *succession, int64_t now_ms, struct lessor_arena *arena)
{
        struct known_site *known = find(changes, site->key_id);
        const char *problem = identity_problem(site);

        if (problem == NULL && known != NULL && !same_identity(&known->identity, &site->identity))
                problem = "its keys changed without a succession";
        if (problem != NULL) {
                refuse_site(changes, site->key_id, problem);
                return 0;
        }
        if (known == NULL)
                return pin(changes, site, succession, now_ms, arena);
        known->served = true;
        return 0;
}

/* Tells what is served no more, and what is again. */
static void compare(struct site_changes *changes, const struct known_site *before, size_t n_before,
                    int64_t now_ms)
{
        for (size_t i = 0; i < n_before; i++) {
                const struct known_site *after = &changes->sites[i]; /* sites are only ever added behind */

                if (before[i].served != after->served ||
                    before[i].retiring_until_ms != after->retiring_until_ms)
                        changes->changed = true;
                if (known_site_is_served(&before[i], now_ms) && !known_site_is_served(after, now_ms))
                        note(changes, (struct site_note){.type = SITE_WITHDRAWN, .key_id = after->key_id});
        }
}

int rules_apply_sites(const struct known_site *known, size_t n_known, const struct pinned_site *named,
                      size_t n_named, const struct site_succession *successions, size_t n_successions,
                      int64_t now_ms, struct lessor_arena *arena, struct site_changes *ret_changes)
{
        struct site_changes changes = {0};

        changes.sites = lessor_arena_array(arena, n_known + n_named, sizeof(*changes.sites));
        changes.notes = lessor_arena_array(arena, n_known + n_named, sizeof(*changes.notes));
        if (changes.sites == NULL || changes.notes == NULL)
                return LESSOR_E_NOMEM;
        for (size_t i = 0; i < n_known; i++) {
                changes.sites[i] = known[i];
                changes.sites[i].served = false;
        }
        changes.n_sites = n_known;
        for (size_t i = 0; i < n_named; i++) {
                int r = apply_one(&changes, &named[i],
                                  succession_of(successions, n_successions, named[i].key_id), now_ms, arena);

                if (r < 0)
                        return r;
        }
        compare(&changes, known, n_known, now_ms);
        *ret_changes = changes;
        return 0;
}
