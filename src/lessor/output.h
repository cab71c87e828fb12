/* SPDX-License-Identifier: MIT */
#ifndef LESSOR_OUTPUT_H
#define LESSOR_OUTPUT_H

#include <stdint.h>
#include <stdio.h>

#include "base/buf.h"
#include "lessor/arena.h"

/* What people see: aligned columns, times and sizes in words, colour where there is a terminal to show it. */

enum output_colour { COLOUR_NONE, COLOUR_BOLD, COLOUR_DIM, COLOUR_RED, COLOUR_GREEN, COLOUR_YELLOW };

/* Whether a stream gets colours: a terminal, NO_COLOR unset or empty, TERM not "dumb". */
bool output_has_colour(FILE *stream);

/* A table under construction. Texts are copied. */
struct output_table;

/*
 * titles  borrowed, n_columns of them; a title that begins with `>` makes a column of numbers, aligned right
 * Returns NULL when memory is short.
 */
struct output_table *output_table_new(const char *const *titles, size_t n_columns);
struct output_table *output_table_free(struct output_table *t);

/* The next cell, from left to right and row by row. A failure stays in the table. Control characters, line
 * ends among them, are shown as `?`: texts come from other people. */
void output_cell(struct output_table *t, struct lessor_slice text, enum output_colour colour);
void output_cell_text(struct output_table *t, const char *text);

/*
 * Appends the table, its last row included if it is full. With no rows it appends nothing. Returns 0 or
 * LESSOR_E_NOMEM.
 */
int output_table_write(const struct output_table *t, bool colour, struct buf *out);

/* The columns that a text takes: its code points, without those that combine with the one before. */
size_t output_width(struct lessor_slice text);

/* Appends a text with control characters shown as `?`. */
int output_safe(struct buf *out, struct lessor_slice text);

/* How long something is: "3d 4h", "5m 10s", "12s", "0s". Appends; returns 0 or LESSOR_E_NOMEM. */
int output_span(struct buf *out, int64_t ms);

/* An instant, seen from now: "3m ago", "in 12s", "now". */
int output_when(struct buf *out, int64_t at_ms, int64_t now_ms);

/* A line of what is known about one thing: its title, and the text made safe. Nothing for an empty text. */
int output_line(struct buf *out, const char *title, const char *text);
/* The same for an instant, seen from now; nothing for 0. */
int output_line_when(struct buf *out, const char *title, int64_t at_ms, int64_t now_ms);
/* The same for a whole number. */
int output_line_int(struct buf *out, const char *title, int64_t number);

/* "12.3 MiB". */
int output_bytes(struct buf *out, int64_t bytes);

#endif
