/* SPDX-License-Identifier: MIT */
#ifndef DATABASE_CHECKPOINTER_H
#define DATABASE_CHECKPOINTER_H

#include <pthread.h>
#include <sqlite3.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "base/buf.h"

/*
 * Folds the write-ahead log of one database file back, in a thread beside the writer's.
 */
struct checkpointer {
        pthread_t thread;
        pthread_mutex_t lock;
        pthread_cond_t wake;
        sqlite3 *db;
        const char *path;
        bool running, wanted, stopping;
        atomic_bool copied; /* most of the log is in the database: the rest is quick work */
};

/* path, vfs: borrowed while it runs. Returns as sqlite_db_open. */
int checkpointer_start(struct checkpointer *c, const char *path, const char *vfs, struct buf *ret_problem);

/* Also after a start that failed, and on a zeroed struct. */
void checkpointer_stop(struct checkpointer *c);

/* Asks for a round. */
void checkpointer_want(struct checkpointer *c);

#endif
