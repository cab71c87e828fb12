/* SPDX-License-Identifier: MIT */
#ifndef OBJECTS_LOG_HEAD_H
#define OBJECTS_LOG_HEAD_H

#include <stdbool.h>
#include <stdint.h>

#include "objects/io.h"

/*
 * The head of a log file: two slots of 512 bytes, each a line of text padded with blanks,
 *
 *     lessor.log/1 SEQ LENGTH FROM SUM STREAMS CUT CHECK
 *
 * SEQ      number of the append among those of the attempt, from 1
 * LENGTH   bytes of text after it, which begin behind the head
 * FROM     where it began
 * SUM      the first 32 digits of the SHA-256 of what it appended
 * STREAMS  the streams it went to: bits, 1 << enum log_stream
 * CUT      1: the stream has reached its limit
 * CHECK    the first 32 digits of the SHA-256 of the line up to here
 *
 * Numbers are decimal. An append writes its text and then the slot that does not count, so that the other one
 * says how it was before. A change of this layout gets another first word; then files of the old one are
 * still to be read.
 */
#define LOG_HEAD_BYTES 1024
#define LOG_SLOT_BYTES 512

struct log_slot {
        uint64_t seq; /* 0: nothing was appended yet */
        int64_t length;
        int64_t from;
        unsigned streams;
        bool cut;
        char sum[33];
};

/* What a stream's file says. */
struct log_head {
        struct log_slot now;    /* what counts */
        struct log_slot before; /* the other slot, if it is of before */
        unsigned place;         /* of the slot that counts; the next append goes to the other */
        uint64_t highest_seq;   /* seen in either slot */
        bool dirty;             /* the other slot, or bytes behind the text, are of an append that failed */
};

/*
 * Reads and judges the head of an open file: the later slot counts if all that it appended is there. Returns
 * 0; LESSOR_E_CORRUPT; LESSOR_E_IO; LESSOR_E_NOMEM.
 */
int log_head_read(int fd, struct log_head *ret_head);

/* Makes the slot count that was before: what its last append shared with the other stream is not there. */
void log_head_step_back(struct log_head *head);

/* Writes a slot. Returns 0 or a code. */
int log_head_write(const struct object_io *io, int fd, unsigned place, const struct log_slot *slot);

/* Wipes the slot that does not count, and what is behind the text; synced. Returns 0 or a code. */
int log_head_clean(const struct object_io *io, int fd, const struct log_head *head);

/* The sum of some bytes. */
void log_head_sum(const char *bytes, size_t n, char ret_sum[33]);

#endif
