/* SPDX-License-Identifier: MIT */
#include "lessor/signals.h"

#include <errno.h>
#include <signal.h>
#include <stddef.h>

/* A handler has no other way to know. */
static void (*volatile watched)(void *context);
static void *volatile watched_context;

static void on_signal(int number)
{
        int saved = errno;

        (void)number;
        if (watched != NULL)
                watched(watched_context);
        errno = saved;
}

void signals_watch(void (*stop)(void *context), void *context)
{
        struct sigaction action = {.sa_flags = (int)SA_RESETHAND};

        action.sa_handler = stop == NULL ? SIG_DFL : on_signal;
        sigemptyset(&action.sa_mask);
        watched_context = context;
        watched = stop;
        sigaction(SIGINT, &action, NULL);
        sigaction(SIGTERM, &action, NULL);
}
