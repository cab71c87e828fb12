/* SPDX-License-Identifier: MIT */
#include "check.h"

#include "base/encode.h"
#include "lessor/error.h"

static struct lessor_arena *arena;

static int setup(void **state)
{
        (void)state;
        arena = lessor_arena_new();
        return arena == NULL;
}

static int teardown(void **state)
{
        (void)state;
        arena = lessor_arena_free(arena);
        return 0;
}

static void writers_write_the_canonical_form(void **state)
{
        static const struct {
                struct lessor_slice bytes;
                const char *hex, *url, *standard;
        } cases[] = {
                {{"", 0}, "", "", ""},
                {{"f", 1}, "66", "Zg", "Zg=="},
                {{"fo", 2}, "666f", "Zm8", "Zm8="},
                {{"foo", 3}, "666f6f", "Zm9v", "Zm9v"},
                {{"\xfb\xff\xfe", 3}, "fbfffe", "-__-", "+//+"},
                {{"\0\0", 2}, "0000", "AAA", "AAA="},
        };

        (void)state;
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                struct lessor_slice bytes = cases[i].bytes;
                struct buf b;

                buf_init(&b);
                assert_int_equal(hex_append(&b, bytes.p, bytes.n), 0);
                check_text("hex", buf_view(&b), lessor_slice_of(cases[i].hex));
                buf_clear(&b);
                assert_int_equal(base64url_append(&b, bytes.p, bytes.n), 0);
                check_text("base64url", buf_view(&b), lessor_slice_of(cases[i].url));
                buf_clear(&b);
                assert_int_equal(base64_append(&b, bytes.p, bytes.n), 0);
                check_text("base64", buf_view(&b), lessor_slice_of(cases[i].standard));
                assert_int_equal(b.p[b.n], 0);
                buf_done(&b);
        }
}

static void hex_is_read_only_whole(void **state)
{
        static const char *const bad[] = {"", "0", "000", "00000", "0g00", "00 0", "-100", "0x00", "00:0"};
        unsigned char bytes[2] = {7, 7};

        (void)state;
        assert_true(hex_read(LESSOR_SLICE("aBfF"), bytes, 2));
        assert_memory_equal(bytes, "\xab\xff", 2);
        assert_true(hex_read(LESSOR_SLICE(""), bytes, 0));
        for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
                if (hex_read(lessor_slice_of(bad[i]), bytes, 2))
                        fail_msg("'%s' was read", bad[i]);
                assert_memory_equal(bytes, "\xab\xff", 2);
        }
}

/* What the reference makes of keys, signatures and ciphertext: relay-protocol 2. */
static void lenient_base64url_reads_every_text(void **state)
{
        static const struct {
                const char *text;
                struct lessor_slice bytes;
        } cases[] = {
                {"", {"", 0}},
                {"A", {"", 0}},
                {"Zg", {"f", 1}},
                {"Zh", {"f", 1}},
                {"Zm8", {"fo", 2}},
                {"Zm9v", {"foo", 3}},
                {"Zm9vZ", {"foo", 3}},
                {"-__-", {"\xfb\xff\xfe", 3}},
                {"+//+", {"\xfb\xff\xfe", 3}},
                {"+_/-", {"\xfb\xff\xfe", 3}},
                {"Z m\n9.v\xc3\xa9", {"foo", 3}},
                {"Zg==", {"f", 1}},
                {"Zg=v", {"f", 1}},
                {"Zm=9v", {"f", 1}},
                {"=Zm9v", {"", 0}},
                {"!!!", {"", 0}},
        };

        (void)state;
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                struct lessor_slice got;
                char fixed[3] = {9, 9, 9};

                assert_int_equal(base64url_read_lenient(lessor_slice_of(cases[i].text), arena, &got), 0);
                check_text(cases[i].text, got, cases[i].bytes);
                check_int(cases[i].text,
                          (long long)base64url_read_fixed(lessor_slice_of(cases[i].text), fixed, 2),
                          (long long)cases[i].bytes.n);
                assert_memory_equal(fixed, cases[i].bytes.p, cases[i].bytes.n < 2 ? cases[i].bytes.n : 2);
                assert_int_equal(fixed[2], 9);
        }
}

/* The `body` inside an envelope: relay-protocol 6.7. */
static void strict_base64url_refuses_all_but_the_alphabet(void **state)
{
        static const struct {
                const char *text;
                int r;
                struct lessor_slice bytes;
        } cases[] = {
                {"", 0, {"", 0}},
                {"Zg", 0, {"f", 1}},
                {"Zh", 0, {"f", 1}}, /* trailing bits are free */
                {"-__-", 0, {"\xfb\xff\xfe", 3}},
                {"A", LESSOR_E_MALFORMED, {0}},
                {"Zm9vZ", LESSOR_E_MALFORMED, {0}},
                {"Zg==", LESSOR_E_MALFORMED, {0}},
                {"+//+", LESSOR_E_MALFORMED, {0}},
                {"Zm 9", LESSOR_E_MALFORMED, {0}},
                {"Zm\xc3\xa9", LESSOR_E_MALFORMED, {0}},
        };

        (void)state;
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                struct lessor_slice got = {0};

                check_int(cases[i].text, base64url_read_strict(lessor_slice_of(cases[i].text), arena, &got),
                          cases[i].r);
                check_text(cases[i].text, got, cases[i].bytes);
        }
}

static void strict_base64_wants_its_padding(void **state)
{
        static const struct {
                const char *text;
                int r;
                struct lessor_slice bytes;
        } cases[] = {
                {"", 0, {"", 0}},
                {"Zg==", 0, {"f", 1}},
                {"Zm8=", 0, {"fo", 2}},
                {"+//+", 0, {"\xfb\xff\xfe", 3}},
                {"Zh==", LESSOR_E_MALFORMED, {0}},
                {"Zg", LESSOR_E_MALFORMED, {0}},
                {"Zg=", LESSOR_E_MALFORMED, {0}},
                {"Zg=a", LESSOR_E_MALFORMED, {0}},
                {"=Zg=", LESSOR_E_MALFORMED, {0}},
                {"====", LESSOR_E_MALFORMED, {0}},
                {"-__-", LESSOR_E_MALFORMED, {0}},
                {"Zm8\n", LESSOR_E_MALFORMED, {0}},
        };

        (void)state;
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                struct lessor_slice got = {0};

                check_int(cases[i].text, base64_read_strict(lessor_slice_of(cases[i].text), arena, &got),
                          cases[i].r);
                check_text(cases[i].text, got, cases[i].bytes);
        }
}

static void bytes_of_every_length_come_back(void **state)
{
        unsigned char bytes[200];

        (void)state;
        for (size_t i = 0; i < sizeof(bytes); i++)
                bytes[i] = (unsigned char)(i * 37 + 11);
        for (size_t n = 0; n <= sizeof(bytes); n++) {
                struct lessor_slice want = {(const char *)bytes, n}, got;
                struct buf b;

                buf_init(&b);
                base64url_append(&b, bytes, n);
                assert_int_equal(base64url_read_strict(buf_view(&b), arena, &got), 0);
                check_text("strict", got, want);
                assert_int_equal(base64url_read_lenient(buf_view(&b), arena, &got), 0);
                check_text("lenient", got, want);
                buf_clear(&b);
                base64_append(&b, bytes, n);
                assert_int_equal(base64_read_strict(buf_view(&b), arena, &got), 0);
                check_text("base64", got, want);
                buf_done(&b);
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(writers_write_the_canonical_form),
                cmocka_unit_test(hex_is_read_only_whole),
                cmocka_unit_test(lenient_base64url_reads_every_text),
                cmocka_unit_test(strict_base64url_refuses_all_but_the_alphabet),
                cmocka_unit_test(strict_base64_wants_its_padding),
                cmocka_unit_test(bytes_of_every_length_come_back),
        };

        return cmocka_run_group_tests(tests, setup, teardown);
}
