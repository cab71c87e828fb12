/* SPDX-License-Identifier: MIT */
#include "beast2_values.h"

#include <stdlib.h>

#include "base/encode.h"
#include "wire/rack_types.h"

/* --- Rendering --- */

static void render(const struct beast2_type *type, const char *value, struct json_writer *w);

static void render_blob(const struct lessor_slice *bytes, struct json_writer *w)
{
        struct buf hex;

        buf_init(&hex);
        hex_append(&hex, bytes->p, bytes->n);
        json_open_object(w);
        json_key(w, "$blob");
        json_put_text(w, buf_view(&hex));
        json_close_object(w);
        if (buf_failed(&hex) < 0)
                w->out->error = LESSOR_E_NOMEM;
        buf_done(&hex);
}

static void render_struct(const struct beast2_type *type, const char *value, struct json_writer *w)
{
        json_open_object(w);
        for (size_t i = 0; i < type->n_members; i++) {
                if (type->members[i].flags & BEAST2_JSON_ONLY)
                        continue;
                json_key_text(w, type->members[i].name);
                render(type->members[i].type, value + type->members[i].offset, w);
        }
        json_close_object(w);
}

static void render_variant(const struct beast2_type *type, const char *value, struct json_writer *w)
{
        const struct beast2_member *m = &type->members[*(const int *)(const void *)value];

        json_open_object(w);
        json_key_text(w, m->name);
        render(m->type, value + m->offset, w);
        json_close_object(w);
}

static void render_option(const struct beast2_type *type, const char *value, struct json_writer *w)
{
        const char *content = *(const char *const *)(const void *)value;

        if (content == NULL) {
                json_put_null(w);
                return;
        }
        json_open_object(w);
        json_key(w, "some");
        render(type->element, beast2_option_is_slice(type) ? value : content, w);
        json_close_object(w);
}

static void render_list(const struct beast2_type *type, const struct beast2_list *list, struct json_writer *w)
{
        const char *item = list->items;

        if (type->kind == BEAST2_ARRAY)
                json_open_array(w);
        else
                json_open_object(w);
        for (size_t i = 0; i < list->n; i++, item += type->element->size) {
                if (type->kind == BEAST2_ARRAY) {
                        render(type->element, item, w);
                        continue;
                }
                json_key_text(w, *(const struct lessor_slice *)(const void *)item);
                render(type->element->members[1].type, item + type->element->members[1].offset, w);
        }
        if (type->kind == BEAST2_ARRAY)
                json_close_array(w);
        else
                json_close_object(w);
}

static void render(const struct beast2_type *type, const char *value, struct json_writer *w)
{
        switch (type->kind) {
        case BEAST2_BLOB:
                render_blob((const void *)value, w);
                break;
        case BEAST2_STRUCT:
                render_struct(type, value, w);
                break;
        case BEAST2_VARIANT:
                render_variant(type, value, w);
                break;
        case BEAST2_OPTION:
                render_option(type, value, w);
                break;
        case BEAST2_ARRAY:
        case BEAST2_DICT:
                render_list(type, (const void *)value, w);
                break;
        default: /* the simple ones are the same in both forms */
                beast2_json_write(type, value, w);
                break;
        }
}

int beast2_render(const struct beast2_type *type, const void *value, struct buf *out)
{
        struct json_writer w;

        json_writer_init(&w, out);
        render(type, value, &w);
        return buf_failed(out);
}

/* --- Back --- */

static struct json *copied(const struct json *value, struct lessor_arena *arena)
{
        struct json *copy = json_make(value->type, arena);

        *copy = *value;
        copy->key = (struct lessor_slice){NULL, 0};
        copy->next = NULL;
        return copy;
}

static struct json *unrender_blob(const struct json *rendered, struct lessor_arena *arena)
{
        struct lessor_slice hex = json_text(json_member_named(rendered, "$blob")), text;
        char *bytes = lessor_arena_alloc(arena, hex.n / 2);
        struct buf base64;

        if (json_count(rendered) != 1 || hex.p == NULL || bytes == NULL || !hex_read(hex, bytes, hex.n / 2))
                return NULL;
        buf_init(&base64);
        if (base64_append(&base64, bytes, hex.n / 2) < 0 ||
            lessor_arena_copy(arena, buf_view(&base64), &text) < 0)
                abort();
        buf_done(&base64);
        return json_make_text(text, arena);
}

static struct json *unrender_option(const struct beast2_type *type, const struct json *rendered,
                                    struct lessor_arena *arena)
{
        if (json_is(rendered, JSON_NULL))
                return copied(rendered, arena);
        if (json_count(rendered) != 1 || json_member_named(rendered, "some") == NULL)
                return NULL;
        return beast2_unrender(type->element, json_member_named(rendered, "some"), arena);
}

/* What the value of that member, or every item, must be; NULL for a member that there must not be. */
static const struct beast2_type *content_type(const struct beast2_type *type, const struct json *item)
{
        const struct beast2_member *m;

        if (type->kind == BEAST2_ARRAY)
                return type->element;
        if (type->kind == BEAST2_DICT)
                return type->element->members[1].type;
        m = beast2_member_named(type, item->key);
        return m == NULL || (m->flags & BEAST2_JSON_ONLY) ? NULL : m->type;
}

static struct json *unrender_items(const struct beast2_type *type, const struct json *rendered,
                                   struct lessor_arena *arena)
{
        struct json *items;

        if (!json_is(rendered, type->kind == BEAST2_ARRAY ? JSON_ARRAY : JSON_OBJECT))
                return NULL;
        items = json_make(rendered->type, arena);
        json_each (item, rendered) {
                const struct beast2_type *content = content_type(type, item);
                struct json *value = content == NULL ? NULL : beast2_unrender(content, item, arena);

                if (value == NULL)
                        return NULL;
                json_add(items, item->key, value);
        }
        for (size_t i = 0; i < type->n_members; i++)
                if ((type->members[i].flags & BEAST2_JSON_ONLY) &&
                    type->members[i].type->kind != BEAST2_OPTION)
                        json_add(items, type->members[i].name, json_make_int(0, arena));
        return items;
}

struct json *beast2_unrender(const struct beast2_type *type, const struct json *rendered,
                             struct lessor_arena *arena)
{
        switch (type->kind) {
        case BEAST2_BLOB:
                return unrender_blob(rendered, arena);
        case BEAST2_OPTION:
                return unrender_option(type, rendered, arena);
        case BEAST2_STRUCT:
        case BEAST2_VARIANT:
        case BEAST2_ARRAY:
        case BEAST2_DICT:
                return unrender_items(type, rendered, arena);
        default:
                return copied(rendered, arena);
        }
}

/* --- Types --- */

/* An envelope: a case number, and the larger of the two payloads behind it. */
static const struct beast2_type *make_reply(const struct beast2_type *success, struct lessor_arena *arena)
{
        size_t payload = success->size > rack_error_type.size ? success->size : rack_error_type.size;
        struct beast2_type *type = lessor_arena_alloc(arena, sizeof(*type));
        struct beast2_member *cases = lessor_arena_array(arena, 2, sizeof(*cases));

        if (type == NULL || cases == NULL)
                return NULL;
        cases[0] = (struct beast2_member){LESSOR_SLICE("error"), &rack_error_type, _Alignof(max_align_t), 0};
        cases[1] = (struct beast2_member){LESSOR_SLICE("success"), success, _Alignof(max_align_t), 0};
        *type = (struct beast2_type){.name = "ResponseType",
                                     .kind = BEAST2_VARIANT,
                                     .size = _Alignof(max_align_t) + payload,
                                     .members = cases,
                                     .n_members = 2};
        return type;
}

const struct beast2_type *beast2_type_of(struct lessor_slice name, struct lessor_arena *arena)
{
        static const char open[] = "ResponseType(";
        const size_t open_len = sizeof(open) - 1;
        const struct beast2_type *type = rack_type_named(name);

        if (type != NULL || name.n <= open_len || memcmp(name.p, open, open_len) != 0 ||
            name.p[name.n - 1] != ')')
                return type;
        type = rack_type_named((struct lessor_slice){name.p + open_len, name.n - open_len - 1});
        return type == NULL ? NULL : make_reply(type, arena);
}
