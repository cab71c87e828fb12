/* SPDX-License-Identifier: MIT */
#include "database/sqlite_db.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "base/macro.h"
#include "lessor/error.h"

#define BUSY_TIMEOUT_MS 5000

int sqlite_db_error(int code)
{
        switch (code & 0xff) {
        case SQLITE_OK:
        case SQLITE_ROW:
        case SQLITE_DONE:
                return 0;
        case SQLITE_NOMEM:
                return LESSOR_E_NOMEM;
        case SQLITE_CORRUPT:
        case SQLITE_NOTADB:
                return LESSOR_E_CORRUPT;
        default:
                return LESSOR_E_UNAVAILABLE;
        }
}

int sqlite_db_problem(sqlite3 *db, int code, const char *path, struct buf *ret_problem)
{
        const char *text =
                db != NULL && sqlite3_errcode(db) != SQLITE_OK ? sqlite3_errmsg(db) : sqlite3_errstr(code);

        switch (code & 0xff) {
        case SQLITE_NOMEM:
                return LESSOR_E_NOMEM;
        case SQLITE_NOTADB:
        case SQLITE_CORRUPT:
                (void)buf_printf(
                        ret_problem,
                        "the database %s is damaged (%s); keep a copy of the data directory, then put "
                        "back the last file of `lessor backup`, or save what `sqlite3 %s .dump` can "
                        "still read (docs/operations.md says how)",
                        path, text, path);
                return LESSOR_E_CORRUPT;
        case SQLITE_READONLY:
        case SQLITE_PERM:
        case SQLITE_CANTOPEN:
        case SQLITE_AUTH:
                (void)buf_printf(
                        ret_problem,
                        "the database %s cannot be opened for writing (%s); the server needs to write "
                        "the file and its directory",
                        path, text);
                return LESSOR_E_PERMISSION;
        case SQLITE_FULL:
                (void)buf_printf(ret_problem, "no space left to open the database %s; free some", path);
                return LESSOR_E_IO;
        case SQLITE_BUSY:
        case SQLITE_LOCKED:
                (void)buf_printf(ret_problem, "the database %s is locked by another program (%s)", path,
                                 text);
                return LESSOR_E_BUSY;
        default:
                (void)buf_printf(ret_problem, "the database %s cannot be used: %s", path, text);
                return LESSOR_E_IO;
        }
}

/*
 * Makes the file with a mode that SQLite would not give it; its -wal and -shm files take the mode from it.
 * Closing a descriptor drops this process's POSIX locks on the file, so it must be one that nobody can have
 * open: O_EXCL.
 */
static int make_private(const char *path, struct buf *ret_problem)
{
        int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

        if (fd >= 0) {
                (void)close(fd);
                return 0;
        }
        if (errno == EEXIST)
                return 0;
        (void)buf_printf(ret_problem, "the database %s cannot be made: %s", path, strerror(errno));
        return errno == EACCES || errno == EPERM || errno == EROFS ? LESSOR_E_PERMISSION : LESSOR_E_IO;
}

static int query_int(sqlite3 *db, const char *sql, int64_t *ret_value)
{
        sqlite3_stmt *stmt;
        int code;

        code = sqlite3_prepare_v2(db, sql, -1, &stmt, NULL);
        if (code != SQLITE_OK)
                return code;
        code = sqlite3_step(stmt);
        if (code == SQLITE_ROW)
                *ret_value = sqlite3_column_int64(stmt, 0);
        (void)sqlite3_finalize(stmt);
        return code == SQLITE_ROW || code == SQLITE_DONE ? SQLITE_OK : code;
}

/*
 * auto_vacuum stays off: pages of deleted envelopes are used again, and the other modes pay for every page of
 * every envelope with a pointer page. `lessor backup` writes a compact copy.
 * secure_delete=FAST zeroes what it can without writing more; Debian's default of ON would write every page
 * of a deleted 6 MiB envelope, which is ciphertext that the server cannot read anyway.
 */
static int configure(sqlite3 *db, enum sqlite_db_use use)
{
        int code = sqlite3_busy_timeout(db, BUSY_TIMEOUT_MS);

        if (code == SQLITE_OK && use == SQLITE_DB_WRITE)
                code = sqlite3_exec(db, "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL;", NULL, NULL,
                                    NULL);
        if (code == SQLITE_OK)
                code = sqlite3_exec(db,
                                    "PRAGMA wal_autocheckpoint=0; PRAGMA secure_delete=FAST;"
                                    "PRAGMA journal_size_limit=67108864; PRAGMA foreign_keys=OFF;"
                                    "PRAGMA temp_store=MEMORY; PRAGMA trusted_schema=OFF;",
                                    NULL, NULL, NULL);
        return code;
}

/* A file with no application id and no tables is new; one that has another id, or tables and no id, is not
 * ours. */
static int claim_file(sqlite3 *db, const char *path, enum sqlite_db_use use, struct buf *ret_problem)
{
        int64_t id = 0, n_tables = 0;
        char sql[64];
        int code;

        code = query_int(db, "PRAGMA application_id", &id);
        if (code == SQLITE_OK && id == 0)
                code = query_int(db, "SELECT count(*) FROM sqlite_schema", &n_tables);
        if (code != SQLITE_OK)
                return sqlite_db_problem(db, code, path, ret_problem);
        if (id == SQLITE_DB_APPLICATION_ID)
                return 0;
        if (id != 0 || n_tables != 0) {
                (void)buf_printf(ret_problem, "%s is a database of another program; use another directory",
                                 path);
                return LESSOR_E_INVALID;
        }
        if (use == SQLITE_DB_READ)
                return 0;
        (void)sqlite3_snprintf(sizeof(sql), sql, "PRAGMA application_id=%d", SQLITE_DB_APPLICATION_ID);
        code = sqlite3_exec(db, sql, NULL, NULL, NULL);
        return code == SQLITE_OK ? 0 : sqlite_db_problem(db, code, path, ret_problem);
}

int sqlite_db_open(const char *path, enum sqlite_db_use use, const char *vfs, sqlite3 **ret_db,
                   struct buf *ret_problem)
{
        int flags =
                SQLITE_OPEN_NOMUTEX | (use == SQLITE_DB_WRITE ? SQLITE_OPEN_READWRITE : SQLITE_OPEN_READONLY);
        sqlite3 *db = NULL;
        int code, r;

        if (use == SQLITE_DB_WRITE) {
                r = make_private(path, ret_problem);
                if (r < 0)
                        return r;
        }
        code = sqlite3_open_v2(path, &db, flags, vfs);
        if (code == SQLITE_OK)
                (void)sqlite3_extended_result_codes(db, 1);
        /* SQLite falls back to reading alone by itself, and then fails late and dimly. */
        if (code == SQLITE_OK && use == SQLITE_DB_WRITE && sqlite3_db_readonly(db, "main") == 1)
                code = SQLITE_READONLY;
        r = code == SQLITE_OK ? claim_file(db, path, use, ret_problem)
                              : sqlite_db_problem(db, code, path, ret_problem);
        if (r == 0) {
                code = configure(db, use);
                r = code == SQLITE_OK ? 0 : sqlite_db_problem(db, code, path, ret_problem);
        }
        if (r < 0) {
                (void)sqlite3_close(db);
                return r;
        }
        *ret_db = db;
        return 0;
}

static int part_version(sqlite3 *db, const char *part, int64_t *ret_version)
{
        sqlite3_stmt *stmt;
        int64_t there = 0;
        int code;

        *ret_version = 0;
        code = query_int(db, "SELECT count(*) FROM sqlite_schema WHERE name='lessor_schema'", &there);
        if (code != SQLITE_OK || there == 0)
                return code;
        code = sqlite3_prepare_v2(db, "SELECT version FROM lessor_schema WHERE part=?1", -1, &stmt, NULL);
        if (code != SQLITE_OK)
                return code;
        (void)sqlite3_bind_text(stmt, 1, part, -1, SQLITE_STATIC);
        code = sqlite3_step(stmt);
        if (code == SQLITE_ROW)
                *ret_version = sqlite3_column_int64(stmt, 0);
        (void)sqlite3_finalize(stmt);
        return code == SQLITE_ROW || code == SQLITE_DONE ? SQLITE_OK : code;
}

static int run_steps(sqlite3 *db, const struct sqlite_migration *m, int64_t from)
{
        sqlite3_stmt *stmt;
        int code;

        code = sqlite3_exec(db,
                            "CREATE TABLE IF NOT EXISTS lessor_schema("
                            " part TEXT PRIMARY KEY, version INTEGER, written_by TEXT) WITHOUT ROWID;",
                            NULL, NULL, NULL);
        for (int64_t i = from; code == SQLITE_OK && i < m->n_steps; i++)
                code = sqlite3_exec(db, m->steps[i], NULL, NULL, NULL);
        if (code != SQLITE_OK)
                return code;
        code = sqlite3_prepare_v2(db, "REPLACE INTO lessor_schema VALUES(?1, ?2, ?3)", -1, &stmt, NULL);
        if (code != SQLITE_OK)
                return code;
        (void)sqlite3_bind_text(stmt, 1, m->part, -1, SQLITE_STATIC);
        (void)sqlite3_bind_int64(stmt, 2, m->n_steps);
        (void)sqlite3_bind_text(stmt, 3, LESSOR_VERSION, -1, SQLITE_STATIC);
        code = sqlite3_step(stmt);
        (void)sqlite3_finalize(stmt);
        return code == SQLITE_DONE ? SQLITE_OK : code;
}

int sqlite_db_migrate(sqlite3 *db, const char *path, const struct sqlite_migration *migration,
                      struct buf *ret_problem)
{
        int64_t version;
        int code, r;

        code = part_version(db, migration->part, &version);
        if (code != SQLITE_OK)
                return sqlite_db_problem(db, code, path, ret_problem);
        if (version > migration->n_steps) {
                (void)buf_printf(ret_problem,
                                 "the database %s was written by a newer version (its %s tables have version "
                                 "%" PRId64 ", this program knows %" PRId64
                                 "); run that version, or put back "
                                 "a backup from before the upgrade",
                                 path, migration->part, version, migration->n_steps);
                return LESSOR_E_NEWER;
        }
        if (version == migration->n_steps)
                return 0;
        code = sqlite3_exec(db, "BEGIN IMMEDIATE", NULL, NULL, NULL);
        if (code == SQLITE_OK)
                code = run_steps(db, migration, version);
        if (code == SQLITE_OK)
                code = sqlite3_exec(db, "COMMIT", NULL, NULL, NULL);
        r = code == SQLITE_OK ? 0 : sqlite_db_problem(db, code, path, ret_problem);
        if (sqlite3_get_autocommit(db) == 0)
                (void)sqlite3_exec(db, "ROLLBACK", NULL, NULL, NULL);
        return r;
}
