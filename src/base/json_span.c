/* SPDX-License-Identifier: MIT */
#include "base/json_span.h"

#include <stdbool.h>

static bool is_blank(char c)
{
        return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static size_t skip_blanks(struct lessor_slice text, size_t at)
{
        while (at < text.n && is_blank(text.p[at]))
                at++;
        return at;
}

/* From an opening quote to behind the closing one. */
static size_t skip_string(struct lessor_slice text, size_t at)
{
        for (at++; at < text.n && text.p[at] != '"'; at++)
                at += text.p[at] == '\\';
        return at < text.n ? at + 1 : text.n;
}

/* To what ends a number or a word. */
static size_t skip_scalar(struct lessor_slice text, size_t at)
{
        while (at < text.n && !is_blank(text.p[at]) && text.p[at] != ',' && text.p[at] != '}' &&
               text.p[at] != ']')
                at++;
        return at;
}

/* From an opening bracket to behind the one that closes it. */
static size_t skip_nested(struct lessor_slice text, size_t at)
{
        size_t depth = 0;

        while (at < text.n) {
                char c = text.p[at];

                if (c == '"') {
                        at = skip_string(text, at);
                        continue;
                }
                at++;
                if (c == '{' || c == '[')
                        depth++;
                else if ((c == '}' || c == ']') && --depth == 0)
                        break;
        }
        return at;
}

static size_t skip_value(struct lessor_slice text, size_t at)
{
        if (at < text.n && text.p[at] == '"')
                return skip_string(text, at);
        if (at < text.n && (text.p[at] == '{' || text.p[at] == '['))
                return skip_nested(text, at);
        return skip_scalar(text, at);
}

struct lessor_slice json_span_member(struct lessor_slice text, struct lessor_slice quoted_key)
{
        size_t at = skip_blanks(text, 0) + 1; /* behind the brace */

        while (at < text.n) {
                size_t key = skip_blanks(text, at), key_end, value, value_end;

                if (key >= text.n || text.p[key] != '"')
                        break;
                key_end = skip_string(text, key);
                value = skip_blanks(text, skip_blanks(text, key_end) + 1); /* behind the colon */
                if (value >= text.n)
                        break;
                value_end = skip_value(text, value);
                if (lessor_slice_equal((struct lessor_slice){text.p + key, key_end - key}, quoted_key))
                        return (struct lessor_slice){text.p + value, value_end - value};
                at = skip_blanks(text, value_end) + 1; /* behind the comma */
        }
        return (struct lessor_slice){0};
}
