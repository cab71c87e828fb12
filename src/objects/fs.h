/* SPDX-License-Identifier: MIT */
#ifndef OBJECTS_FS_H
#define OBJECTS_FS_H

#include <stdint.h>

#include "base/clock.h"
#include "lessor/object_store.h"
#include "objects/io.h"

/*
 * The object store in a directory:
 *
 *     format                    what this is, and its version
 *     tmp/ID/                   what the process ID is writing; locked as long as it lives
 *     repos/REPO/objects/ab/…   the objects, 256 directories by the first two digits of the hash
 *     repos/REPO/staged/…       versions kept aside, named by their receipts
 *     repos/REPO/damaged/…      what a verification set aside
 *
 * A file's modification time is when it was last referenced. Bytes are synced before they get their name, the
 * name before anybody hears of it. Removal and reference exclude each other by a lock on the directory, so
 * several processes may share one store on one machine. The file system must know hard links: a committed
 * version and its object are one file with two names.
 */
struct object_fs_options {
        const struct object_io *io; /* NULL: the system's */
        struct clock *clock;        /* NULL: the steady clock */
        int64_t low_space_bytes;    /* what a new object must leave free; negative: 64 MiB */
};

/*
 * Opens the store, or makes it: the directory itself may be missing, its parent not. Removes what dead
 * processes left half written.
 *
 * options  NULL: all as usual; the clock is borrowed
 *
 * Returns 0; LESSOR_E_NOT_FOUND (no parent); LESSOR_E_NEWER; LESSOR_E_CORRUPT (not a store);
 * LESSOR_E_PERMISSION; LESSOR_E_IO; LESSOR_E_LOW_SPACE; LESSOR_E_NOMEM.
 */
int object_fs_open(const char *path, const struct object_fs_options *options,
                   struct lessor_object_store **ret_store);

#endif
