/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>

#include "base/encode.h"
#include "wire/deflate_fixed.h"
#include "wire/inflate_exact.h"

/*
 * The encoder of the specification (beast2, 8) once more, word for word and without any of the short cuts
 * that deflate_fixed takes: a bit is a byte, chains are as long as the input, every candidate is compared.
 */
struct plain {
        const unsigned char *b;
        long n;
        long head[32768];
        long *prev;
        struct buf bits;
};

static void emit_field(struct plain *p, unsigned value, unsigned k)
{
        for (unsigned i = 0; i < k; i++)
                buf_char(&p->bits, (char)(value >> i & 1));
}

static void emit_code(struct plain *p, unsigned value, unsigned k)
{
        for (unsigned i = k; i-- > 0;)
                buf_char(&p->bits, (char)(value >> i & 1));
}

static void emit_symbol(struct plain *p, unsigned s)
{
        if (s <= 143)
                emit_code(p, 0x30 + s, 8);
        else if (s <= 255)
                emit_code(p, 0x190 + s - 144, 9);
        else if (s <= 279)
                emit_code(p, s - 256, 7);
        else
                emit_code(p, 0xc0 + s - 280, 8);
}

static unsigned log_2(unsigned m)
{
        unsigned e = 0;

        while (m >> (e + 1) != 0)
                e++;
        return e;
}

static void emit_match(struct plain *p, unsigned length, unsigned distance)
{
        unsigned m = length - 3, e;

        if (length <= 10) {
                emit_symbol(p, 254 + length);
        } else if (length == 258) {
                emit_symbol(p, 285);
        } else {
                e = log_2(m) - 2;
                emit_symbol(p, 261 + 4 * e + ((m >> e) & 3));
                emit_field(p, m & ((1u << e) - 1), e);
        }
        m = distance - 1;
        if (m < 4) {
                emit_code(p, m, 5);
                return;
        }
        e = log_2(m) - 1;
        emit_code(p, 2 * e + 2 + ((m >> e) & 1), 5);
        emit_field(p, m & ((1u << e) - 1), e);
}

static long hash(const struct plain *p, long i)
{
        return ((p->b[i] << 10) ^ (p->b[i + 1] << 5) ^ p->b[i + 2]) & 0x7fff;
}

static void insert(struct plain *p, long i)
{
        if (i + 3 > p->n)
                return;
        p->prev[i] = p->head[hash(p, i)];
        p->head[hash(p, i)] = i;
}

static long longest(const struct plain *p, long pos, long *dist)
{
        long best = 0, cap = p->n - pos < 258 ? p->n - pos : 258, c;
        int candidates = 0;

        if (pos + 3 > p->n)
                return 0;
        for (c = p->head[hash(p, pos)]; candidates < 32 && c >= 0 && pos - c <= 32768; c = p->prev[c]) {
                long l = 0;

                candidates++;
                while (l < cap && p->b[c + l] == p->b[pos + l])
                        l++;
                if (l > best) {
                        best = l;
                        *dist = pos - c;
                        if (l == cap)
                                break;
                }
        }
        return best;
}

static void deflate_plainly(struct lessor_slice bytes, struct buf *out)
{
        struct plain *p = calloc(1, sizeof(*p));
        long dist = 0;

        assert_non_null(p);
        p->b = (const unsigned char *)bytes.p;
        p->n = (long)bytes.n;
        p->prev = calloc(bytes.n + 1, sizeof(*p->prev));
        assert_non_null(p->prev);
        memset(p->head, 0xff, sizeof(p->head));
        emit_field(p, 1, 1);
        emit_field(p, 1, 2);
        for (long pos = 0; pos < p->n;) {
                long best = longest(p, pos, &dist);

                if (best < 3) {
                        emit_symbol(p, p->b[pos]);
                        insert(p, pos++);
                        continue;
                }
                emit_match(p, (unsigned)best, (unsigned)dist);
                for (long end = pos + best; pos < end; pos++)
                        insert(p, pos);
        }
        emit_symbol(p, 256);
        for (size_t i = 0; i < p->bits.n; i += 8) {
                unsigned byte = 0;

                for (size_t k = 0; k < 8 && i + k < p->bits.n; k++)
                        byte |= (unsigned)p->bits.p[i + k] << k;
                buf_char(out, (char)byte);
        }
        assert_int_equal(buf_failed(&p->bits), 0);
        buf_done(&p->bits);
        free(p->prev);
        free(p);
}

/* The same bits as the plain encoder's, or none when those are no shorter; and they inflate to what they
 * were. */
static void check(struct lessor_slice bytes)
{
        struct lessor_arena *arena = lessor_arena_new();
        struct lessor_slice back;
        struct buf expected, out;
        bool is_shorter;

        assert_non_null(arena);
        buf_init(&expected);
        buf_init(&out);
        buf_text(&out, "before");
        deflate_plainly(bytes, &expected);
        assert_int_equal(deflate_fixed(bytes, &out, &is_shorter), 0);
        assert_memory_equal(out.p, "before", 6);
        assert_int_equal(is_shorter, expected.n < bytes.n);
        assert_int_equal(out.n, is_shorter ? 6 + expected.n : 6);
        if (is_shorter) {
                assert_memory_equal(out.p + 6, expected.p, expected.n);
                assert_int_equal(
                        inflate_exact((struct lessor_slice){out.p + 6, expected.n}, bytes.n, arena, &back),
                        0);
                assert_true(lessor_slice_equal(back, bytes));
        }
        buf_done(&expected);
        buf_done(&out);
        lessor_arena_free(arena);
}

static void the_example_of_the_specification(void **state)
{
        struct buf out;
        bool is_shorter;

        (void)state;
        buf_init(&out);
        assert_int_equal(deflate_fixed(LESSOR_SLICE("abcabcabcabc"), &out, &is_shorter), 0);
        assert_true(is_shorter);
        assert_int_equal(out.n, 6);
        assert_memory_equal(out.p, "\x4b\x4c\x4a\x86\x23\x00", 6);
        buf_done(&out);
}

static void short_inputs_of_every_length(void **state)
{
        char text[300];

        (void)state;
        for (size_t n = 0; n < sizeof(text); n++) {
                text[n] = 'a';
                check((struct lessor_slice){text, n});
        }
        for (size_t n = 0; n < sizeof(text); n++)
                text[n] = (char)("ab\xff"[n % 3]);
        for (size_t n = 0; n < sizeof(text); n++)
                check((struct lessor_slice){text, n});
}

static uint64_t next(uint64_t *seed)
{
        *seed ^= *seed << 13;
        *seed ^= *seed >> 7;
        *seed ^= *seed << 17;
        return *seed;
}

/* Of few letters, with copies from near and far, so that every length, distance and chain occurs. */
static void fill(char *text, size_t n, uint64_t *seed)
{
        uint64_t letters = 1 + next(seed) % 256;

        for (size_t i = 0; i < n;) {
                size_t run = 1 + next(seed) % 400, back = i == 0 ? 0 : 1 + next(seed) % i;

                run = run < n - i ? run : n - i;
                if (back > 0 && next(seed) % 3 == 0) {
                        for (; run > 0; run--, i++)
                                text[i] = text[i - back];
                        continue;
                }
                for (run = run % 40 + 1; run > 0 && i < n; run--, i++)
                        text[i] = (char)(next(seed) % letters);
        }
}

static void random_inputs_give_the_bits_of_the_plain_encoder(void **state)
{
        const size_t most = 150000;
        char *text = malloc(most);
        uint64_t seed = 20240229;

        (void)state;
        assert_non_null(text);
        for (int i = 0; i < 300; i++) {
                size_t n = next(&seed) % (i % 30 == 0 ? most : 2000);

                fill(text, n, &seed);
                check((struct lessor_slice){text, n});
        }
        free(text);
}

/* Noise that comes again at that distance, and nothing nearer: long enough for places to slide several times.
 */
static void check_period(size_t period)
{
        const size_t n = 210000;
        char *text = malloc(n);
        uint64_t seed = 7;

        assert_non_null(text);
        for (size_t i = 0; i < n; i++)
                text[i] = i < period ? (char)(next(&seed) >> 20) : text[i - period];
        /* From here on matches begin at 258 n + 39736, and one of them is 65536, where places slide. */
        text[39735] ^= 1;
        check((struct lessor_slice){text, n});
        free(text);
}

static void the_window_is_exact(void **state)
{
        (void)state;
        check_period(32766);
        check_period(32767);
        check_period(32768);
        check_period(32769);
}

static void inflating_is_exact(void **state)
{
        static const struct lessor_slice stream = LESSOR_SLICE("\x4b\x4c\x4a\x86\x23\x00");
        static const struct lessor_slice longer = LESSOR_SLICE("\x4b\x4c\x4a\x86\x23\x00\x00");
        struct lessor_arena *arena = lessor_arena_new();
        struct lessor_slice bytes;

        (void)state;
        assert_non_null(arena);
        assert_int_equal(inflate_exact(stream, 12, arena, &bytes), 0);
        assert_true(lessor_slice_equal(bytes, LESSOR_SLICE("abcabcabcabc")));
        assert_int_equal(inflate_exact(stream, 11, arena, &bytes), LESSOR_E_MALFORMED);
        assert_int_equal(inflate_exact(stream, 13, arena, &bytes), LESSOR_E_MALFORMED);
        assert_int_equal(inflate_exact(longer, 12, arena, &bytes), LESSOR_E_MALFORMED);
        for (size_t n = 0; n < stream.n; n++)
                assert_int_equal(inflate_exact((struct lessor_slice){stream.p, n}, 12, arena, &bytes),
                                 LESSOR_E_MALFORMED);
        assert_true(inflate_is_plausible(1, 1032));
        assert_true(inflate_is_plausible(1, 2063));
        assert_false(inflate_is_plausible(1, 2064));
        assert_false(inflate_is_plausible(0, 1032));
        lessor_arena_free(arena);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(the_example_of_the_specification),
                cmocka_unit_test(short_inputs_of_every_length),
                cmocka_unit_test(random_inputs_give_the_bits_of_the_plain_encoder),
                cmocka_unit_test(the_window_is_exact),
                cmocka_unit_test(inflating_is_exact),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
