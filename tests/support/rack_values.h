/* SPDX-License-Identifier: MIT */
#ifndef TESTS_SUPPORT_RACK_VALUES_H
#define TESTS_SUPPORT_RACK_VALUES_H

#include "lessor/arena.h"
#include "wire/beast2_type.h"

/*
 * Some value of the type, the same for the same seed, in the arena: every kind, with numbers at their bounds,
 * texts of all lengths of UTF-8, lists empty and not. Members that only the JSON form has stay empty. Aborts
 * when memory is short.
 */
void *rack_value_make(const struct beast2_type *type, uint64_t seed, struct lessor_arena *arena);

#endif
