/* SPDX-License-Identifier: MIT */
#ifndef CLIENT_TREE_PACK_H
#define CLIENT_TREE_PACK_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "crypto/sha256.h"
#include "lessor/error.h"
#include "wire/task_objects.h"

/*
 * Files and directories as objects (docs/objects.md): every file is one, and lessor.tree/1 objects say where
 * they belong. tree_unpack.h is the way back.
 *
 * The same files always give the same objects: owners, times and the order in a directory play no part, and a
 * mode counts as 755 if its owner may run the file, else as 644. What is hard-linked is packed as often as it
 * is named. A large tree becomes a tree of trees, split where the largest directories are.
 *
 * Files are read twice, once for their hash and once by the sink, in pieces; memory goes with the number of
 * names, not with bytes. Directories are taken down to any depth that a path may have, and few are open at a
 * time. Within what is taken no symbolic link is ever followed: a link becomes a link, if it stays within the
 * tree.
 */

/* One object, as the sink is given it: bytes in memory, or an open file. */
struct tree_object {
        struct lessor_slice hash;
        int64_t size;
        bool is_tree;              /* a lessor.tree/1 made here */
        struct lessor_slice bytes; /* absent: the bytes are those of `fd` */
        int fd; /* open for reading, the packer's: read with pread(), and dup() it to keep it */
        struct lessor_slice path; /* for messages: where it was found; of a tree "" at the top */
};

/* Where objects go. */
struct tree_sink {
        void *context;
        /*
         * Takes one object. Each hash comes once (of one call of tree_pack), and what a tree names comes
         * before it. The object is borrowed for the call. Returns 0 or a code, which ends the packing and is
         * returned.
         *
         * The bytes are what they were a moment ago; who sends them on to where the hash is checked finds out
         * if the file has changed since. NULL: only the hashes are wanted.
         */
        int (*object)(void *context, const struct tree_object *object);
        /* How far it is: files looked at so far and their bytes. May be NULL. Not 0 ends the packing. */
        int (*progress)(void *context, int64_t n_files, int64_t n_bytes);
};

/* Something to pack, and its place in the tree. */
struct tree_root {
        struct lessor_slice at; /* a path of the tree (tree_path_valid); or absent: it is the whole tree, and
                                   a directory, and the only root */
        int dir;                /* `from` is seen from here; AT_FDCWD: the current directory */
        const char *from;       /* what to pack: a file, a directory or a link. "." is `dir` itself */
        /*
         * `from` comes from elsewhere, and may not lead out of `dir`: none of its parts may be a link but the
         * last, which is then packed as a link. Else it is the user's own word: links in it are followed.
         */
        bool within;
        bool optional; /* leave it out if it is not there */
};

/* What was packed. */
struct tree_packed {
        char hash[SHA256_HEX_LEN + 1]; /* of the tree */
        int64_t size;                  /* of the tree object itself, bytes */
        int64_t n_files;               /* in it, at all depths */
        int64_t n_bytes;               /* of those files, together */
        int64_t n_objects;             /* distinct, trees included */
};

/*
 * Packs the roots into one tree.
 *
 * roots        none lies within another; in any order
 * ret_problem  on failure a clause for people that names the path; emptied first. May not be NULL
 *
 * Returns 0; LESSOR_E_NOT_FOUND (a root is missing); LESSOR_E_INVALID (what a tree cannot hold: a device,
 * pipe or socket, a name that is not UTF-8, a link that leads out of the tree, a path that is too long; or a
 * root that leads out of `dir`); LESSOR_E_TOO_LARGE (a file over 5 GiB, a directory with more than
 * LIMIT_TREE_ENTRIES entries of its own, too many objects or levels); LESSOR_E_MISMATCH (a file changed while
 * it was read); LESSOR_E_PERMISSION; LESSOR_E_IO; LESSOR_E_NOMEM; what the sink says.
 */
int tree_pack(const struct tree_root *roots, size_t n_roots, const struct tree_sink *sink,
              struct tree_packed *ret_packed, struct buf *ret_problem);

/*
 * As tree_pack, but instead of writing the top tree it gives its entries, in order, to be a task's inputs.
 * They and what they point to are in the arena. The trees below are objects as ever.
 */
int tree_pack_entries(const struct tree_root *roots, size_t n_roots, const struct tree_sink *sink,
                      struct lessor_arena *arena, struct tree *ret_tree, struct tree_packed *ret_packed,
                      struct buf *ret_problem);

/*
 * One file as an object. `file` is open for reading. Gives its hash and size, and leaves it at its beginning.
 * Returns 0; LESSOR_E_INVALID (no regular file); LESSOR_E_TOO_LARGE; LESSOR_E_MISMATCH; LESSOR_E_IO.
 */
int tree_hash_file(int file, char ret_hash[SHA256_HEX_LEN + 1], int64_t *ret_size);

#endif
