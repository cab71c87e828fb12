/* SPDX-License-Identifier: MIT */
#ifndef BASE_JSON_READ_H
#define BASE_JSON_READ_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "lessor/arena.h"

/*
 * Reads one JSON text as relay-protocol section 2 has it: strict RFC 8259, duplicate keys last one wins,
 * every number a double, NUL allowed in strings, no byte order mark. Lone surrogates and invalid UTF-8 are
 * refused. Nesting is bounded by LIMIT_JSON_DEPTH and the number of values by LIMIT_JSON_VALUES before
 * anything is allocated. A number too large for a double is some number that is no int. NUL in the key of an
 * object is refused, which the reference would take for an unknown key.
 *
 * arena      owns the value
 *
 * Returns 0; LESSOR_E_MALFORMED; LESSOR_E_TOO_LARGE (nested too deeply, too many values); LESSOR_E_NOMEM.
 */
int json_read(struct lessor_slice text, struct lessor_arena *arena, json_t **ret_value);

/*
 * As json_read, but duplicate keys are LESSOR_E_MALFORMED, the number of values is not bounded, and on
 * failure `ret_problem` (may be NULL) gets a sentence with line and column, in the arena, that quotes nothing
 * of the text. For files that people write.
 */
int json_read_file_text(struct lessor_slice text, struct lessor_arena *arena, json_t **ret_value,
                        const char **ret_problem);

/* The text of a JSON string, borrowed from the value. The value must be a string. */
struct lessor_slice json_text(const json_t *value);

/*
 * The value of an int of relay-protocol section 2: a number whose double is an integer with absolute value of
 * at most 2^53-1. False for anything else. Minus zero gives 0.
 */
bool json_int(const json_t *value, int64_t *ret_number);

#endif
