/* SPDX-License-Identifier: MIT */
#include "vectors.h"

struct json *vectors_load(const char *name)
{
        static struct lessor_arena *arena;

        if (arena == NULL)
                arena = lessor_arena_new();
        assert_non_null(arena);
        return json_load(name, arena);
}

struct json *vectors_parse(struct lessor_arena *arena, struct lessor_slice text)
{
        struct json *value = NULL;
        int e = json_read(text, arena, &value);

        if (e < 0)
                fail_msg("%s: %.*s", lessor_error_name(e), (int)text.n, text.p);
        return value;
}

struct lessor_slice vectors_text(const struct json *object, const char *key)
{
        const struct json *value = json_member_named(object, key);

        if (!json_is(value, JSON_STRING))
                fail_msg("the vectors have no text %s where one is needed", key);
        return json_text(value);
}

/* Reads a value as a message and writes it. */
static int read_and_write(const struct message_table *table, struct lessor_arena *arena,
                          const struct json *value, struct buf *out)
{
        void *message = lessor_arena_alloc(arena, table->size);
        int e;

        assert_non_null(message);
        e = message_read(table, value, arena, message, NULL);
        if (e == 0)
                assert_int_equal(message_append(table, message, out), 0);
        return e;
}

int vectors_round_trip(const struct message_table *table, struct lessor_slice text, const char *note)
{
        struct lessor_arena *arena = lessor_arena_new();
        struct buf once, twice;
        struct json *value, *written;
        int e;

        assert_non_null(arena);
        buf_init(&once);
        buf_init(&twice);
        value = vectors_parse(arena, text);
        e = read_and_write(table, arena, value, &once);
        if (e == 0) {
                written = vectors_parse(arena, buf_view(&once));
                if (!table->open && !json_same(value, written))
                        fail_msg("%s: %s was read from %.*s and written as %s", note, table->name,
                                 (int)text.n, text.p, once.p);
                assert_int_equal(read_and_write(table, arena, written, &twice), 0);
                assert_string_equal(once.p, twice.p);
        }
        buf_done(&once);
        buf_done(&twice);
        lessor_arena_free(arena);
        return e;
}
