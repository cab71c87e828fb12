/* SPDX-License-Identifier: MIT */
#ifndef DATABASE_BACKUP_H
#define DATABASE_BACKUP_H

/*
 * Copies a database that may be written meanwhile, as it is at one moment, to a new file, mode 0600. The file
 * appears whole and on disk, or not at all.
 *
 * vfs  of the database; NULL: SQLite's default
 *
 * Returns 0; LESSOR_E_EXISTS (there is such a file: it is left alone); LESSOR_E_PERMISSION; LESSOR_E_IO;
 * LESSOR_E_NOMEM; or as sqlite_db_open.
 */
int sqlite_db_backup(const char *from, const char *vfs, const char *to);

#endif
