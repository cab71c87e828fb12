/* SPDX-License-Identifier: MIT */
#include "beast2_values.h"
#include "fuzz.h"
#include "wire/rack_message.h"

/*
 * The name of a type, a line feed, and a message of BEAST2. What can be read is written in the one way there
 * is, which reads to what is written the same, and comes through the JSON form unchanged.
 */

#define LOGICAL 1048576
#define MEMORY  8388608

static void *room(const struct beast2_type *type, struct lessor_arena *arena)
{
        void *value = lessor_arena_alloc(arena, type->size);

        FUZZ_CHECK(value != NULL);
        return value;
}

static void *read_bytes(const struct beast2_type *type, struct lessor_slice bytes, struct lessor_arena *arena)
{
        const struct beast2_limits limits = {LOGICAL, MEMORY};
        void *value = room(type, arena);
        const char *problem = NULL;
        int e = beast2_read(type, bytes, &limits, arena, value, &problem);

        FUZZ_CHECK(e == 0 || problem != NULL);
        FUZZ_CHECK(e != LESSOR_E_NOMEM);
        return e == 0 ? value : NULL;
}

static void check_same_bytes(const struct beast2_type *type, const void *value, const struct buf *expected)
{
        struct buf out;

        buf_init(&out);
        FUZZ_CHECK(value != NULL);
        FUZZ_CHECK(beast2_write(type, value, &out) == 0);
        FUZZ_CHECK(lessor_slice_equal(buf_view(&out), buf_view(expected)));
        buf_done(&out);
}

static void check_value(const struct beast2_type *type, const void *value, struct lessor_arena *arena)
{
        void *again = room(type, arena);
        struct buf bytes, json;
        int e;

        buf_init(&bytes);
        buf_init(&json);
        FUZZ_CHECK(beast2_write(type, value, &bytes) == 0);
        check_same_bytes(type, read_bytes(type, buf_view(&bytes), arena), &bytes);
        FUZZ_CHECK(rack_message_write_json(type, value, &json) == 0);
        e = rack_message_read_json(type, buf_view(&json), 0, arena, again, NULL);
        FUZZ_CHECK(e == 0 || e == LESSOR_E_TOO_LARGE); /* more values than JSON may have */
        if (e == 0)
                check_same_bytes(type, again, &bytes);
        buf_done(&bytes);
        buf_done(&json);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        const char *input = (const char *)data;
        const char *line_feed = size == 0 ? NULL : memchr(input, '\n', size);
        const struct beast2_type *type;
        struct lessor_arena *arena;
        size_t name_len;
        void *value;

        if (line_feed == NULL)
                return 0;
        name_len = (size_t)(line_feed - input);
        arena = lessor_arena_new();
        FUZZ_CHECK(arena != NULL);
        type = beast2_type_of((struct lessor_slice){input, name_len}, arena);
        if (type != NULL) {
                value = read_bytes(type, (struct lessor_slice){line_feed + 1, size - name_len - 1}, arena);
                if (value != NULL)
                        check_value(type, value, arena);
        }
        lessor_arena_free(arena);
        return 0;
}
