/* SPDX-License-Identifier: MIT */
#include "wire/lease_event.h"
#include "fuzz.h"

/* A lease event. What can be read whole has a closure that storage can read, the same one. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        const struct lessor_slice text = {size == 0 ? "" : (const char *)data, size};
        struct lessor_arena *arena = lessor_arena_new();
        struct lease_event event;
        struct lease_closure closure;
        const char *problem = NULL;
        int r;

        FUZZ_CHECK(arena != NULL);
        r = lease_event_read(text, arena, &event, &problem);
        FUZZ_CHECK(r == 0 || problem != NULL);
        if (r == 0) {
                FUZZ_CHECK(lease_event_read_closure(text, arena, &closure, NULL) == 0);
                FUZZ_CHECK(closure.n_hashes == event.closure.n_hashes &&
                           closure.count == event.closure.count);
                FUZZ_CHECK((closure.object.p == NULL) == (closure.hashes != NULL));
                FUZZ_CHECK(event.repo.n > 0 && event.timeout_ms > 0);
                FUZZ_CHECK(event.mode == LESSOR_LEASE_FUNCTION || event.task_hash.n == 64);
        }
        lessor_arena_free(arena);
        return 0;
}
