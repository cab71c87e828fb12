/* SPDX-License-Identifier: MIT */
#include "vectors.h"

#include <stdlib.h>

#include "base/limits.h"
#include "base/utf8.h"
#include "wire/envelope_text.h"
#include "wire/relay_errors.h"
#include "wire/relay_shapes.h"

static struct json *vectors;
static struct lessor_arena *arena;

static int setup(void **state)
{
        (void)state;
        vectors = vectors_load("relay.json");
        arena = lessor_arena_new();
        return arena == NULL;
}

static int teardown(void **state)
{
        (void)state;
        arena = lessor_arena_free(arena);
        return 0;
}

static struct lessor_sealed_envelope envelope_of(struct lessor_slice ciphertext)
{
        return (struct lessor_sealed_envelope){.ciphertext = ciphertext,
                                               .recipient_key_id = LESSOR_SLICE("r"),
                                               .sender_key_id = LESSOR_SLICE("s"),
                                               .direction = LESSOR_DIRECTION_PAYLOAD,
                                               .deadline_ms = 4102444800000};
}

static void check_vector(const struct json *entry, size_t i)
{
        size_t want = (size_t)json_number(json_member_named(entry, "bytes"));
        struct lessor_sealed_envelope envelope;
        struct lessor_envelope text;
        struct json *value;
        size_t units;

        if (json_read(vectors_text(entry, "json"), arena, &value) < 0) {
                /* Texts with lone surrogates are refused as no JSON: a choice of ours. */
                assert_true(json_is(json_member_named(entry, "edge"), JSON_TRUE));
                return;
        }
        assert_int_equal(message_read(&sealed_envelope_table, value, arena, &envelope, NULL), 0);
        if (envelope_units(&envelope) != want)
                fail_msg("envelopeBytes[%zu]: %zu, not %zu", i, envelope_units(&envelope), want);
        assert_int_equal(envelope_text(&envelope, arena, &text, &units), 0);
        assert_int_equal(units, want);
        assert_int_equal(utf8_utf16_units(text.json), want);
        assert_true(json_same(vectors_parse(arena, text.json), value));
}

static void each_envelope_has_its_size(void **state)
{
        size_t i = 0;

        (void)state;
        assert_true(json_count(json_member_named(vectors, "envelopeBytes")) > 0);
        json_each (entry, json_member_named(vectors, "envelopeBytes"))
                check_vector(entry, i++);
}

static void the_text_has_the_fields_in_the_order_of_the_protocol(void **state)
{
        struct lessor_sealed_envelope envelope = envelope_of(LESSOR_SLICE("a\"\x01\xc3\xa9"));
        struct lessor_envelope text;

        (void)state;
        envelope.direction = LESSOR_DIRECTION_RESULT;
        assert_int_equal(envelope_text(&envelope, arena, &text, NULL), 0);
        assert_string_equal(text.json.p, "{\"ciphertext\":\"a\\\"\\u0001\xc3\xa9\",\"recipientKeyId\":\"r\","
                                         "\"senderKeyId\":\"s\",\"direction\":\"result\","
                                         "\"deadlineAt\":4102444800000}");
}

/* Every byte at every place of a word, so that no character slips by the fast path. */
static void each_character_is_measured_wherever_it_stands(void **state)
{
        (void)state;
        for (int c = 0; c < 0x80; c++) {
                for (size_t at = 0; at < 17; at++) {
                        char bytes[17];
                        struct lessor_sealed_envelope envelope;
                        struct lessor_envelope text;
                        size_t units;

                        memset(bytes, 'A', sizeof(bytes));
                        bytes[at] = (char)c;
                        envelope = envelope_of((struct lessor_slice){bytes, sizeof(bytes)});
                        assert_int_equal(envelope_text(&envelope, arena, &text, &units), 0);
                        if (units != text.json.n)
                                fail_msg("character %d at %zu: %zu units, written as %zu", c, at, units,
                                         text.json.n);
                }
        }
}

static void the_ceiling_is_exact(void **state)
{
        size_t around = envelope_units(&(struct lessor_sealed_envelope){.ciphertext = LESSOR_SLICE(""),
                                                                        .recipient_key_id = LESSOR_SLICE("r"),
                                                                        .sender_key_id = LESSOR_SLICE("s"),
                                                                        .deadline_ms = 4102444800000});
        size_t n = LIMIT_ENVELOPE_UNITS - around;
        char *bytes = malloc(n + 1);
        struct lessor_sealed_envelope envelope = envelope_of((struct lessor_slice){bytes, n});
        struct lessor_envelope text = {{NULL, 0}};
        size_t units;

        (void)state;
        assert_non_null(bytes);
        memset(bytes, 'A', n + 1);
        assert_int_equal(envelope_text(&envelope, arena, &text, &units), 0);
        assert_int_equal(units, LIMIT_ENVELOPE_UNITS);
        assert_int_equal(text.json.n, LIMIT_ENVELOPE_UNITS);
        text.json.p = NULL;
        envelope.ciphertext.n++;
        assert_int_equal(envelope_text(&envelope, arena, &text, &units), LESSOR_E_TOO_LARGE);
        assert_int_equal(units, LIMIT_ENVELOPE_UNITS + 1);
        assert_null(text.json.p);
        free(bytes);
}

static void too_large_says_how_large(void **state)
{
        (void)state;
        assert_int_equal(json_number(json_member_named(vectors, "maxEnvelopeBytes")), LIMIT_ENVELOPE_UNITS);
        assert_true(json_count(json_member_named(vectors, "tooLargeMessages")) > 0);
        json_each (entry, json_member_named(vectors, "tooLargeMessages")) {
                struct relay_refusal_details details;
                struct buf size, body;
                struct json *value;

                buf_init(&size);
                buf_init(&body);
                assert_int_equal(
                        envelope_size_append((size_t)json_number(json_member_named(entry, "bytes")), &size),
                        0);
                assert_string_equal(size.p, json_cstr(json_member_named(entry, "describe")));
                details = (struct relay_refusal_details){.subject = buf_view(&size)};
                assert_int_equal(relay_refusal_append(RELAY_REFUSAL_ENVELOPE_TOO_LARGE, &details, &body), 0);
                value = vectors_parse(arena, buf_view(&body));
                assert_true(
                        lessor_slice_equal(vectors_text(value, "message"), vectors_text(entry, "message")));
                assert_true(lessor_slice_equal(vectors_text(value, "error"), LESSOR_SLICE("bad-request")));
                buf_done(&size);
                buf_done(&body);
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(each_envelope_has_its_size),
                cmocka_unit_test(the_text_has_the_fields_in_the_order_of_the_protocol),
                cmocka_unit_test(each_character_is_measured_wherever_it_stands),
                cmocka_unit_test(the_ceiling_is_exact),
                cmocka_unit_test(too_large_says_how_large),
        };

        return cmocka_run_group_tests(tests, setup, teardown);
}
