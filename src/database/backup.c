/* SPDX-License-Identifier: MIT */
#include "database/backup.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "database/sqlite_db.h"
#include "lessor/error.h"

static int errno_error(int error)
{
        switch (error) {
        case EEXIST:
                return LESSOR_E_EXISTS;
        case EACCES:
        case EPERM:
        case EROFS:
                return LESSOR_E_PERMISSION;
        default:
                return LESSOR_E_IO;
        }
}

static int sync_path(const char *path, int flags)
{
        int fd = open(path, flags | O_CLOEXEC);
        int r;

        if (fd < 0)
                return errno_error(errno);
        r = fsync(fd) == 0 ? 0 : LESSOR_E_IO;
        (void)close(fd);
        return r;
}

static int sync_parent(const char *path)
{
        const char *slash = strrchr(path, '/');
        char *dir;
        int r;

        if (slash == NULL)
                return sync_path(".", O_RDONLY | O_DIRECTORY);
        dir = strndup(path, slash == path ? 1 : (size_t)(slash - path));
        if (dir == NULL)
                return LESSOR_E_NOMEM;
        r = sync_path(dir, O_RDONLY | O_DIRECTORY);
        free(dir);
        return r;
}

/* VACUUM INTO reads in one snapshot, so that what is written meanwhile neither shows nor makes it start over.
 */
static int vacuum_into(const char *from, const char *vfs, const char *path)
{
        struct buf problem;
        sqlite3 *db;
        sqlite3_stmt *stmt = NULL;
        int code, r;

        buf_init(&problem);
        r = sqlite_db_open(from, SQLITE_DB_READ, vfs, &db, &problem);
        if (r < 0) {
                log_error("database-backup-failed", LOG_TEXT("why", buf_view(&problem)));
                buf_done(&problem);
                return r;
        }
        buf_done(&problem);
        code = sqlite3_prepare_v2(db, "VACUUM INTO ?1", -1, &stmt, NULL);
        if (code == SQLITE_OK)
                code = sqlite3_bind_text(stmt, 1, path, -1, SQLITE_STATIC);
        if (code == SQLITE_OK)
                code = sqlite3_step(stmt);
        r = code == SQLITE_DONE ? 0 : LESSOR_E_IO;
        if (r < 0)
                log_error("database-backup-failed", LOG_CSTR("path", path),
                          LOG_CSTR("why", sqlite3_errmsg(db)));
        (void)sqlite3_finalize(stmt);
        (void)sqlite3_close(db);
        return r;
}

/*
 * Under a name of its own first: the file appears under its real name whole and on disk, or not at all.
 * SQLite does not sync what VACUUM INTO writes.
 */
int sqlite_db_backup(const char *from, const char *vfs, const char *to)
{
        char suffix[] = ".XXXXXX";
        struct buf partial;
        int fd, r;

        if (access(to, F_OK) == 0)
                return LESSOR_E_EXISTS;
        buf_init(&partial);
        (void)buf_printf(&partial, "%s%s", to, suffix);
        if (buf_failed(&partial) < 0)
                return LESSOR_E_NOMEM;
        fd = mkostemp(partial.p, O_CLOEXEC); /* mode 0600 */
        r = fd < 0 ? errno_error(errno) : 0;
        if (r == 0) {
                (void)close(fd);
                r = vacuum_into(from, vfs, partial.p);
                if (r == 0)
                        r = sync_path(partial.p, O_RDWR);
                /* Unlike rename, link never replaces a file. */
                if (r == 0 && link(partial.p, to) != 0)
                        r = errno_error(errno);
                (void)unlink(partial.p);
                if (r == 0)
                        r = sync_parent(to);
        }
        buf_done(&partial);
        return r;
}
