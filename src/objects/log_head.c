/* SPDX-License-Identifier: MIT */
#include "objects/log_head.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "crypto/sha256.h"
#include "lessor/error.h"

#define SUM_LEN 32

void log_head_sum(const char *bytes, size_t n, char ret_sum[33])
{
        char hex[SHA256_HEX_LEN + 1];

        sha256_hex_of((struct lessor_slice){bytes, n}, hex);
        memcpy(ret_sum, hex, SUM_LEN);
        ret_sum[SUM_LEN] = '\0';
}

/* Writes the line without its check; returns its length. */
static size_t line_of(const struct log_slot *slot, char line[LOG_SLOT_BYTES])
{
        int n = snprintf(line, LOG_SLOT_BYTES, "lessor.log/1 %" PRIu64 " %" PRId64 " %" PRId64 " %s %u %d ",
                         slot->seq, slot->length, slot->from, slot->sum, slot->streams, slot->cut);

        return (size_t)n;
}

int log_head_write(const struct object_io *io, int fd, unsigned place, const struct log_slot *slot)
{
        char line[LOG_SLOT_BYTES], check[SUM_LEN + 1];
        size_t n = line_of(slot, line);

        log_head_sum(line, n, check);
        memcpy(line + n, check, SUM_LEN);
        n += SUM_LEN;
        memset(line + n, ' ', sizeof(line) - n);
        line[sizeof(line) - 1] = '\n';
        return object_io_write(io, fd, line, sizeof(line), (off_t)place * LOG_SLOT_BYTES);
}

/* Reads a decimal number and the blank behind it, and moves on; false if there is none, or it is too large.
 */
static bool number_read(const char **at, int64_t *ret_number)
{
        const char *p = *at;
        int64_t number = 0;

        for (; *p >= '0' && *p <= '9'; p++)
                if (__builtin_mul_overflow(number, 10, &number) ||
                    __builtin_add_overflow(number, *p - '0', &number))
                        return false;
        if (p == *at || *p != ' ')
                return false;
        *at = p + 1;
        *ret_number = number;
        return true;
}

/* Reads the sum and the blank behind it, and moves on. */
static bool sum_read(const char **at, char ret_sum[SUM_LEN + 1])
{
        if (strnlen(*at, SUM_LEN + 1) <= SUM_LEN || (*at)[SUM_LEN] != ' ')
                return false;
        memcpy(ret_sum, *at, SUM_LEN);
        ret_sum[SUM_LEN] = '\0';
        *at += SUM_LEN + 1;
        return true;
}

/* Reads a slot; one that is not whole reads as false. */
static bool slot_read(const char *bytes, struct log_slot *ret_slot)
{
        static const char format[] = "lessor.log/1 ";
        char text[LOG_SLOT_BYTES + 1], line[LOG_SLOT_BYTES], check[SUM_LEN + 1];
        struct log_slot slot = {.seq = 0};
        int64_t seq, streams, cut;
        const char *at = text;
        size_t n;

        memcpy(text, bytes, LOG_SLOT_BYTES);
        text[LOG_SLOT_BYTES] = '\0';
        if (strncmp(at, format, sizeof(format) - 1) != 0)
                return false;
        at += sizeof(format) - 1;
        if (!number_read(&at, &seq) || !number_read(&at, &slot.length) || !number_read(&at, &slot.from) ||
            !sum_read(&at, slot.sum) || !number_read(&at, &streams) || !number_read(&at, &cut))
                return false;
        if (seq == 0 || slot.length < slot.from || streams > 3 || cut > 1)
                return false;
        slot.seq = (uint64_t)seq;
        slot.streams = (unsigned)streams;
        slot.cut = cut == 1;
        /* Spelled again, so that only what we wrote is taken. */
        n = line_of(&slot, line);
        log_head_sum(line, n, check);
        if (memcmp(text, line, n) != 0 || memcmp(text + n, check, SUM_LEN) != 0)
                return false;
        *ret_slot = slot;
        return true;
}

/* Whether all that an append wrote is in the file. */
static int slot_holds(int fd, const struct log_slot *slot, int64_t file_bytes, bool *ret_holds)
{
        size_t n = (size_t)(slot->length - slot->from), got;
        char sum[SUM_LEN + 1];
        char *bytes;
        int r;

        *ret_holds = false;
        if (file_bytes - LOG_HEAD_BYTES < slot->length)
                return 0;
        bytes = malloc(n == 0 ? 1 : n);
        if (bytes == NULL)
                return LESSOR_E_NOMEM;
        r = object_io_read(fd, bytes, n, LOG_HEAD_BYTES + (off_t)slot->from, &got);
        if (r == 0 && got == n) {
                log_head_sum(bytes, n, sum);
                *ret_holds = memcmp(sum, slot->sum, SUM_LEN) == 0;
        }
        free(bytes);
        return r;
}

static bool all_zero(const char *bytes, size_t n)
{
        for (size_t i = 0; i < n; i++)
                if (bytes[i] != 0)
                        return false;
        return true;
}

int log_head_read(int fd, struct log_head *ret_head)
{
        char bytes[LOG_HEAD_BYTES] = {0};
        struct log_slot slots[2];
        bool valid[2], holds;
        struct log_head head = {.place = 1}; /* so that the first append goes to place 0 */
        struct stat st;
        size_t n;
        int r = object_io_read(fd, bytes, sizeof(bytes), 0, &n);

        if (r < 0)
                return r;
        if (fstat(fd, &st) < 0)
                return object_io_error(errno);
        for (unsigned i = 0; i < 2; i++) {
                valid[i] = slot_read(bytes + (size_t)i * LOG_SLOT_BYTES, &slots[i]);
                if (valid[i] && slots[i].seq > head.highest_seq)
                        head.highest_seq = slots[i].seq;
        }
        if (valid[0] || valid[1]) {
                unsigned later = valid[0] && (!valid[1] || slots[0].seq > slots[1].seq) ? 0 : 1;

                head.place = later;
                head.now = slots[later];
                if (valid[!later])
                        head.before = slots[!later];
                r = slot_holds(fd, &head.now, st.st_size, &holds);
                if (r < 0)
                        return r;
                head.dirty = !valid[!later] &&
                             !all_zero(bytes + (later == 0 ? LOG_SLOT_BYTES : 0), LOG_SLOT_BYTES);
                /* Where something was before, the other slot says so; else this is no crash's doing. */
                if (!holds && head.before.length != head.now.from)
                        return LESSOR_E_CORRUPT;
                if (!holds)
                        log_head_step_back(&head);
        } else if (!all_zero(bytes + LOG_SLOT_BYTES, LOG_SLOT_BYTES)) {
                /* The first append ever goes to place 0: only that may be torn with nothing beside it. */
                return LESSOR_E_CORRUPT;
        } else {
                head.dirty = n > 0;
        }
        if (st.st_size > LOG_HEAD_BYTES + head.now.length)
                head.dirty = true;
        *ret_head = head;
        return 0;
}

void log_head_step_back(struct log_head *head)
{
        head->now = head->before;
        head->before = (struct log_slot){.seq = 0};
        head->place = !head->place;
        head->dirty = true;
}

int log_head_clean(const struct object_io *io, int fd, const struct log_head *head)
{
        static const char nothing[LOG_SLOT_BYTES];
        int r = object_io_write(io, fd, nothing, sizeof(nothing), head->place == 0 ? LOG_SLOT_BYTES : 0);

        if (r == 0 && io->ftruncate(fd, LOG_HEAD_BYTES + (off_t)head->now.length) < 0)
                r = object_io_error(errno);
        if (r == 0 && io->fsync(fd) < 0)
                r = object_io_error(errno);
        return r;
}
