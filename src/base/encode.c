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
                bytes[i] = (uint8_t)(hex_digit(text.p[2 * i]) << 4 | hex_digit(text.p[2 * i + 1]));
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

static int url_digit(char c)
{
        if (c >= 'A' && c <= 'Z')
                return c - 'A';
        if (c >= 'a' && c <= 'z')
                return c - 'a' + 26;
        if (c >= '0' && c <= '9')
                return c - '0' + 52;
        if (c == '-')
                return 62;
        return c == '_' ? 63 : -1;
}

static int lenient_digit(char c)
{
        if (c == '+')
                return 62;
        return c == '/' ? 63 : url_digit(c);
}

size_t base64url_read_fixed(struct lessor_slice text, void *ret_bytes, size_t cap)
{
        uint8_t *bytes = ret_bytes;
        uint32_t bits = 0;
        unsigned n_bits = 0;
        size_t n = 0;

        for (size_t i = 0; i < text.n && text.p[i] != '='; i++) {
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
                if (url_digit(text.p[i]) < 0)
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
