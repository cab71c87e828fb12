/* SPDX-License-Identifier: MIT */
#ifndef LESSOR_OBJECT_STORE_H
#define LESSOR_OBJECT_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lessor/arena.h"
#include "lessor/error.h"
#include "lessor/slice.h"

/*
 * Bytes by their SHA-256: what tasks read and write (rack-protocol sections 6.6, 7 and 18).
 *
 * An object is named by a repository and a hash (64 lower-case hex digits). Repositories are namespaces of
 * their own: an object of one cannot be read in another. They come into being with their first object. A name
 * is 1 to 128 letters, digits, `.`, `_` and `-`, and begins with a letter or digit, so `@rack` is none.
 *
 * Bytes become an object in one of two ways. put: at once, by whoever may write the repository. stage and
 * commit: the bytes of one attempt of a lease are kept aside, unreadable, until they are committed.
 *
 * Every operation is thread-safe and returns 0 or a code. Besides those named with each: LESSOR_E_INVALID (no
 * repository name, no hash), LESSOR_E_NOMEM, LESSOR_E_IO, LESSOR_E_LOW_SPACE, LESSOR_E_PERMISSION. What an
 * operation reports as done is durable when it returns; those that write wait for the disk, and many at a
 * time wait together, so call them from several threads.
 */
struct lessor_object_store;
struct lessor_object_writer;

/* --- Writing --- */

/* For whom bytes are kept aside: one attempt of a lease. Texts are opaque. */
struct lessor_object_stage {
        struct lessor_slice repo;
        struct lessor_slice lease_id;
        struct lessor_slice attempt;
};

/* What a writer made. */
struct lessor_object_written {
        struct lessor_slice hash;
        int64_t size;
        bool was_there;              /* put: the repository had the object already */
        struct lessor_slice receipt; /* stage: opaque, at most 128 characters without blanks; else absent */
};

/*
 * Begins an object.
 *
 * hash  what the bytes must hash to; absent: whatever they do
 * size  how many bytes there must be, up to 5 GiB; -1: as many as come, up to that
 *
 * Returns 0; LESSOR_E_TOO_LARGE (the size); LESSOR_E_LOW_SPACE (the disk would be nearly full afterwards).
 */
int lessor_object_put(struct lessor_object_store *s, struct lessor_slice repo, struct lessor_slice hash,
                      int64_t size, struct lessor_object_writer **ret_writer);

/* As lessor_object_put, for bytes that are kept aside. Hash and size are required. */
int lessor_object_stage(struct lessor_object_store *s, const struct lessor_object_stage *stage,
                        struct lessor_slice hash, int64_t size, struct lessor_object_writer **ret_writer);

/*
 * Adds bytes. A writer belongs to one thread at a time. Returns 0; LESSOR_E_MISMATCH (more than the size);
 * LESSOR_E_TOO_LARGE (no size was given, and it is too much). After a failure the writer only gives its code.
 */
int lessor_object_write(struct lessor_object_writer *w, struct lessor_slice bytes);

/*
 * Verifies length and hash, and makes the bytes an object, or keeps them aside. Of several writers of one
 * object all succeed. The writer stays the caller's, and only to be freed.
 *
 * Returns 0; LESSOR_E_MISMATCH (other bytes than announced; nothing is kept).
 */
int lessor_object_finish(struct lessor_object_writer *w, struct lessor_arena *arena,
                         struct lessor_object_written *ret_written);

/* Ends a writer; what was not finished leaves nothing behind. Takes NULL, returns NULL. */
struct lessor_object_writer *lessor_object_writer_free(struct lessor_object_writer *w);

/* --- Bytes kept aside --- */

struct lessor_object_version {
        struct lessor_slice hash;
        int64_t size;
        struct lessor_slice receipt;
};

/*
 * Makes objects of what was kept aside for this attempt under exactly these hashes, sizes and receipts. The
 * caller sees to it that the attempt still holds its lease. Repeating it answers the same until the version
 * is discarded. Where the repository had the object, that one is referenced again and stays.
 *
 * ret_committed  n answers: false where there is no such version
 */
int lessor_object_commit(struct lessor_object_store *s, const struct lessor_object_stage *stage,
                         const struct lessor_object_version *versions, size_t n, bool *ret_committed);

/*
 * Reads a version again and verifies it. Returns 0; LESSOR_E_NOT_FOUND (there is none of that attempt, hash,
 * size and receipt); LESSOR_E_CORRUPT.
 */
int lessor_object_check_staged(struct lessor_object_store *s, const struct lessor_object_stage *stage,
                               const struct lessor_object_version *version);

/* Forgets a version. An object that was made of it stays; a receipt that means nothing is no error. */
int lessor_object_discard(struct lessor_object_store *s, struct lessor_slice repo,
                          struct lessor_slice receipt);

/*
 * Discards the versions that nobody wants, in every repository: after a crash, and now and then.
 *
 * min_age_ms  younger ones are left alone: their receipts may not have been written down yet
 * wants       answers 1 (keep), 0 (discard) or an error, which ends the sweep and is returned
 */
int lessor_object_sweep_staged(struct lessor_object_store *s, int64_t min_age_ms,
                               int (*wants)(void *context, struct lessor_slice repo,
                                            struct lessor_slice receipt),
                               void *context, size_t *ret_n_discarded);

/* --- Reading --- */

struct lessor_object_info {
        struct lessor_slice hash;
        int64_t size;
        int64_t touched_ms; /* when it was last written or referenced, store clock */
};

struct lessor_object_info_list {
        struct lessor_object_info *items;
        size_t n;
};

/*
 * Opens an object. It stays readable while it is open, whatever becomes of its name.
 *
 * ret_fd    a regular file open for reading, for pread and sendfile; the caller closes it
 * ret_size  may be NULL
 *
 * Returns 0; LESSOR_E_NOT_FOUND.
 */
int lessor_object_open(struct lessor_object_store *s, struct lessor_slice repo, struct lessor_slice hash,
                       int *ret_fd, int64_t *ret_size);

/* Returns 0; LESSOR_E_NOT_FOUND. The hash of the answer is that of the question. */
int lessor_object_stat(struct lessor_object_store *s, struct lessor_slice repo, struct lessor_slice hash,
                       struct lessor_object_info *ret_info);

/*
 * The sizes of many objects; -1 for one that is not there, or whose hash is none. Knowing that an object is
 * there keeps nobody from removing it: who is going to rely on it says lessor_object_touch instead, and has
 * the grace period of the next collection.
 */
int lessor_object_sizes(struct lessor_object_store *s, struct lessor_slice repo,
                        const struct lessor_slice *hashes, size_t n, int64_t *ret_sizes);
int lessor_object_touch(struct lessor_object_store *s, struct lessor_slice repo,
                        const struct lessor_slice *hashes, size_t n, int64_t *ret_sizes);

/*
 * The objects of a repository in order of their hashes, at most `max` of those after `after` (absent: from
 * the first). An unknown repository has none.
 */
int lessor_object_list(struct lessor_object_store *s, struct lessor_slice repo, struct lessor_slice after,
                       size_t max, struct lessor_arena *arena, struct lessor_object_info_list *ret_list);

/* The repositories that there are, in byte order. */
int lessor_object_repos(struct lessor_object_store *s, struct lessor_arena *arena,
                        struct lessor_slice **ret_repos, size_t *ret_n);

/* --- Keeping house --- */

/* Where the roots of a collection are told; given to lessor_object_collection.roots. */
struct lessor_object_keeper {
        /*
         * Keeps an object and all that it names (docs/objects.md). Returns 0, also when it is not there, or
         * the error that ends the collection.
         */
        int (*keep)(struct lessor_object_keeper *keeper, struct lessor_slice repo, struct lessor_slice hash);
};

struct lessor_object_collection {
        int64_t grace_ms; /* what was written or referenced within this time stays */
        /*
         * Tells everything that must stay: what live leases may read, and what attempts and runs put out.
         * An error ends the collection, and nothing is removed.
         */
        int (*roots)(void *context, struct lessor_object_keeper *keeper);
        void *context;
        bool dry; /* removes nothing, only counts */
};

struct lessor_object_collected {
        size_t n_kept;
        int64_t kept_bytes;
        size_t n_removed;
        int64_t removed_bytes;
        size_t n_missing; /* roots, or objects named by them, that are not there */
};

/*
 * Removes the objects that are neither named by the roots nor young. It may run beside everything else, in
 * any number of processes, and be killed at any moment: an object that was there when it was touched stays
 * for the grace period, and one that is being put stays too.
 */
int lessor_object_collect(struct lessor_object_store *s, const struct lessor_object_collection *collection,
                          struct lessor_object_collected *ret_collected);

struct lessor_object_verified {
        size_t n_sound;
        int64_t sound_bytes;
        size_t n_damaged;
};

/*
 * Hashes every object of a repository again.
 *
 * set_aside  move damaged ones out of the way, so that they read as missing and can be written again
 * damaged    told about each; may be NULL. Not 0 ends the work and is returned
 */
int lessor_object_verify(struct lessor_object_store *s, struct lessor_slice repo, bool set_aside,
                         int (*damaged)(void *context, struct lessor_slice hash), void *context,
                         struct lessor_object_verified *ret_verified);

/* Whether a text is a repository's name, or a hash. */
bool lessor_object_repo_valid(struct lessor_slice repo);
bool lessor_object_hash_valid(struct lessor_slice hash);

/* Closes the store; all its writers must have been freed. Takes NULL, returns NULL. */
struct lessor_object_store *lessor_object_store_free(struct lessor_object_store *s);

/* --- For whoever writes a store --- */

/* Each is the function of its name, called with names and hashes that are valid. */
struct lessor_object_store_ops {
        int (*put)(struct lessor_object_store *s, struct lessor_slice repo, struct lessor_slice hash,
                   int64_t size, struct lessor_object_writer **ret_writer);
        int (*stage)(struct lessor_object_store *s, const struct lessor_object_stage *stage,
                     struct lessor_slice hash, int64_t size, struct lessor_object_writer **ret_writer);
        int (*write)(struct lessor_object_writer *w, struct lessor_slice bytes);
        int (*finish)(struct lessor_object_writer *w, struct lessor_arena *arena,
                      struct lessor_object_written *ret_written);
        struct lessor_object_writer *(*writer_free)(struct lessor_object_writer *w);
        int (*commit)(struct lessor_object_store *s, const struct lessor_object_stage *stage,
                      const struct lessor_object_version *versions, size_t n, bool *ret_committed);
        int (*check_staged)(struct lessor_object_store *s, const struct lessor_object_stage *stage,
                            const struct lessor_object_version *version);
        int (*discard)(struct lessor_object_store *s, struct lessor_slice repo, struct lessor_slice receipt);
        int (*sweep_staged)(struct lessor_object_store *s, int64_t min_age_ms,
                            int (*wants)(void *context, struct lessor_slice repo,
                                         struct lessor_slice receipt),
                            void *context, size_t *ret_n_discarded);
        int (*open)(struct lessor_object_store *s, struct lessor_slice repo, struct lessor_slice hash,
                    int *ret_fd, int64_t *ret_size);
        int (*stat)(struct lessor_object_store *s, struct lessor_slice repo, struct lessor_slice hash,
                    struct lessor_object_info *ret_info);
        /* Sizes and touch in one; here hashes need not be valid. */
        int (*look)(struct lessor_object_store *s, struct lessor_slice repo,
                    const struct lessor_slice *hashes, size_t n, bool touch, int64_t *ret_sizes);
        int (*list)(struct lessor_object_store *s, struct lessor_slice repo, struct lessor_slice after,
                    size_t max, struct lessor_arena *arena, struct lessor_object_info_list *ret_list);
        int (*repos)(struct lessor_object_store *s, struct lessor_arena *arena,
                     struct lessor_slice **ret_repos, size_t *ret_n);
        int (*collect)(struct lessor_object_store *s, const struct lessor_object_collection *collection,
                       struct lessor_object_collected *ret_collected);
        int (*verify)(struct lessor_object_store *s, struct lessor_slice repo, bool set_aside,
                      int (*damaged)(void *context, struct lessor_slice hash), void *context,
                      struct lessor_object_verified *ret_verified);
        struct lessor_object_store *(*free)(struct lessor_object_store *s);
};

/* The bases of every store and writer; an implementation embeds them first. */
struct lessor_object_store {
        const struct lessor_object_store_ops *ops;
};

struct lessor_object_writer {
        struct lessor_object_store *store;
};

#endif
