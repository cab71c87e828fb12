/* SPDX-License-Identifier: MIT */
#include "fuzz.h"
#include "wire/rack_message.h"

/*
 * The name of a type, a line feed, and a JSON text, read as that message. What can be read is written, in
 * either form, and reads to what is written the same.
 */

static void *read_text(const struct beast2_type *type, struct lessor_slice text, unsigned flags,
                       struct lessor_arena *arena, bool explain)
{
        void *message = lessor_arena_alloc(arena, type->size);
        const char *problem = NULL;
        int e;

        FUZZ_CHECK(message != NULL);
        e = rack_message_read_json(type, text, flags, arena, message, explain ? &problem : NULL);
        FUZZ_CHECK(e == 0 || !explain || problem != NULL);
        return e == 0 ? message : NULL;
}

static void check_text(const struct beast2_type *type, struct lessor_slice text, struct lessor_arena *arena)
{
        const void *message = read_text(type, text, 0, arena, true), *again;
        struct buf once, twice, bytes;

        FUZZ_CHECK((read_text(type, text, 0, arena, false) != NULL) == (message != NULL));
        if (message == NULL)
                return;
        FUZZ_CHECK(read_text(type, text, BEAST2_JSON_OPEN, arena, false) != NULL);
        buf_init(&once);
        buf_init(&twice);
        buf_init(&bytes);
        FUZZ_CHECK(rack_message_write_json(type, message, &once) == 0);
        again = read_text(type, buf_view(&once), 0, arena, false);
        FUZZ_CHECK(again != NULL);
        FUZZ_CHECK(rack_message_write_json(type, again, &twice) == 0);
        FUZZ_CHECK(lessor_slice_equal(buf_view(&once), buf_view(&twice)));
        FUZZ_CHECK(rack_message_write_beast2(type, message, &bytes) == 0);
        buf_done(&once);
        buf_done(&twice);
        buf_done(&bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        const char *input = (const char *)data;
        const char *line_feed = size == 0 ? NULL : memchr(input, '\n', size);
        const struct beast2_type *type;
        struct lessor_arena *arena;
        size_t name_len;

        if (line_feed == NULL)
                return 0;
        name_len = (size_t)(line_feed - input);
        type = rack_type_named((struct lessor_slice){input, name_len});
        if (type == NULL)
                return 0;
        arena = lessor_arena_new();
        FUZZ_CHECK(arena != NULL);
        check_text(type, (struct lessor_slice){line_feed + 1, size - name_len - 1}, arena);
        lessor_arena_free(arena);
        return 0;
}
