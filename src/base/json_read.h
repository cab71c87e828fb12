/* SPDX-License-Identifier: MIT */
#ifndef BASE_JSON_READ_H
#define BASE_JSON_READ_H

#include <stdbool.h>
#include <stdint.h>

#include "lessor/arena.h"

/*
 * Reads JSON as relay-protocol section 2 has it: strict RFC 8259, every number a double, NUL allowed in
 * strings, of duplicate keys the last one counts, no byte order mark. Lone surrogates and invalid UTF-8 are
 * refused.
 *
 * Values live in an arena, and strings without escapes are borrowed from the text that was read. Why this is
 * not a library: docs/decisions/0004-own-json-reader.md.
 */
enum json_type { JSON_NULL, JSON_FALSE, JSON_TRUE, JSON_NUMBER, JSON_STRING, JSON_ARRAY, JSON_OBJECT };

struct json {
        enum json_type type;
        union {
                double number;
                struct lessor_slice text;
                struct {
                        struct json *first; /* items in order, or members in order without duplicates */
                        size_t n;
                } items;
        };
        struct lessor_slice key; /* of a member of an object */
        struct json *next;       /* in the array or object that holds it */
};

/*
 * Reads one JSON text.
 *
 * text   borrowed for as long as the value is used
 * arena  owns the value
 *
 * Nesting and number of values are bounded (LIMIT_JSON_DEPTH, LIMIT_JSON_VALUES). Returns 0;
 * LESSOR_E_MALFORMED; LESSOR_E_TOO_LARGE (too deep or too many values); LESSOR_E_NOMEM.
 */
int json_read(struct lessor_slice text, struct lessor_arena *arena, struct json **ret_value);

/*
 * As json_read, but copies the text into the arena first: for callers whose text goes before the value, or
 * who want every text and key of the value to be followed by a NUL that its length does not count.
 */
int json_read_copy(struct lessor_slice text, struct lessor_arena *arena, struct json **ret_value);

/*
 * As json_read, for wires that take no object with a key twice: that is LESSOR_E_MALFORMED. On failure
 * `ret_problem` (may be NULL) is as json_read_file_text has it.
 */
int json_read_unique(struct lessor_slice text, struct lessor_arena *arena, struct json **ret_value,
                     const char **ret_problem);

/*
 * As json_read, for files that people write: the text is copied as by json_read_copy, duplicate keys are
 * LESSOR_E_MALFORMED, the number of values is not bounded, and on failure `ret_problem` (may be NULL) gets a
 * sentence with line and column, in the arena or static. It never quotes the text, which could hold a secret.
 *
 * Where the text holds secrets, so does the arena afterwards: lessor_arena_wipe.
 */
int json_read_file_text(struct lessor_slice text, struct lessor_arena *arena, struct json **ret_value,
                        const char **ret_problem);

/*
 * Reads one JSON text the way JSON.parse does and keeps nothing of it, but tells about each member of the
 * object that it is, in order, duplicates included. For texts that are mostly somebody else's business: what
 * costs memory is one member at a time, and escaped strings.
 *
 * Unlike everywhere else a lone surrogate is taken, and reads as U+FFFD. Nesting is bounded as ever, the
 * number of values is not.
 *
 * member   told about each, also if the text turns out to be wrong later. Of a member that is an object or an
 *          array only the type is there. `text` is the value as it stands in the text, without blanks around
 *          it. NULL: only check the text
 *
 * Returns 0; LESSOR_E_MALFORMED; LESSOR_E_INVALID (JSON, but no object); LESSOR_E_TOO_LARGE (nested too
 * deeply); LESSOR_E_NOMEM. `ret_problem` (may be NULL) as json_read_file_text.
 */
int json_read_members(struct lessor_slice text, struct lessor_arena *arena,
                      void (*member)(void *context, const struct json *member, struct lessor_slice text),
                      void *context, const char **ret_problem);

static inline bool json_is(const struct json *value, enum json_type type)
{
        return value != NULL && value->type == type;
}

static inline bool json_is_bool(const struct json *value)
{
        return value != NULL && (value->type == JSON_TRUE || value->type == JSON_FALSE);
}

/* The member of an object; NULL when there is none, or when `object` is NULL or no object. */
struct json *json_member(const struct json *object, struct lessor_slice key);
struct json *json_member_named(const struct json *object, const char *key);

/* How many items or members; 0 for anything else and for NULL. */
size_t json_count(const struct json *value);

/* Walks the items of an array or the members of an object; nothing for any other value and for NULL. */
#define json_each(item, value)                                                                       \
        for (struct json *item = json_first(value); /* NOLINT(bugprone-macro-parentheses): a name */ \
             (item) != NULL; (item) = (item)->next)

static inline struct json *json_first(const struct json *value)
{
        return json_is(value, JSON_ARRAY) || json_is(value, JSON_OBJECT) ? value->items.first : NULL;
}

/* The text of a string, borrowed; absent for anything else and for NULL. */
struct lessor_slice json_text(const struct json *value);

/*
 * The value of an int of relay-protocol section 2: a number whose double is an integer with absolute value of
 * at most 2^53-1. False for anything else. Minus zero gives 0.
 */
bool json_int(const struct json *value, int64_t *ret_number);

#endif
