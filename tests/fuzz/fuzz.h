/* SPDX-License-Identifier: MIT */
#ifndef TESTS_FUZZ_FUZZ_H
#define TESTS_FUZZ_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

/* What a fuzz target is: one input, which must neither crash nor leak. Returns 0. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Ends the program where both the fuzzer and the replay see it. assert() may be compiled out. */
#define FUZZ_CHECK(condition)     \
        do {                      \
                if (!(condition)) \
                        abort();  \
        } while (0)

#endif
