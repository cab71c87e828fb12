/* SPDX-License-Identifier: MIT */
#include "routing/directory/directory.h"

#include <stdlib.h>

#include "base/limits.h"
#include "base/utf8.h"
#include "routing/directory/directory_internal.h"
#include "routing/directory/directory_schema.h"

DEFINE_CLEANUP(struct lessor_arena, lessor_arena_free)

/* What nobody takes from here is not made. */
static int make_snapshots(struct directory *d, struct projection **ret_projection, struct policy **ret_policy)
{
        _cleanup_(lessor_arena_freep) struct lessor_arena *arena = NULL;

        *ret_projection = NULL;
        *ret_policy = NULL;
        if (d->projections == NULL && d->policies == NULL)
                return 0;
        arena = lessor_arena_new();
        if (arena == NULL)
                return LESSOR_E_NOMEM;
        return directory_snapshots(&d->sql, arena, d->projections == NULL ? NULL : ret_projection,
                                   d->policies == NULL ? NULL : ret_policy);
}

static void put_snapshots(struct directory *d, struct projection *projection, struct policy *policy)
{
        if (projection != NULL)
                projection_cell_put(d->projections, projection);
        if (policy != NULL)
                policy_cell_put(d->policies, policy);
}

int directory_change(struct directory *d)
{
        pthread_mutex_lock(&d->lock);
        if (!d->batching)
                return sql_begin(&d->sql);
        /* Some failures end the whole transaction, and a savepoint would begin another. */
        if (d->batch_error == 0 && sqlite3_get_autocommit(d->sql.db) != 0)
                d->batch_error = LESSOR_E_UNAVAILABLE;
        return d->batch_error != 0 ? d->batch_error : sql_run(&d->sql, NULL, "SAVEPOINT change", "");
}

/* A failed change of a batch leaves those before it. */
static int settle_within_batch(struct directory *d, int r)
{
        if (r < 0 && sql_run(&d->sql, NULL, "ROLLBACK TO change", "") < 0)
                d->batch_error = r;
        if (sql_run(&d->sql, NULL, "RELEASE change", "") < 0 && d->batch_error == 0)
                d->batch_error = LESSOR_E_UNAVAILABLE;
        return r;
}

static int settle_transaction(struct directory *d, int r)
{
        _cleanup_(projection_unrefp) struct projection *projection = NULL;
        _cleanup_(policy_unrefp) struct policy *policy = NULL;

        if (r == 0)
                r = make_snapshots(d, &projection, &policy);
        if (r == 0)
                r = sql_commit(&d->sql);
        else
                sql_rollback(&d->sql);
        if (r == 0)
                put_snapshots(d, TAKE(projection), TAKE(policy));
        return r;
}

int directory_settle(struct directory *d, int r)
{
        r = d->batching ? settle_within_batch(d, r) : settle_transaction(d, r);
        pthread_mutex_unlock(&d->lock);
        return r;
}

int directory_batch(struct directory *d, int (*work)(struct directory *d, void *context), void *context)
{
        int r;

        pthread_mutex_lock(&d->lock);
        if (d->batching) { /* within another, whose commit will be this one's too */
                r = work(d, context);
                pthread_mutex_unlock(&d->lock);
                return r;
        }
        r = sql_begin(&d->sql);
        if (r == 0) {
                d->batching = true;
                d->batch_error = 0;
                r = work(d, context);
                d->batching = false;
                if (r == 0)
                        r = d->batch_error;
        }
        r = settle_transaction(d, r);
        pthread_mutex_unlock(&d->lock);
        return r;
}

static int init_lock(pthread_mutex_t *lock)
{
        pthread_mutexattr_t attributes;
        int r;

        if (pthread_mutexattr_init(&attributes) != 0)
                return LESSOR_E_NOMEM;
        (void)pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_RECURSIVE);
        r = pthread_mutex_init(lock, &attributes) == 0 ? 0 : LESSOR_E_NOMEM;
        (void)pthread_mutexattr_destroy(&attributes);
        return r;
}

int directory_open(const char *path, struct projection_cell *projections, struct policy_cell *policies,
                   struct directory **ret_directory, struct buf *ret_problem)
{
        struct directory *d = calloc(1, sizeof(*d));
        struct projection *projection = NULL;
        struct policy *policy = NULL;
        int r;

        if (d == NULL)
                return LESSOR_E_NOMEM;
        r = init_lock(&d->lock);
        if (r < 0) {
                free(d);
                return r;
        }
        d->projections = projections;
        d->policies = policies;
        r = sql_open(&d->sql, path, &directory_migration, ret_problem);
        if (r == 0)
                r = make_snapshots(d, &projection, &policy);
        if (r < 0) {
                directory_free(d);
                return r;
        }
        put_snapshots(d, projection, policy);
        *ret_directory = d;
        return 0;
}

struct directory *directory_free(struct directory *d)
{
        if (d == NULL)
                return NULL;
        sql_close(&d->sql);
        pthread_mutex_destroy(&d->lock);
        free(d);
        return NULL;
}

int directory_check_label(struct lessor_slice label)
{
        if (label.n > LIMIT_ID_BYTES)
                return LESSOR_E_TOO_LARGE;
        if (!utf8_valid(label))
                return LESSOR_E_INVALID;
        for (size_t i = 0; i < label.n; i++) {
                unsigned char c = (unsigned char)label.p[i];

                /* Ids travel in headers and end up on terminals. */
                if (c < 0x20 || c == 0x7f)
                        return LESSOR_E_INVALID;
        }
        return 0;
}

int directory_check_id(struct lessor_slice id)
{
        return id.n == 0 ? LESSOR_E_INVALID : directory_check_label(id);
}

int directory_rows(struct sql *s, const char *count_query, size_t size, struct lessor_arena *arena,
                   void *ret_items, size_t *ret_n)
{
        int64_t n;
        void *items;
        int r = sql_number(s, &n, count_query, "");

        if (r < 0)
                return r;
        items = lessor_arena_array(arena, (size_t)n, size);
        if (items == NULL)
                return LESSOR_E_NOMEM;
        memcpy(ret_items, &items, sizeof(items));
        *ret_n = (size_t)n;
        return 0;
}
