/* SPDX-License-Identifier: MIT */
#include "base/encode.h"

#include <sodium.h>

#include "base/size.h"
#include "lessor/error.h"

/* Marks an append that could not be made because its length does not fit a size. */
static int too_long(struct buf *out)
{
        out->error = LESSOR_E_NOMEM;
        return LESSOR_E_NOMEM;
}

int hex_append(struct buf *out, const void *bytes, size_t n)
{
        size_t len;
        int r;

        if (!size_mul(n, 2, &len))
                return too_long(out);
        r = buf_reserve(out, len);
        if (r < 0)
                return r;
        sodium_bin2hex(out->p + out->n, len + 1, bytes, n);
        out->n += len;
        return 0;
}

static int hex_digit(char c)
{
        if (c >= '0' && c <= '9')
                return c - '0';
        if (c >= 'a' && c <= 'f')
                return c - 'a' + 10;
        if (c >= 'A' && c <= 'F')
                return c - 'A' + 10;
        return -1;
}

bool hex_read(struct lessor_slice text, void *ret_bytes, size_t n)
{
        uint8_t *bytes = ret_bytes;
        size_t i;

        if (text.n % 2 != 0 || text.n / 2 != n)
                return false;
        for (i = 0; i < text.n; i++) {
                if (hex_digit(text.p[i]) < 0)
                        return false;
        }
        for (i = 0; i < n; i++)
                bytes[i] = (uint8_t)((unsigned)hex_digit(text.p[2 * i]) << 4 |
                                     (unsigned)hex_digit(text.p[2 * i + 1]));
        return true;
}

static int append(struct buf *out, const void *bytes, size_t n, int variant)
{
        size_t len;
        int r;

        /* libsodium aborts on a length that it cannot encode. */
        if (n > SIZE_MAX / 2 - 4)
                return too_long(out);
        len = sodium_base64_encoded_len(n, variant); /* counts the NUL */
        r = buf_reserve(out, len - 1);
        if (r < 0)
                return r;
        sodium_bin2base64(out->p + out->n, len, bytes, n, variant);
        out->n += len - 1;
        return 0;
}

int base64url_append(struct buf *out, const void *bytes, size_t n)
{
        return append(out, bytes, n, sodium_base64_VARIANT_URLSAFE_NO_PADDING);
}

int base64_append(struct buf *out, const void *bytes, size_t n)
{
        return append(out, bytes, n, sodium_base64_VARIANT_ORIGINAL);
}

/*
 * The value of each digit of base64url plus one; 0 for what is none. For reading leniently, base64's own two
 * digits have values too, marked so that strict reading can tell.
 */
#define ONLY_LENIENT 0x80
#define RUN_OF_8(c, v)                                                                                       \
        [(c)] = (v) + 1, [(c) + 1] = (v) + 2, [(c) + 2] = (v) + 3, [(c) + 3] = (v) + 4, [(c) + 4] = (v) + 5, \
        [(c) + 5] = (v) + 6, [(c) + 6] = (v) + 7, [(c) + 7] = (v) + 8
static const uint8_t digits[256] = {
        RUN_OF_8('A', 0),
        RUN_OF_8('I', 8),
        RUN_OF_8('Q', 16),
        ['Y'] = 25,
        ['Z'] = 26,
        RUN_OF_8('a', 26),
        RUN_OF_8('i', 34),
        RUN_OF_8('q', 42),
        ['y'] = 51,
        ['z'] = 52,
        RUN_OF_8('0', 52),
        ['8'] = 61,
        ['9'] = 62,
        ['-'] = 63,
        ['_'] = 64,
        ['+'] = 63 | ONLY_LENIENT,
        ['/'] = 64 | ONLY_LENIENT,
};

static bool is_url_digit(char c)
{
        uint8_t digit = digits[(unsigned char)c];

        return digit != 0 && (digit & ONLY_LENIENT) == 0;
}

/* The value of a digit, or -1. */
static int lenient_digit(char c)
{
        return (digits[(unsigned char)c] & ~ONLY_LENIENT) - 1;
}

/* How many bytes stand at the front in whole groups of four digits: nearly always all but the last. */
static size_t read_groups(struct lessor_slice text, uint8_t *bytes, size_t cap)
{
        size_t n = 0;

        for (size_t i = 0; text.n - i >= 4 && cap - n >= 3; i += 4, n += 3) {
                int a = lenient_digit(text.p[i]), b = lenient_digit(text.p[i + 1]);
                int c = lenient_digit(text.p[i + 2]), d = lenient_digit(text.p[i + 3]);
                uint32_t bits;

                if ((a | b | c | d) < 0)
                        break;
                bits = (uint32_t)a << 18 | (uint32_t)b << 12 | (uint32_t)c << 6 | (uint32_t)d;
                bytes[n] = (uint8_t)(bits >> 16);
                bytes[n + 1] = (uint8_t)(bits >> 8);
                bytes[n + 2] = (uint8_t)bits;
        }
        return n;
}

size_t base64url_read_fixed(struct lessor_slice text, void *ret_bytes, size_t cap)
{
        uint8_t *bytes = ret_bytes;
        uint32_t bits = 0;
        unsigned n_bits = 0;
        size_t n = read_groups(text, bytes, cap);

        for (size_t i = n / 3 * 4; i < text.n && text.p[i] != '='; i++) {
                int digit = lenient_digit(text.p[i]);

                if (digit < 0)
                        continue;
                bits = bits << 6 | (uint32_t)digit;
                n_bits += 6;
                if (n_bits >= 8) {
                        n_bits -= 8;
                        if (n < cap)
                                bytes[n] = (uint8_t)(bits >> n_bits);
                        n++;
                }
        }
        return n;
}

int base64url_read_lenient(struct lessor_slice text, struct lessor_arena *arena,
                           struct lessor_slice *ret_bytes)
{
        size_t cap = text.n / 4 * 3 + 3;
        char *bytes = lessor_arena_alloc(arena, cap);

        if (bytes == NULL)
                return LESSOR_E_NOMEM;
        *ret_bytes = (struct lessor_slice){bytes, base64url_read_fixed(text, bytes, cap)};
        return 0;
}

int base64url_read_strict(struct lessor_slice text, struct lessor_arena *arena,
                          struct lessor_slice *ret_bytes)
{
        if (text.n % 4 == 1)
                return LESSOR_E_MALFORMED;
        for (size_t i = 0; i < text.n; i++) {
                if (!is_url_digit(text.p[i]))
                        return LESSOR_E_MALFORMED;
        }
        return base64url_read_lenient(text, arena, ret_bytes);
}

int base64_read_strict(struct lessor_slice text, struct lessor_arena *arena, struct lessor_slice *ret_bytes)
{
        size_t cap = text.n / 4 * 3, n = 0;
        unsigned char *bytes;

        if (text.n % 4 != 0)
                return LESSOR_E_MALFORMED;
        bytes = lessor_arena_alloc(arena, cap);
        if (bytes == NULL)
                return LESSOR_E_NOMEM;
        if (sodium_base642bin(bytes, cap, text.p, text.n, NULL, &n, NULL, sodium_base64_VARIANT_ORIGINAL) !=
            0)
                return LESSOR_E_MALFORMED;
        *ret_bytes = (struct lessor_slice){(const char *)bytes, n};
        return 0;
}
