/* SPDX-License-Identifier: MIT */
#include "lessor/progress.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "lessor/error.h"
#include "lessor/output.h"

struct progress {
        FILE *stream;
        bool quiet;
        bool colour;
        bool live; /* a terminal: the thread below runs */
        int64_t started_ms;

        pthread_t thread;
        pthread_mutex_t lock;
        pthread_cond_t changed;
        /* With the lock: */
        bool open; /* a line that is rewritten stands there */
        bool ended;
        char step[32];
        char detail[160];
};

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

static void *tick(void *context)
{
        struct progress *p = context;
        struct timespec until;

        pthread_mutex_lock(&p->lock);
        while (!p->ended) {
                clock_gettime(CLOCK_MONOTONIC, &until);
                until.tv_sec++;
                pthread_cond_timedwait(&p->changed, &p->lock, &until);
                if (p->open && !p->ended)
                        show(p);
        }
        pthread_mutex_unlock(&p->lock);
        return NULL;
}

/* Signals are for the thread that works. */
static bool start_ticking(struct progress *p)
{
        sigset_t all, before;
        bool ok;

        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &before);
        ok = pthread_create(&p->thread, NULL, tick, p) == 0;
        pthread_sigmask(SIG_SETMASK, &before, NULL);
        return ok;
}

int progress_new(FILE *stream, bool quiet, struct progress **ret_progress)
{
        struct progress *p = calloc(1, sizeof(*p));
        const char *term = getenv("TERM");
        pthread_condattr_t attributes;

        if (p == NULL)
                return LESSOR_E_NOMEM;
        p->stream = stream;
        p->quiet = quiet;
        p->colour = output_has_colour(stream);
        p->started_ms = clock_monotonic_ms();
        pthread_mutex_init(&p->lock, NULL);
        pthread_condattr_init(&attributes);
        pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
        pthread_cond_init(&p->changed, &attributes);
        pthread_condattr_destroy(&attributes);
        p->live = !quiet && isatty(fileno(stream)) == 1 && term != NULL && strcmp(term, "dumb") != 0;
        if (p->live)
                p->live = start_ticking(p);
        *ret_progress = p;
        return 0;
}

struct progress *progress_free(struct progress *p)
{
        if (p == NULL)
                return NULL;
        progress_end(p);
        pthread_cond_destroy(&p->changed);
        pthread_mutex_destroy(&p->lock);
        free(p);
        return NULL;
}

/* Cut at a whole character. */
static void copy(char *to, size_t cap, const char *from)
{
        struct buf safe = {0};
        size_t n;

        output_safe(&safe, lessor_slice_of(from));
        n = safe.n < cap - 1 ? safe.n : cap - 1;
        while (n > 0 && n < safe.n && ((unsigned char)safe.p[n] & 0xc0) == 0x80)
                n--;
        if (n > 0)
                memcpy(to, safe.p, n);
        to[n] = '\0';
        buf_done(&safe);
}

void progress_step(struct progress *p, const char *step, const char *detail)
{
        char new_step[sizeof(p->step)], new_detail[sizeof(p->detail)];

        copy(new_step, sizeof(new_step), step);
        copy(new_detail, sizeof(new_detail), detail == NULL ? "" : detail);
        pthread_mutex_lock(&p->lock);
        if (!p->quiet && !p->ended &&
            (strcmp(new_step, p->step) != 0 || strcmp(new_detail, p->detail) != 0)) {
                if (p->open)
                        fputc('\n', p->stream);
                memcpy(p->step, new_step, sizeof(new_step));
                memcpy(p->detail, new_detail, sizeof(new_detail));
                show(p);
        }
        pthread_mutex_unlock(&p->lock);
}

void progress_end(struct progress *p)
{
        bool ticking;

        pthread_mutex_lock(&p->lock);
        ticking = p->live && !p->ended;
        p->ended = true;
        if (p->open)
                fputc('\n', p->stream);
        p->open = false;
        pthread_cond_signal(&p->changed);
        pthread_mutex_unlock(&p->lock);
        if (ticking)
                pthread_join(p->thread, NULL);
}
