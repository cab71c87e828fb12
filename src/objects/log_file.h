/* SPDX-License-Identifier: MIT */
#ifndef OBJECTS_LOG_FILE_H
#define OBJECTS_LOG_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "lessor/error.h"
#include "lessor/slice.h"
#include "objects/io.h"

/*
 * What attempts wrote to stdout and stderr (rack-protocol sections 6.7, 10, 18 and 20): a file each,
 *
 *     REPO/TT/TASK.INPUTS.EXECUTION.stdout      and .stderr; TT: the first digits of the task's hash
 *
 * with a head of 1,024 bytes and then the text as it came. The head says, in two places that are written in
 * turn, how much of the file counts and what the last append was, so that an append which a crash tore is cut
 * back by whoever opens the file next, and one to both streams counts in both or in neither.
 *
 * Nothing is kept in memory: several processes may append to and read one log. Thread-safe.
 */
struct log_files;

enum log_stream { LOG_STDOUT, LOG_STDERR };
#define N_LOG_STREAMS 2

/* Which attempt. Hashes are 64 lower-case hex digits; an execution id is 1 to 64 letters, digits and `-`. */
struct log_key {
        struct lessor_slice repo;
        struct lessor_slice task_hash;
        struct lessor_slice inputs_hash;
        struct lessor_slice execution_id;
};

struct log_chunk {
        enum log_stream stream;
        struct lessor_slice bytes;
};

struct log_files_options {
        const struct object_io *io; /* NULL: the system's */
        int64_t limit_bytes;        /* of one stream; 0: LIMIT_LOG_BYTES */
        int64_t low_space_bytes;    /* what must be free; negative: 16 MiB */
};

/*
 * Opens the directory of the logs, or makes it; its parent must be there. Returns 0; LESSOR_E_NOT_FOUND;
 * LESSOR_E_PERMISSION; LESSOR_E_IO; LESSOR_E_NOMEM.
 */
int log_files_open(const char *path, const struct log_files_options *options, struct log_files **ret_logs);

/* Takes NULL, returns NULL. */
struct log_files *log_files_free(struct log_files *logs);

/*
 * Appends the chunks of one request, in order, as one: all of it is on disk when this returns 0, and nothing
 * of it stays otherwise, so that the request can be repeated. A stream that would get longer than its limit
 * is cut there, on a character's boundary, with a line that says so; what follows is dropped.
 *
 * Returns 0; LESSOR_E_INVALID (no such key can be); LESSOR_E_LOW_SPACE; LESSOR_E_IO; LESSOR_E_CORRUPT (the
 * file is no log); LESSOR_E_PERMISSION; LESSOR_E_NOMEM.
 */
int log_files_append(struct log_files *logs, const struct log_key *key, const struct log_chunk *chunks,
                     size_t n_chunks);

/*
 * Appends a line of the server's own to stderr, on a line of its own. It may go beyond the limit, up to
 * LIMIT_LOG_TAIL_BYTES in all. Returns as log_files_append.
 */
int log_files_say(struct log_files *logs, const struct log_key *key, struct lessor_slice line);

/* A piece of a log. */
struct log_window {
        int64_t offset; /* of its first byte; the next begins at offset + the bytes read */
        int64_t length; /* of the whole stream now */
        bool cut;       /* the stream has reached its limit */
};

/*
 * Reads from byte `offset` on, at most `max` bytes (at least 4), and appends them to `out`. A character is
 * never split between two windows of which one ends where the next begins: where one is not whole yet, it is
 * left for the next window, unless `ended` says that nothing will come.
 *
 * A log that was never written, and an offset beyond the end, read as empty. Returns 0; LESSOR_E_INVALID;
 * LESSOR_E_IO; LESSOR_E_CORRUPT; LESSOR_E_NOMEM.
 */
int log_files_read(struct log_files *logs, const struct log_key *key, enum log_stream stream, int64_t offset,
                   size_t max, bool ended, struct buf *out, struct log_window *ret_window);

/* Where a piece of a log is, for whoever sends it without reading it. What is there does not change any more.
 */
struct log_place {
        int fd;     /* open for reading; -1 when there is nothing. The caller closes it */
        int64_t at; /* of the first byte, in that file */
        int64_t n;  /* bytes */
};

/* As log_files_read, of at most `max` bytes, but says where they are. */
int log_files_locate(struct log_files *logs, const struct log_key *key, enum log_stream stream,
                     int64_t offset, int64_t max, bool ended, struct log_place *ret_place,
                     struct log_window *ret_window);

/* Removes both streams of an attempt. Returns 0, also when there are none; LESSOR_E_IO and the like. */
int log_files_remove(struct log_files *logs, const struct log_key *key);

/*
 * Removes the logs that nobody wants: those of attempts which were forgotten while nobody could remove them.
 *
 * min_age_ms  those that were written to within this time stay, by the clock of the file system
 * wants       answers 1 (keep), 0 (remove) or an error, which ends the sweep and is returned
 */
int log_files_sweep(struct log_files *logs, int64_t min_age_ms,
                    int (*wants)(void *context, const struct log_key *key), void *context,
                    size_t *ret_n_removed);

#endif
