/* SPDX-License-Identifier: MIT */
#include "vectors.h"

#include <stdlib.h>

#include "base/encode.h"
#include "beast2_values.h"
#include "wire/rack_message.h"

/* Every vector of beast2.json (rack-types), in each direction that it has. */

/* What one vector is about. Everything lives in the arena. */
struct vector {
        struct lessor_arena *arena;
        const struct beast2_type *type;
        const char *note;
        struct lessor_slice bytes;
        const struct json *json; /* NULL for a malformed one */
};

static struct vector vector_of(const struct json *item)
{
        struct lessor_slice hex = vectors_text(item, "hex");
        struct vector v = {.arena = lessor_arena_new(), .json = json_member_named(item, "json")};
        const struct json *note = json_member_named(item, v.json == NULL ? "why" : "note");
        char *bytes;

        assert_non_null(v.arena);
        v.note = json_cstr(note);
        v.type = beast2_type_of(vectors_text(item, "type"), v.arena);
        if (v.type == NULL)
                fail_msg("%s: there is no type %s", v.note, vectors_text(item, "type").p);
        bytes = lessor_arena_alloc(v.arena, hex.n / 2);
        assert_non_null(bytes);
        assert_true(hex_read(hex, bytes, hex.n / 2));
        v.bytes = (struct lessor_slice){bytes, hex.n / 2};
        return v;
}

static void each_vector(const char *list, void (*check)(const struct vector *v))
{
        const struct json *items = json_member_named(vectors_load("beast2.json"), list);

        assert_true(json_count(items) > 0);
        json_each (item, items) {
                struct vector v = vector_of(item);

                check(&v);
                lessor_arena_free(v.arena);
        }
}

static void *read_bytes(const struct vector *v)
{
        void *value = lessor_arena_alloc(v->arena, v->type->size);
        const char *problem = NULL;

        assert_non_null(value);
        if (rack_message_read_beast2(v->type, v->bytes, v->arena, value, &problem) < 0)
                fail_msg("%s: %s", v->note, problem);
        return value;
}

static void *read_json(const struct vector *v)
{
        void *value = lessor_arena_alloc(v->arena, v->type->size);
        const struct json *json = beast2_unrender(v->type, v->json, v->arena);
        const char *problem = NULL;

        assert_non_null(value);
        if (json == NULL)
                fail_msg("%s: its JSON is no rendering", v->note);
        if (beast2_json_read(v->type, json, 0, v->arena, value, &problem) < 0)
                fail_msg("%s: %s", v->note, problem);
        return value;
}

static void check_encodes_to(const struct vector *v, const void *value, struct lessor_slice expected)
{
        struct buf out;

        buf_init(&out);
        assert_int_equal(rack_message_write_beast2(v->type, value, &out), 0);
        if (!lessor_slice_equal(buf_view(&out), expected))
                fail_msg("%s: encoded to other bytes", v->note);
        buf_done(&out);
}

static void check_renders(const struct vector *v, const void *value)
{
        struct buf out;

        buf_init(&out);
        assert_int_equal(beast2_render(v->type, value, &out), 0);
        if (!json_same(vectors_parse(v->arena, buf_view(&out)), v->json))
                fail_msg("%s: decoded to %s", v->note, out.p);
        buf_done(&out);
}

static void check_json_form_round_trip(const struct vector *v, const void *value)
{
        void *again = lessor_arena_alloc(v->arena, v->type->size);
        const char *problem = NULL;
        struct buf json;

        buf_init(&json);
        assert_non_null(again);
        assert_int_equal(rack_message_write_json(v->type, value, &json), 0);
        if (rack_message_read_json(v->type, buf_view(&json), 0, v->arena, again, &problem) < 0)
                fail_msg("%s: %s: %s", v->note, json.p, problem);
        check_renders(v, again);
        buf_done(&json);
}

static void check_both_ways(const struct vector *v)
{
        const void *value = read_bytes(v);

        check_renders(v, value);
        check_encodes_to(v, value, v->bytes);
        check_encodes_to(v, read_json(v), v->bytes);
        check_json_form_round_trip(v, value);
}

static void each_value_has_its_bytes_and_the_bytes_their_value(void **state)
{
        (void)state;
        each_vector("vectors", check_both_ways);
}

/* What was written otherwise is read, and written in the one way that there is. */
static void check_decodes(const struct vector *v)
{
        const void *value = read_bytes(v);
        struct vector canonical = *v;
        struct buf out;

        check_renders(v, value);
        check_json_form_round_trip(v, value);
        buf_init(&out);
        assert_int_equal(rack_message_write_beast2(v->type, value, &out), 0);
        check_encodes_to(v, read_json(v), buf_view(&out));
        assert_false(lessor_slice_equal(buf_view(&out), v->bytes));
        canonical.bytes = buf_view(&out);
        check_encodes_to(v, read_bytes(&canonical), buf_view(&out));
        buf_done(&out);
}

static void other_encodings_are_read_and_written_canonically(void **state)
{
        (void)state;
        each_vector("decode_only", check_decodes);
}

/* All of `bytes` refused, with a reason, and with nothing left in the value. */
static void check_bytes_refused(const struct vector *v, struct lessor_slice bytes)
{
        char *value = lessor_arena_alloc(v->arena, v->type->size);
        const char *problem = NULL;
        int e;

        assert_non_null(value);
        memset(value, 0xa5, v->type->size);
        e = beast2_read(v->type, bytes, NULL, v->arena, value, &problem);
        if (e != LESSOR_E_MALFORMED && e != LESSOR_E_TOO_LARGE)
                fail_msg("%s (%zu bytes): %d", v->note, bytes.n, e);
        assert_non_null(problem);
        for (size_t i = 0; i < v->type->size; i++)
                assert_int_equal(value[i], 0);
}

static void check_refused(const struct vector *v)
{
        check_bytes_refused(v, v->bytes);
}

static void malformed_bytes_are_refused(void **state)
{
        (void)state;
        each_vector("malformed", check_refused);
}

/*
 * Copied to memory of exactly its size, so that a reader that looks past its end is seen. A paged list may
 * end before its index.
 */
static void check_cuts_refused(const struct vector *v)
{
        size_t most = v->bytes.n < 1200 ? v->bytes.n : 1200;

        for (size_t n = 0; n < most; n++) {
                char *cut = malloc(n == 0 ? 1 : n);

                assert_non_null(cut);
                memcpy(cut, v->bytes.p, n);
                check_bytes_refused(v, (struct lessor_slice){cut, n});
                free(cut);
        }
}

static void a_message_that_ends_early_is_refused(void **state)
{
        (void)state;
        each_vector("vectors", check_cuts_refused);
}

static void check_tail_refused(const struct vector *v)
{
        struct buf longer;

        buf_init(&longer);
        assert_int_equal(buf_slice(&longer, v->bytes), 0);
        assert_int_equal(buf_char(&longer, 0), 0);
        check_bytes_refused(v, buf_view(&longer));
        buf_done(&longer);
}

static void a_byte_after_the_message_is_refused(void **state)
{
        (void)state;
        each_vector("vectors", check_tail_refused);
        each_vector("decode_only", check_tail_refused);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(each_value_has_its_bytes_and_the_bytes_their_value),
                cmocka_unit_test(other_encodings_are_read_and_written_canonically),
                cmocka_unit_test(malformed_bytes_are_refused),
                cmocka_unit_test(a_message_that_ends_early_is_refused),
                cmocka_unit_test(a_byte_after_the_message_is_refused),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
