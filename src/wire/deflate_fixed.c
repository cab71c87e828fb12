/* SPDX-License-Identifier: MIT */
#include "wire/deflate_fixed.h"

#include <stdint.h>
#include <stdlib.h>

#include "base/macro.h"

#define WINDOW       32768u
#define HASHES       32768u
#define LENGTH_LEAST 3u
#define LENGTH_MOST  258u
#define CANDIDATES   32
#define END_OF_BLOCK 256u

/* The bits of one symbol are 31 at most: a length of 8 + 5, a distance of 5 + 13. */
#define SYMBOL_ROOM 8

/*
 * Chains of the places at which three bytes of one hash begin, newest first. A place is a position counted
 * from 1 after `base`, so that 0 ends a chain and 16 bits are enough: small tables are half of what a short
 * message costs. When they run out, all places slide down, and those that no match can reach any more fall
 * off. Only the last WINDOW positions can be reached, so prev is a ring.
 */
struct chains {
        uint16_t head[HASHES];
        uint16_t prev[]; /* by position modulo WINDOW; shorter when the input is */
};

struct deflater {
        const unsigned char *b;
        uint32_t n;
        uint32_t base; /* position - base + 1 is its place */
        struct chains *chains;
        uint64_t bits; /* not yet written, the earliest lowest */
        unsigned n_bits;
        unsigned char *to;
};

struct match {
        uint32_t length;
        uint32_t distance;
};

static void free_chains(struct chains **chains)
{
        free(*chains);
}

/* --- Bits --- */

static void put_field(struct deflater *d, uint32_t field, unsigned n_bits)
{
        d->bits |= (uint64_t)field << d->n_bits;
        d->n_bits += n_bits;
        while (d->n_bits >= 8) {
                *d->to++ = (unsigned char)d->bits;
                d->bits >>= 8;
                d->n_bits -= 8;
        }
}

/* A Huffman code of up to 9 bits goes out highest bit first. */
static void put_code(struct deflater *d, uint32_t code, unsigned n_bits)
{
        static const unsigned char mirrored[] = {0x0, 0x8, 0x4, 0xc, 0x2, 0xa, 0x6, 0xe,
                                                 0x1, 0x9, 0x5, 0xd, 0x3, 0xb, 0x7, 0xf};
        uint32_t mirror = (uint32_t)mirrored[code & 0xf] << 8 | (uint32_t)mirrored[code >> 4 & 0xf] << 4 |
                          mirrored[code >> 8 & 0xf];

        put_field(d, mirror >> (12 - n_bits), n_bits);
}

static void put_symbol(struct deflater *d, uint32_t s)
{
        if (s < 144)
                put_code(d, 0x30 + s, 8);
        else if (s < 256)
                put_code(d, 0x190 + s - 144, 9);
        else if (s < 280)
                put_code(d, s - 256, 7);
        else
                put_code(d, 0xc0 + s - 280, 8);
}

static unsigned log2_of(uint32_t m)
{
        return 31u - (unsigned)__builtin_clz(m);
}

static void put_length(struct deflater *d, uint32_t length)
{
        uint32_t m = length - LENGTH_LEAST;
        unsigned extra;

        if (length <= 10) {
                put_symbol(d, 254 + length);
        } else if (length == LENGTH_MOST) {
                put_symbol(d, 285);
        } else {
                extra = log2_of(m) - 2;
                put_symbol(d, 261 + 4 * extra + ((m >> extra) & 3));
                put_field(d, m & ((1u << extra) - 1), extra);
        }
}

static void put_distance(struct deflater *d, uint32_t distance)
{
        uint32_t m = distance - 1;
        unsigned extra;

        if (m < 4) {
                put_code(d, m, 5);
        } else {
                extra = log2_of(m) - 1;
                put_code(d, 2 * extra + 2 + ((m >> extra) & 1), 5);
                put_field(d, m & ((1u << extra) - 1), extra);
        }
}

/* --- Matches --- */

static uint32_t hash_at(const struct deflater *d, uint32_t i)
{
        return (((uint32_t)d->b[i] << 10) ^ ((uint32_t)d->b[i + 1] << 5) ^ d->b[i + 2]) & (HASHES - 1);
}

static void slide_places(uint16_t *places, size_t n)
{
        for (size_t i = 0; i < n; i++)
                places[i] = places[i] > WINDOW ? (uint16_t)(places[i] - WINDOW) : 0;
}

static void insert(struct deflater *d, uint32_t i)
{
        uint16_t *head;

        if (d->n - i < LENGTH_LEAST)
                return;
        if (i - d->base == UINT16_MAX) {
                slide_places(d->chains->head, HASHES);
                slide_places(d->chains->prev, WINDOW); /* an input of so many positions has all of it */
                d->base += WINDOW;
        }
        head = &d->chains->head[hash_at(d, i)];
        d->chains->prev[i & (WINDOW - 1)] = *head;
        *head = (uint16_t)(i - d->base + 1);
}

/* How many leading bytes agree, up to `cap`. The two may overlap. */
static uint32_t common(const unsigned char *a, const unsigned char *b, uint32_t cap)
{
        uint32_t n = 0;

        while (cap - n >= sizeof(uint64_t)) {
                uint64_t left, right;

                memcpy(&left, a + n, sizeof(left));
                memcpy(&right, b + n, sizeof(right));
                if (left != right)
                        break;
                n += (uint32_t)sizeof(uint64_t);
        }
        while (n < cap && a[n] == b[n])
                n++;
        return n;
}

/* The longest match, of equal ones the nearest, among the newest candidates of the same hash. */
static struct match find_match(const struct deflater *d, uint32_t pos)
{
        struct match best = {0, 0};
        const unsigned char *here = d->b + pos;
        uint32_t cap = d->n - pos < LENGTH_MOST ? d->n - pos : LENGTH_MOST;
        unsigned place;

        if (d->n - pos < LENGTH_LEAST)
                return best;
        place = d->chains->head[hash_at(d, pos)];
        for (int i = 0; i < CANDIDATES && place != 0; i++) {
                uint32_t c = d->base + place - 1, length;

                if (pos - c > WINDOW)
                        break;
                place = d->chains->prev[c & (WINDOW - 1)];
                if (d->b[c + best.length] != here[best.length])
                        continue; /* no longer than the best: not worth a look, but it counts */
                length = common(d->b + c, here, cap);
                if (length <= best.length)
                        continue;
                best = (struct match){length, pos - c};
                if (length == cap)
                        break;
        }
        return best;
}

/* Writes the block, or stops when as many bytes as came in have gone out. */
static bool put_block(struct deflater *d, const unsigned char *to_end)
{
        uint32_t pos = 0;

        put_field(d, 1, 1); /* the final block */
        put_field(d, 1, 2); /* of fixed codes */
        while (pos < d->n) {
                struct match match = find_match(d, pos);

                if (d->to >= to_end)
                        return false;
                if (match.length < LENGTH_LEAST) {
                        put_symbol(d, d->b[pos]);
                        insert(d, pos++);
                        continue;
                }
                put_length(d, match.length);
                put_distance(d, match.distance);
                for (uint32_t end = pos + match.length; pos < end; pos++)
                        insert(d, pos);
        }
        put_symbol(d, END_OF_BLOCK);
        put_field(d, 0, -d->n_bits & 7);
        return d->to < to_end;
}

int deflate_fixed(struct lessor_slice bytes, struct buf *out, bool *ret_is_shorter)
{
        _cleanup_(free_chains) struct chains *chains = NULL;
        struct deflater d = {.b = (const unsigned char *)bytes.p, .n = (uint32_t)bytes.n};
        unsigned char *from;
        int e;

        if (bytes.n > DEFLATE_FIXED_MOST)
                return LESSOR_E_TOO_LARGE;
        e = buf_reserve(out, bytes.n + SYMBOL_ROOM);
        if (e < 0)
                return e;
        d.chains = chains =
                malloc(sizeof(*chains) + (bytes.n < WINDOW ? bytes.n : WINDOW) * sizeof(chains->prev[0]));
        if (chains == NULL)
                return LESSOR_E_NOMEM;
        memset(chains->head, 0, sizeof(chains->head));
        from = d.to = (unsigned char *)out->p + out->n;
        *ret_is_shorter = put_block(&d, from + bytes.n);
        if (*ret_is_shorter)
                out->n += (size_t)(d.to - from);
        out->p[out->n] = '\0';
        return 0;
}
