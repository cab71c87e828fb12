/* SPDX-License-Identifier: MIT */
#include "wire/message.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/json_read.h"
#include "base/macro.h"
#include "base/utf8.h"

const struct message_field message_text1_item = {
        .name = "",
        .type = MESSAGE_TEXT,
        .min = 1,
        .max = INT64_MAX,
};

/* What is the same for a message and everything in it. */
struct reader {
        struct lessor_arena *arena;
        bool explain;       /* somebody wants to know what is wrong */
        const char *where;  /* path of the member at fault, as far as known; in the arena */
        const char *reason; /* static, or in the arena */
};

static int read_object(struct reader *r, const struct message_table *table, const struct json *value,
                       char *at);

static int fault(struct reader *r, const char *reason)
{
        r->where = "";
        r->reason = reason;
        return LESSOR_E_INVALID;
}

/* As fault(), for reasons that name a bound or a word. */
static int fault_with(struct reader *r, const char *before, const char *what, const char *after)
{
        size_t n = strlen(before) + strlen(what) + strlen(after) + 1;
        char *text;

        fault(r, "is not valid");
        if (!r->explain)
                return LESSOR_E_INVALID;
        text = lessor_arena_alloc(r->arena, n);
        if (text == NULL)
                return LESSOR_E_INVALID;
        snprintf(text, n, "%s%s%s", before, what, after);
        r->reason = text;
        return LESSOR_E_INVALID;
}

static int fault_bound(struct reader *r, const char *before, int64_t bound, const char *after)
{
        char text[24];

        snprintf(text, sizeof(text), "%lld", (long long)bound);
        return fault_with(r, before, text, after);
}

static int fault_unknown(struct reader *r, struct lessor_slice key)
{
        struct lessor_slice copy = {"", 0};

        if (r->explain && lessor_arena_copy(r->arena, key, &copy) < 0)
                copy.p = "";
        return fault_with(r, "has an unknown member \"", copy.p, "\"");
}

/* Puts a step in front of the path, on the way out of a failure. */
static int fault_under(struct reader *r, int error, const char *name, size_t name_len, bool is_index)
{
        size_t where_len;
        char *path;

        if (error != LESSOR_E_INVALID || !r->explain)
                return error;
        where_len = strlen(r->where);
        path = lessor_arena_alloc(r->arena, name_len + where_len + 4);
        if (path == NULL)
                return error;
        snprintf(path, name_len + where_len + 4, "%s%.*s%s%s%s", is_index ? "[" : "", (int)name_len, name,
                 is_index ? "]" : "", where_len == 0 || r->where[0] == '[' ? "" : ".", r->where);
        r->where = path;
        return error;
}

static int fault_at(struct reader *r, int error, size_t index)
{
        char text[24];
        int n = snprintf(text, sizeof(text), "%zu", index);

        return fault_under(r, error, text, (size_t)n, true);
}

static int read_text(struct reader *r, const struct message_field *f, const struct json *value,
                     struct lessor_slice *ret_text)
{
        struct lessor_slice text;
        uint64_t points;

        if (!json_is(value, JSON_STRING))
                return fault(r, "must be a text");
        text = json_text(value);
        /* A code point is one byte at least: most texts need no counting. */
        points = text.n;
        if (f->min > 1 || (f->max < INT64_MAX && text.n > (uint64_t)f->max))
                points = utf8_code_points(text);
        if (points < (uint64_t)f->min)
                return f->min == 1 ? fault(r, "must not be empty")
                                   : fault_bound(r, "must have at least ", f->min, " characters");
        if (points > (uint64_t)f->max)
                return fault_bound(r, "must have at most ", f->max, " characters");
        *ret_text = text;
        return 0;
}

static bool is_scheme_char(char c, bool first)
{
        if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'))
                return true;
        return !first && ((c >= '0' && c <= '9') || c == '+' || c == '-' || c == '.');
}

/* An absolute URL as far as we care: a scheme, something after it, no blanks, and a host where one belongs.
 */
static bool is_url(struct lessor_slice text)
{
        size_t i = 0;
        struct lessor_slice rest;
        bool web;

        while (i < text.n && is_scheme_char(text.p[i], i == 0))
                i++;
        if (i == 0 || i == text.n || text.p[i] != ':')
                return false;
        web = lessor_slice_equal((struct lessor_slice){text.p, i}, LESSOR_SLICE("http")) ||
              lessor_slice_equal((struct lessor_slice){text.p, i}, LESSOR_SLICE("https"));
        rest = (struct lessor_slice){text.p + i + 1, text.n - i - 1};
        for (i = 0; i < rest.n; i++)
                if ((unsigned char)rest.p[i] <= 0x20 || rest.p[i] == 0x7f)
                        return false;
        if (!web)
                return rest.n > 0;
        return rest.n > 2 && rest.p[0] == '/' && rest.p[1] == '/' && strchr("/?#:@", rest.p[2]) == NULL;
}

static int read_word(struct reader *r, const struct message_field *f, const struct json *value,
                     int *ret_number)
{
        if (!json_is(value, JSON_STRING))
                return fault(r, "must be a text");
        *ret_number = message_word_number(f->words, json_text(value));
        if (*ret_number < 0)
                return fault(r, "is none of the known words");
        return 0;
}

static int read_int(struct reader *r, const struct message_field *f, const struct json *value,
                    int64_t *ret_number)
{
        int64_t number;

        if (!json_int(value, &number))
                return fault(r, "must be an integer");
        if (number < f->min)
                return fault_bound(r, "must be at least ", f->min, "");
        if (number > f->max)
                return fault_bound(r, "must be at most ", f->max, "");
        *ret_number = number;
        return 0;
}

static int read_value(struct reader *r, const struct message_field *f, const struct json *value, char *at)
{
        struct lessor_slice *text = (void *)(at + f->offset);
        int number;
        int e;

        switch (f->type) {
        case MESSAGE_TEXT:
                return read_text(r, f, value, text);
        case MESSAGE_URL:
                if (!json_is(value, JSON_STRING) || !is_url(json_text(value)))
                        return fault(r, "must be a URL");
                *text = json_text(value);
                return 0;
        case MESSAGE_WORD:
                e = read_word(r, f, value, &number);
                if (e == 0)
                        *text = json_text(value);
                return e;
        case MESSAGE_LITERAL:
                if (!json_is(value, JSON_STRING) ||
                    !lessor_slice_equal(json_text(value), lessor_slice_of(f->literal)))
                        return fault_with(r, "must be \"", f->literal, "\"");
                return 0;
        case MESSAGE_ENUM:
                e = read_word(r, f, value, &number);
                if (e == 0)
                        memcpy(at + f->offset, &number, sizeof(number));
                return e;
        case MESSAGE_INT:
                return read_int(r, f, value, (void *)(at + f->offset));
        case MESSAGE_BOOL:
                if (!json_is_bool(value))
                        return fault(r, "must be true or false");
                *(bool *)(at + f->offset) = json_is(value, JSON_TRUE);
                return 0;
        case MESSAGE_OBJECT:
                return read_object(r, f->table, value, at + f->offset);
        case MESSAGE_LIST:
        case MESSAGE_MAP:
                break;
        }
        return fault(r, "is not readable"); /* lists are read by read_member: they do not nest bare */
}

static int read_list(struct reader *r, const struct message_field *f, const struct json *value, char *at)
{
        size_t n = json_count(value), i = 0;
        char *items;

        if (!json_is(value, JSON_ARRAY))
                return fault(r, "must be a list");
        if (n < (uint64_t)f->min)
                return fault_bound(r, "must have at least ", f->min, " items");
        if (n > (uint64_t)f->max)
                return fault_bound(r, "must have at most ", f->max, " items");
        items = lessor_arena_array(r->arena, n, f->item_size);
        if (items == NULL)
                return LESSOR_E_NOMEM;
        json_each (item, value) {
                int e = read_value(r, f->item, item, items + i * f->item_size);

                if (e < 0)
                        return fault_at(r, e, i);
                i++;
        }
        *(void **)(void *)(at + f->offset) = items;
        *(size_t *)(void *)(at + f->count_offset) = n;
        return 0;
}

static int read_member(struct reader *r, const struct message_field *f, const struct json *value, char *at);

static int read_map(struct reader *r, const struct message_field *f, const struct json *value, char *at)
{
        size_t n = json_count(value);
        size_t i = 0;
        char *items;

        if (!json_is(value, JSON_OBJECT))
                return fault(r, "must be an object");
        items = lessor_arena_array(r->arena, n, f->item_size);
        if (items == NULL)
                return LESSOR_E_NOMEM;
        json_each (member, value) {
                char *item = items + i++ * f->item_size;
                int e;

                if (member->key.n == 0)
                        return fault(r, "must not have an empty key");
                *(struct lessor_slice *)(void *)(item + f->key_offset) = member->key;
                e = read_member(r, f->item, member, item);
                if (e < 0)
                        return fault_under(r, e, member->key.p, member->key.n, false);
        }
        *(void **)(void *)(at + f->offset) = items;
        *(size_t *)(void *)(at + f->count_offset) = n;
        return 0;
}

static int read_member(struct reader *r, const struct message_field *f, const struct json *value, char *at)
{
        int e;

        if ((f->flags & MESSAGE_NULLABLE) && json_is(value, JSON_NULL))
                return 0;
        if (f->type == MESSAGE_LIST)
                e = read_list(r, f, value, at);
        else if (f->type == MESSAGE_MAP)
                e = read_map(r, f, value, at);
        else
                e = read_value(r, f, value, at);
        if (e == 0 && (f->flags & MESSAGE_HAS))
                *(bool *)(at + f->has_offset) = true;
        return e;
}

/* Members mostly come in table order: the search begins where the last one was found. */
static const struct message_field *field_find(const struct message_table *table, const char *key,
                                              size_t key_len, size_t *hint)
{
        size_t at = *hint;

        for (size_t tried = 0; tried < table->n_fields; tried++, at++) {
                const struct message_field *f;

                if (at >= table->n_fields)
                        at = 0;
                f = &table->fields[at];
                if (f->name_len == key_len && memcmp(f->name, key, key_len) == 0) {
                        *hint = at + 1;
                        return f;
                }
        }
        return NULL;
}

static bool belongs(const struct message_field *f, unsigned form)
{
        return f->when == 0 || (f->when & form) != 0;
}

/* Which form the message has, as a bit; all bits for a message that has only one. */
static int read_form(struct reader *r, const struct message_table *table, const struct json *value,
                     unsigned *ret_form)
{
        const struct message_field *f = &table->fields[0];
        const struct json *word;
        int number;
        int e;

        *ret_form = ~0u;
        if (!table->has_forms)
                return 0;
        word = json_member(value, (struct lessor_slice){f->name, f->name_len});
        if (word == NULL)
                return fault_under(r, fault(r, "is missing"), f->name, f->name_len, false);
        e = read_word(r, f, word, &number);
        if (e < 0)
                return fault_under(r, e, f->name, f->name_len, false);
        *ret_form = 1u << (unsigned)number;
        return 0;
}

static int check_complete(struct reader *r, const struct message_table *table, uint64_t seen, unsigned form)
{
        for (size_t i = 0; i < table->n_fields; i++) {
                const struct message_field *f = &table->fields[i];

                if ((seen >> i & 1) == 0 && !(f->flags & MESSAGE_OPTIONAL) && belongs(f, form))
                        return fault_under(r, fault(r, "is missing"), f->name, f->name_len, false);
        }
        return 0;
}

static int read_object(struct reader *r, const struct message_table *table, const struct json *value,
                       char *at)
{
        uint64_t seen = 0;
        size_t hint = 0;
        unsigned form;
        int e;

        if (!json_is(value, JSON_OBJECT))
                return fault(r, "must be an object");
        e = read_form(r, table, value, &form);
        if (e < 0)
                return e;
        json_each (member, value) {
                const struct message_field *f = field_find(table, member->key.p, member->key.n, &hint);

                if (f == NULL || !belongs(f, form)) {
                        if (table->open)
                                continue;
                        return fault_unknown(r, member->key);
                }
                e = read_member(r, f, member, at);
                if (e < 0)
                        return fault_under(r, e, f->name, f->name_len, false);
                seen |= UINT64_C(1) << (f - table->fields);
        }
        e = check_complete(r, table, seen, form);
        if (e < 0)
                return e;
        if (table->holds != NULL && !table->holds(at))
                return fault(r, "does not hold together");
        return 0;
}

/* "where: reason", or as much of it as memory allows. */
static void explain(struct reader *r, const char **ret_problem)
{
        size_t n = strlen(r->where) + strlen(r->reason) + 3;
        char *text = lessor_arena_alloc(r->arena, n);

        if (text == NULL) {
                *ret_problem = r->reason;
                return;
        }
        snprintf(text, n, "%s%s%s", r->where, r->where[0] == '\0' ? "" : ": ", r->reason);
        *ret_problem = text;
}

int message_read(const struct message_table *table, const struct json *value, struct lessor_arena *arena,
                 void *ret_message, const char **ret_problem)
{
        struct reader r = {.arena = arena, .explain = ret_problem != NULL};
        int e;

        assert(table->n_fields <= MESSAGE_FIELDS_MAX);
        memset(ret_message, 0, table->size);
        e = read_object(&r, table, value, ret_message);
        if (e == 0)
                return 0;
        memset(ret_message, 0, table->size);
        if (e == LESSOR_E_INVALID && ret_problem != NULL)
                explain(&r, ret_problem);
        return e;
}

/* What a bare list is read into. */
struct bare_list {
        void *items;
        size_t n;
};

int message_read_list(const struct message_table *table, const struct json *value, struct lessor_arena *arena,
                      void *ret_items, size_t *ret_n, const char **ret_problem)
{
        struct reader r = {.arena = arena, .explain = ret_problem != NULL};
        const struct message_field item = {.name = "", .type = MESSAGE_OBJECT, .table = table};
        const struct message_field field = {.name = "",
                                            .type = MESSAGE_LIST,
                                            .max = INT64_MAX,
                                            .offset = offsetof(struct bare_list, items),
                                            .count_offset = offsetof(struct bare_list, n),
                                            .item = &item,
                                            .item_size = table->size};
        struct bare_list list = {0};
        int e = read_list(&r, &field, value, (char *)&list);

        if (e == LESSOR_E_INVALID && ret_problem != NULL)
                explain(&r, ret_problem);
        if (e < 0)
                return e;
        memcpy(ret_items, &list.items, sizeof(list.items));
        *ret_n = list.n;
        return 0;
}

int message_word_number(const struct message_words *words, struct lessor_slice word)
{
        if (word.n == 0)
                return -1;
        /* The first letter rules most words out, and no word is empty. */
        for (size_t i = 0; i < words->n; i++)
                if (words->names[i][0] == word.p[0] &&
                    lessor_slice_equal(word, lessor_slice_of(words->names[i])))
                        return (int)i;
        return -1;
}

const char *message_word(const struct message_words *words, int number)
{
        assert(number >= 0 && (size_t)number < words->n);
        return words->names[number];
}
