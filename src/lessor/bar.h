/* SPDX-License-Identifier: MIT */
#ifndef LESSOR_BAR_H
#define LESSOR_BAR_H

#include <stdbool.h>
#include <stdint.h>

/*
 * How far a transfer is, on a terminal: a line on stderr that is rewritten, once it has taken longer than a
 * second, and that is gone when it ends. Anywhere else nothing is shown. One thread at a time.
 */
struct bar {
        const char *what; /* static: "sending" */
        int64_t total;    /* bytes; 0: nobody knows */
        int64_t done;     /* bytes */
        int64_t n_files;  /* 0: it is one thing */
        int64_t began_ms; /* monotonic */
        int64_t shown_ms; /* when it was last shown; 0: never */
        bool live;
};

/* quiet  show nothing */
void bar_begin(struct bar *bar, const char *what, int64_t total, bool quiet);

/* Shows it, if it is time. */
void bar_move(struct bar *bar, int64_t done, int64_t n_files);

/* Wipes the line. Also before anything else is said. */
void bar_end(struct bar *bar);

#endif
