/* SPDX-License-Identifier: MIT */
#include "lessor/progress.h"

#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "lessor/output.h"

void progress_begin(struct progress *p, FILE *stream, bool quiet)
{
        const char *term = getenv("TERM");

        *p = (struct progress){.stream = stream, .quiet = quiet, .started_ms = clock_monotonic_ms()};
        p->live = !quiet && isatty(fileno(stream)) == 1 && term != NULL && strcmp(term, "dumb") != 0;
        p->colour = output_has_colour(stream);
}

static void show(struct progress *p)
{
        int64_t ms = clock_monotonic_ms() - p->started_ms;

        if (p->live)
                fputs("\r\033[K", p->stream);
        fprintf(p->stream, "%s%6lld.%01llds%s  %s%s%s", p->colour ? "\033[2m" : "", (long long)(ms / 1000),
                (long long)(ms % 1000 / 100), p->colour ? "\033[0m" : "", p->step,
                p->detail[0] == '\0' ? "" : " ", p->detail);
        if (!p->live)
                fputc('\n', p->stream);
        fflush(p->stream);
        p->open = p->live;
}

/* Cut at a whole character. */
static void copy(char *to, size_t cap, const char *from)
{
        size_t n = strnlen(from, cap - 1);

        while (n > 0 && ((unsigned char)from[n] & 0xc0) == 0x80)
                n--;
        memcpy(to, from, n);
        to[n] = '\0';
}

void progress_step(struct progress *p, const char *step, const char *detail)
{
        char before[sizeof(p->detail)];

        if (p->quiet)
                return;
        memcpy(before, p->detail, sizeof(before));
        copy(p->detail, sizeof(p->detail), detail == NULL ? "" : detail);
        if (strcmp(step, p->step) == 0 && strcmp(before, p->detail) == 0)
                return;
        if (p->open)
                fputc('\n', p->stream);
        copy(p->step, sizeof(p->step), step);
        show(p);
}

void progress_tick(struct progress *p)
{
        if (p->live && p->step[0] != '\0' && p->open)
                show(p);
}

void progress_end(struct progress *p)
{
        if (p->open)
                fputc('\n', p->stream);
        p->open = false;
}
