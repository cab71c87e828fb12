/* SPDX-License-Identifier: MIT */
#include "report.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/json_write.h"
#include "lessor/error.h"

void report_done(struct report *report)
{
        for (size_t i = 0; i < report->n_sections; i++) {
                for (size_t k = 0; k < report->sections[i].n_rows; k++)
                        free(report->sections[i].rows[k].name);
                free(report->sections[i].rows);
        }
        free(report->sections);
        buf_done(&report->command);
        buf_done(&report->machine);
        buf_done(&report->when);
}

int report_section(struct report *report, const char *key, const char *title, const char *method)
{
        struct report_section *sections =
                reallocarray(report->sections, report->n_sections + 1, sizeof(*sections));

        if (sections == NULL)
                return LESSOR_E_NOMEM;
        report->sections = sections;
        sections[report->n_sections++] =
                (struct report_section){.key = key, .title = title, .method = method};
        fprintf(stderr, "%s\n", title);
        return 0;
}

static bool is_met(const struct report_row *row)
{
        return row->sense == REPORT_AT_LEAST ? row->value >= row->target : row->value <= row->target;
}

/* As many digits as mean something. */
static int append_number(struct buf *out, double value)
{
        double size = fabs(value);

        return buf_printf(out, "%.*f", size >= 100 || size == floor(size) ? 0 : size >= 10 ? 1 : 2, value);
}

static void append_target(struct buf *out, const struct report_row *row)
{
        if (row->sense == REPORT_NO_TARGET)
                return;
        buf_text(out, row->sense == REPORT_AT_LEAST ? "at least " : "at most ");
        append_number(out, row->target);
        buf_text(out, is_met(row) ? ": met" : ": missed");
}

static void append_line(struct buf *out, const struct report_row *row)
{
        size_t before = out->n;

        buf_printf(out, "  %-58s ", row->name);
        append_number(out, row->value);
        buf_printf(out, " %s", row->unit);
        if (row->sense != REPORT_NO_TARGET) {
                buf_printf(out, "%*s", (int)(out->n - before < 78 ? 78 - (out->n - before) : 1), "");
                append_target(out, row);
        }
        buf_char(out, '\n');
}

static int add_row(struct report *report, struct report_row row, const char *format, va_list args)
{
        struct report_section *section = &report->sections[report->n_sections - 1];
        _cleanup_(buf_done) struct buf line = {0};
        struct report_row *rows = reallocarray(section->rows, section->n_rows + 1, sizeof(*rows));

        if (rows == NULL)
                return LESSOR_E_NOMEM;
        section->rows = rows;
        if (vasprintf(&row.name, format, args) < 0)
                return LESSOR_E_NOMEM;
        rows[section->n_rows++] = row;
        append_line(&line, &row);
        if (buf_failed(&line) == 0)
                fputs(line.p, stderr);
        return buf_failed(&line);
}

int report_value(struct report *report, double value, const char *unit, const char *name, ...)
{
        va_list args;
        int e;

        va_start(args, name);
        e = add_row(report, (struct report_row){.value = value, .unit = unit}, name, args);
        va_end(args);
        return e;
}

int report_target(struct report *report, double value, const char *unit, enum report_sense sense,
                  double target, const char *name, ...)
{
        const struct report_row row = {.value = value, .unit = unit, .sense = sense, .target = target};
        va_list args;
        int e;

        va_start(args, name);
        e = add_row(report, row, name, args);
        va_end(args);
        return e;
}

int report_latencies(struct report *report, const struct percentiles *latencies, const char *name)
{
        static const struct {
                const char *name;
                double share;
        } points[] = {{"p50", 0.5}, {"p90", 0.9}, {"p99", 0.99}};
        int e = 0;

        for (size_t i = 0; i < ARRAY_SIZE(points) && e == 0; i++)
                e = report_value(report, (double)percentiles_at(latencies, points[i].share) / 1e3, "us",
                                 "%s, %s", name, points[i].name);
        return e < 0 ? e : report_value(report, (double)latencies->max_ns / 1e3, "us", "%s, max", name);
}

size_t report_missed(const struct report *report)
{
        size_t n = 0;

        for (size_t i = 0; i < report->n_sections; i++)
                for (size_t k = 0; k < report->sections[i].n_rows; k++) {
                        const struct report_row *row = &report->sections[i].rows[k];

                        n += row->sense != REPORT_NO_TARGET && !is_met(row);
                }
        return n;
}

int report_table(const struct report *report, struct buf *out)
{
        buf_printf(out, "%s\n%s\n", report->machine.p, report->command.p);
        for (size_t i = 0; i < report->n_sections; i++) {
                buf_printf(out, "\n%s\n", report->sections[i].title);
                for (size_t k = 0; k < report->sections[i].n_rows; k++)
                        append_line(out, &report->sections[i].rows[k]);
        }
        return buf_failed(out);
}

static void put_number(struct json_writer *w, const char *key, double value)
{
        char text[40];

        snprintf(text, sizeof(text), "%.6g", value);
        json_member_raw(w, key, lessor_slice_of(text));
}

static void put_row(struct json_writer *w, const struct report_row *row)
{
        json_open_object(w);
        json_member_cstr(w, "name", row->name);
        put_number(w, "value", row->value);
        json_member_cstr(w, "unit", row->unit);
        if (row->sense != REPORT_NO_TARGET) {
                put_number(w, row->sense == REPORT_AT_LEAST ? "atLeast" : "atMost", row->target);
                json_member_bool(w, "met", is_met(row));
        }
        json_close_object(w);
}

int report_json(const struct report *report, struct buf *out)
{
        struct json_writer w;

        json_writer_init(&w, out);
        json_open_object(&w);
        json_member_text(&w, "command", buf_view(&report->command));
        json_member_text(&w, "machine", buf_view(&report->machine));
        json_member_text(&w, "date", buf_view(&report->when));
        json_key(&w, "sections");
        json_open_array(&w);
        for (size_t i = 0; i < report->n_sections; i++) {
                json_open_object(&w);
                json_member_cstr(&w, "key", report->sections[i].key);
                json_member_cstr(&w, "title", report->sections[i].title);
                json_key(&w, "rows");
                json_open_array(&w);
                for (size_t k = 0; k < report->sections[i].n_rows; k++)
                        put_row(&w, &report->sections[i].rows[k]);
                json_close_array(&w);
                json_close_object(&w);
        }
        json_close_array(&w);
        json_close_object(&w);
        buf_char(out, '\n');
        return buf_failed(out);
}

int report_page(const struct report *report, struct buf *out)
{
        buf_printf(
                out,
                "# Performance\n\n"
                "Written by `%s` on %s; do not edit. The machine: %s.\n\n"
                "Every server runs alone on one core, with one worker thread, log level warning and a "
                "fresh data directory; the load generator (`bench/`) runs on another core of the same "
                "machine and talks to it over loopback. Figures are medians of the rounds of one run. "
                "Where two servers are compared, both were measured in that run, in turn. Absolute figures "
                "are worth as much as the machine is idle; the ratios are what we hold ourselves to.\n\n"
                "How to take figures that mean something: nothing else may run on the machine, not even "
                "on another core, since caches, memory and clock are shared. Where that cannot be had, "
                "believe CPU time rather than the clock, and of CPU time the ratio to verifications that "
                "were measured within the same second; a server that waits for memory suffers more from "
                "neighbours than verifying does, so even that errs on the low side. To compare "
                "two builds, let them take turns (`--lessord`, `--only claims --rounds 1`), or count what "
                "does not depend on neighbours: instructions (`valgrind --tool=callgrind`) and system "
                "calls (`strace -c -f`). Loopback makes the server pay for what a network's other end "
                "pays for itself: about half of what sending an answer takes is the client's receiving.\n",
                report->command.p, report->when.p, report->machine.p);
        for (size_t i = 0; i < report->n_sections; i++) {
                const struct report_section *section = &report->sections[i];

                buf_printf(out, "\n## %s\n\n%s\n\n| figure | value | target |\n|---|--:|---|\n",
                           section->title, section->method);
                for (size_t k = 0; k < section->n_rows; k++) {
                        buf_printf(out, "| %s | ", section->rows[k].name);
                        append_number(out, section->rows[k].value);
                        buf_printf(out, "%s%s | ", section->rows[k].unit[0] == '\0' ? "" : " ",
                                   section->rows[k].unit);
                        append_target(out, &section->rows[k]);
                        buf_text(out, " |\n");
                }
        }
        return buf_failed(out);
}

void series_add(struct series *series, double value)
{
        if (series->n < SERIES_MAX)
                series->values[series->n++] = value;
}

static int compare(const void *a, const void *b)
{
        double x = *(const double *)a, y = *(const double *)b;

        return (x > y) - (x < y);
}

double series_median(const struct series *series)
{
        struct series sorted = *series;

        if (sorted.n == 0)
                return 0;
        qsort(sorted.values, sorted.n, sizeof(sorted.values[0]), compare);
        if (sorted.n % 2 == 1)
                return sorted.values[sorted.n / 2];
        return (sorted.values[sorted.n / 2 - 1] + sorted.values[sorted.n / 2]) / 2;
}
