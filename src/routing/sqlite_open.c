/* SPDX-License-Identifier: MIT */
/* How a store comes to be and ends, and how it is copied. */
#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "base/macro.h"
#include "routing/data_lock.h"
#include "routing/sqlite_internal.h"
#include "routing/sqlite_schema.h"

#define DEFAULT_LOW_SPACE_BYTES  (UINT64_C(64) << 20)
#define DEFAULT_MAX_HELD_BYTES   (UINT64_C(256) << 20)
#define DEFAULT_N_READERS        4
#define DEFAULT_CHECKPOINT_PAGES 4000 /* 16 MB */
#define DEFAULT_PRESENCE_MS      5000
#define DEFAULT_RETRY_MS         100
#define MAX_READERS              64

static void set_options(struct sqlite_store *s, const struct sqlite_store_options *options)
{
        struct sqlite_store_options *o = &s->options;

        if (options != NULL)
                *o = *options;
        if (o->low_space_bytes == 0)
                o->low_space_bytes = DEFAULT_LOW_SPACE_BYTES;
        if (o->max_held_bytes == 0)
                o->max_held_bytes = DEFAULT_MAX_HELD_BYTES;
        if (o->n_readers == 0)
                o->n_readers = DEFAULT_N_READERS;
        if (o->n_readers > MAX_READERS)
                o->n_readers = MAX_READERS;
        if (o->checkpoint_pages == 0)
                o->checkpoint_pages = DEFAULT_CHECKPOINT_PAGES;
        if (o->presence_ms == 0)
                o->presence_ms = DEFAULT_PRESENCE_MS;
        if (o->retry_ms == 0)
                o->retry_ms = DEFAULT_RETRY_MS;
}

static void free_sealed(void *sealed)
{
        free(sealed);
}

/* Everything that needs nothing from outside: what store_free can undo from any point on. */
static int init_memory(struct sqlite_store *s)
{
        unsigned char key[ENGINE_HASH_KEY_BYTES];
        pthread_condattr_t monotonic;
        int r;

        randombytes_buf(key, sizeof(key));
        s->batch.writes_end = &s->batch.writes;
        s->batch.events_end = &s->batch.events;
        s->lazy_end = &s->lazy_first;
        s->open_waiters.end = &s->open_waiters.first;
        s->flight_waiters.end = &s->flight_waiters.first;
        s->open_seq = 1;
        s->next_holder = s->next_envelope = 1;
        (void)pthread_mutex_init(&s->lock, NULL);
        (void)pthread_condattr_init(&monotonic);
        (void)pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
        (void)pthread_cond_init(&s->work, &monotonic);
        (void)pthread_condattr_destroy(&monotonic);
        s->batch.arena = lessor_arena_new();
        r = s->batch.arena == NULL ? LESSOR_E_NOMEM : 0;
        if (r == 0)
                r = table_init(&s->held, key);
        if (r == 0)
                r = table_init(&s->holders, key);
        if (r == 0)
                r = table_init(&s->lazy, key);
        if (r == 0)
                r = asides_init(&s->asides, key);
        if (r == 0)
                r = engine_new(key, free_sealed, &s->engine);
        return r;
}

static int wal_grew(void *store, sqlite3 *db, const char *name, int pages)
{
        struct sqlite_store *s = store;

        (void)db;
        (void)name;
        s->wal_pages = pages;
        return SQLITE_OK;
}

static int open_disk(struct sqlite_store *s, struct buf *ret_problem)
{
        int r;

        r = data_lock_take(s->dir, &s->lock_fd, ret_problem);
        if (r == 0)
                r = sqlite_db_open(s->path, SQLITE_DB_WRITE, s->options.vfs, &s->db, ret_problem);
        if (r == 0)
                r = sqlite_db_migrate(s->db, s->path, &sqlite_routing_migration, ret_problem);
        if (r == 0)
                r = store_load(s, ret_problem);
        if (r == 0)
                r = batch_prepare(s, ret_problem);
        if (r < 0)
                return r;
        /* Dirty pages of a batch stay in memory up to here, then go to the log early. */
        (void)sqlite3_exec(s->db, "PRAGMA cache_size=-8192", NULL, NULL, NULL);
        (void)sqlite3_wal_hook(s->db, wal_grew, s);
        return 0;
}

static int start_threads(struct sqlite_store *s, struct buf *ret_problem)
{
        int r = readers_init(&s->readers, s->path, s->options.vfs, s->options.n_readers);

        if (r < 0)
                return r;
        s->readers_open = true;
        r = checkpointer_start(&s->checkpointer, s->path, s->options.vfs, ret_problem);
        if (r < 0)
                return r;
        writer_check_space(s);
        if (pthread_create(&s->writer, NULL, writer_run, s) != 0)
                return LESSOR_E_NOMEM;
        s->writer_running = true;
        return 0;
}

struct lessor_routing_store *store_free(struct sqlite_store *s)
{
        struct waiter *w;

        if (s->writer_running) {
                (void)pthread_mutex_lock(&s->lock);
                s->stopping = true;
                (void)pthread_cond_signal(&s->work);
                (void)pthread_mutex_unlock(&s->lock);
                (void)pthread_join(s->writer, NULL);
        }
        checkpointer_stop(&s->checkpointer);
        if (s->readers_open)
                readers_done(&s->readers);
        batch_finalize(s);
        (void)sqlite3_close(s->db);
        if (s->batch.arena != NULL && s->engine != NULL)
                batch_clear(s);
        s->engine = engine_free(s->engine);
        store_free_notes(s);
        asides_done(&s->asides);
        while ((w = s->spare_waiters) != NULL) {
                s->spare_waiters = w->next;
                free(w);
        }
        s->batch.arena = lessor_arena_free(s->batch.arena);
        (void)pthread_cond_destroy(&s->work);
        (void)pthread_mutex_destroy(&s->lock);
        /* Last of all: whoever gets the lock next finds everything closed. */
        if (s->lock_fd >= 0)
                (void)close(s->lock_fd);
        free(s->path);
        free(s->dir);
        free(s);
        return NULL;
}

static char *join(const char *dir, const char *name)
{
        struct buf b;

        buf_init(&b);
        (void)buf_printf(&b, "%s/%s", dir, name);
        if (buf_failed(&b) < 0)
                buf_done(&b);
        return b.p;
}

int sqlite_store_new(const char *data_dir, struct clock *clock,
                     const struct lessor_routing_listener *listener,
                     const struct sqlite_store_options *options, struct lessor_routing_store **ret_store,
                     struct buf *ret_problem)
{
        struct sqlite_store *s = calloc(1, sizeof(*s));
        int r;

        if (s == NULL)
                return LESSOR_E_NOMEM;
        s->base.ops = &sqlite_store_ops;
        if (listener != NULL)
                s->base.listener = *listener;
        s->clock = clock;
        s->lock_fd = -1;
        set_options(s, options);
        r = init_memory(s);
        s->dir = strdup(data_dir);
        s->path = join(data_dir, SQLITE_STORE_FILE);
        if (s->dir == NULL || s->path == NULL)
                r = LESSOR_E_NOMEM;
        if (r == 0)
                r = open_disk(s, ret_problem);
        if (r == 0)
                r = start_threads(s, ret_problem);
        if (r < 0) {
                store_free(s);
                return r;
        }
        *ret_store = &s->base;
        return 0;
}

/* --- backup --- */

static int errno_error(int error)
{
        switch (error) {
        case EEXIST:
                return LESSOR_E_EXISTS;
        case EACCES:
        case EPERM:
        case EROFS:
                return LESSOR_E_PERMISSION;
        default:
                return LESSOR_E_IO;
        }
}

static int sync_path(const char *path, int flags)
{
        int fd = open(path, flags | O_CLOEXEC);
        int r;

        if (fd < 0)
                return errno_error(errno);
        r = fsync(fd) == 0 ? 0 : LESSOR_E_IO;
        (void)close(fd);
        return r;
}

static int sync_parent(const char *path)
{
        const char *slash = strrchr(path, '/');
        char *dir;
        int r;

        if (slash == NULL)
                return sync_path(".", O_RDONLY | O_DIRECTORY);
        dir = strndup(path, slash == path ? 1 : (size_t)(slash - path));
        if (dir == NULL)
                return LESSOR_E_NOMEM;
        r = sync_path(dir, O_RDONLY | O_DIRECTORY);
        free(dir);
        return r;
}

/* VACUUM INTO reads in one snapshot, so that what is written meanwhile neither shows nor makes it start over.
 */
static int vacuum_into(const struct sqlite_store *s, const char *path)
{
        struct buf problem;
        sqlite3 *db;
        sqlite3_stmt *stmt = NULL;
        int code, r;

        buf_init(&problem);
        r = sqlite_db_open(s->path, SQLITE_DB_READ, s->options.vfs, &db, &problem);
        if (r < 0) {
                log_error("routing-backup-failed", LOG_TEXT("why", buf_view(&problem)));
                buf_done(&problem);
                return r;
        }
        buf_done(&problem);
        code = sqlite3_prepare_v2(db, "VACUUM INTO ?1", -1, &stmt, NULL);
        if (code == SQLITE_OK)
                code = sqlite3_bind_text(stmt, 1, path, -1, SQLITE_STATIC);
        if (code == SQLITE_OK)
                code = sqlite3_step(stmt);
        r = code == SQLITE_DONE ? 0 : LESSOR_E_IO;
        if (r < 0)
                log_error("routing-backup-failed", LOG_CSTR("path", path),
                          LOG_CSTR("why", sqlite3_errmsg(db)));
        (void)sqlite3_finalize(stmt);
        (void)sqlite3_close(db);
        return r;
}

/*
 * Under a name of its own first: the file appears under its real name whole and on disk, or not at all.
 * SQLite does not sync what VACUUM INTO writes.
 */
int store_backup(const struct sqlite_store *s, const char *path)
{
        char suffix[] = ".XXXXXX";
        struct buf partial;
        int fd, r;

        if (access(path, F_OK) == 0)
                return LESSOR_E_EXISTS;
        buf_init(&partial);
        (void)buf_printf(&partial, "%s%s", path, suffix);
        if (buf_failed(&partial) < 0)
                return LESSOR_E_NOMEM;
        fd = mkostemp(partial.p, O_CLOEXEC); /* mode 0600 */
        r = fd < 0 ? errno_error(errno) : 0;
        if (r == 0) {
                (void)close(fd);
                r = vacuum_into(s, partial.p);
                if (r == 0)
                        r = sync_path(partial.p, O_RDWR);
                /* Unlike rename, link never replaces a file. */
                if (r == 0 && link(partial.p, path) != 0)
                        r = errno_error(errno);
                (void)unlink(partial.p);
                if (r == 0)
                        r = sync_parent(path);
        }
        buf_done(&partial);
        return r;
}
