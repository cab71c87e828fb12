/* SPDX-License-Identifier: MIT */
#include "check.h"

#include "base/encode.h"
#include "base/json_write.h"
#include "json_values.h"
#include "lessor/error.h"

/* relay-protocol 2, JSON text. Lone surrogates are an [edge] that we refuse to read. */
static void strings_are_written_as_the_reference_writes_them(void **state)
{
        struct lessor_arena *arena = lessor_arena_new();
        struct json *list = json_member_named(json_load("relay.json", arena), "jsonStrings");
        struct buf out;

        (void)state;
        assert_true(json_count(list) > 10);
        buf_init(&out);
        json_each (row, list) {
                struct lessor_slice text = json_text(json_member_named(row, "text"));
                struct lessor_slice hex = json_text(json_member_named(row, "utf8Hex"));
                char *want = lessor_arena_alloc(arena, hex.n / 2);
                struct json *value;

                if (json_is(json_member_named(row, "edge"), JSON_TRUE)) {
                        assert_int_equal(json_read(text, arena, &value), LESSOR_E_MALFORMED);
                        continue;
                }
                assert_true(hex_read(hex, want, hex.n / 2));
                assert_int_equal(json_read(text, arena, &value), 0);
                buf_clear(&out);
                assert_int_equal(json_write_text(&out, json_text(value)), 0);
                check_text("jsonStrings", buf_view(&out), (struct lessor_slice){want, hex.n / 2});
        }
        buf_done(&out);
        lessor_arena_free(arena);
}

/* The scan goes by words, so each byte is tried at each place of one. */
static void every_byte_is_found_at_every_place(void **state)
{
        struct buf out;

        (void)state;
        buf_init(&out);
        for (unsigned c = 0; c < 128; c++) {
                for (size_t at = 0; at < 20; at++) {
                        bool special = c < 0x20 || c == '"' || c == '\\';
                        struct lessor_arena *arena = lessor_arena_new();
                        char text[20];
                        struct json *back;

                        memset(text, 'a' + (int)(at % 3), sizeof(text));
                        text[at] = (char)c;
                        buf_clear(&out);
                        json_write_text(&out, (struct lessor_slice){text, sizeof(text)});
                        assert_int_equal(out.n > sizeof(text) + 2, special);
                        assert_int_equal(json_read(buf_view(&out), arena, &back), 0);
                        check_text("back", json_text(back), (struct lessor_slice){text, sizeof(text)});
                        lessor_arena_free(arena);
                }
        }
        buf_done(&out);
}

static void commas_stand_where_they_belong(void **state)
{
        struct json_writer w;
        struct buf out;

        (void)state;
        buf_init(&out);
        json_writer_init(&w, &out);
        json_open_object(&w);
        json_member_text(&w, "a", LESSOR_SLICE("x\"y"));
        json_member_text(&w, "absent", lessor_slice_of(NULL));
        json_member_cstr(&w, "absent", NULL);
        json_member_raw(&w, "absent", lessor_slice_of(NULL));
        json_key(&w, "list");
        json_open_array(&w);
        json_put_int(&w, -1);
        json_put_bool(&w, true);
        json_put_null(&w);
        json_open_object(&w);
        json_close_object(&w);
        json_open_array(&w);
        json_close_array(&w);
        json_put_raw(&w, LESSOR_SLICE("{\"r\":0}"));
        json_put_cstr(&w, "");
        json_close_array(&w);
        json_key_text(&w, LESSOR_SLICE("k\n"));
        json_open_object(&w);
        json_member_int(&w, "n", INT64_MIN);
        json_member_bool(&w, "b", false);
        json_close_object(&w);
        json_member_cstr(&w, "c", "d");
        json_member_raw(&w, "e", LESSOR_SLICE("[1,2]"));
        json_close_object(&w);
        assert_int_equal(buf_failed(&out), 0);
        check_text(
                "object", buf_view(&out),
                LESSOR_SLICE("{\"a\":\"x\\\"y\",\"list\":[-1,true,null,{},[],{\"r\":0},\"\"],"
                             "\"k\\n\":{\"n\":-9223372036854775808,\"b\":false},\"c\":\"d\",\"e\":[1,2]}"));
        buf_done(&out);
}

static void sixteen_braces_nest(void **state)
{
        struct json_writer w;
        struct buf out;

        (void)state;
        buf_init(&out);
        json_writer_init(&w, &out);
        for (int i = 0; i < 16; i++)
                json_open_array(&w);
        json_put_int(&w, 1);
        json_put_int(&w, 2);
        for (int i = 0; i < 16; i++)
                json_close_array(&w);
        check_text("nested", buf_view(&out), LESSOR_SLICE("[[[[[[[[[[[[[[[[1,2]]]]]]]]]]]]]]]]"));
        buf_done(&out);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(strings_are_written_as_the_reference_writes_them),
                cmocka_unit_test(every_byte_is_found_at_every_place),
                cmocka_unit_test(commas_stand_where_they_belong),
                cmocka_unit_test(sixteen_braces_nest),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
