/* SPDX-License-Identifier: MIT */
#include "plane/log_watch.h"

#include <pthread.h>
#include <sodium.h>
#include <stdlib.h>

struct log_watch {
        pthread_mutex_t lock;
        struct table watchers; /* by execution id; several may have one */
};

struct log_watch *log_watch_new(void)
{
        struct log_watch *watch = calloc(1, sizeof(*watch));
        unsigned char key[16];

        if (watch == NULL)
                return NULL;
        randombytes_buf(key, sizeof(key));
        if (table_init(&watch->watchers, key) < 0) {
                free(watch);
                return NULL;
        }
        pthread_mutex_init(&watch->lock, NULL);
        return watch;
}

struct log_watch *log_watch_free(struct log_watch *watch)
{
        if (watch == NULL)
                return NULL;
        pthread_mutex_destroy(&watch->lock);
        table_done(&watch->watchers);
        free(watch);
        return NULL;
}

void log_watch_wake(struct log_watch *watch, struct lessor_slice execution_id)
{
        uint64_t hash;

        if (watch == NULL)
                return;
        pthread_mutex_lock(&watch->lock);
        hash = table_hash(&watch->watchers, execution_id);
        for (struct table_node *node = table_first(&watch->watchers, hash); node != NULL;
             node = table_next(node)) {
                struct log_watcher *watcher = container_of(node, struct log_watcher, node);

                if (lessor_slice_equal(watcher->execution_id, execution_id))
                        watcher->grew(watcher);
        }
        pthread_mutex_unlock(&watch->lock);
}

void log_watch_heard(void *watch, const struct lessor_lease_event *event)
{
        if (event->execution_id.p != NULL && event->kind != LESSOR_EVENT_EXTENDED)
                log_watch_wake(watch, event->execution_id);
}

void log_watch_add(struct log_watch *watch, struct log_watcher *watcher)
{
        pthread_mutex_lock(&watch->lock);
        table_add(&watch->watchers, &watcher->node, table_hash(&watch->watchers, watcher->execution_id));
        pthread_mutex_unlock(&watch->lock);
}

void log_watch_remove(struct log_watch *watch, struct log_watcher *watcher)
{
        pthread_mutex_lock(&watch->lock);
        table_remove(&watch->watchers, &watcher->node);
        pthread_mutex_unlock(&watch->lock);
}
