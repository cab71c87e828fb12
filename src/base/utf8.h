/* SPDX-License-Identifier: MIT */
#ifndef BASE_UTF8_H
#define BASE_UTF8_H

#include <stdbool.h>

#include "lessor/slice.h"

/* Well-formed UTF-8 as RFC 3629 has it: no surrogates, no overlong forms, nothing above U+10FFFF. */
bool utf8_valid(struct lessor_slice text);

/* How many bytes at the beginning of a text are well-formed: all of them, or up to the first that are not. */
size_t utf8_valid_prefix(struct lessor_slice text);

/*
 * Makes well-formed text of any bytes, as decoders on the web do (Encoding Standard, UTF-8 decoder): each
 * maximal part that begins a character without completing it, and each byte that cannot begin one, becomes
 * U+FFFD. `ret` has room for UTF8_MENDED_MAX(text.n) bytes. Returns how many were written.
 */
#define UTF8_MENDED_MAX(n) (3 * (n))
size_t utf8_mend(struct lessor_slice text, char *ret);

/* The UTF-8 of a text in Latin-1, whose bytes are code points. `ret` has room for 2 * text.n bytes. Returns
 * how many were written. */
size_t utf8_of_latin1(struct lessor_slice text, char *ret);

/* Code points of a valid text: what schema lengths count (relay-protocol 2). */
size_t utf8_code_points(struct lessor_slice text);

/* UTF-16 code units of a valid text: what sizes count (relay-protocol 6.7). */
size_t utf8_utf16_units(struct lessor_slice text);

/* Order by UTF-16 code unit, as JavaScript sorts (relay-protocol 2). Returns <0, 0 or >0. */
int utf8_utf16_cmp(struct lessor_slice a, struct lessor_slice b);

#endif
