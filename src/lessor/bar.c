/* SPDX-License-Identifier: MIT */
#include "lessor/bar.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "lessor/output.h"

#define FIRST_MS 1000
#define EVERY_MS 100
#define WIDTH    24

void bar_begin(struct bar *bar, const char *what, int64_t total, bool quiet)
{
        const char *term = getenv("TERM");

        *bar = (struct bar){.what = what, .total = total, .began_ms = clock_monotonic_ms()};
        bar->live = !quiet && isatty(STDERR_FILENO) == 1 && term != NULL && strcmp(term, "dumb") != 0;
}

static void put_share(struct buf *line, const struct bar *bar)
{
        int64_t share = bar->total <= 0           ? 0
                        : bar->done >= bar->total ? 100
                                                  : bar->done / (bar->total / 100 + 1);
        int64_t full = share * WIDTH / 100;

        if (bar->total <= 0)
                return;
        buf_text(line, " [");
        for (int i = 0; i < WIDTH; i++)
                buf_text(line, i < full ? "=" : i == full ? ">" : " ");
        buf_printf(line, "] %3d%%", (int)share);
}

static void show(struct bar *bar, int64_t now_ms)
{
        int64_t ms = now_ms - bar->began_ms;
        struct buf line = {0};

        buf_printf(&line, "\r\033[K%s", bar->what);
        put_share(&line, bar);
        buf_char(&line, ' ');
        if (bar->n_files > 0)
                buf_printf(&line, "%lld files, ", (long long)bar->n_files);
        output_bytes(&line, bar->done);
        if (bar->total > 0) {
                buf_text(&line, " of ");
                output_bytes(&line, bar->total);
        }
        buf_text(&line, ", ");
        output_bytes(&line, bar->done / (ms / 1000 + 1));
        buf_text(&line, "/s");
        if (buf_failed(&line) == 0)
                fputs(line.p, stderr);
        fflush(stderr);
        buf_done(&line);
        bar->shown_ms = now_ms;
}

void bar_move(struct bar *bar, int64_t done, int64_t n_files)
{
        int64_t now_ms;

        bar->done = done;
        bar->n_files = n_files;
        if (!bar->live)
                return;
        now_ms = clock_monotonic_ms();
        if (now_ms - bar->began_ms >= FIRST_MS && now_ms - bar->shown_ms >= EVERY_MS)
                show(bar, now_ms);
}

void bar_end(struct bar *bar)
{
        if (bar->shown_ms != 0) {
                fputs("\r\033[K", stderr);
                fflush(stderr);
        }
        bar->shown_ms = 0;
        bar->live = false;
}
