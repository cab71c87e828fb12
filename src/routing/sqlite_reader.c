/* SPDX-License-Identifier: MIT */
/* Connections that read envelopes, each by one thread at a time, beside the writer. */
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "routing/sqlite_internal.h"
#include "routing/sqlite_schema.h"

/* Up to here the text comes with the row; above, it is read straight into its place, and copied once less. */
#define SMALL_BYTES 65536

int readers_init(struct readers *p, const char *path, const char *vfs, unsigned max)
{
        *p = (struct readers){.max = max, .path = path, .vfs = vfs};
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
                (void)sqlite3_finalize(r->small);
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
                log_error("routing-reader-failed", LOG_TEXT("why", buf_view(&problem)));
        buf_done(&problem);
        if (e == 0) {
                /* Envelopes are read once: a cache of them would only take memory. */
                (void)sqlite3_exec(r->db, "PRAGMA cache_size=-256", NULL, NULL, NULL);
                code = sqlite3_prepare_v3(r->db, "SELECT body FROM routing_envelope WHERE id=?1", -1,
                                          SQLITE_PREPARE_PERSISTENT, &r->small, NULL);
                e = code == SQLITE_OK ? 0 : sqlite_db_error(code);
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

static int read_large(struct reader *r, uint64_t id, size_t n, struct lessor_arena *arena,
                      struct lessor_slice *ret_json)
{
        sqlite3_blob *blob = NULL;
        char *bytes;
        int code;

        code = sqlite3_blob_open(r->db, "main", "routing_envelope", "body", (sqlite3_int64)id, 0, &blob);
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
        *ret_json = (struct lessor_slice){bytes, n};
        return 0;
}

static int read_small(struct reader *r, uint64_t id, struct lessor_arena *arena,
                      struct lessor_slice *ret_json)
{
        struct lessor_slice text;
        int code;

        (void)sqlite3_bind_int64(r->small, 1, (sqlite3_int64)id);
        code = sqlite3_step(r->small);
        if (code == SQLITE_DONE)
                return LESSOR_E_NOT_FOUND;
        if (code != SQLITE_ROW)
                return sqlite_db_error(code);
        text.p = (const char *)sqlite3_column_text(r->small, 0);
        text.n = (size_t)sqlite3_column_bytes(r->small, 0);
        if (text.p == NULL)
                return sqlite3_column_type(r->small, 0) == SQLITE_NULL ? LESSOR_E_CORRUPT : LESSOR_E_NOMEM;
        return lessor_arena_copy(arena, text, ret_json);
}

int readers_envelope(struct readers *p, uint64_t id, uint64_t n, struct lessor_arena *arena,
                     struct lessor_slice *ret_json)
{
        struct reader *reader;
        int r;

        r = reader_take(p, &reader);
        if (r < 0)
                return r;
        r = n <= SMALL_BYTES ? read_small(reader, id, arena, ret_json)
                             : read_large(reader, id, (size_t)n, arena, ret_json);
        if (r < 0 && r != LESSOR_E_NOT_FOUND)
                log_error("routing-envelope-unreadable", LOG_INT("id", (int64_t)id),
                          LOG_CSTR("why", sqlite3_errmsg(reader->db)));
        (void)sqlite3_reset(reader->small);
        reader_give(p, reader);
        return r;
}
