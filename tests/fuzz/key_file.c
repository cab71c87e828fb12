/* SPDX-License-Identifier: MIT */
#include "crypto/stored_keys.h"
#include "fuzz.h"
#include "lessor/error.h"

/* StoredKeys JSON as the server and as a client reads it. What can be read is written and read again. */

static void check_round_trip(const struct stored_keys *keys, struct lessor_arena *arena)
{
        struct stored_keys *again;
        struct buf text;

        buf_init(&text);
        FUZZ_CHECK(stored_keys_write(keys, &text) == 0);
        FUZZ_CHECK(stored_keys_read(buf_view(&text), arena, &again, NULL) == 0);
        FUZZ_CHECK(lessor_slice_equal(signing_key_id(stored_keys_signing(keys)),
                                      signing_key_id(stored_keys_signing(again))));
        FUZZ_CHECK(stored_keys_created_ms(keys) == stored_keys_created_ms(again));
        stored_keys_free(again);
        buf_wipe(&text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        struct lessor_slice text = {(const char *)data, size};
        struct lessor_arena *arena = lessor_arena_new();
        struct signing_key *signing = NULL;
        struct stored_keys *stored = NULL;
        const char *problem = NULL;
        int r_signing, r_stored;

        FUZZ_CHECK(arena != NULL);
        r_signing = signing_key_read(text, arena, &signing, &problem);
        FUZZ_CHECK(r_signing == 0 || problem != NULL);
        r_stored = stored_keys_read(text, arena, &stored, &problem);
        /* a client is never content with less than the server */
        FUZZ_CHECK(r_signing == 0 || r_stored == r_signing);
        if (r_stored == 0)
                check_round_trip(stored, arena);
        signing_key_free(signing);
        stored_keys_free(stored);
        lessor_arena_free(arena);
        return 0;
}
