/* SPDX-License-Identifier: MIT */
#include "lessor/output.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/macro.h"
#include "base/size.h"
#include "lessor/error.h"

struct cell {
        size_t at, n; /* in `text` */
        size_t width;
        enum output_colour colour;
};

struct output_table {
        const char *const *titles;
        size_t n_columns;
        struct buf text;
        struct cell *cells;
        size_t n_cells, cap;
        size_t *widths; /* of the columns */
        bool failed;
};

static const char *const colour_codes[] = {"", "\033[1m", "\033[2m", "\033[31m", "\033[32m", "\033[33m"};
#define COLOUR_END "\033[0m"
#define GAP        2

bool output_has_colour(FILE *stream)
{
        const char *no = getenv("NO_COLOR"), *term = getenv("TERM");

        if (no != NULL && no[0] != '\0')
                return false;
        if (term == NULL || strcmp(term, "dumb") == 0)
                return false;
        return isatty(fileno(stream)) == 1;
}

/* One code point of a text that should be UTF-8; a byte that is none counts as one. */
static size_t next_point(struct lessor_slice text, size_t at, uint32_t *ret_point)
{
        unsigned char c = (unsigned char)text.p[at];
        size_t n = c < 0x80 ? 1 : c >= 0xf0 ? 4 : c >= 0xe0 ? 3 : c >= 0xc0 ? 2 : 1;
        uint32_t point = c;

        if (n > 1)
                point = c & (0xffu >> (n + 1));
        if (at + n > text.n)
                n = 1;
        for (size_t i = 1; i < n; i++)
                point = point << 6 | ((unsigned char)text.p[at + i] & 0x3f);
        *ret_point = point;
        return n;
}

/* Marks that stand on the letter before them, and joiners. */
static bool combines(uint32_t point)
{
        return (point >= 0x300 && point <= 0x36f) || (point >= 0x1ab0 && point <= 0x1aff) ||
               (point >= 0x20d0 && point <= 0x20ff) || (point >= 0xfe00 && point <= 0xfe0f) ||
               (point >= 0xfe20 && point <= 0xfe2f) || point == 0x200b || point == 0x200d;
}

/* What could move the cursor or change the direction of what follows. */
static bool controls(uint32_t point)
{
        return point < 0x20 || (point >= 0x7f && point < 0xa0) || point == 0x2028 || point == 0x2029 ||
               (point >= 0x202a && point <= 0x202e) || (point >= 0x2066 && point <= 0x2069);
}

size_t output_width(struct lessor_slice text)
{
        size_t width = 0;
        uint32_t point;

        for (size_t at = 0; at < text.n; at += next_point(text, at, &point)) {
                next_point(text, at, &point);
                width += combines(point) ? 0 : 1;
        }
        return width;
}

int output_safe(struct buf *out, struct lessor_slice text)
{
        size_t n;

        for (size_t at = 0; at < text.n; at += n) {
                uint32_t point;

                n = next_point(text, at, &point);
                if (controls(point))
                        buf_char(out, '?');
                else
                        buf_append(out, text.p + at, n);
        }
        return buf_failed(out);
}

static bool is_right(const char *title)
{
        return title[0] == '>';
}

static struct lessor_slice title_text(const char *title)
{
        return lessor_slice_of(is_right(title) ? title + 1 : title);
}

struct output_table *output_table_new(const char *const *titles, size_t n_columns)
{
        struct output_table *t = calloc(1, sizeof(*t));

        if (t == NULL)
                return NULL;
        t->widths = calloc(n_columns, sizeof(*t->widths));
        if (t->widths == NULL)
                return output_table_free(t);
        t->titles = titles;
        t->n_columns = n_columns;
        for (size_t i = 0; i < n_columns; i++)
                t->widths[i] = output_width(title_text(titles[i]));
        return t;
}

struct output_table *output_table_free(struct output_table *t)
{
        if (t == NULL)
                return NULL;
        buf_done(&t->text);
        free(t->widths);
        free(t->cells);
        free(t);
        return NULL;
}

static bool grow(struct output_table *t)
{
        size_t cap = t->cap == 0 ? 64 : t->cap * 2, bytes;
        struct cell *cells;

        if (!size_mul(cap, sizeof(*cells), &bytes))
                return false;
        cells = realloc(t->cells, bytes);
        if (cells == NULL)
                return false;
        t->cells = cells;
        t->cap = cap;
        return true;
}

void output_cell(struct output_table *t, struct lessor_slice text, enum output_colour colour)
{
        struct cell cell = {.at = t->text.n, .colour = colour};

        if (t->failed || (t->n_cells == t->cap && !grow(t)) || output_safe(&t->text, text) < 0) {
                t->failed = true;
                return;
        }
        cell.n = t->text.n - cell.at;
        cell.width = output_width((struct lessor_slice){t->text.p + cell.at, cell.n});
        if (cell.width > t->widths[t->n_cells % t->n_columns])
                t->widths[t->n_cells % t->n_columns] = cell.width;
        t->cells[t->n_cells++] = cell;
}

void output_cell_text(struct output_table *t, const char *text)
{
        output_cell(t, text == NULL ? LESSOR_SLICE("") : lessor_slice_of(text), COLOUR_NONE);
}

static void pad(struct buf *out, size_t n)
{
        while (n-- > 0)
                buf_char(out, ' ');
}

/* No blanks at the end of a line: the last column is not filled up. */
static void put(struct buf *out, struct lessor_slice text, size_t width, size_t column_width, bool right,
                bool last, const char *colour)
{
        if (right)
                pad(out, column_width - width);
        buf_text(out, colour);
        buf_slice(out, text);
        if (colour[0] != '\0')
                buf_text(out, COLOUR_END);
        if (!right && !last)
                pad(out, column_width - width);
        if (last)
                buf_char(out, '\n');
        else
                pad(out, GAP);
}

int output_table_write(const struct output_table *t, bool colour, struct buf *out)
{
        if (t->failed)
                return LESSOR_E_NOMEM;
        if (t->n_cells < t->n_columns)
                return 0;
        for (size_t c = 0; c < t->n_columns; c++) {
                struct lessor_slice title = title_text(t->titles[c]);

                put(out, title, output_width(title), t->widths[c], is_right(t->titles[c]),
                    c + 1 == t->n_columns, colour ? colour_codes[COLOUR_BOLD] : "");
        }
        for (size_t i = 0; i + t->n_columns <= t->n_cells; i += t->n_columns)
                for (size_t c = 0; c < t->n_columns; c++) {
                        const struct cell *cell = &t->cells[i + c];

                        put(out,
                            (struct lessor_slice){t->text.p == NULL ? "" : t->text.p + cell->at, cell->n},
                            cell->width, t->widths[c], is_right(t->titles[c]), c + 1 == t->n_columns,
                            colour ? colour_codes[cell->colour] : "");
                }
        return buf_failed(out);
}

int output_span(struct buf *out, int64_t ms)
{
        static const struct {
                int64_t ms;
                char unit;
        } units[] = {{86400000, 'd'}, {3600000, 'h'}, {60000, 'm'}, {1000, 's'}};
        size_t i = 0;

        if (ms < 0)
                ms = 0;
        while (i < 3 && ms < units[i].ms)
                i++;
        buf_printf(out, "%lld%c", (long long)(ms / units[i].ms), units[i].unit);
        if (i < 3 && ms % units[i].ms >= units[i + 1].ms)
                buf_printf(out, " %lld%c", (long long)(ms % units[i].ms / units[i + 1].ms),
                           units[i + 1].unit);
        return buf_failed(out);
}

int output_when(struct buf *out, int64_t at_ms, int64_t now_ms)
{
        int64_t ago_ms = now_ms - at_ms;

        if (ago_ms > -1000 && ago_ms < 1000)
                return buf_text(out, "now");
        if (ago_ms < 0) {
                buf_text(out, "in ");
                return output_span(out, -ago_ms);
        }
        output_span(out, ago_ms);
        return buf_text(out, " ago");
}

#define TITLE_WIDTH 12

int output_line(struct buf *out, const char *title, const char *text)
{
        if (text[0] == '\0')
                return 0;
        buf_printf(out, "%-*s", TITLE_WIDTH, title);
        output_safe(out, lessor_slice_of(text));
        return buf_char(out, '\n');
}

int output_line_when(struct buf *out, const char *title, int64_t at_ms, int64_t now_ms)
{
        if (at_ms == 0)
                return 0;
        buf_printf(out, "%-*s", TITLE_WIDTH, title);
        output_when(out, at_ms, now_ms);
        return buf_char(out, '\n');
}

int output_line_int(struct buf *out, const char *title, int64_t number)
{
        return buf_printf(out, "%-*s%lld\n", TITLE_WIDTH, title, (long long)number);
}

int output_bytes(struct buf *out, int64_t bytes)
{
        static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
        int64_t tenths = bytes * 10;
        size_t i = 0;

        if (bytes < 1024)
                return buf_printf(out, "%lld B", (long long)bytes);
        while (tenths >= 10240 && i + 1 < ARRAY_SIZE(units)) {
                tenths /= 1024;
                i++;
        }
        return buf_printf(out, "%lld.%lld %s", (long long)(tenths / 10), (long long)(tenths % 10), units[i]);
}
