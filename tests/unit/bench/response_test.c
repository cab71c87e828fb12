/* SPDX-License-Identifier: MIT */
#include "response.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/macro.h"
#include "lessor/error.h"

struct good {
        const char *text;
        const char *body;
        int status;
        bool closes;
};

static const struct good good[] = {
        {"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", "hello", 200, false},
        {"HTTP/1.1 404 Not Found\r\ncontent-length:0\r\nCONNECTION: Close\r\n\r\n", "", 404, true},
        {"HTTP/1.1 204 No Content\r\nDate: now\r\n\r\n", "", 204, false},
        {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\nA;x=y\r\n0123456789\r\n0\r\n\r\n",
         "abc0123456789", 200, false},
};

static const char *const bad[] = {
        "HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n",
        "ICY 200 OK\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 200 OK\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: many\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nab",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nab\r\n0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nHTTP",
};

static void assert_complete(const struct response *r, const struct good *wanted)
{
        struct lessor_slice body = response_body(r);

        assert_int_equal(r->status, wanted->status);
        assert_int_equal(r->closes, wanted->closes);
        assert_int_equal(body.n, strlen(wanted->body));
        assert_memory_equal(body.p, wanted->body, body.n);
}

/* Byte by byte, and over and over with the same object. */
static void an_answer_is_complete_with_its_last_byte(void **state)
{
        struct response r = {0};

        (void)state;
        for (size_t i = 0; i < ARRAY_SIZE(good); i++) {
                size_t n = strlen(good[i].text);

                response_clear(&r);
                for (size_t k = 0; k < n; k++) {
                        assert_int_equal(buf_append(&r.raw, good[i].text + k, 1), 0);
                        assert_int_equal(response_read(&r), k + 1 == n);
                }
                assert_complete(&r, &good[i]);
        }
        response_done(&r);
}

static void an_answer_may_come_in_one_piece(void **state)
{
        struct response r = {0};

        (void)state;
        for (size_t i = 0; i < ARRAY_SIZE(good); i++) {
                response_clear(&r);
                assert_int_equal(buf_text(&r.raw, good[i].text), 0);
                assert_int_equal(response_read(&r), 1);
                assert_complete(&r, &good[i]);
        }
        response_done(&r);
}

static void what_is_no_answer_is_refused(void **state)
{
        struct response r = {0};

        (void)state;
        for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
                response_clear(&r);
                assert_int_equal(buf_text(&r.raw, bad[i]), 0);
                if (response_read(&r) != LESSOR_E_PROTOCOL)
                        fail_msg("taken: %s", bad[i]);
        }
        response_done(&r);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(an_answer_is_complete_with_its_last_byte),
                cmocka_unit_test(an_answer_may_come_in_one_piece),
                cmocka_unit_test(what_is_no_answer_is_refused),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
