/* SPDX-License-Identifier: MIT */
/*
 * Folds the write-ahead log back into the database, beside the writer.
 *
 * The bulk of the copying, and its sync, happens here, in a thread that holds nobody up. But a log under
 * constant writing is never wholly copied by somebody else, and so never starts over: when this thread has
 * done the bulk, the writer copies what little came since, between two commits (committer.c), and the
 * next commit starts the log anew.
 */
#include "database/checkpointer.h"

#include "base/log.h"
#include "database/sqlite_db.h"
#include "lessor/error.h"

static void *checkpointer_run(void *argument)
{
        struct checkpointer *c = argument;

        (void)pthread_mutex_lock(&c->lock);
        while (!c->stopping) {
                int code;

                if (!c->wanted) {
                        (void)pthread_cond_wait(&c->wake, &c->lock);
                        continue;
                }
                (void)pthread_mutex_unlock(&c->lock);
                code = sqlite3_wal_checkpoint_v2(c->db, "main", SQLITE_CHECKPOINT_PASSIVE, NULL, NULL);
                if (code != SQLITE_OK && code != SQLITE_BUSY)
                        log_warning("database-checkpoint-failed", LOG_CSTR("path", c->path),
                                    LOG_CSTR("why", sqlite3_errmsg(c->db)));
                (void)pthread_mutex_lock(&c->lock);
                c->wanted = false;
                atomic_store(&c->copied, code == SQLITE_OK);
        }
        (void)pthread_mutex_unlock(&c->lock);
        return NULL;
}

int checkpointer_start(struct checkpointer *c, const char *path, const char *vfs, struct buf *ret_problem)
{
        int r;

        *c = (struct checkpointer){.path = path};
        r = sqlite_db_open(path, SQLITE_DB_WRITE, vfs, &c->db, ret_problem);
        if (r < 0)
                return r;
        if (pthread_mutex_init(&c->lock, NULL) == 0) {
                if (pthread_cond_init(&c->wake, NULL) == 0) {
                        if (pthread_create(&c->thread, NULL, checkpointer_run, c) == 0) {
                                c->running = true;
                                return 0;
                        }
                        (void)pthread_cond_destroy(&c->wake);
                }
                (void)pthread_mutex_destroy(&c->lock);
        }
        (void)sqlite3_close(c->db);
        c->db = NULL;
        return LESSOR_E_NOMEM;
}

void checkpointer_stop(struct checkpointer *c)
{
        if (!c->running)
                return;
        (void)pthread_mutex_lock(&c->lock);
        c->stopping = true;
        (void)pthread_cond_signal(&c->wake);
        (void)pthread_mutex_unlock(&c->lock);
        (void)pthread_join(c->thread, NULL);
        (void)pthread_cond_destroy(&c->wake);
        (void)pthread_mutex_destroy(&c->lock);
        (void)sqlite3_close(c->db);
        c->running = false;
}

void checkpointer_want(struct checkpointer *c)
{
        (void)pthread_mutex_lock(&c->lock);
        if (!c->wanted) {
                c->wanted = true;
                (void)pthread_cond_signal(&c->wake);
        }
        (void)pthread_mutex_unlock(&c->lock);
}
