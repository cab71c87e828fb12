/* SPDX-License-Identifier: MIT */
#include "fault_vfs.h"

#include <sqlite3.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

static sqlite3_vfs *real;
static atomic_long steps, strike_at;
static atomic_int strike_kind;
static atomic_bool strike_lasts, struck;

struct fault_file {
        sqlite3_file base;
        /* The real file follows. */
};

static sqlite3_file *inner(sqlite3_file *file)
{
        return (sqlite3_file *)(void *)((struct fault_file *)(void *)file + 1);
}

void fault_vfs_arm(long at, enum fault_kind kind, bool lasting)
{
        atomic_store(&steps, 0);
        atomic_store(&struck, false);
        atomic_store(&strike_kind, (int)kind);
        atomic_store(&strike_lasts, lasting);
        atomic_store(&strike_at, at);
}

void fault_vfs_heal(void)
{
        atomic_store(&strike_at, 0);
}

long fault_vfs_steps(void)
{
        return atomic_load(&steps);
}

bool fault_vfs_struck(void)
{
        return atomic_load(&struck);
}

/* Counts a step. SQLITE_OK, or what it fails with. */
static int count(int io_code)
{
        long n = atomic_fetch_add(&steps, 1) + 1;
        long at = atomic_load(&strike_at);

        if (at == 0 || n < at || (n > at && !atomic_load(&strike_lasts)))
                return SQLITE_OK;
        atomic_store(&struck, true);
        return atomic_load(&strike_kind) == FAULT_FULL ? SQLITE_FULL : io_code;
}

static int file_close(sqlite3_file *file)
{
        return inner(file)->pMethods->xClose(inner(file));
}

static int file_read(sqlite3_file *file, void *to, int n, sqlite3_int64 at)
{
        return inner(file)->pMethods->xRead(inner(file), to, n, at);
}

static int file_write(sqlite3_file *file, const void *from, int n, sqlite3_int64 at)
{
        int code = count(SQLITE_IOERR_WRITE);

        /* A write that fails may have got halfway. */
        if (code != SQLITE_OK) {
                (void)inner(file)->pMethods->xWrite(inner(file), from, n / 2, at);
                return code;
        }
        return inner(file)->pMethods->xWrite(inner(file), from, n, at);
}

static int file_truncate(sqlite3_file *file, sqlite3_int64 size)
{
        int code = count(SQLITE_IOERR_TRUNCATE);

        return code != SQLITE_OK ? code : inner(file)->pMethods->xTruncate(inner(file), size);
}

static int file_sync(sqlite3_file *file, int flags)
{
        int code = count(SQLITE_IOERR_FSYNC);

        return code != SQLITE_OK ? code : inner(file)->pMethods->xSync(inner(file), flags);
}

static int file_size(sqlite3_file *file, sqlite3_int64 *size)
{
        return inner(file)->pMethods->xFileSize(inner(file), size);
}

static int file_lock(sqlite3_file *file, int lock)
{
        return inner(file)->pMethods->xLock(inner(file), lock);
}

static int file_unlock(sqlite3_file *file, int lock)
{
        return inner(file)->pMethods->xUnlock(inner(file), lock);
}

static int file_check_lock(sqlite3_file *file, int *ret)
{
        return inner(file)->pMethods->xCheckReservedLock(inner(file), ret);
}

static int file_control(sqlite3_file *file, int op, void *argument)
{
        return inner(file)->pMethods->xFileControl(inner(file), op, argument);
}

static int file_sector(sqlite3_file *file)
{
        return inner(file)->pMethods->xSectorSize(inner(file));
}

static int file_device(sqlite3_file *file)
{
        return inner(file)->pMethods->xDeviceCharacteristics(inner(file));
}

static int file_shm_map(sqlite3_file *file, int page, int size, int extend, void volatile **ret)
{
        return inner(file)->pMethods->xShmMap(inner(file), page, size, extend, ret);
}

static int file_shm_lock(sqlite3_file *file, int at, int n, int flags)
{
        return inner(file)->pMethods->xShmLock(inner(file), at, n, flags);
}

static void file_shm_barrier(sqlite3_file *file)
{
        inner(file)->pMethods->xShmBarrier(inner(file));
}

static int file_shm_unmap(sqlite3_file *file, int flag)
{
        return inner(file)->pMethods->xShmUnmap(inner(file), flag);
}

static const sqlite3_io_methods methods = {
        .iVersion = 2, /* no memory mapping: it would pass by what is counted */
        .xClose = file_close,
        .xRead = file_read,
        .xWrite = file_write,
        .xTruncate = file_truncate,
        .xSync = file_sync,
        .xFileSize = file_size,
        .xLock = file_lock,
        .xUnlock = file_unlock,
        .xCheckReservedLock = file_check_lock,
        .xFileControl = file_control,
        .xSectorSize = file_sector,
        .xDeviceCharacteristics = file_device,
        .xShmMap = file_shm_map,
        .xShmLock = file_shm_lock,
        .xShmBarrier = file_shm_barrier,
        .xShmUnmap = file_shm_unmap,
};

static int vfs_open(sqlite3_vfs *vfs, const char *name, sqlite3_file *file, int flags, int *ret_flags)
{
        int code = SQLITE_OK;

        (void)vfs;
        file->pMethods = NULL;
        if ((flags & SQLITE_OPEN_READWRITE) != 0)
                code = count(SQLITE_CANTOPEN);
        if (code == SQLITE_OK)
                code = real->xOpen(real, name, inner(file), flags, ret_flags);
        if (code == SQLITE_OK)
                file->pMethods = &methods;
        return code;
}

static int vfs_delete(sqlite3_vfs *vfs, const char *name, int sync)
{
        int code = count(SQLITE_IOERR_DELETE);

        (void)vfs;
        return code != SQLITE_OK ? code : real->xDelete(real, name, sync);
}

void fault_vfs_register(void)
{
        static sqlite3_vfs vfs;

        real = sqlite3_vfs_find(NULL);
        vfs = *real;
        vfs.pNext = NULL;
        vfs.zName = FAULT_VFS_NAME;
        vfs.szOsFile = (int)sizeof(struct fault_file) + real->szOsFile;
        vfs.xOpen = vfs_open;
        vfs.xDelete = vfs_delete;
        if (sqlite3_vfs_register(&vfs, 0) != SQLITE_OK)
                abort();
}
