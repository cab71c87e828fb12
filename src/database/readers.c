/* SPDX-License-Identifier: MIT */
#include "database/readers.h"

#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "database/sqlite_db.h"
#include "lessor/error.h"

/* Up to here the text comes with the row; above, it is read straight into its place, and copied once less. */
#define SMALL_BYTES 65536

struct reader {
        struct reader *next;
        sqlite3 *db;
        sqlite3_stmt *small[READERS_COLUMNS_MAX];
};

int readers_init(struct readers *p, const char *path, const char *vfs, unsigned max,
                 const struct text_column *columns, unsigned n_columns)
{
        *p = (struct readers){
                .max = max, .path = path, .vfs = vfs, .columns = columns, .n_columns = n_columns};
        if (pthread_mutex_init(&p->lock, NULL) != 0)
                return LESSOR_E_NOMEM;
        if (pthread_cond_init(&p->back, NULL) != 0) {
                (void)pthread_mutex_destroy(&p->lock);
                return LESSOR_E_NOMEM;
        }
        return 0;
}

static struct reader *reader_free(struct reader *r)
{
        if (r != NULL) {
                for (unsigned i = 0; i < READERS_COLUMNS_MAX; i++)
                        (void)sqlite3_finalize(r->small[i]);
                (void)sqlite3_close(r->db);
                free(r);
        }
        return NULL;
}

void readers_done(struct readers *p)
{
        struct reader *r;

        while ((r = p->idle) != NULL) {
                p->idle = r->next;
                reader_free(r);
        }
        (void)pthread_cond_destroy(&p->back);
        (void)pthread_mutex_destroy(&p->lock);
}

static int reader_open(struct readers *p, struct reader **ret_reader)
{
        struct reader *r = calloc(1, sizeof(*r));
        struct buf problem;
        int code, e;

        if (r == NULL)
                return LESSOR_E_NOMEM;
        buf_init(&problem);
        e = sqlite_db_open(p->path, SQLITE_DB_READ, p->vfs, &r->db, &problem);
        if (e < 0)
                log_error("database-reader-failed", LOG_TEXT("why", buf_view(&problem)));
        buf_done(&problem);
        if (e == 0) {
                /* Texts are read once: a cache of them would only take memory. */
                (void)sqlite3_exec(r->db, "PRAGMA cache_size=-256", NULL, NULL, NULL);
                for (unsigned i = 0; e == 0 && i < p->n_columns; i++) {
                        code = sqlite3_prepare_v3(r->db, p->columns[i].sql, -1, SQLITE_PREPARE_PERSISTENT,
                                                  &r->small[i], NULL);
                        e = code == SQLITE_OK ? 0 : sqlite_db_error(code);
                }
        }
        if (e < 0) {
                reader_free(r);
                return e == LESSOR_E_NOMEM || e == LESSOR_E_CORRUPT ? e : LESSOR_E_UNAVAILABLE;
        }
        *ret_reader = r;
        return 0;
}

static int reader_take(struct readers *p, struct reader **ret_reader)
{
        int r;

        (void)pthread_mutex_lock(&p->lock);
        while (p->idle == NULL && p->n_open >= p->max)
                (void)pthread_cond_wait(&p->back, &p->lock);
        if (p->idle != NULL) {
                *ret_reader = p->idle;
                p->idle = p->idle->next;
                (void)pthread_mutex_unlock(&p->lock);
                return 0;
        }
        p->n_open++;
        (void)pthread_mutex_unlock(&p->lock);
        r = reader_open(p, ret_reader);
        if (r < 0) {
                (void)pthread_mutex_lock(&p->lock);
                p->n_open--;
                (void)pthread_cond_signal(&p->back);
                (void)pthread_mutex_unlock(&p->lock);
        }
        return r;
}

static void reader_give(struct readers *p, struct reader *r)
{
        (void)pthread_mutex_lock(&p->lock);
        r->next = p->idle;
        p->idle = r;
        (void)pthread_cond_signal(&p->back);
        (void)pthread_mutex_unlock(&p->lock);
}

static int read_large(struct reader *r, const struct text_column *column, uint64_t key, size_t n,
                      struct lessor_arena *arena, struct lessor_slice *ret_text)
{
        sqlite3_blob *blob = NULL;
        char *bytes;
        int code;

        code = sqlite3_blob_open(r->db, "main", column->table, column->column, (sqlite3_int64)key, 0, &blob);
        if (code == SQLITE_ERROR) {
                (void)sqlite3_blob_close(blob);
                return LESSOR_E_NOT_FOUND; /* the only way in which an open with fixed names says so */
        }
        /* One byte more, so that it ends in a NUL like every text of an arena. */
        bytes = code == SQLITE_OK ? lessor_arena_alloc(arena, n + 1) : NULL;
        if (code == SQLITE_OK && bytes == NULL)
                code = SQLITE_NOMEM;
        if (code == SQLITE_OK && (size_t)sqlite3_blob_bytes(blob) != n)
                code = SQLITE_CORRUPT;
        if (code == SQLITE_OK)
                code = sqlite3_blob_read(blob, bytes, (int)n, 0);
        (void)sqlite3_blob_close(blob);
        if (code != SQLITE_OK)
                return sqlite_db_error(code);
        *ret_text = (struct lessor_slice){bytes, n};
        return 0;
}

static int read_small(sqlite3_stmt *stmt, uint64_t key, struct lessor_arena *arena,
                      struct lessor_slice *ret_text)
{
        struct lessor_slice text;
        int code;

        (void)sqlite3_bind_int64(stmt, 1, (sqlite3_int64)key);
        code = sqlite3_step(stmt);
        if (code == SQLITE_DONE)
                return LESSOR_E_NOT_FOUND;
        if (code != SQLITE_ROW)
                return sqlite_db_error(code);
        text.p = (const char *)sqlite3_column_text(stmt, 0);
        text.n = (size_t)sqlite3_column_bytes(stmt, 0);
        if (text.p == NULL)
                return sqlite3_column_type(stmt, 0) == SQLITE_NULL ? LESSOR_E_CORRUPT : LESSOR_E_NOMEM;
        return lessor_arena_copy(arena, text, ret_text);
}

int readers_text(struct readers *p, unsigned column, uint64_t key, uint64_t n, struct lessor_arena *arena,
                 struct lessor_slice *ret_text)
{
        struct reader *reader;
        int r;

        r = reader_take(p, &reader);
        if (r < 0)
                return r;
        r = n <= SMALL_BYTES ? read_small(reader->small[column], key, arena, ret_text)
                             : read_large(reader, &p->columns[column], key, (size_t)n, arena, ret_text);
        if (r < 0 && r != LESSOR_E_NOT_FOUND)
                log_error("database-text-unreadable", LOG_CSTR("path", p->path),
                          LOG_CSTR("table", p->columns[column].table), LOG_INT("key", (int64_t)key),
                          LOG_CSTR("why", sqlite3_errmsg(reader->db)));
        (void)sqlite3_reset(reader->small[column]);
        reader_give(p, reader);
        return r;
}
