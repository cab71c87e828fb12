/* SPDX-License-Identifier: MIT */
#ifndef BENCH_REPORT_H
#define BENCH_REPORT_H

#include <stdbool.h>
#include <stdio.h>

#include "base/buf.h"
#include "base/macro.h"
#include "percentiles.h"

/* The figures of a run, in the order in which they were taken. */

enum report_sense { REPORT_NO_TARGET, REPORT_AT_LEAST, REPORT_AT_MOST };

struct report_row {
        char *name;
        double value;
        const char *unit; /* a literal; "" for a ratio */
        enum report_sense sense;
        double target;
};

struct report_section {
        const char *key;    /* literals: the name that --only takes, */
        const char *title;  /* what is measured, */
        const char *method; /* and how, in a paragraph */
        struct report_row *rows;
        size_t n_rows;
};

struct report {
        struct report_section *sections;
        size_t n_sections;
        struct buf command; /* that made it */
        struct buf machine; /* one line of facts */
        struct buf when;    /* the day */
};

void report_done(struct report *report);

/* What follows belongs to this section. Texts are literals. Returns 0 or LESSOR_E_NOMEM. */
int report_section(struct report *report, const char *key, const char *title, const char *method);

/* Each adds to the current section, prints the line on stderr at once, and returns 0 or LESSOR_E_NOMEM. */
int report_value(struct report *report, double value, const char *unit, const char *name, ...)
        __attribute__((format(printf, 4, 5)));
int report_target(struct report *report, double value, const char *unit, enum report_sense sense,
                  double target, const char *name, ...) __attribute__((format(printf, 6, 7)));

/* Rows p50, p90, p99 and max of `latencies`, in microseconds. */
int report_latencies(struct report *report, const struct percentiles *latencies, const char *name);

/* Rows that miss their target. */
size_t report_missed(const struct report *report);

/* The whole report: for people, for programs, and as a page of the documentation. Return 0 or LESSOR_E_NOMEM.
 */
int report_table(const struct report *report, struct buf *out);
int report_json(const struct report *report, struct buf *out);
int report_page(const struct report *report, struct buf *out);

/* One figure in several rounds. */
#define SERIES_MAX 64
struct series {
        double values[SERIES_MAX];
        size_t n;
};

void series_add(struct series *series, double value); /* the 65th and later are left out */
double series_median(const struct series *series);    /* 0 when empty */

#endif
