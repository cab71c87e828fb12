/* SPDX-License-Identifier: MIT */
#include "base/json_read.h"

#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "base/utf8.h"
#include "lessor/error.h"

#define INT_MOST 9007199254740991.0 /* 2^53-1 */

/* Characters of a whole number that surely fits; 2^53 has 16 digits. */
#define SHORT_NUMBER 15

/* Objects with more members look for duplicates by sorting, not pair by pair. */
#define PAIRWISE_MOST 16

struct reader {
        const char *start, *p, *end;
        struct lessor_arena *arena;
        size_t values_left;
        unsigned depth;
        bool is_copy; /* the text is the arena's own, so that a string can get its NUL where its quote stood
                       */
        bool refuse_duplicates;
        bool lone_surrogates; /* are taken, as U+FFFD */
        bool outline;         /* json_read_members: no value outlives its reading */
        void (*member)(void *context, const struct json *member, struct lessor_slice text);
        void *context;
        const char *problem; /* what is wrong at p, for people; static */
};

static int read_value(struct reader *r, struct json *value);

static int wrong(struct reader *r, const char *problem)
{
        r->problem = problem;
        return LESSOR_E_MALFORMED;
}

static void skip_blanks(struct reader *r)
{
        while (r->p < r->end && (*r->p == ' ' || *r->p == '\n' || *r->p == '\r' || *r->p == '\t'))
                r->p++;
}

static bool next_is(struct reader *r, char c)
{
        if (r->p == r->end || *r->p != c)
                return false;
        r->p++;
        return true;
}

/* --- Strings --- */

static int hex_digit(char c)
{
        if (c >= '0' && c <= '9')
                return c - '0';
        if (c >= 'a' && c <= 'f')
                return c - 'a' + 10;
        if (c >= 'A' && c <= 'F')
                return c - 'A' + 10;
        return -1;
}

/* The four hex digits of a \u escape, or -1. */
static int32_t read_unit(struct reader *r)
{
        int32_t unit = 0;

        if (r->end - r->p < 4)
                return -1;
        for (int i = 0; i < 4; i++) {
                int digit = hex_digit(*r->p++);

                if (digit < 0)
                        return -1;
                unit = unit * 16 + digit;
        }
        return unit;
}

static char *put_code_point(char *out, int32_t c)
{
        if (c < 0x80) {
                *out++ = (char)c;
        } else if (c < 0x800) {
                *out++ = (char)(0xc0 | (c >> 6));
                *out++ = (char)(0x80 | (c & 0x3f));
        } else if (c < 0x10000) {
                *out++ = (char)(0xe0 | (c >> 12));
                *out++ = (char)(0x80 | ((c >> 6) & 0x3f));
                *out++ = (char)(0x80 | (c & 0x3f));
        } else {
                *out++ = (char)(0xf0 | (c >> 18));
                *out++ = (char)(0x80 | ((c >> 12) & 0x3f));
                *out++ = (char)(0x80 | ((c >> 6) & 0x3f));
                *out++ = (char)(0x80 | (c & 0x3f));
        }
        return out;
}

/* The second half of a pair of which `high` is the first, or a negative number: then p stays where it is. */
static int32_t read_low_surrogate(struct reader *r, int32_t high)
{
        const char *from = r->p;
        int32_t low;

        if (high >= 0xdc00 || r->end - r->p < 6 || r->p[0] != '\\' || r->p[1] != 'u')
                return -1;
        r->p += 2;
        low = read_unit(r);
        if (low >= 0xdc00 && low <= 0xdfff)
                return low;
        r->p = from;
        return -1;
}

/* What follows a backslash and a `u`. An escape is never shorter than what it stands for. */
static int read_unicode_escape(struct reader *r, char **out)
{
        int32_t unit = read_unit(r), low;

        if (unit < 0)
                return wrong(r, "a \\u escape wants four hex digits");
        if (unit >= 0xd800 && unit <= 0xdfff) {
                low = read_low_surrogate(r, unit);
                if (low < 0 && !r->lone_surrogates)
                        return wrong(r, "a surrogate stands alone");
                unit = low < 0 ? 0xfffd : 0x10000 + ((unit - 0xd800) << 10) + (low - 0xdc00);
        }
        *out = put_code_point(*out, unit);
        return 0;
}

static int read_escape(struct reader *r, char **out)
{
        static const char names[] = "\"\\/bfnrt", meanings[] = "\"\\/\b\f\n\r\t";
        const char *at;

        if (r->p == r->end)
                return wrong(r, "a string does not end");
        if (*r->p == 'u') {
                r->p++;
                return read_unicode_escape(r, out);
        }
        at = *r->p == '\0' ? NULL : strchr(names, *r->p);
        if (at == NULL)
                return wrong(r, "there is no such escape");
        r->p++;
        *(*out)++ = meanings[at - names];
        return 0;
}

/* Where plain text ends: at a quote, a backslash, a control character, or the end. */
static const char *plain_end(const char *p, const char *end)
{
        /* Eight at a time: a byte is special when it is below 0x20 or equals one of the two. */
        const uint64_t ones = UINT64_C(0x0101010101010101), high = ones * 0x80;

        while (end - p >= 8) {
                uint64_t w, quote, slash, special;

                memcpy(&w, p, sizeof(w));
                quote = w ^ (ones * '"');
                slash = w ^ (ones * '\\');
                special = (((w - ones * 0x20) & ~w) | ((quote - ones) & ~quote) | ((slash - ones) & ~slash)) &
                          high;
                /* Borrows only go up, so the lowest mark is true: where it is the first byte, that is it. */
                if (special != 0 && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__)
                        return p + __builtin_ctzll(special) / 8;
                if (special != 0)
                        break;
                p += 8;
        }
        while (p < end && (unsigned char)*p >= 0x20 && *p != '"' && *p != '\\')
                p++;
        return p;
}

/*
 * A string that began at `from` and is not plain at p, decoded into the arena and followed by a NUL. What it
 * takes there is bounded by the string's own length in the text.
 */
static int read_escaped(struct reader *r, const char *from, struct lessor_slice *ret_text)
{
        const char *stop = r->p;
        char *text, *out;
        int e;

        /* A string is never longer than its spelling. */
        while (stop < r->end && *stop != '"')
                stop += *stop == '\\' && stop + 1 < r->end ? 2 : 1;
        text = out = lessor_arena_alloc(r->arena, (size_t)(stop - from) + 1);
        if (text == NULL)
                return LESSOR_E_NOMEM;
        for (;;) {
                const char *plain = plain_end(r->p, r->end);

                memcpy(out, from, (size_t)(plain - from));
                out += plain - from;
                r->p = plain;
                if (next_is(r, '"'))
                        break;
                if (!next_is(r, '\\'))
                        return wrong(r, r->p == r->end ? "a string does not end"
                                                       : "a string has an unescaped control character");
                e = read_escape(r, &out);
                if (e < 0)
                        return e;
                from = r->p;
        }
        *ret_text = (struct lessor_slice){text, (size_t)(out - text)};
        return 0;
}

/* The string that begins at p, after its first quote. */
static int read_string(struct reader *r, struct lessor_slice *ret_text)
{
        const char *from = r->p;

        r->p = plain_end(from, r->end);
        if (next_is(r, '"')) {
                *ret_text = (struct lessor_slice){from, (size_t)(r->p - 1 - from)};
                if (r->is_copy)
                        *(char *)(r->p - 1) = '\0';
                return 0;
        }
        return read_escaped(r, from, ret_text);
}

/* --- Numbers --- */

static const char *skip_digits(const char *p, const char *end)
{
        while (p < end && *p >= '0' && *p <= '9')
                p++;
        return p;
}

/* The end of the number at p by the grammar, or NULL. */
static const char *number_end(const char *p, const char *end)
{
        const char *from;

        if (p < end && *p == '-')
                p++;
        from = p;
        p = skip_digits(p, end);
        if (p == from || (*from == '0' && p - from > 1))
                return NULL;
        if (p < end && *p == '.') {
                from = ++p;
                p = skip_digits(p, end);
                if (p == from)
                        return NULL;
        }
        if (p < end && (*p == 'e' || *p == 'E')) {
                p++;
                if (p < end && (*p == '+' || *p == '-'))
                        p++;
                from = p;
                p = skip_digits(p, end);
                if (p == from)
                        return NULL;
        }
        return p;
}

/* A whole number that is spelled in so few characters that it is exact in a double and in 64 bits. */
static bool short_whole_number(const char *p, const char *stop, double *ret_number)
{
        bool negative = *p == '-';
        int64_t whole = 0;

        if (stop - p > SHORT_NUMBER)
                return false;
        for (p += negative; p < stop; p++) {
                if (*p < '0' || *p > '9')
                        return false;
                whole = whole * 10 + (*p - '0');
        }
        if (negative && whole == 0)
                return false; /* minus zero is no integer of ours */
        *ret_number = (double)(negative ? -whole : whole);
        return true;
}

/* As strtod, whatever the program's locale says about the decimal point. */
static int to_double(const char *text, double *ret_number)
{
        /* glibc and musl both answer with a constant of theirs: nothing is allocated, nothing to be freed. */
        locale_t plain = newlocale(LC_ALL_MASK, "C", (locale_t)0);

        if (plain == (locale_t)0)
                return LESSOR_E_NOMEM;
        *ret_number = strtod_l(text, NULL, plain);
        freelocale(plain);
        return 0;
}

/* Numbers beyond a double's range are infinite, as in JavaScript: legal, and no int. */
static int read_number(struct reader *r, double *ret_number)
{
        const char *from = r->p, *stop = number_end(from, r->end);
        struct lessor_slice copy;
        char room[64];
        size_t n;
        int e;

        if (stop == NULL)
                return wrong(r, "a value is expected");
        r->p = stop;
        if (short_whole_number(from, stop, ret_number))
                return 0;
        /* strtod wants a NUL behind it, which the text need not have. */
        n = (size_t)(stop - from);
        if (n < sizeof(room)) {
                memcpy(room, from, n);
                room[n] = '\0';
                return to_double(room, ret_number);
        }
        e = lessor_arena_copy(r->arena, (struct lessor_slice){from, n}, &copy);
        return e < 0 ? e : to_double(copy.p, ret_number);
}

/* --- Arrays and objects --- */

struct placed_member {
        struct json *member;
        size_t place;
};

static int by_key_and_place(const void *a, const void *b)
{
        const struct placed_member *left = a, *right = b;
        int order = lessor_slice_cmp(left->member->key, right->member->key);

        return order != 0 ? order : (left->place > right->place) - (left->place < right->place);
}

/* Keeps the last member of each key, where it stands; `dropped` is told by place. */
static void drop_members(struct json *object, const bool *dropped)
{
        struct json **at = &object->items.first;
        size_t place = 0;

        for (struct json *member = *at; member != NULL; member = member->next, place++) {
                if (dropped[place]) {
                        object->items.n--;
                        continue;
                }
                *at = member;
                at = &member->next;
        }
        *at = NULL;
}

/* In a file that people write. Points at the key if it is borrowed, else at the end of the object. */
static int refuse_duplicate(struct reader *r, const struct json *again)
{
        uintptr_t key = (uintptr_t)again->key.p;

        if (key >= (uintptr_t)r->start && key < (uintptr_t)r->end)
                r->p = again->key.p - 1;
        return wrong(r, "an object has a key twice");
}

/* For objects that are too large to compare every key with every other. */
static int drop_duplicates_sorted(struct reader *r, struct json *object)
{
        size_t n = object->items.n, place = 0;
        struct placed_member *sorted = lessor_arena_array(r->arena, n, sizeof(*sorted));
        bool *dropped = lessor_arena_array(r->arena, n, sizeof(*dropped));
        const struct json *again = NULL; /* the last duplicate found */

        if (sorted == NULL || dropped == NULL)
                return LESSOR_E_NOMEM;
        json_each (member, object) {
                sorted[place].member = member;
                sorted[place].place = place;
                place++;
        }
        qsort(sorted, n, sizeof(*sorted), by_key_and_place);
        for (size_t i = 1; i < n; i++) {
                if (lessor_slice_equal(sorted[i - 1].member->key, sorted[i].member->key)) {
                        dropped[sorted[i - 1].place] = true;
                        again = sorted[i].member;
                }
        }
        if (again != NULL && r->refuse_duplicates)
                return refuse_duplicate(r, again);
        if (again != NULL)
                drop_members(object, dropped);
        return 0;
}

static int drop_duplicates(struct reader *r, struct json *object)
{
        bool dropped[PAIRWISE_MOST] = {false};
        const struct json *again = NULL;
        size_t place = 0;

        if (object->items.n > PAIRWISE_MOST)
                return drop_duplicates_sorted(r, object);
        json_each (member, object) {
                for (const struct json *later = member->next; later != NULL; later = later->next) {
                        if (lessor_slice_equal(member->key, later->key)) {
                                dropped[place] = true;
                                again = later;
                        }
                }
                place++;
        }
        if (again != NULL && r->refuse_duplicates)
                return refuse_duplicate(r, again);
        if (again != NULL)
                drop_members(object, dropped);
        return 0;
}

static int read_key(struct reader *r, struct lessor_slice *ret_key)
{
        int e;

        skip_blanks(r);
        if (!next_is(r, '"'))
                return wrong(r, "a key is expected");
        e = read_string(r, ret_key);
        if (e < 0)
                return e;
        skip_blanks(r);
        return next_is(r, ':') ? 0 : wrong(r, "a colon is expected");
}

/* One item of an array or object into `item`, which then is linked or told about, or forgotten. */
static int read_item(struct reader *r, enum json_type within, struct json *item)
{
        const char *from;
        int e;

        if (within == JSON_OBJECT) {
                e = read_key(r, &item->key);
                if (e < 0)
                        return e;
        }
        skip_blanks(r);
        from = r->p;
        e = read_value(r, item);
        if (e == 0 && r->member != NULL && r->depth == 1 && within == JSON_OBJECT)
                r->member(r->context, item, (struct lessor_slice){from, (size_t)(r->p - from)});
        return e;
}

/* The rest of an array or object of which nothing is kept, after its opening bracket. */
static int read_outline(struct reader *r, enum json_type within, char close)
{
        skip_blanks(r);
        if (next_is(r, close))
                return 0;
        do {
                struct json item = {0};
                int e = read_item(r, within, &item);

                if (e < 0)
                        return e;
                skip_blanks(r);
        } while (next_is(r, ','));
        return next_is(r, close)
                       ? 0
                       : wrong(r, close == ']' ? "a comma or ] is expected" : "a comma or } is expected");
}

/* The rest of an array or object, after its opening bracket. */
static int read_items(struct reader *r, struct json *value, char close)
{
        struct json **at = &value->items.first;
        int e;

        skip_blanks(r);
        if (next_is(r, close))
                return 0;
        do {
                struct json *item = lessor_arena_alloc(r->arena, sizeof(*item));

                if (item == NULL)
                        return LESSOR_E_NOMEM;
                e = read_item(r, value->type, item);
                if (e < 0)
                        return e;
                *at = item;
                at = &item->next;
                value->items.n++;
                skip_blanks(r);
        } while (next_is(r, ','));
        return next_is(r, close)
                       ? 0
                       : wrong(r, close == ']' ? "a comma or ] is expected" : "a comma or } is expected");
}

static int read_nested(struct reader *r, struct json *value, enum json_type type)
{
        int e;

        if (r->depth == LIMIT_JSON_DEPTH) {
                r->problem = "it is nested too deeply";
                return LESSOR_E_TOO_LARGE;
        }
        r->depth++;
        r->p++;
        value->type = type;
        if (r->outline)
                e = read_outline(r, type, type == JSON_ARRAY ? ']' : '}');
        else
                e = read_items(r, value, type == JSON_ARRAY ? ']' : '}');
        if (e == 0 && type == JSON_OBJECT)
                e = drop_duplicates(r, value);
        r->depth--;
        return e;
}

/* --- Values --- */

static bool next_is_word(struct reader *r, const char *word)
{
        size_t n = strlen(word);

        if ((size_t)(r->end - r->p) < n || memcmp(r->p, word, n) != 0)
                return false;
        r->p += n;
        return true;
}

static int read_value(struct reader *r, struct json *value)
{
        if (r->values_left == 0) {
                r->problem = "it has too many values";
                return LESSOR_E_TOO_LARGE;
        }
        r->values_left--;
        skip_blanks(r);
        switch (r->p == r->end ? '\0' : *r->p) {
        case '"':
                r->p++;
                value->type = JSON_STRING;
                return read_string(r, &value->text);
        case '{':
                return read_nested(r, value, JSON_OBJECT);
        case '[':
                return read_nested(r, value, JSON_ARRAY);
        case 't':
                value->type = JSON_TRUE;
                return next_is_word(r, "true") ? 0 : wrong(r, "a value is expected");
        case 'f':
                value->type = JSON_FALSE;
                return next_is_word(r, "false") ? 0 : wrong(r, "a value is expected");
        case 'n':
                value->type = JSON_NULL;
                return next_is_word(r, "null") ? 0 : wrong(r, "a value is expected");
        default:
                value->type = JSON_NUMBER;
                return read_number(r, &value->number);
        }
}

static int read_document(struct reader *r, struct lessor_slice text, struct json **ret_value)
{
        struct json *value = lessor_arena_alloc(r->arena, sizeof(*value));
        int e;

        if (text.p == NULL)
                text = LESSOR_SLICE("");
        r->start = r->p = text.p;
        r->end = text.p + text.n;
        if (value == NULL)
                return LESSOR_E_NOMEM;
        if (!utf8_valid(text)) {
                r->p += utf8_valid_prefix(text);
                return wrong(r, "it is not valid UTF-8");
        }
        skip_blanks(r);
        if (r->p == r->end)
                return wrong(r, "it is empty");
        e = read_value(r, value);
        if (e < 0)
                return e;
        skip_blanks(r);
        if (r->p != r->end)
                return wrong(r, "there is something after the value");
        *ret_value = value;
        return 0;
}

int json_read(struct lessor_slice text, struct lessor_arena *arena, struct json **ret_value)
{
        struct reader r = {.arena = arena, .values_left = LIMIT_JSON_VALUES};

        return read_document(&r, text, ret_value);
}

int json_read_copy(struct lessor_slice text, struct lessor_arena *arena, struct json **ret_value)
{
        struct reader r = {.arena = arena, .values_left = LIMIT_JSON_VALUES, .is_copy = true};
        struct lessor_slice copy;
        int e = lessor_arena_copy(arena, text, &copy);

        return e < 0 ? e : read_document(&r, copy, ret_value);
}

/* "line 3, column 7: a comma or ] is expected", in the arena, or the bare problem when memory is short. */
static const char *locate(const struct reader *r)
{
        size_t line = 1, column = 1, cap = strlen(r->problem) + 64;
        char *sentence = lessor_arena_alloc(r->arena, cap);

        if (sentence == NULL)
                return r->problem;
        for (const char *p = r->start; p < r->p; p++) {
                if (*p == '\n') {
                        line++;
                        column = 1;
                } else {
                        column += ((unsigned char)*p & 0xc0) != 0x80; /* code points, as an editor counts */
                }
        }
        snprintf(sentence, cap, "line %zu, column %zu: %s", line, column, r->problem);
        return sentence;
}

static void tell_problem(const struct reader *r, int e, const char **ret_problem)
{
        if (e < 0 && ret_problem != NULL)
                *ret_problem = e == LESSOR_E_NOMEM || r->problem == NULL ? lessor_error_text(e) : locate(r);
}

int json_read_unique(struct lessor_slice text, struct lessor_arena *arena, struct json **ret_value,
                     const char **ret_problem)
{
        struct reader r = {.arena = arena, .values_left = LIMIT_JSON_VALUES, .refuse_duplicates = true};
        int e = read_document(&r, text, ret_value);

        tell_problem(&r, e, ret_problem);
        return e;
}

int json_read_file_text(struct lessor_slice text, struct lessor_arena *arena, struct json **ret_value,
                        const char **ret_problem)
{
        struct reader r = {
                .arena = arena, .values_left = SIZE_MAX, .is_copy = true, .refuse_duplicates = true};
        struct lessor_slice copy;
        int e = lessor_arena_copy(arena, text, &copy);

        if (e == 0)
                e = read_document(&r, copy, ret_value);
        tell_problem(&r, e, ret_problem);
        return e;
}

int json_read_members(struct lessor_slice text, struct lessor_arena *arena,
                      void (*member)(void *context, const struct json *member, struct lessor_slice text),
                      void *context, const char **ret_problem)
{
        struct reader r = {.arena = arena,
                           .values_left = SIZE_MAX,
                           .lone_surrogates = true,
                           .outline = true,
                           .member = member,
                           .context = context};
        struct json *value;
        int e = read_document(&r, text, &value);

        if (e == 0 && value->type != JSON_OBJECT) {
                r.p = r.start;
                r.problem = "it is no object";
                e = LESSOR_E_INVALID;
        }
        tell_problem(&r, e, ret_problem);
        return e;
}

/* --- Looking at values --- */

struct json *json_member(const struct json *object, struct lessor_slice key)
{
        if (!json_is(object, JSON_OBJECT))
                return NULL;
        json_each (member, object)
                if (lessor_slice_equal(member->key, key))
                        return member;
        return NULL;
}

struct json *json_member_named(const struct json *object, const char *key)
{
        return json_member(object, lessor_slice_of(key));
}

size_t json_count(const struct json *value)
{
        return json_is(value, JSON_ARRAY) || json_is(value, JSON_OBJECT) ? value->items.n : 0;
}

struct lessor_slice json_text(const struct json *value)
{
        return json_is(value, JSON_STRING) ? value->text : (struct lessor_slice){0};
}

bool json_int(const struct json *value, int64_t *ret_number)
{
        double number;

        if (!json_is(value, JSON_NUMBER))
                return false;
        number = value->number;
        if (!(fabs(number) <= INT_MOST) || (double)(int64_t)number != number)
                return false;
        *ret_number = (int64_t)number;
        return true;
}
