/* SPDX-License-Identifier: MIT */
#include "wire/beast2_json.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/encode.h"
#include "base/limits.h"
#include "base/macro.h"

#define JSON_INT_MOST INT64_C(9007199254740991) /* 2^53-1 */

/* A step on the way to the value that is being read; the steps hang together on the stack. */
struct step {
        const struct step *up;    /* NULL for the whole value */
        struct lessor_slice name; /* absent for an item of a list */
        size_t index;
};

struct reader {
        struct lessor_arena *arena;
        unsigned flags;
        const char **ret_problem; /* NULL when nobody wants to know */
};

static int read_value(struct reader *r, const struct beast2_type *type, const struct json *value,
                      const struct step *at, char *to);

/* --- Saying what is wrong --- */

/* A name that somebody else chose, unless it is too long to be repeated to people. */
static struct lessor_slice name_to_tell(struct lessor_slice name)
{
        return name.n > LIMIT_ID_BYTES ? LESSOR_SLICE("...") : name;
}

static void append_steps(const struct step *at, struct buf *text)
{
        if (at == NULL)
                return;
        append_steps(at->up, text);
        if (at->name.p == NULL) {
                buf_printf(text, "[%zu]", at->index);
                return;
        }
        if (text->n > 0)
                buf_char(text, '.');
        buf_slice(text, name_to_tell(at->name));
}

/* `reason` is static; `name` (may be absent) stands in quotes behind it. */
static int fault_named(const struct reader *r, const struct step *at, const char *reason,
                       struct lessor_slice name)
{
        _cleanup_(buf_done) struct buf text = {0};
        struct lessor_slice copy;

        if (r->ret_problem == NULL)
                return LESSOR_E_INVALID;
        append_steps(at, &text);
        if (text.n > 0)
                buf_text(&text, ": ");
        buf_text(&text, reason);
        if (name.p != NULL) {
                buf_text(&text, " \"");
                buf_slice(&text, name_to_tell(name));
                buf_char(&text, '"');
        }
        *r->ret_problem = reason;
        if (buf_failed(&text) == 0 && lessor_arena_copy(r->arena, buf_view(&text), &copy) == 0)
                *r->ret_problem = copy.p;
        return LESSOR_E_INVALID;
}

static int fault(const struct reader *r, const struct step *at, const char *reason)
{
        return fault_named(r, at, reason, (struct lessor_slice){NULL, 0});
}

/* --- Reading --- */

/* Decimal digits, perhaps after a minus, within 64 bits. */
static bool read_digits(struct lessor_slice text, int64_t *ret_number)
{
        bool is_negative = text.n > 0 && text.p[0] == '-';
        int64_t number = 0;

        if (text.n == (size_t)is_negative)
                return false;
        for (size_t i = is_negative; i < text.n; i++) {
                int64_t digit = text.p[i] - '0';

                if (digit < 0 || digit > 9 || __builtin_mul_overflow(number, 10, &number) ||
                    __builtin_add_overflow(number, is_negative ? -digit : digit, &number))
                        return false;
        }
        *ret_number = number;
        return true;
}

static int read_integer(struct reader *r, const struct json *value, const struct step *at, int64_t *to)
{
        if (json_int(value, to) || (json_is(value, JSON_STRING) && read_digits(json_text(value), to)))
                return 0;
        return fault(r, at, "must be an integer, or a text of decimal digits");
}

static int read_datetime(struct reader *r, const struct json *value, const struct step *at, int64_t *to)
{
        if (!json_int(value, to) || *to > BEAST2_DATETIME_MOST || *to < -BEAST2_DATETIME_MOST)
                return fault(r, at, "must be a time in milliseconds");
        return 0;
}

static int read_boolean(struct reader *r, const struct json *value, const struct step *at, bool *to)
{
        if (!json_is_bool(value))
                return fault(r, at, "must be true or false");
        *to = json_is(value, JSON_TRUE);
        return 0;
}

static int read_text(struct reader *r, const struct json *value, const struct step *at,
                     struct lessor_slice *to)
{
        if (!json_is(value, JSON_STRING))
                return fault(r, at, "must be a text");
        *to = json_text(value);
        return 0;
}

static int read_blob(struct reader *r, const struct json *value, const struct step *at,
                     struct lessor_slice *to)
{
        int e = json_is(value, JSON_STRING) ? base64_read_strict(json_text(value), r->arena, to)
                                            : LESSOR_E_MALFORMED;

        return e == LESSOR_E_MALFORMED ? fault(r, at, "must be bytes in padded base64") : e;
}

static int read_option(struct reader *r, const struct beast2_type *type, const struct json *value,
                       const struct step *at, char *to)
{
        void *content;

        if (json_is(value, JSON_NULL))
                return 0;
        if (beast2_option_is_slice(type))
                return read_value(r, type->element, value, at, to);
        content = lessor_arena_alloc(r->arena, type->element->size);
        if (content == NULL)
                return LESSOR_E_NOMEM;
        memcpy(to, &content, sizeof(content));
        return read_value(r, type->element, value, at, content);
}

static int check_complete(struct reader *r, const struct beast2_type *type, uint64_t seen,
                          const struct step *at)
{
        for (size_t i = 0; i < type->n_members; i++) {
                const struct beast2_member *m = &type->members[i];
                struct step under = {.up = at, .name = m->name};

                if ((seen >> i & 1) == 0 && m->type->kind != BEAST2_OPTION)
                        return fault(r, &under, "is missing");
        }
        return 0;
}

static int read_struct(struct reader *r, const struct beast2_type *type, const struct json *value,
                       const struct step *at, char *to)
{
        uint64_t seen = 0; /* a bit for each of at most BEAST2_MEMBERS_MAX */

        if (!json_is(value, JSON_OBJECT))
                return fault(r, at, "must be an object");
        json_each (item, value) {
                const struct beast2_member *m = beast2_member_named(type, item->key);
                struct step under = {.up = at, .name = item->key};
                int e;

                if (m == NULL && (r->flags & BEAST2_JSON_OPEN))
                        continue;
                if (m == NULL)
                        return fault_named(r, at, "has an unknown member", item->key);
                e = read_value(r, m->type, item, &under, to + m->offset);
                if (e < 0)
                        return e;
                seen |= UINT64_C(1) << (m - type->members);
        }
        return check_complete(r, type, seen, at);
}

static int read_variant(struct reader *r, const struct beast2_type *type, const struct json *value,
                        const struct step *at, char *to)
{
        const struct json *payload = json_is(value, JSON_OBJECT) ? json_first(value) : NULL;
        struct lessor_slice name = payload != NULL ? payload->key : json_text(value);
        const struct beast2_member *m = beast2_member_named(type, name);
        struct step under = {.up = at, .name = name};
        int number;

        if (name.p == NULL || (payload != NULL && json_count(value) != 1))
                return fault(r, at, "must be the name of a case, or an object of one");
        if (m == NULL)
                return fault_named(r, at, "has no case", name);
        number = (int)(m - type->members);
        memcpy(to, &number, sizeof(number));
        if (payload != NULL)
                return read_value(r, m->type, payload, &under, to + m->offset);
        return m->type->kind == BEAST2_NULL ? 0 : fault(r, &under, "is missing");
}

static int read_array(struct reader *r, const struct beast2_type *type, const struct json *value,
                      const struct step *at, struct beast2_list *to)
{
        size_t size = type->element->size;
        struct step under = {.up = at};
        char *items;

        if (!json_is(value, JSON_ARRAY))
                return fault(r, at, "must be a list");
        if (json_count(value) == 0)
                return 0;
        items = lessor_arena_array(r->arena, json_count(value), size);
        if (items == NULL)
                return LESSOR_E_NOMEM;
        json_each (item, value) {
                int e = read_value(r, type->element, item, &under, items + under.index * size);

                if (e < 0)
                        return e;
                under.index++;
        }
        *to = (struct beast2_list){items, json_count(value)};
        return 0;
}

static int read_dict(struct reader *r, const struct beast2_type *type, const struct json *value,
                     const struct step *at, struct beast2_list *to)
{
        const struct beast2_member *content = &type->element->members[1];
        char *items, *item;

        if (!json_is(value, JSON_OBJECT))
                return fault(r, at, "must be an object");
        if (json_count(value) == 0)
                return 0;
        items = item = lessor_arena_array(r->arena, json_count(value), type->element->size);
        if (items == NULL)
                return LESSOR_E_NOMEM;
        json_each (member, value) {
                struct step under = {.up = at, .name = member->key};
                int e = read_value(r, content->type, member, &under, item + content->offset);

                if (e < 0)
                        return e;
                memcpy(item, &member->key, sizeof(member->key));
                item += type->element->size;
        }
        *to = (struct beast2_list){items, json_count(value)};
        return 0;
}

static int read_value(struct reader *r, const struct beast2_type *type, const struct json *value,
                      const struct step *at, char *to)
{
        switch (type->kind) {
        case BEAST2_NULL:
                return json_is(value, JSON_NULL) ? 0 : fault(r, at, "must be null");
        case BEAST2_BOOLEAN:
                return read_boolean(r, value, at, (void *)to);
        case BEAST2_INTEGER:
                return read_integer(r, value, at, (void *)to);
        case BEAST2_DATETIME:
                return read_datetime(r, value, at, (void *)to);
        case BEAST2_STRING:
                return read_text(r, value, at, (void *)to);
        case BEAST2_BLOB:
                return read_blob(r, value, at, (void *)to);
        case BEAST2_STRUCT:
                return read_struct(r, type, value, at, to);
        case BEAST2_VARIANT:
                return read_variant(r, type, value, at, to);
        case BEAST2_OPTION:
                return read_option(r, type, value, at, to);
        case BEAST2_ARRAY:
                return read_array(r, type, value, at, (void *)to);
        case BEAST2_DICT:
                return read_dict(r, type, value, at, (void *)to);
        }
        return LESSOR_E_INVALID;
}

int beast2_json_read(const struct beast2_type *type, const struct json *value, unsigned flags,
                     struct lessor_arena *arena, void *ret_value, const char **ret_problem)
{
        struct reader r = {.arena = arena, .flags = flags, .ret_problem = ret_problem};
        int e;

        memset(ret_value, 0, type->size);
        e = read_value(&r, type, value, NULL, ret_value);
        if (e < 0)
                memset(ret_value, 0, type->size);
        return e;
}

/* --- Writing --- */

static void put_integer(int64_t n, struct json_writer *w)
{
        char digits[24];

        if (n <= JSON_INT_MOST && n >= -JSON_INT_MOST) {
                json_put_int(w, n);
                return;
        }
        snprintf(digits, sizeof(digits), "%" PRId64, n);
        json_put_cstr(w, digits);
}

static int put_blob(struct lessor_slice bytes, struct json_writer *w)
{
        _cleanup_(buf_done) struct buf text = {0};
        int e = buf_char(&text, '"');

        if (e == 0)
                e = base64_append(&text, bytes.p, bytes.n);
        if (e == 0)
                e = buf_char(&text, '"');
        if (e == 0)
                json_put_raw(w, buf_view(&text));
        return e;
}

static int put_struct(const struct beast2_type *type, const char *value, struct json_writer *w)
{
        int e = 0;

        json_open_object(w);
        for (size_t i = 0; e == 0 && i < type->n_members; i++) {
                json_key_text(w, type->members[i].name);
                e = beast2_json_write(type->members[i].type, value + type->members[i].offset, w);
        }
        json_close_object(w);
        return e;
}

static int put_variant(const struct beast2_type *type, const char *value, struct json_writer *w)
{
        const struct beast2_member *m;
        int number, e;

        memcpy(&number, value, sizeof(number));
        if (number < 0 || (size_t)number >= type->n_members)
                return LESSOR_E_INVALID;
        m = &type->members[number];
        if (m->type->kind == BEAST2_NULL) {
                json_put_text(w, m->name);
                return 0;
        }
        json_open_object(w);
        json_key_text(w, m->name);
        e = beast2_json_write(m->type, value + m->offset, w);
        json_close_object(w);
        return e;
}

static int put_option(const struct beast2_type *type, const void *value, struct json_writer *w)
{
        const void *content = *(const void *const *)value; /* the first member of a slice as well */

        if (content == NULL) {
                json_put_null(w);
                return 0;
        }
        return beast2_json_write(type->element, beast2_option_is_slice(type) ? value : content, w);
}

static int put_array(const struct beast2_type *type, const struct beast2_list *list, struct json_writer *w)
{
        const char *items = list->items;
        int e = 0;

        json_open_array(w);
        for (size_t i = 0; e == 0 && i < list->n; i++)
                e = beast2_json_write(type->element, items + i * type->element->size, w);
        json_close_array(w);
        return e;
}

static int put_dict(const struct beast2_type *type, const struct beast2_list *list, struct json_writer *w)
{
        const struct beast2_member *content = &type->element->members[1];
        const char *item = list->items;
        int e = 0;

        json_open_object(w);
        for (size_t i = 0; e == 0 && i < list->n; i++, item += type->element->size) {
                json_key_text(w, *(const struct lessor_slice *)(const void *)item);
                e = beast2_json_write(content->type, item + content->offset, w);
        }
        json_close_object(w);
        return e;
}

int beast2_json_write(const struct beast2_type *type, const void *value, struct json_writer *w)
{
        switch (type->kind) {
        case BEAST2_NULL:
                json_put_null(w);
                break;
        case BEAST2_BOOLEAN:
                json_put_bool(w, *(const bool *)value);
                break;
        case BEAST2_INTEGER:
        case BEAST2_DATETIME:
                put_integer(*(const int64_t *)value, w);
                break;
        case BEAST2_STRING:
                json_put_text(w, *(const struct lessor_slice *)value);
                break;
        case BEAST2_BLOB:
                return put_blob(*(const struct lessor_slice *)value, w);
        case BEAST2_STRUCT:
                return put_struct(type, value, w);
        case BEAST2_VARIANT:
                return put_variant(type, value, w);
        case BEAST2_OPTION:
                return put_option(type, value, w);
        case BEAST2_ARRAY:
                return put_array(type, value, w);
        case BEAST2_DICT:
                return put_dict(type, value, w);
        }
        return buf_failed(w->out);
}
