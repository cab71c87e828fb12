/* SPDX-License-Identifier: MIT */
#include "nomem.h"

#include "base/macro.h"
#include "wire/rack_message.h"

/* Reading and writing rack messages while memory runs short at each place where it is asked for. */

static struct rack_header headers[] = {{LESSOR_SLICE("x-c"), LESSOR_SLICE("3")},
                                       {LESSOR_SLICE("A"), LESSOR_SLICE("1")}};
static struct rack_object_target targets[] = {
        {LESSOR_SLICE("h1"), {RACK_TARGET_PUT, {LESSOR_SLICE("https://put.example/1"), headers, 2}}},
        {LESSOR_SLICE("h2"), {RACK_TARGET_PUT, {LESSOR_SLICE("https://put.example/2"), headers, 2}}},
        {LESSOR_SLICE("h3"), {RACK_TARGET_HELD}},
};
static struct rack_object_descriptor objects[] = {
        {RACK_DESCRIPTOR_INLINE, .inlined = {LESSOR_SLICE("h"), LESSOR_SLICE("\0\1\2\377")}}};
static struct rack_output_upload upload = {LESSOR_SLICE("https://put.example/o"), LESSOR_SLICE("u")};
static const struct rack_storage_response answer = {
        .objects = objects, .n_objects = 1, .output = &upload, .targets = targets, .n_targets = 3};

/* So little is left in the arena's block that what is read does not fit it. */
static int crowd(struct lessor_arena *arena)
{
        return lessor_arena_alloc(arena, 1900) == NULL ? LESSOR_E_NOMEM : 0;
}

/* A type whose prefix was never made, so that making it fails too. */
static struct beast2_type fresh(struct beast2_memo *memo)
{
        struct beast2_type type = rack_storage_response_type;

        type.memo = memo;
        return type;
}

static int write_beast2(struct lessor_arena *arena)
{
        struct beast2_type type = fresh(NULL);
        _cleanup_(buf_done) struct buf out = {0};

        (void)arena;
        return rack_message_write_beast2(&type, &answer, &out);
}

static int write_json(struct lessor_arena *arena)
{
        _cleanup_(buf_done) struct buf out = {0};

        (void)arena;
        return rack_message_write_json(&rack_storage_response_type, &answer, &out);
}

static struct buf as_beast2, as_json;

static int read_beast2(struct lessor_arena *arena)
{
        struct beast2_type type = fresh(NULL);
        struct rack_storage_response read;
        int e = crowd(arena);

        return e < 0 ? e : rack_message_read_beast2(&type, buf_view(&as_beast2), arena, &read, NULL);
}

static int read_json(struct lessor_arena *arena)
{
        struct rack_storage_response read;
        const char *problem = NULL;
        int e = crowd(arena);

        if (e == 0)
                e = rack_message_read_json(&rack_storage_response_type, buf_view(&as_json), 0, arena, &read,
                                           &problem);
        return e;
}

static int read_wrong_json(struct lessor_arena *arena)
{
        static const char text[] = "{\"stop\":[{\"repo\":\"r\",\"leaseId\":1}]}";
        struct rack_watch_response read;
        const char *problem = NULL;
        int e = crowd(arena);

        if (e == 0)
                e = rack_message_read_json(&rack_watch_response_type, lessor_slice_of(text), 0, arena, &read,
                                           &problem);
        if (e == LESSOR_E_INVALID)
                assert_non_null(problem);
        return e;
}

static int read_paged_list(struct lessor_arena *arena)
{
        static const char bytes[] = "\x89"
                                    "East\r\n\5"
                                    "\0\5\1\2\1\x0a\0"
                                    "\1\0"
                                    "\0\1\1\0"
                                    "\0\5\5\2\1a\1b"
                                    "\0\3\3\1\1c"
                                    "\0\1\1\0";
        struct rack_closure_list list;
        int e = crowd(arena);

        if (e == 0)
                e = rack_message_read_beast2(&rack_closure_list_type,
                                             (struct lessor_slice){bytes, sizeof(bytes) - 1}, arena, &list,
                                             NULL);
        if (e == 0)
                assert_int_equal(list.n_hashes, 3);
        return e;
}

/* The memo of a prefix that could not be made stays empty, and is made the next time. */
static int make_memo(struct lessor_arena *arena)
{
        static struct beast2_memo memo;
        struct beast2_type type = fresh(&memo);
        _cleanup_(buf_done) struct buf out = {0};

        (void)arena;
        return beast2_prefix_append(&type, &out);
}

static void rack_messages_survive_each_failure(void **state)
{
        (void)state;
        assert_int_equal(rack_message_write_beast2(&rack_storage_response_type, &answer, &as_beast2), 0);
        assert_int_equal(rack_message_write_json(&rack_storage_response_type, &answer, &as_json), 0);
        fail_each(make_memo, 0);
        fail_each(write_beast2, 0);
        fail_each(write_json, 0);
        fail_each(read_beast2, 0);
        fail_each(read_json, 0);
        fail_each(read_wrong_json, LESSOR_E_INVALID);
        fail_each(read_paged_list, 0);
        buf_done(&as_beast2);
        buf_done(&as_json);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(rack_messages_survive_each_failure),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
