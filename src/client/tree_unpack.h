/* SPDX-License-Identifier: MIT */
#ifndef CLIENT_TREE_UNPACK_H
#define CLIENT_TREE_UNPACK_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "lessor/error.h"
#include "wire/task_objects.h"

/*
 * Places a tree's files in a directory: the way back of tree_pack.h. The tree is not trusted.
 *
 * Everything lands below the directory: names are taken one by one from the file descriptor of the one above,
 * never through a link, and nothing that is there is ever opened, replaced or removed. Files are made with
 * mode 644 or 755 and directories with 755, less the umask; links are made as they are, and cannot lead out
 * of their tree (docs/objects.md). What two entries share is copied: no two files are one.
 *
 * Every object is hashed as it comes, so that no file ever holds other bytes than the tree says. A file gets
 * its bytes first and its mode last. Blocks of zeros become holes. Memory does not grow with sizes.
 *
 * On failure what was placed so far stays; it is the caller's directory to remove.
 */

/* Takes the bytes of one object. */
struct tree_taker;

/* Each returns 0 or the code with which to end: hand it on. The next piece of the object: */
int tree_take(struct tree_taker *taker, struct lessor_slice bytes);

/*
 * Or all of it at once: an open file, from its beginning.
 *
 * verified  whoever has the file knows that it has that hash and size, and that nobody writes to it; then it
 * is not read again but copied by the file system, in no time where that shares blocks
 */
int tree_take_file(struct tree_taker *taker, int file, bool verified);

/* Where the objects come from. */
struct tree_source {
        void *context;
        /*
         * Brings one object, by either of the above. Returns 0; LESSOR_E_NOT_FOUND; or a code, which ends the
         * unpacking and is returned. An object that is named twice is asked for twice.
         */
        int (*object)(void *context, struct lessor_slice hash, int64_t size, struct tree_taker *taker);
        /*
         * Told before the files of one list of entries are placed, what is going to be asked for: these
         * objects, in this order. May be NULL. Not 0 ends the unpacking and is returned.
         */
        int (*expect)(void *context, const struct tree_entry *entries, size_t n);
        /* How far it is: files placed so far and their bytes. May be NULL. Not 0 ends the unpacking. */
        int (*progress)(void *context, int64_t n_files, int64_t n_bytes);
};

/* What was placed. */
struct tree_unpacked {
        int64_t n_files;
        int64_t n_bytes;
};

/*
 * Places the tree object `hash`, of so many bytes, below the directory `dir`.
 *
 * ret_unpacked  may be NULL
 * ret_problem   on failure a clause for people that names path and object; emptied first. May not be NULL
 *
 * Returns 0; LESSOR_E_NOT_FOUND (an object is missing); LESSOR_E_MISMATCH (an object has other bytes than its
 * name or its size says); LESSOR_E_INVALID, LESSOR_E_MALFORMED (an object that should be a tree is none);
 * LESSOR_E_TOO_LARGE (more levels or objects than a tree may have); LESSOR_E_EXISTS (there is something at
 * one of its paths); LESSOR_E_PERMISSION (a link is in the way); LESSOR_E_LOW_SPACE; LESSOR_E_IO;
 * LESSOR_E_NOMEM; what the source says.
 */
int tree_unpack(struct lessor_slice hash, int64_t size, int dir, const struct tree_source *source,
                struct tree_unpacked *ret_unpacked, struct buf *ret_problem);

/* As tree_unpack, for entries that are at hand: those of a tree that was read, or a task's inputs. */
int tree_unpack_entries(const struct tree_entry *entries, size_t n, int dir, const struct tree_source *source,
                        struct tree_unpacked *ret_unpacked, struct buf *ret_problem);

#endif
