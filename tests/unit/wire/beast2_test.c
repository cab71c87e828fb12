/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>
#include <stdlib.h>

#include "base/macro.h"
#include "rack_values.h"
#include "wire/deflate_fixed.h"
#include "wire/rack_message.h"

/* What the vectors do not say: limits to the byte, what the writer refuses, and rules that tables must keep.
 */

#define LIT(text)                      \
        {                              \
                text, sizeof(text) - 1 \
        }

static struct lessor_arena *arena;

static int set_up(void **state)
{
        (void)state;
        arena = lessor_arena_new();
        return arena == NULL;
}

static int tear_down(void **state)
{
        (void)state;
        arena = lessor_arena_free(arena);
        return 0;
}

/* A message of one stored frame around these logical bytes. */
static void wrap_logical(const struct beast2_type *type, struct lessor_slice logical, struct buf *out)
{
        buf_clear(out);
        assert_int_equal(beast2_prefix_append(type, out), 0);
        buf_char(out, 0);
        beast2_put_uvarint(out, logical.n);
        beast2_put_uvarint(out, logical.n);
        assert_int_equal(buf_slice(out, logical), 0);
}

static int read_within(const struct beast2_type *type, const struct buf *bytes, size_t logical, size_t memory,
                       void *ret_value)
{
        const struct beast2_limits limits = {logical, memory};

        return beast2_read(type, buf_view(bytes), &limits, arena, ret_value, NULL);
}

static void the_limit_of_logical_bytes_is_exact(void **state)
{
        struct rack_lease_ref ref = {LESSOR_SLICE("sales"), LESSOR_SLICE("lease-1")}, read;
        struct lessor_slice *hashes = lessor_arena_array(arena, 1000, sizeof(*hashes));
        struct rack_closure_list list = {hashes, 1000}, list_read;
        struct buf out;

        (void)state;
        buf_init(&out);
        assert_int_equal(beast2_write(&rack_lease_ref_type, &ref, &out), 0);
        assert_int_equal(read_within(&rack_lease_ref_type, &out, 14, 0, &read), 0);
        assert_true(lessor_slice_equal(read.lease_id, ref.lease_id));
        assert_int_equal(read_within(&rack_lease_ref_type, &out, 13, 0, &read), LESSOR_E_TOO_LARGE);
        assert_null(read.repo.p);

        /* Deflated: 1000 empty texts, a tag, a count of two bytes and a terminator. */
        buf_clear(&out);
        assert_int_equal(beast2_write(&rack_closure_list_type, &list, &out), 0);
        assert_true(out.n < 100);
        assert_int_equal(read_within(&rack_closure_list_type, &out, 1004, 1u << 20, &list_read), 0);
        assert_int_equal(list_read.n_hashes, 1000);
        assert_int_equal(read_within(&rack_closure_list_type, &out, 1003, 1u << 20, &list_read),
                         LESSOR_E_TOO_LARGE);
        buf_done(&out);
}

static void lists_take_no_more_memory_than_they_may(void **state)
{
        struct lessor_slice *hashes = lessor_arena_array(arena, 1000, sizeof(*hashes));
        struct rack_lease_request request = {hashes, 1000, LESSOR_SLICE("boot")}, read;
        struct buf out;

        (void)state;
        buf_init(&out);
        assert_int_equal(beast2_write(&rack_lease_request_type, &request, &out), 0);
        assert_int_equal(read_within(&rack_lease_request_type, &out, 2000, 17000, &read), 0);
        assert_int_equal(read.n_tiers, 1000);
        assert_int_equal(read_within(&rack_lease_request_type, &out, 2000, 15999, &read), LESSOR_E_TOO_LARGE);
        assert_int_equal(read.n_tiers, 0);
        buf_done(&out);
}

/* A frame of codec 1 that says it stands for a megabyte, with nine bytes to say it. */
static void an_implausible_expansion_is_refused_before_it_takes_memory(void **state)
{
        struct rack_lease_ref read;
        const char *problem = NULL;
        struct buf out;

        (void)state;
        buf_init(&out);
        assert_int_equal(beast2_prefix_append(&rack_lease_ref_type, &out), 0);
        buf_char(&out, 1);
        beast2_put_uvarint(&out, 1048576);
        beast2_put_uvarint(&out, 9);
        buf_append(&out, "\0\0\0\0\0\0\0\0\0", 9);
        assert_int_equal(beast2_read(&rack_lease_ref_type, buf_view(&out), NULL, arena, &read, &problem),
                         LESSOR_E_MALFORMED);
        assert_string_equal(problem, "a DEFLATE stream cannot give as many bytes as the frame says");
        buf_done(&out);
}

/* Outputs of two entries of four bytes, and an alias of it where commits would be another type: targets. */
static void aliases_count_once_more_each_time(void **state)
{
        /* objects, output none, env none, targets: two that put, the second with the headers of the first. */
        static const struct lessor_slice logical =
                LESSOR_SLICE("\0\0"   /* 0 objects */
                             "\0\0"   /* output, env */
                             "\0\x02" /* 1 targets */
                             "\1a\1\1u"
                             "\0\1\1k\1v\0" /* 2 its Dict: 6 bytes after the tag */
                             "\1b\1\1u"
                             "\1\1" /* the same */
                             "\0"
                             "\0\0"); /* 3 committed */
        const size_t all = logical.n + 6;
        struct rack_storage_response read;
        struct buf out;

        (void)state;
        buf_init(&out);
        wrap_logical(&rack_storage_response_type, logical, &out);
        assert_int_equal(read_within(&rack_storage_response_type, &out, all, 1u << 16, &read), 0);
        assert_int_equal(read.n_targets, 2);
        assert_int_equal(read.targets[1].target.put.n_headers, 1);
        assert_ptr_equal(read.targets[0].target.put.headers, read.targets[1].target.put.headers);
        assert_int_equal(read_within(&rack_storage_response_type, &out, all - 1, 1u << 16, &read),
                         LESSOR_E_TOO_LARGE);
        buf_done(&out);
}

/* Two lists of lists, which no rack message has: aliases within what an alias names. */
static void aliases_of_aliases_count_each_time(void **state)
{
        static const struct beast2_type lists = {
                .kind = BEAST2_ARRAY, .size = sizeof(struct beast2_list), .element = &beast2_string_list};
        static const struct beast2_member members[] = {
                {LIT("a"), &lists, 0},
                {LIT("b"), &lists, sizeof(struct beast2_list)},
        };
        static const struct beast2_type both = {.kind = BEAST2_STRUCT,
                                                .size = 2 * sizeof(struct beast2_list),
                                                .members = members,
                                                .n_members = 2};
        static const struct lessor_slice logical = LIT("\0\2"        /* container 0, of two lists */
                                                       "\0\1\3abc\0" /* 1: 6 bytes after its tag */
                                                       "\1\1"        /* it once more: 6 */
                                                       "\0"     /* so 0 is 11 bytes after its tag, and 6 */
                                                       "\1\2"); /* container 0 once more: 17 */
        const size_t all = logical.n + 6 + 17;
        struct beast2_list read[2];
        struct buf out;

        (void)state;
        buf_init(&out);
        wrap_logical(&both, logical, &out);
        assert_int_equal(read_within(&both, &out, all, 1u << 16, read), 0);
        assert_int_equal(read[0].n, 2);
        assert_ptr_equal(read[0].items, read[1].items);
        assert_int_equal(read_within(&both, &out, all - 1, 1u << 16, read), LESSOR_E_TOO_LARGE);
        buf_done(&out);
}

static int read_index(const char *offsets, size_t offsets_len)
{
        struct rack_closure_list read;
        struct buf out;
        size_t index;
        int e;

        buf_init(&out);
        assert_int_equal(beast2_prefix_append(&rack_closure_list_type, &out), 0);
        assert_int_equal(out.n, 17);
        buf_append(&out,
                   "\0\1\1\0"
                   "\0\6\6\1\1a\1\1b"
                   "\0\4\4\1\1c\0",
                   4 + 9 + 7);
        index = out.n;
        buf_char(&out, 0);
        buf_append(&out, offsets, offsets_len);
        buf_char(&out, (char)index);
        buf_append(&out, "\0\0\0\0\0\0\0", 7);
        assert_int_equal(buf_append(&out,
                                    "\x89"
                                    "East\r\n\xf5",
                                    8),
                         0);
        e = rack_message_read_beast2(&rack_closure_list_type, buf_view(&out), arena, &read, NULL);
        buf_done(&out);
        return e;
}

/* Two segments in the frame at 21, and one with the terminator in that at 30. */
static void the_index_of_a_paged_list_names_its_frames(void **state)
{
        (void)state;
        assert_int_equal(read_index("\3\x15\1\0\1\x09\1", 7), 0);
        assert_int_equal(read_index("\3\x14\1\1\1\x09\1", 7), LESSOR_E_MALFORMED);
        assert_int_equal(read_index("\3\x15\1\0\1\x0a\1", 7), LESSOR_E_MALFORMED);
        assert_int_equal(read_index("\3\x15\1\1\1\x08\1", 7), LESSOR_E_MALFORMED);
}

/* Each segment holds one item: room doubles, and does not grow with the square. */
static void many_segments_are_one_list(void **state)
{
        struct rack_lease_request read;
        struct buf logical, out;

        (void)state;
        buf_init(&logical);
        buf_init(&out);
        buf_char(&logical, 0);
        for (int i = 0; i < 100000; i++)
                buf_append(&logical, i % 2 ? "\1\1x" : "\1\1y", 3);
        buf_append(&logical, "\0\0", 2);
        wrap_logical(&rack_lease_request_type, buf_view(&logical), &out);
        assert_int_equal(read_within(&rack_lease_request_type, &out, 1u << 20, 6u << 20, &read), 0);
        assert_int_equal(read.n_tiers, 100000);
        assert_true(lessor_slice_equal(read.tiers[99999], LESSOR_SLICE("x")));
        buf_done(&logical);
        buf_done(&out);
}

static void texts_are_borrowed_from_a_message_that_is_not_compressed(void **state)
{
        struct rack_lease_ref ref = {LESSOR_SLICE("sales"), LESSOR_SLICE("")}, read;
        struct buf out;

        (void)state;
        buf_init(&out);
        assert_int_equal(beast2_write(&rack_lease_ref_type, &ref, &out), 0);
        assert_int_equal(read_within(&rack_lease_ref_type, &out, 100, 0, &read), 0);
        assert_true(read.repo.p > out.p && read.repo.p < out.p + out.n);
        assert_non_null(read.lease_id.p); /* present, and empty */
        buf_done(&out);
}

static void check_not_written(const struct beast2_type *type, const void *value)
{
        struct buf out;

        buf_init(&out);
        buf_text(&out, "before");
        assert_int_equal(beast2_write(type, value, &out), LESSOR_E_INVALID);
        assert_int_equal(out.n, 6);
        buf_done(&out);
}

static void what_is_no_value_is_not_written(void **state)
{
        struct rack_header twice[] = {{LESSOR_SLICE("k"), LESSOR_SLICE("1")},
                                      {LESSOR_SLICE("a"), LESSOR_SLICE("2")},
                                      {LESSOR_SLICE("k"), LESSOR_SLICE("3")}};
        const struct rack_write_target target = {RACK_TARGET_PUT, {LESSOR_SLICE("u"), twice, 3}};
        const struct rack_lease_ref not_utf8 = {LESSOR_SLICE("\xed\xa0\x80"), LESSOR_SLICE("")};
        const struct rack_log_chunk no_stream = {(enum rack_stream)2, LESSOR_SLICE("")};
        const struct rack_activity_entry late = {.claimed_at_ms = BEAST2_DATETIME_MOST + 1};
        const struct rack_activity_entry early = {.claimed_at_ms = -BEAST2_DATETIME_MOST - 1};

        (void)state;
        check_not_written(&rack_write_target_type, &target);
        check_not_written(&rack_lease_ref_type, &not_utf8);
        check_not_written(&rack_log_chunk_type, &no_stream);
        check_not_written(&rack_activity_entry_type, &late);
        check_not_written(&rack_activity_entry_type, &early);
}

/* What a server writes without making the envelope is the envelope. */
static void a_case_is_written_as_its_variant(void **state)
{
        const struct rack_heartbeat_reply success = {RACK_OUTCOME_SUCCESS,
                                                     .success = {.pending_approval = true}};
        const struct rack_heartbeat_reply error = {
                RACK_OUTCOME_ERROR, .error = {RACK_ERROR_INTERNAL, .only = {LESSOR_SLICE("no")}}};
        struct buf whole, parts;

        (void)state;
        buf_init(&whole);
        buf_init(&parts);
        assert_int_equal(beast2_write(&rack_heartbeat_reply_type, &success, &whole), 0);
        assert_int_equal(rack_success_write_beast2(&rack_heartbeat_reply_type, &success.success, &parts), 0);
        assert_true(lessor_slice_equal(buf_view(&whole), buf_view(&parts)));
        buf_clear(&whole);
        buf_clear(&parts);
        assert_int_equal(beast2_write(&rack_heartbeat_reply_type, &error, &whole), 0);
        assert_int_equal(rack_internal_write_beast2(&rack_heartbeat_reply_type, LESSOR_SLICE("no"), &parts),
                         0);
        assert_true(lessor_slice_equal(buf_view(&whole), buf_view(&parts)));
        assert_int_equal(beast2_write_case(&rack_heartbeat_reply_type, 2, NULL, &parts), LESSOR_E_INVALID);
        assert_true(lessor_slice_equal(buf_view(&whole), buf_view(&parts)));
        buf_done(&whole);
        buf_done(&parts);
}

/* --- Rules of the tables --- */

struct seen_types {
        const struct beast2_type *types[256];
        size_t n;
};

static void collect(const struct beast2_type *type, struct seen_types *seen)
{
        for (size_t i = 0; i < seen->n; i++)
                if (seen->types[i] == type)
                        return;
        assert_true(seen->n < ARRAY_SIZE(seen->types));
        seen->types[seen->n++] = type;
        for (size_t i = 0; i < type->n_members; i++)
                collect(type->members[i].type, seen);
        if (type->element != NULL)
                collect(type->element, seen);
}

static void all_types(struct seen_types *seen)
{
        for (const struct beast2_type *const *type = rack_types; *type != NULL; type++)
                collect(*type, seen);
        assert_true(seen->n > 60);
}

static void cases_are_in_the_order_of_their_names(void **state)
{
        struct seen_types seen = {.n = 0};

        (void)state;
        all_types(&seen);
        for (size_t i = 0; i < seen.n; i++)
                for (size_t k = 1; seen.types[i]->kind == BEAST2_VARIANT && k < seen.types[i]->n_members; k++)
                        assert_true(lessor_slice_cmp(seen.types[i]->members[k - 1].name,
                                                     seen.types[i]->members[k].name) < 0);
}

static bool is_list(const struct beast2_type *type)
{
        return type->kind == BEAST2_ARRAY || type->kind == BEAST2_DICT;
}

/* The reader takes two lists for the same type when they are the same table. */
static void equal_lists_within_a_message_are_one_table(void **state)
{
        struct buf a, b;

        (void)state;
        buf_init(&a);
        buf_init(&b);
        for (const struct beast2_type *const *type = rack_types; *type != NULL; type++) {
                struct seen_types seen = {.n = 0};

                collect(*type, &seen);
                for (size_t i = 0; i < seen.n; i++)
                        for (size_t k = 0; k < i; k++) {
                                if (!is_list(seen.types[i]) || !is_list(seen.types[k]))
                                        continue;
                                buf_clear(&a);
                                buf_clear(&b);
                                assert_int_equal(beast2_prefix_append(seen.types[i], &a), 0);
                                assert_int_equal(beast2_prefix_append(seen.types[k], &b), 0);
                                assert_false(lessor_slice_equal(buf_view(&a), buf_view(&b)));
                        }
        }
        buf_done(&a);
        buf_done(&b);
}

static void the_one_text_of_an_error_lies_where_every_case_has_it(void **state)
{
        (void)state;
        for (size_t i = 0; i < rack_error_type.n_members; i++) {
                const struct beast2_member *m = &rack_error_type.members[i];

                if (m->type->kind == BEAST2_NULL)
                        continue;
                assert_int_equal(m->offset, offsetof(struct rack_error, only));
                assert_true(m->offset + m->type->size <= rack_error_type.size);
        }
}

/* Any value of any type comes back as it was, from either form, and from one through the other. */
static void every_message_round_trips_in_both_forms(void **state)
{
        struct buf first, second, json;

        (void)state;
        buf_init(&first);
        buf_init(&second);
        buf_init(&json);
        for (const struct beast2_type *const *type = rack_types; *type != NULL; type++) {
                for (uint64_t seed = 1; seed <= 60; seed++) {
                        void *value = rack_value_make(*type, seed, arena), *again, *third;
                        const char *problem = "";

                        again = lessor_arena_alloc(arena, (*type)->size);
                        third = lessor_arena_alloc(arena, (*type)->size);
                        buf_clear(&first);
                        buf_clear(&second);
                        buf_clear(&json);
                        assert_int_equal(rack_message_write_beast2(*type, value, &first), 0);
                        if (rack_message_read_beast2(*type, buf_view(&first), arena, again, &problem) < 0)
                                fail_msg("%s, seed %d: %s", (*type)->name, (int)seed, problem);
                        assert_int_equal(rack_message_write_json(*type, again, &json), 0);
                        if (rack_message_read_json(*type, buf_view(&json), 0, arena, third, &problem) < 0)
                                fail_msg("%s, seed %d: %s: %s", (*type)->name, (int)seed, problem, json.p);
                        assert_int_equal(rack_message_write_beast2(*type, third, &second), 0);
                        assert_true(lessor_slice_equal(buf_view(&first), buf_view(&second)));
                        lessor_arena_clear(arena);
                }
        }
        buf_done(&first);
        buf_done(&second);
        buf_done(&json);
}

/* --- Threads --- */

static struct beast2_memo contended_memo;
static struct beast2_type contended;

static void *ask_for_prefix(void *out)
{
        return beast2_prefix_append(&contended, out) == 0 ? out : NULL;
}

static void threads_may_make_a_prefix_at_once(void **state)
{
        struct buf out[8];
        pthread_t threads[8];
        void *result;

        (void)state;
        contended = rack_storage_reply_type;
        contended.memo = &contended_memo;
        for (size_t i = 0; i < ARRAY_SIZE(out); i++) {
                buf_init(&out[i]);
                assert_int_equal(pthread_create(&threads[i], NULL, ask_for_prefix, &out[i]), 0);
        }
        for (size_t i = 0; i < ARRAY_SIZE(out); i++) {
                assert_int_equal(pthread_join(threads[i], &result), 0);
                assert_non_null(result);
                assert_true(lessor_slice_equal(buf_view(&out[0]), buf_view(&out[i])));
        }
        for (size_t i = 0; i < ARRAY_SIZE(out); i++)
                buf_done(&out[i]);
}

#define IN_ARENA(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
        const struct CMUnitTest tests[] = {
                IN_ARENA(the_limit_of_logical_bytes_is_exact),
                IN_ARENA(lists_take_no_more_memory_than_they_may),
                IN_ARENA(an_implausible_expansion_is_refused_before_it_takes_memory),
                IN_ARENA(aliases_count_once_more_each_time),
                IN_ARENA(aliases_of_aliases_count_each_time),
                IN_ARENA(the_index_of_a_paged_list_names_its_frames),
                IN_ARENA(many_segments_are_one_list),
                IN_ARENA(texts_are_borrowed_from_a_message_that_is_not_compressed),
                IN_ARENA(what_is_no_value_is_not_written),
                IN_ARENA(a_case_is_written_as_its_variant),
                IN_ARENA(cases_are_in_the_order_of_their_names),
                IN_ARENA(equal_lists_within_a_message_are_one_table),
                IN_ARENA(the_one_text_of_an_error_lies_where_every_case_has_it),
                IN_ARENA(every_message_round_trips_in_both_forms),
                IN_ARENA(threads_may_make_a_prefix_at_once),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
