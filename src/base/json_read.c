/* SPDX-License-Identifier: MIT */
#include "base/json_read.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/limits.h"
#include "lessor/error.h"

#define JANSSON_FLAGS ((size_t)(JSON_DECODE_ANY | JSON_ALLOW_NUL | JSON_DECODE_INT_AS_REAL))

#define INT_MOST 9007199254740991.0 /* 2^53-1 */

/*
 * jansson calls some allocation failures "invalid token", and over others it drops a byte of a long string
 * without saying so; when the next allocation succeeds it then reads past the end of what it saved. So its
 * allocations go through here: during one load, all of them fail after the first that does, and the text
 * counts as not read.
 * TODO(upstream): a failure just where a long number or word ends trips an assertion of jansson's, as
 * of 2.14.
 */
static _Thread_local bool loading, out_of_memory;

static void *allocate(size_t n)
{
        void *p = loading && out_of_memory ? NULL : malloc(n);

        if (p == NULL)
                out_of_memory = true;
        return p;
}

static void watch_allocations(void)
{
        json_set_alloc_funcs(allocate, free);
}

/* The index of the quote that ends the string that begins at `at`, or of the end of the text. */
static size_t string_end(struct lessor_slice text, size_t at)
{
        for (at++; at < text.n && text.p[at] != '"'; at++) {
                if (text.p[at] == '\\' && at + 1 < text.n)
                        at++;
        }
        return at;
}

/*
 * Looks at braces and commas alone, so that a text which would cost a deep recursion, or more than a hundred
 * times its own size, is refused before either.
 */
static int bounds_check(struct lessor_slice text, size_t most_values)
{
        size_t depth = 0, n_values = 1;

        for (size_t i = 0; i < text.n; i++) {
                switch (text.p[i]) {
                case '\0':
                        /* jansson takes it for the end of the text and would read no further */
                        return LESSOR_E_MALFORMED;
                case '"':
                        i = string_end(text, i);
                        break;
                case '[':
                case '{':
                        n_values++;
                        if (++depth > LIMIT_JSON_DEPTH)
                                return LESSOR_E_TOO_LARGE;
                        break;
                case ']':
                case '}':
                        if (depth > 0)
                                depth--;
                        break;
                case ',':
                        n_values++;
                        break;
                default:
                        break;
                }
                if (n_values > most_values)
                        return LESSOR_E_TOO_LARGE;
        }
        return 0;
}

static const char *skip_digits(const char *p)
{
        while (*p >= '0' && *p <= '9')
                p++;
        return p;
}

/* The end of the JSON number at p, or NULL if what stands there is none. The text ends with a NUL. */
static const char *number_end(const char *p)
{
        const char *from;

        if (*p == '-')
                p++;
        from = p;
        p = skip_digits(p);
        if (p == from || (*from == '0' && p - from > 1))
                return NULL;
        if (*p == '.') {
                from = ++p;
                p = skip_digits(p);
                if (p == from)
                        return NULL;
        }
        if (*p == 'e' || *p == 'E') {
                p++;
                if (*p == '+' || *p == '-')
                        p++;
                from = p;
                p = skip_digits(p);
                if (p == from)
                        return NULL;
        }
        return p;
}

static bool in_number(char c)
{
        return (c >= '0' && c <= '9') || c == '-' || c == '+' || c == '.' || c == 'e' || c == 'E';
}

/*
 * Puts 0.5 where a number is too large for a double, in place: "1e400" becomes "0.500". The shortest such
 * number has five characters, so it always fits. What only looks like a number is left for jansson to refuse.
 */
static void replace_infinities(char *p, size_t n)
{
        struct lessor_slice text = {p, n};

        for (size_t i = 0; i < n;) {
                size_t from = i;

                if (p[i] == '"') {
                        i = string_end(text, i) + 1;
                        continue;
                }
                if (p[i] != '-' && (p[i] < '0' || p[i] > '9')) {
                        i++;
                        continue;
                }
                while (i < n && in_number(p[i]))
                        i++;
                if (number_end(p + from) == p + i && isinf(strtod(p + from, NULL))) {
                        memset(p + from, '0', i - from);
                        p[from + 1] = '.';
                        p[from + 2] = '5';
                }
        }
}

/* Loads the text, and loads it once more if all that was wrong is a number too large for a double. */
static json_t *load(struct lessor_slice text, size_t flags, struct lessor_arena *arena, json_error_t *error)
{
        json_t *value = json_loadb(text.p, text.n, flags, error);
        struct lessor_slice copy;

        if (value != NULL || json_error_code(error) != json_error_numeric_overflow)
                return value;
        if (lessor_arena_copy(arena, text, &copy) < 0) {
                out_of_memory = true;
                return NULL;
        }
        replace_infinities((char *)copy.p, copy.n);
        return json_loadb(copy.p, copy.n, flags, error);
}

/* "line 3, column 7: '}' expected". What stands there is left out, since it could be a secret. */
static const char *describe(struct lessor_arena *arena, json_error_t *error)
{
        const size_t cap = sizeof(error->text) + 64;
        char *near = strstr(error->text, " near ");
        char *problem = lessor_arena_alloc(arena, cap);

        if (problem == NULL)
                return "it is no well-formed JSON";
        if (near != NULL)
                *near = '\0';
        snprintf(problem, cap, "line %d, column %d: %s", error->line, error->column, error->text);
        return problem;
}

static void drop_value(void *value)
{
        json_decref(value);
}

static int read_text(struct lessor_slice text, size_t flags, size_t most_values, struct lessor_arena *arena,
                     json_t **ret_value, const char **ret_problem)
{
        static pthread_once_t once = PTHREAD_ONCE_INIT;
        json_error_t error;
        json_t *value;
        int r;

        r = bounds_check(text, most_values);
        if (r < 0) {
                *ret_problem = r == LESSOR_E_TOO_LARGE ? "it is nested too deeply or has too many values"
                                                       : "it has a NUL outside its strings";
                return r;
        }
        if (text.n == 0) {
                *ret_problem = "it is empty";
                return LESSOR_E_MALFORMED;
        }
        pthread_once(&once, watch_allocations);
        out_of_memory = false;
        loading = true;
        value = load(text, flags, arena, &error);
        loading = false;
        if (!out_of_memory && value == NULL) {
                *ret_problem = describe(arena, &error);
                return LESSOR_E_MALFORMED;
        }
        if (out_of_memory || lessor_arena_own(arena, value, drop_value) < 0) {
                json_decref(value);
                *ret_problem = lessor_error_text(LESSOR_E_NOMEM);
                return LESSOR_E_NOMEM;
        }
        *ret_value = value;
        return 0;
}

int json_read(struct lessor_slice text, struct lessor_arena *arena, json_t **ret_value)
{
        const char *problem;

        return read_text(text, JANSSON_FLAGS, LIMIT_JSON_VALUES, arena, ret_value, &problem);
}

int json_read_file_text(struct lessor_slice text, struct lessor_arena *arena, json_t **ret_value,
                        const char **ret_problem)
{
        const char *problem = NULL;
        int r = read_text(text, JANSSON_FLAGS | JSON_REJECT_DUPLICATES, SIZE_MAX, arena, ret_value, &problem);

        if (r < 0 && ret_problem != NULL)
                *ret_problem = problem;
        return r;
}

struct lessor_slice json_text(const json_t *value)
{
        return (struct lessor_slice){json_string_value(value), json_string_length(value)};
}

bool json_int(const json_t *value, int64_t *ret_number)
{
        double number;

        if (!json_is_number(value))
                return false;
        number = json_number_value(value);
        if (!(fabs(number) <= INT_MOST) || (double)(int64_t)number != number)
                return false;
        *ret_number = (int64_t)number;
        return true;
}
