/* SPDX-License-Identifier: MIT */
#include "wire/lease_result.h"
#include "base/json_read.h"
#include "base/utf8.h"
#include "fuzz.h"

/* A result. What is taken is an object, and its verdict holds what section 13 promises. */

static void check_verdict(const struct lessor_verdict *verdict)
{
        FUZZ_CHECK(!verdict->has_peak_bytes || verdict->peak_bytes >= 0);
        FUZZ_CHECK(!(verdict->error && verdict->success));
        FUZZ_CHECK(verdict->output_hash.p == NULL || verdict->output_hash.n == 64);
        FUZZ_CHECK(verdict->message.p == NULL || utf8_valid(verdict->message));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        const struct lessor_slice text = {size == 0 ? "" : (const char *)data, size};
        struct lessor_arena *arena = lessor_arena_new();
        struct lessor_verdict verdict;
        const char *problem = NULL;
        struct json *value;
        int strict, r;

        FUZZ_CHECK(arena != NULL);
        r = lease_result_read(text, arena, &verdict, &problem);
        FUZZ_CHECK(r == 0 || (r == LESSOR_E_INVALID && problem != NULL));
        if (r == 0)
                check_verdict(&verdict);
        /* The strict reader takes no more than this one. */
        strict = json_read(text, arena, &value);
        FUZZ_CHECK(r == LESSOR_E_INVALID || strict == 0 || strict == LESSOR_E_MALFORMED ||
                   strict == LESSOR_E_TOO_LARGE);
        if (strict == 0)
                FUZZ_CHECK((json_read_members(text, arena, NULL, NULL, NULL) == 0) ==
                           json_is(value, JSON_OBJECT));
        lessor_arena_free(arena);
        return 0;
}
