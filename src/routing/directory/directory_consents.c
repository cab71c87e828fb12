/* SPDX-License-Identifier: MIT */
#include "routing/directory/directory_internal.h"
#include "wire/relay_shapes.h"

static int check_pair(struct lessor_slice owner, struct lessor_slice site_id)
{
        int r = directory_check_id(owner);

        return r < 0 ? r : directory_check_id(site_id);
}

/* Consenting again after a revocation is the newer decision, and also ends a pause from before it. */
static int lift_revocation(struct directory *d, struct lessor_slice owner, struct lessor_slice site_id,
                           bool *ret_lifted)
{
        int64_t n = 0;
        int r = sql_run(&d->sql, &n, "DELETE FROM directory_revocation WHERE owner = ?1 AND site_id = ?2",
                        "tt", owner, site_id);

        *ret_lifted = n != 0;
        if (r < 0 || n == 0)
                return r;
        return sql_run(&d->sql, NULL,
                       "UPDATE directory_consent SET paused = 0 WHERE owner = ?1 AND site_id = ?2", "tt",
                       owner, site_id);
}

/* The texts of a mapping as its row has them. */
struct mapping_row {
        struct lessor_slice purpose;
        struct lessor_slice kind;
        struct lessor_slice service;
        struct lessor_slice service_owner;
};

static int mapping_row(const struct policy_mapping *m, struct mapping_row *ret_row)
{
        int r;

        ret_row->purpose = m->purpose.p == NULL ? POLICY_DEFAULT_PURPOSE : m->purpose;
        ret_row->kind = lessor_slice_of(message_word(&kind_words, (int)m->kind));
        ret_row->service = m->service;
        ret_row->service_owner = m->owner.p == NULL ? LESSOR_SLICE("") : m->owner;
        if ((r = directory_check_id(ret_row->purpose)) < 0 || (r = directory_check_id(ret_row->service)) < 0)
                return r;
        return m->owner.p == NULL ? 0 : directory_check_id(m->owner);
}

/* Inside a change. LESSOR_E_EXISTS (this very mapping). */
static int insert_mapping(struct directory *d, struct lessor_slice owner, struct lessor_slice site_id,
                          const struct mapping_row *row)
{
        return sql_run(&d->sql, NULL,
                       "INSERT INTO directory_mapping(owner, site_id, purpose, kind, service, service_owner)"
                       " VALUES(?1, ?2, ?3, ?4, ?5, ?6)",
                       "tttttt", owner, site_id, row->purpose, row->kind, row->service, row->service_owner);
}

/* Those of before go: of several the first counts, so an old one would go on answering. Named twice is once.
 */
static int replace_mappings(struct directory *d, struct lessor_slice owner, struct lessor_slice site_id,
                            const struct policy_mapping *mappings, size_t n_mappings)
{
        struct mapping_row row;
        int r = sql_run(&d->sql, NULL, "DELETE FROM directory_mapping WHERE owner = ?1 AND site_id = ?2",
                        "tt", owner, site_id);

        for (size_t i = 0; i < n_mappings && r == 0; i++) {
                r = mapping_row(&mappings[i], &row);
                if (r == 0)
                        r = insert_mapping(d, owner, site_id, &row);
                if (r == LESSOR_E_EXISTS)
                        r = 0;
        }
        return r;
}

int directory_consent_add(struct directory *d, struct lessor_slice owner, struct lessor_slice site_id,
                          const struct policy_mapping *mappings, size_t n_mappings, int64_t now_ms)
{
        int r = check_pair(owner, site_id);
        bool lifted = false;

        if (r < 0)
                return r;
        r = directory_change(d);
        if (r == 0)
                r = directory_need_site(d, site_id);
        if (r == 0)
                r = lift_revocation(d, owner, site_id, &lifted);
        if (r == 0)
                r = sql_run(&d->sql, NULL,
                            "INSERT INTO directory_consent(owner, site_id, created_ms) VALUES(?1, ?2, ?3)",
                            "tti", owner, site_id, now_ms);
        if (r == LESSOR_E_EXISTS && lifted)
                r = 0;
        if (r == 0 && n_mappings > 0)
                r = replace_mappings(d, owner, site_id, mappings, n_mappings);
        return directory_settle(d, r);
}

/* Neither pausing nor resuming would change what a revoked route does. */
static int need_no_revocation(struct directory *d, struct lessor_slice owner, struct lessor_slice site_id)
{
        int64_t n = 0;
        int r = sql_number(&d->sql, &n,
                           "SELECT count(*) FROM directory_revocation WHERE owner = ?1 AND site_id = ?2",
                           "tt", owner, site_id);

        if (r < 0)
                return r;
        return n > 0 ? LESSOR_E_REFUSED : 0;
}

int directory_consent_pause(struct directory *d, struct lessor_slice owner, struct lessor_slice site_id,
                            bool paused)
{
        int64_t n = 0;
        int r = directory_change(d);

        if (r == 0)
                r = need_no_revocation(d, owner, site_id);
        if (r == 0)
                r = sql_run(&d->sql, &n,
                            "UPDATE directory_consent SET paused = ?3 WHERE owner = ?1 AND site_id = ?2",
                            "tti", owner, site_id, (int64_t)paused);
        return directory_settle(d, found(r, n));
}

int directory_consent_remove(struct directory *d, struct lessor_slice owner, struct lessor_slice site_id)
{
        int64_t n_consents = 0;
        int64_t n_revocations = 0;
        int r = directory_change(d);

        if (r == 0)
                r = sql_run(&d->sql, &n_consents,
                            "DELETE FROM directory_consent WHERE owner = ?1 AND site_id = ?2", "tt", owner,
                            site_id);
        if (r == 0)
                r = sql_run(&d->sql, &n_revocations,
                            "DELETE FROM directory_revocation WHERE owner = ?1 AND site_id = ?2", "tt", owner,
                            site_id);
        if (r == 0)
                r = sql_run(&d->sql, NULL, "DELETE FROM directory_mapping WHERE owner = ?1 AND site_id = ?2",
                            "tt", owner, site_id);
        return directory_settle(d, found(r, n_consents + n_revocations));
}

int directory_route_revoke(struct directory *d, struct lessor_slice owner, struct lessor_slice site_id,
                           int64_t now_ms)
{
        int r = check_pair(owner, site_id);

        if (r < 0)
                return r;
        r = directory_change(d);
        if (r == 0)
                r = directory_need_site(d, site_id);
        if (r == 0)
                r = sql_run(&d->sql, NULL,
                            "INSERT OR IGNORE INTO directory_revocation(owner, site_id, created_ms)"
                            " VALUES(?1, ?2, ?3)",
                            "tti", owner, site_id, now_ms);
        return directory_settle(d, r);
}

/* --- Mappings --- */

static int need_consent(struct directory *d, struct lessor_slice owner, struct lessor_slice site_id)
{
        int64_t n;
        int r = sql_number(&d->sql, &n,
                           "SELECT count(*) FROM directory_consent WHERE owner = ?1 AND site_id = ?2", "tt",
                           owner, site_id);

        return found(r, r < 0 ? 0 : n);
}

int directory_mapping_add(struct directory *d, struct lessor_slice owner, struct lessor_slice site_id,
                          const struct policy_mapping *mapping)
{
        struct mapping_row row;
        int r = mapping_row(mapping, &row);

        if (r < 0)
                return r;
        r = directory_change(d);
        if (r == 0)
                r = need_consent(d, owner, site_id);
        if (r == 0)
                r = insert_mapping(d, owner, site_id, &row);
        return directory_settle(d, r);
}

int directory_mapping_remove(struct directory *d, struct lessor_slice owner, struct lessor_slice site_id,
                             const struct policy_mapping *mapping)
{
        struct mapping_row row;
        int64_t n = 0;
        int r = mapping_row(mapping, &row);

        if (r < 0)
                return r;
        r = directory_change(d);
        if (r == 0)
                r = sql_run(&d->sql, &n,
                            "DELETE FROM directory_mapping WHERE owner = ?1 AND site_id = ?2 AND purpose = ?3"
                            " AND kind = ?4 AND service = ?5 AND service_owner = ?6",
                            "tttttt", owner, site_id, row.purpose, row.kind, row.service, row.service_owner);
        return directory_settle(d, found(r, n));
}

/* --- The list --- */

static int read_mapping(const struct sql_rows *rows, struct lessor_arena *arena,
                        struct policy_mapping *mapping)
{
        struct lessor_slice kind;
        int number;
        int r;

        if ((r = sql_text(rows, 2, arena, &mapping->purpose)) < 0 ||
            (r = sql_text(rows, 3, arena, &kind)) < 0 ||
            (r = sql_text(rows, 4, arena, &mapping->service)) < 0 ||
            (r = sql_text(rows, 5, arena, &mapping->owner)) < 0)
                return r;
        if (mapping->owner.n == 0)
                mapping->owner.p = NULL;
        number = message_word_number(&kind_words, kind);
        if (number < 0)
                return LESSOR_E_CORRUPT;
        mapping->kind = (enum lessor_kind)number;
        return 0;
}

/* They come in the order of their consents, so each consent takes what is next and its own. */
static int read_mappings(struct sql *s, struct lessor_slice owner, struct lessor_arena *arena,
                         struct directory_consent_list *consents)
{
        _cleanup_(sql_rows_done) struct sql_rows rows = {NULL};
        struct policy_mapping *mappings;
        size_t n_mappings;
        size_t at = 0;
        size_t n = 0;
        int r = directory_rows(s, "SELECT count(*) FROM directory_mapping", sizeof(*mappings), arena,
                               &mappings, &n_mappings);

        if (r < 0)
                return r;
        r = sql_query(s, &rows,
                      "SELECT m.owner, m.site_id, m.purpose, m.kind, m.service, m.service_owner"
                      " FROM directory_mapping m JOIN directory_consent c"
                      " ON c.owner = m.owner AND c.site_id = m.site_id WHERE ?1 IS NULL OR c.owner = ?1"
                      " ORDER BY c.seq, m.seq",
                      "t", owner);
        while (r == 0 && n < n_mappings && (r = sql_next(&rows)) == 1) {
                struct directory_consent *c;
                struct lessor_slice user;
                struct lessor_slice site_id;

                if ((r = sql_text(&rows, 0, arena, &user)) < 0 ||
                    (r = sql_text(&rows, 1, arena, &site_id)) < 0)
                        return r;
                while (at < consents->n && !(lessor_slice_equal(consents->items[at].owner, user) &&
                                             lessor_slice_equal(consents->items[at].site_id, site_id)))
                        at++;
                if (at == consents->n)
                        return LESSOR_E_CORRUPT;
                c = &consents->items[at];
                if ((r = read_mapping(&rows, arena, &mappings[n])) < 0)
                        return r;
                if (c->mappings == NULL)
                        c->mappings = &mappings[n];
                c->n_mappings++;
                n++;
        }
        return r;
}

static int read_consent(const struct sql_rows *rows, struct lessor_arena *arena, struct directory_consent *c)
{
        int r;

        if ((r = sql_text(rows, 0, arena, &c->owner)) < 0 || (r = sql_text(rows, 1, arena, &c->site_id)) < 0)
                return r;
        c->given = sql_int(rows, 2) != 0;
        c->paused = sql_int(rows, 3) != 0;
        c->revoked = sql_int(rows, 4) != 0;
        c->created_ms = sql_int(rows, 5);
        return 0;
}

int read_consents(struct sql *s, struct lessor_slice owner, struct lessor_arena *arena,
                  struct directory_consent_list *ret_consents)
{
        _cleanup_(sql_rows_done) struct sql_rows rows = {NULL};
        struct directory_consent_list consents;
        size_t n_most;
        int r = directory_rows(s,
                               "SELECT (SELECT count(*) FROM directory_consent)"
                               " + (SELECT count(*) FROM directory_revocation)",
                               sizeof(*consents.items), arena, &consents.items, &n_most);

        if (r < 0)
                return r;
        consents.n = 0;
        /* Consents first, in their order; then pairs about which there is nothing but a revocation. */
        r = sql_query(s, &rows,
                      "SELECT c.owner, c.site_id, 1 AS given, c.paused, r.seq IS NOT NULL, c.created_ms, "
                      "c.seq AS at"
                      " FROM directory_consent c LEFT JOIN directory_revocation r"
                      " ON r.owner = c.owner AND r.site_id = c.site_id WHERE ?1 IS NULL OR c.owner = ?1"
                      " UNION ALL"
                      " SELECT r.owner, r.site_id, 0, 0, 1, r.created_ms, r.seq FROM directory_revocation r"
                      " WHERE (?1 IS NULL OR r.owner = ?1) AND NOT EXISTS(SELECT 1 FROM directory_consent c"
                      " WHERE c.owner = r.owner AND c.site_id = r.site_id) ORDER BY given DESC, at",
                      "t", owner);
        while (r == 0 && consents.n < n_most && (r = sql_next(&rows)) == 1)
                r = read_consent(&rows, arena, &consents.items[consents.n++]);
        if (r < 0 || (r = read_mappings(s, owner, arena, &consents)) < 0)
                return r;
        *ret_consents = consents;
        return 0;
}

int directory_consents(struct directory *d, struct lessor_slice owner, struct lessor_arena *arena,
                       struct directory_consent_list *ret_consents)
{
        int r;

        pthread_mutex_lock(&d->lock);
        r = read_consents(&d->sql, owner, arena, ret_consents);
        pthread_mutex_unlock(&d->lock);
        return r;
}
