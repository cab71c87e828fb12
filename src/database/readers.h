/* SPDX-License-Identifier: MIT */
#ifndef DATABASE_READERS_H
#define DATABASE_READERS_H

#include <pthread.h>
#include <stdint.h>

#include "lessor/arena.h"

/*
 * Connections that read long texts out of one database file, each by one thread at a time, beside the
 * writer. They are opened when they are first needed.
 */
#define READERS_COLUMNS_MAX 2

/* A column of texts in a table whose key is an integer. */
struct text_column {
        const char *table;
        const char *column;
        const char *sql; /* selects it by the key ?1 */
};

struct readers {
        pthread_mutex_t lock;
        pthread_cond_t back;
        struct reader *idle;
        unsigned n_open, max;
        const char *path, *vfs;
        const struct text_column *columns;
        unsigned n_columns;
};

/*
 * path, vfs, columns: borrowed. max: connections; n_columns: at most READERS_COLUMNS_MAX. Returns 0 or
 * LESSOR_E_NOMEM.
 */
int readers_init(struct readers *p, const char *path, const char *vfs, unsigned max,
                 const struct text_column *columns, unsigned n_columns);
/* Nobody may be reading. */
void readers_done(struct readers *p);

/*
 * Reads a text of `n` bytes that was committed.
 *
 * column  number of the column, in the order of init
 *
 * Returns 0; LESSOR_E_NOT_FOUND (no such row now); LESSOR_E_NOMEM; LESSOR_E_CORRUPT; LESSOR_E_UNAVAILABLE.
 */
int readers_text(struct readers *p, unsigned column, uint64_t key, uint64_t n, struct lessor_arena *arena,
                 struct lessor_slice *ret_text);

#endif
