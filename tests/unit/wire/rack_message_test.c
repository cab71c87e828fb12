/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/macro.h"
#include "wire/rack_message.h"

/* The JSON form of rack messages (rack-protocol 19 and 20). */

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

#define REF   "\"repo\":\"r\",\"leaseId\":\"l\""
#define SIZES "{\"hash\":\"h\",\"size\":1}"
#define STORAGE \
        REF ",\"need\":[\"a\"],\"output\":null,\"envManifest\":null,\"outputs\":[" SIZES "],\"commits\":[]"

/* Texts that read, and what the message is written as; NULL: the same text. */
static const struct {
        const struct beast2_type *type;
        const char *text;
        const char *written;
} accepted[] = {
        {&rack_lease_ref_type, "{" REF "}", NULL},
        {&rack_lease_ref_type, " { \"leaseId\" : \"l\" , \"repo\" : \"r\" } ", "{" REF "}"},
        {&rack_lease_ref_type, "{\"repo\":\"\\u0000\\ud83d\\ude80\",\"leaseId\":\"\xef\xbb\xbf\"}",
         "{\"repo\":\"\\u0000\xf0\x9f\x9a\x80\",\"leaseId\":\"\xef\xbb\xbf\"}"},
        /* Options: null and absent are the same. */
        {&rack_extend_request_type, "{" REF "}", "{" REF ",\"attempt\":null}"},
        {&rack_extend_request_type, "{" REF ",\"attempt\":null}", NULL},
        {&rack_extend_request_type, "{" REF ",\"attempt\":\"\"}", NULL},
        {&rack_storage_request_type, "{" STORAGE ",\"attempt\":\"a\"}", NULL},
        {&rack_storage_request_type,
         "{" REF ",\"need\":[],\"outputs\":[],\"commits\":[],\"output\":" SIZES "}",
         "{" REF ",\"need\":[],\"output\":" SIZES
         ",\"envManifest\":null,\"outputs\":[],\"commits\":[],\"attempt\":null}"},
        {&rack_activity_entry_type,
         "{\"repo\":\"r\",\"workspace\":\"w\",\"taskName\":\"t\",\"tier\":\"c\",\"status\":\"s\",\"outcome\":"
         "null,"
         "\"error\":\"e\",\"claimedAt\":-1,\"completedAt\":8640000000000000}",
         NULL},
        /* Integers: by value, or digits. */
        {&rack_object_size_type, "{\"hash\":\"h\",\"size\":1.0}", SIZES},
        {&rack_object_size_type, "{\"hash\":\"h\",\"size\":1e3}", "{\"hash\":\"h\",\"size\":1000}"},
        {&rack_object_size_type, "{\"hash\":\"h\",\"size\":\"1\"}", SIZES},
        {&rack_object_size_type, "{\"hash\":\"h\",\"size\":-0}", "{\"hash\":\"h\",\"size\":0}"},
        {&rack_object_size_type, "{\"hash\":\"h\",\"size\":9007199254740991}", NULL},
        {&rack_object_size_type, "{\"hash\":\"h\",\"size\":\"9007199254740991\"}",
         "{\"hash\":\"h\",\"size\":9007199254740991}"},
        {&rack_object_size_type, "{\"hash\":\"h\",\"size\":\"9007199254740992\"}", NULL},
        {&rack_object_size_type, "{\"hash\":\"h\",\"size\":\"9223372036854775807\"}", NULL},
        {&rack_object_size_type, "{\"hash\":\"h\",\"size\":\"-9223372036854775808\"}", NULL},
        /* Variants: the bare name where the case has no payload, the object always. */
        {&rack_log_chunk_type, "{\"stream\":\"stdout\",\"data\":\"\"}", NULL},
        {&rack_log_chunk_type, "{\"stream\":{\"stdout\":null},\"data\":\"\"}",
         "{\"stream\":\"stdout\",\"data\":\"\"}"},
        {&rack_write_target_type, "\"held\"", NULL},
        {&rack_write_target_type, "{\"put\":{\"url\":\"u\",\"headers\":{\"x-c\":\"1\",\"A\":\"\"}}}", NULL},
        {&rack_object_descriptor_type, "{\"inline\":{\"hash\":\"h\",\"data\":\"AP8=\"}}", NULL},
        {&rack_object_descriptor_type, "{\"inline\":{\"hash\":\"h\",\"data\":\"\"}}", NULL},
        {&rack_object_descriptor_type, "{\"url\":{\"hash\":\"h\",\"url\":\"u\"}}", NULL},
        {&rack_complete_request_type,
         "{" REF ",\"resultJson\":\"{}\",\"outputUploadId\":null,\"inlineOutput\":\"\",\"attempt\":null}",
         NULL},
        {&rack_complete_response_type, "{\"disposition\":\"recorded\"}", NULL},
        {&rack_lease_grant_type,
         "{\"repo\":\"r\",\"workspace\":\"w\",\"leaseId\":\"l\",\"tier\":\"t\",\"computeSize\":\"s\","
         "\"eventJson\":"
         "\"{}\",\"visibilityDeadline\":5,\"attempt\":null,\"serverTimeMs\":4}",
         NULL},
        {&rack_watch_request_type, "{\"leases\":[{" REF "}],\"bootId\":\"b\"}", NULL},
        {&rack_watch_response_type, "{\"stop\":[]}", NULL},
        {&rack_closure_list_type, "[\"a\",\"\"]", NULL},
        {&beast2_boolean, "true", NULL},
};

static void messages_read_and_are_written_again(void **state)
{
        struct buf out;

        (void)state;
        buf_init(&out);
        for (size_t i = 0; i < ARRAY_SIZE(accepted); i++) {
                const struct beast2_type *type = accepted[i].type;
                void *message = lessor_arena_alloc(arena, type->size);
                const char *problem = NULL;

                assert_non_null(message);
                buf_clear(&out);
                if (rack_message_read_json(type, lessor_slice_of(accepted[i].text), 0, arena, message,
                                           &problem) < 0)
                        fail_msg("%s: %s", accepted[i].text, problem);
                assert_int_equal(rack_message_write_json(type, message, &out), 0);
                assert_string_equal(out.p,
                                    accepted[i].written == NULL ? accepted[i].text : accepted[i].written);
        }
        buf_done(&out);
}

#define MALFORMED LESSOR_E_MALFORMED
#define INVALID   LESSOR_E_INVALID

static const struct {
        const struct beast2_type *type;
        const char *text;
        int error;
        const char *problem; /* NULL: whatever it says */
} refused[] = {
        {&rack_lease_ref_type, "", MALFORMED, NULL},
        {&rack_lease_ref_type, "{" REF, MALFORMED, NULL},
        {&rack_lease_ref_type, "\xef\xbb\xbf{" REF "}", MALFORMED, NULL},
        {&rack_lease_ref_type, "{\"repo\":\"\\ud800\",\"leaseId\":\"l\"}", MALFORMED,
         "line 1, column 16: a surrogate stands alone"},
        {&rack_lease_ref_type, "{\"repo\":\"\xed\xa0\x80\",\"leaseId\":\"l\"}", MALFORMED, NULL},
        {&rack_lease_ref_type, "{" REF ",\"repo\":\"r\"}", MALFORMED,
         "line 1, column 27: an object has a key twice"},
        {&rack_write_target_type, "{\"put\":{\"url\":\"u\",\"headers\":{\"a\":\"1\",\"\\u0061\":\"1\"}}}",
         MALFORMED, NULL},
        {&rack_lease_ref_type, "null", INVALID, "must be an object"},
        {&rack_lease_ref_type, "[]", INVALID, "must be an object"},
        {&rack_lease_ref_type, "{\"repo\":\"r\"}", INVALID, "leaseId: is missing"},
        {&rack_lease_ref_type, "{\"repo\":null,\"leaseId\":\"l\"}", INVALID, "repo: must be a text"},
        {&rack_lease_ref_type, "{" REF ",\"attempt\":\"a\"}", INVALID, "has an unknown member \"attempt\""},
        {&rack_extend_request_type, "{" REF ",\"attempt\":1}", INVALID, "attempt: must be a text"},
        {&rack_storage_request_type, "{" STORAGE ",\"extra\":1}", INVALID, "has an unknown member \"extra\""},
        {&rack_storage_request_type,
         "{" REF ",\"need\":[],\"outputs\":[" SIZES ",{\"hash\":\"h\",\"size\":0.5}],\"commits\":[]}",
         INVALID, "outputs[1].size: must be an integer, or a text of decimal digits"},
        {&rack_storage_request_type, "{" REF ",\"need\":[1],\"outputs\":[],\"commits\":[]}", INVALID,
         "need[0]: must be a text"},
        {&rack_storage_request_type, "{" REF ",\"need\":{},\"outputs\":[],\"commits\":[]}", INVALID,
         "need: must be a list"},
        {&rack_storage_request_type, "{" REF ",\"need\":[],\"outputs\":[],\"commits\":[],\"output\":{}}",
         INVALID, "output.hash: is missing"},
        {&rack_heartbeat_request_type,
         "{\"healthy\":true,\"freeCapacity\":1,\"runningLeases\":[{" REF
         ",\"attempt\":null}],\"agentVersion\":"
         "\"1\",\"bootId\":\"b\",\"cacheBytes\":0}",
         INVALID, "runningLeases[0]: has an unknown member \"attempt\""},
        {&rack_object_size_type, "{\"hash\":\"h\",\"size\":9007199254740992}", INVALID, NULL},
        {&rack_object_size_type, "{\"hash\":\"h\",\"size\":1e400}", INVALID, NULL},
        {&rack_object_size_type, "{\"hash\":\"h\",\"size\":\"9223372036854775808\"}", INVALID, NULL},
        {&rack_object_size_type, "{\"hash\":\"h\",\"size\":\"-9223372036854775809\"}", INVALID, NULL},
        {&rack_object_size_type, "{\"hash\":\"h\",\"size\":\"\"}", INVALID, NULL},
        {&rack_object_size_type, "{\"hash\":\"h\",\"size\":\"-\"}", INVALID, NULL},
        {&rack_object_size_type, "{\"hash\":\"h\",\"size\":\"+1\"}", INVALID, NULL},
        {&rack_object_size_type, "{\"hash\":\"h\",\"size\":\"1.0\"}", INVALID, NULL},
        {&rack_object_size_type, "{\"hash\":\"h\",\"size\":\" 1\"}", INVALID, NULL},
        {&rack_object_size_type, "{\"hash\":\"h\",\"size\":null}", INVALID, NULL},
        {&rack_object_size_type, "{\"hash\":\"h\",\"size\":true}", INVALID, NULL},
        {&rack_log_chunk_type, "{\"stream\":\"stdin\",\"data\":\"\"}", INVALID,
         "stream: has no case \"stdin\""},
        {&rack_log_chunk_type, "{\"stream\":{\"stdin\":null},\"data\":\"\"}", INVALID,
         "stream: has no case \"stdin\""},
        {&rack_log_chunk_type, "{\"stream\":{\"stdout\":1},\"data\":\"\"}", INVALID,
         "stream.stdout: must be null"},
        {&rack_log_chunk_type, "{\"stream\":{},\"data\":\"\"}", INVALID, NULL},
        {&rack_log_chunk_type, "{\"stream\":1,\"data\":\"\"}", INVALID, NULL},
        {&rack_log_chunk_type, "{\"stream\":{\"stdout\":null,\"stderr\":null},\"data\":\"\"}", INVALID,
         "stream: must be the name of a case, or an object of one"},
        {&rack_write_target_type, "\"put\"", INVALID, "put: is missing"},
        {&rack_write_target_type, "{\"put\":{\"url\":\"u\",\"headers\":{\"a\":1}}}", INVALID,
         "put.headers.a: must be a text"},
        {&rack_write_target_type, "{\"put\":{\"url\":\"u\",\"headers\":[]}}", INVALID,
         "put.headers: must be an object"},
        {&rack_object_descriptor_type, "{\"inline\":{\"hash\":\"h\",\"data\":\"AP8\"}}", INVALID,
         "inline.data: must be bytes in padded base64"},
        {&rack_object_descriptor_type, "{\"inline\":{\"hash\":\"h\",\"data\":\"A_8=\"}}", INVALID, NULL},
        {&rack_security_policy_type, "{\"requireStartApproval\":1}", INVALID,
         "requireStartApproval: must be true or false"},
        {&rack_activity_entry_type,
         "{\"repo\":\"r\",\"workspace\":\"w\",\"taskName\":\"t\",\"tier\":\"c\",\"status\":\"s\","
         "\"claimedAt\":8640000000000001}",
         INVALID, "claimedAt: must be a time in milliseconds"},
        {&rack_closure_list_type, "[[]]", INVALID, "[0]: must be a text"},
};

static void what_is_no_message_is_refused_and_says_where(void **state)
{
        (void)state;
        for (size_t i = 0; i < ARRAY_SIZE(refused); i++) {
                const struct beast2_type *type = refused[i].type;
                char *message = lessor_arena_alloc(arena, type->size);
                const char *problem = NULL;
                int e;

                assert_non_null(message);
                memset(message, 0xa5, type->size);
                e = rack_message_read_json(type, lessor_slice_of(refused[i].text), 0, arena, message,
                                           &problem);
                if (e != refused[i].error)
                        fail_msg("%s: %d", refused[i].text, e);
                assert_non_null(problem);
                if (refused[i].problem != NULL)
                        assert_string_equal(problem, refused[i].problem);
                for (size_t k = 0; k < type->size; k++)
                        assert_int_equal(message[k], 0);
                /* Nor when nobody asks why. */
                e = rack_message_read_json(type, lessor_slice_of(refused[i].text), 0, arena, message, NULL);
                assert_int_equal(e, refused[i].error);
        }
}

static void a_name_without_end_is_not_repeated(void **state)
{
        struct rack_lease_ref ref;
        const char *problem = NULL;
        struct buf text;

        (void)state;
        buf_init(&text);
        buf_text(&text, "{\"");
        for (int i = 0; i < 300; i++)
                buf_char(&text, 'n');
        buf_text(&text, "\":1}");
        assert_int_equal(
                rack_message_read_json(&rack_lease_ref_type, buf_view(&text), 0, arena, &ref, &problem),
                LESSOR_E_INVALID);
        assert_string_equal(problem, "has an unknown member \"...\"");
        buf_done(&text);
}

static void an_open_reader_passes_over_what_it_does_not_know(void **state)
{
        struct rack_watch_response answer;

        (void)state;
        assert_int_equal(rack_message_read_json(&rack_watch_response_type,
                                                LESSOR_SLICE("{\"new\":{},\"stop\":[{" REF ",\"x\":1}]}"),
                                                BEAST2_JSON_OPEN, arena, &answer, NULL),
                         0);
        assert_int_equal(answer.n_stop, 1);
        assert_true(lessor_slice_equal(answer.stop[0].lease_id, LESSOR_SLICE("l")));
}

/* A grant has two members more in JSON, and the bytes of BEAST2 know nothing of them. */
static void beast2_leaves_out_what_only_json_has(void **state)
{
        struct rack_lease_grant grant = {
                .repo = LESSOR_SLICE("r"), .attempt = LESSOR_SLICE("a"), .server_time_ms = 7};
        struct rack_lease_grant read;
        struct buf out;

        (void)state;
        buf_init(&out);
        assert_int_equal(rack_message_write_beast2(&rack_lease_grant_type, &grant, &out), 0);
        assert_null(memmem(out.p, out.n, "attempt", 7));
        assert_int_equal(rack_message_read_beast2(&rack_lease_grant_type, buf_view(&out), arena, &read, NULL),
                         0);
        assert_true(lessor_slice_equal(read.repo, grant.repo));
        assert_null(read.attempt.p);
        assert_int_equal(read.server_time_ms, 0);
        buf_done(&out);
}

static void a_case_that_is_none_is_not_written(void **state)
{
        const struct rack_complete_response answer = {(enum rack_disposition)3};
        struct buf out;

        (void)state;
        buf_init(&out);
        buf_text(&out, "before");
        assert_int_equal(rack_message_write_json(&rack_complete_response_type, &answer, &out),
                         LESSOR_E_INVALID);
        assert_int_equal(out.n, 6);
        buf_done(&out);
}

static void types_are_found_by_name(void **state)
{
        (void)state;
        assert_ptr_equal(rack_type_named(LESSOR_SLICE("RackLeaseRefType")), &rack_lease_ref_type);
        assert_ptr_equal(rack_type_named(LESSOR_SLICE("ResponseType(BooleanType)")),
                         &rack_boolean_reply_type);
        assert_null(rack_type_named(LESSOR_SLICE("RackLeaseRef")));
        assert_null(rack_type_named(LESSOR_SLICE("")));
}

#define IN_ARENA(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
        const struct CMUnitTest tests[] = {
                IN_ARENA(messages_read_and_are_written_again),
                IN_ARENA(what_is_no_message_is_refused_and_says_where),
                IN_ARENA(a_name_without_end_is_not_repeated),
                IN_ARENA(an_open_reader_passes_over_what_it_does_not_know),
                IN_ARENA(beast2_leaves_out_what_only_json_has),
                IN_ARENA(a_case_that_is_none_is_not_written),
                IN_ARENA(types_are_found_by_name),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
