/* SPDX-License-Identifier: MIT */
#ifndef DIRECTORY_SQL_H
#define DIRECTORY_SQL_H

#include <sqlite3.h>

#include "base/buf.h"
#include "base/macro.h"
#include "database/sqlite_db.h"
#include "lessor/arena.h"

/*
 * SQLite with arguments and errors as the rest of the project has them. One thread at a time.
 *
 * Arguments follow a text of letters: `t` a struct lessor_slice as TEXT, absent as NULL; `b` a struct
 * lessor_slice as BLOB; `i` an int64_t. Texts are borrowed for the call. Errors are those of sqlite_db_error,
 * and LESSOR_E_EXISTS where a uniqueness constraint is in the way.
 */
struct sql {
        sqlite3 *db;
};

/*
 * Opens a file with sqlite_db_open, or with ":memory:" a database that is forgotten, and brings the tables of
 * `migration` up to date. Errors and `ret_problem` as there.
 */
int sql_open(struct sql *s, const char *path, const struct sqlite_migration *migration,
             struct buf *ret_problem);
void sql_close(struct sql *s);

int sql_begin(struct sql *s);  /* a transaction that writes */
int sql_commit(struct sql *s); /* rolled back when it fails */
void sql_rollback(struct sql *s);

/* One statement without rows. `ret_n_changed` may be NULL. */
int sql_run(struct sql *s, int64_t *ret_n_changed, const char *text, const char *types, ...);

/* Rows one by one; `done` is due after every `query`, failed or not. */
struct sql_rows {
        sqlite3_stmt *statement;
};
int sql_query(struct sql *s, struct sql_rows *rows, const char *text, const char *types, ...);
/* 1: there is a row; 0: there is none left; or an error. */
int sql_next(struct sql_rows *rows);
void sql_rows_done(struct sql_rows *rows);

/* Columns of the row, from 0. NULL is 0, and the absent slice. */
int64_t sql_int(const struct sql_rows *rows, int column);
/* The text or bytes, copied into the arena. */
int sql_text(const struct sql_rows *rows, int column, struct lessor_arena *arena,
             struct lessor_slice *ret_text);

/* The number that a query gives: 0 when it has no row. */
int sql_number(struct sql *s, int64_t *ret_number, const char *text, const char *types, ...);

#endif
