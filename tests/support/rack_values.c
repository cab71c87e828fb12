/* SPDX-License-Identifier: MIT */
#include "rack_values.h"

#include <stdlib.h>

#include "base/macro.h"

struct maker {
        uint64_t seed;
        struct lessor_arena *arena;
};

static void make(struct maker *m, const struct beast2_type *type, char *to);

static uint64_t draw(struct maker *m, uint64_t below)
{
        m->seed = m->seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        return (m->seed >> 33) % below;
}

static void *take(struct maker *m, size_t count, size_t size)
{
        void *p = lessor_arena_array(m->arena, count, size);

        if (p == NULL)
                abort();
        return p;
}

static int64_t draw_int(struct maker *m, int64_t most)
{
        const int64_t ints[] = {0, 1, -1, 63, 64, -64, -65, 300, INT64_C(1) << 40, most, -most, most - 1};

        return ints[draw(m, ARRAY_SIZE(ints))];
}

static struct lessor_slice make_text(struct maker *m)
{
        static const char *const pieces[] = {"a",
                                             "\xc3\xa9",
                                             "\xe2\x82\xac",
                                             "\xf0\x9f\x9a\x80",
                                             "\"\\\n",
                                             "\x7f",
                                             "the same again and again ",
                                             "\xef\xbb\xbf",
                                             "\x01"};
        size_t n = draw(m, 4) == 0 ? draw(m, 40) : draw(m, 4), at = 0;
        char *text = take(m, n + 1, 32);

        for (; n > 0; n--) {
                const char *piece = pieces[draw(m, ARRAY_SIZE(pieces))];

                memcpy(text + at, piece, strlen(piece));
                at += strlen(piece);
                if (draw(m, 8) == 0)
                        text[at++] = '\0';
        }
        return (struct lessor_slice){text, at};
}

static struct lessor_slice make_blob(struct maker *m)
{
        size_t n = draw(m, 200);
        char *bytes = take(m, n + 1, 1);

        for (size_t i = 0; i < n; i++)
                bytes[i] = (char)draw(m, 256);
        return (struct lessor_slice){bytes, n};
}

static void make_option(struct maker *m, const struct beast2_type *type, char *to)
{
        char *content;

        if (draw(m, 2) == 0)
                return;
        if (beast2_option_is_slice(type)) {
                make(m, type->element, to);
                return;
        }
        content = take(m, 1, type->element->size);
        make(m, type->element, content);
        memcpy(to, &content, sizeof(content));
}

static void make_list(struct maker *m, const struct beast2_type *type, struct beast2_list *to)
{
        char *items;

        to->n = draw(m, 5);
        to->items = items = take(m, to->n, type->element->size);
        for (size_t i = 0; i < to->n; i++)
                make(m, type->element, items + i * type->element->size);
        /* Keys differ by their beginning, and come in falling order. */
        for (size_t i = 0; type->kind == BEAST2_DICT && i < to->n; i++) {
                struct lessor_slice *key = (void *)(items + i * type->element->size);
                char *text = take(m, key->n + 1, 1);

                text[0] = (char)('z' - (char)i);
                memcpy(text + 1, key->p, key->n);
                *key = (struct lessor_slice){text, key->n + 1};
        }
}

static void make_variant(struct maker *m, const struct beast2_type *type, char *to)
{
        int number = (int)draw(m, type->n_members);

        memcpy(to, &number, sizeof(number));
        make(m, type->members[number].type, to + type->members[number].offset);
}

static void make(struct maker *m, const struct beast2_type *type, char *to)
{
        switch (type->kind) {
        case BEAST2_NULL:
                break;
        case BEAST2_BOOLEAN:
                *(bool *)to = draw(m, 2) == 1;
                break;
        case BEAST2_INTEGER:
                *(int64_t *)(void *)to = draw(m, 20) == 0 ? INT64_MIN : draw_int(m, INT64_MAX);
                break;
        case BEAST2_DATETIME:
                *(int64_t *)(void *)to = draw_int(m, BEAST2_DATETIME_MOST);
                break;
        case BEAST2_STRING:
                *(struct lessor_slice *)(void *)to = make_text(m);
                break;
        case BEAST2_BLOB:
                *(struct lessor_slice *)(void *)to = make_blob(m);
                break;
        case BEAST2_STRUCT:
                for (size_t i = 0; i < type->n_members; i++)
                        if (!(type->members[i].flags & BEAST2_JSON_ONLY))
                                make(m, type->members[i].type, to + type->members[i].offset);
                break;
        case BEAST2_VARIANT:
                make_variant(m, type, to);
                break;
        case BEAST2_OPTION:
                make_option(m, type, to);
                break;
        case BEAST2_ARRAY:
        case BEAST2_DICT:
                make_list(m, type, (void *)to);
                break;
        }
}

void *rack_value_make(const struct beast2_type *type, uint64_t seed, struct lessor_arena *arena)
{
        struct maker m = {.seed = seed, .arena = arena};
        void *value = take(&m, 1, type->size);

        make(&m, type, value);
        return value;
}
