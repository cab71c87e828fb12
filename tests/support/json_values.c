/* SPDX-License-Identifier: MIT */
#include "json_values.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/file.h"
#include "base/json_write.h"
#include "lessor/error.h"

static _Noreturn void give_up(const char *what, const char *why)
{
        fprintf(stderr, "%s: %s\n", what, why);
        abort();
}

struct json *json_load(const char *name, struct lessor_arena *arena)
{
        const char *directory = getenv("LESSOR_TEST_DATA"), *problem = NULL;
        struct json *value = NULL;
        struct buf path, text;
        int r;

        if (directory == NULL)
                give_up(name, "LESSOR_TEST_DATA is not set: run this through `meson test`");
        buf_init(&path);
        buf_init(&text);
        r = buf_printf(&path, "%s/%s", directory, name);
        if (r == 0)
                r = file_read(path.p, SIZE_MAX, &text);
        if (r == 0)
                r = json_read_file_text(buf_view(&text), arena, &value, &problem);
        if (r < 0)
                give_up(name, problem == NULL ? lessor_error_text(r) : problem);
        buf_done(&path);
        buf_done(&text);
        return value;
}

struct json *json_item(const struct json *value, size_t at)
{
        json_each (item, value)
                if (at-- == 0)
                        return item;
        return NULL;
}

const char *json_cstr(const struct json *value)
{
        return json_text(value).p;
}

int64_t json_number(const struct json *value)
{
        int64_t number;

        return json_int(value, &number) ? number : INT64_MIN;
}

static void append_number(const struct json *value, struct buf *out)
{
        int64_t whole;

        if (json_int(value, &whole))
                buf_printf(out, "%lld", (long long)whole);
        else if (isinf(value->number))
                buf_text(out, value->number < 0 ? "-1e999" : "1e999");
        else
                buf_printf(out, "%.17g", value->number);
}

static void append_items(const struct json *value, struct buf *out)
{
        bool is_object = value->type == JSON_OBJECT;

        buf_char(out, is_object ? '{' : '[');
        json_each (item, value) {
                if (item != value->items.first)
                        buf_char(out, ',');
                if (is_object) {
                        json_write_text(out, item->key);
                        buf_char(out, ':');
                }
                json_append(item, out);
        }
        buf_char(out, is_object ? '}' : ']');
}

int json_append(const struct json *value, struct buf *out)
{
        switch (value->type) {
        case JSON_NULL:
                buf_text(out, "null");
                break;
        case JSON_FALSE:
                buf_text(out, "false");
                break;
        case JSON_TRUE:
                buf_text(out, "true");
                break;
        case JSON_NUMBER:
                append_number(value, out);
                break;
        case JSON_STRING:
                json_write_text(out, value->text);
                break;
        case JSON_ARRAY:
        case JSON_OBJECT:
                append_items(value, out);
                break;
        }
        return buf_failed(out);
}

struct lessor_slice json_spelled(const struct json *value, struct lessor_arena *arena)
{
        struct lessor_slice copy = {NULL, 0};
        struct buf out;

        buf_init(&out);
        if (json_append(value, &out) < 0 || lessor_arena_copy(arena, buf_view(&out), &copy) < 0)
                copy = (struct lessor_slice){NULL, 0};
        buf_done(&out);
        return copy;
}

static bool same_items(const struct json *a, const struct json *b)
{
        const struct json *other = json_first(b);

        if (json_count(a) != json_count(b))
                return false;
        json_each (item, a) {
                if (a->type == JSON_OBJECT && (other == NULL || !lessor_slice_equal(item->key, other->key)))
                        other = json_member(b, item->key);
                if (other == NULL || !json_same(item, other))
                        return false;
                other = other->next;
        }
        return true;
}

bool json_same(const struct json *a, const struct json *b)
{
        if (a == NULL || b == NULL)
                return a == b;
        if (a->type != b->type)
                return false;
        switch (a->type) {
        case JSON_NUMBER:
                return a->number == b->number;
        case JSON_STRING:
                return lessor_slice_equal(a->text, b->text);
        case JSON_ARRAY:
        case JSON_OBJECT:
                return same_items(a, b);
        default:
                return true;
        }
}

struct json *json_make(enum json_type type, struct lessor_arena *arena)
{
        struct json *value = lessor_arena_alloc(arena, sizeof(*value));

        if (value == NULL)
                give_up("json_make", "out of memory");
        value->type = type;
        return value;
}

struct json *json_make_text(struct lessor_slice text, struct lessor_arena *arena)
{
        struct json *value = json_make(JSON_STRING, arena);

        value->text = text;
        return value;
}

struct json *json_make_int(int64_t number, struct lessor_arena *arena)
{
        struct json *value = json_make(JSON_NUMBER, arena);

        value->number = (double)number;
        return value;
}

void json_add(struct json *value, struct lessor_slice key, struct json *item)
{
        struct json **at = &value->items.first;

        while (*at != NULL)
                at = &(*at)->next;
        item->key = key;
        item->next = NULL;
        *at = item;
        value->items.n++;
}
