/* SPDX-License-Identifier: MIT */
#ifndef TESTS_UNIT_BASE_CHECK_H
#define TESTS_UNIT_BASE_CHECK_H

/* cmocka wants these before it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "lessor/slice.h"

/* Fails with both texts shown. `name` says which row of a table it was. */
static inline void check_text(const char *name, struct lessor_slice got, struct lessor_slice want)
{
        if (!lessor_slice_equal(got, want))
                fail_msg("%s: got '%.*s', want '%.*s'", name, (int)got.n, got.p, (int)want.n, want.p);
}

static inline void check_int(const char *name, long long got, long long want)
{
        if (got != want)
                fail_msg("%s: got %lld, want %lld", name, got, want);
}

#endif
