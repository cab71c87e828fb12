/* SPDX-License-Identifier: MIT */
#include "base/limits.h"
#include "crypto/key_id.h"
#include "crypto/public_identity.h"
#include "crypto/succession.h"
#include "routing/directory/directory_internal.h"

/* Keys that are consistent, and the id that they are known by. */
static int check_keys(const struct lessor_public_identity *keys, struct key_id *ret_id)
{
        struct identity_key key;
        int r = public_identity_check(keys, &key);

        if (r < 0)
                return r;
        key_id_of(&key, ret_id);
        return 0;
}

/* A key that any site has or had cannot be another's: who holds it could speak for both. */
static int check_key_unused(struct directory *d, struct lessor_slice key_id)
{
        int64_t n;
        int r = sql_number(&d->sql, &n,
                           "SELECT (SELECT count(*) FROM directory_site WHERE key_id = ?1)"
                           " + (SELECT count(*) FROM directory_link WHERE key_id = ?1)",
                           "t", key_id);

        if (r < 0)
                return r;
        return n == 0 ? 0 : LESSOR_E_EXISTS;
}

int directory_need_site(struct directory *d, struct lessor_slice site_id)
{
        int64_t n;
        int r = sql_number(&d->sql, &n, "SELECT count(*) FROM directory_site WHERE site_id = ?1", "t",
                           site_id);

        return found(r, r < 0 ? 0 : n);
}

int directory_site_add(struct directory *d, struct lessor_slice site_id,
                       const struct lessor_public_identity *site, int64_t now_ms)
{
        struct key_id key_id;
        int r = directory_check_id(site_id);

        if (r < 0 || (r = check_keys(site, &key_id)) < 0)
                return r;
        r = directory_change(d);
        if (r == 0)
                r = check_key_unused(d, key_id_text(&key_id));
        if (r == 0)
                r = sql_run(
                        &d->sql, NULL,
                        "INSERT INTO directory_site(site_id, identity, encryption, encryption_sig, key_id,"
                        " created_ms) VALUES(?1, ?2, ?3, ?4, ?5, ?6)",
                        "ttttti", site_id, site->identity, site->encryption, site->encryption_sig,
                        key_id_text(&key_id), now_ms);
        return directory_settle(d, r);
}

int directory_site_remove(struct directory *d, struct lessor_slice site_id)
{
        static const char *const dependents[] = {
                "DELETE FROM directory_link WHERE site_id = ?1",
                "DELETE FROM directory_purpose WHERE site_id = ?1",
                "DELETE FROM directory_consent WHERE site_id = ?1",
                "DELETE FROM directory_mapping WHERE site_id = ?1",
                "DELETE FROM directory_revocation WHERE site_id = ?1",
        };
        int64_t n = 0;
        int r = directory_change(d);

        if (r == 0)
                r = sql_run(&d->sql, &n, "DELETE FROM directory_site WHERE site_id = ?1", "t", site_id);
        r = found(r, n);
        for (size_t i = 0; r == 0 && i < ARRAY_SIZE(dependents); i++)
                r = sql_run(&d->sql, NULL, dependents[i], "t", site_id);
        return directory_settle(d, r);
}

/* --- Rotation --- */

static int read_current(struct directory *d, struct lessor_slice site_id, struct lessor_arena *arena,
                        struct lessor_public_identity *ret_keys)
{
        _cleanup_(sql_rows_done) struct sql_rows rows;
        int r = sql_query(
                &d->sql, &rows,
                "SELECT identity, encryption, encryption_sig FROM directory_site WHERE site_id = ?1", "t",
                site_id);

        if (r < 0 || (r = sql_next(&rows)) < 0)
                return r;
        if (r == 0)
                return LESSOR_E_NOT_FOUND;
        if ((r = sql_text(&rows, 0, arena, &ret_keys->identity)) < 0 ||
            (r = sql_text(&rows, 1, arena, &ret_keys->encryption)) < 0)
                return r;
        return sql_text(&rows, 2, arena, &ret_keys->encryption_sig);
}

/* Adds the link, and drops the oldest of a full chain. */
static int add_link(struct directory *d, struct lessor_slice site_id,
                    const struct lessor_succession_link *link, struct lessor_slice retired_key_id)
{
        int r = sql_run(&d->sql, NULL,
                        "INSERT INTO directory_link(site_id, identity, encryption, encryption_sig, key_id,"
                        " signature) VALUES(?1, ?2, ?3, ?4, ?5, ?6)",
                        "tttttt", site_id, link->identity.identity, link->identity.encryption,
                        link->identity.encryption_sig, retired_key_id, link->signature);

        if (r < 0)
                return r;
        return sql_run(&d->sql, NULL,
                       "DELETE FROM directory_link WHERE site_id = ?1 AND seq NOT IN (SELECT seq FROM"
                       " directory_link WHERE site_id = ?1 ORDER BY seq DESC LIMIT ?2)",
                       "ti", site_id, (int64_t)LIMIT_SUCCESSION_LINKS);
}

static int rotate(struct directory *d, struct lessor_slice site_id, const struct lessor_public_identity *next,
                  struct lessor_slice next_key_id, struct lessor_slice link_signature,
                  int64_t retiring_until_ms, struct lessor_arena *arena)
{
        struct lessor_succession_link link = {.signature = link_signature};
        struct key_id retired;
        int r = read_current(d, site_id, arena, &link.identity);

        if (r < 0 || (r = check_key_unused(d, next_key_id)) < 0 ||
            (r = succession_link_verify(&link, next_key_id, &retired)) < 0)
                return r;
        r = sql_run(
                &d->sql, NULL,
                "UPDATE directory_site SET identity = ?2, encryption = ?3, encryption_sig = ?4, key_id = ?5,"
                " retiring_until_ms = ?6 WHERE site_id = ?1",
                "ttttti", site_id, next->identity, next->encryption, next->encryption_sig, next_key_id,
                retiring_until_ms);
        return r < 0 ? r : add_link(d, site_id, &link, key_id_text(&retired));
}

int directory_site_rotate(struct directory *d, struct lessor_slice site_id,
                          const struct lessor_public_identity *next, struct lessor_slice link_signature,
                          int64_t retiring_until_ms)
{
        struct lessor_arena *arena;
        struct key_id next_key_id;
        int r = check_keys(next, &next_key_id);

        if (r < 0)
                return r;
        if (retiring_until_ms < 0 || link_signature.n == 0)
                return LESSOR_E_INVALID;
        arena = lessor_arena_new();
        if (arena == NULL)
                return LESSOR_E_NOMEM;
        r = directory_change(d);
        if (r == 0)
                r = rotate(d, site_id, next, key_id_text(&next_key_id), link_signature, retiring_until_ms,
                           arena);
        r = directory_settle(d, r);
        lessor_arena_free(arena);
        return r;
}

/* --- Purposes --- */

static int set_declares(struct directory *d, struct lessor_slice site_id, bool declares)
{
        int64_t n = 0;
        int r = sql_run(&d->sql, &n, "UPDATE directory_site SET declares = ?2 WHERE site_id = ?1", "ti",
                        site_id, (int64_t)declares);

        r = found(r, n);
        if (r < 0)
                return r;
        return sql_run(&d->sql, NULL, "DELETE FROM directory_purpose WHERE site_id = ?1", "t", site_id);
}

int directory_site_declare(struct directory *d, struct lessor_slice site_id,
                           const struct lessor_slice *purposes, size_t n_purposes)
{
        int r = 0;

        for (size_t i = 0; i < n_purposes; i++) {
                if ((r = directory_check_id(purposes[i])) < 0)
                        return r;
        }
        r = directory_change(d);
        if (r == 0)
                r = set_declares(d, site_id, true);
        for (size_t i = 0; r == 0 && i < n_purposes; i++)
                r = sql_run(&d->sql, NULL,
                            "INSERT OR IGNORE INTO directory_purpose(site_id, purpose) VALUES(?1, ?2)", "tt",
                            site_id, purposes[i]);
        return directory_settle(d, r);
}

int directory_site_undeclare(struct directory *d, struct lessor_slice site_id)
{
        int r = directory_change(d);

        if (r == 0)
                r = set_declares(d, site_id, false);
        return directory_settle(d, r);
}

/* --- The list --- */

/* Children come in the order of their parents, so each parent takes what is next and its own. */
static int read_links(struct sql *s, struct lessor_arena *arena, struct directory_site_list *sites)
{
        _cleanup_(sql_rows_done) struct sql_rows rows = {NULL};
        struct lessor_succession_link *links;
        size_t n_links;
        size_t at = 0;
        size_t n = 0;
        int r = directory_rows(s, "SELECT count(*) FROM directory_link", sizeof(*links), arena, &links,
                               &n_links);

        if (r < 0)
                return r;
        r = sql_query(s, &rows,
                      "SELECT l.site_id, l.identity, l.encryption, l.encryption_sig, l.signature"
                      " FROM directory_link l JOIN directory_site s ON s.site_id = l.site_id"
                      " ORDER BY s.seq, l.seq",
                      "");
        while (r == 0 && n < n_links && (r = sql_next(&rows)) == 1) {
                struct lessor_succession_link *link = &links[n];
                struct lessor_slice site_id;

                if ((r = sql_text(&rows, 0, arena, &site_id)) < 0 ||
                    (r = sql_text(&rows, 1, arena, &link->identity.identity)) < 0 ||
                    (r = sql_text(&rows, 2, arena, &link->identity.encryption)) < 0 ||
                    (r = sql_text(&rows, 3, arena, &link->identity.encryption_sig)) < 0 ||
                    (r = sql_text(&rows, 4, arena, &link->signature)) < 0)
                        return r;
                while (at < sites->n && !lessor_slice_equal(sites->items[at].site_id, site_id))
                        at++;
                if (at == sites->n)
                        return LESSOR_E_CORRUPT;
                if (sites->items[at].succeeds == NULL)
                        sites->items[at].succeeds = link;
                sites->items[at].n_succeeds++;
                n++;
        }
        return r;
}

static int read_purposes(struct sql *s, struct lessor_arena *arena, struct directory_site_list *sites)
{
        _cleanup_(sql_rows_done) struct sql_rows rows = {NULL};
        struct lessor_slice *purposes;
        size_t n_purposes;
        size_t at = 0;
        size_t n = 0;
        int r = directory_rows(s, "SELECT count(*) FROM directory_purpose", sizeof(*purposes), arena,
                               &purposes, &n_purposes);

        if (r < 0)
                return r;
        r = sql_query(s, &rows,
                      "SELECT p.site_id, p.purpose FROM directory_purpose p JOIN directory_site s"
                      " ON s.site_id = p.site_id ORDER BY s.seq, p.seq",
                      "");
        while (r == 0 && n < n_purposes && (r = sql_next(&rows)) == 1) {
                struct lessor_slice site_id;

                if ((r = sql_text(&rows, 0, arena, &site_id)) < 0 ||
                    (r = sql_text(&rows, 1, arena, &purposes[n])) < 0)
                        return r;
                while (at < sites->n && !lessor_slice_equal(sites->items[at].site_id, site_id))
                        at++;
                if (at == sites->n)
                        return LESSOR_E_CORRUPT;
                if (sites->items[at].purposes == NULL)
                        sites->items[at].purposes = &purposes[n];
                sites->items[at].n_purposes++;
                n++;
        }
        return r;
}

static int read_site(const struct sql_rows *rows, struct lessor_arena *arena, struct directory_site *site)
{
        int r;

        if ((r = sql_text(rows, 0, arena, &site->site_id)) < 0 ||
            (r = sql_text(rows, 1, arena, &site->site.identity)) < 0 ||
            (r = sql_text(rows, 2, arena, &site->site.encryption)) < 0 ||
            (r = sql_text(rows, 3, arena, &site->site.encryption_sig)) < 0 ||
            (r = sql_text(rows, 4, arena, &site->key_id)) < 0)
                return r;
        site->retiring_until_ms = sql_int(rows, 5);
        site->declares = sql_int(rows, 6) != 0;
        site->created_ms = sql_int(rows, 7);
        return 0;
}

int read_sites(struct sql *s, struct lessor_arena *arena, struct directory_site_list *ret_sites)
{
        _cleanup_(sql_rows_done) struct sql_rows rows = {NULL};
        struct directory_site_list sites;
        size_t n = 0;
        int r = directory_rows(s, "SELECT count(*) FROM directory_site", sizeof(*sites.items), arena,
                               &sites.items, &sites.n);

        if (r < 0)
                return r;
        r = sql_query(s, &rows,
                      "SELECT site_id, identity, encryption, encryption_sig, key_id, retiring_until_ms,"
                      " declares, created_ms FROM directory_site ORDER BY seq",
                      "");
        while (r == 0 && n < sites.n && (r = sql_next(&rows)) == 1)
                r = read_site(&rows, arena, &sites.items[n++]);
        if (r < 0 || (r = read_links(s, arena, &sites)) < 0 || (r = read_purposes(s, arena, &sites)) < 0)
                return r;
        *ret_sites = sites;
        return 0;
}

int directory_sites(struct directory *d, struct lessor_arena *arena, struct directory_site_list *ret_sites)
{
        int r;

        pthread_mutex_lock(&d->lock);
        r = read_sites(&d->sql, arena, ret_sites);
        pthread_mutex_unlock(&d->lock);
        return r;
}
