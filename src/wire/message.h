/* SPDX-License-Identifier: MIT */
#ifndef WIRE_MESSAGE_H
#define WIRE_MESSAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/json_read.h"
#include "base/json_write.h"
#include "lessor/arena.h"
#include "lessor/error.h"

/*
 * A message as data: one table says what a JSON object looks like and where its members go in a struct. The
 * same table reads, writes, and can be walked by whoever describes the wire to others.
 *
 * Reading is strict (relay-protocol 2): an unknown key, a missing member, a wrong type, a length or number
 * out of bounds all fail the whole message, and null never stands for absent.
 */

enum message_type {
        MESSAGE_TEXT,    /* struct lessor_slice; min and max count code points */
        MESSAGE_URL,     /* struct lessor_slice; an absolute URL */
        MESSAGE_WORD,    /* struct lessor_slice; one of `words` */
        MESSAGE_LITERAL, /* nothing is kept; the text is `literal` */
        MESSAGE_ENUM,    /* an enum; its number is the place in `words` */
        MESSAGE_INT,     /* int64_t within min and max */
        MESSAGE_BOOL,    /* bool */
        MESSAGE_OBJECT,  /* a struct in place, described by `table` */
        MESSAGE_LIST, /* pointer to an array at `offset`, size_t at `count_offset`; min and max count items */
        MESSAGE_MAP,  /* as a list, but an object; each item keeps its key in a slice at `key_offset` */
};

enum message_flag {
        /* May be absent. In the struct that is: an absent slice, a NULL array, 0, false; or see MESSAGE_HAS.
         */
        MESSAGE_OPTIONAL = 1,
        /* The bool at `has_offset` says whether the member is there. Needed by optional enums and objects. */
        MESSAGE_HAS = 2,
        /* null is accepted too, and means absent; absent is written as null. For files that people write. */
        MESSAGE_NULLABLE = 4,
};

/* The words of an enum, in the order of its numbers. */
struct message_words {
        const char *const *names;
        size_t n;
};

struct message_field {
        const char *name;
        size_t name_len;
        enum message_type type;
        unsigned flags;
        /*
         * For messages that come in several forms: the values of the table's first field, a MESSAGE_ENUM,
         * with which this member exists, as a mask of 1 << value. 0: with all. With the others it is an
         * unknown key.
         */
        unsigned when;
        size_t offset;
        size_t has_offset;
        int64_t min;
        int64_t max;
        const char *literal;
        const struct message_words *words;
        const struct message_table *table; /* of an object */
        const struct message_field *item;  /* of a list or map; its offset is within the item */
        size_t item_size;
        size_t count_offset;
        size_t key_offset;
};

/* At most so many fields in a table: reading keeps a bit for each. */
#define MESSAGE_FIELDS_MAX 64

struct message_table {
        const char *name; /* for people: "ClaimRequest" */
        const struct message_field *fields;
        size_t n_fields;
        size_t size; /* of the struct */
        /* The message comes in several forms, told apart by its first field, a required MESSAGE_ENUM. */
        bool has_forms;
        bool open; /* unknown keys are passed over: for answers whose sender may be newer than we are */
        bool has_raw;
        /* With has_raw: a slice with the JSON text of the whole object, which is written instead when
         * present. */
        size_t raw_offset;
        /* What no single field can say. True if the message holds. May be NULL. */
        bool (*holds)(const void *message);
};

/*
 * Reads one object into a struct.
 *
 * value        borrowed; texts of the message are borrowed from it, so it must live as long as the message
 * arena        owns the arrays of the message
 * ret_message  table->size bytes; all zero on failure
 * ret_problem  may be NULL; on LESSOR_E_INVALID a clause for people that names the member, in the arena:
 *              "consents[3].owner: must be a text of at least 1 character"
 *
 * Returns 0; LESSOR_E_INVALID; LESSOR_E_NOMEM.
 */
int message_read(const struct message_table *table, const struct json *value, struct lessor_arena *arena,
                 void *ret_message, const char **ret_problem);

/* Reads an array of such objects. As message_read; the array of structs is in the arena. */
int message_read_list(const struct message_table *table, const struct json *value, struct lessor_arena *arena,
                      void *ret_items, size_t *ret_n, const char **ret_problem);

/*
 * Writes the object, members in table order. Failure (memory, or nesting deeper than the writer allows) stays
 * in the writer's buffer. An enum beyond its words is a mistake of the caller's and asserted.
 */
void message_write(const struct message_table *table, const void *message, struct json_writer *w);

/* Writes an array of such objects. */
void message_write_list(const struct message_table *table, const void *items, size_t n,
                        struct json_writer *w);

/* Appends the object's JSON text to a buffer. Returns 0 or LESSOR_E_NOMEM. */
int message_append(const struct message_table *table, const void *message, struct buf *out);

/* The word of an enum's number. Static, never NULL. */
const char *message_word(const struct message_words *words, int number);

/* The number of a word, or -1. */
int message_word_number(const struct message_words *words, struct lessor_slice word);

/*
 * For making tables. Each checks at compile time that the member has the type that the field keeps.
 */
#define MESSAGE_AT(struct_type, member, wanted)                                                       \
        (offsetof(struct_type, member) +                                                              \
         0 * sizeof(char[__builtin_types_compatible_p(__typeof__(((struct_type *)0)->member), wanted) \
                                 ? 1                                                                  \
                                 : -1]))
/* For enums, whose type differs each time: an enum is as large as an int, and an integer. */
#define MESSAGE_ENUM_AT(struct_type, member)                                            \
        (offsetof(struct_type, member) +                                                \
         0 * sizeof(char[sizeof(((struct_type *)0)->member) == sizeof(int) ? 1 : -1]) + \
         0 * sizeof(1u << (((struct_type *)0)->member)))
#define MESSAGE_NAMED(key) .name = (key), .name_len = sizeof(key) - 1

#define FIELD_TEXT(struct_type, member, key, least, most, ...)                                      \
        {                                                                                           \
                MESSAGE_NAMED(key), .type = MESSAGE_TEXT,                                           \
                                    .offset = MESSAGE_AT(struct_type, member, struct lessor_slice), \
                                    .min = (least), .max = (most), __VA_ARGS__                      \
        }
/* str1: at least one code point. */
#define FIELD_TEXT1(struct_type, member, key, ...) \
        FIELD_TEXT(struct_type, member, key, 1, INT64_MAX, __VA_ARGS__)
#define FIELD_URL(struct_type, member, key, ...)                                                    \
        {                                                                                           \
                MESSAGE_NAMED(key), .type = MESSAGE_URL,                                            \
                                    .offset = MESSAGE_AT(struct_type, member, struct lessor_slice), \
                                    __VA_ARGS__                                                     \
        }
#define FIELD_WORD(struct_type, member, key, known_words, ...)                                      \
        {                                                                                           \
                MESSAGE_NAMED(key), .type = MESSAGE_WORD,                                           \
                                    .offset = MESSAGE_AT(struct_type, member, struct lessor_slice), \
                                    .words = (known_words), __VA_ARGS__                             \
        }
#define FIELD_LITERAL(key, text, ...)                                                       \
        {                                                                                   \
                MESSAGE_NAMED(key), .type = MESSAGE_LITERAL, .literal = (text), __VA_ARGS__ \
        }
#define FIELD_ENUM(struct_type, member, key, known_words, ...)                                            \
        {                                                                                                 \
                MESSAGE_NAMED(key), .type = MESSAGE_ENUM, .offset = MESSAGE_ENUM_AT(struct_type, member), \
                                    .words = (known_words), __VA_ARGS__                                   \
        }
#define FIELD_INT(struct_type, member, key, least, most, ...)                                                \
        {                                                                                                    \
                MESSAGE_NAMED(key), .type = MESSAGE_INT, .offset = MESSAGE_AT(struct_type, member, int64_t), \
                                    .min = (least), .max = (most), __VA_ARGS__                               \
        }
/* posint */
#define FIELD_POSINT(struct_type, member, key, ...) \
        FIELD_INT(struct_type, member, key, 1, INT64_MAX, __VA_ARGS__)
#define FIELD_BOOL(struct_type, member, key, ...)                                                          \
        {                                                                                                  \
                MESSAGE_NAMED(key), .type = MESSAGE_BOOL, .offset = MESSAGE_AT(struct_type, member, bool), \
                                    __VA_ARGS__                                                            \
        }
#define FIELD_OBJECT(struct_type, member, key, object_table, ...)                                    \
        {                                                                                            \
                MESSAGE_NAMED(key), .type = MESSAGE_OBJECT, .offset = offsetof(struct_type, member), \
                                    .table = (object_table), __VA_ARGS__                             \
        }
/* A list of objects: `items` is a pointer to structs of the table, `count` a size_t. */
#define FIELD_LIST(struct_type, items, count, key, item_table, least, most, ...)                            \
        {                                                                                                   \
                MESSAGE_NAMED(key), .type = MESSAGE_LIST, .offset = offsetof(struct_type, items),           \
                                    .count_offset = MESSAGE_AT(struct_type, count, size_t), .min = (least), \
                                    .max = (most), .item_size = sizeof(*((struct_type *)0)->items),         \
                                    .item = &(const struct message_field){.name = "",                       \
                                                                          .type = MESSAGE_OBJECT,           \
                                                                          .table = (item_table)},           \
                                    __VA_ARGS__                                                             \
        }
/* A list of str1. */
#define FIELD_TEXTS(struct_type, items, count, key, least, most, ...)                                       \
        {                                                                                                   \
                MESSAGE_NAMED(key), .type = MESSAGE_LIST,                                                   \
                                    .offset = MESSAGE_AT(struct_type, items, struct lessor_slice *),        \
                                    .count_offset = MESSAGE_AT(struct_type, count, size_t), .min = (least), \
                                    .max = (most), .item_size = sizeof(struct lessor_slice),                \
                                    .item = &message_text1_item, __VA_ARGS__                                \
        }
/* An object with keys of its own (str1): each item is a struct of the table that keeps its key in `item_key`.
 */
#define FIELD_MAP(struct_type, items, count, key, item_type, item_key, item_field, ...)             \
        {                                                                                           \
                MESSAGE_NAMED(key),                                                                 \
                        .type = MESSAGE_MAP, .offset = MESSAGE_AT(struct_type, items, item_type *), \
                        .count_offset = MESSAGE_AT(struct_type, count, size_t), .max = INT64_MAX,   \
                        .item_size = sizeof(item_type),                                             \
                        .key_offset = MESSAGE_AT(item_type, item_key, struct lessor_slice),         \
                        .item = (item_field), __VA_ARGS__                                           \
        }
/* The `has` of MESSAGE_HAS, for the end of one of the above. */
#define FIELD_IF(struct_type, member) \
        .flags = MESSAGE_OPTIONAL | MESSAGE_HAS, .has_offset = MESSAGE_AT(struct_type, member, bool)

#define MESSAGE_TABLE(title, struct_type, field_array, ...)                                    \
        {                                                                                      \
                .name = (title), .fields = (field_array), .n_fields = ARRAY_SIZE(field_array), \
                .size = sizeof(struct_type), __VA_ARGS__                                       \
        }

extern const struct message_field message_text1_item;

#endif
