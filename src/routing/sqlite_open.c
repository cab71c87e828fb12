/* SPDX-License-Identifier: MIT */
/* How a store comes to be and ends, and how it is copied. */
#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#include "routing/sqlite_internal.h"
#include "routing/sqlite_schema.h"

#define DEFAULT_LOW_SPACE_BYTES  (UINT64_C(64) << 20)
#define DEFAULT_MAX_HELD_BYTES   (UINT64_C(256) << 20)
#define DEFAULT_N_READERS        4
#define DEFAULT_CHECKPOINT_PAGES 4000 /* 16 MB */
#define DEFAULT_PRESENCE_MS      5000
#define DEFAULT_RETRY_MS         100
#define MAX_READERS              64
#define GATHER_US                2000 /* requests cost signatures, so that a crowd takes its time */

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
        int r;

        randombytes_buf(key, sizeof(key));
        s->batch.writes_end = &s->batch.writes;
        s->batch.events_end = &s->batch.events;
        s->next_holder = s->next_envelope = 1;
        s->batch.arena = lessor_arena_new();
        r = s->batch.arena == NULL ? LESSOR_E_NOMEM : 0;
        if (r == 0)
                r = table_init(&s->held, key);
        if (r == 0)
                r = table_init(&s->holders, key);
        if (r == 0)
                r = late_init(&s->late, key);
        if (r == 0)
                r = asides_init(&s->asides, key);
        if (r == 0)
                r = engine_new(key, free_sealed, &s->engine);
        return r;
}

/* Tells what happened to those who listen. Of committer_ops. */
static void tell_events(void *store)
{
        const struct sqlite_store *s = store;
        const struct lessor_routing_listener *l = &s->base.listener;

        for (const struct batch_event *b = s->batch.events; b != NULL; b = b->next) {
                switch (b->event.what) {
                case ENGINE_EVENT_AWAITING:
                        if (l->awaiting != NULL)
                                l->awaiting(l->context, b->event.site_id);
                        break;
                case ENGINE_EVENT_FINISHED:
                        if (l->finished != NULL)
                                l->finished(l->context, b->event.site_id);
                        break;
                case ENGINE_EVENT_CHURN:
                        if (l->churn != NULL)
                                l->churn(l->context, &b->event.churn);
                        break;
                }
        }
}

static const struct committer_ops committer_ops = {
        .has_changes = store_has_changes,
        .late_ms = store_late_ms,
        .collect = batch_collect,
        .write = batch_write,
        .tell = tell_events,
        .clear = batch_clear,
};

static int open_disk(struct sqlite_store *s, struct buf *ret_problem)
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
        int r = data_lock_take(s->dir, SQLITE_STORE_FILE, &s->data_lock, ret_problem);

        if (r == 0)
                r = committer_open(&s->committer, s->dir, s->path, &options, ret_problem);
        if (r == 0)
                r = sqlite_db_migrate(s->committer.db, s->path, &sqlite_routing_migration, ret_problem);
        if (r == 0)
                r = store_load(s, ret_problem);
        if (r == 0)
                r = batch_prepare(s, ret_problem);
        return r;
}

static int start_threads(struct sqlite_store *s, struct buf *ret_problem)
{
        static const struct text_column envelopes = {"routing_envelope", "body",
                                                     "SELECT body FROM routing_envelope WHERE id=?1"};
        int r = readers_init(&s->readers, s->path, s->options.vfs, s->options.n_readers, &envelopes, 1);

        if (r < 0)
                return r;
        s->readers_open = true;
        return committer_start(&s->committer, ret_problem);
}

struct lessor_routing_store *store_free(struct sqlite_store *s)
{
        committer_stop(&s->committer);
        if (s->readers_open)
                readers_done(&s->readers);
        batch_finalize(s);
        if (s->batch.arena != NULL && s->engine != NULL)
                batch_clear(s);
        s->engine = engine_free(s->engine);
        store_free_notes(s);
        asides_done(&s->asides);
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
        set_options(s, options);
        committer_init(&s->committer, &committer_ops, s);
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
