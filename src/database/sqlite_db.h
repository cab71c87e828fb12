/* SPDX-License-Identifier: MIT */
#ifndef DATABASE_SQLITE_DB_H
#define DATABASE_SQLITE_DB_H

#include <sqlite3.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"

/*
 * A database file of ours: how it is opened, whose it is, and which version of its tables it holds.
 *
 * Each part of the program that keeps tables in it ("routing", "directory", …) has a row in the table
 * `lessor_schema` with the version of its own tables, and its own list of steps from one version to the next.
 */

/* "less": what `PRAGMA application_id` of our file says, so that we never write into somebody else's
 * database. */
#define SQLITE_DB_APPLICATION_ID 0x6c657373

enum sqlite_db_use {
        SQLITE_DB_WRITE, /* one thread at a time */
        SQLITE_DB_READ,
};

/*
 * Opens a connection with the settings that every connection to the file needs: WAL, synchronous=FULL, five
 * seconds of patience with other writers, no checkpoints of its own (the file's checkpointer makes them).
 * A file that is not there is made, mode 0600, by SQLITE_DB_WRITE.
 *
 * vfs          NULL: SQLite's default
 * ret_db       written on success; end it with sqlite3_close
 * ret_problem  on failure a sentence for people is appended
 *
 * Returns 0; LESSOR_E_CORRUPT; LESSOR_E_PERMISSION; LESSOR_E_INVALID (a database that is not ours);
 * LESSOR_E_BUSY; LESSOR_E_IO; LESSOR_E_NOMEM.
 */
int sqlite_db_open(const char *path, enum sqlite_db_use use, const char *vfs, sqlite3 **ret_db,
                   struct buf *ret_problem);

/* The step that brings a part's tables from version i to version i + 1 is at index i. SQL text. */
struct sqlite_migration {
        const char *part;
        const char *const *steps;
        int64_t n_steps; /* and so the version that this program writes */
};

/*
 * Brings a part's tables to this program's version in one transaction; a new file starts at version 0.
 *
 * Returns 0; LESSOR_E_NEWER (nothing was touched); or as sqlite_db_open, with nothing changed.
 */
int sqlite_db_migrate(sqlite3 *db, const char *path, const struct sqlite_migration *migration,
                      struct buf *ret_problem);

/*
 * What a failed call of SQLite means, as one of the codes of sqlite_db_open, with a sentence that names the
 * file and the way out.
 *
 * code  what the call returned, extended or not
 */
int sqlite_db_problem(sqlite3 *db, int code, const char *path, struct buf *ret_problem);

/* The code alone, for failures while the store runs: LESSOR_E_NOMEM, _CORRUPT or _UNAVAILABLE. */
int sqlite_db_error(int code);

#endif
