/* SPDX-License-Identifier: MIT */
#ifndef TESTS_UNIT_WIRE_NOMEM_H
#define TESTS_UNIT_WIRE_NOMEM_H

/* cmocka wants these before it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "lessor/arena.h"

/*
 * Runs `work` with its first allocation failing, then its second, and so on until it needs no more. It must
 * answer LESSOR_E_NOMEM then, or `otherwise` where that is a failure too; and `otherwise` when nothing fails.
 * The program wraps malloc, calloc and realloc at link time.
 */
void fail_each(int (*work)(struct lessor_arena *arena), int otherwise);

#endif
