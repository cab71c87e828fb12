/* SPDX-License-Identifier: MIT */
#include "wire/beast2_type.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "base/macro.h"

const struct beast2_type beast2_null = {"NullType", BEAST2_NULL};
const struct beast2_type beast2_boolean = {"BooleanType", BEAST2_BOOLEAN, sizeof(bool)};
const struct beast2_type beast2_integer = {"IntegerType", BEAST2_INTEGER, sizeof(int64_t)};
const struct beast2_type beast2_datetime = {"DateTimeType", BEAST2_DATETIME, sizeof(int64_t)};
const struct beast2_type beast2_string = {"StringType", BEAST2_STRING, sizeof(struct lessor_slice)};
const struct beast2_type beast2_blob = {"BlobType", BEAST2_BLOB, sizeof(struct lessor_slice)};
const struct beast2_type beast2_optional_string = {
        .kind = BEAST2_OPTION, .size = sizeof(struct lessor_slice), .element = &beast2_string};
const struct beast2_type beast2_optional_blob = {
        .kind = BEAST2_OPTION, .size = sizeof(struct lessor_slice), .element = &beast2_blob};
const struct beast2_type beast2_string_list = {
        .kind = BEAST2_ARRAY, .size = sizeof(struct beast2_list), .element = &beast2_string};

/* What begins an entry of the table (beast2, 3). An Option is a Variant like another. */
static const char entry_tags[] = {
        [BEAST2_NULL] = 0x00,  [BEAST2_STRING] = 0x01, [BEAST2_INTEGER] = 0x02, [BEAST2_BOOLEAN] = 0x04,
        [BEAST2_DATETIME] = 5, [BEAST2_BLOB] = 0x06,   [BEAST2_VARIANT] = 0x08, [BEAST2_OPTION] = 0x08,
        [BEAST2_STRUCT] = 9,   [BEAST2_ARRAY] = 0x0a,  [BEAST2_DICT] = 0x0b,
};

struct beast2_prefix {
        size_t n;
        char bytes[];
};

/* The table of a type section while it grows. */
struct type_table {
        struct buf entries;
        size_t n;
        size_t starts[BEAST2_ENTRIES_MAX + 1]; /* starts[n] is where the next entry begins */
        const struct beast2_type *types[BEAST2_ENTRIES_MAX];
};

void beast2_put_uvarint(struct buf *out, uint64_t n)
{
        char bytes[10];
        size_t len = 0;

        while (n >= 0x80) {
                bytes[len++] = (char)(n | 0x80);
                n >>= 7;
        }
        bytes[len++] = (char)n;
        buf_append(out, bytes, len);
}

static void put_named(struct buf *out, struct lessor_slice name, size_t index)
{
        beast2_put_uvarint(out, name.n);
        buf_slice(out, name);
        beast2_put_uvarint(out, index);
}

static int table_index(struct type_table *t, const struct beast2_type *type, size_t *ret_index);

/* Puts the children of a Struct or Variant into the table; their places in `ret_places`. */
static int place_members(struct type_table *t, const struct beast2_type *type, size_t *ret_places,
                         size_t *ret_n)
{
        *ret_n = 0;
        if (type->n_members > BEAST2_MEMBERS_MAX)
                return LESSOR_E_TOO_LARGE;
        for (size_t i = 0; i < type->n_members; i++) {
                int e;

                if (type->members[i].flags & BEAST2_JSON_ONLY)
                        continue;
                e = table_index(t, type->members[i].type, &ret_places[(*ret_n)++]);
                if (e < 0)
                        return e;
        }
        return 0;
}

static int append_members(struct type_table *t, const struct beast2_type *type, struct buf *entry)
{
        size_t places[BEAST2_MEMBERS_MAX], n;
        int e = place_members(t, type, places, &n);

        if (e < 0)
                return e;
        beast2_put_uvarint(entry, n);
        n = 0;
        for (size_t i = 0; i < type->n_members; i++)
                if (!(type->members[i].flags & BEAST2_JSON_ONLY))
                        put_named(entry, type->members[i].name, places[n++]);
        return 0;
}

/* What follows the tag, once everything that the type is made of has its place. */
static int append_children(struct type_table *t, const struct beast2_type *type, struct buf *entry)
{
        size_t first = 0, second = 0;
        int e;

        switch (type->kind) {
        case BEAST2_STRUCT:
        case BEAST2_VARIANT:
                return append_members(t, type, entry);
        case BEAST2_OPTION:
                e = table_index(t, &beast2_null, &first);
                if (e == 0)
                        e = table_index(t, type->element, &second);
                if (e < 0)
                        return e;
                beast2_put_uvarint(entry, 2);
                put_named(entry, LESSOR_SLICE("none"), first);
                put_named(entry, LESSOR_SLICE("some"), second);
                return 0;
        case BEAST2_ARRAY:
                e = table_index(t, type->element, &first);
                if (e == 0)
                        beast2_put_uvarint(entry, first);
                return e;
        case BEAST2_DICT:
                e = table_index(t, type->element->members[0].type, &first);
                if (e == 0)
                        e = table_index(t, type->element->members[1].type, &second);
                if (e < 0)
                        return e;
                beast2_put_uvarint(entry, first);
                beast2_put_uvarint(entry, second);
                return 0;
        default:
                return 0;
        }
}

/* The place of an entry of these bytes, which it is given if it has none yet: equal types share one. */
static int table_place(struct type_table *t, const struct beast2_type *type, struct lessor_slice entry,
                       size_t *ret_index)
{
        size_t i;
        int e;

        for (i = 0; i < t->n; i++) {
                struct lessor_slice other = {t->entries.p + t->starts[i], t->starts[i + 1] - t->starts[i]};

                if (lessor_slice_equal(entry, other))
                        break;
        }
        if (i == t->n) {
                if (t->n == BEAST2_ENTRIES_MAX)
                        return LESSOR_E_TOO_LARGE;
                e = buf_slice(&t->entries, entry);
                if (e < 0)
                        return e;
                t->types[t->n] = type;
                t->starts[++t->n] = t->entries.n;
        }
        *ret_index = i;
        return 0;
}

static int table_index(struct type_table *t, const struct beast2_type *type, size_t *ret_index)
{
        _cleanup_(buf_done) struct buf entry = {0};
        int e;

        for (size_t i = 0; i < t->n; i++) {
                if (t->types[i] == type) {
                        *ret_index = i;
                        return 0;
                }
        }
        buf_init(&entry);
        buf_char(&entry, entry_tags[type->kind]);
        e = append_children(t, type, &entry);
        if (e == 0)
                e = buf_failed(&entry);
        return e < 0 ? e : table_place(t, type, buf_view(&entry), ret_index);
}

/* Magic, type section, source map section. */
static int make_prefix(const struct beast2_type *type, struct buf *out)
{
        struct type_table t = {.n = 0};
        _cleanup_(buf_done) struct buf head = {0};
        size_t root;
        int e;

        buf_init(&t.entries);
        buf_init(&head);
        e = table_index(&t, type, &root);
        if (e == 0) {
                beast2_put_uvarint(&head, root);
                beast2_put_uvarint(&head, t.n);
                buf_append(out,
                           "\x89"
                           "East\r\n\x05",
                           8);
                beast2_put_uvarint(out, 0); /* the type is spelled out */
                beast2_put_uvarint(out, head.n + t.entries.n);
                buf_slice(out, buf_view(&head));
                buf_slice(out, buf_view(&t.entries));
                buf_append(out, "\x01\x00", 2);
                e = buf_failed(&head);
        }
        buf_done(&t.entries);
        return e < 0 ? e : buf_failed(out);
}

/* The memo's prefix, made if need be. Whoever comes second throws his own away. */
static int memo_prefix(const struct beast2_type *type, const struct beast2_prefix **ret_prefix)
{
        const struct beast2_prefix *made = atomic_load_explicit(&type->memo->made, memory_order_acquire);
        _cleanup_(buf_done) struct buf bytes = {0};
        struct beast2_prefix *mine;
        int e;

        if (made != NULL) {
                *ret_prefix = made;
                return 0;
        }
        buf_init(&bytes);
        e = make_prefix(type, &bytes);
        if (e < 0)
                return e;
        mine = malloc(sizeof(*mine) + bytes.n);
        if (mine == NULL)
                return LESSOR_E_NOMEM;
        mine->n = bytes.n;
        memcpy(mine->bytes, bytes.p, bytes.n);
        if (atomic_compare_exchange_strong(&type->memo->made, &made, mine))
                made = mine;
        else
                free(mine);
        *ret_prefix = made;
        return 0;
}

int beast2_prefix_append(const struct beast2_type *type, struct buf *out)
{
        const struct beast2_prefix *prefix;
        int e;

        if (type->memo == NULL)
                return make_prefix(type, out);
        e = memo_prefix(type, &prefix);
        return e < 0 ? e : buf_append(out, prefix->bytes, prefix->n);
}

static size_t least_of_members(const struct beast2_type *type)
{
        size_t sum = 0, least = SIZE_MAX;

        for (size_t i = 0; i < type->n_members; i++) {
                size_t size;

                if (type->members[i].flags & BEAST2_JSON_ONLY)
                        continue;
                size = beast2_least_size(type->members[i].type);
                sum += size;
                least = size < least ? size : least;
        }
        return type->kind == BEAST2_STRUCT ? sum : 1 + least;
}

size_t beast2_least_size(const struct beast2_type *type)
{
        switch (type->kind) {
        case BEAST2_NULL:
                return 0;
        case BEAST2_STRUCT:
        case BEAST2_VARIANT:
                return least_of_members(type);
        case BEAST2_ARRAY:
        case BEAST2_DICT:
                return 2; /* a tag, and a terminator or a distance */
        default:
                return 1;
        }
}

const struct beast2_member *beast2_member_named(const struct beast2_type *type, struct lessor_slice name)
{
        for (size_t i = 0; i < type->n_members; i++)
                if (lessor_slice_equal(type->members[i].name, name))
                        return &type->members[i];
        return NULL;
}
