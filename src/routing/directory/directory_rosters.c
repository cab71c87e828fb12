/* SPDX-License-Identifier: MIT */
#include "routing/directory/directory_internal.h"

int directory_roster_add(struct directory *d, struct lessor_slice roster_id, struct lessor_slice owner,
                         int64_t now_ms)
{
        int r = directory_check_id(roster_id);

        if (r < 0 || (r = directory_check_id(owner)) < 0)
                return r;
        r = directory_change(d);
        if (r == 0)
                r = sql_run(&d->sql, NULL,
                            "INSERT INTO directory_roster(roster_id, owner, created_ms) VALUES(?1, ?2, ?3)",
                            "tti", roster_id, owner, now_ms);
        return directory_settle(d, r);
}

int directory_roster_remove(struct directory *d, struct lessor_slice roster_id)
{
        int64_t n = 0;
        int r = directory_change(d);

        if (r == 0)
                r = sql_run(&d->sql, &n, "DELETE FROM directory_roster WHERE roster_id = ?1", "t", roster_id);
        r = found(r, n);
        if (r == 0)
                r = sql_run(&d->sql, NULL, "DELETE FROM directory_member WHERE roster_id = ?1", "t",
                            roster_id);
        return directory_settle(d, r);
}

int directory_member_add(struct directory *d, struct lessor_slice roster_id, struct lessor_slice member)
{
        int64_t n = 0;
        int r = directory_check_id(member);

        if (r < 0)
                return r;
        r = directory_change(d);
        if (r == 0)
                r = sql_number(&d->sql, &n, "SELECT count(*) FROM directory_roster WHERE roster_id = ?1", "t",
                               roster_id);
        r = found(r, n);
        if (r == 0)
                r = sql_run(&d->sql, NULL, "INSERT INTO directory_member(roster_id, member) VALUES(?1, ?2)",
                            "tt", roster_id, member);
        return directory_settle(d, r);
}

int directory_member_remove(struct directory *d, struct lessor_slice roster_id, struct lessor_slice member)
{
        int64_t n = 0;
        int r = directory_change(d);

        if (r == 0)
                r = sql_run(&d->sql, &n, "DELETE FROM directory_member WHERE roster_id = ?1 AND member = ?2",
                            "tt", roster_id, member);
        return directory_settle(d, found(r, n));
}

/* They come in the order of their rosters, so each roster takes what is next and its own. */
static int read_members(struct sql *s, struct lessor_arena *arena, struct directory_roster_list *rosters)
{
        _cleanup_(sql_rows_done) struct sql_rows rows = {NULL};
        struct lessor_slice *members;
        size_t n_members;
        size_t at = 0;
        size_t n = 0;
        int r = directory_rows(s, "SELECT count(*) FROM directory_member", sizeof(*members), arena, &members,
                               &n_members);

        if (r < 0)
                return r;
        r = sql_query(s, &rows,
                      "SELECT m.roster_id, m.member FROM directory_member m JOIN directory_roster r"
                      " ON r.roster_id = m.roster_id ORDER BY r.seq, m.seq",
                      "");
        while (r == 0 && n < n_members && (r = sql_next(&rows)) == 1) {
                struct lessor_slice roster_id;

                if ((r = sql_text(&rows, 0, arena, &roster_id)) < 0 ||
                    (r = sql_text(&rows, 1, arena, &members[n])) < 0)
                        return r;
                while (at < rosters->n && !lessor_slice_equal(rosters->items[at].roster_id, roster_id))
                        at++;
                if (at == rosters->n)
                        return LESSOR_E_CORRUPT;
                if (rosters->items[at].members == NULL)
                        rosters->items[at].members = &members[n];
                rosters->items[at].n_members++;
                n++;
        }
        return r;
}

int read_rosters(struct sql *s, struct lessor_arena *arena, struct directory_roster_list *ret_rosters)
{
        _cleanup_(sql_rows_done) struct sql_rows rows = {NULL};
        struct directory_roster_list rosters;
        size_t n = 0;
        int r = directory_rows(s, "SELECT count(*) FROM directory_roster", sizeof(*rosters.items), arena,
                               &rosters.items, &rosters.n);

        if (r < 0)
                return r;
        r = sql_query(s, &rows, "SELECT roster_id, owner, created_ms FROM directory_roster ORDER BY seq", "");
        while (r == 0 && n < rosters.n && (r = sql_next(&rows)) == 1) {
                struct directory_roster *roster = &rosters.items[n++];

                if ((r = sql_text(&rows, 0, arena, &roster->roster_id)) < 0 ||
                    (r = sql_text(&rows, 1, arena, &roster->owner)) < 0)
                        return r;
                roster->created_ms = sql_int(&rows, 2);
        }
        if (r < 0 || (r = read_members(s, arena, &rosters)) < 0)
                return r;
        *ret_rosters = rosters;
        return 0;
}

int directory_rosters(struct directory *d, struct lessor_arena *arena,
                      struct directory_roster_list *ret_rosters)
{
        int r;

        pthread_mutex_lock(&d->lock);
        r = read_rosters(&d->sql, arena, ret_rosters);
        pthread_mutex_unlock(&d->lock);
        return r;
}
