/* SPDX-License-Identifier: MIT */
#ifndef WIRE_RACK_MEMBERS_H
#define WIRE_RACK_MEMBERS_H

#include "base/macro.h"
#include "wire/beast2_type.h"

/*
 * For the tables of rack messages only. Each checks at compile time that the member of the struct has the C
 * type that its wire type keeps. `...` is for flags.
 */
#define RACK_CHECK(condition) (0 * sizeof(char[(condition) ? 1 : -1]))
#define RACK_AT(struct_type, member, wanted) \
        (offsetof(struct_type, member) +     \
         RACK_CHECK(__builtin_types_compatible_p(__typeof__(((struct_type *)0)->member), wanted)))

#define RACK_MEMBER(struct_type, member, key, wire_type, wanted, ...)                                   \
        {                                                                                               \
                {key, sizeof(key) - 1}, &(wire_type), RACK_AT(struct_type, member, wanted), __VA_ARGS__ \
        }
#define RACK_TEXT(struct_type, member, key, ...) \
        RACK_MEMBER(struct_type, member, key, beast2_string, struct lessor_slice, __VA_ARGS__)
#define RACK_MAYBE_TEXT(struct_type, member, key, ...) \
        RACK_MEMBER(struct_type, member, key, beast2_optional_string, struct lessor_slice, __VA_ARGS__)
#define RACK_BLOB(struct_type, member, key, ...) \
        RACK_MEMBER(struct_type, member, key, beast2_blob, struct lessor_slice, __VA_ARGS__)
#define RACK_MAYBE_BLOB(struct_type, member, key, ...) \
        RACK_MEMBER(struct_type, member, key, beast2_optional_blob, struct lessor_slice, __VA_ARGS__)
#define RACK_INT(struct_type, member, key, ...) \
        RACK_MEMBER(struct_type, member, key, beast2_integer, int64_t, __VA_ARGS__)
#define RACK_TIME(struct_type, member, key, ...) \
        RACK_MEMBER(struct_type, member, key, beast2_datetime, int64_t, __VA_ARGS__)
#define RACK_BOOL(struct_type, member, key, ...) \
        RACK_MEMBER(struct_type, member, key, beast2_boolean, bool, __VA_ARGS__)
/* A pointer, NULL for none. */
#define RACK_MAYBE(struct_type, member, key, option, item_type) \
        RACK_MEMBER(struct_type, member, key, option, __typeof__(item_type) *)
/* A list: a pointer to items and, right behind it, how many. */
#define RACK_LIST(struct_type, items, count, key, list, item_type)                                         \
        {                                                                                                  \
                {key, sizeof(key) - 1}, &(list),                                                           \
                        RACK_AT(struct_type, items, __typeof__(item_type) *) +                             \
                                0 * RACK_AT(struct_type, count, size_t) +                                  \
                                RACK_CHECK(offsetof(struct_type, count) ==                                 \
                                           offsetof(struct_type, items) + offsetof(struct beast2_list, n)) \
        }
#define RACK_TEXTS(struct_type, items, count, key) \
        RACK_LIST(struct_type, items, count, key, beast2_string_list, struct lessor_slice)
/* A case of a Variant without a payload. */
#define RACK_BARE(key)                               \
        {                                            \
                {key, sizeof(key) - 1}, &beast2_null \
        }

#define RACK_TYPE(object, title, type_kind, struct_type, member_array)            \
        static struct beast2_memo object##_memo;                                  \
        const struct beast2_type object = {.name = (title),                       \
                                           .kind = (type_kind),                   \
                                           .size = sizeof(struct_type),           \
                                           .members = (member_array),             \
                                           .n_members = ARRAY_SIZE(member_array), \
                                           .memo = &object##_memo}
#define RACK_STRUCT(object, title, struct_type, member_array) \
        RACK_TYPE(object, title, BEAST2_STRUCT, struct_type, member_array)
#define RACK_VARIANT(object, title, struct_type, member_array) \
        RACK_TYPE(object, title, BEAST2_VARIANT, struct_type, member_array)
#define RACK_LIST_OF(object, element_type)         \
        static const struct beast2_type object = { \
                .kind = BEAST2_ARRAY, .size = sizeof(struct beast2_list), .element = &(element_type)}
#define RACK_OPTION_OF(object, element_type)       \
        static const struct beast2_type object = { \
                .kind = BEAST2_OPTION, .size = sizeof(void *), .element = &(element_type)}

#endif
