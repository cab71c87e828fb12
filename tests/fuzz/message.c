/* SPDX-License-Identifier: MIT */
#include "base/json_read.h"
#include "base/utf8.h"
#include "fuzz.h"
#include "relay_tables.h"
#include "wire/envelope_text.h"
#include "wire/relay_shapes.h"

/*
 * The name of a message, a line feed, and a JSON text, read as that message. What can be read is written,
 * reads again, and is then written the same.
 */

static void *read_text(const struct message_table *table, struct lessor_slice text,
                       struct lessor_arena *arena, bool explain)
{
        void *message = lessor_arena_alloc(arena, table->size);
        const char *problem = NULL;
        struct json *value;
        int e;

        FUZZ_CHECK(message != NULL);
        if (json_read(text, arena, &value) < 0)
                return NULL;
        e = message_read(table, value, arena, message, explain ? &problem : NULL);
        FUZZ_CHECK(e == 0 || !explain || problem != NULL);
        return e == 0 ? message : NULL;
}

/* What is measured is what is written. */
static void check_envelope(const struct lessor_sealed_envelope *envelope, struct lessor_arena *arena)
{
        struct lessor_envelope text;
        size_t units;

        if (envelope_text(envelope, arena, &text, &units) < 0)
                return;
        FUZZ_CHECK(units == utf8_utf16_units(text.json));
        FUZZ_CHECK(read_text(&sealed_envelope_table, text.json, arena, false) != NULL);
}

static void check_message(const struct message_table *table, struct lessor_slice text,
                          struct lessor_arena *arena)
{
        struct buf once, twice;
        const void *message = read_text(table, text, arena, true);
        const void *again;

        FUZZ_CHECK((read_text(table, text, arena, false) != NULL) == (message != NULL));
        if (message == NULL)
                return;
        buf_init(&once);
        buf_init(&twice);
        FUZZ_CHECK(message_append(table, message, &once) == 0);
        again = read_text(table, buf_view(&once), arena, false);
        FUZZ_CHECK(again != NULL);
        FUZZ_CHECK(message_append(table, again, &twice) == 0);
        FUZZ_CHECK(lessor_slice_equal(buf_view(&once), buf_view(&twice)));
        if (table == &sealed_envelope_table)
                check_envelope(message, arena);
        buf_done(&once);
        buf_done(&twice);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        const char *input = (const char *)data;
        const char *line_feed = size == 0 ? NULL : memchr(input, '\n', size);
        const struct message_table *table;
        struct lessor_arena *arena;
        size_t name_len;

        if (line_feed == NULL)
                return 0;
        name_len = (size_t)(line_feed - input);
        table = relay_table_named((struct lessor_slice){input, name_len});
        if (table == NULL)
                return 0;
        arena = lessor_arena_new();
        FUZZ_CHECK(arena != NULL);
        check_message(table, (struct lessor_slice){line_feed + 1, size - name_len - 1}, arena);
        lessor_arena_free(arena);
        return 0;
}
