/* SPDX-License-Identifier: MIT */
#ifndef BASE_SIZE_H
#define BASE_SIZE_H

#include <stdbool.h>
#include <stddef.h>

/* Size arithmetic that says so when it would wrap. Each returns false, and writes nothing of use, on
 * overflow. */

static inline bool size_add(size_t a, size_t b, size_t *ret_sum)
{
        return !__builtin_add_overflow(a, b, ret_sum);
}

static inline bool size_mul(size_t a, size_t b, size_t *ret_product)
{
        return !__builtin_mul_overflow(a, b, ret_product);
}

#endif
