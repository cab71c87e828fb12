/* SPDX-License-Identifier: MIT */
#include "database/rows.h"

#include "database/sqlite_db.h"
#include "lessor/error.h"

void row_bad(struct row_reader *row, int column)
{
        if (row->bad == NULL)
                row->bad = sqlite3_column_name(row->stmt, column);
}

bool row_is_null(const struct row_reader *row, int column)
{
        return sqlite3_column_type(row->stmt, column) == SQLITE_NULL;
}

struct lessor_slice row_text_or_null(struct row_reader *row, int column)
{
        struct lessor_slice text = {NULL, 0};
        int type = sqlite3_column_type(row->stmt, column);

        if (type == SQLITE_NULL)
                return text;
        if (type != SQLITE_TEXT) {
                row_bad(row, column);
                return text;
        }
        text.p = (const char *)sqlite3_column_text(row->stmt, column);
        text.n = (size_t)sqlite3_column_bytes(row->stmt, column);
        return text;
}

struct lessor_slice row_text(struct row_reader *row, int column)
{
        struct lessor_slice text = row_text_or_null(row, column);

        if (text.p == NULL)
                row_bad(row, column);
        return text;
}

int64_t row_int(struct row_reader *row, int column, int64_t min, int64_t max)
{
        int64_t value = sqlite3_column_int64(row->stmt, column);

        if (sqlite3_column_type(row->stmt, column) == SQLITE_INTEGER && value >= min && value <= max)
                return value;
        row_bad(row, column);
        return min;
}

int64_t row_int_or_0(struct row_reader *row, int column)
{
        return row_is_null(row, column) ? 0 : row_int(row, column, 0, INT64_MAX);
}

bool row_bool(struct row_reader *row, int column)
{
        return row_int(row, column, 0, 1) != 0;
}

unsigned row_word(struct row_reader *row, int column, const char *const *words, unsigned n)
{
        struct lessor_slice text = row_text_or_null(row, column);

        for (unsigned i = 0; i < n; i++)
                if (text.p != NULL && lessor_slice_equal(text, lessor_slice_of(words[i])))
                        return i;
        row_bad(row, column);
        return 0;
}

int rows_each(sqlite3 *db, const char *path, const char *sql, int (*load)(void *context, sqlite3_stmt *stmt),
              void *context, struct buf *ret_problem)
{
        sqlite3_stmt *stmt;
        int code, r = 0;

        code = sqlite3_prepare_v2(db, sql, -1, &stmt, NULL);
        if (code != SQLITE_OK)
                return sqlite_db_problem(db, code, path, ret_problem);
        while (r == 0 && (code = sqlite3_step(stmt)) == SQLITE_ROW)
                r = load(context, stmt);
        if (r == 0 && code != SQLITE_DONE)
                r = sqlite_db_problem(db, code, path, ret_problem);
        else if (r == LESSOR_E_CORRUPT)
                r = sqlite_db_problem(db, SQLITE_CORRUPT, path, ret_problem);
        (void)sqlite3_finalize(stmt);
        return r;
}

static void bound(struct binder *b, int code)
{
        b->at++;
        if (code != SQLITE_OK)
                b->code = code;
}

void bind_null(struct binder *b)
{
        bound(b, sqlite3_bind_null(b->stmt, b->at));
}

void bind_text(struct binder *b, struct lessor_slice text)
{
        if (text.p == NULL)
                bind_null(b);
        else
                bound(b, sqlite3_bind_text64(b->stmt, b->at, text.p, text.n, SQLITE_STATIC, SQLITE_UTF8));
}

void bind_word(struct binder *b, const char *word)
{
        bind_text(b, lessor_slice_of(word));
}

void bind_int(struct binder *b, int64_t value)
{
        bound(b, sqlite3_bind_int64(b->stmt, b->at, value));
}

void bind_int_if(struct binder *b, bool is_there, int64_t value)
{
        if (is_there)
                bind_int(b, value);
        else
                bind_null(b);
}

void bind_id(struct binder *b, uint64_t id)
{
        bind_int_if(b, id != 0, (int64_t)id);
}

int binder_run(const struct binder *b)
{
        return b->code == SQLITE_OK ? statement_run(b->stmt) : b->code;
}

int statement_run(sqlite3_stmt *stmt)
{
        int code = sqlite3_step(stmt);

        (void)sqlite3_reset(stmt);
        return code == SQLITE_DONE || code == SQLITE_ROW ? SQLITE_OK : code;
}
