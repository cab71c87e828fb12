/* SPDX-License-Identifier: MIT */
/* How a store comes to be and ends. */
#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#include "leasing/sqlite_internal.h"
#include "leasing/sqlite_schema.h"

#define DEFAULT_LOW_SPACE_BYTES  (UINT64_C(64) << 20)
#define DEFAULT_MAX_HELD_BYTES   (UINT64_C(256) << 20)
#define DEFAULT_MAX_LATE_BYTES   (UINT64_C(16) << 20)
#define DEFAULT_N_READERS        4
#define DEFAULT_CHECKPOINT_PAGES 4000 /* 16 MB */
#define DEFAULT_SEEN_MS          30000
#define DEFAULT_RETRY_MS         100
#define MAX_READERS              64
#define GATHER_US                500

const struct text_column lease_text_columns[N_TEXT_KINDS] = {
        [TEXT_EVENT] = {"leasing_event", "body", "SELECT body FROM leasing_event WHERE seq=?1"},
        [TEXT_RESULT] = {"leasing_result", "body", "SELECT body FROM leasing_result WHERE seq=?1"},
};

static const struct committer_ops committer_ops = {
        .has_changes = lease_has_changes,
        .late_ms = lease_late_ms,
        .collect = lease_batch_collect,
        .write = lease_batch_write,
        .tell = lease_batch_tell,
        .clear = lease_batch_clear,
};

static void set_options(struct lease_sqlite_store *s, const struct lease_sqlite_options *options)
{
        struct lease_sqlite_options *o = &s->options;

        if (options != NULL)
                *o = *options;
        if (o->low_space_bytes == 0)
                o->low_space_bytes = DEFAULT_LOW_SPACE_BYTES;
        if (o->max_held_bytes == 0)
                o->max_held_bytes = DEFAULT_MAX_HELD_BYTES;
        if (o->max_late_bytes == 0)
                o->max_late_bytes = DEFAULT_MAX_LATE_BYTES;
        if (o->n_readers == 0)
                o->n_readers = DEFAULT_N_READERS;
        if (o->n_readers > MAX_READERS)
                o->n_readers = MAX_READERS;
        if (o->checkpoint_pages == 0)
                o->checkpoint_pages = DEFAULT_CHECKPOINT_PAGES;
        if (o->seen_ms == 0)
                o->seen_ms = DEFAULT_SEEN_MS;
        if (o->retry_ms == 0)
                o->retry_ms = DEFAULT_RETRY_MS;
}

static void free_kept(void *kept)
{
        if (kept != NULL)
                kept_unref(kept);
}

/* Everything that needs nothing from outside: what lease_sqlite_free can undo from any point on. */
static int init_memory(struct lease_sqlite_store *s, const struct lessor_lease_options *options)
{
        static const struct lessor_lease_options usual = LESSOR_LEASE_OPTIONS;
        unsigned char key[LEASE_ENGINE_HASH_KEY_BYTES];
        int r;

        randombytes_buf(key, sizeof(key));
        s->batch.writes_end = &s->batch.writes;
        s->batch.events_end = &s->batch.events;
        s->batch.arena = lessor_arena_new();
        r = s->batch.arena == NULL ? LESSOR_E_NOMEM : late_init(&s->late, key);
        if (r == 0)
                r = lease_engine_new(options == NULL ? &usual : options, key, free_kept, &s->store.engine);
        return r;
}

static int open_disk(struct lease_sqlite_store *s, struct buf *ret_problem)
{
        const struct committer_options options = {
                .low_space_bytes = s->options.low_space_bytes,
                .checkpoint_pages = s->options.checkpoint_pages,
                .retry_ms = s->options.retry_ms,
                .gather_us = GATHER_US,
                .vfs = s->options.vfs,
                .free_bytes = s->options.free_bytes,
                .free_context = s->options.free_context,
        };
        int r = data_lock_take(s->dir, LEASE_SQLITE_FILE, &s->data_lock, ret_problem);

        if (r == 0)
                r = committer_open(&s->committer, s->dir, s->path, &options, ret_problem);
        if (r == 0)
                r = sqlite_db_migrate(s->committer.db, s->path, &lease_sqlite_migration, ret_problem);
        if (r == 0)
                r = lease_sqlite_load(s, ret_problem);
        if (r == 0)
                r = lease_batch_prepare(s, ret_problem);
        return r;
}

static int start_threads(struct lease_sqlite_store *s, struct buf *ret_problem)
{
        int r = readers_init(&s->readers, s->path, s->options.vfs, s->options.n_readers, lease_text_columns,
                             N_TEXT_KINDS);

        if (r < 0)
                return r;
        s->readers_open = true;
        return committer_start(&s->committer, ret_problem);
}

struct lessor_lease_store *lease_sqlite_free(struct lease_sqlite_store *s)
{
        committer_stop(&s->committer);
        if (s->readers_open)
                readers_done(&s->readers);
        lease_batch_finalize(s);
        if (s->batch.arena != NULL && s->store.engine != NULL)
                lease_batch_clear(s);
        s->store.engine = lease_engine_free(s->store.engine);
        late_done(&s->late);
        s->batch.arena = lessor_arena_free(s->batch.arena);
        committer_done(&s->committer);
        /* Last of all: whoever gets the lock next finds everything closed. */
        data_lock_free(s->data_lock);
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

int lease_sqlite_store_new(const char *data_dir, const struct lessor_lease_options *options,
                           struct clock *clock, const struct lessor_lease_listener *listener,
                           const struct lease_sqlite_options *disk, struct lessor_lease_store **ret_store,
                           struct buf *ret_problem)
{
        struct lease_sqlite_store *s = calloc(1, sizeof(*s));
        int r;

        if (s == NULL)
                return LESSOR_E_NOMEM;
        s->store.base.ops = &lease_sqlite_ops;
        s->store.enter = lease_sqlite_enter;
        s->store.leave = lease_sqlite_leave;
        if (listener != NULL)
                s->store.base.listener = *listener;
        s->store.clock = clock;
        set_options(s, disk);
        committer_init(&s->committer, &committer_ops, s);
        r = init_memory(s, options);
        s->dir = strdup(data_dir);
        s->path = join(data_dir, LEASE_SQLITE_FILE);
        if (r == 0 && (s->dir == NULL || s->path == NULL))
                r = LESSOR_E_NOMEM;
        if (r == LESSOR_E_INVALID)
                (void)buf_printf(ret_problem, "an option of the lease store is out of its range");
        if (r == 0)
                r = open_disk(s, ret_problem);
        if (r == 0)
                r = start_threads(s, ret_problem);
        if (r < 0) {
                lease_sqlite_free(s);
                return r;
        }
        *ret_store = &s->store.base;
        return 0;
}
