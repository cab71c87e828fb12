/* SPDX-License-Identifier: MIT */
#include "routing/directory/sql.h"

#include <stdarg.h>

#include "lessor/error.h"

static int error_of(int code)
{
        if ((code & 0xff) == SQLITE_CONSTRAINT)
                return LESSOR_E_EXISTS;
        return sqlite_db_error(code);
}

int sql_open(struct sql *s, const char *path, const struct sqlite_migration *migration,
             struct buf *ret_problem)
{
        int r;

        s->db = NULL;
        if (strcmp(path, ":memory:") == 0) {
                int code = sqlite3_open(path, &s->db);

                r = code == SQLITE_OK ? 0 : sqlite_db_problem(s->db, code, path, ret_problem);
        } else {
                r = sqlite_db_open(path, SQLITE_DB_WRITE, NULL, &s->db, ret_problem);
        }
        if (r == 0)
                r = sqlite_db_migrate(s->db, path, migration, ret_problem);
        if (r < 0)
                sql_close(s);
        return r;
}

void sql_close(struct sql *s)
{
        (void)sqlite3_close(s->db);
        s->db = NULL;
}

int sql_begin(struct sql *s)
{
        return error_of(sqlite3_exec(s->db, "BEGIN IMMEDIATE", NULL, NULL, NULL));
}

int sql_commit(struct sql *s)
{
        int r = error_of(sqlite3_exec(s->db, "COMMIT", NULL, NULL, NULL));

        if (r < 0)
                sql_rollback(s);
        return r;
}

void sql_rollback(struct sql *s)
{
        /* Some failures have rolled back already. */
        if (sqlite3_get_autocommit(s->db) == 0)
                (void)sqlite3_exec(s->db, "ROLLBACK", NULL, NULL, NULL);
}

static int bind_bytes(sqlite3_stmt *statement, int place, char type, struct lessor_slice bytes)
{
        if (bytes.p == NULL)
                return sqlite3_bind_null(statement, place);
        if (type == 'b')
                return sqlite3_bind_blob64(statement, place, bytes.p, bytes.n, SQLITE_TRANSIENT);
        return sqlite3_bind_text64(statement, place, bytes.p, bytes.n, SQLITE_TRANSIENT, SQLITE_UTF8);
}

static int prepare(struct sql *s, struct sql_rows *rows, const char *text, const char *types, va_list args)
{
        int code;

        rows->statement = NULL;
        code = sqlite3_prepare_v2(s->db, text, -1, &rows->statement, NULL);
        /* clang 14 does not see that the callers start `args`.
         * NOLINTBEGIN(clang-analyzer-valist.Uninitialized) */
        for (int i = 0; code == SQLITE_OK && types[i] != '\0'; i++) {
                if (types[i] == 'i')
                        code = sqlite3_bind_int64(rows->statement, i + 1, va_arg(args, int64_t));
                else
                        code = bind_bytes(rows->statement, i + 1, types[i],
                                          va_arg(args, struct lessor_slice));
        }
        /* NOLINTEND(clang-analyzer-valist.Uninitialized) */
        return error_of(code);
}

int sql_query(struct sql *s, struct sql_rows *rows, const char *text, const char *types, ...)
{
        va_list args;
        int r;

        va_start(args, types);
        r = prepare(s, rows, text, types, args);
        va_end(args);
        return r;
}

int sql_next(struct sql_rows *rows)
{
        int code = sqlite3_step(rows->statement);

        if (code == SQLITE_ROW)
                return 1;
        return error_of(code);
}

void sql_rows_done(struct sql_rows *rows)
{
        (void)sqlite3_finalize(rows->statement);
        rows->statement = NULL;
}

int sql_run(struct sql *s, int64_t *ret_n_changed, const char *text, const char *types, ...)
{
        _cleanup_(sql_rows_done) struct sql_rows rows;
        va_list args;
        int r;

        va_start(args, types);
        r = prepare(s, &rows, text, types, args);
        va_end(args);
        if (r < 0 || (r = sql_next(&rows)) < 0)
                return r;
        if (ret_n_changed != NULL)
                *ret_n_changed = sqlite3_changes64(s->db);
        return 0;
}

int64_t sql_int(const struct sql_rows *rows, int column)
{
        return sqlite3_column_int64(rows->statement, column);
}

int sql_text(const struct sql_rows *rows, int column, struct lessor_arena *arena,
             struct lessor_slice *ret_text)
{
        struct lessor_slice text = {0};

        if (sqlite3_column_type(rows->statement, column) != SQLITE_NULL) {
                text.p = sqlite3_column_blob(rows->statement, column);
                text.n = (size_t)sqlite3_column_bytes(rows->statement, column);
                if (text.p == NULL && text.n != 0)
                        return LESSOR_E_NOMEM;
                if (text.p == NULL) /* SQLite gives no pointer for an empty text */
                        text.p = "";
        }
        return lessor_arena_copy(arena, text, ret_text);
}

int sql_number(struct sql *s, int64_t *ret_number, const char *text, const char *types, ...)
{
        _cleanup_(sql_rows_done) struct sql_rows rows;
        va_list args;
        int r;

        va_start(args, types);
        r = prepare(s, &rows, text, types, args);
        va_end(args);
        if (r < 0 || (r = sql_next(&rows)) < 0)
                return r;
        *ret_number = r == 1 ? sql_int(&rows, 0) : 0;
        return 0;
}
