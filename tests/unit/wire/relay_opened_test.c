/* SPDX-License-Identifier: MIT */
#include "vectors.h"

#include <stdlib.h>

#include "base/limits.h"
#include "wire/relay_opened.h"

static void texts_have_their_size_class(void **state)
{
        struct json *vectors = vectors_load("relay.json");

        (void)state;
        assert_true(json_count(json_member_named(vectors, "sizeClasses")) > 0);
        json_each (entry, json_member_named(vectors, "sizeClasses")) {
                size_t units = (size_t)json_number(json_member_named(entry, "textLength"));

                assert_string_equal(message_word(&size_class_words, (int)size_class_of(units)),
                                    json_cstr(json_member_named(entry, "sizeClass")));
        }
}

static void append_many(struct buf *out, const char *what, size_t n)
{
        while (n-- > 0)
                buf_text(out, what);
}

/* Whether a chat of so many messages, each of so many characters, is a payload. */
static int read_chat(size_t n_messages, const char *character, size_t n_characters)
{
        struct lessor_arena *arena = lessor_arena_new();
        struct chat_payload payload;
        struct buf text;
        int e;

        buf_init(&text);
        buf_text(&text, "{\"messages\":[");
        for (size_t i = 0; i < n_messages; i++) {
                buf_text(&text,
                         i > 0 ? ",{\"role\":\"user\",\"content\":\"" : "{\"role\":\"user\",\"content\":\"");
                append_many(&text, character, n_characters);
                buf_text(&text, "\"}");
        }
        assert_int_equal(buf_text(&text, "]}"), 0);
        e = message_read(payload_table(LESSOR_KIND_LLM_CHAT), vectors_parse(arena, buf_view(&text)), arena,
                         &payload, NULL);
        buf_done(&text);
        lessor_arena_free(arena);
        return e;
}

static void chats_have_their_limits(void **state)
{
        (void)state;
        assert_int_equal(read_chat(0, "a", 1), LESSOR_E_INVALID);
        assert_int_equal(read_chat(1, "a", 0), 0);
        assert_int_equal(read_chat(256, "a", 1), 0);
        assert_int_equal(read_chat(257, "a", 1), LESSOR_E_INVALID);
        assert_int_equal(read_chat(4, "a", 1000000), 0);
        assert_int_equal(read_chat(1, "a", 1000001), LESSOR_E_INVALID);
        assert_int_equal(read_chat(5, "a", 800001), LESSOR_E_INVALID);
        /* A million code points beyond U+FFFF are two million units. */
        assert_int_equal(read_chat(2, "\xf0\x9f\x98\x80", 1000000), 0);
        assert_int_equal(read_chat(3, "\xf0\x9f\x98\x80", 700000), LESSOR_E_INVALID);
}

static void prompts_are_read(void **state)
{
        static const struct {
                const char *text;
                int e;
        } cases[] = {
                {"{\"prompt\":\"p\"}", 0},
                {"{\"prompt\":\"p\",\"system\":\"\"}", 0},
                {"{\"prompt\":\"\"}", LESSOR_E_INVALID},
                {"{\"prompt\":\"p\",\"system\":null}", LESSOR_E_INVALID},
                {"{\"prompt\":\"p\",\"messages\":[]}", LESSOR_E_INVALID},
        };

        (void)state;
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
                assert_int_equal(vectors_round_trip(payload_table(LESSOR_KIND_LLM_GENERATE),
                                                    lessor_slice_of(cases[i].text), cases[i].text),
                                 cases[i].e);
        assert_int_equal(
                generate_payload_units(&(struct generate_payload){
                        .prompt = LESSOR_SLICE("a\xc3\xa9"), .system = LESSOR_SLICE("\xf0\x9f\x98\x80")}),
                4);
}

static void outcomes_keep_what_was_said_of_the_stop(void **state)
{
        static const char text[] =
                "{\"outcome\":{\"outcome\":\"ok\",\"text\":\"\"},\"ran\":{\"model\":\"m\","
                "\"backendClass\":\"http\",\"durationMs\":0,\"stop\":\"end\",\"stopReported\":false}}";
        struct lessor_arena *arena = lessor_arena_new();
        struct sealed_outcome outcome;

        (void)state;
        assert_int_equal(message_read(&sealed_outcome_table, vectors_parse(arena, lessor_slice_of(text)),
                                      arena, &outcome, NULL),
                         0);
        assert_true(outcome.ran.has_stop && outcome.ran.has_stop_reported && !outcome.ran.stop_reported);
        assert_non_null(outcome.outcome.text.p);
        lessor_arena_free(arena);
        assert_int_equal(vectors_round_trip(&sealed_outcome_table, lessor_slice_of(text), "outcome"), 0);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(texts_have_their_size_class),
                cmocka_unit_test(chats_have_their_limits),
                cmocka_unit_test(prompts_are_read),
                cmocka_unit_test(outcomes_keep_what_was_said_of_the_stop),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
