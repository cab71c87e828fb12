/* SPDX-License-Identifier: MIT */
#ifndef CLIENT_OBJECT_CACHE_H
#define CLIENT_OBJECT_CACHE_H

#include "base/buf.h"
#include "base/macro.h"
#include "crypto/sha256.h"
#include "lessor/error.h"
#include "lessor/stop.h"

/*
 * Objects that a rack has fetched, by hash, in a directory of its own:
 *
 *     cache.lock            held by the agent that uses it
 *     objects/ab/cd…        256 directories by the first two digits of the hash
 *     tmp/                  what is being fetched; emptied at the start
 *
 * Slots share it: what one fetches the others wait for. What a job uses stays until the job is through with
 * it; the rest goes, the least recently used first, when there is more than the budget. A file's time is when
 * it was last used, so that a restart knows as well.
 *
 * Nothing is synced: an object that was there before this process is hashed before it is used for the first
 * time, and fetched again if a crash damaged it. Thread-safe.
 */
struct object_cache;

/*
 * Opens the directory, or makes it; its parent must be there.
 *
 * budget_bytes  what unused objects may take
 * ret_problem   on failure a clause for people; emptied first
 *
 * Returns 0; LESSOR_E_BUSY (another agent uses it); LESSOR_E_NOT_FOUND; LESSOR_E_PERMISSION; LESSOR_E_IO;
 * LESSOR_E_NOMEM.
 */
int object_cache_open(const char *path, int64_t budget_bytes, struct object_cache **ret_cache,
                      struct buf *ret_problem);

/* Nobody may be using it. Takes NULL, returns NULL. */
struct object_cache *object_cache_free(struct object_cache *cache);
DEFINE_CLEANUP(struct object_cache, object_cache_free)

/* Bytes that it takes now. */
int64_t object_cache_bytes(struct object_cache *cache);

enum cache_want {
        CACHE_HAVE,  /* it is there, and pinned for the caller */
        CACHE_FETCH, /* it is the caller's to fetch: object_cache_begin, or object_cache_give_up */
        CACHE_WAIT,  /* somebody else is at it, and the caller did not want to wait */
};

/*
 * Asks for an object. Who has been told to fetch others must not wait here before they are done, or two could
 * wait for each other.
 *
 * wait  until it is there or it is the caller's to fetch
 * stop  ends the waiting; may be NULL
 *
 * Returns 0; LESSOR_E_CLOSED (stop); LESSOR_E_NOMEM.
 */
int object_cache_want(struct object_cache *cache, struct lessor_slice hash, bool wait,
                      struct lessor_stop *stop, enum cache_want *ret_want);

/* Gives up fetching: whoever waits for it fetches it. Only after CACHE_FETCH. */
void object_cache_give_up(struct object_cache *cache, struct lessor_slice hash);

/* An object on its way in. One thread at a time. */
struct cache_writer {
        struct object_cache *cache;
        char hash[SHA256_HEX_LEN + 1];
        char *path;
        int fd;
        int64_t size; /* so far */
        struct sha256 sha;
};

/* Only after CACHE_FETCH. Returns 0; LESSOR_E_IO, LESSOR_E_LOW_SPACE, LESSOR_E_NOMEM: it is given up then. */
int object_cache_begin(struct object_cache *cache, struct lessor_slice hash, struct cache_writer *ret_writer);

/* The next bytes. Makes room if the disk is full. Returns 0, LESSOR_E_LOW_SPACE or LESSOR_E_IO. */
int cache_writer_add(struct cache_writer *writer, struct lessor_slice bytes);

/* Back to the first byte. Returns 0 or LESSOR_E_IO. */
int cache_writer_restart(struct cache_writer *writer);

/*
 * All of it is there: it is pinned for the caller now, if it is what its name says. Returns 0;
 * LESSOR_E_MISMATCH; LESSOR_E_IO. The writer is done with; after a failure the object is given up.
 */
int cache_writer_commit(struct cache_writer *writer);

/* Gives the object up. */
void cache_writer_abort(struct cache_writer *writer);

/* Opens an object that is pinned, to read. Returns a descriptor or LESSOR_E_IO. */
int object_cache_read(struct object_cache *cache, struct lessor_slice hash);

/* Once for each time that it was pinned. */
void object_cache_unpin(struct object_cache *cache, struct lessor_slice hash);

#endif
