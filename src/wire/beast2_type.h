/* SPDX-License-Identifier: MIT */
#ifndef WIRE_BEAST2_TYPE_H
#define WIRE_BEAST2_TYPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "lessor/error.h"
#include "lessor/slice.h"

/*
 * Types of BEAST2 as data (shared specification: beast2, sections 3 and 6). A type says at once what a value
 * looks like on the wire and where it goes in a C struct, so that one table a message serves the binary
 * reader and writer, the JSON form, and whoever describes the wire to others.
 *
 * What no rack message has is left out: Float, Dicts whose keys are no Strings, sets, vectors, functions, and
 * types that contain themselves. A value's depth is therefore bounded by its type.
 */
enum beast2_kind {
        BEAST2_NULL,     /* nothing */
        BEAST2_BOOLEAN,  /* bool */
        BEAST2_INTEGER,  /* int64_t */
        BEAST2_DATETIME, /* int64_t; epoch ms, at most BEAST2_DATETIME_MOST either way */
        BEAST2_STRING,   /* struct lessor_slice; valid UTF-8 */
        BEAST2_BLOB,     /* struct lessor_slice */
        BEAST2_STRUCT,   /* a struct; a member for each field, in wire order */
        BEAST2_VARIANT,  /* a struct that begins with an enum, the number of the case; a member for each case,
                            in  wire order (by name), whose offset is that of its payload in the struct */
        BEAST2_OPTION,   /* of a String or Blob: the slice, absent for none; of anything else: a pointer, NULL
                            for   none */
        BEAST2_ARRAY,    /* struct beast2_list */
        BEAST2_DICT, /* struct beast2_list; the element is a struct of two members, the first a String that is
                        the key and stands at offset 0. In any order in memory */
};

#define BEAST2_DATETIME_MOST INT64_C(8640000000000000)

/* How an Array or Dict lies in memory. A struct may as well have two members of its own, one after the other.
 */
struct beast2_list {
        void *items; /* may be NULL when n is 0 */
        size_t n;
};

enum beast2_member_flag {
        /* The member exists in the JSON form only (rack-protocol 19). BEAST2 neither writes nor reads it. */
        BEAST2_JSON_ONLY = 1,
};

struct beast2_member {
        struct lessor_slice name;
        const struct beast2_type *type;
        size_t offset;
        unsigned flags;
};

/* At most so many members in a type, and so many entries in the table of a type section. */
#define BEAST2_MEMBERS_MAX 64
#define BEAST2_ENTRIES_MAX 128

struct beast2_prefix;

/* Where a message type keeps its prefix once that was made. Zero at first. Any thread may make it. */
struct beast2_memo {
        _Atomic(const struct beast2_prefix *) made;
};

struct beast2_type {
        const char *name; /* for people: "RackLeaseRefType" */
        enum beast2_kind kind;
        size_t size; /* of the C value; 0 for Null */
        const struct beast2_member *members;
        size_t n_members;
        const struct beast2_type *element; /* of an Option, Array or Dict */
        struct beast2_memo *memo;          /* for types that are messages; NULL makes the prefix each time */
};

extern const struct beast2_type beast2_null, beast2_boolean, beast2_integer, beast2_datetime, beast2_string,
        beast2_blob, beast2_optional_string, beast2_optional_blob, beast2_string_list;

/*
 * Appends what every message of that type begins with: magic, type section and source map section (beast2, 1
 * to 4). Returns 0; LESSOR_E_NOMEM; LESSOR_E_TOO_LARGE for a type beyond the bounds above. Thread-safe.
 */
int beast2_prefix_append(const struct beast2_type *type, struct buf *out);

/* The fewest logical bytes that a value of the type takes. */
size_t beast2_least_size(const struct beast2_type *type);

/* The member of that name, or NULL. */
const struct beast2_member *beast2_member_named(const struct beast2_type *type, struct lessor_slice name);

/* Whether an Option of that type is a slice in memory, and no pointer. */
static inline bool beast2_option_is_slice(const struct beast2_type *option)
{
        return option->element->kind == BEAST2_STRING || option->element->kind == BEAST2_BLOB;
}

/* Appends an unsigned number in the shortest LEB128 form (beast2, 2). Failure stays in the buffer. */
void beast2_put_uvarint(struct buf *out, uint64_t n);

#endif
