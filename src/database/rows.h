/* SPDX-License-Identifier: MIT */
#ifndef DATABASE_ROWS_H
#define DATABASE_ROWS_H

#include <sqlite3.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "lessor/slice.h"

/* --- Reading --- */

/* Reads a row column by column, and remembers the first that is not what it has to be. */
struct row_reader {
        sqlite3_stmt *stmt;
        const char *bad; /* name of the column; NULL: all well so far. Good until the statement's end */
};

void row_bad(struct row_reader *row, int column);
bool row_is_null(const struct row_reader *row, int column);

/* Texts are borrowed from the row. One that has to be there is never absent. */
struct lessor_slice row_text_or_null(struct row_reader *row, int column);
struct lessor_slice row_text(struct row_reader *row, int column);
int64_t row_int(struct row_reader *row, int column, int64_t min, int64_t max);
/* 0 for NULL, else at least 0. */
int64_t row_int_or_0(struct row_reader *row, int column);
bool row_bool(struct row_reader *row, int column);
/* Its place among the words. */
unsigned row_word(struct row_reader *row, int column, const char *const *words, unsigned n);

/*
 * Calls `load` for every row of a query, until it returns less than 0. LESSOR_E_CORRUPT from it is taken for
 * the file's. Returns 0, what `load` returned, or as sqlite_db_problem.
 */
int rows_each(sqlite3 *db, const char *path, const char *sql, int (*load)(void *context, sqlite3_stmt *stmt),
              void *context, struct buf *ret_problem);

/* --- Writing --- */

/*
 * Binds values from the first parameter on. The answers are not looked at one by one: all they can say is
 * that a text is larger than SQLite's limit of 1 GB or that memory is short, and `code` keeps the last.
 */
struct binder {
        sqlite3_stmt *stmt;
        int at;
        int code;
};

#define BINDER(statement)                                       \
        {                                                       \
                .stmt = (statement), .at = 1, .code = SQLITE_OK \
        }

void bind_null(struct binder *b);
/* Borrowed until the statement is bound anew; absent is NULL. */
void bind_text(struct binder *b, struct lessor_slice text);
/* NULL stays NULL. */
void bind_word(struct binder *b, const char *word);
void bind_int(struct binder *b, int64_t value);
void bind_int_if(struct binder *b, bool is_there, int64_t value);
/* Ids start at 1: 0 is none, and NULL in the row. */
void bind_id(struct binder *b, uint64_t id);

/* Runs a statement that gives no rows, if what was bound was well. Returns SQLITE_OK or SQLite's code. */
int binder_run(const struct binder *b);
int statement_run(sqlite3_stmt *stmt);

#endif
