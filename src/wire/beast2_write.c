/* SPDX-License-Identifier: MIT */
#include "wire/beast2_write.h"

#include <stdlib.h>

#include "base/limits.h"
#include "base/macro.h"
#include "base/utf8.h"
#include "wire/deflate_fixed.h"

/* Shorter values are not deflated (beast2, 5). */
#define DEFLATE_LEAST 64

#define CODEC_STORED  0
#define CODEC_DEFLATE 1

static int put_value(const struct beast2_type *type, const void *value, struct buf *out);

static void put_svarint(struct buf *out, int64_t n)
{
        beast2_put_uvarint(out, ((uint64_t)n << 1) ^ (n < 0 ? UINT64_MAX : 0));
}

static int put_bytes(const struct lessor_slice *bytes, struct buf *out)
{
        beast2_put_uvarint(out, bytes->n);
        return buf_slice(out, *bytes);
}

static int put_string(const struct lessor_slice *text, struct buf *out)
{
        return utf8_valid(*text) ? put_bytes(text, out) : LESSOR_E_INVALID;
}

static int put_datetime(int64_t ms, struct buf *out)
{
        if (ms > BEAST2_DATETIME_MOST || ms < -BEAST2_DATETIME_MOST)
                return LESSOR_E_INVALID;
        put_svarint(out, ms);
        return 0;
}

static int put_struct(const struct beast2_type *type, const char *value, struct buf *out)
{
        for (size_t i = 0; i < type->n_members; i++) {
                const struct beast2_member *m = &type->members[i];
                int e;

                if (m->flags & BEAST2_JSON_ONLY)
                        continue;
                e = put_value(m->type, value + m->offset, out);
                if (e < 0)
                        return e;
        }
        return 0;
}

static int put_case(const struct beast2_type *type, size_t number, const void *payload, struct buf *out)
{
        if (number >= type->n_members)
                return LESSOR_E_INVALID;
        beast2_put_uvarint(out, number);
        return put_value(type->members[number].type, payload, out);
}

static int put_variant(const struct beast2_type *type, const char *value, struct buf *out)
{
        int number;

        memcpy(&number, value, sizeof(number));
        if (number < 0 || (size_t)number >= type->n_members)
                return LESSOR_E_INVALID;
        return put_case(type, (size_t)number, value + type->members[number].offset, out);
}

static int put_option(const struct beast2_type *type, const void *value, struct buf *out)
{
        const void *content = *(const void *const *)value; /* the first member of a slice as well */

        buf_char(out, content != NULL ? 1 : 0);
        if (content == NULL)
                return 0;
        return put_value(type->element, beast2_option_is_slice(type) ? value : content, out);
}

static int put_array(const struct beast2_type *type, const struct beast2_list *list, struct buf *out)
{
        const char *items = list->items;

        buf_char(out, 0);
        if (list->n > 0)
                beast2_put_uvarint(out, list->n);
        for (size_t i = 0; i < list->n; i++) {
                int e = put_value(type->element, items + i * type->element->size, out);

                if (e < 0)
                        return e;
        }
        return buf_char(out, 0);
}

static int by_key(const void *a, const void *b)
{
        const struct lessor_slice *const *left = a, *const *right = b;

        return lessor_slice_cmp(**left, **right);
}

static void free_keys(const struct lessor_slice ***keys)
{
        free(*keys);
}

/* Every entry begins with its key, so an entry's place is its key's. */
static int put_dict(const struct beast2_type *type, const struct beast2_list *list, struct buf *out)
{
        _cleanup_(free_keys) const struct lessor_slice **keys = NULL;
        const char *items = list->items;
        int e;

        if (list->n == 0)
                return buf_append(out, "\0\0", 2);
        keys = calloc(list->n, sizeof(const struct lessor_slice *));
        if (keys == NULL)
                return LESSOR_E_NOMEM;
        for (size_t i = 0; i < list->n; i++)
                keys[i] = (const void *)(items + i * type->element->size);
        qsort(keys, list->n, sizeof(const struct lessor_slice *), by_key);
        buf_char(out, 0);
        beast2_put_uvarint(out, list->n);
        for (size_t i = 0; i < list->n; i++) {
                if (i > 0 && lessor_slice_equal(*keys[i - 1], *keys[i]))
                        return LESSOR_E_INVALID;
                e = put_struct(type->element, (const char *)keys[i], out);
                if (e < 0)
                        return e;
        }
        return buf_char(out, 0);
}

static int put_value(const struct beast2_type *type, const void *value, struct buf *out)
{
        switch (type->kind) {
        case BEAST2_NULL:
                return 0;
        case BEAST2_BOOLEAN:
                return buf_char(out, *(const bool *)value ? 1 : 0);
        case BEAST2_INTEGER:
                put_svarint(out, *(const int64_t *)value);
                return 0;
        case BEAST2_DATETIME:
                return put_datetime(*(const int64_t *)value, out);
        case BEAST2_STRING:
                return put_string(value, out);
        case BEAST2_BLOB:
                return put_bytes(value, out);
        case BEAST2_STRUCT:
                return put_struct(type, value, out);
        case BEAST2_VARIANT:
                return put_variant(type, value, out);
        case BEAST2_OPTION:
                return put_option(type, value, out);
        case BEAST2_ARRAY:
                return put_array(type, value, out);
        case BEAST2_DICT:
                return put_dict(type, value, out);
        }
        return LESSOR_E_INVALID;
}

static void put_frame_head(struct buf *out, unsigned codec, size_t logical, size_t payload)
{
        beast2_put_uvarint(out, codec);
        beast2_put_uvarint(out, logical);
        beast2_put_uvarint(out, payload);
}

/* Beast2, 5: deflated if it is long enough and that makes it shorter. */
static int put_frame(struct lessor_slice logical, struct buf *out)
{
        _cleanup_(buf_done) struct buf deflated = {0};
        bool is_shorter = false;

        if (logical.n > LIMIT_BEAST2_LOGICAL_MOST)
                return LESSOR_E_TOO_LARGE;
        if (logical.n >= DEFLATE_LEAST) {
                int e = deflate_fixed(logical, &deflated, &is_shorter);

                if (e < 0)
                        return e;
        }
        if (is_shorter) {
                put_frame_head(out, CODEC_DEFLATE, logical.n, deflated.n);
                return buf_slice(out, buf_view(&deflated));
        }
        put_frame_head(out, CODEC_STORED, logical.n, logical.n);
        return buf_slice(out, logical);
}

/* The message around logical bytes, all of it or nothing. `e` is how making them went. */
static int put_message(const struct beast2_type *type, const struct buf *logical, int e, struct buf *out)
{
        size_t start = out->n;

        if (e == 0)
                e = buf_failed(logical);
        if (e == 0)
                e = beast2_prefix_append(type, out);
        if (e == 0)
                e = put_frame(buf_view(logical), out);
        if (e == 0)
                e = buf_failed(out);
        if (e < 0)
                out->n = start;
        return e;
}

int beast2_write(const struct beast2_type *type, const void *value, struct buf *out)
{
        _cleanup_(buf_done) struct buf logical = {0};
        int e = put_value(type, value, &logical);

        return put_message(type, &logical, e, out);
}

int beast2_write_case(const struct beast2_type *type, size_t number, const void *payload, struct buf *out)
{
        _cleanup_(buf_done) struct buf logical = {0};
        int e = put_case(type, number, payload, &logical);

        return put_message(type, &logical, e, out);
}
