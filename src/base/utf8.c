/* SPDX-License-Identifier: MIT */
#include "base/utf8.h"

#include <stdint.h>

#define HIGH_BITS UINT64_C(0x8080808080808080)

/*
 * The length of the one well-formed character at p, 0 if there is none. RFC 3629 section 4. `ret_part`: how
 * many bytes are as they would be in a character, one at least.
 */
static size_t char_part(const unsigned char *p, size_t n, size_t *ret_part)
{
        unsigned char least = 0x80, most = 0xbf; /* of the second byte */
        size_t len, part = 1;

        *ret_part = 1;
        if (p[0] < 0x80)
                return 1;
        if (p[0] < 0xc2 || p[0] > 0xf4)
                return 0;
        len = p[0] < 0xe0 ? 2 : p[0] < 0xf0 ? 3 : 4;
        if (p[0] == 0xe0)
                least = 0xa0;
        else if (p[0] == 0xed)
                most = 0x9f;
        else if (p[0] == 0xf0)
                least = 0x90;
        else if (p[0] == 0xf4)
                most = 0x8f;
        if (n < 2 || p[1] < least || p[1] > most)
                return 0;
        for (part = 2; part < len && part < n && (p[part] & 0xc0) == 0x80; part++)
                ;
        *ret_part = part;
        return part == len ? len : 0;
}

static size_t char_len(const unsigned char *p, size_t n)
{
        size_t part;

        return char_part(p, n, &part);
}

size_t utf8_valid_prefix(struct lessor_slice text)
{
        const unsigned char *p = (const unsigned char *)text.p;
        size_t i = 0;

        while (i < text.n) {
                uint64_t word;
                size_t len;

                if (text.n - i >= sizeof(word)) {
                        memcpy(&word, p + i, sizeof(word));
                        if ((word & HIGH_BITS) == 0) {
                                i += sizeof(word);
                                continue;
                        }
                }
                len = char_len(p + i, text.n - i);
                if (len == 0)
                        break;
                i += len;
        }
        return i;
}

size_t utf8_mend(struct lessor_slice text, char *ret)
{
        size_t n = 0;

        for (size_t i = 0; i < text.n;) {
                struct lessor_slice rest = {text.p + i, text.n - i};
                size_t good = utf8_valid_prefix(rest), part;

                if (good > 0) {
                        memcpy(ret + n, rest.p, good);
                        n += good;
                        i += good;
                        continue;
                }
                (void)char_part((const unsigned char *)rest.p, rest.n, &part);
                memcpy(ret + n, "\xef\xbf\xbd", 3);
                n += 3;
                i += part;
        }
        return n;
}

size_t utf8_of_latin1(struct lessor_slice text, char *ret)
{
        size_t n = 0;

        for (size_t i = 0; i < text.n; i++) {
                unsigned char c = (unsigned char)text.p[i];

                if (c >= 0x80)
                        ret[n++] = (char)(0xc0 | c >> 6);
                ret[n++] = (char)(c < 0x80 ? c : 0x80 | (c & 0x3f));
        }
        return n;
}

bool utf8_valid(struct lessor_slice text)
{
        return utf8_valid_prefix(text) == text.n;
}

size_t utf8_code_points(struct lessor_slice text)
{
        size_t count = 0;

        for (size_t i = 0; i < text.n; i++)
                count += ((unsigned char)text.p[i] & 0xc0) != 0x80;
        return count;
}

size_t utf8_utf16_units(struct lessor_slice text)
{
        size_t count = 0;

        for (size_t i = 0; i < text.n; i++) {
                unsigned char c = (unsigned char)text.p[i];

                count += ((c & 0xc0) != 0x80) + (size_t)(c >= 0xf0);
        }
        return count;
}

/*
 * Bytes sort as code points do, and code units sort as code points do but for one thing: what is above U+FFFF
 * is written with surrogates, which sort before U+E000. So a first byte of F0 and up goes below EE and EF.
 */
static int first_byte_rank(unsigned char c)
{
        if (c >= 0xf0)
                return c - 2;
        return c >= 0xee ? c + 0x10 : c;
}

int utf8_utf16_cmp(struct lessor_slice a, struct lessor_slice b)
{
        size_t n = a.n < b.n ? a.n : b.n;

        for (size_t i = 0; i < n; i++) {
                if (a.p[i] != b.p[i])
                        return first_byte_rank((unsigned char)a.p[i]) -
                               first_byte_rank((unsigned char)b.p[i]);
        }
        return (a.n > b.n) - (a.n < b.n);
}
