/* SPDX-License-Identifier: MIT */
#ifndef UNIT_CLIENT_CHECK_H
#define UNIT_CLIENT_CHECK_H

/* What every test of this room includes; cmocka.h needs the others before it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "lessor/slice.h"

#define assert_text_equal(slice, text)                           \
        do {                                                     \
                struct lessor_slice slice_ = (slice);            \
                assert_int_equal(slice_.n, strlen(text));        \
                assert_memory_equal(slice_.p, (text), slice_.n); \
        } while (0)

/* A new directory, removed with everything in it by scratch_remove. To be freed by that. */
char *scratch_make(void);
void scratch_remove(char *dir);

/* The path of a file in it; static, until the next call. */
const char *scratch_path(const char *dir, const char *name);

/* How many entries a directory has, without . and .. */
size_t scratch_count(const char *dir);

#endif
