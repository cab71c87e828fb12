/* SPDX-License-Identifier: MIT */
#include "fuzz.h"

#include "base/json_span.h"
#include "base/json_write.h"
#include "json_values.h"
#include "lessor/error.h"

/*
 * JSON, read in each of the three ways, which must agree. What can be read is written, reads again as the
 * same value, and is then written the same.
 */

/* Texts and keys of a value whose text was copied are followed by a NUL. */
static void check_terminated(const struct json *value)
{
        if (value->type == JSON_STRING)
                FUZZ_CHECK(value->text.p[value->text.n] == '\0');
        json_each (item, value) {
                if (value->type == JSON_OBJECT)
                        FUZZ_CHECK(item->key.p[item->key.n] == '\0');
                check_terminated(item);
        }
}

static void check_copies(struct lessor_slice text, int verdict, const struct json *value,
                         struct lessor_arena *arena)
{
        const char *problem = NULL;
        struct json *copy;
        int r;

        FUZZ_CHECK(json_read_copy(text, arena, &copy) == verdict);
        if (verdict == 0) {
                FUZZ_CHECK(json_same(value, copy));
                check_terminated(copy);
        }
        r = json_read_file_text(text, arena, &copy, &problem);
        if (r == 0) {
                /* no bound on the number of values there */
                FUZZ_CHECK(verdict == LESSOR_E_TOO_LARGE || (verdict == 0 && json_same(value, copy)));
                check_terminated(copy);
        } else {
                FUZZ_CHECK(problem != NULL);
                /* a key that is there twice */
                FUZZ_CHECK(verdict != 0 || r == LESSOR_E_MALFORMED);
        }
}

static void check_round_trip(const struct json *value, struct lessor_arena *arena)
{
        struct buf once, twice;
        struct json *again;

        buf_init(&once);
        buf_init(&twice);
        FUZZ_CHECK(json_append(value, &once) == 0);
        FUZZ_CHECK(json_read(buf_view(&once), arena, &again) == 0);
        FUZZ_CHECK(json_same(value, again));
        FUZZ_CHECK(json_append(again, &twice) == 0);
        FUZZ_CHECK(lessor_slice_equal(buf_view(&once), buf_view(&twice)));
        buf_done(&once);
        buf_done(&twice);
}

/* What json_span_member() finds is that member's value, and nothing in texts that are none leads it astray.
 */
static void check_spans(struct lessor_slice text, struct lessor_arena *arena)
{
        struct json *value, *again;
        struct lessor_slice span;
        struct buf key;

        span = json_span_member(text, LESSOR_SLICE("\"a\""));
        FUZZ_CHECK(span.p == NULL ||
                   (span.p >= text.p && span.n <= text.n && (size_t)(span.p - text.p) <= text.n - span.n));
        if (json_read_file_text(text, arena, &value, NULL) < 0 || !json_is(value, JSON_OBJECT))
                return;
        buf_init(&key);
        json_each (member, value) {
                buf_clear(&key);
                FUZZ_CHECK(json_write_text(&key, member->key) == 0);
                span = json_span_member(text, buf_view(&key));
                if (span.p == NULL) /* it is spelled otherwise */
                        continue;
                FUZZ_CHECK(json_read_file_text(span, arena, &again, NULL) == 0);
                FUZZ_CHECK(json_same(member, again));
        }
        buf_done(&key);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        struct lessor_arena *arena = lessor_arena_new();
        char *exact = malloc(size == 0 ? 1 : size); /* so that a sanitizer sees what is read behind it */
        struct lessor_slice text = {exact, size};
        struct json *value = NULL;
        int r;

        FUZZ_CHECK(arena != NULL && exact != NULL);
        if (size > 0)
                memcpy(exact, data, size);
        r = json_read(text, arena, &value);
        FUZZ_CHECK(r == 0 || r == LESSOR_E_MALFORMED || r == LESSOR_E_TOO_LARGE);
        FUZZ_CHECK((r == 0) == (value != NULL));
        check_copies(text, r, value, arena);
        check_spans(text, arena);
        if (r == 0)
                check_round_trip(value, arena);
        lessor_arena_free(arena);
        free(exact);
        return 0;
}
